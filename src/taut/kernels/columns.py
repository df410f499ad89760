"""Kernels that are functions of a sum over columns: Laplacian, chi-squared, intersection."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from taut.compiled.jit import helper, kernel
from taut.compiled.rows import Rows, as_rows, n_rows
from taut.data.arrays import Matrix, take_rows
from taut.errors import InvalidData
from taut.kernels.base import Kernel, KernelRows, check_gamma, stored_numbers, width_of

_ROOM = 8_000_000  # bytes that rows of CSR may take while they are dense
_UNITS = 8.0  # in the last place, by which values are off beside what sums do


@helper
def distance(a, b):
    """|a - b|."""
    return abs(a - b)


@helper
def chi_squared(a, b):
    """(a - b)^2 / (a + b), where it is not 0 / 0."""
    total = a + b
    return (a - b) ** 2 / total if total > 0.0 else total


@helper
def smaller(a, b):
    """min(a, b)."""
    return min(a, b)


def _fillers(term: Callable) -> dict[int, Callable]:
    """Loops that sum up a term over columns, for dense rows and for CSR, by the arrays of both.

    out[p, q] = alone[p] + the sum for row p of X, dense, and row places[q] of the others.
    """

    @kernel
    def fill_dense(X, rows, places, alone, out):
        for p in range(X.shape[0]):
            for q in range(places.shape[0]):
                total = alone[p]
                for j in range(X.shape[1]):
                    total += term(X[p, j], rows[0][places[q], j])
                out[p, q] = total

    @kernel
    def fill_csr(X, rows, places, alone, out):
        data, indices, indptr = rows
        zero = X.dtype.type(0.0)
        for p in range(X.shape[0]):
            for q in range(places.shape[0]):
                total = alone[p]
                for at in range(indptr[places[q]], indptr[places[q] + 1]):
                    x = X[p, indices[at]]
                    total += term(x, data[at]) - term(x, zero)
                out[p, q] = total

    return {1: fill_dense, 3: fill_csr}


class ColumnRows(KernelRows):
    """Rows as compiled code reads them."""

    def __init__(self, kernel: ColumnKernel, rows: Rows, n_columns: int) -> None:
        self.kernel = kernel
        self.rows = rows
        self.n_columns = n_columns
        self.n = n_rows(rows)
        self.dtype = rows[0].dtype

    def _dense(self, places: np.ndarray) -> np.ndarray:
        taken = take_rows(self.rows, places)
        if len(taken) == 1:
            return taken[0]
        data, indices, indptr = taken
        return sp.csr_array((data, indices, indptr), (len(places), self.n_columns)).toarray()

    def block(self, own, other, others, out):
        """Some rows at a time, so that dense ones take little room."""
        assert isinstance(other, ColumnRows)
        mine, theirs = np.arange(self.n)[own], np.arange(other.n)[others]
        step = max(1, _ROOM // (self.n_columns * self.dtype.itemsize))
        for first in range(0, len(mine), step):
            X = self._dense(mine[first : first + step])
            alone = np.zeros(len(X), dtype=self.dtype)
            if len(other.rows) > 1 and self.kernel.counts_alone:
                alone = np.abs(X).sum(axis=1)  # of columns that the other row does not have
            fill = self.kernel.fills[len(other.rows)]
            fill(X, other.rows, theirs, alone, out[first : first + step])
        self.kernel.finish(out)

    def diagonal(self):
        """1, or the sum of the row."""
        return self.kernel.own_values(self)

    def take(self, rows):
        """Some of the rows alone."""
        return ColumnRows(self.kernel, take_rows(self.rows, rows), self.n_columns)

    def astype(self, dtype):
        """The same numbers, rounded."""
        rows = (self.rows[0].astype(dtype, copy=False), *self.rows[1:])
        return ColumnRows(self.kernel, rows, self.n_columns)

    @property
    def largest(self):
        """By k(x, z)^2 <= k(x, x) k(z, z)."""
        return float(np.abs(self.diagonal()).max(initial=0.0)) if self.kernel.definite else np.inf

    @property
    def error(self):
        """By the largest sum of a row, and how often the sum over columns is rounded.

        No partial sum of two rows is more than four such sums: where the columns of CSR are taken
        back from those that one row has alone, terms count twice.
        """
        unit = 0.5 * float(np.finfo(self.dtype).eps)
        sizes = np.abs(self.rows[0])
        if len(self.rows) == 1:
            sums = sizes.sum(axis=1, dtype=np.float64)
        else:
            starts = self.rows[2]
            sums = np.add.reduceat(np.append(sizes, 0.0).astype(np.float64), starts[:-1])
            sums *= np.diff(starts) > 0
        largest = float(sums.max(initial=0.0))
        return self.kernel.spread(unit, (2.0 * self.n_columns + _UNITS) * unit * 4.0 * largest)

    @property
    def nbytes(self):
        """Of the arrays."""
        return sum(array.nbytes for array in self.rows)


class ColumnKernel(Kernel):
    """A kernel that is a function of sum_j term(x_j, z_j)."""

    #: The loops around the term, and whether a column that only one row has counts.
    fills: ClassVar[dict[int, Callable]]
    counts_alone: ClassVar[bool] = True
    needs: ClassVar[str] = ""  # of rows without negative numbers: what they are called

    def check_rows(self, X, like=None):
        """Histograms have no negative numbers."""
        if not self.needs:
            return
        least = stored_numbers(X).min(initial=0.0)
        if least < 0.0:
            raise InvalidData(
                f"X has the number {least:g}: {self.needs}, which are >= 0; shift or clip the "
                "columns, or use the 'laplacian' kernel"
            )

    def prepared(self, X, dtype, like=None):
        """As the library's other rows."""
        return ColumnRows(self, as_rows(X.astype(dtype, copy=False), 0.2), X.shape[1])

    @abstractmethod
    def finish(self, sums: np.ndarray) -> None:
        """Turn sums into values, in place."""

    def spread(self, unit: float, error: float) -> float:
        """How far a value may be off where sums are off by `error`.

        `unit` is the largest relative error of a rounded number.
        """
        return error

    def own_values(self, rows: ColumnRows) -> np.ndarray:
        """k(x, x)."""
        return np.ones(rows.n, dtype=rows.dtype)


