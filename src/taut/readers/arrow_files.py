"""Parquet, Arrow and Feather files, by the package pyarrow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np

from taut.errors import InvalidData
from taut.readers.files import DataFile
from taut.readers.tabular import Batch, Cells, Tabular

_PARQUET = b"PAR1"
_ARROW = b"ARROW1"


@dataclass(frozen=True, kw_only=True)
class Arrow(Tabular):
    """Tables of Parquet, and of Arrow's own files and streams, which Feather is too.

    Columns of numbers and truth values are numbers, those of text and dictionaries are categories,
    as in CSV files.

    Parameters
    ----------
    target, weight, query, ignore
        As for CSV files.
    """

    name = "arrow"
    suffixes = (".parquet", ".pq", ".arrow", ".feather", ".ipc")

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """By the first bytes."""
        return head.startswith((_PARQUET, _ARROW))

    def names(self, file: DataFile) -> list[str]:
        """Those of the schema."""
        with ExitStack() as stack, file.reading():
            return _opened(file, stack).schema_names
        raise AssertionError

    def batches(self, file: DataFile, size: int) -> Iterator[Batch]:
        """Record batches."""
        first = 1
        with ExitStack() as stack, file.reading():
            opened = _opened(file, stack)
            used = self.used(opened.schema_names)
            for batch in opened.batches(size):
                batch.validate(full=True)
                columns = [
                    _cells(file, name, column, first) if name in used else []
                    for name, column in zip(batch.schema.names, batch.columns)
                ]
                if batch.num_rows:
                    yield Batch(columns, _faults(file, first))
                first += batch.num_rows


def _faults(file: DataFile, first: int) -> Callable[[int, str], Exception]:
    return lambda row, message: file.fault(message, row=first + row)


class _Opened:
    """A file of either kind."""

    def __init__(self, schema: Any, batches: Any) -> None:
        self.schema_names = list(schema.names)
        self.batches = batches


def _opened(file: DataFile, stack: ExitStack) -> _Opened:
    try:
        importlib.import_module("pyarrow")
    except ModuleNotFoundError as error:
        raise InvalidData(
            f"{file.name} is read by pyarrow, which is not installed: pip install 'taut[arrow]'"
        ) from error
    raw = stack.enter_context(file.open_seekable())
    head = raw.read(8)
    raw.seek(0)
    if head.startswith(_PARQUET):
        parquet = importlib.import_module("pyarrow.parquet").ParquetFile(raw)
        n_columns = max(1, len(parquet.schema_arrow.names))
        return _Opened(
            parquet.schema_arrow,
            lambda size: parquet.iter_batches(max(1, size // (8 * n_columns))),
        )
    ipc = importlib.import_module("pyarrow.ipc")
    if head.startswith(_ARROW):
        opened = ipc.open_file(raw)
        return _Opened(
            opened.schema,
            lambda size: (opened.get_batch(k) for k in range(opened.num_record_batches)),
        )
    if head.startswith(b"FEA1"):
        raise file.fault("is of the first version of Feather: write it again, as version 2")
    stream = ipc.open_stream(raw)
    return _Opened(stream.schema, lambda size: stream)


def _cells(file: DataFile, name: str, column: Any, first: int) -> Cells:
    """A column as numbers or text."""
    types = importlib.import_module("pyarrow").types
    kind = column.type
    if column.null_count:
        row = int(np.argmax(np.asarray(column.is_null())))
        raise file.fault(
            f"a cell of column {name!r} is missing: drop or impute such rows", row=first + row
        )
    if types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if types.is_integer(kind) or types.is_floating(kind):
        return column.to_numpy(zero_copy_only=False)
    if types.is_boolean(kind):
        return column.to_numpy(zero_copy_only=False).astype(np.int64)
    if types.is_decimal(kind):
        return np.array([float(value) for value in column.to_pylist()])
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return column.to_pylist()
    raise InvalidData(
        f"{file.name}: column {name!r} is of type {kind}; convert it to numbers or text, or leave "
        "it out with ignore="
    )
