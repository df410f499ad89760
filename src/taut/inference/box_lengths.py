"""Lengths of histograms of visual words in boxes, exact for one box and bounds for sets of boxes.

Squared lengths of all boxes of a grid are kept in a table. Where this would be too large, it is
that of a coarser grid, to which the largest and the smallest box of a set are rounded. `lines` are
those of `taut.inference.box_scores.draw_lines`.
"""

from __future__ import annotations

import numpy as np

from taut.compiled.jit import helper, kernel
from taut.errors import InvalidData


def table_of(points: np.ndarray, n_words: int, most: int) -> tuple[np.ndarray, int]:
    """Squared lengths of the histograms of all boxes of the finest grid that `most` allows."""
    if not isinstance(most, int | np.integer) or most < 1:
        raise InvalidData(f"table = {most!r}: give the most numbers that it may have, at least 1")
    grain = 1
    while _pairs(points.shape[0], grain) * _pairs(points.shape[1], grain) > most:
        grain += 1
    size = _pairs(points.shape[0], grain) * _pairs(points.shape[1], grain)
    squares = np.zeros(size, dtype=np.uint32)
    _fill_squares(points, grain, np.zeros(n_words, dtype=np.int64), squares)
    return squares, grain


def _pairs(n: int, grain: int) -> int:
    """Pairs of lines, each some lines from the next, of a grid with n rows."""
    last = -(-n // grain)
    return last * (last + 1) // 2


def fewest_of(there: np.ndarray, height: int, width: int) -> int:
    """The fewest words in a box of a size, at least 1."""
    sums = np.pad(there.sum(axis=2).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    if height > there.shape[0] or width > there.shape[1]:
        return 1
    counts = sums[height:, width:] - sums[:-height, width:]
    counts = counts - (sums[height:, :-width] - sums[:-height, :-width])
    return max(int(counts.min()), 1)


@kernel
def _fill_squares(points, grain, counts, squares):
    """The table: pairs of rows are slowest, and the earlier line of a pair is fastest."""
    n_rows, n_columns, kinds = points.shape
    n_lines, last = (n_rows + grain - 1) // grain, (n_columns + grain - 1) // grain
    place = 0
    for bottom in range(1, n_lines + 1):
        for top in range(bottom):
            for left in range(last):
                for v in range(counts.shape[0]):
                    counts[v] = 0
                square = 0
                for right in range(left + 1, last + 1):
                    for row in range(top * grain, min(bottom * grain, n_rows)):
                        for column in range((right - 1) * grain, min(right * grain, n_columns)):
                            for kind in range(kinds):
                                v = points[row, column, kind]
                                if v >= 0:
                                    square += 2 * counts[v] + 1
                                    counts[v] += 1
                    squares[place + right * (right - 1) // 2 + left] = square
            place += last * (last + 1) // 2


@helper
def _tabled(image, top, bottom, left, right):
    """The squared length of the histogram of a box of the table's grid, 0 for an empty one."""
    if top >= bottom or left >= right:
        return 0
    last = (image.n_columns + image.grain - 1) // image.grain
    row = bottom * (bottom - 1) // 2 + top
    return np.int64(image.squares[row * (last * (last + 1) // 2) + right * (right - 1) // 2 + left])


@helper
def _inward(n, grain, line):
    """The last line of the table that does not lie beyond a line."""
    return (n + grain - 1) // grain if line == n else line // grain


@helper
def _outward(grain, line):
    """The first line of the table that does not lie before a line."""
    return (line + grain - 1) // grain


@helper
def square_bounds(image, lines):
    """Bounds on the squared length of the histogram of any box of a set."""
    grain, n_rows, n_columns = image.grain, image.n_rows, image.n_columns
    least, most = 0, 0
    for level in range(image.levels):
        step = 1 << (image.levels - 1 - level)
        for a in range(0, step << level, step):
            for b in range(0, step << level, step):
                least += _tabled(
                    image,
                    _outward(grain, lines[1, a]), _inward(n_rows, grain, lines[0, a + step]),
                    _outward(grain, lines[3, b]), _inward(n_columns, grain, lines[2, b + step]),
                )  # fmt: skip
                most += _tabled(
                    image,
                    lines[0, a] // grain, _outward(grain, lines[1, a + step]),
                    lines[2, b] // grain, _outward(grain, lines[3, b + step]),
                )  # fmt: skip
    return max(least, image.levels * image.fewest), most


@helper
def square_of(image, lines, counts):
    """The squared length of the histogram of one box; counts are zero in between."""
    kinds, square = image.words.shape[1], 0
    for level in range(image.levels):
        step = 1 << (image.levels - 1 - level)
        for a in range(0, step << level, step):
            for b in range(0, step << level, step):
                for row in range(lines[0, a], lines[0, a + step]):
                    for column in range(lines[2, b], lines[2, b + step]):
                        for kind in range(kinds):
                            v = image.words[row * image.n_columns + column, kind]
                            if v >= 0:
                                square += 2 * counts[v] + 1
                                counts[v] += 1
                for row in range(lines[0, a], lines[0, a + step]):
                    for column in range(lines[2, b], lines[2, b + step]):
                        for kind in range(kinds):
                            v = image.words[row * image.n_columns + column, kind]
                            if v >= 0:
                                counts[v] = 0
    return square
