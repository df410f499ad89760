"""Measures of detectors: precision and recall, average precision, and how sure these are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from taut.checks import check_number
from taut.data.arrays import show
from taut.errors import InvalidData
from taut.metrics import matching
from taut.metrics.localisation import (
    OverlapRecall,
    localisation_accuracy,
    mean_best_overlap,
    overlap_recall,
    suppress,
)
from taut.vision.boxes import Boxes, Detections

__all__ = [
    "CocoPrecision",
    "Interval",
    "OverlapRecall",
    "PrecisionRecall",
    "average_precision",
    "bootstrap_interval",
    "coco_average_precision",
    "localisation_accuracy",
    "mean_average_precision",
    "mean_best_overlap",
    "overlap_recall",
    "precision_recall",
    "suppress",
]

_COCO_OVERLAPS = np.linspace(0.5, 0.95, 10)
_COCO_POINTS = 101


class PrecisionRecall(NamedTuple):
    """How a detector does when it reports what scores at least so much, the highest score first."""

    precision: np.ndarray  # share of reported boxes that are hits
    recall: np.ndarray  # share of truths that are found
    scores: np.ndarray  # falling, each value once

    @property
    def area(self) -> float:
        """The average precision: the area under the interpolated curve, at all points."""
        return _area(self.precision, self.recall, None)


def precision_recall(
    detections: Sequence[Detections],
    truths: Sequence[Boxes],
    overlap: float = 0.5,
    class_name: Any = None,
) -> PrecisionRecall:
    """Precision and recall of a detector, for each score as the lowest that is reported.

    In each image detections are taken by falling score. Each finds the truth of its class that it
    overlaps most among those that no other has found, if intersection over union is at least
    `overlap`. One that finds none is a false alarm, so an object that is found twice gives one; but
    where so much of its own area lies inside an ignored truth of its class, it does not count, as
    with the crowds of COCO. No ignored truth is missed. Detections of equal score are reported
    together.

    Parameters
    ----------
    detections : list of Detections
        What was found in each image.
    truths : list of Boxes
        What is in each image.
    overlap : float, default=0.5
    class_name : str, optional
        The class to measure; it may be left out where truths are of one class.

    Returns
    -------
    PrecisionRecall
        Arrays with an entry for each different score. Without any detection they are empty.

    Raises
    ------
    InvalidData
        Lists are not of the same images, boxes have NaN or negative areas, or no truth of the
        class counts.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import precision_recall
    >>> from taut.vision.boxes import Boxes, Detections
    >>> cats = np.array(["cat", "cat"])
    >>> truth = Boxes(np.array([[0, 0, 10, 10], [20, 0, 30, 10]]), cats, np.zeros(2, dtype=bool))
    >>> boxes = np.array([[0, 0, 10, 9], [0, 1, 10, 10]])
    >>> curve = precision_recall([Detections(boxes, cats, np.array([0.9, 0.4]))], [truth])
    >>> curve.precision.tolist(), curve.recall.tolist()
    ([1.0, 0.5], [0.5, 0.5])
    """
    least = matching.check_overlap(overlap)
    images = matching.check(detections, truths)
    code = images.code_of(class_name)
    found = images.outcomes([least]).of_class(code)
    return _curve(found, 0, int(images.n_truths[:, code].sum()))


def average_precision(
    detections: Sequence[Detections],
    truths: Sequence[Boxes],
    overlap: float = 0.5,
    class_name: Any = None,
    *,
    points: int | None = None,
) -> float:
    """Area under the interpolated curve of precision over recall.

    Interpolated precision at a recall is the highest precision at this or any higher recall.
    Detections are matched as in `precision_recall`.

    Parameters
    ----------
    detections, truths, overlap, class_name
        As for `precision_recall`.
    points : int, optional
        None is the area itself, as in the PASCAL VOC challenges since 2010. A number is the mean
        over so many equal steps of recall from 0 to 1: 11 as in VOC until 2009, 101 as in COCO.

    Returns
    -------
    float
        Between 0 and 1; 0 if nothing was found.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import average_precision
    >>> from taut.vision.boxes import Boxes, Detections
    >>> cats = np.array(["cat", "cat"])
    >>> truth = Boxes(np.array([[0, 0, 10, 10], [20, 0, 30, 10]]), cats, np.zeros(2, dtype=bool))
    >>> boxes = np.array([[50, 50, 60, 60], [0, 0, 10, 9]])
    >>> average_precision([Detections(boxes, cats, np.array([0.9, 0.4]))], [truth])
    0.25
    """
    n_points = _check_points(points)
    curve = precision_recall(detections, truths, overlap, class_name)
    return _area(curve.precision, curve.recall, n_points)


def mean_average_precision(
    detections: Sequence[Detections],
    truths: Sequence[Boxes],
    overlap: float = 0.5,
    *,
    points: int | None = None,
) -> float:
    """Mean of `average_precision` over the classes that have truths.

    Parameters
    ----------
    detections, truths, overlap, points
        As for `average_precision`. Detections of classes that have no truth do not count.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import mean_average_precision
    >>> from taut.vision.boxes import Boxes, Detections
    >>> edges = np.array([[0, 0, 10, 10], [20, 0, 30, 10]])
    >>> truth = Boxes(edges, np.array(["cat", "dog"]), np.zeros(2, dtype=bool))
    >>> found = Detections(edges, np.array(["cat", "cat"]), np.array([0.9, 0.4]))
    >>> mean_average_precision([found], [truth])
    0.5
    """
    least, n_points = matching.check_overlap(overlap), _check_points(points)
    images = matching.check(detections, truths)
    codes, found, counts = images.class_codes(), images.outcomes([least]), images.n_truths.sum(0)
    curves = [_curve(found.of_class(code), 0, counts[code]) for code in codes]
    return float(np.mean([_area(curve.precision, curve.recall, n_points) for curve in curves]))


class CocoPrecision(NamedTuple):
    """COCO's average precision, the mean of a table, and means over its rows and columns."""

    mean: float
    by_class: dict[Any, float]
    by_overlap: dict[float, float]
    table: np.ndarray  # (n_classes, n_overlaps), in the order of the two others


