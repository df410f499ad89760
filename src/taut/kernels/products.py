"""Kernels that are functions of inner products: blocks come from matrix products."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.checks import check_positive
from taut.compiled.jit import kernel
from taut.data.arrays import Matrix
from taut.errors import InvalidData
from taut.kernels.base import (
    Kernel,
    KernelRows,
    check_gamma,
    stored_numbers,
    width_of,
)
from taut.kernels.inner import InnerRows, Split

_FEW = 64  # numbers of a row, whose products take as long as the function of them
_LARGEST = 700.0  # exponent of a number that is finite
_UNITS = 8.0  # in the last place, by which values are off beside what sums do


class ProductRows(KernelRows):
    """Rows of whose inner products the kernel is a function.

    Parameters
    ----------
    kernel : ProductKernel
    inner : InnerRows
    split : Split
        How rows must be split that are compared with these.
    """

    def __init__(self, kernel: ProductKernel, inner: InnerRows, split: Split) -> None:
        self.kernel = kernel
        self.inner = inner
        self.split = split
        self.n = inner.n
        self.dtype = inner.dtype
        #: |x|^2 of each row.
        self.squares = inner.squares().astype(self.dtype)

    def block(self, own, other, others, out):
        """Matrix products, and a function of each number."""
        assert isinstance(other, ProductRows)
        self.inner.products(own, other.inner, others, out)
        self.kernel.finish(out, self.squares[own], other.squares[others])

    def diagonal(self):
        """By the products of each row with itself."""
        return self.kernel.own_values(self.squares)

    def take(self, rows):
        """The same rows of both parts."""
        return ProductRows(self.kernel, self.inner.take(rows), self.split)

    def astype(self, dtype):
        """The same numbers, rounded."""
        return ProductRows(self.kernel, self.inner.astype(dtype), self.split)

    @property
    def cheap(self):
        """Where a row has few numbers that products go through."""
        rare = self.inner.rare.nnz / max(self.n, 1)
        return self.inner.dense.shape[1] + rare <= _FEW

    @property
    def largest(self):
        """By k(x, z)^2 <= k(x, x) k(z, z)."""
        return float(np.abs(self.diagonal()).max(initial=0.0)) if self.kernel.definite else np.inf

    @property
    def error(self):
        """By the largest terms that a product can be a sum of, and how often they are rounded.

        A few units more are for the numbers themselves, rounded when they were made.
        """
        unit = 0.5 * float(np.finfo(self.dtype).eps)
        largest = float(self.squares.max(initial=0.0))
        return self.kernel.spread(unit, (self.inner.terms + _UNITS) * unit * largest, largest)

    @property
    def nbytes(self):
        """Of both parts."""
        return self.inner.nbytes


class ProductKernel(Kernel):
    """A kernel whose value is a function of an inner product of rows that are made of X."""

    #: Whether it is a function of differences of rows, so that a common shift changes nothing.
    shifts: bool = False

    def embedded(self, X: Matrix) -> Matrix:
        """The rows whose inner products count, but for a factor."""
        return X

    @property
    def factor(self) -> float:
        """What these rows are multiplied by."""
        return 1.0

    @abstractmethod
    def finish(self, products: np.ndarray, own: np.ndarray, others: np.ndarray) -> None:
        """Turn inner products into values, in place; of all rows |x|^2 is known."""

    @abstractmethod
    def own_values(self, squares: np.ndarray) -> np.ndarray:
        """k(x, x), where |x|^2 is known."""

    def spread(self, unit: float, error: float, largest: float) -> float:
        """How far a value may be off where products, up to `largest`, are off by `error`.

        `unit` is the largest relative error of a rounded number.
        """
        return float("inf")

    def prepared(self, X, dtype, like=None):
        """Split as others are, or by which columns are rare."""
        rows = self.embedded(X)
        split = like.split if isinstance(like, ProductRows) else Split.of(rows, self.shifts)
        return ProductRows(self, split.rows(rows, self.factor).astype(dtype), split)


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

    def finish(self, products, own, others):
        """They are the values."""

    def own_values(self, squares):
        """|x|^2."""
        return squares.copy()

    def spread(self, unit, error, largest):
        """The value is the product."""
        return error


class Polynomial(ProductKernel):
    """k(x, z) = (gamma <x, z> + coef0)^degree.

    Parameters
    ----------
    degree : int, default=3
        At least 1.
    gamma : float, "scale" or "auto", default="scale"
    coef0 : float, default=0.0
        It is positive definite where this is not negative.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Polynomial
    >>> Polynomial(degree=2, gamma=1.0, coef0=1.0)(np.array([[1.0], [2.0]]))
    array([[ 4.,  9.],
           [ 9., 25.]])
    """

    def __init__(self, degree: int = 3, gamma: float | str = "scale", coef0: float = 0.0) -> None:
        check_gamma(gamma)
        given = check_positive("degree", degree)
        if given != int(given):
            raise InvalidData(
                f"degree = {degree}: give a positive integer, other powers of negative products "
                "are no numbers"
            )
        self.degree = int(given)
        self.gamma = gamma
        self.coef0 = float(coef0)
        if not np.isfinite(self.coef0):
            raise InvalidData(f"coef0 = {coef0}: it must be finite")

    @property
    def definite(self) -> bool | None:
        """Known where it is a sum of powers of inner products."""
        return True if self.coef0 >= 0.0 else None

    def resolved(self, X):
        """With gamma as a number."""
        return Polynomial(self.degree, width_of(self.gamma, X), self.coef0)

    @property
    def factor(self) -> float:
        """The root of gamma."""
        return float(np.sqrt(float(self.gamma)))

    def finish(self, products, own, others):
        """The power, by multiplications, which are faster than numpy's powers."""
        if self.coef0 != 0.0:
            products += products.dtype.type(self.coef0)
        base = products.copy() if self.degree > 1 else products
        for _ in range(self.degree - 1):
            products *= base

    def own_values(self, squares):
        """(|x|^2 + coef0)^degree."""
        return (squares + squares.dtype.type(self.coef0)) ** self.degree

    def spread(self, unit, error, largest):
        """By the slope where the product is largest."""
        most = largest + abs(self.coef0) + error
        units = (self.degree + 1.0) * unit * most
        with np.errstate(over="ignore"):
            slope = self.degree * np.float64(most) ** (self.degree - 1)
        return float(min(slope * (error + units), np.exp(_LARGEST)))


