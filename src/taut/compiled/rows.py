"""Rows of a data matrix, dense or CSR, and the few operations that know the difference.

Compiled code sees a matrix as a plain tuple, `(X,)` or `(data, indices, indptr)`; the length of the
tuple selects the variant when the caller is compiled.

A weight matrix W of one row per feature is stored flat, its rows padded to a `stride` of whole
vector registers: see `taut.compiled.lanes.stride_of`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba.extending import overload

from taut.compiled.jit import helper, kernel
from taut.compiled.lanes import add, load, multiply_add, prefetch, store, width, zeros
from taut.compiled.linking import CHOSEN

Rows = tuple[np.ndarray, ...]
_LEAST_FILLED = 0.5  # share of non-zeros from which a dense matrix takes little more than CSR
_FEW = 256  # rows to compare with zero together
_FAR = 1024  # numbers to ask for ahead of their use; more would push out what is in use
COMPILED_ONLY = "row operations are called from compiled functions, not from Python"


def writable_alias(array: np.ndarray) -> np.ndarray:
    """The same memory typed as writable: compiled signatures do not distinguish read-only data."""
    if array.flags.writeable:
        return array
    interface = dict(array.__array_interface__, data=(array.ctypes.data, False))
    holder = type("_Alias", (), {"__array_interface__": interface, "owner": array})()
    return np.asarray(holder)


@kernel
def _count(X, indptr):
    """Where the non-zeros of each row will begin."""
    indptr[0] = 0
    for i in range(X.shape[0]):
        count = 0
        for j in range(X.shape[1]):
            count += X[i, j] != 0.0
        indptr[i + 1] = indptr[i] + count


@kernel
def _compress(X, data, indices):
    """The non-zeros of X and their columns; both arrays have an entry to spare."""
    p = 0
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):  # without branches: where zeros are is hard to predict
            data[p] = X[i, j]
            indices[p] = j
            p += X[i, j] != 0.0


def _n_filled(X: np.ndarray) -> int:
    """How many numbers are not zero, by few rows at a time: compiling takes longer than this."""
    parts = (X[first : first + _FEW] for first in range(0, len(X), _FEW))
    return sum(int(np.count_nonzero(part != 0.0)) for part in parts)


def as_rows(X: Any, dense_above: float = 0.0) -> Rows:
    """A validated matrix as the tuple of arrays that compiled code reads.

    A dense matrix with a smaller share of non-zeros than `dense_above` becomes CSR: pixels and
    one-hot features are mostly zero, and zeros are work. A CSR matrix with a larger share becomes
    dense if it takes little more memory then.
    """
    filled = max(dense_above, _LEAST_FILLED) if dense_above > 0.0 else np.inf
    if sp.issparse(X) and X.nnz >= filled * X.shape[0] * X.shape[1]:
        return (X.toarray(),)
    if not sp.issparse(X):
        X = writable_alias(X)
        if _n_filled(X) >= dense_above * X.size:
            return (X,)
        indptr = np.empty(X.shape[0] + 1, dtype=np.int64)
        _count(X, indptr)
        size = indptr[-1] + 1
        data, indices = np.empty(size, dtype=X.dtype), np.empty(size, dtype=np.int32)
        _compress(X, data, indices)
        return data[:-1], indices[:-1], indptr
    indptr = X.indptr.astype(np.int64, copy=False)
    return tuple(writable_alias(array) for array in (X.data, X.indices, indptr))


def n_rows(rows: Rows) -> int:
    """How many rows the tuple holds."""
    return len(rows[0]) if len(rows) == 1 else len(rows[2]) - 1


def _dense_dot(rows, r, w):
    x = rows[0][r]
    total = 0.0
    for j in range(x.shape[0]):
        total += x[j] * w[j]
    return total


def _csr_dot(rows, r, w):
    # Two sums by hand: LLVM would vectorise this by gathering, which is slower.
    data, indices, indptr = rows
    even = 0.0
    odd = 0.0
    p, end = indptr[r], indptr[r + 1]
    while p + 1 < end:
        even += data[p] * w[indices[p]]
        odd += data[p + 1] * w[indices[p + 1]]
        p += 2
    if p < end:
        even += data[p] * w[indices[p]]
    return even + odd


def _dense_add(rows, r, scale, w):
    x = rows[0][r]
    for j in range(x.shape[0]):
        w[j] += scale * x[j]


def _csr_add(rows, r, scale, w):
    data, indices, indptr = rows
    for p in range(indptr[r], indptr[r + 1]):
        w[indices[p]] += scale * data[p]


@helper
def _dense_strip(rows, r, W, stride, column, zero, out, at):
    """Scores of a strip of columns, in registers while the features stream past; the next column.

    Two sums: one would wait for itself.
    """
    x = rows[0][r]
    even = zero
    odd = zero
    place = column
    j = 0
    while j + 1 < x.shape[0]:
        even = multiply_add(load(zero, W, place), x[j], even)
        odd = multiply_add(load(zero, W, place + stride), x[j + 1], odd)
        place += 2 * stride
        j += 2
    if j < x.shape[0]:
        even = multiply_add(load(zero, W, place), x[j], even)
    store(add(even, odd), out, at + column)
    return column + width(zero)


@helper
def _csr_strip(rows, r, W, stride, column, zero, out, at):
    """Scores of a strip of columns, in registers while the non-zeros stream past; the next column.

    Two sums: one would wait for itself.
    """
    data, indices, indptr = rows
    even = zero
    odd = zero
    p, end = indptr[r], indptr[r + 1]
    while p + 1 < end:
        even = multiply_add(load(zero, W, indices[p] * stride + column), data[p], even)
        odd = multiply_add(load(zero, W, indices[p + 1] * stride + column), data[p + 1], odd)
        p += 2
    if p < end:
        even = multiply_add(load(zero, W, indices[p] * stride + column), data[p], even)
    store(add(even, odd), out, at + column)
    return column + width(zero)


def _times(strip):
    """All strips of a row of scores: four registers at a time, then what is left."""

    def times(rows, r, W, stride, out, at):
        unit = width(zeros(W, 1))
        column = 0
        while column + 4 * unit <= stride:
            column = strip(rows, r, W, stride, column, zeros(W, 4), out, at)
        left = stride - column
        if left == 3 * unit:
            strip(rows, r, W, stride, column, zeros(W, 3), out, at)
        elif left == 2 * unit:
            strip(rows, r, W, stride, column, zeros(W, 2), out, at)
        elif left == unit:
            strip(rows, r, W, stride, column, zeros(W, 1), out, at)

    return times


@helper
def _any(scales, first, last, least):
    found = False
    for k in range(first, last):
        found |= abs(scales[k]) > least
    return found


@helper
def _dense_add_strip(rows, r, scales, at, W, stride, column, zero):
    """W += x_r (outer) scales in a strip of columns."""
    x = rows[0][r]
    change = load(zero, scales, at + column)
    place = column
    for j in range(x.shape[0]):
        store(multiply_add(change, x[j], load(zero, W, place)), W, place)
        place += stride


@helper
def _csr_add_strip(rows, r, scales, at, W, stride, column, zero):
    """W += x_r (outer) scales in a strip of columns."""
    data, indices, indptr = rows
    change = load(zero, scales, at + column)
    for p in range(indptr[r], indptr[r + 1]):
        place = indices[p] * stride + column
        store(multiply_add(change, data[p], load(zero, W, place)), W, place)


def _add_full(strip):
    """All registers of columns that change, two at a time where neighbours do."""

    def add_full(rows, r, scales, at, least, W, stride):
        unit = width(zeros(W, 1))
        column = 0
        while column < stride:
            here = at + column
            if not _any(scales, here, here + unit, least):
                column += unit
            elif column + unit < stride and _any(scales, here + unit, here + 2 * unit, least):
                strip(rows, r, scales, at, W, stride, column, zeros(W, 2))
                column += 2 * unit
            else:
                strip(rows, r, scales, at, W, stride, column, zeros(W, 1))
                column += unit

    return add_full


def _dense_inner(rows, r, s):
    a = rows[0][r]
    b = rows[0][s]
    total = 0.0
    for j in range(a.shape[0]):
        total += a[j] * b[j]
    return total


def _csr_inner(rows, r, s):
    data, indices, indptr = rows
    p = indptr[r]
    q = indptr[s]
    total = 0.0
    while p < indptr[r + 1] and q < indptr[s + 1]:
        if indices[p] == indices[q]:
            total += data[p] * data[q]
            p += 1
            q += 1
        elif indices[p] < indices[q]:
            p += 1
        else:
            q += 1
    return total


def _dense_prefetch(rows, first, last):
    columns = rows[0].shape[1]
    for p in range(first * columns, min(last * columns, first * columns + _FAR), 8):
        prefetch(rows[0], p)


def _csr_prefetch(rows, first, last):
    data, indices, indptr = rows
    start, end = indptr[first], min(indptr[last], indptr[first] + _FAR)
    for p in range(start, end, 8):
        prefetch(data, p)
    for p in range(start, end, 16):
        prefetch(indices, p)


def operation(dense, csr):
    """Give a declaration its two implementations, chosen when the caller is compiled."""

    def declare(function):
        def choose(rows, *_):
            return dense if len(rows) == 1 else csr

        overload(function, strict=False, jit_options=CHOSEN)(choose)
        return function

    return declare


@operation(_dense_prefetch, _csr_prefetch)
def prefetch_rows(rows: Rows, first: int, last: int) -> None:
    """Ask for rows first..last - 1, or for the beginning of them if they are long."""
    raise TypeError(COMPILED_ONLY)


@operation(_dense_dot, _csr_dot)
def row_dot(rows: Rows, r: int, w: np.ndarray) -> float:
    """<x_r, w>."""
    raise TypeError(COMPILED_ONLY)


@operation(_dense_add, _csr_add)
def add_row(rows: Rows, r: int, scale: float, w: np.ndarray) -> None:
    """w += scale x_r."""
    raise TypeError(COMPILED_ONLY)


@operation(_times(_dense_strip), _times(_csr_strip))
def row_times(rows: Rows, r: int, W: np.ndarray, stride: int, out: np.ndarray, at: int) -> None:
    """out[at : at + stride] = x_r W."""
    raise TypeError(COMPILED_ONLY)


@operation(_add_full(_dense_add_strip), _add_full(_csr_add_strip))
def add_full_outer(
    rows: Rows,
    r: int,
    scales: np.ndarray,
    at: int,
    least: float,
    W: np.ndarray,
    stride: int,
) -> None:
    """W += x_r (outer) scales[at : at + stride], which are of the type of W.

    Registers of columns whose scales are all at most `least` are left out.
    """
    raise TypeError(COMPILED_ONLY)


@operation(_dense_inner, _csr_inner)
def row_inner(rows: Rows, r: int, s: int) -> float:
    """<x_r, x_s>."""
    raise TypeError(COMPILED_ONLY)


@kernel
def _csr_squares(data, indptr, out):
    for r in range(out.shape[0]):
        total = 0.0
        for p in range(indptr[r], indptr[r + 1]):
            total += data[p] * data[p]
        out[r] = total


def squared_norms(rows: Rows) -> np.ndarray:
    """|x_r|^2 of each row, in float64."""
    if len(rows) == 1:
        return np.einsum("ij,ij->i", rows[0], rows[0], dtype=np.float64)
    out = np.empty(n_rows(rows))
    _csr_squares(rows[0], rows[2], out)
    return out


@kernel
def _fill_inner(rows, places, starts, out):
    for i in range(places.shape[0]):
        first, length = places[i, 0], places[i, 1] - places[i, 0]
        for t in range(length):
            for u in range(t + 1):
                value = row_inner(rows, first + t, first + u)
                out[starts[i] + t * length + u] = value
                out[starts[i] + u * length + t] = value


def inner_products(rows: Rows, places: np.ndarray) -> np.ndarray:
    """Those of all pairs of rows of each block, one after the other, of the type of the rows.

    Block i has the rows places[i, 0] to places[i, 1].
    """
    sizes = (places[:, 1] - places[:, 0]) ** 2
    out = np.empty(int(sizes.sum()), dtype=rows[0].dtype)
    _fill_inner(rows, places, np.cumsum(sizes) - sizes, out)
    return out
