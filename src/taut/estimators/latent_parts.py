"""Detectors of objects of parts from boxes alone: where parts are is latent."""

from __future__ import annotations

import math
from dataclasses import field
from typing import Any, Self

import numpy as np

from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.alternating import Alternating
from taut.estimators.base import estimator
from taut.estimators.boxes import BoxSVM
from taut.estimators.extraction_settings import check_whole
from taut.estimators.part_detector import PartDetector
from taut.latent.alternation import LatentProblem, check_rounds
from taut.metrics import mean_average_precision, suppress
from taut.spaces.windows import KNOTS, MEASURES
from taut.structures import LatentParts
from taut.vision.annotations import as_boxes
from taut.vision.boxes import Boxes, Detections
from taut.vision.part_frames import PartFrame, parts_of_template
from taut.vision.photographs import Photographs
from taut.vision.poses import JointPose


@estimator
class LatentPartSVM(Alternating, PartDetector):
    """Finds objects of one class in photographs, by parts whose places are latent.

    A `BoxSVM` with one template comes first. Its windows of `side` x `side` cells with most energy,
    the sum of the squares of positive weights, become the parts; that of the most is the root, and
    springs hold the others to it. Each round then fixes where the parts of each object are, trains
    the model of parts, and lets it choose the best places anew, as long as the root stays within
    `reach` of where the box has it. The objective never rises; the certificate is that of the last
    round.

    Parameters
    ----------
    {training}
    n_parts : int, default=6
    max_rounds : int, default=20
        Largest number of rounds.
    round_tol : float, default=1e-3
        Relative fall of the objective in a round at which training ends.
    side : int, default=5
        Rows and columns of cells of the template of a part.
    cells : float, default=16
        The square root of how many cells an object has.
    reach : float, default=0.1
        How far from its place the root may be, in sizes of the object.
    cell, scale_step, colour, longest, folder
        As of `PartSVM`.

    Attributes
    ----------
    coef_, names_, parents_, counts_, anchors_, layout_, scales_, extraction_
        As of `PartSVM`.
    box_ : ndarray of shape (4,)
        The edges of an object, from its root, in sizes of the object.
    class_ : ndarray of shape (1,)
        The class of the boxes.
    rounds_ : Rounds
        The objective and bounds of each round.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import LatentPartSVM
    >>> rng = np.random.default_rng(0)
    >>> images, boxes = [], []
    >>> for _ in range(8):
    ...     image = rng.integers(90, 110, size=(64, 88, 3), dtype=np.uint8)
    ...     x, y = rng.integers(4, 40, size=2)
    ...     image[y : y + 20, x : x + 15] = 220
    ...     image[y : y + 20, x + 25 : x + 40] = 20
    ...     images.append(image)
    ...     boxes.append([(x, y, x + 40, y + 20)])
    >>> model = LatentPartSVM(
    ...     C=1.0, n_parts=2, side=3, cells=6, max_rounds=2, tol=0.1, random_state=0
    ... )
    >>> model = model.fit(images, boxes)
    >>> model.score(images, boxes) > 0.9
    True
    """

    C: float = field(default=PartDetector.C, kw_only=False)
    tol: float = PartDetector.tol
    n_parts: int = 6
    cells: float = 16.0

    def fit(self, images: Any, boxes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from images with a box each, or none.

        Parameters
        ----------
        images : list, or path of a folder
            As for `PartSVM.fit`.
        boxes : list
            One item for each image, as for `BoxSVM.fit`, with one box or none.
        sample_weight : array-like, optional
            Factors on the losses of images.
        """
        self._check()
        self._need(boxes, "boxes")
        photographs = Photographs(images, self.longest)
        truths = as_boxes(boxes, len(photographs))
        weight = check_sample_weight(sample_weight, len(truths), unit="image")
        edges = [self._edges(i, truth) for i, truth in enumerate(truths)]
        first = BoxSVM(
            aspects=1, cells=round(self.cells**2), cell=self.cell, scale_step=self.scale_step,
            colour=self.colour, mirror=False, refine=False, longest=self.longest,
            random_state=self._seed(), n_jobs=self.n_jobs,
        ).fit(images, truths)  # fmt: skip
        frame, box = self._parts(first)
        pyramids = self._features(photographs, frame, False)
        poses = [
            self._pose(own if own is None else own * photographs.ratios(i), frame, box)
            for i, own in enumerate(edges)
        ]
        structure = self._structure(frame, LatentParts)
        _problem, fitted = self._alternate(
            LatentProblem, None, None, structure, list(zip(pyramids, poses, strict=True)), None,
            sample_weight=weight,
        )  # fmt: skip
        facts = frame.facts() | {"box_": box, "class_": first.classes_}
        return self._keep(fitted | facts)

    def _check(self) -> None:
        super()._check()
        check_whole("n_parts", self.n_parts, 1)
        check_rounds(self.max_rounds, self.round_tol)

    @staticmethod
    def _edges(i: int, truth: Boxes) -> np.ndarray | None:
        """The box of an image; None where there is no object."""
        if len(truth.edges) > 1 or truth.ignored.any():
            raise InvalidData(
                f"image {i} has {len(truth.edges)} boxes, {int(truth.ignored.sum())} of them "
                "ignored: give one box for each image, or none; cut out images with several"
            )
        return truth.edges[0] if len(truth.edges) else None

    def _parts(self, first: BoxSVM) -> tuple[PartFrame, np.ndarray]:
        """The parts that the template of a detector has, and the box around them."""
        if len(first.classes_) > 1:
            raise InvalidData(
                f"boxes are of {len(first.classes_)} classes, {first.classes_.tolist()}: give "
                "those of one, and train a model for each"
            )
        rows, columns, _number = first.templates_[0]
        border = first.border
        high, wide = rows + 2 * border, columns + 2 * border
        if min(high, wide) < self.side:
            raise InvalidData(
                f"side = {self.side}: the template of the whole object has {high} x {wide} cells; "
                "give a smaller side, or more cells"
            )
        n_channels = (len(first.coef_) - 1 - KNOTS * MEASURES) // (high * wide)
        weights = first.coef_[: high * wide * n_channels].reshape(high, wide, n_channels)
        middles = parts_of_template(weights, self.n_parts, self.side) - [wide / 2.0, high / 2.0]
        places = middles / math.sqrt(rows * columns)
        half = np.array([columns, rows]) / 2.0 / math.sqrt(rows * columns)
        n = len(places)
        frame = PartFrame(
            np.array([str(p) for p in range(n)]),
            np.array([-1] + [0] * (n - 1)),
            np.ones(n, dtype=np.int64),
            places - places[0],
            places - places[0],
            first.scales_,
        )
        return frame, np.concatenate([-half - places[0], half - places[0]])

    def _pose(self, edges: np.ndarray | None, frame: PartFrame, box: np.ndarray) -> JointPose:
        """Where the root of an object is, whose box is known."""
        n = len(frame.parents)
        nothing = np.zeros(n, dtype=np.int64)
        if edges is None:
            return JointPose(np.zeros((n, 2)), np.zeros(n, dtype=bool), nothing, 1.0)
        size = math.sqrt((edges[2] - edges[0]) * (edges[3] - edges[1]))
        middle = (edges[:2] + edges[2:]) / 2.0
        root = middle - size * (box[:2] + box[2:]) / 2.0
        return JointPose(root + size * frame.layout, np.ones(n, dtype=bool), nothing, size)

    def detect(
        self, images: Any, top: int = 100, threshold: float = 0.0, suppression: float = 0.4
    ) -> list[Detections]:
        """Find objects in images.

        Parameters
        ----------
        images
            As for `fit`.
        top : int, default=100
            Most boxes of an image.
        threshold : float, default=0.0
            The lowest score above an image without objects.
        suppression : float, default=0.4
            Overlap (intersection over union) from which of two boxes the one of lower score is
            dropped.

        Returns
        -------
        list of Detections
            One for each image, the highest score first.
        """
        answers = []
        for kept in self._kept(images, top, threshold, suppression):
            edges = np.array(
                [np.tile(pose.joints[0], 2) + pose.size * self.box_ for pose, _ in kept]
            ).reshape(-1, 4)
            scores = np.array([score for _, score in kept], dtype=np.float64)
            which = suppress(edges, scores, suppression, top)
            answers.append(
                Detections(edges[which], np.repeat(self.class_, len(which)), scores[which])
            )
        return answers

    def predict(self, images: Any) -> list[Detections]:
        """What `detect` finds with its defaults."""
        return self.detect(images)

    def score(self, images: Any, boxes: Any = None, overlap: float = 0.5) -> float:
        """Average precision at an overlap."""
        self._need(boxes, "boxes")
        truths = as_boxes(boxes, len(Photographs(images, self.longest)))
        found = self.detect(images, top=20, threshold=-math.inf)
        return mean_average_precision(found, truths, overlap)
