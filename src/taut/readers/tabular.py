"""Files of columns that have names: numbers, and categories as columns of zeros and ones."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from taut.data.chunks import as_csr
from taut.errors import InvalidData
from taut.readers.base import Format, Part
from taut.readers.files import DataFile

Cells = np.ndarray | Sequence[str]  # of a column: numbers, or text that may be numbers

_MISSING = frozenset(["", "na", "n/a", "nan", "null", "none", "?"])
_MOST_CATEGORIES = 1_000_000
_SPARSE = 0.25  # share of columns that are not zero, below which rows are CSR
_FEATURE, _TARGET, _WEIGHT, _QUERY = "feature", "target", "weight", "query"


class Batch(NamedTuple):
    """Some rows, column by column; `fault` makes an error of the number of one and a message."""

    columns: list[Cells]
    fault: Callable[[int, str], Exception]


class Column(NamedTuple):
    """What is known of a column: `categories` of text in X, in order."""

    name: str
    role: str
    is_text: bool
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Tabular(Format):
    """What formats with named columns share.

    `found` are the columns that a reading has found; a file with test data is read by these.
    """

    target: str | int | None = None
    weight: str | int | None = None
    query: str | int | None = None
    ignore: Sequence[str | int] = ()
    found: tuple[Column, ...] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        one = isinstance(self.ignore, str | int)
        object.__setattr__(self, "ignore", (self.ignore,) if one else tuple(self.ignore))

    @abstractmethod
    def names(self, file: DataFile) -> list[str]:
        """The names of all columns."""

    @abstractmethod
    def batches(self, file: DataFile, size: int) -> Iterator[Batch]:
        """All rows."""

    @property
    def feature_names(self) -> list[str] | None:
        """Names of columns, and ``name=category`` for those of categories."""
        if self.found is None:
            return None
        return [
            name
            for column in self.found
            if column.role == _FEATURE
            for name in (
                [f"{column.name}={category}" for category in column.categories]
                if column.is_text
                else [column.name]
            )
        ]

    def used(self, names: list[str]) -> set[str]:
        """Which columns of a file are read."""
        if self.found is not None:
            return {column.name for column in self.found}
        return {names[k] for k in self._roles(names)}

    def prepared(self, file: DataFile) -> Self:
        """With the columns and categories that a reading finds."""
        if self.found is not None:
            return self
        file.keep()
        names = self.names(file)
        roles = self._roles(names)
        kinds = _Kinds(len(names))
        while kinds.unsettled:
            kinds.begin()
            for batch in self.batches(file, 1 << 20):
                for k, role in roles.items():
                    kinds.look(k, batch.columns[k], role == _FEATURE)
                    if len(kinds.categories[k]) > _MOST_CATEGORIES:
                        raise file.fault(
                            f"column {names[k]!r} has more than {_MOST_CATEGORIES} categories: it "
                            "is probably a name or a number of rows, leave it out with ignore="
                        )
        return replace(
            self,
            found=tuple(
                Column(names[k], role, kinds.is_text[k], tuple(sorted(kinds.categories[k])))
                for k, role in roles.items()
            ),
        )

    def _roles(self, names: list[str]) -> dict[int, str]:
        """What each column that is not left out is for, by its place."""
        left_out = {_place_of("ignore", given, names) for given in self.ignore}
        roles = {k: _FEATURE for k in range(len(names)) if k not in left_out}
        for role in (_TARGET, _WEIGHT, _QUERY):
            given = getattr(self, role)
            if given is None:
                continue
            k = _place_of(role, given, names)
            if roles.get(k) != _FEATURE:
                raise InvalidData(f"{role} = {given!r} names a column that has another use")
            roles[k] = role
        if _FEATURE not in roles.values():
            raise InvalidData("no column is left for X: name fewer of them in other options")
        return roles

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Rows, categories as zeros and ones."""
        assert self.found is not None
        names = self.names(file)
        places = [self._place_in(file, names, column) for column in self.found]
        width = len(self.feature_names or ())
        n_features = sum(column.role == _FEATURE for column in self.found)
        sparse = n_features < _SPARSE * width
        for batch in self.batches(file, size):
            features: list[tuple[np.ndarray, Column]] = []
            rest: dict[str, Any] = dict.fromkeys((_TARGET, _WEIGHT, _QUERY))
            for column, k in zip(self.found, places):
                if k is None:
                    continue
                cells = _Cells(column, batch.columns[k], batch.fault)
                if column.role == _FEATURE:
                    features.append((cells.codes() if column.is_text else cells.numbers(), column))
                elif column.role == _TARGET:
                    rest[_TARGET] = cells.labels() if column.is_text else cells.targets()
                else:
                    rest[column.role] = getattr(cells, column.role)()
            X = _one_hot(features, width) if sparse else _dense(features, width)
            yield Part(X, rest[_TARGET], rest[_WEIGHT], rest[_QUERY])

    def _place_in(self, file: DataFile, names: list[str], column: Column) -> int | None:
        """Where a known column is in this file; targets may be missing."""
        if column.name in names:
            return names.index(column.name)
        if column.role != _FEATURE:
            return None
        raise file.fault(
            f"has no column {column.name!r}, which the training data have; it has {_some(names)}"
        )