def coco_average_precision(
    detections: Sequence[Detections],
    truths: Sequence[Boxes],
    *,
    max_detections: int = 100,
) -> CocoPrecision:
    """Average precision as the COCO challenges define it.

    It is the mean over classes and over the overlaps 0.50, 0.55, ..., 0.95 of the interpolated
    precision at 101 steps of recall. Of each class the detections of highest score of each image
    count, 100 of them. Ignored truths are crowds, as in `precision_recall`. Detections of equal
    score count in their order, that of images first.
    All boxes count, whatever their size.

    Parameters
    ----------
    detections, truths
        As for `precision_recall`.
    max_detections : int, default=100
        How many detections of a class count in each image.

    Returns
    -------
    CocoPrecision
        The mean, means by class and by overlap, and all values. Classes without truths that count
        are left out.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import coco_average_precision
    >>> from taut.vision.boxes import Boxes, Detections
    >>> cats = np.array(["cat"])
    >>> truth = Boxes(np.array([[0, 0, 10, 10]]), cats, np.zeros(1, dtype=bool))
    >>> found = Detections(np.array([[0, 0, 10, 8]]), cats, np.array([0.9]))
    >>> result = coco_average_precision([found], [truth])
    >>> round(result.mean, 3), round(result.by_overlap[0.5], 3), result.by_overlap[0.85]
    (0.7, 1.0, 0.0)
    """
    count = matching.check_count("max_detections", max_detections)
    images = matching.check(detections, truths)
    codes = images.class_codes()
    found, counts = images.outcomes(_COCO_OVERLAPS.tolist()), images.n_truths.sum(0)
    table = np.empty((len(codes), len(_COCO_OVERLAPS)))
    for row, code in zip(table, codes, strict=True):
        ranked = found.of_class(code).first(count)
        for t in range(len(row)):
            curve = _curve(ranked, t, counts[code], ties_together=False)
            row[t] = _area(curve.precision, curve.recall, _COCO_POINTS)
    names = [images.names[code] for code in codes]
    return CocoPrecision(
        float(table.mean()),
        dict(zip(names, table.mean(axis=1).tolist(), strict=True)),
        dict(zip(_COCO_OVERLAPS.round(2).tolist(), table.mean(axis=0).tolist(), strict=True)),
        table,
    )


