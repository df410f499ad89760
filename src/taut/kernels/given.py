"""Kernels that the user computes: a matrix, or a function of two blocks of rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import Matrix
from taut.errors import InvalidData, InvalidStructure, InvalidType
from taut.kernels.base import Kernel, KernelRows, Places, nbytes_of

_SYMMETRY = 1e-6  # relative to the largest number
_SINGLE = 1e-4  # the same, where values may have been computed in single precision
_FIRST = 8  # rows that a function is tried on
#: Parts of the block of these rows: small, wide, high, and a single pair.
_PARTS = ((0, 2, 0, 3), (2, 3, 3, 8), (3, 8, 4, 6), (7, 8, 0, 1))


class PrecomputedRows(KernelRows):
    """Rows of a matrix, of which some columns belong to the rows that they are compared with."""

    def __init__(self, matrix: np.ndarray, columns: np.ndarray, diagonal: np.ndarray) -> None:
        self.matrix = matrix
        self.columns = columns
        self._diagonal = diagonal
        self.n = len(matrix)
        self.dtype = matrix.dtype

    def block(self, own, other, others, out):
        """Looked up."""
        assert isinstance(other, PrecomputedRows)
        rows = np.arange(self.n)[own]
        out[:] = self.matrix[np.ix_(rows, other.columns[others])]

    def diagonal(self):
        """Looked up."""
        return self._diagonal

    def take(self, rows):
        """The same rows, and their columns."""
        return PrecomputedRows(self.matrix[rows], self.columns[rows], self._diagonal[rows])

    def astype(self, dtype):
        """The same matrix, rounded."""
        matrix, diagonal = (
            values.astype(dtype, copy=False) for values in (self.matrix, self._diagonal)
        )
        return PrecomputedRows(matrix, self.columns, diagonal)

    @property
    def largest(self) -> float:
        """By looking at all values."""
        parts = (np.abs(self.matrix[i : i + 512]).max(initial=0.0) for i in range(0, self.n, 512))
        return float(max(parts, default=0.0))

    @property
    def error(self):
        """Values are the data; in single precision they were rounded."""
        if self.dtype == np.float64:
            return 0.0
        return 0.5 * float(np.finfo(self.dtype).eps) * self.largest

    @property
    def nbytes(self):
        """Of the matrix."""
        return self.matrix.nbytes


class Precomputed(Kernel):
    """X is the matrix of the kernel: of all training rows with each other, symmetric.

    For prediction, X has a row for each new example and a column for each training row.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Precomputed
    >>> Precomputed()(np.array([[2.0, 1.0], [1.0, 2.0]]))
    array([[2., 1.],
           [1., 2.]])
    """

    of_matrix = True

    def kept(self, vectors, numbers, dtype):
        """Columns of new rows; what the rows have with each other is not needed any more."""
        nothing = np.empty((len(numbers), 0), dtype=dtype)
        return PrecomputedRows(nothing, numbers, np.zeros(len(numbers), dtype=dtype))

    def check_rows(self, X, like=None):
        """Square and symmetric, or with a column for each training row."""
        if sp.issparse(X):
            raise InvalidType(
                "kernel='precomputed' got a sparse X: give the kernel matrix as an array"
            )
        if like is not None:
            self._check_columns(X, like)
            return
        if X.shape[0] != X.shape[1]:
            raise InvalidData(
                f"kernel='precomputed' got X of shape {X.shape}: give the square matrix of all "
                "training rows with each other"
            )
        largest = float(np.abs(X).max(initial=0.0))
        for first in range(0, len(X), 512):  # without a second matrix
            own = slice(first, first + 512)
            difference = np.abs(X[own] - X[:, own].T)
            if difference.max() > _SYMMETRY * largest:
                i, j = np.unravel_index(int(difference.argmax()), difference.shape)
                i += first
                raise InvalidData(
                    f"kernel='precomputed' got X that is not symmetric: X[{i}, {j}] = "
                    f"{X[i, j]:g} and X[{j}, {i}] = {X[j, i]:g}; give (X + X.T) / 2"
                )

    @staticmethod
    def _check_columns(X: Matrix, like: KernelRows) -> None:
        """Refuse new rows without a column for each training row that counts."""
        assert isinstance(like, PrecomputedRows)
        least = int(like.columns.max(initial=-1)) + 1
        if X.shape[1] < least:
            raise InvalidData(
                f"kernel='precomputed' got X of shape {X.shape}: give a column for each training "
                f"row, of which the model needs number {least - 1}"
            )

    def prepared(self, X, dtype, like=None):
        """The matrix as it is."""
        matrix = X.astype(dtype, copy=False)
        if like is None:
            return PrecomputedRows(matrix, np.arange(len(X)), np.diagonal(matrix).copy())
        none = np.empty(0, dtype=np.int64)
        return PrecomputedRows(matrix, none, np.empty(0, dtype=dtype))


def _name(function: Callable) -> str:
    return getattr(function, "__name__", repr(function))


def checked_values(name: str, given: Any, n: int, m: int, things: str) -> np.ndarray:
    """What a user's kernel returned for n and m of some things, if it can be used."""
    values = np.asarray(given)
    if values.shape != (n, m):
        raise InvalidStructure(
            f"{name} returned shape {values.shape} for {n} and {m} {things}: return an array of "
            f"shape {(n, m)}"
        )
    if values.dtype not in (np.float32, np.float64):
        raise InvalidStructure(
            f"{name} returned numbers of type {values.dtype}: return float64, or float32"
        )
    if not np.isfinite(values).all():
        raise InvalidStructure(
            f"{name} returned NaN or infinity: a kernel is finite on all {things}"
        )
    return values


