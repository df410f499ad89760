"""A file that is read part by part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
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
    r"""What `taut.open_file` returns: blocks of a file, read part by part as often as needed.

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

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import taut
    >>> path = Path(tempfile.mkdtemp()) / "train.csv"
    >>> _ = path.write_text("size,price\n1,10\n2,20\n")
    >>> source = taut.open_file(path, target="price", chunk_size=1)
    >>> [chunk.y.tolist() for chunk in source.chunks()]
    [[10], [20]]
    """

    n_blocks: int

    def __init__(self, file: DataFile, format: Format, chunk_size: int) -> None:
        self.file = file
        self.format = format.prepared(file)
        self._size = chunk_size
        self._extent = Extent(self.format.first_column, self.format.n_columns)
        survey = _Survey(self._file_parts(), self._extent)
        if survey.n_blocks == 0:
            raise file.fault("has no rows; check that it is the file that you mean")
        self.format = self._extent.settled(self.format)
        self.feature_names = self.format.feature_names
        super().__init__(self._items, kind=survey.kind, chunk_size=chunk_size)
        self.n_blocks = survey.n_blocks
        if survey.kind != "examples":
            self._classes, self._found = survey.classes, True
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
            whole = part.queries is None or part.lengths is not None
            yield from rest if whole else whole_groups(self.file, rest, "query")

    def _items(self) -> Iterator[Any]:
        """What `Stream` takes for parts."""
        for part in self._file_parts():
            laid_out = self._extent.laid_out(part)
            yield laid_out[:3] if isinstance(part.X, list) else _chunk_of(laid_out)


class _Survey:
    """What a first reading finds."""

    def __init__(self, parts: Iterator[Part], extent: Extent) -> None:
        self.n_blocks, self.kind = 0, "rows"
        self._parts, self._extent = parts, extent
        targets = self._targets()
        first = next(targets, None)
        self.classes: np.ndarray | None = None
        if isinstance(first, np.ndarray):
            self.classes = find_classes(_before(first, targets))
        for _ in targets:  # those that classes were not asked for
            pass

    def _targets(self) -> Iterator[Any]:
        for part in self._parts:
            self._extent.add(part)
            if isinstance(part.X, list):
                self.kind = "examples"
                self.n_blocks += len(part.X)
            elif part.lengths is None:
                self.n_blocks += part.X.shape[0]
            else:
                self.kind = "sequences"
                self.n_blocks += len(part.lengths)
            yield part.y


def _chunk_of(part: Part) -> Chunk:
    """A part, checked."""
    offsets = None if part.lengths is None else offsets_of(part.lengths)
    n = part.X.shape[0] if offsets is None else len(offsets) - 1
    X = part.X if sp.issparse(part.X) else as_matrix(part.X)
    check_finite(X, "X", offsets)
    y = None if part.y is None else as_targets(part.y, n, offsets)
    return Chunk(0, 0, as_chunk_matrix(X, X.dtype), offsets, y, part.sample_weight)


def _before(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    yield first
    yield from rest