class Interval(NamedTuple):
    """The value of a metric, and the interval that it lies in by resampling."""

    value: float
    low: float
    high: float


def bootstrap_interval(
    metric: Callable[[list[Detections], list[Boxes]], float],
    detections: Sequence[Detections],
    truths: Sequence[Boxes],
    n: int = 1000,
    level: float = 0.95,
    random_state: int | None = 0,
) -> Interval:
    """Interval of a metric over samples of images, by the percentile bootstrap.

    Each sample has as many images as there are, drawn with replacement. So the interval says how
    much the value depends on which images were tested, for a detector that is given. Detections
    are matched with truths once for all samples, if the metric is made of those of this module.

    Parameters
    ----------
    metric : callable
        Takes detections and truths, and returns a number, such as `average_precision`.
    detections, truths
        As for `precision_recall`.
    n : int, default=1000
        Number of samples.
    level : float, default=0.95
        Share of samples whose value lies in the interval.
    random_state : int or None, default=0

    Returns
    -------
    Interval
        The value for all images, and both ends. Samples that have no truth to measure are left out.

    Raises
    ------
    InvalidData
        More than half of the samples have no truth to measure.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import average_precision, bootstrap_interval
    >>> from taut.vision.boxes import Boxes, Detections
    >>> cats, box = np.array(["cat"]), np.array([[0, 0, 10, 10]])
    >>> truth = Boxes(box, cats, np.zeros(1, dtype=bool))
    >>> found = [Detections(box + shift, cats, np.array([0.9])) for shift in (0, 0, 50, 0)]
    >>> interval = bootstrap_interval(average_precision, found, [truth] * 4)
    >>> interval.value, interval.low <= interval.value <= interval.high
    (0.5625, True)
    """
    n_samples = matching.check_count("n", n)
    check_number("level", level)
    if not 0.0 < level < 1.0:
        raise InvalidData(f"level = {show(level)}: give a number between 0 and 1, such as 0.95")
    known = matching.check(detections, truths)
    rng = np.random.default_rng(random_state)
    everything = matching.Drawn(detections, truths, known, np.arange(len(truths)))
    value = float(metric(everything, everything.truths))
    values = []
    for _ in range(n_samples):
        which = rng.integers(len(truths), size=len(truths))
        sample = matching.Drawn(detections, truths, known, which)
        # Whatever else is wrong was refused above: a sample may only lack truths.
        try:
            values.append(float(metric(sample, sample.truths)))
        except InvalidData as error:
            reason = error
    if 2 * len(values) < n_samples:
        raise InvalidData(
            f"{n_samples - len(values)} of {n_samples} samples of the images cannot be measured: "
            f"{reason}; give more images with truths"
        ) from reason
    low, high = np.quantile(values, [0.5 - level / 2.0, 0.5 + level / 2.0]).tolist()
    return Interval(value, low, high)


def _curve(
    found: matching.Stacked, t: int, n_truths: int, *, ties_together: bool = True
) -> PrecisionRecall:
    """Precision and recall at one overlap, after each detection or each different score."""
    counted = ~found.left_out[:, t]
    scores, hits = found.scores[counted], found.hits[counted, t]
    order = np.argsort(-scores, kind="stable")
    scores, right = scores[order], np.cumsum(hits[order])
    precision = right / np.arange(1.0, len(right) + 1.0)
    ends = np.append(scores[1:] != scores[:-1], True)[: len(scores)] | (not ties_together)
    return PrecisionRecall(precision[ends], right[ends] / n_truths, scores[ends])


def _area(precision: np.ndarray, recall: np.ndarray, points: int | None) -> float:
    """The mean over recall, or over some points of it, of the best precision from there on."""
    best = np.maximum.accumulate(precision[::-1])[::-1]
    if points is None:
        # Steps of recall may add up to a little more than 1.
        return min(float(np.diff(recall, prepend=0.0) @ best), 1.0)
    places = np.searchsorted(recall, np.linspace(0.0, 1.0, points), side="left")
    return float(np.append(best, 0.0)[places].mean())


def _check_points(points: Any) -> int | None:
    count = None if points is None else matching.check_count("points", points)
    if count == 1:
        raise InvalidData("points = 1: give at least the two ends of recall, or None for its area")
    return count