class _OfDistance(ColumnKernel):
    """exp(-gamma distance)."""

    definite = True

    def __init__(self, gamma: float | str) -> None:
        check_gamma(gamma)
        self.gamma = gamma

    def resolved(self, X: Matrix) -> Kernel:
        """With gamma as a number."""
        return type(self)(width_of(self.gamma, X))

    def finish(self, sums):
        """The exponential; a distance that is rounded may be below 0."""
        sums *= sums.dtype.type(-float(self.gamma))
        np.minimum(sums, 0.0, out=sums)
        np.exp(sums, out=sums)

    def spread(self, unit, error):
        """As far as the exponent is; values are from 0 to 1."""
        with np.errstate(over="ignore"):
            grown = float(np.expm1(float(self.gamma) * error))
        return min(grown, 1.0) + 2.0 * _UNITS * unit


class Laplacian(_OfDistance):
    """k(x, z) = exp(-gamma sum_j |x_j - z_j|).

    Parameters
    ----------
    gamma : float, "scale" or "auto", default="scale"
        As of `RBF`.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Laplacian
    >>> Laplacian(gamma=1.0)(np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    fills = _fillers(distance)

    def __init__(self, gamma: float | str = "scale") -> None:
        super().__init__(gamma)


class Chi2(_OfDistance):
    """k(x, z) = exp(-gamma sum_j (x_j - z_j)^2 / (x_j + z_j)) of histograms.

    Parameters
    ----------
    gamma : float, "scale" or "auto", default=1.0
        As of `RBF`.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Chi2
    >>> Chi2(gamma=1.0)(np.array([[1.0, 0.0], [0.0, 1.0]])).round(4)
    array([[1.    , 0.1353],
           [0.1353, 1.    ]])
    """

    fills = _fillers(chi_squared)
    needs = "the chi2 kernel compares histograms"

    def __init__(self, gamma: float | str = 1.0) -> None:
        super().__init__(gamma)


class Intersection(ColumnKernel):
    """k(x, z) = sum_j min(x_j, z_j) of histograms.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Intersection
    >>> Intersection()(np.array([[1.0, 2.0], [2.0, 1.0]]))
    array([[3., 2.],
           [2., 3.]])
    """

    definite = True
    fills = _fillers(smaller)
    counts_alone = False
    needs = "the intersection kernel compares histograms"

    def finish(self, sums: Any) -> None:
        """Sums are values."""

    def own_values(self, rows):
        """The sum of each row."""
        if len(rows.rows) == 1:
            return rows.rows[0].sum(axis=1)
        data, _indices, indptr = rows.rows
        return np.add.reduceat(np.append(data, 0.0), indptr[:-1]) * (np.diff(indptr) > 0)
