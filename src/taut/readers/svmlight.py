"""svmlight and libsvm files: ``target index:value ...``, of which qid: makes queries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from taut.data.arrays import MAX_FEATURES
from taut.data.chunks import as_csr
from taut.errors import InvalidData
from taut.readers import svmlight_lines as lines
from taut.readers.base import Format, Part
from taut.readers.files import DataFile

_MAX_WHOLE = 2.0**53
_BEGINNING = re.compile(
    rb"(\s*(#[^\n]*)?\n)*[ \t]*[-+]?[\d.]+(e[-+]?\d+)?([ \t]+(qid|cost):[\d.]+)*[ \t]+\d+:[-+.\d]",
    re.IGNORECASE,
)

_FAULTS = {
    lines.BAD_TARGET: "{word} is no number, and a line begins with its target: write numbers",
    lines.SEVERAL_TARGETS: "{word} are several targets, and each row can have one: split them into "
    "files of one target each",
    lines.NO_TARGET: "the line begins with {word}, without a target before: write one, 0 if it is "
    "not known",
    lines.BAD_PAIR: "{word} is no index:value",
    lines.BAD_INDEX: "the index in {word} is more than 2147483646: renumber or hash the features",
    lines.BAD_VALUE: "the value in {word} is no number",
    lines.INFINITE: "{word} is not finite: drop or impute such rows",
    lines.DOUBLE: "the index in {word} comes twice: give each index once, in ascending order",
    lines.DESCENDING: "the index in {word} is less than the one before: sort the indices of each "
    "line in ascending order",
    lines.BAD_QUERY: "{word} is no query, a whole number from 0 on after qid:",
    lines.SOME_QUERIES: "some lines have a qid and some have none: give each line one",
    lines.LATE_QUERY: "{word} comes twice, or after the first index:value: write it once, behind "
    "the target",
    lines.BAD_COST: "{word} is no cost, a number from 0 on after cost:",
    lines.SOME_COSTS: "some lines have a cost and some have none: give each line one",
    lines.SLACK_ID: "{word} lets rows share a slack variable, which is not supported: leave it out",
    lines.TOO_LOW: "the index in {word} is 0, and columns are counted from 1: give zero_based=True "
    "if they are counted from 0",
    lines.TOO_HIGH: "the index in {word} is beyond the last of n_features columns: give a larger "
    "n_features, or leave it out",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Svmlight(Format):
    """Lines ``target [qid:number] [cost:number] index:value ... [# comment]``.

    Targets are one number for each line, whole numbers or others. ``qid:`` numbers queries, and
    ``cost:`` is the weight of a row.

    Parameters
    ----------
    zero_based : bool or "auto", default="auto"
        Whether columns are counted from 0. "auto": if any row has a column 0. A file of test data
        may lack it by chance: read it with ``like=`` the training data.
    n_features : int, optional
        The number of columns; by default the last one that a row has is the last.
    """

    name = "svmlight"
    suffixes: ClassVar[tuple[str, ...]] = (".svm", ".svmlight", ".libsvm", ".scale", ".t")

    #: Whether each row must have a query.
    _queries: ClassVar[int] = lines.UNKNOWN

    zero_based: bool | str = "auto"
    n_features: int | None = None

    def __post_init__(self) -> None:
        if self.zero_based not in (True, False, "auto"):
            raise InvalidData(f"zero_based = {self.zero_based!r}: give True, False or 'auto'")
        n: Any = self.n_features
        if n is not None and not (isinstance(n, Integral) and 1 <= int(n) <= MAX_FEATURES):
            raise InvalidData(
                f"n_features = {n!r}: give a whole number from 1 to {MAX_FEATURES}, or None"
            )

    @property
    def first_column(self) -> int | None:  # type: ignore[override]
        """0 or 1, if it is known."""
        return None if self.zero_based == "auto" else int(not self.zero_based)

    @property
    def n_columns(self) -> int | None:
        """As the user says."""
        return self.n_features

    def of_columns(self, first: int, n_columns: int) -> Self:
        """With the options that say so."""
        return replace(self, zero_based=not first, n_features=n_columns)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """Whether the first line that says something has a target and a pair."""
        return _BEGINNING.match(head) is not None

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Rows, parsed by compiled code."""
        least = self.first_column or 0
        most = lines.MAX_INDEX
        if self.n_features is not None:
            most = self.n_features - int(self.zero_based is True)
        queries, costs, n_lines = self._queries, lines.UNKNOWN, 0
        room = lines.columns_for(0)
        for buffer, end in file.blocks(size):
            if len(room.data) < len(buffer) // 4:
                room = lines.columns_for(len(buffer))
            text = np.frombuffer(buffer, np.uint8)
            found = lines.Counts(*lines.parse(text, end, room, least, most, queries, costs))
            if found.fault != lines.NO_FAULT:
                _refuse(file, buffer, n_lines + found.lines + 1, found)
            _finish(file, buffer, room, found, n_lines)
            queries, costs, n_lines = found.queries, found.costs, n_lines + found.lines
            if found.rows:
                yield _part(room, found)


def _part(room: lines.Columns, found: lines.Counts) -> Part:
    """What was parsed, where it was written."""
    rows, values = found.rows, found.values
    y: Any = room.targets[:rows]
    if found.whole and np.abs(y).max() <= _MAX_WHOLE:
        y = y.astype(np.int64)
    X = as_csr(
        room.data[:values], room.indices[:values], room.indptr[: rows + 1], found.highest + 1
    )
    costs = room.costs[:rows] if found.costs == lines.PRESENT else None
    queries = room.queries[:rows] if found.queries == lines.PRESENT else None
    return Part(X, y, costs, queries)


def _finish(
    file: DataFile, buffer: bytearray, room: lines.Columns, found: lines.Counts, n_lines: int
) -> None:
    """Read the numbers that were left to Python."""
    places = room.data, room.targets, room.costs
    for kind, slot, start, end in room.left[: found.left].tolist():
        value = float(buffer[start:end])
        if not np.isfinite(value):
            line = n_lines + buffer.count(b"\n", 0, start) + 1
            raise _fault(file, buffer, line, start, "{word} is too large for a float64: rescale it")
        places[kind][slot] = value


def _refuse(file: DataFile, buffer: bytearray, line: int, found: lines.Counts) -> NoReturn:
    raise _fault(file, buffer, line, found.place, _FAULTS[found.fault])


def _fault(file: DataFile, buffer: bytearray, line: int, place: int, message: str) -> Exception:
    """A fault in the word around a place."""
    beginning = buffer.rfind(b"\n", 0, place) + 1
    start, end = place, place
    while start > beginning and buffer[start - 1] > 32:
        start -= 1
    while end < len(buffer) and buffer[end] > 32 and end - start < 40:
        end += 1
    word = bytes(buffer[start:end]).decode("utf-8", "backslashreplace")
    return file.fault(message.format(word=f"'{word}'"), line, start - beginning + 1)
