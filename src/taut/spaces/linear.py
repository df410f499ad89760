"""The linear space: w as it is, read and added to through the rows of the data.

A block's features are A_i = rows of the data times columns of w, and a tail that all blocks share:

    potentials   theta = A_i' w      row by row, `stride` numbers each, then the tail of w
    push         w += A_i s          row r in the columns of s[r], and the tail of s
    lift         A_i' A_i s          through the inner products of a block's rows, or through w

so that all that differs between structures is which rows a block has, and how many columns. Rows
are dense or CSR (`taut.compiled.rows`), and columns are padded to whole vector registers.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper, inline_always, inlined
from taut.compiled.lanes import (
    add,
    load,
    multiply_add,
    prefetch,
    store,
    width,
    zeros,
)
from taut.compiled.rows import (
    Rows,
    add_full_outer,
    add_row,
    prefetch_rows,
    row_dot,
    row_times,
)
from taut.spaces.labels import Scatter
from taut.spaces.scaling import act, touch_rows


def _no_tail(space, s, size, w, scale):
    return Scatter(s, s, size, 0, scale)


def spill_tail(space, s, size, w, scale):
    """Statistics of the tail go straight to w."""
    return Scatter(s, w, size, space.tail_at - size, scale)


def _no_rise(space, i):
    return 1.0


class SpaceFunctions(NamedTuple):
    """All that compiled code does with w. `space` is what these know of it and of the blocks.

    Statistics s of a block have a number for each of its potentials.
    """

    ask: Any  # (space, i): ask the processor for what block i's potentials are made of
    pull: Any  # (space, i, w, theta): theta = A_i' w
    push: Any  # (space, i, s, size, least, w): w += A_i s[:size], but for rows of at most `least`
    # (space, i, s, size, scratch, theta) -> end, factor. Of A' A s, with s = s[:size] and A = A_i:
    # theta[:end] = (A' A s)[:end], and (A' A s)[end:] = factor * s[end:], which is not written
    lift: Any
    square: Any  # (space, i): the squared length of block i's row, where there is one
    n_own: Any  # (space, i, s): how many statistics are block i's own, and not those of the tail
    n_all: Any  # (space, i, s): how many there are
    touch: Any  # (space, i, action): act on all weights that block i reads or adds to
    spill: Any = _no_tail  # (space, s, size, w, scale): a walk that adds a block's own `size`
    # statistics to s, and those of the tail to w
    rise: Any = _no_rise  # (space, i): what a prior multiplies the curvature of an exact step by
    # (space, i, index, w): a potential of block i alone, where `pull` takes much longer; else None
    single: Any = None


class OneRow(NamedTuple):
    """Blocks of one row, with one column."""

    rows: Rows
    bias: float
    overlaps: np.ndarray  # |(x, bias)|^2


class OneRowColumns(NamedTuple):
    """Blocks of one row, with several columns."""

    rows: Rows
    bias: float
    stride: int
    overlaps: np.ndarray


class SomeRows(NamedTuple):
    """Blocks of some rows, with one column: block i's begin and end as places[i] says."""

    rows: Rows
    bias: float
    places: np.ndarray


class SomeRowsColumns(NamedTuple):
    """Blocks of some rows, with several columns, and a tail of w that begins at `tail_at`.

    `overlaps` has the inner products of each block's rows, from places[i, 2] on, or is empty.
    """

    rows: Rows
    bias: float
    stride: int
    places: np.ndarray
    overlaps: np.ndarray
    tail_at: int
    tail: int


class RowsAndTailRows(NamedTuple):
    """The same where block i sees the tail through rows of its own, of a second kind."""

    rows: Rows
    bias: float
    stride: int
    places: np.ndarray
    overlaps: np.ndarray
    tail_at: int
    tail: int
    tail_rows: Rows
    tail_stride: int
    tail_places: np.ndarray
    tail_overlaps: np.ndarray


@inlined
def _add_bias(source, source_at, scale, target, target_at, stride):
    """Add a row of numbers times a scale to another."""
    zero = zeros(target, 1)
    for k in range(0, stride, width(zero)):
        sums = multiply_add(
            load(zero, source, source_at + k), target.dtype.type(scale),
            load(zero, target, target_at + k),
        )  # fmt: skip
        store(sums, target, target_at + k)


