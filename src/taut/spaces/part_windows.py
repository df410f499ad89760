"""Windows of the parts of objects, and weights that all images share.

The potentials of a block are the scores of all windows, as of `taut.spaces.windows` without place
and size, and from number `at` on the weights of the tail as they are: what parts have in common is
a sum of these, each times what the label says.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from taut.spaces.labels import PUSHES, SINGLES, TOUCHES
from taut.spaces.linear import SpaceFunctions, through_weights
from taut.spaces.scaling import act
from taut.spaces.windows import (
    WindowFeatures,
    WindowSpace,
    ask_for_nothing,
    cells_alone,
    count_windows,
    no_square,
    place_of,
    push_cells,
    score_cells,
    touch_all,
    touch_cells,
)
from taut.vision.pyramid import Pyramid
from taut.vision.templates import Templates


class PartSpace(NamedTuple):
    """What compiled code knows: the windows, and where the tail is, in w and in potentials."""

    windows: WindowSpace
    at: int
    tail_at: int
    tail: int


def _pull(space, i, w, theta):
    score_cells(space.windows, i, w, theta, space.at + space.tail)
    for k in range(space.tail):
        theta[space.at + k] = w[space.tail_at + k]


def _push(space, i, s, size, least, w):
    for j in range(count_windows(space.windows, i)):
        if abs(s[j]) > least:
            push_cells(space.windows, i, j, s[j], w)
    for k in range(space.tail):
        w[space.tail_at + k] += w.dtype.type(s[space.at + k])


def _single(space, i, j, w):
    """One potential of block i alone."""
    if j >= space.at:
        return w[space.tail_at + j - space.at]
    return cells_alone(space.windows, i, j, w)


def _touch_single(space, i, j, action):
    """Act on the weights that a potential of block i reads."""
    if j >= space.at:
        place = space.tail_at + j - space.at
        act(action, place, place + 1)
    else:
        touch_cells(space.windows, place_of(space.windows, space.windows.image[i], j)[0], action)


def _push_single(space, i, j, amount, w):
    """Add the features of a potential of block i."""
    if j >= space.at:
        w[space.tail_at + j - space.at] += w.dtype.type(amount)
    else:
        push_cells(space.windows, i, j, amount, w)


SINGLES[PartSpace] = _single
PUSHES[PartSpace] = _push_single
TOUCHES[PartSpace] = _touch_single


def _n_potentials(space, i, s):
    return space.at + space.tail


@functools.cache
def _functions() -> SpaceFunctions:
    """What compiled code does with w."""
    return SpaceFunctions(
        ask_for_nothing, _pull, _push, through_weights(_pull, _push), no_square,
        _n_potentials, _n_potentials, touch_all, single=_single,
    )  # fmt: skip


class PartFeatures(WindowFeatures):
    """Features of the windows of parts, and a tail of weights that potentials are as they are.

    Parameters
    ----------
    pyramids : sequence of Pyramid
    templates : Templates
        Those of each part one after the other.
    firsts : ndarray of int, shape (n_parts,)
        The first template of each part.
    tail : int
        How many weights follow those of the templates and their biases.
    dtype : type, default=float32
    """

    def __init__(
        self,
        pyramids: Sequence[Pyramid],
        templates: Templates,
        firsts: np.ndarray,
        tail: int,
        dtype: type = np.float32,
    ) -> None:
        self.firsts = firsts
        self.tail = tail
        super().__init__(pyramids, templates, dtype)

    def _n_shared(self) -> int:
        return self.tail

    def _lay_out(self, space: WindowSpace) -> None:
        super()._lay_out(space)
        self.n_potentials += self.tail

    @property
    def tail_at(self) -> int:
        """Where the tail begins in w."""
        return self.n_features - self.tail

    def view(self, data):
        """Windows and tail."""
        return PartSpace(self._space, self._space.most, self.tail_at, self.tail)

    def functions(self, structure):
        """Those of windows and a tail."""
        return _functions()

    def places(self, i: int, windows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Template, level among those of all images, and column and row of windows of block i."""
        space, n_templates = self._space, len(self.templates.rows)
        m = int(space.image[i])
        first, last = int(space.levels.starts[m]), int(space.levels.starts[m + 1])
        begin = n_templates * first + m
        starts = space.windows[begin : begin + n_templates * (last - first)]
        slots = np.searchsorted(starts, windows, side="right") - 1
        level = first + slots % (last - first)
        columns = space.levels.shapes[level, 1] - space.widths[0] + 1
        row, column = np.divmod(windows - starts[slots], columns)
        return slots // (last - first), level, np.column_stack([column, row])
