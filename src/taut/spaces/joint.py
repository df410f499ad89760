"""The space of a joint kernel: w = sum_e b_e Phi(x_e, y_e) over pairs of an example and a label.

A point is the coefficients b of *entries*, pairs that labels of planes and truths are, in an array
whose length is fixed by a memory limit. So points add up, scale and average as arrays, and inner
products go through the Gram matrix of the entries. It grows by a row for each new entry. What a
label scores that is no entry comes from a row of kernel values of its own, which is kept as well,
and becomes its row of the Gram matrix if the label becomes an entry: no two pairs are compared
twice, as long as memory lasts.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from taut.errors import InvalidData, InvalidStructure
from taut.kernels.pairs import Pair, PairKernel
from taut.spaces.quadratic import InnerQuadratic

_FIRST = 64  # entries that the first arrays have room for
_GRAM_SHARE = 0.5  # of the memory; the other half is for rows of labels that are no entries
_DEFINITE = 1000  # entries whose matrix is decomposed
_ROUNDING = 32.0  # units in the last place, for each entry


def key_of(label: Any) -> Any:
    """What tells labels apart: the label itself, where it has a hash."""
    try:
        hash(label)
    except TypeError:
        return pickle.dumps(label)
    return label


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
        self._gram = np.zeros((0, 0))
        self._have_room(len(own))
        self._gram[: len(own), : len(own)] = self._symmetric(own)
        for i, pair in enumerate(own):
            self._enter(i, pair.label, pair)
        self.weighted[: len(own)] = True
        self._check_definite()

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

    def _symmetric(self, pairs: Sequence[Pair]) -> np.ndarray:
        """The matrix of pairs with each other, each two compared once."""
        n = len(pairs)
        out = np.zeros((n, n))
        step = 64
        for first in range(0, n, step):
            last = min(first + step, n)
            block = self.kernel.block(pairs[first:last], pairs[:first]) if first else None
            if block is not None:
                out[first:last, :first] = block
                out[:first, first:last] = block.T
            for k in range(first, last):
                own = self.kernel.block(pairs[k : k + 1], pairs[first : k + 1])[0]
                out[k, first : k + 1] = own
                out[first : k + 1, k] = own
        return out

    def _check_definite(self) -> None:
        n = min(self.n, _DEFINITE)
        matrix = self._gram[:n, :n]
        scale = max(float(np.abs(matrix).max()), float(np.finfo(float).tiny))
        smallest = float(np.linalg.eigvalsh(matrix)[0])
        if smallest < -_ROUNDING * n * float(np.finfo(float).eps) * scale:
            raise InvalidData(
                f"{self.kernel!r} is not positive definite: the smallest eigenvalue of its matrix "
                f"over the truths of {n} examples is {smallest:.3g}, so no model can be certified; "
                "use a sum or product of kernels that are definite, such as VonMisesLabels for "
                "angles"
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
        return e

    def entry(self, i: int, label: Any) -> int:
        """The number of a label of example i among the entries, which it joins."""
        known = self.numbers.get((i, key_of(label)))
        if known is not None:
            self.kept[known] = True
            return known
        if not self.free and self.n == self.capacity:
            self._drop()
        values, pairs = self._rows(i, [label])
        own = float(self.kernel.block(pairs, pairs)[0, 0])
        n = self.n
        e = self._enter(i, label, pairs[0])
        self._have_room(self.n)
        values[0, self.free] = 0.0
        self._gram[e, :n] = self._gram[:n, e] = values[0]
        self._gram[e, e] = own
        self.kept[e] = True
        return e

    def _drop(self) -> None:
        """Free the places of entries that nobody refers to, or say that memory is used up."""
        held = self.kept[: self.n] | self.weighted[: self.n]
        for holder in self.holders:
            for places in holder():
                held[places] = True
        dropped = np.flatnonzero(~held)
        if not len(dropped):
            raise InvalidData(
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
        """Kernel values of labels of example i with all entries."""
        return self._rows(i, labels)[0]

    def _rows(self, i: int, labels: Sequence[Any]) -> tuple[np.ndarray, list[Pair]]:
        own = self._candidates.get(i)
        if own is None:
            own = self._candidates[i] = Candidates(0)
        numbers = []
        for label in labels:
            key = key_of(label)
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
        at = np.array(numbers)
        self._fill(i, own, at)
        return own.values[at, : self.n], [own.pairs[k] for k in numbers]

    def _fill(self, i: int, own: Candidates, at: np.ndarray) -> None:
        """Know the values of some labels of example i with all entries."""
        for k in at.tolist():  # of those that are entries themselves, the matrix has them
            e = self.numbers.get((i, key_of(own.pairs[k].label)))
            if e is not None and not own.known[k, : self.n].all():
                own.values[k, : self.n], own.known[k, : self.n] = self._gram[e, : self.n], True
                own.known[k, self.free] = False
        missing = ~own.known[at, : self.n]
        missing[:, self.free] = False
        columns = np.flatnonzero(missing.any(axis=0))
        if not len(columns):
            return
        others: list[Any] = [self.pairs[e] for e in columns.tolist()]
        which = np.flatnonzero(missing.any(axis=1))
        if missing[np.ix_(which, columns)].all():
            block = self.kernel.block([own.pairs[k] for k in at[which].tolist()], others)
            own.values[np.ix_(at[which], columns)] = block
        else:
            for q in which.tolist():
                some = np.flatnonzero(missing[q])
                pairs: list[Any] = [self.pairs[e] for e in some.tolist()]
                own.values[at[q], some] = self.kernel.block([own.pairs[at[q]]], pairs)[0]
        own.known[at, : self.n] |= missing

    def own_gram(self, i: int, labels: Sequence[Any]) -> np.ndarray:
        """Kernel values of labels of example i with each other."""
        return self._symmetric([self._pair(i, label) for label in labels])

    def release(self, entries: np.ndarray) -> None:
        """Entries may go if they are needed for others, unless they have had weight."""
        self.kept[entries] = False

    def look_at(self, v: np.ndarray) -> None:
        """Entries that a point has weight on stay."""
        self.weighted |= v != 0.0


class JointWeights:
    """W as oracles of one example see it while training: something that scores its labels."""

    def __init__(self, table: PairTable, i: int, v: np.ndarray) -> None:
        self._table, self._i, self._v = table, i, v

    def terms(self, labels: Sequence[Any]) -> np.ndarray:
        """What the score of each label is a sum of."""
        used = np.flatnonzero(self._v[: self._table.n])
        return self._table.rows(self._i, labels)[:, used] * self._v[used]

    def scores(self, x: Any, labels: Sequence[Any]) -> np.ndarray:
        """<w, Phi(x, label)> of each label."""
        used = np.flatnonzero(self._v[: self._table.n])
        return self._table.rows(self._i, labels)[:, used] @ self._v[used]


class Expansion(np.ndarray):
    """Coefficients of pairs, with these pairs and their kernel: w as it is after training."""

    kernel: PairKernel
    pairs: dict[int, Pair]

    @classmethod
    def of(cls, table: PairTable, v: np.ndarray) -> Expansion:
        """The point v."""
        own = np.array(v, dtype=np.float64).view(cls)
        used = np.flatnonzero(v).tolist()
        own.kernel = table.kernel
        own.pairs = {e: pair for e in used if (pair := table.pairs[e]) is not None}
        return own

    def __reduce__(self) -> Any:
        return _expansion, (np.asarray(self), self.kernel, self.pairs)

    def scores(self, x: Any, labels: Sequence[Any]) -> np.ndarray:
        """<w, Phi(x, label)> of each label of a new example."""
        if not self.pairs:
            return np.zeros(len(labels))
        phi: dict[Any, Any] = {}
        own = []
        for label in labels:
            part = key_of(self.kernel.part(label))
            if part not in phi:
                phi[part] = self.kernel.features(x, label)
            own.append(Pair(x, label, phi[part]))
        block = self.kernel.block(own, list(self.pairs.values()))
        return block @ np.asarray(self)[list(self.pairs)]


def _expansion(values: np.ndarray, kernel: PairKernel, pairs: dict[int, Pair]) -> Expansion:
    own = values.view(Expansion)
    own.kernel, own.pairs = kernel, pairs
    return own


class JointQuadratic(InnerQuadratic):
    """1/2 |w|^2 by the Gram matrix of the entries."""

    def __init__(self, table: PairTable) -> None:
        self.table = table

    def covector(self, v):
        """The potentials of all entries."""
        out, n = np.zeros(len(v)), self.table.n
        used = np.flatnonzero(v[:n])
        out[:n] = self.table.gram[:, used] @ v[used]
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
