"""Feature pyramids: an image at several sizes, each as a map of cells with some channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taut.errors import InvalidData, InvalidType


class Pyramid(NamedTuple):
    """The features of one image at several scales.

    All cells of all levels stand one below the other in `cells`, level by level and row by row of
    cells. Each level has a margin of empty cells on all sides, so that windows may reach beyond the
    image: cell (row, column) of level l covers, in pixels of the image,

        left = (column - margin) * steps[l, 0]        top = (row - margin) * steps[l, 1].

    Feature k of a cell is `unit` times its number in `cells`: HOG cells are kept as bytes. Where it
    is not known which channel each is in the mirrored image, `mirror` is empty.

    A pyramid that is `mirrored` stands for the mirrored image and has the cells of the image
    itself: in each row the last cell is the first, and its channels are in the order of `mirror`.
    """

    cells: np.ndarray  # (n_cells, n_channels), uint8 or float32
    shapes: np.ndarray  # (n_levels, 2), int32: rows and columns of cells, margins included
    steps: np.ndarray  # (n_levels, 2), float64: width and height of a cell in pixels of the image
    size: np.ndarray  # (2,), float64: width and height of the image in pixels
    margin: int  # cells on each side
    unit: float  # what a number in `cells` is multiplied by
    mirror: np.ndarray  # (n_channels,), int32: which channel each is in the mirrored image
    mirrored: bool = False  # whether it stands for the mirrored image, whose cells are not stored

    @property
    def starts(self) -> np.ndarray:
        """The first cell of each level, and the end: int64, shape (n_levels + 1,)."""
        return np.concatenate([[0], np.cumsum(self.shapes.prod(axis=1, dtype=np.int64))])

    def level(self, number: int) -> np.ndarray:
        """The cells of a level as (rows, columns, channels), margins included, left to right."""
        rows, columns = self.shapes[number]
        first = int(self.starts[:-1][number])
        cells = self.cells[first : first + rows * columns].reshape(rows, columns, -1)
        return cells[:, ::-1, self.mirror] if self.mirrored else cells

    def mirror_image(self) -> Pyramid:
        """The pyramid of the mirrored image, on the same memory."""
        if not len(self.mirror):
            raise InvalidData(
                "it is not known which channel each is in the mirrored image: give pyramid_of "
                "mirror, or extract the features of mirrored images"
            )
        return self._replace(mirrored=not self.mirrored)


def pyramid_of(
    maps: Sequence[ArrayLike],
    steps: ArrayLike,
    size: ArrayLike,
    *,
    margin: int = 0,
    mirror: ArrayLike | None = None,
) -> Pyramid:
    """Make a pyramid of feature maps of your own, such as those of a network.

    Parameters
    ----------
    maps : sequence of array-like, shape (rows, columns, n_channels)
        The features at each scale. Their numbers are kept in single precision.
    steps : array-like, shape (n_levels,) or (n_levels, 2)
        Width and height of a cell of each level in pixels of the image, or both in one.
    size : array-like, shape (2,)
        Width and height of the image in pixels.
    margin : int, default=0
        Cells of zeros to put around each map.
    mirror : array-like of int, shape (n_channels,), optional
        Which channel each is in the mirrored image. Without it the pyramid has no mirror image.

    Returns
    -------
    Pyramid
        Of float32.

    Raises
    ------
    InvalidData
        Maps, steps and size do not fit each other, or numbers are not finite.

    Examples
    --------
    >>> pyramid = pyramid_of([np.ones((4, 5, 2)), np.ones((2, 2, 2))], [8, 16], (40, 32), margin=1)
    >>> pyramid.cells.shape, pyramid.shapes.tolist()
    ((58, 2), [[6, 7], [4, 4]])
    """
    if not isinstance(margin, int | np.integer) or isinstance(margin, bool) or margin < 0:
        raise InvalidData(f"margin = {margin!r}: give a whole number of cells, at least 0")
    arrays = [_as_map(number, values) for number, values in enumerate(maps)]
    if not arrays:
        raise InvalidData("maps has no level: give the features of at least one scale")
    n_channels = arrays[0].shape[2]
    for number, array in enumerate(arrays):
        if array.shape[2] != n_channels:
            raise InvalidData(
                f"maps[{number}] has {array.shape[2]} channels and maps[0] has {n_channels}: give "
                "all levels the same"
            )
    steps = _as_numbers("steps", steps)
    if steps.ndim == 1:
        steps = np.stack([steps, steps], axis=1)
    if steps.shape != (len(arrays), 2) or not (steps > 0.0).all():
        raise InvalidData(
            f"steps has shape {steps.shape}: give width and height of a cell, above 0, for each of "
            f"the {len(arrays)} levels of maps"
        )
    size = _as_numbers("size", size)
    if size.shape != (2,) or not (size > 0.0).all():
        raise InvalidData(f"size = {size.tolist()}: give width and height of the image in pixels")
    order = np.zeros(0, dtype=np.int32)
    if mirror is not None:
        order = _as_numbers("mirror", mirror).astype(np.int32)
        if not np.array_equal(np.sort(order), np.arange(n_channels)):
            raise InvalidData(f"mirror must have each of the {n_channels} channels once")
    around = ((margin, margin), (margin, margin), (0, 0))
    arrays = [np.pad(array, around) for array in arrays]
    return Pyramid(
        np.concatenate([array.reshape(-1, n_channels) for array in arrays]),
        np.array([array.shape[:2] for array in arrays], dtype=np.int32),
        steps,
        size,
        int(margin),
        1.0,
        order,
    )


def _as_map(number: int, values: Any) -> np.ndarray:
    array = _as_numbers(f"maps[{number}]", values)
    if array.ndim != 3 or 0 in array.shape:
        raise InvalidData(
            f"maps[{number}] has shape {array.shape}: give (rows, columns, channels), none of "
            "them 0"
        )
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    if not np.isfinite(array).all():
        raise InvalidData(f"maps[{number}] has numbers beyond single precision; scale them")
    return array


def _as_numbers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise InvalidType(f"{name} has values of type {array.dtype}: give numbers")
    array = array.astype(np.float64, copy=False)
    if not np.isfinite(array).all():
        raise InvalidData(f"{name} has NaN or infinite numbers: give finite ones")
    return array
