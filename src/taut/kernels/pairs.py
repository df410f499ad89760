"""Joint kernels K((x, y), (x', y')): functions of pairs of an example and a label, in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import as_matrix
from taut.errors import InvalidData, InvalidType
from taut.kernels.base import EVERY, Kernel, KernelRows
from taut.kernels.given import checked_values
from taut.kernels.labels import LabelKernel
from taut.kernels.pair_stores import Pair, PairStore, ProductStore, check_widths, key_of

_HEIGHT = 64  # rows of a matrix that are computed at a time


class PairKernel(ABC):
    """A kernel of pairs."""

    def part(self, label: Any) -> Any:
        """What of a label the features of a pair depend on; nothing, unless said otherwise."""
        return None

    def features(self, x: Any, label: Any) -> Any:
        """Phi(x, part of the label); the example itself, unless said otherwise."""
        return x

    @property
    def finite(self) -> bool:
        """Whether it is an inner product of features that can be written down."""
        return False

    def finite_map(self, pair: Pair) -> np.ndarray:
        """These features of a pair, where the kernel is `finite`."""
        raise InvalidData(f"{self!r} has no features that could be written down")

    def written_scores(self, w: np.ndarray, pairs: Sequence[Pair]) -> np.ndarray:
        """The inner products of weights with these features."""
        return np.array([self.finite_map(pair) @ w for pair in pairs])

    def resolved(self, pairs: Sequence[Pair]) -> PairKernel:
        """The same with numbers where it has words that stand for numbers of the data."""
        return self

    def store(self) -> PairStore:
        """What holds pairs that others are compared with many times."""
        return PairStore(self)

    def gram(self, pairs: Sequence[Pair]) -> np.ndarray:
        """The matrix of pairs with each other, each two compared once."""
        n = len(pairs)
        out = np.zeros((n, n))
        for first in range(0, n, _HEIGHT):
            last = min(first + _HEIGHT, n)
            if first:
                block = self.block(pairs[first:last], pairs[:first])
                out[first:last, :first], out[:first, first:last] = block, block.T
            for k in range(first, last):
                own = self.block(pairs[k : k + 1], pairs[first : k + 1])[0]
                out[k, first : k + 1] = out[first : k + 1, k] = own
        return out

    @abstractmethod
    def block(self, pairs: Sequence[Pair], others: Sequence[Pair]) -> np.ndarray:
        """The kernel of each pair with each of the others, in float64."""


def pairs_of(kernel: PairKernel, x: Any, labels: Sequence[Any]) -> list[Pair]:
    """An example with each of some labels; features of each part of a label are computed once."""
    phi: dict[Any, Any] = {}
    found = []
    for label in labels:
        part = key_of(kernel.part(label))
        if part not in phi:
            phi[part] = kernel.features(x, label)
        found.append(Pair(x, label, phi[part]))
    return found


class PairFunction(PairKernel):
    """A user's function of two lists of pairs (x, label).

    Parameters
    ----------
    function : callable
        function(A, B) returns an array of shape (len(A), len(B)) of float64 or float32.

    Examples
    --------
    >>> from taut.kernels import PairFunction
    >>> PairFunction(lambda A, B: [[x * z * (y == v) for z, v in B] for x, y in A])
    the joint kernel <lambda>
    """

    def __init__(self, function: Callable) -> None:
        if not callable(function):
            raise InvalidType(
                f"kernel = {function!r}: give a function of two lists of pairs (x, label), or "
                "taut.kernels.PairProduct"
            )
        self.function = function

    def __repr__(self) -> str:
        return f"the joint kernel {getattr(self.function, '__name__', repr(self.function))}"

    def block(self, pairs, others):
        """What the function returns, checked."""
        own, more = ([(pair.x, pair.label) for pair in side] for side in (pairs, others))
        values = checked_values(repr(self), self.function(own, more), len(own), len(more), "pairs")
        return values.astype(np.float64, copy=False)


class PairProduct(PairKernel):
    """The product of a kernel on features and a kernel on labels.

    K((x, y), (x', y')) = kernel(Phi(x, y), Phi(x', y')) * labels(y, y')

    Parameters
    ----------
    kernel : Kernel
        Of `taut.kernels`, on rows.
    labels : LabelKernel
        `ClassSimilarity` or `VonMisesLabels`.
    features : callable, optional
        features(x, part) is the row Phi; the example itself by default.
    part : callable, optional
        part(label) is what Phi depends on, such as the box of a box with an angle; nothing by
        default. Phi is computed once for each example and part.
    aspect : callable, optional
        aspect(label) is what `labels` compares, such as the angle; the label by default.

    Examples
    --------
    >>> from taut.kernels import RBF, ClassSimilarity, PairProduct
    >>> kernel = PairProduct(RBF(0.5), ClassSimilarity([[1.0, 0.5], [0.5, 1.0]]))
    """

    def __init__(
        self,
        kernel: Kernel,
        labels: LabelKernel,
        features: Callable | None = None,
        part: Callable | None = None,
        aspect: Callable | None = None,
    ) -> None:
        if not isinstance(kernel, Kernel):
            raise InvalidType(f"kernel = {kernel!r}: give a kernel of taut.kernels, such as RBF()")
        if kernel.of_matrix:
            raise InvalidData(
                f"kernel = {kernel!r} compares rows by their numbers, and a product compares "
                "features of pairs: give a function of two lists of pairs that looks values up"
            )
        if not isinstance(labels, LabelKernel):
            raise InvalidType(
                f"labels = {labels!r}: give ClassSimilarity or VonMisesLabels of taut.kernels"
            )
        self.kernel = kernel
        self.labels = labels
        self._features, self._part, self._aspect = features, part, aspect

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kernel!r}, {self.labels!r})"

    def part(self, label):
        """What the user says."""
        return None if self._part is None else self._part(label)

    def features(self, x, label):
        """What the user computes, or the example."""
        return x if self._features is None else self._features(x, self.part(label))

    def resolved(self, pairs):
        """With the numbers of the kernel on features."""
        rows = _matrix([pair.phi for pair in pairs])
        kernel = self.kernel.resolved(rows)
        kernel.check_rows(rows)
        return PairProduct(kernel, self.labels, self._features, self._part, self._aspect)

    @property
    def finite(self):
        """Where both kernels are."""
        return self.kernel.finite and self.labels.finite

    def finite_map(self, pair):
        """All products of a number of one with a number of the other."""
        (row,) = self.labels.finite_map(self.aspects([pair.label]))
        return np.kron(self.kernel.finite_map(pair.phi), row)

    def written_scores(self, w, pairs):
        """Weights times each two different Phi once, times the map of the labels."""
        phi, which = distinct(pairs)
        rows = np.array([self.kernel.finite_map(row) for row in phi])
        columns = self.labels.finite_map(self.aspects([pair.label for pair in pairs]))
        if len(w) != rows.shape[1] * columns.shape[1]:
            raise InvalidData(
                f"features have {rows.shape[1]} numbers, and w is for "
                f"{len(w) // columns.shape[1]}: give examples as those of training"
            )
        return np.einsum("pr,pr->p", (rows @ w.reshape(rows.shape[1], -1))[which], columns)

    def store(self):
        """Of features and aspects, each once."""
        return ProductStore(self)

    def gram(self, pairs):
        """By blocks of the kernel on features."""
        phi, places = distinct(pairs)
        rows, aspects = self.rows_of(phi, None), self.aspects([pair.label for pair in pairs])
        out = np.empty((len(pairs), len(pairs)))
        for first in range(0, len(pairs), _HEIGHT):
            some = slice(first, first + _HEIGHT)
            values = np.empty((len(places[some]), rows.n))
            rows.block(places[some], rows, EVERY, values)
            np.multiply(
                values[:, places], self.labels.between(aspects[some], aspects), out=out[some]
            )
        return 0.5 * (out + out.T)

    def block(self, pairs, others):
        """Each two different Phi once, times the kernel on labels."""
        (own, mine), (more, theirs) = distinct(pairs), distinct(others)
        like = self.rows_of(more, None)
        rows = self.rows_of(own, like)
        values = np.empty((rows.n, like.n))
        rows.block(EVERY, like, EVERY, values)
        return values[np.ix_(mine, theirs)] * self.labels.between(
            self.aspects([pair.label for pair in pairs]),
            self.aspects([pair.label for pair in others]),
        )

    def aspects(self, labels: Sequence[Any]) -> list[Any]:
        """What of each label the kernel on labels compares."""
        return list(labels) if self._aspect is None else [self._aspect(label) for label in labels]

    def rows_of(self, phi: list[Any], like: KernelRows | None) -> KernelRows:
        """Features as the kernel reads them, to be compared with `like`."""
        X = _matrix(phi)
        self.kernel.check_rows(X, like)
        return self.kernel.prepared(X, np.float64, like)


def distinct(pairs: Sequence[Pair]) -> tuple[list[Any], np.ndarray]:
    """The features of pairs, each array once, as they come, and which of them each pair has."""
    found = {id(pair.phi): pair.phi for pair in pairs}
    numbers = {name: k for k, name in enumerate(found)}
    places = np.fromiter((numbers[id(pair.phi)] for pair in pairs), np.int64, len(pairs))
    return list(found.values()), places


def _matrix(phi: list[Any]) -> Any:
    """A matrix of these rows."""
    check_widths(phi, phi[0])
    if sp.issparse(phi[0]):
        return as_matrix(sp.vstack([row.reshape(1, -1) for row in phi], format="csr"))
    return as_matrix(np.array([np.ravel(row) for row in phi], dtype=np.float64))
