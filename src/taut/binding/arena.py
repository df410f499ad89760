"""Where compiled code works: it makes no arrays, so each thread is given all that it needs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.lanes import aligned_zeros
from taut.spaces.labels import ProductRoom
from taut.structures.base import Blocks


class Arena(NamedTuple):
    """What one thread works in, for w of one type.

    The weights in `products.space` are not bounded: lengths of moves are measured there.
    """

    products: ProductRoom
    work: np.ndarray  # potentials, and what oracles need beside them
    statistics: np.ndarray  # of labels, of means and of moves
    scaled: np.ndarray  # the same, times a number
    mean: np.ndarray
    own_mean: np.ndarray  # of the truth, and of labels one by one
    found: np.ndarray  # labels that a sampler finds, and one more
    chosen: np.ndarray  # labels that move
    values: np.ndarray  # of labels that are found
    violation: np.ndarray  # of planes
    change: np.ndarray  # of their weights; twice as long as planes are many, for two steps
    row: np.ndarray  # of a Gram matrix

    @classmethod
    def of(cls, blocks: Blocks, products: ProductRoom, n_found: int, n_planes: int) -> Arena:
        """For so many labels that are found, and so many planes, in a visit."""
        dtype = products.scratch.dtype
        n_potentials = blocks.features.n_potentials

        def real(*sizes: int, of: Any = dtype) -> list[np.ndarray]:
            return [aligned_zeros(size, of) for size in sizes]

        return cls(
            products,
            *real(blocks.work_size, n_potentials, n_potentials, blocks.mean_size, blocks.mean_size),
            *real((1 + n_found) * blocks.label_size, n_planes * blocks.label_size, of=np.int32),
            *real(n_found, n_planes, 2 * n_planes, n_planes, of=np.float64),
        )


class Room:
    """Vectors that compiled code works in, one of a kind for each thread.

    Data that are never worked on at the same time may share theirs.
    """

    def __init__(self) -> None:
        self._vectors: dict[tuple, np.ndarray] = {}

    def vector(self, kind: str, number: int, size: int, dtype: Any) -> np.ndarray:
        """A vector, zero when it is first asked for."""
        key = (kind, number, size, np.dtype(dtype).char)
        if key not in self._vectors:
            self._vectors[key] = aligned_zeros(size, dtype)
        return self._vectors[key]

    @property
    def nbytes(self) -> int:
        """Memory of all that were asked for."""
        return sum(vector.nbytes for vector in self._vectors.values())
