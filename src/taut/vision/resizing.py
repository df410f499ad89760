"""Resizing of images: areas where they shrink, straight lines between pixels where they grow.

Images are resized plane by plane, first in height and then in width. A pixel of the result is a
weighted sum of a few of the image's, its taps, whose weights are symmetric: the mirror image of a
result is the result of the mirror image, up to rounding.
"""

from __future__ import annotations

import math

import numpy as np

from taut.compiled.jit import kernel
from taut.errors import InvalidData, InvalidType


def check_image(image: np.ndarray) -> np.ndarray:
    """An image as a contiguous array of bytes, (height, width, 3); others are refused."""
    image = np.asarray(image)
    if image.dtype != np.uint8:
        raise InvalidType(
            f"the image has values of type {image.dtype}; give red, green and blue as bytes "
            "(uint8, 0 to 255)"
        )
    if image.ndim != 3 or image.shape[2] != 3 or image.size == 0:
        raise InvalidData(
            f"the image has shape {image.shape}; give an array of shape (height, width, 3) with "
            "red, green and blue"
        )
    return np.ascontiguousarray(image)


def planes_of(image: np.ndarray) -> np.ndarray:
    """The three colours one behind the other, (3, height, width)."""
    planes = np.empty((3, *image.shape[:2]), dtype=np.uint8)
    _separate(image, planes)
    return planes


def resized(planes: np.ndarray, height: int, width: int) -> np.ndarray:
    """Planes of another height and width.

    Examples
    --------
    >>> planes = np.array([[[0, 2, 10, 20]]], dtype=np.uint8)
    >>> resized(planes, 1, 2)
    array([[[ 1, 15]]], dtype=uint8)
    """
    if planes.shape[1:] == (height, width):
        return planes
    return _turned(_turned(planes, height), width)


def _turned(planes: np.ndarray, height: int) -> np.ndarray:
    """Planes resized to another height, with rows for columns."""
    count, before, width = planes.shape
    n_taps = min(before, math.ceil(max(before / height, 1.0)) + 1)
    starts = np.empty(height, dtype=np.int64)
    weights = np.empty((height, n_taps), dtype=np.float32)
    result = np.empty((count, width, height), dtype=np.uint8)
    _find_taps(before, starts, weights)
    _turn(planes, starts, weights, np.empty(width, dtype=np.float32), result)
    return result


@kernel
def _separate(image, planes):
    for y in range(image.shape[0]):
        for x in range(image.shape[1]):
            for c in range(3):
                planes[c, y, x] = image[y, x, c]


@kernel
def _find_taps(before, starts, weights):
    """Where the taps of each pixel begin, and their weights: (pixels, taps)."""
    after, n_taps = weights.shape
    ratio = before / after
    for k in range(after):
        if ratio >= 1.0:
            low = k * ratio
            first = math.floor(low + 1e-9)
        else:
            low = (k + 0.5) * ratio - 0.5
            first = math.floor(low)
        start = min(max(first, 0), before - n_taps)
        starts[k] = start
        total = 0.0
        for t in range(n_taps):
            pixel = start + t
            if ratio >= 1.0:
                share = min(pixel + 1.0, low + ratio) - max(pixel + 0.0, low)
            else:
                share = 1.0 - abs(pixel - low)
            share = max(share, 0.0)
            weights[k, t] = share
            total += share
        # Beyond the outermost pixels there are none to draw a line to.
        for t in range(n_taps):
            weights[k, t] /= total


@kernel
def _turn(planes, starts, weights, line, result):
    """Write each row of the resized planes into a column of `result`; `line` is room to work in.

    Sums over rows fill whole vector registers, and sums over columns would not.
    """
    for c in range(planes.shape[0]):
        for y in range(starts.shape[0]):
            for x in range(line.shape[0]):
                line[x] = 0.5
            for t in range(weights.shape[1]):
                share = weights[y, t]
                if share > 0.0:
                    row = planes[c, starts[y] + t]
                    for x in range(row.shape[0]):
                        line[x] += np.float32(row[x]) * share
            turned = result[c]
            for x in range(line.shape[0]):
                turned[x, y] = np.uint8(np.int32(line[x]))
