"""The space of a joint kernel: w = sum_e b_e Phi(x_e, y_e) over pairs of an example and a label.

A point is the coefficients b of *entries*, pairs that labels of planes and truths are, in an array
whose length is fixed by a memory limit. So points add up, scale and average as arrays, and inner
products go through the Gram matrix of the entries. It grows by a row for each new entry. What a
label scores that is no entry comes from a row of kernel values of its own, which is kept as well,
and becomes its row of the Gram matrix if the label becomes an entry: no two pairs are compared
twice, as long as memory lasts.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from taut.errors import InvalidData, InvalidStructure, MemoryUsedUp
from taut.kernels.pair_stores import Pair, PairStore, key_of
from taut.kernels.pairs import PairKernel, pairs_of
from taut.spaces.quadratic import InnerQuadratic

_FIRST = 64  # entries that the first arrays have room for
_GRAM_SHARE = 0.5  # of the memory; the other half is for rows of labels that are no entries
_DEFINITE = 1000  # entries whose matrix is decomposed
_ROUNDING = 32.0  # units in the last place, for each entry
_ASKED_AGAIN = 8  # entries whose kernel values are held against what they were
_SAME = 1e-6  # relative to the largest


class Candidates:
    """Kernel values of some labels of an example with the entries, as far as they are known."""

    def __init__(self, width: int) -> None:
        self.pairs: list[Pair] = []
        self.rows: dict[Any, int] = {}
        self.values = np.zeros((0, width))
        self.known = np.zeros((0, width), dtype=bool)

    @property
    def nbytes(self) -> int:
        """Memory of the values."""
        return self.values.nbytes + self.known.nbytes

    def have_room(self, n: int, width: int) -> None:
        """Grow to so many labels and entries."""
        rows, columns = self.values.shape
        if n <= rows and width <= columns:
            return
        shape = max(n, rows), max(width, columns)
        for name in ("values", "known"):
            old = getattr(self, name)
            new = np.zeros(shape, dtype=old.dtype)
            new[:rows, :columns] = old
            setattr(self, name, new)


class PairTable:
    """Entries with their Gram matrix, and kernel values of other labels with them.

    Parameters
    ----------
    kernel : PairKernel
    X : sequence
        Examples, which are known by their numbers.
    truths : sequence
        Their labels, the first entries.
    memory : int
        Bytes.
    """

    def __init__(self, kernel: PairKernel, X: Any, truths: Any, memory: int) -> None:
        self.X, self.memory = X, memory
        self.capacity = int(np.sqrt(_GRAM_SHARE * memory / 8))
        if len(X) > self.capacity:
            raise InvalidData(
                f"memory = {memory} bytes is room for the kernel matrix of {self.capacity} pairs, "
                f"and the truths of {len(X)} examples are more: give at least "
                f"{int(8 * (len(X) + 1) ** 2 / _GRAM_SHARE)} bytes, or fewer examples"
            )
        self._phi: dict[Any, Any] = {}
        self._candidates: dict[int, Candidates] = {}
        self._spent = 0  # bytes of candidates
        self.pairs: list[Pair | None] = []
        self.owners: list[tuple[int, Any]] = []
        self.numbers: dict[tuple[int, Any], int] = {}
        self.free: list[int] = []
        self.n_truths = len(X)
        #: Entries that nobody has released, and those that had weight in some point.
        self.kept = np.zeros(self.capacity, dtype=bool)
        self.weighted = np.zeros(self.capacity, dtype=bool)
        #: Functions that tell which entries somebody refers to, released or not.
        self.holders: list[Callable[[], Iterable[np.ndarray]]] = []
        #: Tells this table from all others.
        self.token = uuid.uuid4().bytes
        self.kernel = kernel
        own = [self._pair(i, truths[i]) for i in range(len(X))]
        self.kernel = kernel.resolved(own)
        self.store = self.kernel.store()
        self._sums: tuple[np.ndarray, tuple[list[Any], np.ndarray]] | None = None
        self._gram = np.zeros((0, 0))
        self._have_room(len(own))
        self._gram[: len(own), : len(own)] = self.kernel.gram(own)
        for i, pair in enumerate(own):
            self._enter(i, pair.label, pair)
        self.weighted[: len(own)] = True
        self.rng = np.random.default_rng(0)  # of the checks alone
        self.check()

    @property
    def n(self) -> int:
        """Places of entries that are or were in use."""
        return len(self.pairs)

    @property
    def gram(self) -> np.ndarray:
        """Of the entries; rows of free places are zero."""
        return self._gram[: self.n, : self.n]

    def _pair(self, i: int, label: Any) -> Pair:
        """A pair, whose features are computed once for each example and part of the label."""
        place = (i, key_of(self.kernel.part(label)))
        if place not in self._phi:
            self._phi[place] = self.kernel.features(self.X[i], label)
        return Pair(self.X[i], label, self._phi[place])

    def check(self) -> None:
        """Refuse a kernel that is none, as far as the entries tell.

        Asked again at the end, when there are wrong labels among them. Those with weight come
        first.
        """
        used = np.setdiff1d(np.arange(self.n), self.free)
        order = self.rng.permutation(used)
        order = order[np.argsort(~self.weighted[order], kind="stable")]
        self._tested = len(used)
        self._check_values(order[:_ASKED_AGAIN])
        self._check_definite(np.sort(order[:_DEFINITE]))

    def _check_values(self, some: np.ndarray) -> None:
        """Ask for a few values again, in both orders."""
        pairs: list[Any] = [self.pairs[e] for e in some.tolist()]
        known, again = self._gram[np.ix_(some, some)], self.kernel.block(pairs, pairs)
        allowed = _SAME * float(np.abs(known).max(initial=0.0))
        for other, law, words in (
            (again.T, "symmetric", "in the other order; return a symmetric function of two pairs"),
            (known, "always the same", "before; let it depend on the two pairs alone"),
        ):
            difference = np.abs(again - other)
            if difference.max() > allowed:
                p, q = np.unravel_index(int(difference.argmax()), difference.shape)
                raise InvalidStructure(
                    f"{self.kernel!r} is not {law}: for the labels {pairs[p].label!r} and "
                    f"{pairs[q].label!r} of two examples it is {again[p, q]:.6g}, and "
                    f"{other[p, q]:.6g} {words}"
                )

    def _check_definite(self, some: np.ndarray) -> None:
        n, matrix = len(some), self._gram[np.ix_(some, some)]
        if not np.isfinite(matrix).all():
            raise InvalidData(
                f"{self.kernel!r} is NaN or infinite on the data: scale the features, or use a "
                "kernel that is finite"
            )
        scale = max(float(np.abs(matrix).max()), float(np.finfo(float).tiny))
        smallest = float(scipy.linalg.eigvalsh(matrix, subset_by_index=[0, 0])[0])
        if smallest < -_ROUNDING * n * float(np.finfo(float).eps) * scale:
            truths = some.max() < self.n_truths
            raise InvalidData(
                f"{self.kernel!r} is not positive definite: the smallest eigenvalue of its matrix "
                f"over {'the truths of ' if truths else ''}{n} "
                f"{'examples' if truths else 'pairs of an example and a label'} is {smallest:.3g}, "
                "so no model can be certified; use a sum or product of kernels that are definite, "
                "such as VonMisesLabels for angles, and return float64"
            )

    def _have_room(self, n: int) -> None:
        """Grow the Gram matrix to at least so many entries."""
        have = len(self._gram)
        if n > have:
            size = min(max(2 * have, n, _FIRST), self.capacity)
            gram = np.zeros((size, size))
            gram[:have, :have] = self._gram
            self._gram = gram

    def _enter(self, i: int, label: Any, pair: Pair) -> int:
        """A place for an entry whose row is there or comes next."""
        owner = (i, key_of(label))
        if self.free:
            e = self.free.pop()
            self.pairs[e], self.owners[e] = pair, owner
        else:
            e = self.n
            self.pairs.append(pair)
            self.owners.append(owner)
        self.numbers[owner] = e
        self.store.put(e, pair)
        return e

    def entry(self, i: int, label: Any) -> int:
        """The number of a label of example i among the entries, which it joins."""
        known = self.numbers.get((i, key_of(label)))
        if known is not None:
            self.kept[known] = True
            return known
        if not self.free and self.n == self.capacity:
            self._drop()
        pair, values = self._pair(i, label), self.rows(i, [label])[0]
        own = float(self.kernel.block([pair], [pair])[0, 0])
        n = self.n
        e = self._enter(i, label, pair)
        self._have_room(self.n)
        values[self.free] = 0.0
        self._gram[e, :n] = self._gram[:n, e] = values
        self._gram[e, e] = own
        self.kept[e] = True
        if len(self.numbers) >= 2 * self._tested:
            self.check()
        return e

    def _drop(self) -> None:
        """Free the places of entries that nobody refers to, or say that memory is used up."""
        held = self.kept[: self.n] | self.weighted[: self.n]
        for holder in self.holders:
            for places in holder():
                held[places] = True
        dropped = np.flatnonzero(~held)
        if not len(dropped):
            raise MemoryUsedUp(
                f"the kernel matrix of {self.n} pairs uses up memory = {self.memory} bytes, and "
                "all of them have had weight or are in a working set: raise memory of JointKernel, "
                "give fewer examples, or use WorkingSet, which drops labels without weight"
            )
        for e in dropped.tolist():
            del self.numbers[self.owners[e]]
            self.pairs[e] = None
        self._gram[dropped] = 0.0
        self._gram[:, dropped] = 0.0
        for candidates in self._candidates.values():
            candidates.known[:, dropped[dropped < candidates.known.shape[1]]] = False
        self.free = dropped.tolist()

    def rows(self, i: int, labels: Sequence[Any]) -> np.ndarray:
        """Kernel values of labels of example i with all entries; any numbers at free places."""
        live = np.ones(self.n, dtype=bool)
        live[self.free] = False
        columns = np.flatnonzero(live)
        base, which = self._base(i, labels, columns)
        return self.store.values(base[:, : self.n][which], labels, np.arange(self.n))

    def scores(self, i: int, labels: Sequence[Any], v: np.ndarray) -> np.ndarray:
        """Sums of coefficients times kernel values of labels of example i."""
        used = np.flatnonzero(v[: self.n])
        base, which = self._base(i, labels, used)
        return self.store.scores(base[:, used], which, labels, used, v[used])

    def terms(self, i: int, labels: Sequence[Any], v: np.ndarray) -> np.ndarray:
        """What these scores are sums of."""
        used = np.flatnonzero(v[: self.n])
        base, which = self._base(i, labels, used)
        return self.store.values(base[:, used][which], labels, used) * v[used]

    def _base(
        self, i: int, labels: Sequence[Any], columns: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Base values of example i, known with some entries, and the rows of the labels."""
        own = self._candidates.get(i)
        if own is None:
            own = self._candidates[i] = Candidates(0)
        numbers = []
        for label in labels:
            key = key_of(self.store.shared(label))
            if key not in own.rows:
                own.rows[key] = len(own.pairs)
                own.pairs.append(self._pair(i, label))
            numbers.append(own.rows[key])
        before = own.nbytes
        if len(own.pairs) > len(own.values) or own.values.shape[1] < self.n:
            own.have_room(len(own.pairs), min(len(self._gram), max(self.n, 1)))
        self._spent += own.nbytes - before
        if self._spent > (1.0 - _GRAM_SHARE) * self.memory:
            self._candidates, self._spent = {i: own}, own.nbytes
        at, which = np.unique(np.array(numbers), return_inverse=True)
        self._fill(i, own, at, columns)
        return own.values[at], which

    def _fill(self, i: int, own: Candidates, at: np.ndarray, columns: np.ndarray) -> None:
        """Know the values of some labels of example i with some entries."""
        if self.store.whole:  # of those that are entries themselves, the matrix has them
            for k in at.tolist():
                e = self.numbers.get((i, key_of(own.pairs[k].label)))
                if e is not None:
                    own.values[k, columns] = self._gram[e, columns]
                    own.known[k, columns] = True
        missing = ~own.known[np.ix_(at, columns)]
        some, wanted = columns[missing.any(axis=0)], at[missing.any(axis=1)]
        if not len(some):
            return
        if own.known[np.ix_(wanted, some)].any():
            for k in wanted.tolist():
                self._compare(own, np.array([k]), some[~own.known[k, some]])
        else:
            self._compare(own, wanted, some)

    def _compare(self, own: Candidates, which: np.ndarray, columns: np.ndarray) -> None:
        """Values of some labels with some entries, none of which is known."""
        block = self.store.base([own.pairs[k] for k in which.tolist()], columns)
        own.values[np.ix_(which, columns)] = block
        own.known[np.ix_(which, columns)] = True

    def feature_sums(self, v: np.ndarray) -> tuple[list[Any], np.ndarray]:
        """Sums of coefficients times features, for each aspect; those of one point are kept."""
        own = v[: self.n]
        if self._sums is None or not np.array_equal(own, self._sums[0]):
            used = np.flatnonzero(own)
            self._sums = own.copy(), self.store.feature_sums(used, own[used])
        return self._sums[1]

    def own_gram(self, i: int, labels: Sequence[Any]) -> np.ndarray:
        """Kernel values of labels of example i with each other."""
        return self.kernel.gram([self._pair(i, label) for label in labels])

    def release(self, entries: np.ndarray) -> None:
        """Entries may go if they are needed for others, unless they have had weight."""
        self.kept[entries] = False

    def look_at(self, v: np.ndarray) -> None:
        """Entries that a point has weight on stay."""
        self.weighted[: self.n] |= v[: self.n] != 0.0


