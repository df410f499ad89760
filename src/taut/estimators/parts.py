"""Objects of parts in images: where their joints are, from photographs with joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.checks import check_flag
from taut.data.arrays import as_numbers
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import estimator
from taut.estimators.extraction_settings import check_whole
from taut.estimators.part_detector import PartDetector
from taut.metrics import pck, suppress
from taut.problem import Problem
from taut.vision.joints import (
    FoundJoints,
    joint_boxes,
    read_joints,
    skeleton_of,
    within_images,
)
from taut.vision.part_frames import PartFrame, ShownParts, object_sizes, part_frame
from taut.vision.photographs import Photographs
from taut.vision.poses import JointPose


@estimator
class PartSVM(PartDetector):
    """Finds the joints of an object in photographs: a deformable model of parts with mixtures.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max_y [loss(y_i, y) - <w, psi_i(y)>] over images
    i, where a label y says of each part of the object where it is and how it looks, or that it is
    invisible, see `taut.structures.Parts`. Parts are templates on gradients and colours, of
    several aspects each, held together by springs in a tree. The loss is the share of parts that
    are too far away, or whose visibility is wrong. The maximum is over all places, scales, aspects
    and visibilities, and exact; so is the certificate.

    Parameters
    ----------
    {training}
    names : sequence of str, optional
        What joints are called; by default their numbers.
    tree : sequence, optional
        Which joints are held together: pairs of them, by name or number, or the number of each
        joint's parent and -1 for the root. By default the tree whose edges keep their length and
        direction best in the training objects.
    swaps : sequence of pairs, optional
        Joints, by name or number, that change places in a mirrored image, such as both wrists; ()
        where there are none. Mirrored images are learned from where this is given.
    aspects : int, default=5
        Most aspects of a part: clusters of where it is from its parent.
    side : int, default=5
        Rows and columns of cells of a template.
    cells : float, default=20
        How many cells an object has along its size, on the level that it belongs to.
    reach : float, default=0.1
        How far from the truth a joint may be in training, in sizes of the object.
    cell : int, default=8
        Side of a cell in pixels of the resized image.
    scale_step : float, default=2 ** 0.5
        Factor between two scales at which objects are looked for.
    colour : bool, default=True
        Whether the colour of cells counts, beside gradients.
    mirror : bool, default=True
        Whether to learn from the mirrored images as well, if `swaps` is given.
    sampling : {{"diverse", "suppression"}}, default="diverse"
        Which labels solvers that work on several at a time get, see `taut.structures.Parts`.
    longest : int, default=640
        Larger images are shrunk to this longest side; joints are of the images as they are.
    folder : path-like, optional
        Where features are kept, and found again by the next fit; they are all in memory while it
        trains.

    Attributes
    ----------
    coef_ : ndarray
        All weights: templates, their biases, invisible parts, pairs of aspects, springs.
    names_ : ndarray of shape (n_parts,)
    parents_ : ndarray of shape (n_parts,)
        The tree: the parent of each part, -1 of the root.
    counts_ : ndarray of shape (n_parts,)
        How many aspects each part has.
    anchors_ : ndarray of shape (n_aspects, 2)
        Where aspects are from the parent, in sizes of the object, part by part.
    layout_ : ndarray of shape (n_parts, 2)
        Where parts are in the mean, in sizes of the object.
    scales_ : ndarray
        Factors by which images are resized.
    extraction_ : ndarray
        The parameters that say how images are looked at. Others are refused after the fit.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import PartSVM
    >>> rng = np.random.default_rng(0)
    >>> images, joints = [], []
    >>> for _ in range(8):  # a bright square, and a dark one to the right of it
    ...     image = rng.integers(90, 110, size=(64, 80, 3), dtype=np.uint8)
    ...     x, y = rng.integers(12, 36, size=2)
    ...     image[y - 6 : y + 6, x - 6 : x + 6] = 220
    ...     image[y - 6 : y + 6, x + 18 : x + 30] = 20
    ...     images.append(image)
    ...     joints.append([(x, y), (x + 24, y)])
    >>> model = PartSVM(C=1.0, aspects=1, side=3, cells=8, tol=0.1, random_state=0)
    >>> model = model.fit(images[:6], joints[:6])
    >>> model.score(images[6:], joints[6:])
    1.0
    """

    names: Any = None
    tree: Any = None
    swaps: Any = None
    aspects: int = 5
    mirror: bool = True
    sampling: str = "diverse"

    # Learning

    def fit(
        self,
        images: Any,
        joints: Any = None,
        visible: Any = None,
        sizes: Any = None,
        sample_weight: Any = None,
    ) -> Self:
        """Learn from images with an object each.

        Parameters
        ----------
        images : list, or path of a folder
            Paths, arrays of shape (height, width, 3), or `Pyramid` objects with features of your
            own. A folder stands for its images, sorted by name.
        joints : array-like of shape (n_images, n_parts, 2)
            x and y in pixels of the image as it is given. Joints outside the image are taken for
            invisible, with a warning.
        visible : array-like of bool, shape (n_images, n_parts), optional
            By default joints are visible that are not NaN. An image in which none is visible is
            one without the object.
        sizes : array-like of shape (n_images,), optional
            Of the objects in pixels, such as the heights of persons; by default about the larger
            side of the box of all joints, estimated from those that are visible.
        sample_weight : array-like of shape (n_images,), optional
            Factors on the losses of images.
        """
        self._check()
        photographs = Photographs(images, self.longest)
        shown = self._shown(photographs, joints, visible, sizes)
        weight = check_sample_weight(sample_weight, len(photographs), unit="image")
        frame, poses, mirror = self._framed(shown)
        pyramids = self._features(photographs, frame, mirror)
        problem = self._problem(frame, pyramids, poses, weight)
        w, fitted = self._solve(problem, self._options())
        return self._keep(fitted | frame.facts() | self._attributes(w, None))

    def _check(self) -> None:
        super()._check()
        check_flag("mirror", self.mirror)
        check_whole("aspects", self.aspects, 1)

    def _shown(self, photographs: Photographs, joints: Any, visible: Any, sizes: Any) -> ShownParts:
        """Joints in the coordinates of the images that features are extracted from."""
        self._need(joints, "joints")
        places, seen = read_joints(joints, visible)
        n = len(photographs)
        if len(places) != n:
            raise InvalidData(
                f"images has {n} images and joints objects of {len(places)}: give one to each"
            )
        extents = np.array([photographs.size(i) for i in range(n)], dtype=np.float64)
        ratios = np.array([photographs.ratios(i)[:2] for i in range(n)])
        seen = within_images(places, seen, extents)
        places[~seen] = 0.0
        places *= ratios[:, None]
        if sizes is None:
            own = object_sizes(places, seen)
        else:
            own = np.asarray(as_numbers(sizes, "sizes"), dtype=np.float64)
            if own.shape != (n,):
                raise InvalidData(f"sizes has shape {own.shape}: give one to each of {n} images")
            wrong = np.flatnonzero(~(np.isfinite(own) & (own > 0.0)))
            if len(wrong):
                raise InvalidData(
                    f"sizes[{wrong[0]}] = {own[wrong[0]]}: give a number of pixels above 0"
                )
            own = own * ratios.mean(axis=1)
        return ShownParts(places, seen, own, extents[:, 0] * ratios[:, 0])

    def _framed(self, shown: ShownParts) -> tuple[PartFrame, list[JointPose], bool]:
        """What is known before training, the poses of all images, and whether some are mirrored."""
        skeleton = skeleton_of(shown.visible.shape[1], self.names, self.tree, self.swaps)
        mirror = bool(self.mirror) and self.swaps is not None
        frame, poses = part_frame(
            skeleton, shown, self.aspects, self.cells, self.cell, self.scale_step, mirror
        )
        return frame, poses, mirror

    def _problem(
        self, frame: PartFrame, pyramids: list[Any], poses: list[JointPose], weight: np.ndarray
    ) -> Problem:
        copies = len(pyramids) // len(weight)
        return Problem(
            self._structure(frame, sampling=self.sampling), pyramids, poses, self.C,
            np.repeat(weight, copies), self._threads(), self._regularizer(None),
        )  # fmt: skip

    # Answers

    def predict(self, images: Any) -> FoundJoints:
        """The best object of each image.

        Parameters
        ----------
        images
            As for `fit`.

        Returns
        -------
        FoundJoints
            One object for each image. Joints that are invisible are where one would expect them
            from those that are visible. Scores are those above an image without the object: where
            one is below 0 the model finds it likelier that there is none. An image with no room for
            a template has NaN.
        """
        # The label without any visible part may be the best.
        best = [
            max(own, key=lambda found: found[0].visible.any()) for own in self._found(images, 2)
        ]
        return _joined([pose for pose, _ in best], [score for _, score in best], self)

    def detect(
        self, images: Any, top: int = 10, threshold: float = 0.0, suppression: float = 0.3
    ) -> list[FoundJoints]:
        """Find several objects in each image.

        Objects are chosen by their scores, no two of them with the root at the same place. Then
        of two objects whose boxes of joints overlap the one of lower score is dropped.

        Parameters
        ----------
        images
            As for `fit`.
        top : int, default=10
            Most objects of an image.
        threshold : float, default=0.0
            The lowest score.
        suppression : float, default=0.3
            Overlap (intersection over union) of boxes from which an object is dropped.

        Returns
        -------
        list of FoundJoints
            For each image, the highest score first.
        """
        answers = []
        for kept in self._kept(images, top, threshold, suppression):
            found = _joined([pose for pose, _ in kept], [score for _, score in kept], self)
            boxes = joint_boxes(found.joints, found.visible)
            which = suppress(boxes, found.scores, suppression, top)
            answers.append(FoundJoints(*(values[which] for values in found)))
        return answers

    def predict_visible(self, images: Any, temperature: float = 1.0) -> np.ndarray:
        """How likely each joint is visible, over all labels of each image.

        Labels have probabilities proportional to exp(score / temperature), and those without any
        visible joint count. Sums over all places take much longer than `predict`.

        Parameters
        ----------
        images
            As for `fit`.
        temperature : float, default=1.0
            The smaller, the more the best labels count.

        Returns
        -------
        ndarray of shape (n_images, n_parts)
        """
        check_is_fitted(self)
        photographs, frame = Photographs(images, self.longest), PartFrame.of(self)
        structure, chances = self._structure(frame), []
        for i in range(len(photographs)):
            data = self._bound(structure, frame, photographs, range(i, i + 1))
            (found,) = structure.marginals(data.blocks, self.coef_, temperature)
            chances.append(1.0 - found.hidden)
        return np.array(chances)

    def score(self, images: Any, joints: Any = None, visible: Any = None) -> float:
        """PCK at 0.2: the share of visible joints that are found.

        Joints are found within a fifth of the larger side of the box of all visible joints.
        """
        self._need(joints, "joints")
        return pck(self.predict(images).joints, joints, visible).mean


def _joined(poses: Sequence[JointPose], scores: Sequence[float], model: PartSVM) -> FoundJoints:
    """Objects as arrays."""
    n_parts = len(model.parents_)
    return FoundJoints(
        np.array([pose.joints for pose in poses]).reshape(-1, n_parts, 2),
        np.array([pose.visible for pose in poses], dtype=bool).reshape(-1, n_parts),
        np.array(scores, dtype=np.float64),
    )
