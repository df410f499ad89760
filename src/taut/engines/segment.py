"""Some blocks that a cache keeps in memory, and what they take of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from taut.binding import PythonData
from taut.data.chunks import Chunk
from taut.data.memory import size_of
from taut.engines.part import Part
from taut.streamed import BoundChunk

_ROUND = 32  # bytes per block while the cache is optimised: which blocks, their order, their gaps


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