@helper
def _any(s, first, count):
    found = False
    for p in range(first, first + count):
        found |= s[p] != 0.0
    return found


def _by_overlap(space, i, s, size, scratch, theta):
    """Blocks of one row: all statistics times its squared length."""
    return 0, space.overlaps[i]


@inlined
def _times_overlaps(places, overlaps, stride, i, s, theta, at):
    """Statistics from number `at` on times the inner products of block i's rows; their end."""
    length = places[i, 1] - places[i, 0]
    zero = zeros(theta, 1)
    for p in range(at, at + length * stride, width(zero)):
        store(zero, theta, p)
    for t in range(length):
        start = places[i, 2] + t * length
        for k in range(at, at + stride, width(zero)):
            if _any(s, t * stride + k, width(zero)):
                own = load(zero, s, t * stride + k)
                for u in range(length):
                    place = u * stride + k
                    overlap = theta.dtype.type(overlaps[start + u])
                    store(multiply_add(own, overlap, load(zero, theta, place)), theta, place)
    return at + length * stride


def _by_overlaps(space, i, s, size, scratch, theta):
    """Row by row of the block, where s is not zero; the tail is left as it is in s."""
    return _times_overlaps(space.places, space.overlaps, space.stride, i, s, theta, 0), 1.0


def _by_all_overlaps(space, i, s, size, scratch, theta):
    """The same for rows of both kinds."""
    end = _times_overlaps(space.places, space.overlaps, space.stride, i, s, theta, 0)
    places, overlaps, stride = space.tail_places, space.tail_overlaps, space.tail_stride
    return _times_overlaps(places, overlaps, stride, i, s, theta, end), 1.0


@inlined
def pull_tail_rows(space, i, w, theta, at):
    """What block i sees of the tail, from number `at` on; for other spaces as well."""
    tail = w[space.tail_at :]
    for r in range(space.tail_places[i, 0], space.tail_places[i, 1]):
        row_times(space.tail_rows, r, tail, space.tail_stride, theta, at)
        at += space.tail_stride


@inlined
def push_tail_rows(space, i, s, at, least, w):
    """Add statistics from number `at` on to the tail, but for those of at most `least`."""
    tail = w[space.tail_at :]
    for r in range(space.tail_places[i, 0], space.tail_places[i, 1]):
        add_full_outer(space.tail_rows, r, s, at, least, tail, space.tail_stride)
        at += space.tail_stride


def through_weights(pull: Any, push: Any, allocates: bool = False) -> Any:
    """A lift through a vector of weights, `scratch`, which is zero up to rounding in between."""
    own_pull, own_push = helper(pull, allocates), helper(push, allocates)

    def lift(space, i, s, size, scratch, theta):
        for side in range(2):  # one call, which is compiled into this once
            own_push(space, i, s, size, 0.0, scratch)
            if side == 0:
                own_pull(space, i, scratch, theta)
            for p in range(size):
                s[p] = -s[p]
        return size, 1.0

    return lift


