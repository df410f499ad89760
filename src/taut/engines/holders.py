"""The holders of a cache's blocks, and what they take of its memory.

A segment has the features of its blocks; bare blocks have the psi of their planes instead; those
that rest have their dual variables alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from taut.binding import PythonData
from taut.data.chunks import Chunk
from taut.data.memory import size_of
from taut.duals import KEPT_FORMS
from taut.engines.naming import Arrays
from taut.engines.part import Part
from taut.streamed import BoundChunk

_ROUND = 32  # bytes per block while the cache is optimised: which blocks, their order, their gaps
_CLEARLY = 16  # times that features take what psi may take in their place
_LARGE = 4  # times that features take what their blocks take beside psi and dual variables
_PER_BLOCK = 72  # bytes: gap, interval, next visit, weight, and what rounds need as in a segment
_OBJECTS = 4000  # bytes of some twenty arrays without their items, and of what holds them
_SEARCH = 16  # times the bytes of a block that w may have: all of it is searched for each psi
_OBJECT = 150  # bytes of an array without its items, and of a reference to it


class Segment:
    """Some kept blocks: their numbers in the source, ascending, their chunk, their part."""

    def __init__(self, ids: np.ndarray, chunk: Chunk, part: Part) -> None:
        self.ids = ids
        self.chunk = chunk
        self.part = part
        self._fixed = size_of(list(self._holds())) + _ROUND * len(ids)

    @property
    def nbytes(self) -> int:
        """Memory of features, of what oracles and rounds need beside them, of dual variables."""
        return self._fixed + self.part.nbytes

    @property
    def bound(self) -> BoundChunk:
        """Its blocks, bound to the oracles."""
        return BoundChunk(self.chunk, self.part.duals.data, self.part.duals.weight)

    def _holds(self) -> Iterator[Any]:
        """All of its own, but the dual variables, which grow."""
        duals = self.part.duals
        growing = {id(array) for array in duals.arrays().values()}
        yield from (self.ids, self.chunk.X, self.chunk.y, *self.chunk.columns().values())
        data = duals.data
        if isinstance(data, PythonData):
            yield from (data.X, data.truth)
        else:
            yield data.blocks  # with the features, which may have rows in another form than X
        for holder in (self.part, duals, data):
            for value in vars(holder).values():
                if isinstance(value, np.ndarray) and id(value) not in growing:
                    yield value


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
    # Where points are no weights, psi are not multiplied number by number.
    if form is None or not data.quadratic.of_weights:
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


def resting_size(where: np.ndarray, duals: Arrays) -> int:
    """Bytes of the dual variables of blocks that rest, and of where in their chunk they are."""
    return sum(array.nbytes + _OBJECT for array in (where, *duals.values())) + _OBJECT


class Resting:
    """Dual variables of blocks that rest, by chunk, and what they add up to."""

    def __init__(self) -> None:
        # By number of the chunk: positions of the blocks in it, and their dual variables.
        self.groups: dict[int, list[tuple[np.ndarray, Arrays]]] = {}
        self.vector: np.ndarray | None = None  # their sum a psi, while there are any
        self.loss = 0.0  # their sum a loss
        self.n_blocks = 0  # how many rest
        self.nbytes = 0  # of their dual variables; the sum is counted among the vectors

    def add(self, part: Part, size: int) -> None:
        """Add what a part has to the sums, of w's size."""
        if self.vector is None:
            self.vector = np.zeros(size)
        self.loss += part.sum_up(self.vector)

    def subtract(self, part: Part) -> None:
        """Take what a part has out of the sums."""
        assert self.vector is not None
        self.loss -= part.subtract(self.vector)

    def put(self, number: int, where: np.ndarray, duals: Arrays) -> None:
        """Let the blocks at some positions of a chunk rest; the sums are somebody else's."""
        self.groups.setdefault(number, []).append((where, duals))
        self.n_blocks += len(where)
        self.nbytes += resting_size(where, duals)

    def wake(self, number: int, part: Part) -> None:
        """Give the blocks of a chunk that rested their dual variables back."""
        found = self.groups.pop(number, [])
        for where, arrays in found:
            part.put(where, arrays)
            self.n_blocks -= len(where)
            self.nbytes -= resting_size(where, arrays)
        if found:
            self.subtract(part)
            if not self.groups:  # nor what rounding left of their sums
                self.vector, self.loss = None, 0.0
