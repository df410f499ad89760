"""Joint kernels K((x, y), (x', y')): functions of pairs of an example and a label, in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import as_matrix
from taut.errors import InvalidType
from taut.kernels.base import EVERY, Kernel
from taut.kernels.given import checked_values
from taut.kernels.labels import LabelKernel


class Pair:
    """An example and a label, with what a kernel has computed of them.

    `phi` are the features that the pair is compared by; pairs that share an example and a part of
    the label share one array.
    """

    __slots__ = ("label", "phi", "x")

    def __init__(self, x: Any, label: Any, phi: Any) -> None:
        self.x = x
        self.label = label
        self.phi = phi


class PairKernel(ABC):
    """A kernel of pairs."""

    def part(self, label: Any) -> Any:
        """What of a label the features of a pair depend on; nothing, unless said otherwise."""
        return None

    def features(self, x: Any, label: Any) -> Any:
        """Phi(x, part of the label); the example itself, unless said otherwise."""
        return x

    def resolved(self, pairs: Sequence[Pair]) -> PairKernel:
        """The same with numbers where it has words that stand for numbers of the data."""
        return self

    @abstractmethod
    def block(self, pairs: Sequence[Pair], others: Sequence[Pair]) -> np.ndarray:
        """The kernel of each pair with each of the others, in float64."""


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
        if not isinstance(labels, LabelKernel):
            raise InvalidType(
                f"labels = {labels!r}: give ClassSimilarity or VonMisesLabels of taut.kernels"
            )
        self.kernel = kernel
        self.labels = labels
        self._features, self._part, self._aspect = features, part, aspect

    def part(self, label):
        """What the user says."""
        return None if self._part is None else self._part(label)

    def features(self, x, label):
        """What the user computes, or the example."""
        return x if self._features is None else self._features(x, self.part(label))

    def resolved(self, pairs):
        """With the numbers of the kernel on features."""
        rows = _rows([pair.phi for pair in pairs])
        kernel = self.kernel.resolved(rows)
        kernel.check_rows(rows)
        return PairProduct(kernel, self.labels, self._features, self._part, self._aspect)

    def block(self, pairs, others):
        """Each two different Phi once, times the kernel on labels."""
        (own, mine), (more, theirs) = _distinct(pairs), _distinct(others)
        like = self.kernel.prepared(_rows(more), np.float64)
        rows = self.kernel.prepared(_rows(own), np.float64, like)
        values = np.empty((rows.n, like.n))
        rows.block(EVERY, like, EVERY, values)
        return values[np.ix_(mine, theirs)] * self.labels.between(
            self._aspects(pairs), self._aspects(others)
        )

    def _aspects(self, pairs: Sequence[Pair]) -> list[Any]:
        return [p.label if self._aspect is None else self._aspect(p.label) for p in pairs]


def _distinct(pairs: Sequence[Pair]) -> tuple[list[Any], np.ndarray]:
    """The features of pairs, each array once, and which of them each pair has."""
    numbers: dict[int, int] = {}
    found: list[Any] = []
    places = np.empty(len(pairs), dtype=np.int64)
    for k, pair in enumerate(pairs):
        number = numbers.setdefault(id(pair.phi), len(numbers))
        if number == len(found):
            found.append(pair.phi)
        places[k] = number
    return found, places


def _rows(phi: list[Any]) -> Any:
    """A matrix of these rows."""
    if sp.issparse(phi[0]):
        return as_matrix(sp.vstack([row.reshape(1, -1) for row in phi], format="csr"))
    return as_matrix(np.array([np.ravel(row) for row in phi], dtype=np.float64))