def _copied(X: Matrix, places: Places) -> Matrix:
    """Some rows, as arrays of their own: slices are views."""
    return X[places].copy() if isinstance(places, slice) else X[places]


class FunctionRows(KernelRows):
    """Rows as the user gave them."""

    def __init__(self, function: Callable, X: Matrix, dtype: Any) -> None:
        self.function = function
        self.X = X
        self.n = X.shape[0]
        self.dtype = np.dtype(dtype)

    def _values(self, own: Places, other: FunctionRows, others: Places) -> np.ndarray:
        """What the function returns, checked; it gets copies, and may work in place."""
        A, B = _copied(self.X, own), _copied(other.X, others)
        n, m = A.shape[0], B.shape[0]
        name = f"the kernel {_name(self.function)}"
        return checked_values(name, self.function(A, B), n, m, "rows")

    def check(self) -> None:
        """Refuse a function that is none of two rows, by its values on a few of them."""
        some = np.unique(np.linspace(0, self.n - 1, min(self.n, _FIRST)).astype(np.int64))
        whole = self._values(some, self, some)
        single = np.float32 in (whole.dtype, self.X.dtype)
        allowed = (_SINGLE if single else _SYMMETRY) * float(np.abs(whole).max(initial=0.0))
        for top, bottom, left, right in _PARTS:
            mine, theirs = some[top:bottom], some[left:right]
            if not len(mine) or not len(theirs):
                continue
            part = self._values(mine, self, theirs)
            there = whole[top:bottom, left:right]
            off = np.abs(np.subtract(part, there, dtype=np.float64))
            if off.max() > allowed:
                i, j = np.unravel_index(int(off.argmax()), off.shape)
                raise InvalidStructure(
                    f"the kernel {_name(self.function)} returned {there[i, j]:g} for rows "
                    f"{mine[i]} and {theirs[j]} in a block of {len(some)} x {len(some)} rows, and "
                    f"{part[i, j]:g} in one of {len(mine)} x {len(theirs)}: k(x, z) must depend on "
                    "x and z alone, not on the block that it is asked in; compute a mean, a "
                    "variance or 'scale' of the data once, before, and center columns where this "
                    "is rounding"
                )
        lower = float(np.abs(np.subtract(whole, whole.T, dtype=np.float64)).max(initial=0.0))
        if lower > allowed:
            raise InvalidData(
                f"the kernel {_name(self.function)} is not symmetric: k(x, z) and k(z, x) differ "
                f"by {lower:g} on the data; return a symmetric function of two rows"
            )

    def block(self, own, other, others, out):
        """The function of two blocks of rows."""
        assert isinstance(other, FunctionRows)
        out[:] = self._values(own, other, others)

    def diagonal(self):
        """Blocks along it."""
        out = np.empty(self.n, dtype=self.dtype)
        for first in range(0, self.n, 64):
            some: Places = slice(first, first + 64)
            out[some] = np.diagonal(self._values(some, self, some))
        return out

    def take(self, rows):
        """Some of the rows alone."""
        return FunctionRows(self.function, self.X[rows], self.dtype)

    def astype(self, dtype):
        """The function gets the rows that were given, whatever precision its values have."""
        return FunctionRows(self.function, self.X, dtype)

    @property
    def nbytes(self):
        """Of the rows."""
        return nbytes_of(self.X)


class Function(Kernel):
    """A user's function of two blocks of rows.

    Parameters
    ----------
    function : callable
        function(A, B) returns the values of all rows of A with all rows of B, an array of shape
        (rows of A, rows of B) of float64 or float32. It gets copies of rows as they were given to
        `fit`, dense or CSR, in blocks of any size: a value depends on its two rows alone.
    definite : bool, optional
        Give True where its matrix over any rows is known to be positive semidefinite. Otherwise it
        is tested on the data.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Function
    >>> Function(lambda A, B: (A @ B.T) ** 2)(np.array([[1.0], [2.0]]))
    array([[ 1.,  4.],
           [ 4., 16.]])
    """

    definite: bool | None = None

    def __init__(self, function: Callable, definite: bool | None = None) -> None:
        if not callable(function):
            raise InvalidType(f"Function got {function!r}: give a function of two blocks of rows")
        if definite not in (None, True):
            raise InvalidData(f"definite = {definite!r}: give True, or None to have it tested")
        self.function = function
        self.definite = definite

    def __repr__(self) -> str:
        return f"the kernel {_name(self.function)}"

    def prepared(self, X, dtype, like=None):
        """Nothing to prepare; the first rows tell whether the function is one of two rows."""
        rows = FunctionRows(self.function, X, dtype)
        if like is None:
            rows.check()
        return rows
