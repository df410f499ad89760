"""Shards on disk: writing."""

from __future__ import annotations

import hashlib
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from taut.data.arrays import as_matrix, as_offsets, as_sequences, check_finite, offsets_of
from taut.data.chunks import Chunk
from taut.data.memory import as_bytes
from taut.data.parts import Parts, as_chunk_matrix, holds_matrices, is_array_like, rechunk
from taut.data.shard_format import FORMAT, HEADER, UNITS, VERSION, columns, npy_header, sealed
from taut.data.shards import Shards, open_shards
from taut.data.source import Source
from taut.data.targets import Vocabulary, as_targets, kind_of
from taut.data.weights import check_sample_weight, per_block
from taut.errors import InvalidData, InvalidType
from taut.storage import files

_log = logging.getLogger("taut")


def write_shards(
    path: str | os.PathLike[str],
    X: Any,
    y: Any = None,
    *,
    lengths: ArrayLike | None = None,
    sample_weight: Any = None,
    margin: Any = None,
    chunk_size: int | str = "4MB",
    shard_size: int | str = "256MB",
    verbose: int = 0,
) -> Shards:
    """Write training data to a folder from which it can be read chunk by chunk.

    Everything is checked here, once. The folder appears complete or not at all; a process that is
    killed leaves at most a hidden folder ``.name.*.tmp`` beside it, which the next write to the
    same path removes.

    Parameters
    ----------
    path : path-like
        Where nothing is yet.
    X : array-like, sparse matrix, list of matrices, iterable of parts, Source or path
        Rows; or sequences of rows, as one matrix each or stacked with `lengths`. A `numpy.memmap`
        is read piece by piece. With neither `y` nor weights an iterator, a list of tuples or a
        function that returns an iterator gives parts, of which only one is in memory at a time:
        ``(X, y)``, ``(X, y, sample_weight)`` or ``(X, y, sample_weight, margin)``. A source does so
        too, and the path of a file, which is read as `taut.open_file` reads it.
    y : array-like, optional
        Numbers, kept as float64 or int64; or labels: text, bool, None or tuples of these. For
        sequences one per row (stacked, or a list per sequence) or one per sequence.
    lengths : array-like of int, optional
        Rows of each sequence of a stacked `X`.
    sample_weight, margin : float or array-like of shape (n_blocks,), optional
    chunk_size : int or str, default="4MB"
        Bytes of a chunk, the unit of reading, shuffling and checksums.
    shard_size : int or str, default="256MB"
        Bytes of the files with one number.
    verbose : int, default=0
        From 1 on, a progress bar if standard error is a terminal.

    Returns
    -------
    Shards
        The new folder, opened.

    Raises
    ------
    InvalidData
        The data cannot be used; the message names the row, and the part it is in.
    FileExistsError
        There is something at `path`.
    OSError
        The folder cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "train"
    >>> write_shards(path, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["a", "b", "a"])
    Shards('...train', n_blocks=3, n_features=2, dense float64, 2 classes, 1 chunk, 60 bytes)
    """
    path = Path(path).absolute()
    _refuse_existing(path)
    if isinstance(X, str | os.PathLike):
        # Formats of files are a layer above, and found by name.
        X = importlib.import_module("taut.readers").open_file(X, chunk_size=chunk_size)
    size, limit = as_bytes(chunk_size, "chunk_size"), as_bytes(shard_size, "shard_size")
    words = Vocabulary(files.encode_label)
    parts = Parts(None, size, words)
    total = None
    # Beside targets, tuples in a list are sequences.
    alone = y is None and lengths is None
    if (alone or not isinstance(X, list | tuple)) and _gives_parts(X):
        for name, value in (
            ("y", y), ("lengths", lengths), ("sample_weight", sample_weight), ("margin", margin)
        ):  # fmt: skip
            if value is not None:
                raise InvalidData(f"{name} is given beside parts; make it an entry of each part")
        chunks = parts.read(_of_source(X) if isinstance(X, Source) else X() if callable(X) else X)
    else:
        total = _estimate(X)
        chunks = _slices(parts, X, y, lengths, sample_weight, margin, size)
    with files.temporary_for(path, Path.mkdir) as temporary:
        with _bar(verbose, total) as advance:
            header = _write(temporary, parts, words, rechunk(chunks, size), limit, advance)
        files._sync_folder(temporary)
        _refuse_existing(path)
        os.rename(temporary, path)
    files._sync_folder(path.parent)
    _log.info("wrote %d blocks in %d chunks to %s", header["n_blocks"], len(header["chunks"]), path)
    return open_shards(path)


