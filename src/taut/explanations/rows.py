"""Training rows as their inner products: what dual variables of rows sum up to is seen by these."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import Matrix
from taut.kernels import Kernel
from taut.kernels.base import EVERY
from taut.spaces.expansion import KernelExpansion, KernelPoint


class Rows(ABC):
    """Rows with a constant feature, whose square is `constant`."""

    @abstractmethod
    def scores(self, coefficients: sp.csr_array) -> np.ndarray:
        """Scores of all rows under the sum of the rows times these (n_rows, columns)."""

    @abstractmethod
    def squares(self) -> np.ndarray:
        """The squared length of each row."""

    @abstractmethod
    def products(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Inner products of some rows with others."""


class LinearRows(Rows):
    """Rows whose features are written down."""

    def __init__(self, X: Matrix, constant: float) -> None:
        self.X: Any = X.astype(np.float64, copy=False)
        self.constant = constant

    def scores(self, coefficients):
        """By the weights that they sum up to."""
        weights = _dense(self.X.T @ coefficients)
        return _dense(self.X @ weights) + self.constant * _dense(coefficients.sum(axis=0))

    def squares(self):
        """|x|^2 + constant."""
        squares = self.X.multiply(self.X) if sp.issparse(self.X) else np.square(self.X)
        return np.asarray(squares.sum(axis=1)).ravel() + self.constant

    def products(self, some, others):
        """X X' + constant."""
        return _dense(self.X[some] @ self.X[others].T) + self.constant


class KernelledRows(Rows):
    """Rows that a kernel compares."""

    def __init__(self, kernel: Kernel, X: Matrix, constant: float) -> None:
        self.kernel = kernel
        self.X: Any = X.astype(np.float64, copy=False)
        self.constant = constant

    def scores(self, coefficients):
        """By the rows that have coefficients."""
        support = np.flatnonzero(np.diff(coefficients.indptr))
        own = coefficients[support].toarray()
        vectors = None if self.kernel.of_matrix else self.X[support]
        intercept = self.constant * own.sum(axis=0)
        point = KernelPoint(support, vectors, own, intercept, np.empty(0))
        return KernelExpansion(self.kernel, point).scores(self.X)

    def squares(self):
        """k(x, x) + constant."""
        return self.kernel.prepared(self.X, np.float64).diagonal() + self.constant

    def products(self, some, others):
        """The kernel's matrix + constant."""
        if self.kernel.of_matrix:
            return self.X[np.ix_(some, others)] + self.constant
        own = self.kernel.prepared(self.X[some], np.float64)
        other = self.kernel.prepared(self.X[others], np.float64, own)
        out = np.empty((own.n, other.n))
        own.block(EVERY, other, EVERY, out)
        return out + self.constant


def _dense(values: Any) -> np.ndarray:
    return values.toarray() if sp.issparse(values) else np.asarray(values)
