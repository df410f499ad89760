"""Some blocks that a solver over a stream keeps in memory, and what they take of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from taut.binding import PythonData
from taut.data.chunks import Chunk
from taut.data.memory import size_of
from taut.solvers._block_ascent import CoordinateState

_ROUND = 32  # bytes per block while the cache is optimised: which blocks, their order, their gaps


class Segment:
    """Some kept blocks: their numbers in the source, ascending, their chunk, their dual state."""

    def __init__(self, ids: np.ndarray, chunk: Chunk, state: CoordinateState) -> None:
        self.ids = ids
        self.chunk = chunk
        self.state = state
        self._fixed = size_of(list(_parts(ids, chunk, state))) + _ROUND * len(ids)

    @property
    def nbytes(self) -> int:
        """Memory of features, of what oracles and rounds need beside them, of dual variables."""
        return self._fixed + self.state.duals.nbytes


def _parts(ids: np.ndarray, chunk: Chunk, state: CoordinateState) -> Iterator[Any]:
    """All that a segment holds of its own, but the dual variables, which grow."""
    duals = state.duals
    growing = {id(array) for array in duals.arrays().values()}
    yield from (ids, chunk.X, chunk.y, *chunk.columns().values())
    data = duals.data
    if isinstance(data, PythonData):
        yield from (data.X, data.truth)
    else:
        yield data.blocks  # with the features, which may have rows in another form than X
    for holder in (state, duals, data):
        for name, value in vars(holder).items():
            if isinstance(value, np.ndarray) and name != "w" and id(value) not in growing:
                yield value
