"""Blocks of which a cache has the psi of their planes instead of the features."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.duals import KEPT_FORMS
from taut.engines.part import Part

_CLEARLY = 16  # times that features take what psi may take in their place
_LARGE = 4  # times that features take what their blocks take beside psi and dual variables
_PER_BLOCK = 72  # bytes: gap, interval, next visit, weight, and what rounds need as in a segment
_OBJECTS = 4000  # bytes of some twenty arrays without their items, and of what holds them
_SEARCH = 16  # times the bytes of a block that w may have: all of it is searched for each psi


class Bare:
    """Some blocks of a chunk: its number, where in it they are, and their part."""

    def __init__(self, number: int, where: np.ndarray, part: Part) -> None:
        self.number = number
        self.where = where
        self.part = part

    @property
    def nbytes(self) -> int:
        """Memory of psi, of dual variables, and of what rounds need."""
        return self.part.nbytes + _beside(len(self.where))

    @property
    def everything(self) -> np.ndarray:
        """The positions of all blocks in the part."""
        return np.arange(len(self.where))

    def give_back(self, part: Part) -> None:
        """Let its chunk, which was read again, have the dual variables."""
        part.put(self.where, self.part.take(self.everything))
        part.loss_sum = part.duals.loss_sum


def bare_of(
    part: Part, blocks: np.ndarray, sizes: np.ndarray, number: int, where: np.ndarray, data: Any
) -> tuple[Bare, np.ndarray] | None:
    """Those of some blocks of a part whose psi take clearly less than their features.

    `sizes` are the bytes of the features of each block, `data` any of the problem, which stays in
    memory. Also returns which blocks these are, as positions; None where there are none.
    """
    form = KEPT_FORMS.get(type(part.duals))
    point = np.empty(0)
    # Where points have inner products of their own, psi are not multiplied number by number.
    if form is None or data.quadratic.covector(point) is not point:
        return None
    tried = np.flatnonzero(part.duals.in_use()[blocks] & (_SEARCH * sizes >= 8 * data.size))
    if sizes[tried].sum() < _LARGE * _beside(len(tried)):
        return None
    found = form.of(part.duals, blocks[tried], sizes[tried] // _CLEARLY, data)
    if found is None:
        return None
    duals, kept = found
    chosen = tried[kept]
    if sizes[chosen].sum() < _LARGE * _beside(len(chosen)):
        return None
    bare = Bare(number, where[chosen], Part(part.ascent, duals))
    bare.part.know(part, blocks[chosen])
    return bare, chosen


def _beside(n: int) -> int:
    """Bytes that n blocks take beside their psi and dual variables."""
    return _PER_BLOCK * n + _OBJECTS
