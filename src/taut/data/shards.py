"""Shards on disk: reading."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike

from taut.data.chunks import Chunk, check_columns, from_columns, stack
from taut.data.labels import sort_classes
from taut.data.shard_format import (
    HEADER,
    REMEDY,
    UNITS,
    Column,
    check_file,
    check_header,
    columns,
    read_header,
)
from taut.data.source import Source, read_ahead
from taut.data.targets import find_classes
from taut.errors import InvalidData
from taut.storage import files
from taut.storage.stored import Stored, check, require

_HINTS = 4  # chunks that the system is told of before they are read
_ALIGNMENT = 64
_POINTED = {"indptr": "values", "offsets": "rows"}  # what pointers count

Stamp = tuple[int, int, int]  # of a file: time of the last change, size, inode


def open_shards(path: str | os.PathLike[str], *, verify: bool = True) -> Shards:
    """Open a folder that `write_shards` has made.

    Parameters
    ----------
    path : path-like
    verify : bool, default=True
        Whether to compare each chunk with its checksum when it is read for the first time.
        Without it, damage to values goes unnoticed. Indices, counts and whether numbers are finite
        are checked in any case, and chunks of files that change after they were opened are compared
        with their checksums.

    Returns
    -------
    Shards

    Raises
    ------
    FileNotFoundError
        There is nothing at `path`.
    InvalidFile
        The folder is foreign, incomplete, damaged or from a newer version.

    Examples
    --------
    >>> import tempfile
    >>> from taut.data import write_shards
    >>> path = Path(tempfile.mkdtemp()) / "train"
    >>> _ = write_shards(path, np.arange(6.0).reshape(3, 2), [0.5, 1.5, 2.5])
    >>> for chunk in open_shards(path).chunks():
    ...     print(chunk.X.shape, chunk.y)
    (3, 2) [0.5 1.5 2.5]
    """
    return Shards(path, verify=verify)


class Shards(Source):
    """Blocks in files, read chunk by chunk into a few buffers; made by `open_shards`.

    Memory stays at a few chunks whatever the size of the files.

    Parameters
    ----------
    path : path-like
    verify : bool, default=True

    Attributes
    ----------
    path : Path
    n_blocks, n_rows, n_chunks, n_features : int
    dtype : dtype
        Of the rows.
    ragged : bool
        Whether blocks are sequences of rows.
    sparse : bool
        Whether rows are CSR.
    nbytes : int
        Of all arrays.
    digest : bytes
        SHA-256 that covers all data.
    """

    n_blocks: int
    n_chunks: int
    n_features: int
    dtype: np.dtype
    repeatable = True
    random_access = True

    def __init__(self, path: str | os.PathLike[str], *, verify: bool = True) -> None:
        self.path = Path(path).absolute()
        header = read_header(self.path)
        try:
            check_header(header)
            self._set_up(header)
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            files._refuse(self.path / HEADER, f"has an inconsistent header ({error})", REMEDY)
        for shard, sizes in enumerate(self._shards):
            for column in self._columns:
                check_file(self.path, column, shard, column.count(sizes))
        self._verify = bool(verify)
        self._unread = np.ones(self.n_chunks, dtype=bool)
        # Files that another program writes to are noticed by these, and then verified again.
        self._stamps = {
            (column.name, shard): _stamp(os.stat(self.path / column.file(shard)))
            for column in self._columns
            for shard in range(len(self._shards))
        }
        self._rewritten: set[int] = set()

    def _set_up(self, header: dict[str, Any]) -> None:
        self.n_blocks, self.n_rows, values = (int(header[f"n_{unit}"]) for unit in UNITS)
        self._totals = dict(zip(UNITS, (self.n_blocks, self.n_rows, values)))
        self.n_features = int(header["n_features"])
        self.dtype = np.dtype(header["dtype"])
        self.ragged = bool(header["ragged"])
        self.sparse = header["kind"] == "csr"
        self.lacks_zeros = self.sparse
        self.digest = bytes.fromhex(header["sha256"])
        self._columns = columns(header)
        self._shards: list[dict[str, int]] = header["shards"]
        self._target: str | None = header["y"]
        entries = header["chunks"]
        self.n_chunks = len(entries)
        self._shard_of = np.array([entry["shard"] for entry in entries])
        # First and last of each chunk within its shard: (n_chunks, unit, 2).
        self._ranges = np.array([[entry[unit] for unit in UNITS] for entry in entries])
        self._checksums = [bytes.fromhex(entry["sha256"]) for entry in entries]
        sizes = self._ranges[:, 0, 1] - self._ranges[:, 0, 0]
        self._firsts = np.concatenate([[0], np.cumsum(sizes)])
        self.nbytes = sum(
            column.count(sizes) * column.itemsize
            for sizes in self._shards
            for column in self._columns
        )
        self._classes: np.ndarray | None = None
        self._places: np.ndarray | None = None
        self._found = self._target is None
        if self._target == "label":
            labels = [files.decode_label(label) for label in header["classes"]]
            self._classes, self._places = sort_classes(np.fromiter(labels, dtype=object))
            require(len(set(labels)) == len(labels) > 0, "classes are there twice, or none are")
            self._found = True

    def __repr__(self) -> str:
        kind = "csr" if self.sparse else "dense"
        target = f"{self._target or 'no'} targets"
        if self._places is not None:
            target = f"{len(self._places)} class{'es' * (len(self._places) != 1)}"
        return (
            f"Shards({str(self.path)!r}, n_blocks={self.n_blocks}, n_features={self.n_features}, "
            f"{'sequences, ' * self.ragged}{kind} {self.dtype}, {target}, "
            f"{self.n_chunks} chunk{'s' * (self.n_chunks != 1)}, {self.nbytes} bytes)"
        )

    @property
    def classes(self) -> np.ndarray | None:
        """Distinct labels, sorted if they can be; None for real-valued or no targets.

        For numbers they are found by reading all targets at the first use.
        """
        if not self._found:
            self._classes = find_classes(self._all_targets())
            self._found = True
        return self._classes

    def codes(self, chunk: Chunk) -> np.ndarray:
        """Number the targets of a chunk by class; see `Source.codes`."""
        if self._target == "label" and isinstance(chunk.y, np.ndarray):
            return chunk.y
        return super().codes(chunk)

    def labels(self, chunk: Chunk) -> Any:
        """The targets of a chunk as they were given."""
        return chunk.y if self._places is None or self._classes is None else self._classes[chunk.y]

    def chunks(self, order: ArrayLike | None = None) -> Generator[Chunk]:
        """Read chunks; the next one is read by a thread while one is in use.

        Parameters
        ----------
        order : array-like of int, optional
            Numbers of the wanted chunks, each at most once; None is all in sequence.

        Yields
        ------
        Chunk
            Its arrays are valid until the next chunk is asked for, because buffers are used again;
            `Chunk.take` copies. Labels are their numbers in `classes`.

        Raises
        ------
        InvalidData
            `order` has numbers out of range or twice.
        InvalidFile
            A chunk differs from its checksum, or cannot be read.
        """
        if order is None:
            numbers = np.arange(self.n_chunks)
        else:
            numbers = np.asarray(order, dtype=np.int64).reshape(-1)
            if len(numbers) and (numbers.min() < 0 or numbers.max() >= self.n_chunks):
                raise InvalidData(
                    f"order has chunk numbers outside 0..{self.n_chunks - 1}; count chunks from 0"
                )
            if len(np.unique(numbers)) < len(numbers):
                raise InvalidData("order has a chunk twice; give each chunk number once")
        # One thread reads and another one looks at checksums, where there are some to look at.
        stages = 1 + bool(self._unread[numbers].any())
        arrays: Iterator[tuple[int, dict[str, np.ndarray]]] = self._read(numbers, stages + 1)
        if stages == 2:
            arrays = read_ahead(arrays)
        return read_ahead(self._finished(arrays))

    def load(self) -> tuple[Any, Any]:
        """Read everything into memory.

        Returns
        -------
        X : ndarray, CSR array or list of these
            Rows, or one matrix per sequence.
        y : ndarray, list of ndarray or None
            Targets; one array per sequence if each row has one.
        """
        shapes = {
            column.name: (column.shape(column.count(self._totals)), column.dtype)
            for column in self._columns
        }
        with closing(self.chunks()) as chunks:
            whole = from_columns(stack(chunks, shapes), 0, 0, self.n_features)
        y: Any = whole.y
        if self._places is not None and self._classes is not None:
            y = self._classes[y]
        if whole.offsets is None:
            return whole.X, y
        pairs = list(zip(whole.offsets[:-1].tolist(), whole.offsets[1:].tolist()))
        if y is not None and len(y) == self.n_rows:
            y = [y[start:stop] for start, stop in pairs]
        return [whole.X[start:stop] for start, stop in pairs], y

    def _chunks_of(self, blocks: np.ndarray) -> Iterator[Chunk]:
        inside = blocks[blocks < self.n_blocks]
        return self.chunks(np.unique(np.searchsorted(self._firsts, inside, side="right") - 1))

    def _all_targets(self) -> Iterator[np.ndarray]:
        (column,) = (column for column in self._columns if column.name == "y")
        for shard, sizes in enumerate(self._shards):
            with _Files(self.path) as opened:
                n = column.count(sizes)
                step = 1 << 17
                for start in range(0, n, step):
                    part = np.empty(min(step, n - start), dtype=column.dtype)
                    opened.read(column, shard, start, part.view(np.uint8))
                    if not np.isfinite(part).all():
                        path = self.path / column.file(shard)
                        files._refuse(path, "has targets that are not finite", REMEDY)
                    yield part

    def _read(
        self, numbers: np.ndarray, n_buffers: int
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """The arrays of chunks as they are in the files, in buffers that are used in turn."""
        buffers = [_aligned(self._buffer_size(numbers)) for _ in range(n_buffers)]
        with _Files(self.path) as opened:
            for number in numbers[:_HINTS].tolist():
                self._announce(number)
            for turn, number in enumerate(numbers.tolist()):
                if turn + _HINTS < len(numbers):
                    self._announce(int(numbers[turn + _HINTS]))
                yield number, self._read_arrays(number, buffers[turn % n_buffers], opened)

    def _announce(self, number: int) -> None:
        """Tell the system that a chunk will be read soon: in random order it cannot guess."""
        if not hasattr(os, "posix_fadvise"):
            return
        shard, ranges = int(self._shard_of[number]), self._ranges[number].tolist()
        for column in self._columns:
            start, stop = ranges[UNITS.index(column.unit)]
            try:
                file = os.open(self.path / column.file(shard), os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                return  # reading it will say what is wrong
            try:
                size = (stop - start + column.pointer) * column.itemsize
                os.posix_fadvise(file, column.offset(start), size, os.POSIX_FADV_WILLNEED)
            finally:
                os.close(file)

    def _buffer_size(self, numbers: np.ndarray) -> int:
        sizes = np.zeros(len(numbers), dtype=np.int64)
        for column in self._columns:
            starts, stops = self._ranges[numbers, UNITS.index(column.unit)].T
            sizes += (stops - starts + column.pointer) * column.itemsize + _ALIGNMENT
        return int(sizes.max(initial=0))

    def _read_arrays(
        self, number: int, buffer: np.ndarray, opened: _Files
    ) -> dict[str, np.ndarray]:
        shard = int(self._shard_of[number])
        ranges = dict(zip(UNITS, self._ranges[number].tolist()))
        arrays = {}
        place = 0
        for column in self._columns:
            start, stop = ranges[column.unit]
            n = stop - start + column.pointer
            part = buffer[place : place + n * column.itemsize]
            place += -(-len(part) // _ALIGNMENT) * _ALIGNMENT
            self._watch(column, shard, opened.read(column, shard, start, part))
            arrays[column.name] = part.view(column.dtype).reshape(column.shape(n))
        return arrays

    def _watch(self, column: Column, shard: int, stamp: Stamp) -> None:
        """Have the chunks of a shard verified again if a file is not the one of before."""
        if self._stamps[column.name, shard] != stamp:
            self._stamps[column.name, shard] = stamp
            self._rewritten.add(shard)
            self._unread[self._shard_of == shard] = True

    def _finished(self, read: Iterable[tuple[int, dict[str, np.ndarray]]]) -> Iterator[Chunk]:
        """Chunks of arrays that were read, checked if they have not been before."""
        for number, arrays in read:
            known = int(self._shard_of[number]) not in self._rewritten
            if self._unread[number] and (self._verify or not known):
                self._check(number, arrays)
            for column in self._columns:
                if column.pointer:
                    array = arrays[column.name]
                    array -= self._ranges[number, UNITS.index(_POINTED[column.name]), 0]
            if self._unread[number]:
                self._check_content(number, arrays)
                self._unread[number] = False
            if self._places is not None:
                arrays["y"] = self._places[arrays["y"]]
            yield from_columns(arrays, number, int(self._firsts[number]), self.n_features)

    def _check(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        digest = hashlib.sha256()
        for column in self._columns:
            digest.update(arrays[column.name].reshape(-1).view(np.uint8).data)
        if digest.digest() != self._checksums[number]:
            shard, (first, last) = int(self._shard_of[number]), self._ranges[number, 1]
            names = ", ".join(column.file(shard) for column in self._columns)
            files._refuse(
                self.path,
                f"{'has changed since it was opened' if shard in self._rewritten else 'is damaged'}"
                f": chunk {number} (rows {first} to {last - 1} of {names}) does not match its "
                "SHA-256",
                REMEDY,
            )

    def _check_content(self, number: int, arrays: dict[str, np.ndarray]) -> None:
        """Refuse a chunk that compiled code must not see, whatever its checksum is."""
        try:
            check_columns(arrays, self.n_features)
            if self._places is not None:
                codes = Stored("i4", (None,), 0, len(self._places) - 1)
                check(arrays, {"y": codes})
        except InvalidData as error:
            files._refuse(self.path, f"is inconsistent in chunk {number} ({error})", REMEDY)


class _Files:
    """The files of one shard at a time, opened when they are first read from."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._shard = -1
        self._opened: dict[str, BinaryIO] = {}
        self._stack = ExitStack()

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def read(self, column: Column, shard: int, start: int, into: np.ndarray) -> Stamp:
        """Fill an array of bytes with the items of a column from `start` on.

        The stamp that is returned is the file's after that: what was written before shows in it.
        """
        if shard != self._shard:
            self._stack.close()
            self._opened.clear()
            self._shard = shard
        try:
            file = self._opened.get(column.name)
            if file is None:
                file = files.open_regular(self._folder / column.file(shard), REMEDY)
                self._opened[column.name] = self._stack.enter_context(file)
            file.seek(column.offset(start))
            rest = into.data
            while len(rest):
                n = file.readinto(rest)  # type: ignore[attr-defined]
                if not n:
                    raise OSError(0, "it has become shorter since it was opened")
                rest = rest[n:]
            return _stamp(os.fstat(file.fileno()))
        except OSError as error:
            path = self._folder / column.file(shard)
            files._refuse(path, f"cannot be read ({error.strerror})", REMEDY)


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino


def _aligned(size: int) -> np.ndarray:
    """Bytes that begin at a multiple of a cache line."""
    buffer = np.empty(size + _ALIGNMENT, dtype=np.uint8)
    start = -buffer.ctypes.data % _ALIGNMENT
    return buffer[start : start + size]
