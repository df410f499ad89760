"""What was found in images, checked, and matched with what is there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np

from taut.checks import check_number
from taut.data.arrays import as_numbers, check_finite, show
from taut.errors import InvalidData, InvalidType
from taut.vision.boxes import Boxes, Detections, overlaps, shares_inside

P = ParamSpec("P")
R = TypeVar("R")


class Outcome(NamedTuple):
    """What became of the detections of an image, the highest score first, at some overlaps."""

    hits: np.ndarray  # (n, n_overlaps), bool: found a truth that counts
    left_out: np.ndarray  # (n, n_overlaps), bool: found an ignored truth alone


def _once(method: Callable[P, R]) -> Callable[P, R]:
    """Keep what a method of an image found, for all samples that the image is in."""

    @functools.wraps(method)
    def kept(*args: P.args, **kwargs: P.kwargs) -> R:
        image: Any = args[0]
        key = method.__name__, args[1:], *kwargs.items()
        if key not in image._known:
            image._known[key] = method(*args, **kwargs)
        return image._known[key]

    return kept


@dataclass(frozen=True, eq=False)
class Image:
    """The detections of one image, the highest score first, and its truths; classes as codes."""

    edges: np.ndarray
    codes: np.ndarray
    scores: np.ndarray
    truths: np.ndarray
    truth_codes: np.ndarray
    ignored: np.ndarray
    _known: dict[Any, Any] = field(default_factory=dict)

    @_once
    def outcome(self, least: tuple[float, ...]) -> Outcome:
        """As `match`; the overlap with an ignored truth is the share that lies inside it."""
        same = self.codes[:, None] == self.truth_codes
        counted, ignored = self._sides
        return match(
            np.where(same[:, counted], overlaps(self.edges, self.truths[counted]), -1.0),
            np.where(same[:, ignored], shares_inside(self.edges, self.truths[ignored]), -1.0),
            np.array(least),
        )

    @_once
    def best_box(self, code: int) -> tuple[float, float]:
        """How much the best box of a class overlaps truths that count, and ignored ones."""
        box = self.edges[self.codes == code][:1]
        counted, ignored = (
            overlaps(box, self.truths[side & (self.truth_codes == code)]).max(initial=0.0)
            for side in self._sides
        )
        return float(counted), float(ignored)

    @_once
    def best_overlaps(self, top: int | None) -> np.ndarray:
        """The largest overlap of each truth that counts with the first boxes of any class."""
        table = overlaps(self.edges[:top], self.truths[~self.ignored])
        # Rounding may make more than 1 of the overlap of equal boxes.
        return np.minimum(table.max(axis=0, initial=0.0), 1.0)

    def n_truths(self, n_classes: int) -> np.ndarray:
        """How many truths of each class count."""
        return np.bincount(self.truth_codes[~self.ignored], minlength=n_classes)

    @property
    def _sides(self) -> tuple[np.ndarray, np.ndarray]:
        return ~self.ignored, self.ignored


class Images(NamedTuple):
    """Images whose classes have the same codes."""

    images: list[Image]
    names: list[Any]  # of the classes, by code
    n_truths: np.ndarray  # of each class, by image: (n_images, n_classes)

    def take(self, which: np.ndarray) -> Images:
        """Some images."""
        return Images([self.images[i] for i in which], self.names, self.n_truths[which])

    def class_codes(self) -> list[int]:
        """The classes that have truths which count; there must be one."""
        codes = np.flatnonzero(self.n_truths.any(axis=0)).tolist()
        if not codes:
            raise InvalidData(
                "no image has a truth that is not ignored, so that nothing can be found or missed: "
                "give images with boxes"
            )
        return codes

    def code_of(self, class_name: Any) -> int:
        """The code of a class that has truths; None is the only one that has."""
        codes = self.class_codes()
        present = [self.names[code] for code in codes]
        if class_name is None:
            if len(codes) > 1:
                raise InvalidData(
                    f"class_name is None, and truths are of {len(codes)} classes: give one of "
                    f"{present}, or measure the mean over classes"
                )
            return codes[0]
        if class_name not in present:
            raise InvalidData(
                f"class_name = {show(class_name)}: no truth of this class counts; give one of "
                f"{present}"
            )
        return codes[present.index(class_name)]

    def outcomes(self, least: Sequence[float]) -> Stacked:
        """The detections of all images, stacked, at the overlaps that they must have at least."""
        key = tuple(map(float, least))
        found = [image.outcome(key) for image in self.images]
        return Stacked(
            np.repeat(np.arange(len(found)), [len(image.scores) for image in self.images]),
            np.concatenate([image.codes for image in self.images]),
            np.concatenate([image.scores for image in self.images]),
            np.concatenate([outcome.hits for outcome in found]),
            np.concatenate([outcome.left_out for outcome in found]),
        )


class Stacked(NamedTuple):
    """The detections of all images, one image after the other."""

    image: np.ndarray
    codes: np.ndarray
    scores: np.ndarray
    hits: np.ndarray
    left_out: np.ndarray

    def of_class(self, code: int) -> Stacked:
        """Those of one class."""
        which = self.codes == code
        return Stacked(*(values[which] for values in self))

    def first(self, count: int) -> Stacked:
        """The first ones of each image."""
        starts = np.searchsorted(self.image, self.image, side="left")
        which = np.arange(len(self.image)) - starts < count
        return Stacked(*(values[which] for values in self))


def match(table: np.ndarray, ignored: np.ndarray, least: np.ndarray) -> Outcome:
    """Give detections, the first one first, the truth that each overlaps most of those not taken.

    An overlap must be at least `least`, for each of which all begins anew. Of equal overlaps the
    last truth is taken, as by pycocotools. Ignored truths are never used up, and are for
    detections that find no other.

    Parameters
    ----------
    table, ignored : arrays of shape (n_detections, n_truths)
        Overlaps with truths that count, and shares inside ignored ones; negative where classes
        differ.
    least : array of shape (n_overlaps,)
    """
    # Rounding may keep boxes that are equal from an overlap of 1.
    least = np.minimum(least, 1.0 - 1e-10)
    n_truths = table.shape[1]
    hits = np.zeros((len(table), len(least)), dtype=bool)
    taken = np.zeros((len(least), n_truths), dtype=bool)
    for i in np.flatnonzero(table.max(axis=1, initial=-1.0) >= least.min()):
        free = np.where(taken | (table[i] < least[:, None]), -1.0, table[i])
        best = n_truths - 1 - free[:, ::-1].argmax(axis=1)
        hits[i] = free[np.arange(len(least)), best] >= 0.0
        taken[hits[i], best[hits[i]]] = True
    inside = ignored.max(axis=1, initial=-1.0)[:, None] >= least
    return Outcome(hits, inside & ~hits)


class Drawn(list):
    """Detections of images that were drawn from known ones, so that metrics need not look anew.

    They count as known only together with their own `truths`.
    """

    def __init__(
        self, detections: Sequence[Any], truths: Sequence[Any], known: Images, which: np.ndarray
    ) -> None:
        super().__init__(detections[i] for i in which)
        self.truths = [truths[i] for i in which]
        self.images = known.take(which)


def check(detections: Any, truths: Any, name: str = "detections") -> Images:
    """Detections and truths of images, from what users give; errors call the former `name`."""
    if isinstance(detections, Drawn) and truths is detections.truths:
        return detections.images
    _check_images(detections, truths, name)
    codes: dict[Any, int] = {}
    images = []
    for i, (found, truth) in enumerate(zip(detections, truths, strict=True)):
        edges, classes, scores = _check_detections(found, f"{name}[{i}]")
        boxes = _check_truths(truth, f"truths[{i}]")
        order = np.argsort(-scores, kind="stable")
        images.append(
            Image(
                edges[order],
                _coded(classes, codes)[order],
                scores[order],
                boxes.edges,
                _coded(boxes.classes, codes),
                boxes.ignored,
            )
        )
    counts = np.array([image.n_truths(len(codes)) for image in images])
    return Images(images, list(codes), counts)


def _check_images(detections: Any, truths: Any, name: str) -> None:
    """Refuse lists that cannot be of the same images."""
    lengths = []
    for values, what, kind in ((detections, name, Detections), (truths, "truths", Boxes)):
        if isinstance(values, Detections | Boxes) or not isinstance(values, Sequence):
            raise InvalidType(
                f"{what} is a {type(values).__name__}: give a list with a {kind.__name__} of "
                "taut.vision.boxes for each image"
            )
        lengths.append(len(values))
    if lengths[0] != lengths[1] or lengths[0] == 0:
        raise InvalidData(
            f"{name} has {lengths[0]} images, truths has {lengths[1]}: give both for each image, "
            "and at least one image"
        )


def _check_detections(found: Any, name: str) -> Detections:
    """The detections of one image as arrays, in their order."""
    edges, classes, scores = _fields(found, Detections, name)
    edges = check_edges(edges, f"{name}.edges")
    return Detections(
        edges,
        _check_classes(classes, len(edges), f"{name}.classes"),
        check_scores(scores, len(edges), f"{name}.scores"),
    )


def _check_truths(truth: Any, name: str) -> Boxes:
    """The true boxes of one image as arrays."""
    edges, classes, ignored = _fields(truth, Boxes, name)
    edges = check_edges(edges, f"{name}.edges")
    flags = np.asarray(ignored)
    if flags.shape != (len(edges),) or (flags.dtype != bool and flags.size > 0):
        raise InvalidData(
            f"{name}.ignored has the shape {flags.shape} and the type {flags.dtype}: give True or "
            f"False for each of the {len(edges)} boxes"
        )
    classes = _check_classes(classes, len(edges), f"{name}.classes")
    return Boxes(edges, classes, flags.astype(bool))


def check_edges(values: Any, name: str) -> np.ndarray:
    """Edges of boxes as float64: left, top, right, bottom."""
    edges = as_numbers(values, name).astype(np.float64, copy=False)
    if edges.size == 0:
        return edges.reshape(0, 4)
    if edges.ndim != 2 or edges.shape[1] != 4:
        raise InvalidData(
            f"{name} has the shape {edges.shape}: give left, top, right and bottom of each box, in "
            "the shape (n, 4)"
        )
    check_finite(edges, name)
    wrong = (edges[:, 2] < edges[:, 0]) | (edges[:, 3] < edges[:, 1])
    if wrong.any():
        k = int(wrong.argmax())
        raise InvalidData(
            f"{name} has the box {edges[k].tolist()} at row {k}, whose area is negative: give "
            "left <= right and top <= bottom"
        )
    return edges


def check_scores(values: Any, n: int, name: str) -> np.ndarray:
    """A score for each box, as float64."""
    scores = as_numbers(values, name).astype(np.float64, copy=False)
    if scores.shape != (n,):
        raise InvalidData(
            f"{name} has the shape {scores.shape}: give a score for each of the {n} boxes"
        )
    if np.isnan(scores).any():
        k = int(np.isnan(scores).argmax())
        raise InvalidData(f"{name} has NaN at row {k}, which has no rank: give numbers")
    return scores


def check_overlap(value: Any, name: str = "overlap") -> float:
    """An overlap that detections must have."""
    check_number(name, value)
    if not 0.0 < value <= 1.0:
        raise InvalidData(f"{name} = {show(value)}: give a number above 0, and at most 1")
    return float(value)


def check_count(name: str, value: Any) -> int:
    """A whole number of things, at least one."""
    if not isinstance(value, Integral) or value < 1:
        raise InvalidData(f"{name} = {show(value)}: give a whole number, at least 1")
    return int(value)


def _fields(item: Any, kind: Any, name: str) -> list[Any]:
    """The fields of one image's boxes, which may be of another class with the same fields."""
    missing = [part for part in kind._fields if not hasattr(item, part)]
    if missing:
        raise InvalidType(
            f"{name} is a {type(item).__name__} without {', '.join(missing)}: give a "
            f"taut.vision.boxes.{kind.__name__}"
        )
    return [getattr(item, part) for part in kind._fields]


def _check_classes(values: Any, n: int, name: str) -> np.ndarray:
    classes = np.asarray(values, dtype=object)
    if classes.shape != (n,):
        raise InvalidData(
            f"{name} has the shape {classes.shape}: give a class for each of the {n} boxes"
        )
    return classes


def _coded(classes: Iterable[Any], codes: dict[Any, int]) -> np.ndarray:
    """Classes by number; new ones get the next."""
    return np.fromiter((codes.setdefault(name, len(codes)) for name in classes), dtype=np.int64)
