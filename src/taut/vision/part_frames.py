"""What is known of an object of parts before training: its tree, aspects, size and scales."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.errors import InvalidData
from taut.vision.joints import Skeleton, joint_boxes
from taut.vision.poses import JointPose, aspects_of, mirrored_joints, sizes_of, tree_of
from taut.vision.templates import scales_of_sizes


class ShownParts(NamedTuple):
    """The objects of images, one in each, as they are shown to the extractor of features."""

    joints: np.ndarray  # (n, n_parts, 2), float64
    visible: np.ndarray  # (n, n_parts), bool
    sizes: np.ndarray  # (n,), float64: of objects in pixels
    widths: np.ndarray  # (n,), float64: of images in pixels


class PartFrame(NamedTuple):
    """The tree of parts, where their aspects are, and at which scales objects are looked for."""

    names: np.ndarray  # (n_parts,), text
    parents: np.ndarray  # (n_parts,), int64
    counts: np.ndarray  # (n_parts,), int64: how many aspects each part has
    anchors: np.ndarray  # (n_aspects in all, 2), float64: from the parent, in sizes of the object
    layout: np.ndarray  # (n_parts, 2), float64: where parts are in the mean, in sizes
    scales: np.ndarray  # factors by which images are resized

    def anchors_in(self, cells: float) -> list[np.ndarray]:
        """Those of each part in cells, where an object is `cells` cells large."""
        return np.split(self.anchors * cells, np.cumsum(self.counts)[:-1])

    def facts(self) -> dict[str, np.ndarray]:
        """The fitted attributes that it is."""
        return {f"{name}_": value for name, value in self._asdict().items()}

    @classmethod
    def of(cls, model: Any) -> PartFrame:
        """That of a fitted model."""
        return cls(*(getattr(model, f"{name}_") for name in cls._fields))


def object_sizes(joints: np.ndarray, visible: np.ndarray) -> np.ndarray:
    """How large objects are in pixels: about the larger side of the box of all joints.

    As of `taut.vision.poses.sizes_of`, times what that side is in the median.
    """
    seen = visible.any(axis=1)
    if not seen.any():
        raise InvalidData(
            "all joints of all objects are invisible: give images of which some show the object"
        )
    sizes = sizes_of(joints, visible)
    edges = joint_boxes(joints, visible)
    larger = (edges[:, 2:] - edges[:, :2]).max(axis=1)
    most = visible.sum(axis=1) >= np.quantile(visible[seen].sum(axis=1), 0.5)
    return sizes * np.median(larger[most] / sizes[most])


def part_frame(
    skeleton: Skeleton,
    shown: ShownParts,
    aspects: int,
    cells: float,
    cell: int,
    step: float,
    mirror: bool,
) -> tuple[PartFrame, list[JointPose]]:
    """The frame that objects ask for, and the poses of images, each followed by its mirror image.

    Parameters
    ----------
    skeleton : Skeleton
        Its tree may be unknown: then it is found.
    shown : ShownParts
    aspects : int
        Most aspects of a part.
    cells : float
        How many cells an object has along its size, on the level that it belongs to.
    cell : int
        Side of a cell in pixels of the resized image.
    step : float
        Factor between two scales.
    mirror : bool
        Whether mirror images are learned from.
    """
    joints, visible, sizes = shown.joints, shown.visible, shown.sizes
    if mirror:
        pairs = zip(
            (joints, visible),
            mirrored_joints(joints, visible, shown.widths, skeleton.swaps),
            strict=True,
        )
        joints, visible = (np.stack(pair, axis=1).reshape(-1, *pair[0].shape[1:]) for pair in pairs)
        sizes = np.repeat(sizes, 2)
    there = visible.any(axis=1)
    parents = skeleton.parents
    if not len(parents):
        if visible.shape[1] > 1 and np.count_nonzero(shown.visible.any(axis=1)) < 2:
            raise InvalidData(
                "the object is visible in one image alone, from which no tree of its parts can be "
                "found: give tree, or more images"
            )
        parents = tree_of(joints, visible, sizes)
    found = aspects_of(joints, visible, parents, aspects, sizes)
    frame = PartFrame(
        np.array(skeleton.names),
        parents,
        found.counts,
        np.vstack(found.centres),
        _layout(joints / sizes[:, None, None], visible, parents),
        scales_of_sizes(sizes[there], cells * cell, step),
    )
    poses = [
        JointPose(*own) for own in zip(joints, visible, found.numbers, sizes.tolist(), strict=True)
    ]
    return frame, poses


def _layout(scaled: np.ndarray, visible: np.ndarray, parents: np.ndarray) -> np.ndarray:
    """Where parts are in the mean: mean steps from parent to child, added up from the root."""
    layout, left = np.zeros((len(parents), 2)), list(range(len(parents)))
    done = {-1}
    while left:
        rest = []
        for p in left:
            above = parents[p]
            if above not in done:
                rest.append(p)
                continue
            done.add(p)
            both = visible[:, p] & visible[:, above]
            if above >= 0:
                layout[p] = layout[above]
            if above >= 0 and both.any():
                layout[p] += (scaled[both, p] - scaled[both, above]).mean(axis=0)
        left = rest
    return layout


def complete_joints(pose: JointPose, frame: PartFrame) -> np.ndarray:
    """The joints of a pose, those that are not visible where one would expect them.

    That is as far from the nearest visible joint along the tree as in the mean of the training
    objects. NaN if no joint is visible.
    """
    joints = np.where(pose.visible[:, None], pose.joints, np.nan)
    children = np.flatnonzero(frame.parents >= 0)
    edges = [(p, int(frame.parents[p])) for p in children.tolist()]
    known = pose.visible.copy()
    for _ in edges:
        before = known.copy()
        for a, b in [*edges, *((b, a) for a, b in edges)]:
            if before[b] and not known[a]:
                joints[a] = joints[b] + (frame.layout[a] - frame.layout[b]) * pose.size
                known[a] = True
    return joints


def parts_of_template(weights: np.ndarray, count: int, side: int) -> np.ndarray:
    """Where parts of a template are: its windows with most energy, one after the other.

    Energy is the sum of the squares of positive weights. The cells of a part have none left for
    those after it.

    Parameters
    ----------
    weights : ndarray of shape (rows, columns, n_channels)
    count : int
        How many parts there are; fewer where no energy is left.
    side : int
        Rows and columns of a window.

    Returns
    -------
    ndarray of shape (n_parts, 2)
        x and y of the middle of each, in cells.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.part_frames import parts_of_template
    >>> weights = np.zeros((4, 6, 1))
    >>> weights[1, 1], weights[2, 4] = 2.0, 1.0
    >>> parts_of_template(weights, count=3, side=1)
    array([[1.5, 1.5],
           [4.5, 2.5]])
    """
    energy = (np.maximum(weights, 0.0) ** 2).sum(axis=2)
    found: list[tuple[float, float]] = []
    for _ in range(count):
        windows = np.lib.stride_tricks.sliding_window_view(energy, (side, side)).sum(axis=(2, 3))
        row, column = np.unravel_index(windows.argmax(), windows.shape)
        if found and not windows[row, column] > 0.0:
            break
        found.append((column + side / 2.0, row + side / 2.0))
        energy[row : row + side, column : column + side] = 0.0
    return np.array(found)
