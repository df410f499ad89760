"""Rows of a kernel matrix that does not fit: those that were used last, within a budget."""

from __future__ import annotations

import numpy as np

from taut.compiled.jit import kernel
from taut.console.notices import warn_once
from taut.errors import CacheOverflow
from taut.kernels import KernelRows
from taut.kernels.base import EVERY

_HEIGHT = 256  # rows that are computed by one matrix product
_WIDTH = 4096  # numbers of a row that are added while they stay in the processor's cache


@kernel
def _add_rows(gram, slots, amounts, out):
    """out[k] += sum_p amounts[k, p] gram[slots[p]]."""
    for first in range(0, out.shape[1], _WIDTH):
        last = min(first + _WIDTH, out.shape[1])
        for k in range(out.shape[0]):
            for p in range(slots.shape[0]):
                amount = amounts[k, p]
                if amount != 0.0:
                    row = gram[slots[p]]
                    for u in range(first, last):
                        out[k, u] += amount * row[u]


class RowCache:
    """Rows of k(x, z) + constant, in the precision of `rows`.

    Parameters
    ----------
    rows : KernelRows
    constant : float
    nbytes : int
        For the rows that are kept, at least one.
    """

    def __init__(self, rows: KernelRows, constant: float, nbytes: int) -> None:
        self.rows = rows
        self.constant = constant
        self.capacity = min(rows.n, max(nbytes // (rows.dtype.itemsize * rows.n), 1))
        self._gram = np.empty((self.capacity, rows.n), dtype=rows.dtype)
        self._slot = np.full(rows.n, -1)  # of each row
        self._owner = np.full(self.capacity, -1)  # of each slot
        self._used = np.zeros(self.capacity, dtype=np.int64)  # when it was, last
        self._seen = np.zeros(rows.n, dtype=bool)
        self._time = 0
        #: Rows that were computed, and how many of them not for the first time.
        self.computed = self.recomputed = 0

    def add(self, which: np.ndarray, amounts: np.ndarray, out: np.ndarray) -> None:
        """out[k] += sum_p amounts[k, p] times row which[p] of the matrix."""
        for first in range(0, len(which), self.capacity):
            some = slice(first, first + self.capacity)
            slots = self._slots(which[some])
            _add_rows(self._gram, slots, np.ascontiguousarray(amounts[:, some]), out)

    def _slots(self, which: np.ndarray) -> np.ndarray:
        """Where these rows are, computed if they are not there."""
        self._time += 1
        here = self._slot[which]
        self._used[here[here >= 0]] = self._time
        missing = which[here < 0]
        free = np.argsort(self._used, kind="stable")[: len(missing)]
        evicted = self._owner[free]
        self._slot[evicted[evicted >= 0]] = -1
        self._owner[free], self._slot[missing], self._used[free] = missing, free, self._time
        for first in range(0, len(missing), _HEIGHT):
            own = missing[first : first + _HEIGHT]
            block = np.empty((len(own), self.rows.n), dtype=self._gram.dtype)
            self.rows.block(own, self.rows, EVERY, block)
            block += block.dtype.type(self.constant)
            self._gram[free[first : first + _HEIGHT]] = block
        self._count(missing)
        return self._slot[which]

    def _count(self, missing: np.ndarray) -> None:
        again = int(np.count_nonzero(self._seen[missing]))
        self._seen[missing] = True
        self.computed += len(missing)
        self.recomputed += again
        if again:
            warn_once(
                f"the cache holds {self.capacity} of {self.rows.n} rows of the kernel matrix, and "
                "rows that were dropped are computed again: raise `cache` to train faster",
                CacheOverflow,
            )
