"""What detectors of boxes answer once they are fitted."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

from taut.checks import as_share, check_number
from taut.errors import InvalidData
from taut.estimators.extraction_settings import check_weights
from taut.estimators.online import OnlineEstimator
from taut.inference.box_refinement import refined
from taut.metrics import mean_average_precision, suppress
from taut.metrics.matching import check as matched
from taut.spaces.windows import SHARED_OF_CLASS, WindowFeatures
from taut.vision.boxes import Detections
from taut.vision.photographs import Photographs
from taut.vision.templates import Frame

_CANDIDATES = 2000  # windows of each class that suppression looks at
_HIT = 0.5  # overlap with an object from which a detection is right, to `fit_probabilities`


class Found(NamedTuple):
    """Windows that were found in an image: their boxes, classes and scores, the best first."""

    edges: np.ndarray
    classes: np.ndarray  # numbers
    scores: np.ndarray


class BoxDetector(OnlineEstimator):
    """Finds objects by the templates of a fitted model."""

    suppression: float
    longest: int

    def detect(
        self,
        images: Any,
        top: int = 100,
        threshold: float = 0.0,
        suppression: float | None = None,
    ) -> list[Detections]:
        """Find objects in images.

        Parameters
        ----------
        images
            As for `fit`.
        top : int, default=100
            Most boxes of an image.
        threshold : float, default=0.0
            The lowest score. In training objects are asked to score above it, and false alarms
            below it. ``-math.inf`` leaves out nothing by its score: what is found are then the best
            2000 windows of each class, those that overlap better ones left out, `top` in all.
        suppression : float, optional
            In place of that of the model.

        Returns
        -------
        list of Detections
            One for each image, the highest score first.
        """
        check_is_fitted(self)
        limit = as_share("suppression", self.suppression if suppression is None else suppression)
        check_number("threshold", threshold)
        frame = Frame.of_facts(self.classes_, self.templates_, self.scales_, self.extraction_)
        photographs = Photographs(images, frame.longest)
        templates, extractor = frame.templates, frame.extractor()
        w = None

        def find(numbers: range) -> list[Detections]:
            nonlocal w
            room = np.empty(0, dtype=np.float32)
            answers = []
            for i in numbers:
                pyramid = photographs.pyramid(i, extractor)
                if pyramid is None:
                    answers.append(Detections(np.empty((0, 4)), self.classes_[:0], np.empty(0)))
                    continue
                features = WindowFeatures([pyramid], templates)
                check_weights(self, features.n_features, f"image {i} has")
                if w is None:
                    w = features.pad(self.coef_.astype(np.float32))
                if len(room) < features.n_potentials:
                    room = np.empty(features.n_potentials, dtype=np.float32)
                found = self._found(features, w, room, top, threshold, limit)
                answers.append(
                    Detections(
                        photographs.as_given(found.edges, i), self.classes_[found.classes],
                        found.scores,
                    )
                )  # fmt: skip
            return answers

        n, jobs = len(photographs), self._threads()
        ranges = [range(k * n // jobs, (k + 1) * n // jobs) for k in range(jobs)]
        if jobs == 1:
            return find(ranges[0])
        with ThreadPoolExecutor(jobs, thread_name_prefix="taut") as threads:
            return [answer for part in threads.map(find, ranges) for answer in part]

    def _found(
        self,
        features: WindowFeatures,
        w: np.ndarray,
        room: np.ndarray,
        top: int,
        threshold: float,
        suppression: float,
    ) -> Found:
        """The best windows of the only image, those that overlap better ones left out."""
        scores, every = features.scores(0, w, room), features.edges(0)
        classes = features.templates.classes[features.templates_at(0)]
        kept = []
        for number in range(len(self.classes_)):
            best = np.flatnonzero((scores >= threshold) & (classes == number))
            if len(best) > _CANDIDATES:
                best = best[np.argpartition(-scores[best], _CANDIDATES)[:_CANDIDATES]]
            kept.append(best[suppress(every[best], scores[best], suppression, top)])
        windows = np.concatenate(kept)
        windows = windows[np.argsort(-scores[windows], kind="stable")[:top]]
        edges = every[windows]
        if len(windows) and self.refinement_.any():
            edges = refined(features, 0, windows, self.refinement_)
        return Found(edges, classes[windows], scores[windows].astype(np.float64))

    def template(self, number: int) -> np.ndarray:
        """The weights of the cells of a template, as `taut.vision.plot_template` takes them.

        Parameters
        ----------
        number : int
            A row of `templates_`.

        Returns
        -------
        ndarray of shape (rows, columns, n_channels)
            With the border.
        """
        check_is_fitted(self)
        n = len(self.templates_)
        if number not in range(n):
            raise InvalidData(f"number = {number!r}: give one of the {n} templates, from 0 on")
        frame = Frame.of_facts(self.classes_, self.templates_, self.scales_, self.extraction_)
        border = frame.templates.border
        shapes = self.templates_[:, :2].astype(np.int64) + 2 * border
        ends = np.concatenate([[0], shapes.prod(axis=1).cumsum()])
        n_shared = SHARED_OF_CLASS * frame.templates.n_classes
        n_channels = (len(self.coef_) - n - n_shared) // int(ends[-1])
        own = slice(ends[number] * n_channels, ends[number + 1] * n_channels)
        return self.coef_[own].reshape(*shapes[number], n_channels).copy()

    def localise(self, images: Any) -> list[Detections]:
        """The best box of each image, whatever its score."""
        return self.detect(images, top=1, threshold=-math.inf)

    def predict(self, images: Any) -> list[Detections]:
        """What `detect` finds with its defaults."""
        return self.detect(images)

    def score(self, images: Any, boxes: Any = None, overlap: float = 0.5) -> float:
        """Average precision at an overlap, the mean over classes."""
        self._need(boxes, "boxes")
        truths = Photographs(images, self.longest).truths(boxes)
        return mean_average_precision(self.detect(images, threshold=-math.inf), truths, overlap)

    def fit_probabilities(self, images: Any, boxes: Any) -> Self:
        """Learn from held-out images how likely a detection of some score is right (Platt).

        It is kept as `probability_` until the next fit, for `probabilities`.
        """
        truths = Photographs(images, self.longest).truths(boxes)
        found = matched(self.detect(images, threshold=-math.inf), truths).outcomes([_HIT])
        counted = ~found.left_out[:, 0]
        hits, scores = found.hits[counted, 0], found.scores[counted]
        if hits.all() or not hits.any():
            raise InvalidData(
                f"{int(hits.sum())} of {len(hits)} detections are right: probabilities need some "
                "that are and some that are not; give more held-out images"
            )
        model = LogisticRegression(C=1e6).fit(scores[:, None], hits)
        self.probability_ = np.array([model.coef_[0, 0], model.intercept_[0]])
        return self

    def probabilities(self, detections: Any) -> Any:
        """How likely each detection is right, after `fit_probabilities`.

        Parameters
        ----------
        detections : list of Detections, or Detections
            What `detect` found, or an item of that.

        Returns
        -------
        list of ndarray, or ndarray
            One for each image; an array alone for one image.
        """
        check_is_fitted(self, "probability_")
        slope, offset = self.probability_
        if isinstance(detections, Detections):
            return expit(slope * detections.scores + offset)
        return [expit(slope * found.scores + offset) for found in detections]
