"""A file that is read part by part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import scipy.sparse as sp

from taut.data.arrays import as_matrix, check_finite, offsets_of
from taut.data.chunks import Chunk
from taut.data.parts import as_chunk_matrix
from taut.data.streams import Stream
from taut.data.targets import as_targets, find_classes
from taut.readers.base import Format, Part
from taut.readers.files import DataFile
from taut.readers.grouping import whole_groups
from taut.readers.tables import Extent


class FileSource(Stream):
    """What `taut.open_file` returns: blocks of a file, read part by part as often as needed.

    Each reading is compared with the first one, so that a file that changes is noticed.

    Parameters
    ----------
    file : DataFile
    format : Format
    chunk_size : int
        Bytes of a chunk, about.

    Attributes
    ----------
    format : Format
        How it is read, with all that was found.
    feature_names : list of str or None
    n_blocks, n_features : int
    """

    n_blocks: int

    def __init__(self, file: DataFile, format: Format, chunk_size: int) -> None:
        self.file = file
        self.format = format.prepared(file)
        self._size = chunk_size
        self._grouped = False
        self._extent = Extent(self.format.first_column, self.format.n_columns)
        count, shape = 0, ""

        def targets() -> Iterator[Any]:
            nonlocal count, shape
            for part in self._file_parts():
                self._extent.add(part)
                shape = _shape_of(part)
                count += len(part.lengths) if part.lengths is not None else _n_rows(part)
                if part.y is not None:
                    yield part.y

        with closing(targets()) as found:
            classes = (
                None
                if isinstance((first := next(found, None)), list | None)
                else (find_classes(_before(first, found)))
            )
            for _ in found:
                pass
        if count == 0:
            raise file.fault("has no rows; check that it is the file that you mean")
        self.format = self.format.of_columns(self._extent.first, self._extent.width)
        self.feature_names = self.format.feature_names
        super().__init__(self._chunks_of_file, kind=shape, chunk_size=chunk_size)
        self.n_blocks = count
        if shape != "examples":
            self._classes, self._found = classes, True
        self.lacks_zeros = bool(self._checks.sparse)

    def __repr__(self) -> str:
        words = [repr(self.file.name), f"n_blocks={self.n_blocks}"]
        if self.kind != "examples":
            words.append(f"n_features={self.n_features}")
            words += ["sequences"] * (self.kind == "sequences")
            words.append("CSR" if self._checks.sparse else "dense")
            n = 0 if self._classes is None else len(self._classes)
            words.append(f"{n} classes" if n else "no classes")
        return f"FileSource({', '.join(words)})"

    def _file_parts(self) -> Iterator[Part]:
        """Parts as the format gives them, queries whole."""
        parts = self.format.parts(self.file, self._size)
        for part in parts:
            rest = _before(part, parts)
            yield from rest if part.queries is None else whole_groups(self.file, rest, "query")

    def _chunks_of_file(self) -> Iterator[Any]:
        for part in self._file_parts():
            yield self._item(self._extent.laid_out(part))

    def _item(self, part: Part) -> Any:
        if isinstance(part.X, list):
            return part.X, part.y, part.sample_weight
        offsets = None if part.lengths is None else offsets_of(part.lengths)
        n = part.X.shape[0] if offsets is None else len(offsets) - 1
        X = part.X if sp.issparse(part.X) else as_matrix(part.X)
        check_finite(X, "X", offsets)
        y = None if part.y is None else as_targets(part.y, n, offsets)
        return Chunk(0, 0, as_chunk_matrix(X, X.dtype), offsets, y, part.sample_weight)


def _before(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest


def _n_rows(part: Part) -> int:
    return len(part.X) if isinstance(part.X, list) else part.X.shape[0]


def _shape_of(part: Part) -> str:
    """What `Stream` calls the kind of its parts."""
    if isinstance(part.X, list):
        return "examples"
    return "rows" if part.lengths is None else "sequences"
