"""The linear space: w as it is, read and added to through the rows of the data.

A block's features are A_i = rows of the data times columns of w, and a tail that all blocks share:

    potentials   theta = A_i' w      row by row, `stride` numbers each, then the tail of w
    push         w += A_i s          row r in the columns of s[r], and the tail of s
    lift         A_i' A_i s          through the inner products of a block's rows, or through w

so that all that differs between structures is which rows a block has, and how many columns. Rows
are dense or CSR (`taut.compiled.rows`), and columns are padded to whole vector registers.
"""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper, inline_always, inlined
from taut.compiled.lanes import (
    add,
    aligned_zeros,
    load,
    multiply_add,
    prefetch,
    store,
    stride_of,
    width,
    zeros,
)
from taut.compiled.rows import (
    Rows,
    add_full_outer,
    add_row,
    as_rows,
    n_rows,
    prefetch_rows,
    row_dot,
    row_times,
    squared_norms,
)
from taut.data.arrays import as_matrix, ranges, take_rows, take_runs
from taut.errors import InvalidStructure
from taut.spaces.quadratic import Quadratic
from taut.spaces.scaling import act
from taut.spaces.touching import touch_rows


class SpaceFunctions(NamedTuple):
    """All that compiled code does with w. `space` is what these know of it and of the blocks.

    Statistics s of a block have a number for each of its potentials.
    """

    ask: Any  # (space, i): ask the processor for what block i's potentials are made of
    pull: Any  # (space, i, w, theta): theta = A_i' w
    push: Any  # (space, i, s, size, least, w): w += A_i s[:size], but for rows of at most `least`
    lift: Any  # (space, i, s, size, scratch, theta): theta = A_i' A_i s[:size] up to a number, and
    # a factor: from that number on it is the factor times s
    square: Any  # (space, i): the squared length of block i's row, where there is one
    n_own: Any  # (space, i, s): how many statistics are block i's own, and not those of the tail
    n_all: Any  # (space, i, s): how many there are
    touch: Any  # (space, i, action): act on all weights that block i reads or adds to


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


def _by_overlaps(space, i, s, size, scratch, theta):
    """Row by row of the block, where s is not zero; the tail is left as it is in s."""
    length, stride = space.places[i, 1] - space.places[i, 0], space.stride
    zero = zeros(theta, 1)
    for p in range(0, length * stride, width(zero)):
        store(zero, theta, p)
    for t in range(length):
        start = space.places[i, 2] + t * length
        for k in range(0, stride, width(zero)):
            if _any(s, t * stride + k, width(zero)):
                own = load(zero, s, t * stride + k)
                for u in range(length):
                    place = u * stride + k
                    overlap = theta.dtype.type(space.overlaps[start + u])
                    store(multiply_add(own, overlap, load(zero, theta, place)), theta, place)
    return length * stride, 1.0


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
def _functions_of(kind: type, lifts: bool, biased: bool) -> SpaceFunctions:
    """The functions of blocks of a kind, with inner products of their rows or without.

    What a kind does not have is left out when they are compiled: these names are constants there.
    """
    ONE_ROW, COLUMNS = kind in (OneRow, OneRowColumns), kind in (OneRowColumns, SomeRowsColumns)
    TAIL, BIAS = kind is SomeRowsColumns, biased

    def ask(space, i):
        if ONE_ROW:
            prefetch_rows(space.rows, i, i + 1)
            prefetch(space.overlaps, i)
        else:
            prefetch_rows(space.rows, space.places[i, 0], space.places[i, 1])

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

    def square(space, i):
        return space.overlaps[i] if ONE_ROW else 0.0

    def n_own(space, i, s):
        count = 1 if ONE_ROW else space.places[i, 1] - space.places[i, 0]
        return count * space.stride if COLUMNS else count

    def n_all(space, i, s):
        count = 1 if ONE_ROW else space.places[i, 1] - space.places[i, 0]
        own = count * space.stride if COLUMNS else count
        return own + space.tail if TAIL else own

    def touch(space, i, action):
        if ONE_ROW:
            first, last = i, i + 1
        else:
            first, last = space.places[i, 0], space.places[i, 1]
        stride, end = space.stride if COLUMNS else 1, action.v.shape[0]
        touch_rows(space.rows, first, last, stride, action)
        if BIAS:
            act(action, end - stride, end)
        if TAIL:
            act(action, end - space.tail, end)

    by_rows = _by_overlap if ONE_ROW else _by_overlaps
    lift = by_rows if lifts else through_weights(pull, push)
    return SpaceFunctions(ask, pull, push, lift, square, n_own, n_all, touch)


class OwnMap(NamedTuple):
    """How a structure reads w and adds to it by itself, see `taut.CompiledStructure`."""

    pull: Any
    push: Any


@functools.cache
def _own_functions(own: OwnMap, allocates: bool) -> SpaceFunctions:
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


