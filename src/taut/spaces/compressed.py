"""Fewer rows for a point of a kernel's space: which to keep, and what they can still express.

Rows are chosen one by one, each as the one that lets the projection of w onto the span of the
chosen rows grow most (orthogonal matching pursuit, by a pivoted Cholesky factorisation L L' of
their kernel matrix). With z(x) = L^-1 k(chosen, x) the span is an ordinary space of that many
features, in which inner products are those of the kernel: a problem that is restricted to it is
a linear one.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from taut.spaces.features import Features, RowFeatures
from taut.spaces.given_rows import rows_alone
from taut.spaces.kernel import KernelFeatures

_HEIGHT = 512  # rows whose features are computed at a time
_INDEPENDENT = 1e-10  # of k(x, x), that is left of a row by which the span grows


class Selection:
    """Rows in the order of their worth for w, and the span of the first of them.

    Parameters
    ----------
    features : KernelFeatures
        Of the training data.
    w : ndarray
        Coefficients of all rows, and the tail.
    most : int
        How many rows to choose; fewer where others add nothing to their span.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem
    >>> from taut.kernels import Linear
    >>> from taut.spaces.compressed import Selection
    >>> from taut.spaces.kernel import through_kernel
    >>> from taut.structures import Scalar
    >>> X = np.array([[1.0, 0.5], [2.0, 0.0], [0.0, 1.0]])
    >>> problem = Problem(Scalar(), X, np.ones(3), space=through_kernel(Linear()))
    >>> Selection(problem.data.blocks.features, np.array([1.0, 1.0, 0.1]), 1).chosen
    array([1])
    """

    def __init__(self, features: KernelFeatures, w: np.ndarray, most: int) -> None:
        self.features = features
        rows_of_w, self._tail = np.split(w, [features.n_rows * features.columns])
        b = rows_of_w.reshape(features.n_rows, features.columns)
        support = np.flatnonzero(b.any(axis=1))
        rows, constant = features.exact_rows.take(support), features.constant
        products = np.zeros((len(support), features.columns))
        column = np.empty((1, len(support)))
        for p in range(len(support)):
            rows.block(np.array([p]), rows, slice(None), column)
            products += np.outer(column[0] + constant, b[support[p]])
        left = rows.diagonal().astype(np.float64) + constant
        least = _INDEPENDENT * left
        L = np.zeros((len(support), min(most, len(support))))
        order: list[int] = []
        parts: list[np.ndarray] = []  # of the projection of w, along each new direction
        for t in range(L.shape[1]):
            worth = np.where(left > least, (products**2).sum(axis=1), -1.0)
            worth /= np.maximum(left, least)
            worth[order] = -1.0
            p = int(worth.argmax())
            if worth[p] <= 0.0:
                break
            rows.block(np.array([p]), rows, slice(None), column)
            root = np.sqrt(left[p])
            L[:, t] = (column[0] + constant - L[:, :t] @ L[p, :t]) / root
            parts.append(products[p] / root)
            products -= np.outer(L[:, t], parts[-1])
            left -= L[:, t] ** 2
            order.append(p)
        #: Numbers of the rows, the most important one first.
        self.chosen = support[order]
        self._factor = L[order, : len(order)]
        self._parts = np.reshape(parts, (len(order), features.columns))

    def projected(self, n: int) -> np.ndarray:
        """The point of the first n rows that is nearest to w, whose tail it has."""
        return self._point(self._coefficients(self._parts[:n]), self._tail)

    def _coefficients(self, V: np.ndarray) -> np.ndarray:
        """The coefficients of rows, from weights of their span's features."""
        factor = self._factor[: len(V), : len(V)]
        return scipy.linalg.solve_triangular(factor, V, trans=1, lower=True)

    def _point(self, coefficients: np.ndarray, tail: np.ndarray) -> np.ndarray:
        """Coefficients of all rows, and the tail, from those of the first ones."""
        b = np.zeros((self.features.n_rows, self.features.columns))
        b[self.chosen[: len(coefficients)]] = coefficients
        return np.concatenate([b.ravel(), tail])

    def span(self, n: int) -> Callable[[Features], RowFeatures]:
        """What turns linear features into those of the span of the first n rows."""

        def features(linear: Features) -> RowFeatures:
            own = rows_alone(linear)
            Z: np.ndarray = self._span_rows(n).astype(own.dtype, copy=False)
            return RowFeatures(Z, columns=own.columns, places=own.places, tail=own.tail)

        return features

    def _span_rows(self, n: int) -> np.ndarray:
        """z(x) of all rows."""
        kernel, chosen = self.features.exact_rows, self.chosen[:n]
        Z = np.empty((self.features.n_rows, n))
        for first in range(0, len(Z), _HEIGHT):
            own = slice(first, min(first + _HEIGHT, len(Z)))
            kernel.block(own, kernel, chosen, Z[own])
        Z += self.features.constant
        factor = self._factor[:n, :n]
        return np.ascontiguousarray(scipy.linalg.solve_triangular(factor, Z.T, lower=True).T)

    def in_span(self, w: np.ndarray, n: int) -> np.ndarray:
        """The point that weights of the span's features, and a tail, are."""
        columns = self.features.columns
        V, tail = np.split(w, [n * columns])
        return self._point(self._coefficients(V.reshape(n, columns)), tail)