class JointWeights:
    """W as oracles of one example see it while training: something that scores its labels."""

    def __init__(self, table: PairTable, i: int, v: np.ndarray) -> None:
        self._table, self._i, self._v = table, i, v

    def terms(self, labels: Sequence[Any]) -> np.ndarray:
        """What the score of each label is a sum of."""
        return self._table.terms(self._i, labels, self._v)

    def scores(self, x: Any, labels: Sequence[Any]) -> np.ndarray:
        """<w, Phi(x, label)> of each label."""
        return self._table.scores(self._i, labels, self._v)

    def feature_sums(self) -> tuple[list[Any], np.ndarray]:
        """W itself for a product of inner products: the aspects, and a row for each."""
        return self._table.feature_sums(self._v)


class Expansion(np.ndarray):
    """Coefficients of pairs, with these pairs and their kernel: w as it is after training."""

    kernel: PairKernel
    pairs: dict[int, Pair]
    store: PairStore

    @classmethod
    def of(cls, table: PairTable, v: np.ndarray) -> Expansion:
        """The point v."""
        used = np.flatnonzero(v).tolist()
        pairs = {e: pair for e in used if (pair := table.pairs[e]) is not None}
        return _expansion(np.array(v, dtype=np.float64), table.kernel, pairs)

    def __reduce__(self) -> Any:
        return _expansion, (np.asarray(self), self.kernel, self.pairs)

    def scores(self, x: Any, labels: Sequence[Any]) -> np.ndarray:
        """<w, Phi(x, label)> of each label of a new example."""
        if not self.pairs:
            return np.zeros(len(labels))
        keys = [key_of(self.store.shared(label)) for label in labels]
        own = dict(zip(keys, pairs_of(self.kernel, x, labels), strict=True))
        numbers = {key: k for k, key in enumerate(own)}
        which, every = np.array([numbers[key] for key in keys]), np.arange(len(self.pairs))
        base = self.store.base(list(own.values()), every)
        coefficients = np.asarray(self)[list(self.pairs)]
        return self.store.scores(base, which, labels, every, coefficients)

    def feature_sums(self) -> tuple[list[Any], np.ndarray]:
        """W itself for a product of inner products: the aspects, and a row for each."""
        coefficients = np.asarray(self)[list(self.pairs)]
        return self.store.feature_sums(np.arange(len(self.pairs)), coefficients)


