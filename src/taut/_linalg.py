"""Rows of a data matrix, dense or CSR, and the few operations that know the difference.

Compiled code sees a matrix as a plain tuple, `(X,)` or `(data, indices, indptr)`; the length of the
tuple selects the variant when the caller is compiled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numba.extending import overload

from taut._jit import kernel

Rows = tuple[np.ndarray, ...]
_COMPILED_ONLY = "row operations are called from compiled functions, not from Python"


def writable_alias(array: np.ndarray) -> np.ndarray:
    """The same memory typed as writable: compiled signatures do not distinguish read-only data."""
    if array.flags.writeable:
        return array
    interface = dict(array.__array_interface__, data=(array.ctypes.data, False))
    holder = type("_Alias", (), {"__array_interface__": interface, "owner": array})()
    return np.asarray(holder)


def as_rows(X: Any) -> Rows:
    """A validated matrix as the tuple of arrays that compiled code reads."""
    if not sp.issparse(X):
        return (writable_alias(X),)
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
    data, indices, indptr = rows
    total = 0.0
    for p in range(indptr[r], indptr[r + 1]):
        total += data[p] * w[indices[p]]
    return total


def _dense_add(rows, r, scale, w):
    x = rows[0][r]
    for j in range(x.shape[0]):
        w[j] += scale * x[j]


def _csr_add(rows, r, scale, w):
    data, indices, indptr = rows
    for p in range(indptr[r], indptr[r + 1]):
        w[indices[p]] += scale * data[p]


def _dense_times(rows, r, W, out):
    x = rows[0][r]
    for j in range(x.shape[0]):
        value = x[j]
        if value != 0.0:  # pixels and one-hot features are mostly zero
            strip = W[j]
            for k in range(out.shape[0]):
                out[k] += value * strip[k]


def _csr_times(rows, r, W, out):
    data, indices, indptr = rows
    for p in range(indptr[r], indptr[r + 1]):
        value = data[p]
        strip = W[indices[p]]
        for k in range(out.shape[0]):
            out[k] += value * strip[k]


def _dense_add_outer(rows, r, columns, scales, W):
    x = rows[0][r]
    for j in range(x.shape[0]):
        value = x[j]
        if value != 0.0:
            strip = W[j]
            for q in range(columns.shape[0]):
                strip[columns[q]] += value * scales[q]


def _csr_add_outer(rows, r, columns, scales, W):
    data, indices, indptr = rows
    for p in range(indptr[r], indptr[r + 1]):
        value = data[p]
        strip = W[indices[p]]
        for q in range(columns.shape[0]):
            strip[columns[q]] += value * scales[q]


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


def _operation(dense, csr):
    """Give a declaration its two implementations, chosen when the caller is compiled."""

    def declare(function):
        def choose(rows, *_):
            return dense if len(rows) == 1 else csr

        options = {"fastmath": True, "error_model": "numpy"}
        overload(function, strict=False, jit_options=options)(choose)
        return function

    return declare


@_operation(_dense_dot, _csr_dot)
def row_dot(rows: Rows, r: int, w: np.ndarray) -> float:
    """<x_r, w>."""
    raise TypeError(_COMPILED_ONLY)


@_operation(_dense_add, _csr_add)
def add_row(rows: Rows, r: int, scale: float, w: np.ndarray) -> None:
    """w += scale x_r."""
    raise TypeError(_COMPILED_ONLY)


@_operation(_dense_times, _csr_times)
def row_times(rows: Rows, r: int, W: np.ndarray, out: np.ndarray) -> None:
    """out += x_r W, for W of shape (features, columns): one contiguous strip per feature."""
    raise TypeError(_COMPILED_ONLY)


@_operation(_dense_add_outer, _csr_add_outer)
def add_outer(rows: Rows, r: int, columns: np.ndarray, scales: np.ndarray, W: np.ndarray) -> None:
    """W[:, columns] += x_r (outer) scales."""
    raise TypeError(_COMPILED_ONLY)


@_operation(_dense_inner, _csr_inner)
def row_inner(rows: Rows, r: int, s: int) -> float:
    """<x_r, x_s>."""
    raise TypeError(_COMPILED_ONLY)


@kernel
def _squared_norms(rows, out):
    for r in range(out.shape[0]):
        out[r] = row_inner(rows, r, r)


def squared_norms(rows: Rows) -> np.ndarray:
    """|x_r|^2 of each row, in float64."""
    out = np.empty(n_rows(rows))
    _squared_norms(rows, out)
    return out
