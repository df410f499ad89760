"""Rows of a kernel matrix that does not fit, and the small matrix of a working set."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taut.compiled.jit import kernel
from taut.compiled.threads import in_threads
from taut.console.notices import warn_once
from taut.data.memory import taken_when_written
from taut.errors import CacheOverflow
from taut.kernels import KernelRows
from taut.kernels.base import Places

_HEIGHT = 512  # rows, and
_WIDTH = 1024  # numbers of each, that stay in the processor's cache
_FEW = 64  # rows: of fewer, calls would take longer than what they do
_STRIP = 64  # rows of a matrix that is mirrored
_SLACK = 1.3  # times as many members as are wanted, beyond which a working matrix begins anew
_LEAST = 2048  # members in any case, 17 MB: of fewer a fit takes ever more rounds
_MORE = 64  # members beyond that


@kernel
def _add_rows(gram, slots, amounts, chosen, out):
    """out[k] += sum_p amounts[k, p] gram[slots[p]]; `chosen` is room for as many numbers."""
    for k in range(out.shape[0]):
        target, factors = out[k], amounts[k]
        count = 0
        for p in range(slots.shape[0]):  # most classes have no part in most rows
            chosen[count] = p
            count += factors[p] != 0.0
        at = 0
        # Four at a time: what is added to is read and written a quarter as often.
        while at + 4 <= count:
            p, q, s, t = chosen[at], chosen[at + 1], chosen[at + 2], chosen[at + 3]
            a, b, c, d = factors[p], factors[q], factors[s], factors[t]
            ra, rb, rc, rd = gram[slots[p]], gram[slots[q]], gram[slots[s]], gram[slots[t]]
            for u in range(target.shape[0]):
                target[u] += a * ra[u] + b * rb[u] + c * rc[u] + d * rd[u]
            at += 4
        while at < count:
            a, row = factors[chosen[at]], gram[slots[chosen[at]]]
            for u in range(target.shape[0]):
                target[u] += a * row[u]
            at += 1


@kernel
def _gather(gram, slots, columns, scale, first, out):
    """out[first + p, q] = gram[slots[p], columns[q]], times both scales."""
    for p in range(slots.shape[0]):
        row, target, own = gram[slots[p]], out[first + p], scale[first + p]
        for q in range(columns.shape[0]):
            target[q] = row[columns[q]] * own * scale[q]


class RowCache:
    """Rows of k(x, z) + constant, in the precision of `rows`, within a budget of bytes.

    Parameters
    ----------
    rows : KernelRows
    constant : float
    nbytes : int
        For the rows that are kept, at least one.
    n_jobs : int, default=1
        Threads, each of which has some columns.
    """

    def __init__(self, rows: KernelRows, constant: float, nbytes: int, n_jobs: int = 1) -> None:
        self.rows = rows
        self.constant = constant
        self.n_jobs = n_jobs
        self.capacity = min(rows.n, max(nbytes // (rows.dtype.itemsize * rows.n), 1))
        self.gram = taken_when_written((self.capacity, rows.n), rows.dtype)
        self._slot = np.full(rows.n, -1)  # of each row
        self._owner = np.full(self.capacity, -1)  # of each slot
        self._used = np.zeros(self.capacity, dtype=np.int64)  # when it was, last
        self._dropped = np.zeros(rows.n, dtype=bool)
        self._time = 0
        #: How far sums of rows may be from the true ones, for each column that they are added to.
        self.drifts = np.zeros(1)
        self._error = rows.error + 2.0 * float(np.finfo(rows.dtype).eps) * (1.0 + constant)
        #: Rows that were computed, and how many of them because the budget had no room for them.
        self.computed = self.recomputed = 0
        #: Values that were computed, of these rows and of others.
        self.evaluations = 0

    @property
    def drift(self) -> float:
        """The largest of the drifts."""
        return float(self.drifts.max())

    def slots(self, which: np.ndarray) -> np.ndarray:
        """Where these rows are in `gram`, -1 where they are not."""
        return self._slot[which]

    def compute(self, own: Places, others: Places, out: np.ndarray) -> None:
        """Values of some rows with others."""
        self.rows.block(own, self.rows, others, out)
        self.evaluations += out.size
        if self.constant:
            out += out.dtype.type(self.constant)

    def add(
        self, which: np.ndarray, amounts: np.ndarray, out: np.ndarray, keep: np.ndarray
    ) -> None:
        """out[k] += sum_p amounts[k, p] times row which[p].

        Rows stay at hand where `keep` says so, unless they are as soon computed.
        """
        moves = np.abs(amounts).sum(axis=1)
        self.drifts = self.drifts + np.where(moves > 0.0, self._error, 0.0) * moves
        self._count(which[self._slot[which] < 0])
        here = (self._slot[which] >= 0) | (keep & (not self.rows.cheap))
        for part in np.array_split(np.flatnonzero(here), -(-int(here.sum()) // self.capacity) or 1):
            self._add_held(self._hold(which[part]), np.ascontiguousarray(amounts[:, part]), out)
        passing = np.flatnonzero(~here)
        own, some = which[passing], np.ascontiguousarray(amounts[:, passing])

        def pass_by(others: slice) -> None:
            for first in range(0, len(own), _HEIGHT):
                part = slice(first, min(first + _HEIGHT, len(own)))
                block, slots = self._block(own[part], others), np.arange(part.stop - first)
                factors = np.ascontiguousarray(some[:, part])
                _add_rows(block, slots, factors, np.empty_like(slots), out[:, others])

        self._by_columns(pass_by, len(own))

    def _add_held(self, slots: np.ndarray, amounts: np.ndarray, out: np.ndarray) -> None:
        def add(others: slice) -> None:
            _add_rows(self.gram[:, others], slots, amounts, np.empty_like(slots), out[:, others])

        self._by_columns(add, len(slots))

    def _by_columns(self, work: Callable[[slice], None], height: int) -> None:
        """Call for all columns, some at a time, more where rows are few, in threads."""
        n = self.rows.n
        width = _WIDTH * max(_FEW // max(height, 1), 1)
        width = min(width, -(-n // self.n_jobs))
        parts = [slice(first, min(first + width, n)) for first in range(0, n, width)]

        def share(number: int) -> None:
            for others in parts[number :: self.n_jobs]:
                work(others)

        in_threads(share, range(self.n_jobs))

    def _block(self, own: np.ndarray, others: slice) -> np.ndarray:
        block = np.empty((len(own), others.stop - others.start), dtype=self.gram.dtype)
        self.compute(own, others, block)
        return block

    def hold(self, which: np.ndarray) -> None:
        """Have these rows at hand."""
        self._count(which[self._slot[which] < 0])
        self._hold(which)

    def _hold(self, which: np.ndarray) -> np.ndarray:
        """Where these rows are, computed if they are not there."""
        self._time += 1
        here = self._slot[which]
        self._used[here[here >= 0]] = self._time
        missing = which[here < 0]
        if len(missing):
            free = np.argsort(self._used, kind="stable")[: len(missing)]
            evicted = self._owner[free]
            evicted = evicted[evicted >= 0]
            self._slot[evicted] = -1
            self._dropped[evicted] = True
            self._owner[free] = -1

            consecutive = free[-1] - free[0] == len(free) - 1 and (np.diff(free) > 0).all()

            def fill(others: slice) -> None:
                for first in range(0, len(missing), _HEIGHT):
                    part = slice(first, min(first + _HEIGHT, len(missing)))
                    if consecutive:  # as at first: a copy would take as long as the values do
                        place = slice(free[0] + part.start, free[0] + part.stop)
                        self.compute(missing[part], others, self.gram[place, others])
                    else:
                        self.gram[free[part], others] = self._block(missing[part], others)

            self._by_columns(fill, len(missing))
            # Only now: what is interrupted has no rows to show.
            self._owner[free], self._slot[missing], self._used[free] = missing, free, self._time
        return self._slot[which]

    def _count(self, missing: np.ndarray) -> None:
        again = int(np.count_nonzero(self._dropped[missing]))
        self.computed += len(missing)
        self.recomputed += again
        if again:
            warn_once(
                f"the cache holds {self.capacity} of {self.rows.n} rows of the kernel matrix, and "
                "rows that were dropped are computed again: raise `cache` to train faster",
                CacheOverflow,
            )


class WorkingMatrix:
    """The matrix of a working set, kept from one set to the next: members come and seldom go.

    Parameters
    ----------
    cache : RowCache
        Where rows are, that need not be computed.
    scale : ndarray
        Of each row: numbers are multiplied by those of both rows.
    nbytes : int
        For the matrix.
    """

    def __init__(self, cache: RowCache, scale: np.ndarray, nbytes: int) -> None:
        self.cache = cache
        #: Members that there is memory for; more are held only if they are wanted at once.
        self.most = max(int(np.sqrt(nbytes / cache.gram.itemsize)), _LEAST)
        self.scale = scale.astype(cache.gram.dtype)
        self.members = np.empty(0, dtype=np.int64)
        self._matrix = np.empty((0, 0), dtype=cache.gram.dtype)

    def hold(self, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Members, all that are wanted among them, and their matrix, which may be larger."""
        new = np.setdiff1d(wanted, self.members, assume_unique=True)
        most = min(_SLACK * len(wanted) + _MORE, self.most)
        if len(self.members) + len(new) > most:
            self.members, new = self.members[:0], wanted
        old = len(self.members)
        if len(new):
            slots = self.cache.slots(new)
            new = np.concatenate([new[slots >= 0], new[slots < 0]])
            members = np.concatenate([self.members, new])
            self.members = members[:0]  # until their matrix is there
            self._make_room(old, len(members))
            self._fill(members, old, old + int((slots >= 0).sum()))
            self.members = members
        return self.members, self._matrix

    def _make_room(self, old: int, n: int) -> None:
        """Have a matrix of at least n rows."""
        if n > len(self._matrix):
            size = max(n, min(2 * n, self.most))
            larger = taken_when_written((size, size), self._matrix.dtype)
            larger[:old, :old] = self._matrix[:old, :old]
            self._matrix = larger

    def _fill(self, members: np.ndarray, old: int, computed: int) -> None:
        """Rows from `old` on: those before `computed` are in the cache."""
        matrix = self._matrix
        scale, n = self.scale[members], len(members)
        kept = self.cache.slots(members[old:computed])
        _gather(self.cache.gram, kept, members, scale, old, matrix)
        _mirror(matrix, slice(computed, n), slice(old, computed))
        parts = [slice(k, min(k + _HEIGHT, n)) for k in range(computed, n, _HEIGHT)]

        def compute(own: slice) -> None:
            for first, last in ((0, old), (computed, own.stop)):
                for start in range(first, last, _WIDTH):
                    others = slice(start, min(start + _WIDTH, last))
                    block = matrix[own, others]
                    self.cache.compute(members[own], members[others], block)
                    block *= scale[own, None]
                    block *= scale[others]

        def share(number: int) -> None:
            for own in parts[number :: self.cache.n_jobs]:
                compute(own)

        in_threads(share, range(self.cache.n_jobs))
        for own in parts:
            _mirror(matrix, slice(computed, own.start), own)
        _mirror(matrix, slice(0, old), slice(old, n))


def _mirror(matrix: np.ndarray, rows: slice, columns: slice) -> None:
    """Numbers above the diagonal from those below it, in strips that stay in the cache."""
    for start in range(rows.start, rows.stop, _STRIP):
        some = slice(start, min(start + _STRIP, rows.stop))
        matrix[some, columns] = matrix[columns, some].T
