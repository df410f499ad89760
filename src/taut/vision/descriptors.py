"""Descriptors of small patches on a regular grid of an image."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taut.checks import check_choice
from taut.compiled.jit import helper, kernel
from taut.errors import InvalidData
from taut.vision.hog import BINS, DIRECTIONS, bins, check_count, vote
from taut.vision.resizing import check_image, planes_of

_LINES = DIRECTIONS // 2


class DescriptorMap(NamedTuple):
    """The descriptors of one image: values[i, j] is that of the patch around (x[j], y[i])."""

    values: np.ndarray  # (n_rows, n_columns, n_features), float32
    x: np.ndarray  # (n_columns,), float64: pixels from the left edge of the image
    y: np.ndarray  # (n_rows,), float64: pixels from its upper edge
    size: np.ndarray  # (2,), float64: width and height of the image in pixels


@dataclass(frozen=True)
class DenseDescriptors:
    """Descriptors of square patches on a regular grid.

    The image is cut into cells of `step` x `step` pixels, and a patch is a square of cells; there
    is one at every cell at which it lies within the image. What remains at the right and lower edge
    is left out.

    Parameters
    ----------
    step : int, default=4
        Pixels from one patch to the next.
    patch : int, default=8
        Height and width of a patch in pixels, a multiple of `step`.
    kind : {"hog", "colour"}, default="hog"
        - ``"hog"``: for each cell of a patch the gradients in 9 directions, where opposite ones
          are one. A descriptor has length 1, or 0 where there is no gradient, and no number in it
          is above 0.2 before that length is restored.
        - ``"colour"``: for each cell of a patch the means of red, green and blue, from 0 to 1.

    Examples
    --------
    >>> image = np.zeros((48, 64, 3), dtype=np.uint8)
    >>> described = DenseDescriptors(step=8, patch=16).extract(image)
    >>> described.values.shape, described.x[:3], described.y[:3]
    ((5, 7, 36), array([ 8., 16., 24.]), array([ 8., 16., 24.]))
    """

    step: int = 4
    patch: int = 8
    kind: str = "hog"

    def __post_init__(self) -> None:
        check_count("step", self.step, 2)
        check_count("patch", self.patch, self.step)
        if self.patch % self.step:
            raise InvalidData(
                f"patch = {self.patch} is no multiple of step = {self.step}; give one that is"
            )
        check_choice("kind", self.kind, tuple(_KINDS))

    @property
    def n_features(self) -> int:
        """How many numbers a descriptor has."""
        return _KINDS[self.kind].per_cell * (self.patch // self.step) ** 2

    def extract(self, image: np.ndarray) -> DescriptorMap:
        """Describe the patches of an image.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width, 3)
            Red, green and blue.

        Returns
        -------
        DescriptorMap

        Raises
        ------
        InvalidData
            It is no such image, or smaller than a patch.
        """
        image = check_image(image)
        height, width = image.shape[:2]
        if min(height, width) < self.patch:
            raise InvalidData(
                f"the image of {width} x {height} pixels is smaller than a patch of {self.patch}; "
                "give a larger image or a smaller patch"
            )
        kind = _KINDS[self.kind]
        side = self.patch // self.step
        cells = kind.describe(planes_of(image), self.step)
        rows, columns = cells.shape[0] - side + 1, cells.shape[1] - side + 1
        values = np.empty((rows, columns, self.n_features), dtype=np.float32)
        _gather(cells, side, kind.most, values)
        return DescriptorMap(
            values,
            np.arange(columns) * float(self.step) + self.patch / 2,
            np.arange(rows) * float(self.step) + self.patch / 2,
            np.array([width, height], dtype=np.float64),
        )


def _gradients(planes: np.ndarray, step: int) -> np.ndarray:
    """The gradients of each cell by direction, opposite ones together."""
    rows, columns = planes.shape[1] // step, planes.shape[2] // step
    planes = planes[:, : rows * step, : columns * step]
    votes = np.empty((rows + 2, (columns + 2) * BINS), dtype=np.float32)
    vote(
        np.ascontiguousarray(planes),
        step,
        bins(),
        np.empty(planes.shape[2], dtype=np.float32),
        np.empty(planes.shape[2], dtype=np.int32),
        np.empty(votes.shape[1], dtype=np.float32),
        votes,
    )
    inside = votes.reshape(rows + 2, columns + 2, BINS)[1:-1, 1:-1]
    cells = inside[..., :_LINES] + inside[..., _LINES:DIRECTIONS]
    # Straight up and straight down lie between two directions.
    upright = inside[..., DIRECTIONS:].sum(axis=2) / 2
    cells[..., _LINES // 2] += upright
    cells[..., _LINES // 2 + 1] += upright
    return cells


def _colours(planes: np.ndarray, step: int) -> np.ndarray:
    """The mean colour of each cell."""
    rows, columns = planes.shape[1] // step, planes.shape[2] // step
    whole = planes[:, : rows * step, : columns * step].reshape(3, rows, step, columns, step)
    means = whole.mean(axis=(2, 4), dtype=np.float32) / np.float32(255.0)
    return np.ascontiguousarray(means.transpose(1, 2, 0))


class _Kind(NamedTuple):
    describe: Callable[[np.ndarray, int], np.ndarray]
    per_cell: int
    most: float  # of a number in a descriptor of length 1; 0 if it has any length


_KINDS = {"hog": _Kind(_gradients, _LINES, 0.2), "colour": _Kind(_colours, 3, 0.0)}


@helper
def _restore(vector):
    """Divide a vector by its length, unless that is 0."""
    square = np.float32(0.0)
    for k in range(vector.shape[0]):
        square += vector[k] * vector[k]
    if square > 0.0:
        share = np.float32(1.0) / math.sqrt(square)
        for k in range(vector.shape[0]):
            vector[k] *= share


@kernel
def _gather(cells, side, most, values):
    """Write the cells of each patch one behind the other; give them length 1 if there is a most."""
    per_cell = cells.shape[2]
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            into = values[i, j]
            for p in range(side):
                for q in range(side):
                    cell = cells[i + p, j + q]
                    at = (p * side + q) * per_cell
                    for k in range(cell.shape[0]):
                        into[at + k] = cell[k]
            if most > 0.0:
                _restore(into)
                for k in range(into.shape[0]):
                    into[k] = min(into[k], np.float32(most))
                _restore(into)