class Features(ABC):
    """How the features of all blocks are made of labels' statistics, and what w looks like there.

    Attributes
    ----------
    n_features : int
        Number of weights.
    n_potentials : int
        Most numbers that the potentials of a block have.
    size : int
        Length of w with its padding.
    dtype : type
        Of w and of potentials while training; certificates are always of float64.
    reads : int
        How many numbers of w a visit reads, on average.
    lifts : bool
        Whether the inner products of a block's rows are known.
    """

    n_features: int
    n_potentials: int
    size: int
    dtype: type
    reads: int
    lifts: bool = False

    @abstractmethod
    def view(self, data: tuple) -> tuple:
        """What compiled code knows of the space and the blocks; `data` are those of the oracles."""

    @abstractmethod
    def functions(self, structure: Any) -> SpaceFunctions:
        """What compiled code does with w."""

    @abstractmethod
    def take(self, blocks: np.ndarray) -> Features:
        """The features of these blocks, which may be there several times."""

    def compacted(self, blocks: np.ndarray, offsets: np.ndarray | None = None) -> Features:
        """The features of these blocks, which hold nothing of others where that is possible.

        Block i has the rows from offsets[i] to offsets[i + 1]; row i where there are no offsets.
        """
        return self.take(blocks)

    def quadratic(self, prior: Any) -> Quadratic:
        """The regulariser of points."""
        return prior.quadratic(self.pad)

    def pad(self, w: np.ndarray) -> np.ndarray:
        """The weights in the form that compiled code sees."""
        padded = aligned_zeros(self.size, w.dtype)
        padded[: self.n_features] = w
        return padded

    def unpad(self, w: np.ndarray) -> np.ndarray:
        """The weights alone, as float64."""
        return w[: self.n_features].astype(np.float64)


class OwnFeatures(Features):
    """Features of a structure that reads and adds to w by functions of its own, `pull` and `push`.

    Parameters
    ----------
    n_features : int
        Number of weights.
    n_potentials : int
        Most numbers that the potentials of a block have.
    dtype : type, default=float64
        Of w and of potentials while training.
    reads : int, optional
        How many numbers of w a visit reads, on average; all of them by default.
    """

    def __init__(
        self,
        n_features: int,
        n_potentials: int,
        dtype: type = np.float64,
        reads: int | None = None,
    ) -> None:
        self.n_features = self.size = n_features
        self.reads = n_features if reads is None else reads
        self.n_potentials = n_potentials
        self.dtype = dtype

    def view(self, data):
        """The structure's data."""
        return data

    def take(self, blocks):
        """Which blocks they are, the structure's data know."""
        return self

    def functions(self, structure):
        """Those that the structure has."""
        if structure.own_map is None:
            raise InvalidStructure(
                f"{type(structure).__name__} has OwnFeatures and no pull or no push: write them as "
                "static methods, see taut.CompiledStructure, or give RowFeatures"
            )
        return _own_functions(structure.own_map, structure.allocates)