class _Kinds:
    """Whether columns are numbers or text, found by reading them until nothing changes."""

    def __init__(self, n: int) -> None:
        self.is_text = [False] * n
        self.categories: list[set[str]] = [set() for _ in range(n)]
        self.unsettled = True
        self._any = False

    def begin(self) -> None:
        """Begin a reading."""
        self.unsettled = self._any = False

    def look(self, k: int, cells: Cells, count: bool) -> None:
        """Look at some cells of a column, and count categories in those of X."""
        if isinstance(cells, np.ndarray):
            return
        if not self.is_text[k] and _first_text(cells) is not None:
            self.is_text[k] = True
            # Categories that looked like numbers before are found by another reading.
            self.unsettled = True
        if self.is_text[k] and count:
            self.categories[k].update(cells)
            self.categories[k].discard("")


class _Cells(NamedTuple):
    """The cells of a column, as what its role makes of them."""

    column: Column
    values: Cells
    fault: Callable[[int, str], Exception]

    def numbers(self) -> np.ndarray:
        """Finite numbers."""
        if isinstance(self.values, np.ndarray):
            numbers = self.values.astype(np.float64)
        else:
            try:
                numbers = np.array([float(cell) for cell in self.values])
            except ValueError:
                row = next(i for i, cell in enumerate(self.values) if not is_number(cell))
                raise self._fault(row, "no number") from None
        finite = np.isfinite(numbers)
        if not finite.all():
            raise self._fault(int(np.argmin(finite)), "not finite")
        return numbers

    def targets(self) -> np.ndarray:
        """Numbers, as int64 if all were written so."""
        if isinstance(self.values, np.ndarray):
            return self.values
        numbers = self.numbers()
        try:
            whole = np.array([int(cell) for cell in self.values], dtype=np.int64)
        except (ValueError, OverflowError):
            return numbers
        return whole

    def labels(self) -> np.ndarray:
        """Text, none of it empty."""
        labels = np.empty(len(self.values), dtype=object)
        labels[:] = [str(cell) for cell in self.values]
        empty = labels == ""
        if empty.any():
            raise self._fault(int(np.argmax(empty)), "missing")
        return labels

    def codes(self) -> np.ndarray:
        """The numbers of categories."""
        known = {category: k for k, category in enumerate(self.column.categories)}
        values = [str(cell) for cell in self.values]
        codes = np.array([known.get(cell, -1) for cell in values], dtype=np.int64)
        if (codes < 0).any():
            row = int(np.argmax(codes < 0))
            what = "missing" if values[row] == "" else "no category of the training data"
            raise self._fault(row, what)
        return codes

    def weight(self) -> np.ndarray:
        """Numbers from 0 on."""
        numbers = self.numbers()
        if (numbers < 0.0).any():
            raise self._fault(int(np.argmax(numbers < 0.0)), "negative")
        return numbers

    def query(self) -> np.ndarray:
        """Whole numbers."""
        numbers = self.numbers()
        wrong = (numbers != np.trunc(numbers)) | (np.abs(numbers) > 2.0**53)
        if wrong.any():
            raise self._fault(int(np.argmax(wrong)), "no whole number")
        return numbers.astype(np.int64)

    def _fault(self, row: int, what: str) -> Exception:
        cell: Any = self.values[row]
        shown = repr(cell if isinstance(cell, str) else cell.item())
        remedy = "drop or impute such rows, or leave the column out with ignore="
        if isinstance(cell, str) and cell.strip().lower() in _MISSING:
            what = "missing"
        return self.fault(row, f"{shown:.60} in column {self.column.name!r} is {what}: {remedy}")


def _dense(features: list[tuple[np.ndarray, Column]], width: int) -> np.ndarray:
    X = np.zeros((len(features[0][0]), width))
    first = 0
    for values, column in features:
        if column.is_text:
            X[np.arange(len(values)), first + values] = 1.0
            first += len(column.categories)
        else:
            X[:, first] = values
            first += 1
    return X


def _one_hot(features: list[tuple[np.ndarray, Column]], width: int) -> Any:
    n, k = len(features[0][0]), len(features)
    data, indices = np.ones((n, k)), np.empty((n, k), dtype=np.int32)
    first = 0
    for place, (values, column) in enumerate(features):
        if column.is_text:
            indices[:, place] = first + values
            first += len(column.categories)
        else:
            data[:, place], indices[:, place] = values, first
            first += 1
    return as_csr(data.ravel(), indices.ravel(), k * np.arange(n + 1), width)


def is_number(cell: str) -> bool:
    """Whether a cell is a number, as others than Python write it too."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _first_text(cells: Sequence[str]) -> str | None:
    """The first cell that is neither a number nor missing."""
    try:
        for cell in cells:
            float(cell)
    except ValueError:
        pass
    else:
        return next((cell for cell in cells if "_" in cell), None)
    for cell in cells:
        if not is_number(cell) and cell.strip().lower() not in _MISSING:
            return cell
    return None


def _place_of(option: str, given: str | int, names: list[str]) -> int:
    """The place of a column that a user names or numbers, from the end where it is negative."""
    if isinstance(given, str):
        if given not in names:
            raise InvalidData(f"{option} = {given!r} is no column: there are {_some(names)}")
        return names.index(given)
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise InvalidData(f"{option} = {given!r}: give the name or the number of a column")
    if not -len(names) <= given < len(names):
        raise InvalidData(f"{option} = {given}, and there are {len(names)} columns, from 0 on")
    return int(given) % len(names)


def _some(names: list[str]) -> str:
    return ", ".join(map(repr, names[:10])) + ", ..." * (len(names) > 10)
