"""A box with an angle: where the object of an image is, and from which side it is seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from taut.checks import as_share
from taut.compiled.jit import helper
from taut.data.angles import as_angles, grid_of, nearest_angles, turns
from taut.data.arrays import offsets_of, ranges
from taut.errors import InvalidData
from taut.kernels.labels import LabelKernel
from taut.spaces.labels import part
from taut.spaces.pose_windows import pose_templates
from taut.spaces.windows import WindowFeatures, WindowSpace, edges_of
from taut.structures.base import Blocks, CompiledStructure
from taut.vision.boxes import mirrored_edges, overlap_of, overlaps


class BoxPose(NamedTuple):
    """What is true of an image: where its object is, in pixels, and from where it is seen."""

    edges: np.ndarray  # (4,)
    angle: float  # in radians


class PoseData(NamedTuple):
    """What the oracles read."""

    maps: np.ndarray  # of the angles of the grid, then of the angle of each block
    losses: np.ndarray  # of windows, block by block
    turned: np.ndarray  # (n_blocks, n_angles + 1), losses of angles
    nearest: np.ndarray  # (n_blocks,), number of the angle of the grid nearest to the true one
    starts: np.ndarray  # of each block's windows
    counts: np.ndarray
    truth: np.ndarray
    n_angles: int
    n_own: int  # angles that a block has beside the grid, 0 or 1
    suppression: float
    room: int  # where in `work` what follows the potentials begins
    space: WindowSpace


def misplaced(edges: np.ndarray, truth: np.ndarray, where: str) -> tuple[np.ndarray, int]:
    """What the place of each window costs, and the window that overlaps the true box most."""
    common = overlaps(edges, truth[None])[:, 0]
    best = int(common.argmax()) if len(common) else 0
    if not len(common) or common[best] <= 0.0:
        raise InvalidData(
            f"{where}: no window overlaps the box {truth.round(1).tolist()}: give a box within "
            "the image, larger images, or templates of fewer cells"
        )
    return 0.5 * (common[best] - common), best


class PoseBoxes(CompiledStructure):
    """One window of an image and an angle, by a kernel on angles that is written down.

    The joint kernel is <Phi(x, B), Phi(x', B')> k(angle, angle'), with the cells of a template, a
    bias and functions of place and size in Phi (`taut.spaces.windows`). With k = <f, f'>, features
    of r numbers, the score of a label is

        sum_m f_m(angle) <w_m, Phi(x, B)>,

    a smooth function of the angle. A block's labels are all windows with each of `n_angles` equally
    spaced angles, and with the angle that is its truth. The loss is

        (o* - o) / 2 + d / (2 pi),

    with the overlap o of the window and the object, the largest overlap o* that any window has, and
    the angle d between 0 and pi from the true angle. The maximum over labels is exact.

    Parameters
    ----------
    rows, columns : int
        Cells of a template, without its border.
    kernel : LabelKernel
        On angles, with a `finite` map: `VonMisesLabels` or `SectorLabels`.
    n_angles : int, default=64
    border : int, default=1
        Cells of context around a template.
    suppression : float, default=0.5
        Samples: of windows that overlap one of an earlier label by more, angles within an eighth of
        a turn of its own are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.kernels import VonMisesLabels
    >>> from taut.structures import PoseBoxes
    >>> from taut.structures.pose_boxes import BoxPose
    >>> from taut.vision import pyramid_of
    >>> rng = np.random.default_rng(0)
    >>> X, y = [], []
    >>> for column, turn in ((0, 0.0), (3, 2.0), (4, 4.0)):
    ...     cells = rng.random((4, 6, 2))
    ...     cells[1:3, column : column + 2] += [1.0 + np.cos(turn), 1.0 + np.sin(turn)]
    ...     X.append(pyramid_of([cells], [8], (48, 32)))
    ...     y.append(BoxPose(8.0 * np.array([column, 1, column + 2, 3]), turn))
    >>> structure = PoseBoxes(2, 2, VonMisesLabels(1.0, precision=1e-3), n_angles=8, border=0)
    >>> solve(Problem(structure, X, y, C=10.0), random_state=0).certificate.status.name
    'CONVERGED'
    """

    takes_examples = True

    def __init__(
        self,
        rows: int,
        columns: int,
        kernel: LabelKernel,
        n_angles: int = 64,
        border: int = 1,
        suppression: float = 0.5,
    ) -> None:
        self.suppression = as_share("suppression", suppression)
        if not kernel.finite:
            raise InvalidData(
                f"kernel = {kernel!r} has no features that could be written down: give "
                "VonMisesLabels, or train on the kernel itself by PoseSearch"
            )
        self.kernel = kernel
        self.angles = grid_of(n_angles)
        self._map = kernel.finite_map(self.angles)
        self.templates = pose_templates(rows, columns, border, self._map.shape[1])

    def encode(self, X: Any, y: Sequence[BoxPose] | None = None) -> Blocks:
        """X is a list of `Pyramid`, y one of `BoxPose`."""
        features = WindowFeatures(X, self.templates)
        counts = features.window_counts // self._map.shape[1]
        n_angles, n = len(self.angles), len(X)
        losses, maps = np.zeros(int(counts.sum())), self._map
        turned, truth = np.zeros((n, n_angles + 1)), np.zeros((n, 2), dtype=np.int32)
        nearest = np.zeros(n, dtype=np.int64)
        starts = offsets_of(counts)
        if y is not None:
            if len(y) != n:
                raise InvalidData(f"X has {n} images and y poses of {len(y)}: give one to each")
            angles = as_angles([pose.angle for pose in y], "PoseBoxes")
            maps = np.vstack([maps, self.kernel.finite_map(angles)])
            nearest = nearest_angles(angles, n_angles)
            turned[:, :n_angles] = turns(angles[:, None], self.angles) / (2.0 * np.pi)
            for i, pose in enumerate(y):
                edges = features.edges(i, int(counts[i]))
                own = slice(starts[i], starts[i + 1])
                losses[own], truth[i, 0] = misplaced(edges, np.asarray(pose.edges), f"image {i}")
            truth[:, 1] = n_angles
        data = PoseData(
            maps, losses, turned, nearest, starts[:-1], counts, truth.ravel(), n_angles,
            int(y is not None), self.suppression, features.n_potentials, features.space,
        )  # fmt: skip
        return self._blocks(features, data)

    def _blocks(self, features: WindowFeatures, data: PoseData) -> Blocks:
        size = features.n_potentials + (data.n_angles + 1) * int(data.counts.max())
        offsets = 2 * np.arange(len(data.counts) + 1)
        return Blocks(data, features, offsets, data.truth, work_size=size)

    def take(self, blocks, which):
        """Images with their losses."""
        data, features = blocks.data, blocks.features.take(which)
        counts = data.counts[which]
        own = len(self._map) + which if data.n_own else np.zeros(0, dtype=np.int64)
        return self._blocks(
            features,
            data._replace(
                maps=np.vstack([self._map, data.maps[own]]),
                losses=data.losses[ranges(data.starts[which], counts)],
                turned=data.turned[which],
                nearest=data.nearest[which],
                starts=offsets_of(counts)[:-1],
                counts=counts,
                truth=data.truth.reshape(-1, 2)[which].ravel(),
                room=features.n_potentials,
                space=features.space,
            ),
        )

    def lengths(self, blocks):
        """Of a window, times the numbers of an angle."""
        return blocks.features.lengths() * np.linalg.norm(blocks.data.maps, axis=1).max()

    def valid_labels(self, blocks, owner, labels):
        """Windows and angles of the blocks."""
        data = blocks.data
        window, angle = labels.reshape(-1, 2).T
        last = data.n_angles + data.n_own
        return (window >= 0) & (window < data.counts[owner]) & (angle >= 0) & (angle < last)

    def decode(self, labels, offsets):
        """The window of each label, and the number of its angle."""
        return [tuple(row) for row in labels.reshape(-1, 2).tolist()]

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """The best of all windows for each angle."""
        values = work[data.room : data.room + (data.n_angles + data.n_own) * data.counts[i]]
        _evaluate(data, i, work, loss_weight, values)
        place = _highest(values)
        label[0], label[1] = place % data.counts[i], place // data.counts[i]
        return values[place]

    @staticmethod
    def loss(data, i, label):
        """Of the place, and of the angle."""
        return data.losses[data.starts[i] + label[0]] + data.turned[i, label[1]]

    @staticmethod
    def parts(data, i, label, each):
        """The numbers of the window, as often as those of its angle say."""
        row = _row(data, i, label[1])
        total = 0.0
        for m in range(data.maps.shape[1]):
            total += part(each, m * data.counts[i] + label[0], data.maps[row, m])
        return total

    @staticmethod
    def sample(data, i, work, loss_weight, seed, found):
        """Greedy suppression of score + loss: labels that differ in place, or in angle."""
        n, count = data.counts[i], 0
        values = work[data.room : data.room + (data.n_angles + data.n_own) * n]
        _evaluate(data, i, work, loss_weight, values)
        while count < found.shape[0]:
            place = _highest(values)
            if values[place] == -np.inf:
                break
            found[count, 0], found[count, 1] = place % n, place // n
            _suppress(data, i, found[count], values)
            count += 1
        return count


@helper
def _evaluate(data, i, work, loss_weight, values):
    """Write score plus loss of all windows of a block, for one angle after the other."""
    n, first = data.counts[i], data.starts[i]
    for k in range(data.n_angles + data.n_own):
        row, own = _row(data, i, k), values[k * n : (k + 1) * n]
        for p in range(n):
            own[p] = loss_weight * (data.losses[first + p] + data.turned[i, k])
        for m in range(data.maps.shape[1]):
            _add(own, work[m * n : (m + 1) * n], values.dtype.type(data.maps[row, m]))


@helper
def _row(data, i, k):
    """Where the numbers of angle k of block i are: its own comes after the grid."""
    return k if k < data.n_angles else k + i


@helper
def _add(values, more, factor):
    for p in range(values.shape[0]):
        values[p] += factor * more[p]


@helper
def _highest(values):
    """Where the first of the largest numbers is."""
    place = 0
    for p in range(values.shape[0]):
        if values[p] > values[place]:
            place = p
    return place


@helper
def _suppress(data, i, label, values):
    """Leave out what is like a label: windows that overlap its own, at angles near to its own."""
    n, n_angles = data.counts[i], data.n_angles
    own = edges_of(data.space, i, label[0])
    angle = label[1] if label[1] < n_angles else data.nearest[i]
    values[label[1] * n + label[0]] = -np.inf
    for p in range(n):
        if overlap_of(own, edges_of(data.space, i, p)) > data.suppression:
            for k in range(n_angles + data.n_own):
                other = k if k < n_angles else data.nearest[i]
                apart = abs(other - angle)
                if 8 * min(apart, n_angles - apart) <= n_angles:
                    values[k * n + p] = -np.inf


def with_mirror_images(
    edges: np.ndarray, angles: np.ndarray, widths: np.ndarray, mirror_sum: float
) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and angles of images, each followed by those of its mirror image.

    Parameters
    ----------
    edges : ndarray of shape (n, 4)
    angles : ndarray of shape (n,)
    widths : ndarray of shape (n,)
        Of the images.
    mirror_sum : float
        What an angle and that in the mirror image add up to.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.structures.pose_boxes import with_mirror_images
    >>> edges, angles = np.array([[0.0, 5.0, 10.0, 20.0]]), np.array([0.5])
    >>> with_mirror_images(edges, angles, np.array([100.0]), np.pi)
    (array([[  0.,   5.,  10.,  20.],
           [ 90.,   5., 100.,  20.]]), array([0.5       , 2.64159265]))
    """
    both = np.stack([edges, mirrored_edges(edges, widths)], axis=1)
    turned = np.stack([angles, (mirror_sum - angles) % (2.0 * np.pi)], axis=1)
    return both.reshape(-1, 4), turned.ravel()


def poses_of(edges: np.ndarray, angles: np.ndarray) -> list[BoxPose]:
    """A pose of each box and angle."""
    return [BoxPose(own, float(angle)) for own, angle in zip(edges, angles, strict=True)]