@functools.cache
def functions_of(kind: type, lifts: bool, biased: bool) -> SpaceFunctions:
    """The functions of blocks of a kind, with inner products of their rows or without.

    What a kind does not have is left out when they are compiled: these names are constants there.
    """
    ONE_ROW, COLUMNS = kind in (OneRow, OneRowColumns), kind not in (OneRow, SomeRows)
    TAIL, TAIL_ROWS, BIAS = kind is SomeRowsColumns, kind is RowsAndTailRows, biased

    def ask(space, i):
        if ONE_ROW:
            prefetch_rows(space.rows, i, i + 1)
            prefetch(space.overlaps, i)
        else:
            prefetch_rows(space.rows, space.places[i, 0], space.places[i, 1])
        if TAIL_ROWS:
            prefetch_rows(space.tail_rows, space.tail_places[i, 0], space.tail_places[i, 1])

    @inline_always
    def pull(space, i, w, theta):
        if ONE_ROW:
            first, last = i, i + 1
        else:
            first, last = space.places[i, 0], space.places[i, 1]
        at = 0
        for r in range(first, last):
            if COLUMNS:
                row_times(space.rows, r, w, space.stride, theta, at)
                if BIAS:
                    end = w.shape[0] - space.stride
                    _add_bias(w, end, space.bias, theta, at, space.stride)
                at += space.stride
            else:
                score = row_dot(space.rows, r, w)
                if BIAS:
                    score += space.bias * w[w.shape[0] - 1]
                theta[at] = score
                at += 1
        if TAIL:
            # By registers: Numba takes an index that is a sum for one that may be negative.
            zero = zeros(w, 1)
            for p in range(0, space.tail, width(zero)):
                store(load(zero, w, space.tail_at + p), theta, at + p)
        if TAIL_ROWS:
            pull_tail_rows(space, i, w, theta, at)

    @inline_always
    def push(space, i, s, size, least, w):
        if ONE_ROW:
            first, last = i, i + 1
        else:
            first, last = space.places[i, 0], space.places[i, 1]
        least = w.dtype.type(least)
        at = 0
        for r in range(first, last):
            if COLUMNS:
                add_full_outer(space.rows, r, s, at, least, w, space.stride)
                if BIAS:
                    end = w.shape[0] - space.stride
                    _add_bias(s, at, space.bias, w, end, space.stride)
                at += space.stride
            else:
                if abs(s[at]) > least:
                    add_row(space.rows, r, s[at], w)
                    if BIAS:
                        w[w.shape[0] - 1] += s[at] * space.bias
                at += 1
        if TAIL:
            zero = zeros(w, 1)
            for p in range(0, size - at, width(zero)):
                place = space.tail_at + p
                store(add(load(zero, w, place), load(zero, s, at + p)), w, place)
        if TAIL_ROWS:
            push_tail_rows(space, i, s, at, least, w)

    def square(space, i):
        return space.overlaps[i] if ONE_ROW else 0.0

    def n_own(space, i, s):
        count = 1 if ONE_ROW else space.places[i, 1] - space.places[i, 0]
        own = count * space.stride if COLUMNS else count
        if TAIL_ROWS:
            own += (space.tail_places[i, 1] - space.tail_places[i, 0]) * space.tail_stride
        return own

    def n_with_tail(space, i, s):
        return (space.places[i, 1] - space.places[i, 0]) * space.stride + space.tail

    def touch(space, i, action):
        if ONE_ROW:
            first, last = i, i + 1
        else:
            first, last = space.places[i, 0], space.places[i, 1]
        stride, end = space.stride if COLUMNS else 1, action.v.shape[0]
        touch_rows(space.rows, first, last, stride, action)
        if BIAS:
            act(action, end - stride, end)
        if TAIL or TAIL_ROWS:
            act(action, end - space.tail, end)

    by_rows = _by_overlap if ONE_ROW else _by_all_overlaps if TAIL_ROWS else _by_overlaps
    lift = by_rows if lifts else through_weights(pull, push)
    n_all = n_with_tail if TAIL else n_own
    spill = spill_tail if TAIL else _no_tail
    return SpaceFunctions(ask, pull, push, lift, square, n_own, n_all, touch, spill)


class OwnMap(NamedTuple):
    """How a structure reads w and adds to it by itself, see `taut.CompiledStructure`."""

    pull: Any
    push: Any


@functools.cache
def own_functions(own: OwnMap, allocates: bool) -> SpaceFunctions:
    """What compiled code does by them; the data of the structure are the space."""
    pull, own_push = own.pull, helper(own.push, allocates)

    def ask(space, i):
        pass

    def push_all(space, i, s, size, least, w):
        own_push(space, i, s, w)

    def square(space, i):
        return 0.0

    def n_all(space, i, s):
        return s.shape[0]

    def touch(space, i, action):
        act(action, 0, action.v.shape[0])

    return SpaceFunctions(
        ask, pull, push_all, through_weights(pull, push_all, allocates), square, n_all, n_all, touch
    )
