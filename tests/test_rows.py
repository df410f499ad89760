"""Rows of data, dense and CSR: each operation is numpy's, whatever the number of columns."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from taut.compiled.jit import kernel
from taut.compiled.lanes import aligned_zeros, lanes_of, stride_of
from taut.compiled.rows import (
    add_full_outer,
    add_row,
    as_rows,
    n_rows,
    prefetch_rows,
    row_dot,
    row_inner,
    row_times,
    squared_norms,
    writable_alias,
)

# All ways in which strips of four, two and one registers cover the columns, for both types.
COLUMNS = [1, 3, 4, 5, 8, 10, 26, 105]
N_FEATURES = [1, 2, 7]
GUARD = 16


@kernel
def _vectors(rows, r, s, scale, w, numbers):
    prefetch_rows(rows, r, r + 1)
    numbers[0] = row_dot(rows, r, w)
    numbers[1] = row_inner(rows, r, s)
    add_row(rows, r, scale, w)


@kernel
def _matrices(rows, r, scales, first, least, W, stride, out, at):
    row_times(rows, r, W, stride, out, at)
    add_full_outer(rows, r, scales, first, least, W, stride)


def matrix(rng, n_features, dtype):
    """Rows that are full, half full, with a non-zero at either end, and empty: first, last too."""
    X = rng.normal(size=(9, n_features))
    X[[0, 4, 8]] = 0.0
    X[1] *= rng.random(n_features) < 0.5
    X[2, 1:] = 0.0
    X[3, :-1] = 0.0
    return X.astype(dtype)


@pytest.fixture(params=["dense", "csr"])
def kind(request):
    return request.param


@pytest.fixture(params=[np.float32, np.float64])
def dtype(request):
    """Of the data."""
    return request.param


@pytest.fixture(params=[np.float32, np.float64])
def weights(request):
    """The type of W."""
    return request.param


@pytest.fixture(name="X", params=N_FEATURES)
def some_rows(request, dtype, rng):
    return matrix(rng, request.param, dtype)


@pytest.fixture
def rows(X, kind):
    rows = as_rows(X if kind == "dense" else sp.csr_array(X))
    assert len(rows) == (1 if kind == "dense" else 3)
    return rows


def close(found, expected, *types):
    """Equal up to the rounding of a few operations in the coarsest of the types."""
    eps = max(np.finfo(t).eps for t in types)
    assert_allclose(found, expected, rtol=0.0, atol=200.0 * eps)


class Padded:
    """A weight matrix as compiled code sees it, between numbers that must stay as they are."""

    def __init__(self, W, dtype):
        self.columns = W.shape[1]
        self.stride = stride_of(self.columns, dtype)
        size = W.shape[0] * self.stride
        self._all = np.full(size + 2 * GUARD, 77, dtype=dtype)
        self.flat = self._all[GUARD : GUARD + size]
        self.flat[:] = 0.0
        self._rows[:, : self.columns] = W

    @property
    def _rows(self):
        return self.flat.reshape(-1, self.stride)

    def read(self):
        """The weights; padding is zero and nothing was written outside."""
        assert_array_equal(self._rows[:, self.columns :], 0.0)
        assert_array_equal(self._all[:GUARD], 77)
        assert_array_equal(self._all[-GUARD:], 77)
        return self._rows[:, : self.columns].astype(np.float64)


@pytest.mark.parametrize("scale", [1.5, 0.0, -0.25])
def test_rows_and_vectors(X, rows, dtype, weights, scale, rng):
    for r in range(len(X)):
        for s in range(len(X)):
            w, numbers = rng.normal(size=X.shape[1]).astype(weights), np.empty(2)
            exact, x = w.astype(np.float64), X.astype(np.float64)
            _vectors(rows, r, s, scale, w, numbers)
            close(numbers, [x[r] @ exact, x[r] @ x[s]], dtype, weights)
            close(w, exact + scale * x[r], dtype, weights)


def scales_at(values, first, dtype):
    """Scales as compiled code sees them: from a place on, padded with zeros, between others."""
    scales = np.full(first + stride_of(len(values), dtype) + GUARD, 77, dtype=dtype)
    scales[first:-GUARD] = 0.0
    scales[first : first + len(values)] = values
    return scales


@pytest.mark.parametrize("columns", COLUMNS)
def test_rows_and_matrices(X, rows, dtype, weights, columns, rng):
    """In some strips nothing changes, in others a single column does."""
    x = X.astype(np.float64)
    for r in range(len(X)):
        for share in (0.0, 0.2, 1.0):
            W = Padded(rng.normal(size=(X.shape[1], columns)), weights)
            before, stride = W.read(), W.stride
            values = rng.normal(size=columns) * (rng.random(columns) < share)
            first, at = 5 * r, 3 * r
            scales = scales_at(values, first, weights)
            out = np.full(at + stride + GUARD, 77, dtype=weights)
            _matrices(rows, r, scales, first, weights(0.0), W.flat, stride, out, at)
            close(W.read(), before + np.outer(x[r], values), dtype, weights)
            close(out[at : at + columns], x[r] @ before, dtype, weights)
            assert_array_equal(out[at + columns : at + stride], 0.0)
            assert_array_equal(out[:at], 77)
            assert_array_equal(out[at + stride :], 77)


def one_row(kind):
    X = np.array([[1.0, 2.0]], dtype=np.float32)
    return as_rows(X if kind == "dense" else sp.csr_array(X))


@pytest.mark.parametrize("columns", COLUMNS)
def test_every_column_is_reached(columns, kind, weights):
    """One after the other, and all of them at once."""
    rows, zero, each = one_row(kind), weights(0.0), np.arange(1.0, columns + 1.0)
    out = aligned_zeros(stride_of(columns, weights), weights)
    for k in range(columns):
        W, own = Padded(np.zeros((2, columns)), weights), 3.0 * (np.arange(columns) == k)
        _matrices(rows, 0, scales_at(own, 0, weights), 0, zero, W.flat, W.stride, out, 0)
        assert_array_equal(W.read(), np.outer([1.0, 2.0], own))
    W = Padded(np.zeros((2, columns)), weights)
    for scales in (each, 0.0 * each):
        _matrices(rows, 0, scales_at(scales, 0, weights), 0, zero, W.flat, W.stride, out, 0)
        assert_array_equal(W.read(), np.outer([1.0, 2.0], each))
    assert_array_equal(out[:columns], 5.0 * each)


@pytest.mark.parametrize("columns", COLUMNS)
def test_what_rounding_leaves_of_scales_is_left_out(columns, kind, weights, rng):
    """By whole registers: beside a scale that counts, small ones are added too."""
    rows, unit, least = one_row(kind), lanes_of(weights), 1e-3
    out = aligned_zeros(stride_of(columns, weights), weights)
    for share in (0.0, 0.1, 0.5):
        W = Padded(np.zeros((2, columns)), weights)
        values = np.where(rng.random(columns) < share, -2.0, rng.choice([-least, least], columns))
        values = values.astype(weights).astype(np.float64)
        scales = scales_at(values, 0, weights)
        _matrices(rows, 0, scales, 0, weights(least), W.flat, W.stride, out, 0)
        counts = np.repeat(np.abs(scales[:-GUARD].reshape(-1, unit)).max(axis=1) > 1.0, unit)
        expected = np.outer([1.0, 2.0], values * counts[:columns])
        close(W.read(), expected, weights)
        assert_array_equal(W.read() == 0.0, expected == 0.0)


def test_squared_norms(X, rows, dtype):
    norms = squared_norms(rows)
    assert norms.dtype == np.float64
    assert norms.shape == (n_rows(rows),) == (len(X),)
    close(norms, (X.astype(np.float64) ** 2).sum(axis=1), dtype)


def as_csr(rows, shape):
    data, indices, indptr = rows
    assert (indices.dtype, indptr.dtype) == (np.int32, np.int64)
    return sp.csr_array((data, indices, indptr), shape=shape)


@pytest.mark.parametrize("dense_above", [0.0, 0.2, 0.7, 1.0])
def test_a_dense_matrix_stays_dense_where_it_is_full_enough(X, dtype, dense_above):
    rows = as_rows(X, dense_above)
    if np.count_nonzero(X) >= dense_above * X.size:
        assert len(rows) == 1
        assert np.shares_memory(rows[0], X)
        assert_array_equal(rows[0], X)
    else:
        found = as_csr(rows, X.shape)
        assert found.dtype == dtype
        assert found.has_sorted_indices
        assert found.nnz == np.count_nonzero(X)  # zeros are not kept
        assert_array_equal(found.toarray(), X)


@pytest.mark.parametrize("X", [np.zeros((3, 2)), np.zeros((1, 5), dtype=np.float32)])
def test_a_matrix_of_zeros_becomes_empty_rows(X):
    rows = as_rows(X, 0.5)
    assert as_csr(rows, X.shape).nnz == 0
    assert n_rows(rows) == len(X)
    assert_array_equal(squared_norms(rows), 0.0)
    assert len(as_rows(X)) == 1


@pytest.mark.parametrize(
    ("share", "dense_above", "dense"),
    [(0.9, 0.2, True), (0.9, 0.7, True), (0.6, 0.7, False), (0.4, 0.2, False), (1.0, 0.0, False)],
)
def test_a_sparse_matrix_becomes_dense_where_it_is_full(share, dense_above, dense, dtype, rng):
    """Sparse below one half whatever is asked for, which bounds the memory; else without a copy."""
    values = np.where(np.arange(200) < 200 * share, rng.uniform(1.0, 2.0, 200), 0.0)
    X = sp.csr_array(rng.permutation(values).reshape(20, 10).astype(dtype))
    rows = as_rows(X, dense_above)
    assert len(rows) == (1 if dense else 3)
    assert rows[0].dtype == dtype
    if dense:
        assert_array_equal(rows[0], X.toarray())
    else:
        assert np.shares_memory(rows[0], X.data)
        assert_array_equal(as_csr(rows, X.shape).toarray(), X.toarray())


def test_read_only_data_need_no_copy(kind, rng):
    X = matrix(rng, 7, np.float64)
    expected = (X**2).sum(axis=1)
    given = X if kind == "dense" else sp.csr_array(X)
    arrays = [X] if kind == "dense" else [given.data, given.indices, given.indptr]
    for array in arrays:
        array.flags.writeable = False
    rows = as_rows(given)
    assert np.shares_memory(rows[0], arrays[0])
    assert_allclose(squared_norms(rows), expected)
    assert not arrays[0].flags.writeable


def test_an_alias_keeps_its_memory_alive(rng):
    array = rng.normal(size=10_000)
    expected = array.copy()
    array.flags.writeable = False
    alias = writable_alias(array)
    del array
    np.ones(10_000)  # would take the memory
    assert_array_equal(alias, expected)


@pytest.mark.parametrize("operation", [row_dot, row_inner, add_row, row_times, add_full_outer])
def test_operations_are_for_compiled_code(operation):
    count = operation.__code__.co_argcount
    with pytest.raises(TypeError, match="called from compiled functions, not from Python"):
        operation(*[None] * count)
