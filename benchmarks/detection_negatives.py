"""A linear SVM for each template, with hard negatives: the usual way to train HOG detectors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.svm import LinearSVC

from detection_rivals import BORDER, CELLS, SHAPES, Detector, features_for
from taut.metrics import suppress
from taut.vision import Boxes, Detections, Pyramid, overlaps, read_image
from taut.vision.templates import templates_of

ROUNDS = 2
_POSITIVE, _NEGATIVE = 0.6, 0.3  # overlaps with objects
_AT_FIRST, _HARD = 10, 10  # negatives of an image, drawn at first and found in each round
_CANDIDATES = 2000  # windows that suppression looks at
_SUPPRESSION = 0.4


class _Windows(NamedTuple):
    """Windows of one template in one level of a pyramid."""

    template: int
    level: int
    shape: tuple[int, int]  # rows and columns of windows
    edges: np.ndarray


class HardNegatives(Detector):
    """LinearSVC on the cells under windows, trained anew with its own false alarms.

    Positives are, for each object and template, the window that overlaps it most, if by 0.6 or
    more, and the best of all templates in any case. Negatives overlap all objects by less than
    0.3: ten windows of each image at random, then in each of two rounds the ten of highest score.
    """

    def __init__(self, C: float) -> None:
        self.C = C

    def fit(self, images, boxes):
        edges = np.concatenate([truth.edges for truth in boxes])
        classes = np.zeros(len(edges), dtype=int)
        templates = templates_of(edges, classes, SHAPES, CELLS, BORDER)
        self.shapes = np.column_stack([templates.rows, templates.columns]) + 2 * BORDER
        self.features = features_for(boxes)
        self.name = str(boxes[0].classes[0])
        pyramids = [self.features.extract(read_image(image)) for image in images]
        # Both directions: objects of the mirrored image are mirrored.
        pairs = [
            pair
            for pyramid, truth in zip(pyramids, boxes, strict=True)
            for pair in ((pyramid, truth), (pyramid.mirror_image(), _mirrored(pyramid, truth)))
        ]
        rng = np.random.default_rng(0)
        positives: list[list[np.ndarray]] = [[] for _ in self.shapes]
        negatives: list[list[np.ndarray]] = [[] for _ in self.shapes]
        for pyramid, truth in pairs:
            windows = self._windows(pyramid)
            where = _places(windows)
            common = overlaps(np.concatenate([w.edges for w in windows]), truth.edges)
            for j in range(common.shape[1]):
                self._add_positives(positives, pyramid, windows, where, common[:, j])
            far = np.flatnonzero(common.max(axis=1, initial=0.0) < _NEGATIVE)
            for k in rng.choice(far, min(_AT_FIRST, len(far)), replace=False):
                self._add(negatives, pyramid, windows, where[k])
        self._train(positives, negatives)
        for _ in range(ROUNDS):
            for pyramid, truth in pairs:
                windows = self._windows(pyramid)
                where, scores = _places(windows), self._scores(pyramid, windows)
                edges = np.concatenate([w.edges for w in windows])
                far = overlaps(edges, truth.edges).max(axis=1, initial=0.0) < _NEGATIVE
                hard = np.flatnonzero(far & (scores > -1.0))
                hard = hard[np.argsort(-scores[hard], kind="stable")[:_CANDIDATES]]
                for k in hard[suppress(edges[hard], scores[hard], _SUPPRESSION, _HARD)]:
                    self._add(negatives, pyramid, windows, where[k])
            self._train(positives, negatives)

    def detect(self, images):
        found = []
        for image in images:
            pyramid = self.features.extract(read_image(image))
            windows = self._windows(pyramid)
            edges, scores = (
                np.concatenate([w.edges for w in windows]),
                self._scores(pyramid, windows),
            )
            best = np.argpartition(-scores, min(_CANDIDATES, len(scores) - 1))[:_CANDIDATES]
            best = best[suppress(edges[best], scores[best], _SUPPRESSION, 100)]
            found.append(Detections(edges[best], np.array([self.name] * len(best)), scores[best]))
        return found

    def _train(self, positives: list[list[np.ndarray]], negatives: list[list[np.ndarray]]) -> None:
        self.weights, self.biases = [], []
        for shape, own, others in zip(self.shapes, positives, negatives, strict=True):
            X = np.stack(own + others)
            y = np.repeat([1, -1], [len(own), len(others)])
            model = LinearSVC(C=self.C, intercept_scaling=3.0, random_state=0).fit(X, y)
            self.weights.append(model.coef_.reshape(*shape, -1).astype(np.float32))
            self.biases.append(float(model.intercept_[0]))

    def _add_positives(
        self,
        positives: list[list[np.ndarray]],
        pyramid: Pyramid,
        windows: list[_Windows],
        where: np.ndarray,
        common: np.ndarray,
    ) -> None:
        template = np.array([w.template for w in windows])[where[:, 0]]
        best = [
            int(own[common[own].argmax()])
            for own in (np.flatnonzero(template == t) for t in range(len(self.shapes)))
            if len(own)
        ]
        for k in best:
            if common[k] >= _POSITIVE or common[k] == common.max():
                self._add(positives, pyramid, windows, where[k])

    def _add(
        self,
        examples: list[list[np.ndarray]],
        pyramid: Pyramid,
        windows: list[_Windows],
        place: np.ndarray,
    ) -> None:
        """Keep the cells under a window."""
        own = windows[place[0]]
        row, column = divmod(int(place[1]), own.shape[1])
        height, width = self.shapes[own.template]
        cells = pyramid.level(own.level)[row : row + height, column : column + width]
        examples[own.template].append(cells.ravel() * np.float32(pyramid.unit))

    def _windows(self, pyramid: Pyramid) -> list[_Windows]:
        """All windows that fit into a pyramid."""
        found = []
        for level, (rows, columns) in enumerate(pyramid.shapes.tolist()):
            for t, (height, width) in enumerate(self.shapes.tolist()):
                ny, nx = rows - height + 1, columns - width + 1
                if ny > 0 and nx > 0:
                    found.append(
                        _Windows(t, level, (ny, nx), _edges(pyramid, level, ny, nx, height, width))
                    )
        return found

    def _scores(self, pyramid: Pyramid, windows: list[_Windows]) -> np.ndarray:
        """The score of each window: products with all cells, and sums of these, shifted."""
        scores, products, level = [], np.empty((0, 0, 0), dtype=np.float32), -1
        weights = np.concatenate([w.reshape(-1, w.shape[2]) for w in self.weights])
        firsts = np.concatenate([[0], np.cumsum(self.shapes.prod(axis=1))])
        for own in windows:
            if own.level != level:
                level = own.level
                cells = pyramid.level(level).astype(np.float32) * np.float32(pyramid.unit)
                products = np.tensordot(weights, cells, axes=(1, 2))
            ny, nx = own.shape
            total = np.full((ny, nx), self.biases[own.template], dtype=np.float32)
            height, width = self.shapes[own.template]
            for k in range(height * width):
                y, x = divmod(k, width)
                total += products[firsts[own.template] + k, y : y + ny, x : x + nx]
            scores.append(total.ravel())
        return np.concatenate(scores)


def _places(windows: list[_Windows]) -> np.ndarray:
    """Of each window the number of its group and its number there."""
    sizes = [len(w.edges) for w in windows]
    return np.column_stack(
        [np.repeat(np.arange(len(sizes)), sizes), np.concatenate([np.arange(n) for n in sizes])]
    )


def _edges(pyramid: Pyramid, level: int, ny: int, nx: int, height: int, width: int) -> np.ndarray:
    """Boxes of windows, without the border and within the image."""
    step_x, step_y = pyramid.steps[level]
    left = (np.arange(nx) - pyramid.margin + BORDER) * step_x
    top = (np.arange(ny) - pyramid.margin + BORDER) * step_y
    right, bottom = left + (width - 2 * BORDER) * step_x, top + (height - 2 * BORDER) * step_y
    grids: list[Any] = [
        np.broadcast_to(left, (ny, nx)),
        np.broadcast_to(top[:, None], (ny, nx)),
        np.broadcast_to(right, (ny, nx)),
        np.broadcast_to(bottom[:, None], (ny, nx)),
    ]
    return np.clip(np.stack(grids, axis=2).reshape(-1, 4), 0.0, np.tile(pyramid.size, 2))


def _mirrored(pyramid: Pyramid, truth: Boxes) -> Boxes:
    left, top, right, bottom = truth.edges.T
    width = pyramid.size[0]
    return truth._replace(edges=np.stack([width - right, top, width - left, bottom], axis=1))
