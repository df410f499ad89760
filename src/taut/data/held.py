"""Data in memory as a source: what is trained chunk by chunk may also be small."""

from __future__ import annotations

import functools
from collections.abc import Generator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taut.data.arrays import Checked, as_matrix
from taut.data.chunks import Chunk
from taut.data.parts import as_chunk_matrix
from taut.data.source import Source

_CHUNKS = 8


def as_chunk(X: Any, y: Any, sample_weight: np.ndarray | None, *, as_list: bool) -> Chunk:
    """Data in the form that a structure takes, as one chunk.

    A pair of a matrix and offsets is ragged; with `as_list`, X holds examples of any kind.
    """
    if as_list:
        return Chunk(0, 0, list(X), y=list(y), sample_weight=sample_weight)
    offsets = None
    if isinstance(X, tuple) and not isinstance(X, Checked):
        X, offsets = X[0], np.asarray(X[1], dtype=np.int64)
    matrix, y = as_matrix(X), y if isinstance(y, list) else np.asarray(y)
    return Chunk(0, 0, as_chunk_matrix(matrix, matrix.dtype), offsets, y, sample_weight)


class Held(Source):
    """One chunk in memory, cut into a few."""

    repeatable = True
    random_access = True

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.n_blocks = chunk.n_blocks
        self.n_chunks = n_chunks = min(_CHUNKS, chunk.n_blocks)
        self.n_features = None if isinstance(chunk.X, list) else chunk.X.shape[1]
        self.dtype = None if isinstance(chunk.X, list) else chunk.X.dtype
        self.edges = np.linspace(0, chunk.n_blocks, n_chunks + 1).astype(int)

    @property
    def classes(self) -> np.ndarray | None:
        """Not known: targets are in the form that the structure takes."""
        return None

    @functools.cached_property
    def digest(self) -> bytes:  # type: ignore[override]
        """Of all that is held."""
        return self.chunk.digest()

    def chunks(self, order: ArrayLike | None = None) -> Generator[Chunk]:
        """Pieces of the chunk, on the same memory."""
        for k in np.arange(len(self.edges) - 1) if order is None else np.asarray(order):
            yield replace(self.chunk.between(*self.edges[k : k + 2]), number=int(k))
