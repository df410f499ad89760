"""Arrays of numpy, and sparse matrices as scipy saves them; nothing is ever unpickled."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from taut.data.arrays import as_matrix, as_offsets
from taut.errors import InvalidData
from taut.readers.base import Format, Part
from taut.readers.files import DataFile

_NUMBERS = "fiub"
_LABELS = "fiubU"
_SLAB = 1 << 24  # bytes to read at once
_MOST_DEFLATED = 1100  # times that deflate makes zeros shorter, at most
_CSR = ("data", "indices", "indptr")
_QUERIES = ("queries", "groups", "qid")


@dataclass(frozen=True, kw_only=True)
class Npy(Format):
    """One array of rows.

    Parameters
    ----------
    target : int, optional
        The column that is y; negative ones count from the last.
    """

    name = "npy"
    suffixes = (".npy",)

    target: int | None = None

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """By the first bytes."""
        return head.startswith(b"\x93NUMPY")

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Some rows at a time."""
        with file.reading(), file.open() as opened:
            array = _Array(file, opened, "the array")
            for rows in array.row_blocks(size):
                yield self._part(file, rows)

    def _part(self, file: DataFile, rows: np.ndarray) -> Part:
        if self.target is None:
            return Part(as_matrix(rows))
        width = rows.shape[1]
        given: Any = self.target
        if not isinstance(given, int | np.integer) or not -width <= given < width:
            raise InvalidData(f"target = {given!r}, and {file.name} has {width} columns, from 0 on")
        return Part(as_matrix(np.delete(rows, given, axis=1)), np.ascontiguousarray(rows[:, given]))


