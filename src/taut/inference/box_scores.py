"""Scores of boxes of visual words, and bounds on those of sets of boxes.

With b+ the largest and b- the smallest box of a set, f+ and f- the sums of the positive and of the
negative weights of the words inside a box, and h the histogram of the words, a score is at most

    F = f+(b+) + f-(b-)                     where histograms are added up,
    F / |h(b-)| if F > 0, else F / |h(b+)|  where they are divided by their lengths,

with F and |h|^2 summed over the cells of a pyramid (Blaschko and Lampert 2008 divide f+ by |h(b-)|
and f- by |h(b+)|, which is never less). |h(b-)| is at least that of the fewest words that a box may
have. Integral images give the sums, `taut.inference.box_lengths` the lengths.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper, kernel
from taut.errors import InvalidData
from taut.inference.box_lengths import fewest_of, table_of

_MOST_WORDS = 65535  # whose squared number fits into 32 bits


class WordImage(NamedTuple):
    """The visual words of an image, and which of its boxes are candidates.

    Make one by `WordImage.of`.
    """

    words: np.ndarray  # (n_rows * n_columns, kinds), int32: -1 where there is none
    n_rows: int
    n_columns: int
    n_words: int
    levels: int
    limits: np.ndarray  # int64: least and most height, least and most width of a box
    squares: np.ndarray  # uint32: squared lengths of histograms, where scores are divided by them
    grain: int  # how many lines of the grid lie from one of the table to the next; 0 without one
    fewest: int  # words in a box, at least, unless it has none

    @classmethod
    def of(
        cls,
        words: Any,
        n_words: int,
        levels: int = 1,
        normalise: bool = False,
        smallest: tuple[int, int] = (1, 1),
        largest: tuple[int, int] | None = None,
        table: int = 1 << 20,
    ) -> WordImage:
        """Check the words of an image, and prepare them for searches.

        Parameters
        ----------
        words : array of int, shape (n_rows, n_columns) or (n_rows, n_columns, kinds)
            The visual words 0..n_words - 1 at each point of a grid, -1 where there is none.
        n_words : int
            Size of the vocabulary.
        levels : {1, 2, 3}, default=1
            Of the pyramid, which has 1, 5 or 21 cells.
        normalise : bool, default=False
            Whether histograms are divided by their lengths.
        smallest, largest : tuple of int, optional
            Height and width of candidates in points of the grid.
        table : int, default=2 ** 20
            Most numbers in the table of squared lengths. More make tighter bounds.

        Raises
        ------
        InvalidData
            The words are no such array, or there is no such vocabulary or pyramid.

        Examples
        --------
        >>> from taut.inference.box_scores import WordImage
        >>> WordImage.of([[0, 1], [1, 1]], n_words=2).n_boxes
        9
        """
        check_vocabulary(n_words, levels)
        limits = as_limits(smallest, largest)
        points = as_words(words, n_words)
        n_rows, n_columns = points.shape[:2]
        flat = points.reshape(n_rows * n_columns, -1)
        squares, grain, fewest = np.zeros(0, np.uint32), 0, 1
        if normalise:
            squares, grain = table_of(points, n_words, table)
            fewest = fewest_of(points >= 0, int(limits[0]), int(limits[2]))
        return cls(flat, n_rows, n_columns, n_words, levels, limits, squares, grain, fewest)

    @property
    def n_cells(self) -> int:
        """Cells of the pyramid."""
        return n_cells_of(self.levels)

    @property
    def n_boxes(self) -> int:
        """How many boxes are candidates."""
        return n_boxes(self.n_rows, self.n_columns, self.limits)

    @property
    def room(self) -> int:
        """How many numbers the integral images have."""
        return room_of(self.n_rows, self.n_columns, self.levels)


def n_cells_of(levels: int) -> int:
    """Cells of a pyramid: 1, 5 or 21."""
    return (4**levels - 1) // 3


def room_of(n_rows: int, n_columns: int, levels: int) -> int:
    """How many numbers the integral images of a grid have."""
    return 2 * n_cells_of(levels) * (n_rows + 1) * (n_columns + 1)


def n_boxes(n_rows: int, n_columns: int, limits: np.ndarray) -> int:
    """How many boxes of allowed sizes a grid has."""

    def places(n: int, least: int, most: int) -> int:
        return sum(n - size + 1 for size in range(least, min(most, n) + 1))

    low, high, narrow, wide = limits.tolist()
    return places(n_rows, low, high) * places(n_columns, narrow, wide)


def check_vocabulary(n_words: int, levels: int) -> None:
    """Refuse what is no size of a vocabulary, or no number of levels."""
    if not isinstance(n_words, int | np.integer) or n_words < 1:
        raise InvalidData(f"n_words = {n_words!r}: give the size of the vocabulary, at least 1")
    if levels not in (1, 2, 3):
        raise InvalidData(f"levels = {levels!r}: give 1, 2 or 3 levels of the pyramid")


def as_limits(smallest: Any, largest: Any) -> np.ndarray:
    """Least and most height, and least and most width, of boxes."""
    no_limit = np.iinfo(np.int32).max
    given = {"smallest": smallest, "largest": (no_limit,) * 2 if largest is None else largest}
    for name, size in given.items():
        pair = np.asarray(size)
        if pair.shape != (2,) or pair.dtype.kind not in "iu" or (pair < 1).any():
            raise InvalidData(f"{name} = {size!r}: give a height and a width, integers from 1 on")
    limits = np.array([given["smallest"], given["largest"]], dtype=np.int64).T.ravel()
    if limits[0] > limits[1] or limits[2] > limits[3]:
        raise InvalidData(
            f"smallest = {smallest!r} and largest = {largest!r}: no box is as large as the one and "
            "as small as the other; give a largest size that is not below the smallest"
        )
    return np.minimum(limits, no_limit)


def as_words(words: Any, n_words: int, name: str = "words") -> np.ndarray:
    """Words of an image, checked, as int32 of three axes."""
    points = np.asarray(words)
    if points.ndim not in (2, 3) or points.dtype.kind not in "iu" or points.size == 0:
        raise InvalidData(
            f"{name} has shape {points.shape} and dtype {points.dtype}: give an integer array of "
            "rows and columns of a grid, with a word, or some words along a third axis, at each "
            "point"
        )
    if points.size > _MOST_WORDS:
        raise InvalidData(
            f"{name} has {points.size} words: at most {_MOST_WORDS} are possible, take a coarser "
            "grid"
        )
    wrong = (points < -1) | (points >= n_words)
    if wrong.any():
        where = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise InvalidData(
            f"{name}{list(where)} = {points[where]} is no word of 0..{n_words - 1}: give -1 where "
            "there is none, or raise n_words"
        )
    return np.ascontiguousarray(points, dtype=np.int32).reshape(*points.shape[:2], -1)


@kernel
def pull_words(image, w, potentials):
    """potentials[cell * n_points + point] = the summed weights of the words at a point."""
    n_points, kinds = image.words.shape
    place = 0
    for first in range(0, w.shape[0], image.n_words):
        for p in range(n_points):
            total = 0.0
            for kind in range(kinds):
                v = image.words[p, kind]
                total += w[first + v] if v >= 0 else 0.0
            potentials[place] = total
            place += 1


@kernel
def push_words(image, statistics, w):
    """Add to w what `pull_words` multiplies it with, times the statistics."""
    n_points, kinds = image.words.shape
    place = 0
    for first in range(0, w.shape[0], image.n_words):
        for p in range(n_points):
            if statistics[place] != 0.0:
                for kind in range(kinds):
                    v = image.words[p, kind]
                    if v >= 0:
                        w[first + v] += statistics[place]
            place += 1


@kernel
def integrate(image, potentials, sums, at):
    """Integral images of the positive and of the negative potentials of each cell, from `at` on.

    They may lie in one array with the potentials, which begin at 0.
    """
    width = image.n_columns + 1
    size = (image.n_rows + 1) * width
    n_cells = (4**image.levels - 1) // 3
    place = 0
    for cell in range(n_cells):
        plus = at + 2 * cell * size
        for column in range(width):
            sums[plus + column] = 0.0
            sums[plus + size + column] = 0.0
        for row in range(1, image.n_rows + 1):
            here = plus + row * width
            sums[here] = 0.0
            sums[here + size] = 0.0
            above, below = 0.0, 0.0
            for column in range(1, width):
                value = potentials[place]
                place += 1
                above += max(value, 0.0)
                below += min(value, 0.0)
                sums[here + column] = sums[here + column - width] + above
                sums[here + size + column] = sums[here + size + column - width] + below


@helper
def _cut(first, last, levels, lines):
    """The lines between the finest cells of a box, from its first to its last: the nearest ones.

    Of two that are equally near it is the earlier one. No line falls when `first` or `last` rises.
    """
    n = 1 << (levels - 1)
    for k in range(n + 1):
        lines[k] = ((n - k) * first + k * last + max((n >> 1) - 1, 0)) >> (levels - 1)


@helper
def draw_lines(s, levels, lines):
    """The lines of a set: the earliest rows, the latest ones, and columns alike."""
    _cut(s[0], s[2], levels, lines[0])
    _cut(s[1], s[3], levels, lines[1])
    _cut(s[4], s[6], levels, lines[2])
    _cut(s[5], s[7], levels, lines[3])


@helper
def _inside(sums, at, width, top, left, bottom, right):
    """The sum of a box, by an integral image."""
    low, high = at + bottom * width, at + top * width
    return (sums[low + right] - sums[high + right]) - (sums[low + left] - sums[high + left])


@helper
def _sum_bounds(image, sums, at, lines):
    """The sums of f+ of the largest cells, and of f- of the smallest ones."""
    width = image.n_columns + 1
    size = (image.n_rows + 1) * width
    plus, minus = 0.0, 0.0
    for level in range(image.levels):
        step = 1 << (image.levels - 1 - level)
        for a in range(0, step << level, step):
            top, bottom = lines[1, a], lines[0, a + step]
            for b in range(0, step << level, step):
                plus += _inside(
                    sums,
                    at,
                    width,
                    lines[0, a],
                    lines[2, b],
                    lines[1, a + step],
                    lines[3, b + step],
                )
                left, right = lines[3, b], lines[2, b + step]
                if top < bottom and left < right:
                    minus += _inside(sums, at + size, width, top, left, bottom, right)
                at += 2 * size
    return plus, minus


@helper
def score_bound(image, sums, at, lines, least, most):
    """A bound on the scores of a set, by bounds on its squared lengths; exact for one box."""
    plus, minus = _sum_bounds(image, sums, at, lines)
    total = plus + minus
    if image.grain == 0:
        return total
    if most == 0:
        return 0.0
    return total / math.sqrt(least if total > 0.0 else most)
