"""Kernels that are functions of inner products: blocks come from one matrix product each."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import Matrix
from taut.errors import InvalidData
from taut.kernels.base import (
    Kernel,
    KernelRows,
    check_gamma,
    check_positive,
    nbytes_of,
    stored_numbers,
    width_of,
)

_DENSE_SHARE = 0.02  # of non-zeros, from which a dense product is faster than one of CSR
_ROOM = 8_000_000  # bytes that rows of CSR may take while they are dense


class ProductRows(KernelRows):
    """Rows as two matrices, whose products are what the kernel is a function of.

    Parameters
    ----------
    kernel : ProductKernel
    left, right : ndarray or CSR matrix
    shift : ndarray or float
        What was subtracted from the rows of X.
    """

    def __init__(self, kernel: ProductKernel, left: Matrix, right: Matrix, shift: Any) -> None:
        self.kernel = kernel
        self.left = left
        self.right = right
        self.shift = shift
        self.n = left.shape[0]
        self.dtype = left.dtype

    def block(self, own, other, others, out):
        """A matrix product, and a function of each number."""
        assert isinstance(other, ProductRows)
        left, right = self.left[own], other.right[others]
        if sp.issparse(right):
            # Products of CSR with dense rows are vectorised, those of CSR with CSR are not.
            step = max(1, _ROOM // (left.shape[1] * left.dtype.itemsize))
            for first in range(0, left.shape[0], step):
                some = left[first : first + step]
                dense = some.toarray() if sp.issparse(some) else some
                out[first : first + step] = (right @ dense.T).T
        else:
            np.matmul(left.toarray() if sp.issparse(left) else left, right.T, out=out)
        self.kernel.finish(out)

    def diagonal(self):
        """By the products of each row with itself."""
        left: Any = self.left
        both = left.multiply(self.right) if sp.issparse(left) else left * self.right
        products = np.asarray(both.sum(axis=1), dtype=self.dtype).reshape(-1)
        self.kernel.finish(products)
        return products

    def take(self, rows):
        """The same rows of both."""
        return ProductRows(self.kernel, self.left[rows], self.right[rows], self.shift)

    @property
    def error(self):
        """By the largest terms that a product can be a sum of, each rounded once.

        A few units more are for the numbers themselves, rounded when they were made.
        """
        unit = float(np.finfo(self.dtype).eps)
        longest = [float(np.sqrt(squared_lengths(side).max())) for side in (self.left, self.right)]
        return self.kernel.spread(unit, (self.left.shape[1] + 8.0) * unit * np.prod(longest))

    @property
    def nbytes(self):
        """Of both."""
        matrices = (self.left, self.right) if self.left is not self.right else (self.left,)
        return sum(nbytes_of(matrix) for matrix in matrices)


def _beside(X: Matrix, *columns: np.ndarray) -> Matrix:
    """X with further columns."""
    more = np.column_stack(columns).astype(X.dtype, copy=False)
    if sp.issparse(X):
        return sp.csr_array(sp.hstack([X, more], format="csr"))
    return np.hstack([X, more])


def squared_lengths(X: Any) -> np.ndarray:
    """|x|^2 of each row, in float64."""
    if sp.issparse(X):
        return np.asarray(X.astype(np.float64).power(2).sum(axis=1)).reshape(-1)
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


def exponential(products: np.ndarray) -> None:
    """Exponents, at most 0 but for rounding, become values in place."""
    np.minimum(products, 0.0, out=products)
    np.exp(products, out=products)


def exponential_spread(unit: float, error: float) -> float:
    """How far values, at most 1, are off where exponents are off by `error`."""
    return float(np.expm1(error)) + 8.0 * unit


class ProductKernel(Kernel):
    """A kernel whose value is a function of one inner product of two rows that are made of X."""

    #: Whether it is a function of differences of rows, so that a common shift changes nothing.
    shifts: bool = False

    @abstractmethod
    def sides(self, X: Matrix) -> tuple[Matrix, Matrix]:
        """Two matrices with a row for each of X, in its precision."""

    def finish(self, products: np.ndarray) -> None:
        """Turn inner products into values, in place."""

    def spread(self, unit: float, error: float) -> float:
        """How far a value may be off where the inner product is off by `error`, of such numbers."""
        return float("inf")

    def prepared(self, X, dtype, like=None):
        """Both sides, dense where few numbers are zero."""
        if sp.issparse(X) and X.nnz >= _DENSE_SHARE * X.shape[0] * X.shape[1]:
            X = X.toarray()
        shift: Any = 0.0
        if isinstance(like, ProductRows):
            shift = like.shift
        elif self.shifts and not sp.issparse(X):
            # Products of rows far from 0 lose the digits in which the rows differ.
            shift = X.mean(axis=0, dtype=np.float64)
        if np.ndim(shift):
            X = np.subtract(X.toarray() if sp.issparse(X) else X, shift, dtype=np.float64)
        left, right = self.sides(X.astype(dtype, copy=False))
        return ProductRows(self, left, right, shift)


class Linear(ProductKernel):
    """k(x, z) = <x, z>.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Linear
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    definite = True
    finite = True

    def finite_map(self, x):
        """The row itself."""
        return np.ravel(x.toarray() if sp.issparse(x) else x).astype(np.float64, copy=False)

    def sides(self, X):
        """The rows themselves."""
        return X, X

    def spread(self, unit, error):
        """The value is the product."""
        return error


