"""Measures of where boxes are: of proposals, and of the best box of each image."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taut.checks import as_share
from taut.errors import InvalidData
from taut.metrics import matching
from taut.vision.boxes import Boxes, Detections, overlaps


class OverlapRecall(NamedTuple):
    """The share of truths that some proposal overlaps by more than so much."""

    overlap: np.ndarray  # rising from 0 to 1: where the share changes
    recall: np.ndarray  # the share from there to the next
    area: float  # below the curve: the mean over truths of the best overlap


def overlap_recall(
    proposals: Sequence[Detections], truths: Sequence[Boxes], top: int | None = 500
) -> OverlapRecall:
    """Share of truths that are proposed, for each overlap.

    Classes of proposals and truths do not matter, and ignored truths do not count. One proposal
    may serve several truths.

    Parameters
    ----------
    proposals : list of Detections
        Boxes that were proposed in each image.
    truths : list of Boxes
        What is in each image.
    top : int or None, default=500
        How many proposals of each image count, those of the highest scores; None for all.

    Returns
    -------
    OverlapRecall
        A curve of steps, and the area below it. This is the mean over truths of the best overlap.

    Raises
    ------
    InvalidData
        Lists are not of the same images, boxes have NaN or negative areas, or no truth counts.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import overlap_recall
    >>> from taut.vision.boxes import Boxes, Detections
    >>> edges = np.array([[0, 0, 10, 10], [20, 0, 30, 10]])
    >>> truth = Boxes(edges, np.array(["cat", "dog"]), np.zeros(2, dtype=bool))
    >>> found = Detections(np.array([[0, 0, 10, 5]]), np.array(["thing"]), np.array([0.9]))
    >>> curve = overlap_recall([found], [truth])
    >>> curve.overlap.tolist(), curve.recall.tolist(), curve.area
    ([0.0, 0.5, 1.0], [0.5, 0.0, 0.0], 0.25)
    """
    count = None if top is None else matching.check_count("top", top)
    images = matching.check(proposals, truths, "proposals")
    images.class_codes()
    best = np.concatenate([image.best_overlaps(count) for image in images.images])
    at = np.unique(np.concatenate([[0.0, 1.0], best]))
    above = len(best) - np.searchsorted(np.sort(best), at, side="right")
    return OverlapRecall(at, above / len(best), float(best.mean()))


def suppress(
    edges: ArrayLike, scores: ArrayLike, threshold: float, top: int | None = None
) -> np.ndarray:
    """Keep the best of boxes that overlap each other: greedy non-maximum suppression.

    The box of the highest score is kept, all that overlap it by more than `threshold` are dropped,
    and so on with what is left.

    Parameters
    ----------
    edges : array of shape (n, 4)
        Left, top, right and bottom of each box.
    scores : array of shape (n,)
        Of equal scores the first comes first.
    threshold : float
        Intersection over union, from 0 to 1. With 1 all boxes are kept.
    top : int, optional
        How many boxes to keep at most.

    Returns
    -------
    array of int
        The boxes that are kept, the highest score first.

    Raises
    ------
    InvalidData
        Boxes have NaN or negative areas, or there is not one score for each.

    Examples
    --------
    >>> from taut.metrics import suppress
    >>> boxes = [[0, 0, 10, 10], [1, 0, 11, 10], [20, 0, 30, 10]]
    >>> suppress(boxes, [0.5, 0.9, 0.7], threshold=0.5).tolist()
    [1, 2]
    """
    boxes = matching.check_edges(edges, "edges")
    values = matching.check_scores(scores, len(boxes), "scores")
    limit = as_share("threshold", threshold)
    count = len(boxes) if top is None else matching.check_count("top", top)
    left = np.argsort(-values, kind="stable")
    boxes = boxes[left]
    kept: list[int] = []
    while len(left) > 0 and len(kept) < count:
        kept.append(int(left[0]))
        apart = overlaps(boxes[:1], boxes[1:])[0] <= limit
        left, boxes = left[1:][apart], boxes[1:][apart]
    return np.array(kept, dtype=np.int64)


def localisation_accuracy(
    detections: Sequence[Detections],
    truths: Sequence[Boxes],
    overlap: float = 0.5,
    class_name: Any = None,
) -> float:
    """Share of images whose best box is right: it overlaps a truth by more than `overlap`.

    The best box is the first of those with the highest score. An image without detections is
    wrong. Images without a truth of the class are left out, and those whose best box overlaps only
    an ignored truth by more than `overlap`.

    Parameters
    ----------
    detections : list of Detections
        What was found in each image.
    truths : list of Boxes
        What is in each image.
    overlap : float, default=0.5
        Intersection over union.
    class_name : str, optional
        The class to measure; it may be left out where truths are of one class.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    InvalidData
        Lists are not of the same images, boxes have NaN or negative areas, or no image counts.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import localisation_accuracy
    >>> from taut.vision.boxes import Boxes, Detections
    >>> cats, box = np.array(["cat"]), np.array([[0, 0, 10, 10]])
    >>> truth = Boxes(box, cats, np.zeros(1, dtype=bool))
    >>> found = [Detections(box + shift, cats, np.array([0.9])) for shift in (1, 4)]
    >>> localisation_accuracy(found, [truth, truth])
    0.5
    """
    limit = as_share("overlap", overlap)
    best = _best_boxes(detections, truths, class_name)
    right = best[:, 0] > limit
    return float(np.mean(right[_some(right | (best[:, 1] <= limit))]))


def mean_best_overlap(
    detections: Sequence[Detections], truths: Sequence[Boxes], class_name: Any = None
) -> float:
    """Mean over images of how much the box of the highest score overlaps a truth.

    It is 0 for an image without detections. Images without a truth of the class are left out, and
    those whose best box overlaps an ignored truth more than any other. The mean over truths of the
    best of several boxes is the area of `overlap_recall`.

    Parameters
    ----------
    detections, truths, class_name
        As for `localisation_accuracy`.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import mean_best_overlap
    >>> from taut.vision.boxes import Boxes, Detections
    >>> cats, box = np.array(["cat"]), np.array([[0, 0, 10, 10]])
    >>> truth = Boxes(box, cats, np.zeros(1, dtype=bool))
    >>> found = [Detections(box + shift, cats, np.array([0.9])) for shift in (0, 50)]
    >>> mean_best_overlap(found, [truth, truth])
    0.5
    """
    best = _best_boxes(detections, truths, class_name)
    return float(np.mean(best[_some(best[:, 0] >= best[:, 1]), 0]))


def _best_boxes(detections: Any, truths: Any, class_name: Any) -> np.ndarray:
    """What the best box of each image with truths overlaps: those that count, and ignored ones."""
    images = matching.check(detections, truths)
    code = images.code_of(class_name)
    there = np.flatnonzero(images.n_truths[:, code])
    return np.array([images.images[i].best_box(code) for i in there])


def _some(counted: np.ndarray) -> np.ndarray:
    if not counted.any():
        raise InvalidData(
            "the best box of each image overlaps an ignored truth, so that no image counts: give "
            "images whose truths are not ignored"
        )
    return counted
