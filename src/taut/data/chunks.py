"""Some blocks of a source, as plain arrays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from taut.data.arrays import Checked, Matrix, offsets_of, take_rows, take_runs
from taut.data.memory import size_of
from taut.errors import InvalidData
from taut.storage.digest import Digest
from taut.storage.stored import Stored, check, check_size, require

Place = tuple[int, int, str]

_POINTERS = ("indptr", "offsets")
_COLUMNS = ("X", "data", "indices", *_POINTERS, "y", "sample_weight", "margin")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Some consecutive blocks of a source.

    Parameters
    ----------
    number : int
        Of the chunk in its source; -1 if it is made of several.
    first : int
        Number of its first block in the source; -1 if its blocks are not consecutive.
    X : ndarray, CSR or list
        One row per block, or the stacked rows of ragged blocks: C-contiguous, or CSR with int32
        ``indices`` and int64 ``indptr``. Or a list of examples of any kind.
    offsets : ndarray of int64, shape (n_blocks + 1,), optional
        Where the rows of each ragged block begin.
    y : ndarray or list, optional
        Targets of blocks, or of the rows of ragged blocks: float64, int64, int32 class codes or
        labels; a list for a list of examples. `Source.codes` numbers them by class.
    sample_weight, margin : ndarray of float64, shape (n_blocks,), optional

    Examples
    --------
    >>> chunk = Chunk(0, 0, np.array([[1.0], [2.0], [3.0]]), y=np.array([4, 5, 6]))
    >>> chunk.take([2, 0]).y
    array([6, 4])
    """

    number: int
    first: int
    X: Matrix | list[Any]
    offsets: np.ndarray | None = None
    y: np.ndarray | list[Any] | None = None
    sample_weight: np.ndarray | None = None
    margin: np.ndarray | None = None

    @property
    def n_blocks(self) -> int:
        """How many blocks it holds."""
        return self._n_rows if self.offsets is None else len(self.offsets) - 1

    @property
    def _n_rows(self) -> int:
        return len(self.X) if isinstance(self.X, list) else self.X.shape[0]

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays; for objects of Python an estimate."""
        lists = [value for value in (self.X, self.y) if isinstance(value, list)]
        return sum(map(size_of, [*lists, *self.columns().values()]))

    @property
    def examples(self) -> Any:
        """What structures take: checked rows, checked rows with offsets, or the list."""
        if isinstance(self.X, list):
            return self.X
        matrix = Checked(self.X)
        return matrix if self.offsets is None else (matrix, self.offsets)

    def digest(self) -> bytes:
        """A digest of its content, if all of it can be read."""
        return self.add_to(Digest()).strict()

    def add_to(self, digest: Digest) -> Digest:
        """Let the content enter a digest, which is returned; numbers of blocks do not matter."""
        for value in (self.X, self.offsets, self.y, self.sample_weight, self.margin):
            digest.add(value)
        return digest

    def columns(self) -> dict[str, np.ndarray]:
        """The arrays it consists of, in a fixed order, by the names that shards give them."""
        X: Any = self.X
        found: dict[str, Any] = {"X": X}
        if sp.issparse(X):
            found = {"data": X.data, "indices": X.indices, "indptr": X.indptr}
        for name in ("offsets", "y", "sample_weight", "margin"):
            found[name] = getattr(self, name)
        return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}

    def take(self, blocks: ArrayLike, copies: Mapping[Place, np.ndarray] | None = None) -> Chunk:
        """Copy some blocks.

        Parameters
        ----------
        blocks : array-like of int
            Positions within the chunk, in any order.
        copies : dict of arrays, optional
            Copies that are there already, by `place_of` of what was copied: they are shared.

        Returns
        -------
        Chunk
            With arrays of its own and ``first`` -1.
        """
        which, copies = np.asarray(blocks, dtype=np.int64), copies or {}
        rows, offsets = which, None
        if self.offsets is not None:
            rows, offsets = take_runs(self.offsets, which)
            offsets = copies.get(place_of(self.offsets), offsets)
        X: Any = self.X
        if isinstance(X, list):
            X = _pick(X, rows)
        else:
            own = (X.data, X.indices, X.indptr) if sp.issparse(X) else (X,)
            known = [copies[place] for place in map(place_of, own) if place in copies]
            first, *others = known if len(known) == len(own) else take_rows(own, rows)
            X = as_csr(first, others[0], others[1], X.shape[1]) if others else first
        y: Any = self.y
        if isinstance(y, np.ndarray) and place_of(y) in copies:
            y = copies[place_of(y)]
        elif y is not None:
            y = _pick(y, rows if len(y) == self._n_rows else which)
        return Chunk(self.number, -1, X, offsets, y, *self._by_block(which))

    def between(self, start: int, stop: int) -> Chunk:
        """Consecutive blocks, on the same memory where that is possible."""
        rows = blocks = slice(start, stop)
        offsets = None
        if self.offsets is not None:
            rows = slice(int(self.offsets[start]), int(self.offsets[stop]))
            offsets = self.offsets[start : stop + 1] - self.offsets[start]
        X: Any = self.X
        if sp.issparse(X):
            indptr = X.indptr[rows.start : rows.stop + 1]
            values = slice(indptr[0], indptr[-1])
            X = as_csr(X.data[values], X.indices[values], indptr - indptr[0], X.shape[1])
        else:
            X = X[rows]
        y = self.y
        if y is not None:
            y = y[rows] if len(y) == self._n_rows else y[blocks]
        first = -1 if self.first < 0 else self.first + start
        return Chunk(self.number, first, X, offsets, y, *self._by_block(blocks))

    def _by_block(self, blocks: np.ndarray | slice) -> list[np.ndarray | None]:
        """The weights and the margins of some blocks."""
        values = self.sample_weight, self.margin
        return [None if each is None else each[blocks] for each in values]

    def ends(self) -> np.ndarray:
        """Bytes up to the end of each block, beginning with 0."""
        X: Any = self.X
        if isinstance(X, list):
            return offsets_of([size_of(x) for x in X])
        if sp.issparse(X):
            width = X.data.itemsize + X.indices.itemsize
            bytes_of_rows = X.indptr * width + np.arange(self._n_rows + 1) * X.indptr.itemsize
        else:
            bytes_of_rows = np.arange(self._n_rows + 1) * (X.shape[1] * X.itemsize)
        if self.offsets is not None:
            bytes_of_rows = bytes_of_rows[self.offsets]
        # Labels are counted as numbers: where chunks end must not depend on their type.
        rest = sum(
            8 * len(values)
            for values in (self.y, self.sample_weight, self.margin)
            if values is not None
        )
        return bytes_of_rows + np.arange(self.n_blocks + 1) * (rest // self.n_blocks)


def concatenate(chunks: Sequence[Chunk]) -> Chunk:
    """Stack chunks of one source and kind, at least one, into arrays of its own.

    Examples
    --------
    >>> a = Chunk(0, 0, np.array([[1.0], [2.0]]))
    >>> b = Chunk(1, 2, np.array([[3.0]]))
    >>> concatenate([a, b])
    Chunk(number=-1, first=0, X=array([[1.], [2.], [3.]]), ...)
    """
    parts = [chunk.columns() for chunk in chunks]
    if len({(tuple(part), isinstance(c.X, list)) for part, c in zip(parts, chunks)}) != 1:
        raise InvalidData(
            "chunks to concatenate must be at least one, and alike in kind, targets and weights; "
            "pass chunks of one source"
        )
    head = chunks[0]
    number = head.number if all(chunk.number == head.number for chunk in chunks) else -1
    runs_on = all(a.first + a.n_blocks == b.first >= 0 for a, b in pairwise(chunks))
    first = head.first if runs_on else -1
    shapes: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
    for name, array in parts[0].items():
        arrays = [part[name] for part in parts]
        length = sum(map(len, arrays)) - (len(arrays) - 1) * (name in _POINTERS)
        shapes[name] = (length, *array.shape[1:]), np.result_type(*{a.dtype for a in arrays})
    columns = stack(chunks, shapes)
    lists: dict[str, Any] = {
        name: [value for chunk in chunks for value in getattr(chunk, name)]
        for name in ("X", "y")
        if isinstance(getattr(head, name), list)
    }
    if isinstance(head.X, list):
        return Chunk(number, first, **lists, **columns)
    return replace(from_columns(columns, number, first, head.X.shape[1]), **lists)


def stack(
    chunks: Iterable[Chunk], shapes: dict[str, tuple[tuple[int, ...], np.dtype]]
) -> dict[str, np.ndarray]:
    """Stack the columns of chunks that come one by one into arrays of known shapes."""
    stacked = {name: np.empty(shape, dtype) for name, (shape, dtype) in shapes.items()}
    ends = dict.fromkeys(shapes, 0)
    for name in shapes.keys() & set(_POINTERS):
        stacked[name][0] = 0
        ends[name] = 1
    for chunk in chunks:
        for name, array in chunk.columns().items():
            start = ends[name]
            if name in _POINTERS:
                array = array[1:] + stacked[name][start - 1]
            ends[name] = start + len(array)
            stacked[name][start : ends[name]] = array
    return stacked


def from_columns(columns: dict[str, np.ndarray], number: int, first: int, n_features: int) -> Chunk:
    """The chunk whose `Chunk.columns` these are."""
    rest = dict(columns)
    if "X" in rest:
        X = rest.pop("X")
    else:
        X = as_csr(rest.pop("data"), rest.pop("indices"), rest.pop("indptr"), n_features)
    return Chunk(number, first, X, **rest)


def check_columns(columns: dict[str, np.ndarray], n_features: int) -> None:
    """Refuse arrays from a file that are not what `Chunk.columns` gives.

    Compiled code reads them without bounds checks: shapes agree, values are finite and in range.
    """
    for name, array in columns.items():
        require(array.ndim == 1 + (name == "X"), f"{name} has shape {array.shape}")
        require(name in _COLUMNS, f"{name!r:.50} is no column")
        if array.dtype.kind == "f":
            check_size(name, array)
    if "X" in columns:
        check(columns, {"X": Stored("f4 f8", (None, n_features))})
        rows = len(columns["X"])
    else:
        data, indptr = columns["data"], columns["indptr"]
        check(
            columns,
            {
                "data": Stored("f4 f8", (None,)),
                "indices": Stored("i4", data.shape, 0, n_features - 1),
                "indptr": Stored("i8", (None,), 0),
            },
        )
        _check_pointers("indptr", indptr, len(data), 0)
        rows = len(indptr) - 1
        # Columns rise within each row, as canonical CSR has it.
        rises = np.diff(columns["indices"]) > 0
        starts = indptr[1:-1]
        rises[starts[(starts > 0) & (starts < len(data))] - 1] = True
        require(rises, "indices do not rise within their rows")
    n = rows
    if "offsets" in columns:
        check(columns, {"offsets": Stored("i8", (None,), 0)})
        _check_pointers("offsets", columns["offsets"], rows, 1)
        n = len(columns["offsets"]) - 1
    if "y" in columns:
        require(len(columns["y"]) in (n, rows), f"y has {len(columns['y'])} targets")
    for name, low in (("sample_weight", 0.0), ("margin", -math.inf)):
        if name in columns:
            check(columns, {name: Stored("f8", (n,), low)})


def _check_pointers(name: str, pointers: np.ndarray, end: int, step: int) -> None:
    """Refuse pointers that do not rise, by `step` at least, from 0 to `end`."""
    whole = len(pointers) > 1 and pointers[0] == 0 and pointers[-1] == end
    require(whole, f"{name} does not run from 0 to {end}")
    require(np.diff(pointers) >= step, f"{name} does not rise")


def as_csr(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, n_features: int
) -> sp.csr_array:
    """CSR on these arrays as they are."""
    # Through its constructor scipy would copy them, to give both kinds of indices one type.
    X = sp.csr_array((len(indptr) - 1, n_features), dtype=data.dtype)
    X.data, X.indices, X.indptr = data, indices, indptr
    X.has_canonical_format = True
    return X


def _pick(values: Any, places: np.ndarray) -> Any:
    return [values[i] for i in places] if isinstance(values, list) else values[places]


def place_of(array: np.ndarray) -> tuple[int, int, str]:
    """Where its items are, how many bytes they take, and their type."""
    return array.ctypes.data, array.nbytes, array.dtype.str
