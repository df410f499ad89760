"""CSV and TSV files."""

from __future__ import annotations

import csv
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from taut.errors import InvalidData
from taut.readers.files import DataFile
from taut.readers.tabular import Batch, Tabular, is_number

_DELIMITERS = (",", ";", "\t")
_LOOKED_AT = 20  # lines that tell the delimiter


@dataclass(frozen=True, kw_only=True)
class Delimited(Tabular):
    """Cells between commas, semicolons or tabs, quoted by '"' where they contain these.

    Columns of which all cells are numbers are numbers. Others are categories: each becomes a column
    of zeros and ones. Missing cells are refused.

    Parameters
    ----------
    target : str or int, optional
        The column of y, by name or number; numbers count from 0, negative ones from the last.
    weight, query : str or int, optional
        The columns of weights and of queries.
    ignore : list of str or int, optional
        Columns to leave out.
    header : bool or "auto", default="auto"
        Whether the first line has names. "auto": if it has no numbers, and the second one has, or
        if it has the name that `target` gives.
    delimiter : str or "auto", default="auto"
        "auto": the comma, semicolon or tab that cuts the first lines into equally many cells, or
        else the first one into most.
    """

    name = "csv"
    suffixes = (".csv", ".tsv", ".tab")

    header: bool | str = "auto"
    delimiter: str = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.header not in (True, False, "auto"):
            raise InvalidData(f"header = {self.header!r}: give True, False or 'auto'")
        given: Any = self.delimiter
        if given != "auto" and not (
            isinstance(given, str) and len(given) == 1 and given not in '"\r\n'
        ):
            raise InvalidData(f"delimiter = {given!r}: give one character, or 'auto'")

    def names(self, file: DataFile) -> list[str]:
        """Those of the header, or numbers."""
        return self._beginning(file)[0]

    def batches(self, file: DataFile, size: int) -> Iterator[Batch]:
        """Cells as text."""
        names, has_header, delimiter = self._beginning(file)
        rows: list[list[str]] = []
        lines: list[int] = []
        filled = 0
        for line, cells in _rows(file, delimiter):
            if has_header:
                has_header = False
                continue
            if len(cells) != len(names):
                raise file.fault(
                    f"the line has {len(cells)} cells, the first one {len(names)}: quote cells "
                    "that contain the delimiter, and write empty ones too",
                    line,
                )
            rows.append(cells)
            lines.append(line)
            filled += sum(map(len, cells)) + len(cells)
            if filled >= size:
                yield Batch([list(column) for column in zip(*rows)], _faults(file, lines))
                rows, lines, filled = [], [], 0
        if rows:
            yield Batch([list(column) for column in zip(*rows)], _faults(file, lines))

    def _beginning(self, file: DataFile) -> tuple[list[str], bool, str]:
        """Names of columns, whether they are a line of the file, and the delimiter."""
        file.keep()
        delimiter = self._delimiter_of(file) if self.delimiter == "auto" else self.delimiter
        with closing(_rows(file, delimiter)) as rows:
            first, second = next(rows, (0, []))[1], next(rows, (0, []))[1]
        if not first:
            raise file.fault("has no rows; check that it is the file that you mean")
        has_header = self.header
        if has_header == "auto":
            told = not second or any(map(is_number, second)) or self.target in first
            has_header = told and not any(map(is_number, first))
        if not has_header:
            return [str(k) for k in range(len(first))], False, delimiter
        names = [name.strip() for name in first]
        for name in names:
            if names.count(name) > 1:
                raise file.fault(f"two columns have the name {name!r}: rename one of them", 1)
        return names, True, delimiter

    def _delimiter_of(self, file: DataFile) -> str:
        counts = []
        for delimiter in _DELIMITERS:
            with closing(_rows(file, delimiter)) as rows:
                sizes = [len(cells) for _, (_, cells) in zip(range(_LOOKED_AT), rows)]
            if sizes:
                same = len(set(sizes)) == 1 and sizes[0] > 1
                counts.append((same, sizes[0], delimiter))
        return max(counts, key=lambda count: count[:2], default=(False, 0, ","))[2]


def _faults(file: DataFile, lines: list[int]) -> Callable[[int, str], Exception]:
    return lambda row, message: file.fault(message, lines[row])


def _rows(file: DataFile, delimiter: str) -> Generator[tuple[int, list[str]]]:
    """Numbers of lines, and their cells; blank lines are left out."""
    reader = csv.reader((text + "\n" for _, text in file.lines()), delimiter=delimiter, strict=True)
    try:
        for cells in reader:
            if cells:
                yield reader.line_num, cells
    except csv.Error as error:
        raise file.fault(
            f"is no CSV here ({error}): check quotes and the delimiter", reader.line_num
        ) from error
