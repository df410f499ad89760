"""`taut.read` and `taut.open_file`."""

from __future__ import annotations

import os
from typing import Any

from taut.data.memory import as_bytes
from taut.data.shards import open_shards
from taut.data.source import Source
from taut.errors import InvalidData, InvalidType
from taut.readers.base import Format
from taut.readers.files import DataFile
from taut.readers.registry import as_format
from taut.readers.sources import FileSource
from taut.readers.tables import Extent, Growing, Table

_BLOCK = 1_000_000  # bytes to parse at once: what comes of them stays in caches


def read(
    path: str | os.PathLike[str],
    format: str | Format | None = None,
    *,
    like: Any = None,
    **options: Any,
) -> Table:
    r"""Read a file of data into memory.

    Parameters
    ----------
    path : path-like
        A file, which gzip, bzip2, xz or zstd may have compressed; a folder that `write_shards` has
        made; or "-" for standard input.
    format : str or Format, optional
        One of `taut.readers.FORMATS`; by default the one that suits the suffix of the path, or else
        the first bytes.
    like : Table, FileSource or fitted model, optional
        Training data, or a model that was fitted to a file: a file with test data is read in the
        same way, with the same columns.
    **options
        Of the format, such as ``n_features`` for svmlight files or ``target`` for CSV files.

    Returns
    -------
    Table

    Raises
    ------
    FileNotFoundError
        There is nothing at `path`.
    InvalidFile
        The file is damaged or of another format; the message names line and column.
    InvalidData
        The format is not known, or an option is not one of it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import taut
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "train.svm").write_text("+1 1:0.5 3:2\n-1 2:1\n")
    >>> _ = (folder / "test.svm").write_text("-1 2:3\n")
    >>> train = taut.read(folder / "train.svm")
    >>> test = taut.read(folder / "test.svm", like=train)
    >>> test.X.shape
    (1, 3)
    >>> model = taut.BinarySVM(random_state=0).fit(train)
    >>> model.score(test)
    1.0
    """
    file = DataFile(path)
    known = _format(file, format, like, options).prepared(file)
    extent = Extent(known.first_column, known.n_columns)
    growing = Growing()
    for part in known.parts(file, _BLOCK):
        extent.add(part)
        growing.add(part)
    if growing.n_parts == 0:
        raise file.fault("has no rows; check that it is the file that you mean")
    whole = extent.whole(growing.part())
    known = extent.settled(known)
    return Table(*whole, known.feature_names, file.name, known)


def open_file(
    path: str | os.PathLike[str],
    format: str | Format | None = None,
    *,
    like: Any = None,
    chunk_size: int | str = "4MB",
    **options: Any,
) -> Source:
    r"""Open a file of data to read it part by part, in bounded memory.

    It is read once at the beginning, to find its columns and classes and to check all of it. Where
    rows have queries, blocks are queries, as `RankSVM` takes them.

    Parameters
    ----------
    path : path-like
        A file, or a folder that `write_shards` has made.
    format : str or Format, optional
        As for `read`.
    like : Table or FileSource, optional
        As for `read`.
    chunk_size : int or str, default="4MB"
        Bytes of a chunk, about.
    **options
        Of the format.

    Returns
    -------
    FileSource, or Shards for a folder

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import taut
    >>> path = Path(tempfile.mkdtemp()) / "train.svm"
    >>> _ = path.write_text("+1 1:0.5 3:2\n-1 2:1\n")
    >>> source = taut.open_file(path)
    >>> source
    FileSource('train.svm', n_blocks=2, n_features=3, CSR, 2 classes)
    >>> model = taut.BinarySVM(random_state=0).fit(source)
    >>> model.score(source)
    1.0
    """
    file = DataFile(path)
    if file.is_folder:
        if options or format is not None or like is not None:
            raise InvalidData(f"{file.name} is a folder of shards, which has no options")
        return open_shards(path)
    size = as_bytes(chunk_size, "chunk_size")
    if not file.repeatable:
        raise InvalidData(
            f"{file.name} can be read only once: take taut.read, or save it to a file first"
        )
    return FileSource(file, _format(file, format, like, options), size)


def _format(
    file: DataFile,
    given: str | Format | None,
    like: Any,
    options: dict[str, Any],
) -> Format:
    if like is None:
        return as_format(file, given, options)
    known = getattr(like, "reading_", None) or getattr(like, "format", None)
    if not isinstance(known, Format):
        raise InvalidType(
            f"like is of type {type(like).__name__}: give what taut.read or taut.open_file "
            "returned, or a model that was fitted to that"
        )
    if given is not None or options:
        raise InvalidData(
            f"{next(iter(options), 'format')} is given beside like, which knows how to read files: "
            "leave it out"
        )
    return known
