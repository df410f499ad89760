"""Generalised distance transforms: how high a spring lets each place reach, in linear time.

With values f on a grid, a bend above 0 and a slope, in one direction,

    out[x] = max over q of f[q] - bend (q - t)^2 - slope (q - t),        t = x + shift

is the upper envelope of parabolas that differ by a translation, so that each two of them cross once
(Felzenszwalb and Huttenlocher, 2012). A parabola joins the envelope once and leaves it at most
once: the crossings that are computed are fewer than twice the places. Both directions of a grid
are done one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taut.compiled.jit import helper, kernel
from taut.errors import InvalidData

_LOW = -1e300  # below any place; not infinite: compiled code may assume that no number is


class Spring(NamedTuple):
    """A quadratic of the distance from a place to another one, in one direction."""

    bend: float
    slope: float
    shift: float


class LineRoom(NamedTuple):
    """What transforms of a grid work in; lines are as long as its longer side."""

    line: np.ndarray
    tops: np.ndarray
    borders: np.ndarray
    out: np.ndarray
    middle: np.ndarray  # of the size of the grid
    hull: np.ndarray  # int32
    sources: np.ndarray
    middle_sources: np.ndarray

    @classmethod
    def of(cls, longest: int, size: int) -> LineRoom:
        """Room for lines of this length, and grids of this many places."""
        line, tops, borders, out = (np.empty(longest) for _ in range(4))
        hull, sources = (np.empty(longest, dtype=np.int32) for _ in range(2))
        middle_sources = np.empty(size, dtype=np.int32)
        return cls(line, tops, borders, out, np.empty(size), hull, sources, middle_sources)


@helper
def _along(line, size, spring, room, out, sources):
    """Transform a line; return how many crossings were computed."""
    half, hull, tops, borders = 0.5 / spring.bend, room.hull, room.tops, room.borders
    count, crossings = 0, 0
    for q in range(size):
        top, border = line[q] - spring.slope * q, _LOW
        while count > 0:
            last = hull[count - 1]
            crossings += 1
            border = 0.5 * (q + last) - half * (top - tops[count - 1]) / (q - last)
            if border > borders[count - 1]:
                break
            count -= 1
        hull[count], tops[count] = q, top
        borders[count] = border if count > 0 else _LOW
        count += 1
    k = 0
    for x in range(size):
        t = x + spring.shift
        while k + 1 < count and borders[k + 1] < t:
            k += 1
        step = hull[k] - t
        out[x] = tops[k] + spring.slope * t - spring.bend * step * step
        sources[x] = hull[k]
    return crossings


@kernel
def transform_grid(values, shape, across, down, room, out, places):
    """Write what each place reaches and where; return how many crossings were computed.

    `values`, `out` and `places` are flat, row by row; `across` and `down` are the springs.
    """
    rows, columns = shape
    crossings = 0
    for y in range(rows):
        first, last = y * columns, (y + 1) * columns
        crossings += _along(
            values[first:last], columns, across, room,
            room.middle[first:last], room.middle_sources[first:last],
        )  # fmt: skip
    for x in range(columns):
        for y in range(rows):
            room.line[y] = room.middle[y * columns + x]
        crossings += _along(room.line, rows, down, room, room.out, room.sources)
        for y in range(rows):
            source = room.sources[y] * columns
            out[y * columns + x] = room.out[y]
            places[y * columns + x] = source + room.middle_sources[source + x]
    return crossings


def distance_transform(
    values: ArrayLike, bend: ArrayLike, slope: ArrayLike = 0.0, shift: ArrayLike = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """The best sum of a value and a spring, for each place of a grid.

    At (row y, column x) it is max over (q, r) of values[r, q] - bend_x dx^2 - slope_x dx -
    bend_y dy^2 - slope_y dy, where dx = q - x - shift_x and dy = r - y - shift_y.

    Parameters
    ----------
    values : array-like of shape (rows, columns)
    bend : float or array-like of shape (2,)
        Above 0; of columns and of rows, or of both.
    slope, shift : float or array-like of shape (2,), default=0.0

    Returns
    -------
    best : ndarray of shape (rows, columns)
    places : ndarray of int, shape (rows, columns, 2)
        Row and column of the value in the sum.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.inference.distance_transforms import distance_transform
    >>> best, places = distance_transform([[0.0, 0.0, 5.0]], bend=1.0)
    >>> best
    array([[1., 4., 5.]])
    >>> places[0, :, 1]
    array([2, 2, 2])
    """
    grid = np.array(values, dtype=np.float64)
    if grid.ndim != 2 or 0 in grid.shape or not np.isfinite(grid).all():
        raise InvalidData(
            f"values have shape {grid.shape}: give finite numbers in rows and columns, at least one"
        )
    across, down = (
        Spring(*numbers)
        for numbers in np.array(
            [np.broadcast_to(np.asarray(given, np.float64), 2) for given in (bend, slope, shift)]
        ).T.tolist()
    )
    if not (across.bend > 0.0 and down.bend > 0.0):
        raise InvalidData(f"bend = {bend!r}: parabolas must be bent; give numbers above 0")
    longest, size = max(grid.shape), grid.size
    room = LineRoom.of(longest, size)
    best, places = np.empty(size), np.empty(size, dtype=np.int32)
    transform_grid(grid.ravel(), grid.shape, across, down, room, best, places)
    where = np.stack(np.divmod(places.astype(np.int64), grid.shape[1]), axis=1)
    return best.reshape(grid.shape), where.reshape(*grid.shape, 2)