class RBF(ProductKernel):
    """k(x, z) = exp(-gamma |x - z|^2).

    Parameters
    ----------
    gamma : float, "scale" or "auto", default="scale"
        "scale" is 1 / (n_columns var(X)) and "auto" is 1 / n_columns, as in scikit-learn.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import RBF
    >>> RBF(gamma=0.5)(np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    definite = True
    shifts = True

    def __init__(self, gamma: float | str = "scale") -> None:
        check_gamma(gamma)
        self.gamma = gamma

    def resolved(self, X):
        """With gamma as a number."""
        return RBF(width_of(self.gamma, X))

    def sides(self, X):
        """One product is the exponent: <2 gamma x, z> - gamma |x|^2 - gamma |z|^2."""
        gamma = float(self.gamma)
        squares = -gamma * squared_lengths(X)
        ones = np.ones(X.shape[0])
        return _beside(X * X.dtype.type(2.0 * gamma), squares, ones), _beside(X, ones, squares)

    finish = staticmethod(exponential)
    spread = staticmethod(exponential_spread)


class Polynomial(ProductKernel):
    """k(x, z) = (gamma <x, z> + coef0)^degree.

    Parameters
    ----------
    degree : float, default=3
        A positive integer and coef0 >= 0 make it positive definite.
    gamma : float, "scale" or "auto", default="scale"
    coef0 : float, default=0.0

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Polynomial
    >>> Polynomial(degree=2, gamma=1.0, coef0=1.0)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    def __init__(self, degree: float = 3, gamma: float | str = "scale", coef0: float = 0.0) -> None:
        check_gamma(gamma)
        self.degree = check_positive("degree", degree)
        self.gamma = gamma
        self.coef0 = float(coef0)
        if not np.isfinite(self.coef0):
            raise InvalidData(f"coef0 = {coef0}: it must be finite")
        if self.degree == int(self.degree):
            self.degree = int(self.degree)

    @property
    def definite(self) -> bool | None:
        """Known where it is a sum of powers of inner products."""
        return True if isinstance(self.degree, int) and self.coef0 >= 0.0 else None

    def resolved(self, X):
        """With gamma as a number."""
        return Polynomial(self.degree, width_of(self.gamma, X), self.coef0)

    def sides(self, X):
        """The rows, one of them times gamma, and coef0."""
        scaled = X * X.dtype.type(self.gamma)
        if self.coef0 == 0.0:
            return scaled, X
        ones = np.ones(X.shape[0])
        return _beside(scaled, self.coef0 * ones), _beside(X, ones)

    def finish(self, products):
        """The power."""
        np.power(products, self.degree, out=products)


class VonMises(ProductKernel):
    """k(x, z) = exp(kappa sum_j (cos(x_j - z_j) - 1)) of angles in radians.

    Positive definite on the circle for every kappa, and near to exp(-kappa angle^2 / 2), which is
    not.

    Parameters
    ----------
    kappa : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import VonMises
    >>> VonMises(kappa=1.0)(np.array([[0.0], [np.pi], [2 * np.pi]])).round(3)
    array([[1.   , 0.135, 1.   ],
           [0.135, 1.   , 0.135],
           [1.   , 0.135, 1.   ]])
    """

    definite = True

    def __init__(self, kappa: float = 1.0) -> None:
        self.kappa = check_positive("kappa", kappa)

    def check_rows(self, X, like=None):
        """Angles beyond a full turn are probably degrees."""
        largest = np.abs(stored_numbers(X)).max(initial=0.0)
        if largest > 2.0 * np.pi * (1.0 + 1e-6):
            raise InvalidData(
                f"X has the angle {largest:g}, more than a full turn in radians: convert degrees "
                "by numpy.deg2rad, or take angles modulo 2 pi"
            )

    def sides(self, X):
        """Cosines and sines, whose inner products are cosines of differences."""
        angles = X.toarray() if sp.issparse(X) else X
        both = np.hstack([np.cos(angles), np.sin(angles)])
        ones, turns = np.ones(len(both)), np.full(len(both), -self.kappa * angles.shape[1])
        return _beside(both * both.dtype.type(self.kappa), turns), _beside(both, ones)

    finish = staticmethod(exponential)
    spread = staticmethod(exponential_spread)
