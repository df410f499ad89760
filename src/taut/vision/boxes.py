"""Boxes in images: edges in pixels, classes, and how much they overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.errors import InvalidData


class Boxes(NamedTuple):
    """The objects of one image.

    Coordinates are those of the image as it is shown, after its orientation was applied: edges in
    pixels from the upper left corner. A whole image of 320 x 200 pixels is (0, 0, 320, 200).
    """

    edges: np.ndarray  # (n, 4), float64: left, top, right, bottom
    classes: np.ndarray  # (n,), text
    ignored: np.ndarray  # (n,), bool: neither to be found nor to be missed, such as crowds

    def mirrored(self, width: float) -> Boxes:
        """The same objects in the mirror image of an image of a width."""
        return self._replace(edges=mirrored_edges(self.edges, width))


class Detections(NamedTuple):
    """What a detector found in one image, the highest score first."""

    edges: np.ndarray  # (n, 4), float64
    classes: np.ndarray  # (n,)
    scores: np.ndarray  # (n,), float64


class FoundPoses(NamedTuple):
    """The one object that was found in each of some images, and from where it is seen."""

    edges: np.ndarray  # (n, 4), float64
    angles: np.ndarray  # (n,), float64: radians in [0, 2 pi)
    scores: np.ndarray  # (n,), float64


def mirrored_edges(edges: np.ndarray, width: float | np.ndarray) -> np.ndarray:
    """Boxes where left is right, of an image of some width, or of images of these."""
    left, top, right, bottom = edges.T
    return np.stack([width - right, top, width - left, bottom], axis=1)


def areas(edges: np.ndarray) -> np.ndarray:
    """The area of each box, 0 where an edge lies beyond its opposite."""
    sides = np.clip(edges[..., 2:] - edges[..., :2], 0.0, None)
    return sides[..., 0] * sides[..., 1]


def within(edges: np.ndarray, size: Sequence[float], where: str) -> np.ndarray:
    """Boxes cut off where their image ends; those that lie outside are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.boxes import within
    >>> within(np.array([[-2.0, 3.0, 20.0, 30.0]]), (40, 24), "image 0")
    array([[ 0.,  3., 20., 24.]])
    """
    cut = np.clip(edges, 0.0, np.tile(np.asarray(size, dtype=np.float64), 2))
    outside = np.flatnonzero(areas(cut) <= 0.0)
    if len(outside):
        given = ", ".join(f"{value:g}" for value in edges[outside[0]])
        raise InvalidData(
            f"{where}, box {outside[0]} ({given}) is outside of the image, which has {size[0]:g} x "
            f"{size[1]:g} pixels: mend or drop it"
        )
    return cut


def overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of each box of a with each of b, shape (len(a), len(b))."""
    return paired_overlaps(a[:, None], b[None])


def paired_overlaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Intersection over union of each box of a with its own of b, as numpy broadcasts them.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.boxes import paired_overlaps
    >>> boxes = np.array([[0.0, 0.0, 10.0, 10.0], [0.0, 0.0, 10.0, 5.0]])
    >>> paired_overlaps(boxes, boxes[:1])
    array([1. , 0.5])
    """
    common = _common(a, b)
    union = areas(a) + areas(b) - common
    return np.divide(common, union, out=np.zeros_like(common), where=union > 0.0)


@helper
def overlap_of(a, b):
    """Intersection over union of two boxes inside compiled functions; 0 where one is empty."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    common = width * height
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return common / (both - common)


def shares_inside(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The share of each box of a that lies in each of b, shape (len(a), len(b)).

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.boxes import shares_inside
    >>> crowd = np.array([[0.0, 0.0, 40.0, 20.0]])
    >>> shares_inside(np.array([[10.0, 10.0, 20.0, 30.0]]), crowd)
    array([[0.5]])
    """
    common, own = _common(a[:, None], b[None]), areas(a)[:, None]
    return np.divide(common, own, out=np.zeros_like(common), where=own > 0.0)


def _common(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The area that each box of a has in common with its own of b."""
    low, high = np.maximum(a[..., :2], b[..., :2]), np.minimum(a[..., 2:], b[..., 2:])
    return areas(np.concatenate([low, high], axis=-1))
