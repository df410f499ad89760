"""Inner products of rows: of the columns that many rows have by BLAS, of others by lists.

A matrix product takes the same time whether its numbers are zero or not. Where few rows have a
column, it is faster to go through those that do. So rows are split once: frequent columns are a
dense matrix, rare ones are CSR. For functions of differences of rows, what counts as zero is the
least number of each column: the background of images is one number, and need not be 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.compiled.jit import kernel
from taut.data.arrays import Matrix, take_rows
from taut.kernels.base import Places, nbytes_of

_RARE = 0.1  # of rows that have a column, below which lists are faster
_WORTH = 32  # rare columns, from which it is worth the trouble
_SEEN = 512  # rows that tell how frequent the columns of a dense matrix are
_CHUNK = 128  # columns that are summed up at once: the fewer, the smaller the rounding error


@kernel
def _by_column(rows, places, starts, owners, values):
    """The entries of some rows of CSR column by column: those of column j from starts[j] on.

    `starts` has two numbers more than there are columns, and is zero.
    """
    data, indices, indptr = rows
    for q in places:
        for at in range(indptr[q], indptr[q + 1]):
            starts[indices[at] + 2] += 1
    for j in range(2, starts.shape[0]):
        starts[j] += starts[j - 1]
    for number in range(places.shape[0]):
        for at in range(indptr[places[number]], indptr[places[number] + 1]):
            j = indices[at]
            owners[starts[j + 1]], values[starts[j + 1]] = number, data[at]
            starts[j + 1] += 1


@kernel
def _add_rare(rows, places, starts, owners, values, out):
    """out[p, q] += <row places[p] of CSR, row q of the entries by column>."""
    data, indices, indptr = rows
    for p in range(places.shape[0]):
        target = out[p]
        for at in range(indptr[places[p]], indptr[places[p] + 1]):
            x, j = data[at], indices[at]
            for entry in range(starts[j], starts[j + 1]):
                target[owners[entry]] += x * values[entry]


class InnerRows:
    """Rows, ready for inner products with others that were split in the same way.

    Parameters
    ----------
    dense : ndarray of shape (n, n_frequent)
    rare : CSR matrix of shape (n, n_rare)
    """

    def __init__(self, dense: np.ndarray, rare: Any) -> None:
        self.dense = dense
        self.rare = rare
        self.n = dense.shape[0]
        self.dtype = dense.dtype

    def products(self, own: Places, other: InnerRows, others: Places, out: np.ndarray) -> None:
        """out[p, q] = the product of row own[p] with row others[q] of the other ones."""
        left, right = self.dense[own], other.dense[others]
        np.matmul(left[:, :_CHUNK], right[:, :_CHUNK].T, out=out)
        if left.shape[1] > _CHUNK:
            more = np.empty_like(out)
            for first in range(_CHUNK, left.shape[1], _CHUNK):
                some = slice(first, first + _CHUNK)
                out += np.matmul(left[:, some], right[:, some].T, out=more)
        if self.rare.shape[1]:
            theirs, indptr = np.arange(other.n)[others], other.rare.indptr
            size = int((indptr[theirs + 1] - indptr[theirs]).sum())
            starts = np.zeros(self.rare.shape[1] + 2, dtype=np.int64)
            columns = starts, np.empty(size, np.int64), np.empty(size, self.dtype)
            _by_column(other._entries, theirs, *columns)
            _add_rare(self._entries, np.arange(self.n)[own], *columns, out)

    @property
    def _entries(self) -> tuple[np.ndarray, ...]:
        """The rare columns as three arrays."""
        return self.rare.data, self.rare.indices, self.rare.indptr

    def squares(self) -> np.ndarray:
        """|x|^2 of each row, in float64."""
        own = np.einsum("ij,ij->i", self.dense, self.dense, dtype=np.float64)
        if self.rare.shape[1]:
            own += np.asarray(self.rare.astype(np.float64).power(2).sum(axis=1)).reshape(-1)
        return own

    @property
    def terms(self) -> float:
        """How often a product is rounded at most while it is summed up."""
        chunks = -(-self.dense.shape[1] // _CHUNK)
        longest = np.diff(self.rare.indptr).max(initial=0)
        return float(min(self.dense.shape[1], _CHUNK) + chunks + longest)

    def take(self, rows: np.ndarray) -> InnerRows:
        """Some of the rows alone."""
        shape = (len(rows), self.rare.shape[1])
        return InnerRows(self.dense[rows], sp.csr_array(take_rows(self._entries, rows), shape))

    def astype(self, dtype: Any) -> InnerRows:
        """The same rows in another precision."""
        return InnerRows(self.dense.astype(dtype, copy=False), self.rare.astype(dtype, copy=False))

    @property
    def nbytes(self) -> int:
        """Memory of both parts."""
        return self.dense.nbytes + nbytes_of(self.rare)


class Split(NamedTuple):
    """Which columns are rare, and what is subtracted from rows.

    Attributes
    ----------
    rare : ndarray of bool, shape (n_columns,)
    shift : ndarray of shape (n_columns,)
    """

    rare: np.ndarray
    shift: np.ndarray

    @classmethod
    def of(cls, X: Matrix, shifts: bool) -> Split:
        """By how many rows have each column; with `shifts` any shift will do."""
        n, n_columns = X.shape
        shift, own = np.zeros(n_columns), X  # type: np.ndarray, Any
        if sp.issparse(X):
            shares = np.bincount(own.indices, minlength=n_columns) / n
        else:
            if shifts:
                shift = X.min(axis=0).astype(np.float64)
            shares = (X[:: -(-n // _SEEN)] != shift).mean(axis=0)
        rare = shares < _RARE
        if np.count_nonzero(rare) < _WORTH:
            rare[:] = False
        if shifts and not sp.issparse(X):
            # Products of rows far from 0 lose the digits in which the rows differ.
            means = X.mean(axis=0, dtype=np.float64)
            shift = np.where(rare, shift, means)
        return cls(rare, shift)

    def rows(self, X: Matrix, factor: float = 1.0) -> InnerRows:
        """Rows, shifted and then times a factor, in float64."""
        own: Any = X
        if not self.rare.any():
            dense = own.toarray() if sp.issparse(own) else own
            dense = np.subtract(dense, self.shift, dtype=np.float64)
            dense *= factor
            return InnerRows(dense, sp.csr_array((len(dense), 0)))
        frequent = ~self.rare
        parts = own[:, frequent], own[:, self.rare]
        if sp.issparse(own):
            dense, rare = parts[0].toarray() - self.shift[frequent], sp.csr_array(parts[1])
        else:
            dense = np.subtract(parts[0], self.shift[frequent], dtype=np.float64)
            rare = sp.csr_array(np.subtract(parts[1], self.shift[self.rare], dtype=np.float64))
        dense *= factor
        rare = rare.astype(np.float64)
        rare.data *= factor
        return InnerRows(dense, rare)