def _exponentials(products: np.ndarray, own: np.ndarray, others: np.ndarray) -> None:
    """exp(<x, z> - |x|^2 / 2 - |z|^2 / 2) in place."""
    products -= 0.5 * own[:, None]
    products -= 0.5 * others
    np.minimum(products, 0.0, out=products)
    np.exp(products, out=products)


@kernel
def _single_exponentials(products, own, others):
    """The same in single precision, 2^y by a polynomial: the powers of two are vectorised."""
    half, one, log2e = np.float32(0.5), np.float32(1.0), np.float32(1.44269504)
    for p in range(products.shape[0]):
        row, x = products[p], half * own[p]
        for q in range(products.shape[1]):
            y = min(max(log2e * (row[q] - x - half * others[q]), np.float32(-126.0)), np.float32(0))
            whole = np.floor(y + half)
            t = y - whole
            power = np.float32(1.5252734e-5)
            power = power * t + np.float32(1.5403530e-4)
            power = power * t + np.float32(1.3333558e-3)
            power = power * t + np.float32(9.6181291e-3)
            power = power * t + np.float32(5.5504109e-2)
            power = power * t + np.float32(2.4022651e-1)
            power = power * t + np.float32(6.9314718e-1)
            power = power * t + one
            row[q] = power * np.int32((np.int32(whole) + np.int32(127)) << np.int32(23)).view(
                np.float32
            )


_EXPONENTIALS = {np.dtype(np.float32): _single_exponentials, np.dtype(np.float64): _exponentials}


class _Gaussian(ProductKernel):
    """exp(-|x - z|^2 / 2) of embedded rows."""

    definite = True

    def finish(self, products, own, others):
        """By |x - z|^2 = |x|^2 + |z|^2 - 2 <x, z>."""
        _EXPONENTIALS[products.dtype](products, own, others)

    def own_values(self, squares):
        """1."""
        return np.ones_like(squares)

    def spread(self, unit, error, largest):
        """As far as the exponent is, whose other terms are rounded, too; values are at most 1."""
        exponent = min(error + _UNITS * unit * largest, _LARGEST)
        return float(np.expm1(exponent)) + 2.0 * _UNITS * unit


class RBF(_Gaussian):
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

    shifts = True

    def __init__(self, gamma: float | str = "scale") -> None:
        check_gamma(gamma)
        self.gamma = gamma

    def resolved(self, X):
        """With gamma as a number."""
        return RBF(width_of(self.gamma, X))

    @property
    def factor(self) -> float:
        """The root of 2 gamma."""
        return float(np.sqrt(2.0 * float(self.gamma)))


class VonMises(_Gaussian):
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

    def embedded(self, X):
        """Points on circles: half their squared distance is 1 - cos of the difference."""
        angles: Any = X.toarray() if sp.issparse(X) else X
        return np.hstack([np.cos(angles), np.sin(angles)])

    @property
    def factor(self) -> float:
        """The root of kappa."""
        return float(np.sqrt(self.kappa))
