"""Vector registers: operations on lanes are numpy's on as many numbers, and touch no others."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from taut.compiled.jit import kernel
from taut.compiled.lanes import (
    REGISTER,
    add,
    aligned_zeros,
    divide,
    exponential,
    lanes_of,
    load,
    maximum,
    multiply,
    multiply_add,
    prefetch,
    shift,
    store,
    stride_of,
    total,
    width,
    zeros,
)

TYPES = [np.float32, np.float64]
REGISTERS = [1, 2, 3, 4]
N_RESULTS = 10


@functools.cache
def operations(registers):
    """A kernel that writes the result of each operation into `out`, one after the other."""

    @kernel
    def operate(a, i, b, j, number, out, k):
        zero = zeros(a, registers)
        x = load(zero, a, i)
        y = load(zero, b, j)
        size = width(zero)
        prefetch(a, i)
        store(zero, out, k)
        store(x, out, k + size)
        store(add(x, y), out, k + 2 * size)
        store(shift(x, number), out, k + 3 * size)
        store(multiply_add(x, number, y), out, k + 4 * size)
        store(maximum(x, y), out, k + 5 * size)
        store(multiply(x, y), out, k + 6 * size)
        store(divide(x, y), out, k + 7 * size)
        store(exponential(x), out, k + 8 * size)
        store(shift(zero, total(x)), out, k + 9 * size)
        return size

    return operate


@pytest.fixture(params=TYPES)
def dtype(request):
    return request.param


@pytest.fixture(params=REGISTERS)
def size(request, dtype):
    """How many lanes some registers have."""
    return request.param * lanes_of(dtype)


def run(a, i, b, j, number, size, k=0):
    """The results, one in each row, and what lies before and after them."""
    out = np.full(k + N_RESULTS * size + 9, 77, dtype=a.dtype)
    operate = operations(size // lanes_of(a.dtype))
    assert operate(a, i, b, j, a.dtype.type(number), out, k) == size
    results = out[k : k + N_RESULTS * size].reshape(N_RESULTS, size)
    return results, np.delete(out, np.s_[k : k + N_RESULTS * size])


@pytest.mark.parametrize("start", range(10))
def test_operations_are_those_of_numpy(dtype, size, start, rng):
    """From any start: numbers need not begin at a register, nor at a cache line."""
    a, b = (rng.normal(size=size + 20).astype(dtype) for _ in range(2))
    before = a.copy(), b.copy()
    i, j, k, number = start, (3 * start) % 11, (7 * start) % 13, rng.normal()
    results, outside = run(a, i, b, j, number, size, k)
    x, y, number = a[i : i + size], b[j : j + size], dtype(number)
    assert_array_equal(results[0], 0.0)
    assert_array_equal(results[1], x)
    assert_array_equal(results[2], x + y)
    assert_array_equal(results[3], x + number)
    # The product may be rounded before the sum, or not.
    assert_allclose(results[4], x * number + y, rtol=0.0, atol=8.0 * np.finfo(dtype).eps)
    assert_array_equal(results[5], np.maximum(x, y))
    assert_array_equal(results[6], x * y)
    assert_allclose(results[7], x / y, rtol=4.0 * np.finfo(dtype).eps)
    assert_allclose(results[8], np.exp(x), rtol=4.0 * np.finfo(dtype).eps)
    assert_allclose(results[9], x.sum(dtype=np.float64), rtol=0.0, atol=50 * np.finfo(dtype).eps)
    assert_array_equal(outside, 77)
    assert_array_equal(a, before[0])
    assert_array_equal(b, before[1])


def test_maximum_of_equal_numbers_and_infinities(dtype, size):
    a = np.resize(np.array([0.0, -1.0, 5.0, -np.inf], dtype=dtype), size)
    b = np.resize(np.array([0.0, -2.0, 5.0, 1.0], dtype=dtype), size)
    assert_array_equal(run(a, 0, b, 0, 0.0, size)[0][5], np.maximum(a, b))


def test_exponentials_of_all_magnitudes(dtype, size):
    least = np.log(np.finfo(dtype).tiny)
    for first in np.linspace(2.0 * least, -least / 2.0, 400):
        a = np.linspace(first, first + 1.0, size).astype(dtype)
        with np.errstate(under="ignore"):
            expected = np.exp(a)
        # Where the result is no normal number any more, it is 0.
        expected[expected < 2.0 * np.finfo(dtype).tiny] = 0.0
        found = run(a, 0, np.ones_like(a), 0, 0.0, size)[0][8]
        assert_allclose(
            found, expected, rtol=4 * np.finfo(dtype).eps, atol=4 * np.finfo(dtype).tiny
        )


def test_exponentials_of_what_is_far_below_are_zero(dtype, size):
    a = np.resize(np.array([-1e3, -1e10, -1e30], dtype=dtype), size)
    assert_array_equal(run(a, 0, np.ones_like(a), 0, 0.0, size)[0][8], 0.0)


def test_one_register_has_as_many_lanes_as_fit(dtype):
    assert lanes_of(dtype) * np.dtype(dtype).itemsize == REGISTER


def test_strides_are_whole_registers(dtype):
    unit = lanes_of(dtype)
    for count in range(1, 300):
        stride = stride_of(count, dtype)
        assert stride % unit == 0
        assert count <= stride < count + unit


@pytest.mark.parametrize("kind", [np.int32, np.int64, *TYPES])
def test_aligned_zeros_have_cache_lines_of_their_own(kind):
    """Of many made one after the other, as those of threads are."""
    line = 64
    arrays = [aligned_zeros(size, kind) for size in [1, 2, 3, 7, 8, 9, 31, 64, 100] * 20]
    lines = []
    for array in arrays:
        first = array.ctypes.data
        assert first % line == 0
        assert array.dtype == kind
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert not array.any()
        lines.extend(range(first // line, (first + array.nbytes - 1) // line + 1))
    assert len(set(lines)) == len(lines)


def test_aligned_zeros_may_be_none():
    assert aligned_zeros(0, np.float64).shape == (0,)