@dataclass(frozen=True, kw_only=True)
class Npz(Format):
    """Arrays X and y; or data, indices, indptr and shape of CSR, as scipy's save_npz writes them.

    Beside them there may be sample_weight, queries and lengths.
    """

    name = "npz"
    suffixes = (".npz",)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """By the first bytes."""
        return head.startswith(b"PK\x03\x04")

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Some rows at a time; what belongs to rows is read first, as a whole."""
        with ExitStack() as stack, file.reading():
            archive = stack.enter_context(
                zipfile.ZipFile(stack.enter_context(file.open_seekable()))
            )
            members = _Members(file, archive, stack)
            known = {"X", "y", "sample_weight", "lengths", "shape", "format", *_CSR, *_QUERIES}
            others = sorted(name for name in members.names - known if not name.startswith("_"))
            if others:
                raise file.fault(
                    f"holds the array {others[0]!r}, which nothing is known of: save X and y, or "
                    "CSR by scipy.sparse.save_npz"
                )
            rest = members.rest()
            start = 0
            for X in members.rows(size, rest.lengths):
                stop = start + X.shape[0]
                yield rest.between(X, start, stop)
                start = stop
            rest.check_end(file, start)


class _Rest(NamedTuple):
    """What belongs to rows, of all of them."""

    y: np.ndarray | None
    sample_weight: np.ndarray | None
    queries: np.ndarray | None
    lengths: np.ndarray | None

    def between(self, X: Any, start: int, stop: int) -> Part:
        """The part of some rows; of whole sequences, if there are lengths."""
        y, queries = (None if each is None else each[start:stop] for each in (self.y, self.queries))
        if self.lengths is None:
            weight = None if self.sample_weight is None else self.sample_weight[start:stop]
            return Part(X, y, weight, queries)
        ends = np.cumsum(self.lengths)
        blocks = slice(*np.searchsorted(ends, [start, stop], side="right"))
        weight = None if self.sample_weight is None else self.sample_weight[blocks]
        return Part(X, y, weight, queries, self.lengths[blocks])

    def check_end(self, file: DataFile, n: int) -> None:
        """Refuse arrays that are longer or shorter than X."""
        for name, values in self._asdict().items():
            blocks = self.lengths is not None and name in ("sample_weight", "lengths")
            want = len(self.lengths) if blocks and self.lengths is not None else n
            if values is not None and len(values) != want:
                raise file.fault(
                    f"{name} has {len(values)} items for {want} of X: save one for each"
                )


class _Members:
    """The arrays of an archive."""

    def __init__(self, file: DataFile, archive: zipfile.ZipFile, stack: ExitStack) -> None:
        self._file, self._archive, self._stack = file, archive, stack
        self.names = {name.removesuffix(".npy") for name in archive.namelist()}

    def array(self, name: str) -> _Array:
        """An array, open at its beginning."""
        info = self._archive.getinfo(f"{name}.npy")
        if info.file_size > _MOST_DEFLATED * (info.compress_size + 1):
            raise self._file.fault(f"{name} claims to be of {info.file_size} bytes; save it again")
        opened = self._stack.enter_context(self._archive.open(info))
        return _Array(self._file, opened, name, info.file_size)  # type: ignore[arg-type]

    def whole(self, name: str, kinds: str) -> np.ndarray | None:
        """All of a list of numbers, or None if there is none."""
        if name not in self.names:
            return None
        array = self.array(name)
        if len(array.shape) != 1 or array.dtype.kind not in kinds:
            raise self._file.fault(
                f"{name} has shape {array.shape} and type {array.dtype}: save one number for each "
                "row"
            )
        return array.take(array.shape[0])

    def rest(self) -> _Rest:
        """All but X."""
        queries = [self.whole(name, "iu") for name in _QUERIES if name in self.names]
        weight = self.whole("sample_weight", "fiu")
        lengths = self.whole("lengths", "iu")
        if lengths is not None:
            lengths = lengths.astype(np.int64)
            if len(lengths) == 0 or lengths.min() < 1:
                raise self._file.fault("lengths are not all positive: give each sequence a row")
        y = self.whole("y", _LABELS)
        if y is not None:
            y = y.astype({"U": object, "f": np.float64}.get(y.dtype.kind, np.int64))
        return _Rest(
            y,
            None if weight is None else weight.astype(np.float64),
            queries[0].astype(np.int64) if queries and queries[0] is not None else None,
            lengths,
        )

    def rows(self, size: int, lengths: np.ndarray | None) -> Iterator[Any]:
        """Some rows at a time; whole sequences, if there are lengths."""
        if "X" in self.names:
            yield from self.array("X").row_blocks(size, lengths)
        elif self.names.issuperset(_CSR):
            yield from self._csr(size, lengths)
        else:
            raise self._file.fault(
                f"has neither X nor {', '.join(_CSR)}, but {sorted(self.names)}: save X and y"
            )

    def _csr(self, size: int, lengths: np.ndarray | None) -> Iterator[Any]:
        self._check_format()
        pointers, data, indices = (
            self.whole("indptr", "iu"),
            self.array("data"),
            self.array("indices"),
        )
        assert pointers is not None
        pointers = pointers.astype(np.int64)
        n = len(pointers) - 1
        whole = n >= 0 and pointers[0] == 0 and (np.diff(pointers) >= 0).all()
        if not whole or data.shape != (pointers[-1],) or indices.shape != data.shape:
            raise self._file.fault(
                "its data, indices and indptr do not fit each other; save it again"
            )
        if data.dtype.kind not in _NUMBERS or indices.dtype.kind not in "iu":
            raise self._file.fault("its data or indices are no numbers; save it again")
        width = self._width()
        edges = _edges(12 * pointers + 8 * np.arange(n + 1), size, lengths)
        for start, stop in pairwise(edges):
            rows = pointers[start : stop + 1] - pointers[start]
            parts = data.take(int(rows[-1])), indices.take(int(rows[-1]))
            most = int(parts[1].max(initial=0)) + 1
            shape = stop - start, max(width if width is not None else most, 1)
            yield as_matrix(sp.csr_array((parts[0], parts[1].astype(np.int64), rows), shape=shape))

    def _check_format(self) -> None:
        if "format" in self.names:
            array = self.array("format")
            text = b"" if array.dtype.kind != "S" or array.shape != () else array.take(1).tobytes()
            if text.rstrip(b"\0") != b"csr":
                raise self._file.fault(f"is sparse in the form {text!r:.20}: save it as CSR")

    def _width(self) -> int | None:
        shape = self.whole("shape", "iu")
        if shape is None:
            return None
        if len(shape) != 2 or not 0 < int(shape[1]) < 2**31:
            raise self._file.fault(f"its shape is {shape.tolist()}; save it again")
        return int(shape[1])


class _Array:
    """An array in a file, read from its beginning; never more than there is."""

    def __init__(
        self, file: DataFile, opened: BinaryIO, name: str, n_bytes: int | None = None
    ) -> None:
        self._file, self._opened, self._name = file, opened, name
        version = npy.read_magic(opened)
        if version not in ((1, 0), (2, 0), (3, 0)):
            raise file.fault(f"{name} is of the unknown version {version} of npy; save it again")
        header = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
        self.shape, self._fortran, self.dtype = header(opened)
        if self.dtype.hasobject:
            raise file.fault(
                f"{name} holds objects of Python, which are not read: save numbers, or text as "
                "fixed-width strings"
            )
        if n_bytes is not None and self._size(self.shape) > n_bytes:
            raise file.fault(f"{name} is shorter than its shape {self.shape}; save it again")

    def _size(self, shape: tuple[int, ...]) -> int:
        size = self.dtype.itemsize
        for n in shape:
            size *= n
        return size

    def take(self, n: int) -> np.ndarray:
        """The next items, or rows."""
        shape = (n, *self.shape[1:])
        need, held = self._size(shape), bytearray()
        while len(held) < need:
            block = self._opened.read(min(_SLAB, need - len(held)))
            if not block:
                raise self._file.fault(
                    f"{self._name} ends before the last of its {self.shape}; save it again"
                )
            held += block
        return np.frombuffer(
            held, dtype=self.dtype, count=need // max(1, self.dtype.itemsize)
        ).reshape(shape)

    def row_blocks(self, size: int, lengths: np.ndarray | None = None) -> Iterator[np.ndarray]:
        """Checked rows, some at a time; whole sequences, if there are lengths."""
        if len(self.shape) != 2 or self.dtype.kind not in _NUMBERS or 0 in self.shape:
            raise self._file.fault(
                f"{self._name} has shape {self.shape} and type {self.dtype}: save rows of numbers, "
                "an array of two dimensions"
            )
        n, width = self.shape
        if self._fortran:
            # Its rows are together only when all of it is there.
            n, width = width, n
            self.shape = n, width
            yield as_matrix(self.take(n).T)
            return
        row = self.dtype.itemsize * width
        if lengths is None:
            step = max(1, size // row)
            for start in range(0, n, step):
                yield as_matrix(self.take(min(step, n - start)))
            return
        for start, stop in pairwise(_edges(np.arange(n + 1) * row, size, lengths)):
            yield as_matrix(self.take(stop - start))


def _edges(ends: np.ndarray, size: int, lengths: np.ndarray | None) -> list[int]:
    """Where to cut rows that end at these bytes."""
    n = len(ends) - 1
    allowed = np.arange(n + 1) if lengths is None else as_offsets(lengths, n, "X")
    edges = [0]
    while edges[-1] < n:
        place = int(np.searchsorted(ends[allowed], ends[edges[-1]] + size, side="right")) - 1
        after = int(np.searchsorted(allowed, edges[-1], side="right"))
        edges.append(int(allowed[max(place, after)]))
    return edges
