"""How features of blocks are made: rows in columns of w and a tail, or by a structure itself."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp

from taut.compiled.lanes import aligned_zeros, stride_of
from taut.compiled.rows import Rows, as_rows, inner_products, n_rows, squared_norms
from taut.data.arrays import as_matrix, offsets_of, ranges, take_rows, take_runs
from taut.errors import InvalidStructure
from taut.spaces.linear import (
    OneRow,
    OneRowColumns,
    RowsAndTailRows,
    SomeRows,
    SomeRowsColumns,
    SpaceFunctions,
    functions_of,
    own_functions,
)
from taut.spaces.quadratic import Quadratic

_WORTHWHILE = 4  # numbers for each of the data that inner products of rows may take


def worth_overlaps(size: int, *places: np.ndarray) -> bool:
    """Whether data of this size are not much smaller than all products of a block's rows."""
    count = sum(((ends[:, 1] - ends[:, 0]) ** 2).sum() for ends in places)
    return bool(count <= _WORTHWHILE * size)


def counted(places: np.ndarray) -> np.ndarray:
    """Places, and where the inner products of each block's rows begin."""
    sizes = (places[:, 1] - places[:, 0]) ** 2
    return np.column_stack([places, np.cumsum(sizes) - sizes])


class Features(ABC):
    """How features of all blocks are made of labels' statistics, and what w looks like there."""

    n_features: int  # number of weights
    n_potentials: int  # most numbers that the potentials of a block have
    size: int  # of w with its padding
    dtype: type  # of w and of potentials while training; certificates are always of float64
    reads: int  # how many numbers of w a visit reads, on average
    lifts: bool = False  # whether the inner products of a block's rows are known
    comes_as: str = "whole"  # see `taut.Problem`

    # Of features that are made of rows alone, which structures of rows go by:
    norms: np.ndarray  # the squared length of each row's features, that of a bias with it
    stride: int  # potentials from the first of a row to the first of the next
    tail_stride: int  # the same of rows of the second kind, where there are any
    #: From where the rows of blocks begin and end, the summed lengths of those of each block.
    summed_lengths: Callable[[np.ndarray], np.ndarray]

    def __copy__(self) -> Self:
        # Of everything: `__getstate__` says what digests are made of.
        other = object.__new__(type(self))
        other.__dict__.update(vars(self))
        return other

    #: On what a certificate depends that was not tested, in words that follow "the objective".
    condition: str = ""

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

    def is_point(self, w: np.ndarray) -> bool:
        """Whether a vector of this size has nothing beside what its coordinates say."""
        return bool((self.pad(self.unpad(w)) == w).all())

    def inexactness(self, w: np.ndarray, weight: np.ndarray) -> float:
        """How far the objective at w may be off because products of rows are, beside rounding."""
        return 0.0

    def settle(self, w: np.ndarray) -> None:
        """Compute afresh what a point has besides its coordinates, before bounds are read off."""

    def local(self, part: Features, w: np.ndarray) -> np.ndarray:
        """A point as the features of some blocks see it, `compacted` from these."""
        return w.copy()

    def absorb(self, part: Features, U: np.ndarray, w: np.ndarray) -> None:
        """Add to a point what dual variables of some blocks sum up to."""
        w += U

    def assign(self, w: np.ndarray, given: np.ndarray) -> None:
        """Let a point that is 0 be the one of these weights, as precisely as passes work."""
        w[:] = self.pad(given)

    #: Values of a kernel that were computed: one for each pair of rows, each time.
    evaluations: int = 0

    def n_support(self, w: np.ndarray) -> int:
        """How many rows have coefficients; 0 where points have none."""
        return 0

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
        return own_functions(structure.own_map, structure.allocates)


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
        Inner products of all pairs of rows of each block, one after the other, see
        `taut.compiled.rows.inner_products`.
    tail : tuple of int, default=(0, 1)
        Rows and columns of the tail. With one column its potentials follow each other; with more,
        each row is padded to whole registers, as those of the data are.
    tail_rows : tuple of ndarrays, optional
        Rows of a second kind, with a feature for each row of the tail, and the first and the end of
        those of each block, as `places`. Blocks see the tail through them: for each a number for
        each column, `tail_stride` apart, in place of the tail itself.
    order : {"C", "F"}, default="C"
        Of the weights of rows where they are not padded: feature by feature, or column by column.
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
        tail_rows: tuple[np.ndarray, np.ndarray] | None = None,
        order: Literal["C", "F"] = "C",
    ) -> None:
        if not (isinstance(tail, tuple) and len(tail) == 2):
            raise InvalidStructure(
                f"RowFeatures has tail = {tail!r}: give a pair, its rows and its columns; (n, 1) "
                "for n single weights"
            )
        if tail_rows is not None and tail_rows[0].shape[1] != tail[0]:
            raise InvalidStructure(
                f"RowFeatures has tail_rows of {tail_rows[0].shape[1]} features and a tail of "
                f"shape {tail}: give them a feature for each row of the tail"
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
        self.sparse = sp.issparse(X)  # as given, however the rows are stored
        self.columns = columns
        self.stride = stride_of(columns, self.dtype) if many else 1
        self.n_rows = X.shape[1] + (bias != 0.0)
        self.tail = tail
        padded = tail[1] > 1 or tail_rows is not None
        self.tail_stride = stride_of(tail[1], self.dtype) if padded else 1
        self._order = order
        self.n_features = self.n_rows * columns + tail[0] * tail[1]
        self.bias = float(bias)
        self.size = self.n_rows * self.stride + stride_of(tail[0] * self.tail_stride, self.dtype)
        more: tuple[Rows, np.ndarray] | None = None
        if tail_rows is not None:
            more = as_rows(np.ascontiguousarray(tail_rows[0])), tail_rows[1]
        self._lay_out(rows, norms, places, overlaps, more)

    def __getstate__(self) -> dict[str, Any]:
        # The same rows are the same features, in whichever form they came.
        return {name: value for name, value in vars(self).items() if name != "sparse"}

    def _lay_out(
        self,
        rows: Rows,
        norms: np.ndarray,
        places: np.ndarray | None,
        overlaps: np.ndarray | None,
        tail_rows: tuple[Rows, np.ndarray] | None,
    ) -> None:
        """Have these rows, whose blocks are at these places, with these inner products."""
        self.rows = rows
        self.places = places
        self.tail_rows = tail_rows
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
        common = (
            rows, bias, self.stride, counted(places),
            np.empty(0) if overlaps is None else overlaps, self.n_rows * self.stride, tail_size,
        )  # fmt: skip
        if tail_rows is not None:
            more, ends = tail_rows
            sizes = lengths * self.stride + (ends[:, 1] - ends[:, 0]) * self.tail_stride
            self.n_potentials = int(sizes.max())
            self._view = RowsAndTailRows(
                *common, more, self.tail_stride, counted(ends),
                inner_products(more, ends) if self.lifts else np.empty(0),
            )  # fmt: skip
        elif many:
            self._view = SomeRowsColumns(*common)
        else:
            self.lifts = False
            self._view = SomeRows(rows, bias, np.ascontiguousarray(places))

    def view(self, data):
        """Rows, and which of them are whose."""
        return self._view

    def summed_lengths(self, offsets: np.ndarray) -> np.ndarray:
        """The summed |(x, bias)| of the rows of each block, and those of its rows of the tail."""
        total = np.add.reduceat(np.sqrt(self.norms), offsets[:-1])
        if self.tail_rows is not None:
            rows, places = self.tail_rows
            sums = np.append(0.0, np.cumsum(np.sqrt(squared_norms(rows))))
            total += sums[places[:, 1]] - sums[places[:, 0]]
        return total

    def take(self, blocks):
        """The same rows with other places."""
        taken = copy.copy(self)
        taken.lifts = taken.lifts and self.places is not None
        if self.places is not None:
            taken.places = self.places[blocks]
            moved = {"places": self._view.places[blocks]}
            if self.tail_rows is not None:
                moved["tail_places"] = self._view.tail_places[blocks]
                taken.tail_rows = self.tail_rows[0], self.tail_rows[1][blocks]
            taken._view = self._view._replace(**moved)
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
        taken, places, overlaps, tail_rows = copy.copy(self), None, None, None
        which = blocks
        if self.places is not None:
            offsets = np.arange(len(self.norms) + 1) if offsets is None else offsets
            which, moved = take_runs(offsets, blocks)
            places = self.places[blocks] + (moved[:-1] - offsets[blocks])[:, None]
            if self.lifts:
                sizes = (places[:, 1] - places[:, 0]) ** 2
                overlaps = self._view.overlaps[ranges(self._view.places[blocks, 2], sizes)]
        if self.tail_rows is not None:
            starts, ends = self.tail_rows[1][blocks].T
            bounds = offsets_of(ends - starts)
            more = take_rows(self.tail_rows[0], ranges(starts, ends - starts))
            tail_rows = more, np.column_stack([bounds[:-1], bounds[1:]])
        taken._lay_out(take_rows(self.rows, which), self.norms[which], places, overlaps, tail_rows)
        return taken

    def functions(self, structure):
        """Those of all rows, whatever the structure."""
        kind: type = type(self._view)
        return functions_of(kind, self.lifts, self._view.bias != 0.0)

    def _shares(self, w: np.ndarray, padded: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows and tail: the weights, and where they are among the padded ones."""
        end, padded_end = self.n_rows * self.columns, self.n_rows * self.stride
        return [
            (w[:end].reshape((-1, self.columns), order=self._order),
             padded[:padded_end].reshape(-1, self.stride)[:, : self.columns]),
            self.tail_shares(w[end:], padded[padded_end:]),
        ]  # fmt: skip

    def tail_shares(self, w: np.ndarray, padded: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tail alone: the weights, and where they are among the padded ones."""
        tail = padded[: self.tail[0] * self.tail_stride].reshape(-1, self.tail_stride)
        return w.reshape(-1, self.tail[1]), tail[:, : self.tail[1]]

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
