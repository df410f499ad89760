"""Structures with a joint kernel bound to data: points are coefficients of pairs."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from taut.binding.other_labels import Findings
from taut.binding.plain import PythonData
from taut.binding.written import Pool
from taut.errors import InvalidData, MemoryUsedUp
from taut.kernels.pair_stores import key_of
from taut.spaces.joint import Expansion, JointQuadratic, JointWeights, PairTable


class JointData(PythonData):
    """A `taut.structures.JointKernel` bound to data.

    phi of a label is 1 at its place among the entries of a table, and 0 elsewhere.
    """

    table: PairTable
    lasting = False  # numbers of pairs that this table has found
    #: The point whose potentials were computed last, and these.
    _last: tuple[np.ndarray, np.ndarray] | None = None

    def content(self) -> Iterator[Any]:
        """Examples and truths, and which table they are in: points are numbers of its entries."""
        yield from super().content()
        yield self.table.token

    def _lay_out(self):
        """As many places as the matrix of their pairs may have rows."""
        structure: Any = self.structure
        self.table = PairTable(structure.kernel, self.X, self.truth, structure.memory)
        return self.table.capacity

    def _regularised(self):
        """By the matrix of the entries."""
        if not self.prior.trivial or self.prior.mean.any():
            raise InvalidData(
                "points of JointKernel are no weights, and the regularizer has a mean, a precision "
                "or bounds of weights: leave out regularizer"
            )
        return JointQuadratic(self.table)

    def features(self, i, label):
        """1 at the place of the pair."""
        n, table = len(self.table.numbers), self.table
        e = table.entry(i, label)
        if len(table.numbers) > n and self._last is not None:
            v, potentials = self._last
            potentials[e] = table.gram[e] @ v[: table.n]
        phi = np.zeros(table.capacity)
        phi[e] = 1.0
        return phi

    def is_point(self, w):
        """Whether it has weight on entries alone."""
        return not w[self.table.n :].any() and not w[self.table.free].any()

    def settle(self, w):
        """Potentials are computed afresh when they are asked for."""
        self._last = None

    def point(self, v):
        """The potentials of all entries, by what has changed since they were last asked for."""
        n = self.table.n
        self.table.look_at(v)
        if self._last is not None:
            last, potentials = self._last
            change = v[:n] - last[:n]
            moved = np.flatnonzero(change)
            if 4 * len(moved) <= np.count_nonzero(v[:n]):
                if len(moved):
                    potentials[:n] += change[moved] @ self.table.gram[moved]
                    last[:n] = v[:n]
                return potentials
        self._last = np.array(v, dtype=np.float64), self.quadratic.covector(v)
        return self._last[1]

    def covector(self, psi):
        """By the matrix of the entries."""
        return self.quadratic.covector(psi)

    def length(self, phi):
        """By the matrix of the entries; the truths of a structure are the first."""
        used = np.flatnonzero(phi)
        square = phi[used] @ self.table.gram[np.ix_(used, used)] @ phi[used]
        return float(np.sqrt(max(square, 0.0)))

    def closing_audit(self, v, weight):
        """Also hold the kernel against what it was, with the labels that training has found."""
        self.table.check()
        try:
            return super().closing_audit(v, weight)
        except MemoryUsedUp:  # by labels that are tried alone
            return Findings()

    def weights(self, i, v):
        """What scores the labels of the example."""
        return JointWeights(self.table, i, v)

    as_weights = weights

    def user_weights(self, v):
        """The coefficients, with their pairs."""
        return Expansion.of(self.table, v)

    def values(self, i: int, labels: Iterable[Any], v: np.ndarray) -> Iterator[tuple[float, float]]:
        """By scores: labels that are looked at alone join no table."""
        own = list(labels)
        terms = self.weights(i, v).terms([self.truth[i], *own])
        scores, sizes = terms.sum(axis=1), np.abs(terms).sum(axis=1)
        for label, score, size in zip(own, scores[1:], sizes[1:], strict=True):
            loss = self.loss(i, label)
            self.witness.see_label(i, label, loss)
            yield loss + float(score - scores[0]), float(size + sizes[0])

    def pool(self, i: int, labels: Iterable[Any], w: Any) -> Pool:
        """By scores, and the kernel of the labels with each other."""
        truth, seen, own = key_of(self.truth[i]), set(), []
        for label in labels:
            key = key_of(label)
            if key not in seen:
                own.append(label)
            seen |= {key, truth}
        scores = w.scores(self.X[i], [self.truth[i], *own])
        losses = np.array([self.loss(i, label) for label in own])

        def gram() -> np.ndarray:
            values = self.table.own_gram(i, [self.truth[i], *own])
            return values[0, 0] - values[:1, 1:] - values[1:, :1] + values[1:, 1:]

        return Pool(own, losses + scores[1:] - scores[0], gram)

    def hold(self, holder: Any) -> None:
        """Keep entries that somebody refers to, as long as there is somebody."""
        reference = weakref.ref(holder)

        def places() -> Iterable[np.ndarray]:
            alive = reference()
            return () if alive is None else alive.places_in_use()

        self.table.holders.append(places)

    def release(self, psi: Iterable[np.ndarray]) -> None:
        """From now on those count that a holder refers to."""
        for where in psi:
            self.table.release(where)