def _refuse_existing(path: Path) -> None:
    if os.path.lexists(path):
        raise FileExistsError(f"{path} exists already; choose another path or delete it first")


def _gives_parts(X: Any) -> bool:
    if isinstance(X, list | tuple):
        return len(X) > 0 and isinstance(X[0], tuple) and len(X[0]) > 0 and is_array_like(X[0][0])
    if isinstance(X, Source):
        return True
    if not (callable(X) or isinstance(X, Iterable)):
        raise InvalidType(
            f"X is of type {type(X).__name__}; pass an array, a sparse matrix, a list of matrices "
            "or an iterable of (X, y)"
        )
    return not (sp.issparse(X) or hasattr(X, "__array__"))


def _of_source(source: Source) -> Iterator[Chunk]:
    """Its chunks, with labels as they were given."""
    with closing(source.chunks()) as chunks:
        for chunk in chunks:
            yield replace(chunk, y=source.labels(chunk))


def _estimate(X: Any) -> int | None:
    return X.nbytes if isinstance(X, np.ndarray) and X.dtype != object else None


def _slices(
    parts: Parts,
    X: Any,
    y: Any,
    lengths: ArrayLike | None,
    sample_weight: Any,
    margin: Any,
    size: int,
) -> Iterator[Chunk]:
    """Slices of data that are there as a whole; errors count rows in the whole."""
    listed = lengths is None and holds_matrices(X)
    starts: np.ndarray | None = None
    if listed:
        starts = offsets_of([_length(x) for x in X])
    elif type(X) in (np.ndarray, np.memmap) and X.ndim == 2 and X.dtype != object:
        # It may be on disk: its shape is checked now, its rows slice by slice.
        as_matrix(X[:1])
    else:
        X = as_matrix(X)
    if lengths is not None:
        starts = as_offsets(lengths, X.shape[0])
    n = X.shape[0] if starts is None else len(starts) - 1
    targets = None if y is None else as_targets(y, n, starts)
    if targets is not None and parts.vocabulary is not None and kind_of(targets) == "label":
        targets = parts.vocabulary.number(targets)
    unit = "row of X" if starts is None else "sequence"
    weight = None if sample_weight is None else check_sample_weight(sample_weight, n, unit=unit)
    margins = None if margin is None else per_block(margin, n, "margin", unit, "margin")
    per_row = targets is not None and starts is not None and len(targets) == starts[-1]
    step = max(1, size // _row_bytes(X[0] if listed else X))
    start = 0
    while start < n:
        blocks = rows = slice(start, min(start + step, n))
        if starts is not None:
            stop = int(np.searchsorted(starts, starts[start] + step, side="right")) - 1
            blocks = slice(start, max(start + 1, stop))
            rows = slice(int(starts[start]), int(starts[blocks.stop]))
        offsets: np.ndarray | None
        if listed:
            matrix, offsets = as_sequences(X[blocks], first=start)
        else:
            offsets = None if starts is None else starts[start : blocks.stop + 1] - starts[start]
            matrix = as_matrix(X[rows], finite=False)
            check_finite(matrix, "X", offsets, first=start)
        chunk = Chunk(
            0,
            start,
            as_chunk_matrix(matrix, matrix.dtype),
            offsets,
            None if targets is None else targets[rows if per_row else blocks],
            None if weight is None else weight[blocks],
            None if margins is None else margins[blocks],
        )
        yield parts.fit(chunk, start)
        start = blocks.stop


def _length(x: Any) -> int:
    if getattr(x, "shape", ()):
        return x.shape[0]
    # Without a length it is no sequence, which is found where it is checked.
    return len(x) if hasattr(x, "__len__") else 0


def _row_bytes(X: Any) -> int:
    """Bytes of a mean row, about."""
    if sp.issparse(X):
        return max(1, 12 * X.nnz // max(1, X.shape[0]) + 8)
    return max(1, 8 * int(np.shape(X)[-1]))


def _write(
    folder: Path,
    parts: Parts,
    words: Vocabulary,
    chunks: Iterable[Chunk],
    limit: int,
    advance: Callable[[int], object],
) -> dict[str, Any]:
    """Write chunks into files, and what they are into the header."""
    header: dict[str, Any] = {}
    entries: list[dict[str, Any]] = []
    shards: list[dict[str, int]] = []
    shard: _Shard | None = None
    try:
        for chunk in chunks:
            if not header:
                header = _describe(parts, chunk)
            arrays = chunk.columns()
            nbytes = sum(array.nbytes for array in arrays.values())
            if shard is not None and shard.nbytes + nbytes > limit:
                shards.append(shard.close())
                shard = None
            if shard is None:
                shard = _Shard(folder, len(shards), header)
            entries.append(shard.append(arrays, chunk))
            advance(nbytes)
        if shard is not None:
            shards.append(shard.close())
    except BaseException:
        if shard is not None:
            shard.abandon()
        raise
    header |= {f"n_{unit}": sum(counts[unit] for counts in shards) for unit in UNITS}
    header["y_per"] = parts.per or "blocks"
    header["classes"] = words.labels if header["y"] == "label" else None
    header["shards"] = shards
    header["chunks"] = entries
    with open(folder / HEADER, "x", encoding="utf-8") as file:
        file.write(sealed(header))
        file.flush()
        os.fsync(file.fileno())
    return header


def _describe(parts: Parts, chunk: Chunk) -> dict[str, Any]:
    assert parts.dtype is not None
    return {
        "format": FORMAT,
        "version": VERSION,
        "kind": "csr" if parts.sparse else "dense",
        "ragged": chunk.offsets is not None,
        "dtype": parts.dtype.newbyteorder("<").str,
        "n_features": parts.n_features,
        "y": parts.target,
        # Files do not depend on it; it may be known only at the end.
        "y_per": "blocks",
        "sample_weight": chunk.sample_weight is not None,
        "margin": chunk.margin is not None,
    }


class _Shard:
    """The files of one number, while they grow."""

    def __init__(self, folder: Path, number: int, header: dict[str, Any]) -> None:
        self.number = number
        self.nbytes = 0
        self._sizes = dict.fromkeys(UNITS, 0)
        self._columns = columns(header)
        self._items = dict.fromkeys((column.name for column in self._columns), 0)
        self._files: dict[str, BinaryIO] = {}
        for column in self._columns:
            file = open(folder / column.file(number), "xb")  # noqa: SIM115
            self._files[column.name] = file
            file.write(npy_header(column, 0))
            if column.pointer:
                self._put(column.name, np.zeros(1, dtype=column.dtype))

    def append(self, arrays: dict[str, np.ndarray], chunk: Chunk) -> dict[str, Any]:
        """Write a chunk; its entry in the header."""
        rows = chunk.n_blocks if chunk.offsets is None else int(chunk.offsets[-1])
        values = len(arrays["indices"]) if "indices" in arrays else 0
        digest = hashlib.sha256()
        for column in self._columns:
            array = np.ascontiguousarray(arrays[column.name], dtype=column.dtype)
            if column.pointer:
                array = array + self._sizes["values" if column.name == "indptr" else "rows"]
            digest.update(array.data)
            self._put(column.name, array[1:] if column.pointer else array)
        entry: dict[str, Any] = {"shard": self.number, "sha256": digest.hexdigest()}
        for unit, n in zip(UNITS, (chunk.n_blocks, rows, values)):
            start = self._sizes[unit]
            self._sizes[unit] = start + n
            entry[unit] = [start, start + n]
        return entry

    def close(self) -> dict[str, int]:
        """Complete the files on disk; how much they hold."""
        for column in self._columns:
            file = self._files[column.name]
            file.seek(0)
            file.write(npy_header(column, self._items[column.name]))
            file.flush()
            os.fsync(file.fileno())
            file.close()
        return self._sizes

    def abandon(self) -> None:
        """Close the files as they are."""
        for file in self._files.values():
            file.close()

    def _put(self, name: str, array: np.ndarray) -> None:
        # An empty array has no bytes, and numpy no memoryview of it that could be cast.
        if array.size:
            self._files[name].write(array.data)
        self._items[name] += len(array)
        self.nbytes += array.nbytes


@contextmanager
def _bar(verbose: int, total: int | None) -> Iterator[Callable[[int], object]]:
    """A progress bar in bytes if one was asked for and somebody can see it."""
    if verbose < 1 or sys.stderr is None or not sys.stderr.isatty():
        yield lambda nbytes: None
        return
    # Importing rich takes longer than importing taut, and most writes are silent.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    with Progress(
        TextColumn("writing"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
    ) as progress:
        task = progress.add_task("", total=total)
        yield lambda nbytes: progress.advance(task, nbytes)