class RowFeatures(Features):
    """Features that are rows of the data in columns of w, and a tail of w that all blocks share.

    The potentials of a block are, for each of its rows, a number for each column, `stride` numbers
    apart from those of the next row, and then the tail of w.

    Parameters
    ----------
    X : array or CSR matrix
        All rows. They are checked, unless `rows` are given.
    rows : tuple of arrays, optional
        The same as of `taut.compiled.rows.as_rows`.
    columns : int, default=1
        Of w: a row has a weight in each for each of its features.
    bias : float, default=0.0
        Value of a constant feature appended to each row; 0 appends none. Not with a tail.
    places : ndarray of int64, shape (n_blocks, 2), optional
        The first row of each block and the end of its rows; row i is block i's by default.
    overlaps : ndarray, optional
        Inner products of all pairs of rows of each block, one after the other.
    tail : tuple of int, default=(0, 1)
        Rows and columns of the tail. With one column its potentials follow each other; with more,
        each row is padded to whole registers, as those of the data are.
    """

    def __init__(
        self,
        X: Any,
        rows: Rows | None = None,
        columns: int = 1,
        bias: float = 0.0,
        places: np.ndarray | None = None,
        overlaps: np.ndarray | None = None,
        tail: tuple[int, int] = (0, 1),
    ) -> None:
        if not (isinstance(tail, tuple) and len(tail) == 2):
            raise InvalidStructure(
                f"RowFeatures has tail = {tail!r}: give a pair, its rows and its columns; (n, 1) "
                "for n single weights"
            )
        many = columns > 1 or tail[0] > 0
        if bias != 0.0 and tail[0] > 0:
            raise InvalidStructure(
                f"RowFeatures has bias = {bias:g} and a tail of shape {tail}, each of which ends "
                "w: append a constant column to X instead of the bias"
            )
        if rows is None:
            X = as_matrix(X)
            rows = as_rows(X)
        norms = squared_norms(rows) + float(bias) ** 2
        if places is None and tail[0] > 0:
            # Blocks of one row as blocks of some: those alone have a tail.
            places = np.column_stack([np.arange(len(norms)), np.arange(1, len(norms) + 1)])
            overlaps = norms
        self.dtype = X.dtype.type
        self.columns = columns
        self.stride = stride_of(columns, self.dtype) if many else 1
        self.n_rows = X.shape[1] + (bias != 0.0)
        self.tail = tail
        self._tail_stride = stride_of(tail[1], self.dtype) if tail[1] > 1 else 1
        self.n_features = self.n_rows * columns + tail[0] * tail[1]
        self.bias = float(bias)
        self.size = self.n_rows * self.stride + stride_of(tail[0] * self._tail_stride, self.dtype)
        self._lay_out(rows, norms, places, overlaps)

    def _lay_out(
        self,
        rows: Rows,
        norms: np.ndarray,
        places: np.ndarray | None,
        overlaps: np.ndarray | None,
    ) -> None:
        """Have these rows, whose blocks are at these places, with these inner products."""
        self.rows = rows
        self.places = places
        #: |(x, bias)|^2 of each row.
        self.norms = norms
        self.lifts = overlaps is not None or places is None
        many, bias = self.columns > 1 or self.tail[0] > 0, self.bias
        if places is None:
            self.n_potentials = self.stride
            self.reads = self.stride * rows[0].size // max(n_rows(rows), 1)
            self._view: Any = OneRow(rows, bias, self.norms)
            if many:
                self._view = OneRowColumns(rows, bias, self.stride, self.norms)
            return
        lengths = places[:, 1] - places[:, 0]
        tail_size = self.size - self.n_rows * self.stride
        self.n_potentials = int(lengths.max()) * self.stride + tail_size
        self.reads = self.stride * rows[0].size // max(len(places), 1) + tail_size
        if many:
            starts = np.cumsum(lengths**2) - lengths**2
            self._view = SomeRowsColumns(
                rows, bias, self.stride, np.column_stack([places, starts]),
                np.empty(0) if overlaps is None else overlaps,
                self.n_rows * self.stride, tail_size,
            )  # fmt: skip
        else:
            self.lifts = False
            self._view = SomeRows(rows, bias, np.ascontiguousarray(places))

    def view(self, data):
        """Rows, and which of them are whose."""
        return self._view

    def summed_lengths(self, offsets: np.ndarray) -> np.ndarray:
        """The summed |(x, bias)| of the rows of each block."""
        return np.add.reduceat(np.sqrt(self.norms), offsets[:-1])

    def take(self, blocks):
        """The same rows with other places."""
        taken = copy.copy(self)
        taken.lifts = taken.lifts and self.places is not None
        if self.places is not None:
            taken.places = self.places[blocks]
            taken._view = self._view._replace(places=self._view.places[blocks])
            return taken
        taken.places = np.column_stack([blocks, blocks + 1])
        if self.columns == 1:
            taken._view = SomeRows(self.rows, self._view.bias, taken.places)
        else:
            taken._view = SomeRowsColumns(
                self.rows, self._view.bias, self.stride,
                np.column_stack([taken.places, blocks]), self._view.overlaps, self.size, 0,
            )  # fmt: skip
            taken.lifts = True
        return taken

    def compacted(self, blocks, offsets=None):
        """A copy of the rows of these blocks alone, and of what is known of them."""
        taken, places, overlaps = copy.copy(self), None, None
        which = blocks
        if self.places is not None:
            offsets = np.arange(len(self.norms) + 1) if offsets is None else offsets
            which, moved = take_runs(offsets, blocks)
            places = self.places[blocks] + (moved[:-1] - offsets[blocks])[:, None]
            if self.lifts:
                sizes = (places[:, 1] - places[:, 0]) ** 2
                overlaps = self._view.overlaps[ranges(self._view.places[blocks, 2], sizes)]
        taken._lay_out(take_rows(self.rows, which), self.norms[which], places, overlaps)
        return taken

    def functions(self, structure):
        """Those of all rows, whatever the structure."""
        kind: type = type(self._view)
        return _functions_of(kind, self.lifts, self._view.bias != 0.0)

    def _shares(self, w: np.ndarray, padded: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows and tail: the weights, and where they are among the padded ones."""
        end, padded_end = self.n_rows * self.columns, self.n_rows * self.stride
        tail = padded[padded_end : padded_end + self.tail[0] * self._tail_stride]
        return [
            (w[:end].reshape(-1, self.columns),
             padded[:padded_end].reshape(-1, self.stride)[:, : self.columns]),
            (w[end:].reshape(-1, self.tail[1]),
             tail.reshape(-1, self._tail_stride)[:, : self.tail[1]]),
        ]  # fmt: skip

    def pad(self, w: np.ndarray) -> np.ndarray:
        """Each row and each row of the tail padded to whole registers."""
        padded = aligned_zeros(self.size, w.dtype)
        for given, place in self._shares(w, padded):
            place[:] = given
        return padded

    def unpad(self, w: np.ndarray) -> np.ndarray:
        """The weights alone, as float64."""
        out = np.empty(self.n_features)
        for place, given in self._shares(out, w):
            place[:] = given
        return out