def _expansion(values: np.ndarray, kernel: PairKernel, pairs: dict[int, Pair]) -> Expansion:
    own = values.view(Expansion)
    own.kernel, own.pairs = kernel, pairs
    own.store = kernel.store()
    for k, pair in enumerate(pairs.values()):
        own.store.put(k, pair)
    return own


class JointQuadratic(InnerQuadratic):
    """1/2 |w|^2 by the Gram matrix of the entries."""

    def __init__(self, table: PairTable) -> None:
        self.table = table

    def covector(self, v):
        """The potentials of all entries."""
        out, n = np.zeros(len(v)), self.table.n
        used = np.flatnonzero(v[:n])
        out[:n] = v[used] @ self.table.gram[used]
        return out

    def dot(self, a, b):
        """Coefficients with potentials; a point's own square is not below zero but by rounding."""
        potentials = self.covector(b)
        value = float(a @ potentials)
        if a is b and value < -1e-9 * float(np.abs(a) @ np.abs(potentials)):
            raise InvalidStructure(
                f"{self.table.kernel!r} is not positive definite: |w|^2 is {value:.3g} at some w, "
                "so no model can be certified; use kernels that are definite"
            )
        return value

    def magnitude(self, U):
        """The terms of <U, U>, without signs."""
        return float(np.abs(U) @ np.abs(self.covector(U)))
