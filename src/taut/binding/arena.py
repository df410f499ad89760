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
