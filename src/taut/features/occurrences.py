"""Where features occur in rows: what extractors make of their input, before there are columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from taut.errors import InvalidData, InvalidType


class Occurrences(NamedTuple):
    """Which features each row has, by number, and with which values.

    Row r has the features ``ids[indptr[r] : indptr[r + 1]]``; -1 is none. All values are 1 without
    `values`. A feature that a row has several times counts with the sum of its values.
    """

    names: list[str]
    ids: np.ndarray
    indptr: np.ndarray
    values: np.ndarray | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return len(self.indptr) - 1

    def counts(self) -> np.ndarray:
        """How often each feature occurs."""
        return np.bincount(self.ids[self.ids >= 0], minlength=len(self.names))


class Collector:
    """Gathers occurrences one by one; names are interned, numbers go into flat arrays."""

    def __init__(self, dtype: np.dtype) -> None:
        self._numbers: dict[str, int] = {}
        self._ids = array("i")
        self._ends = array("q", [0])
        self._values = array("f" if dtype == np.float32 else "d")
        self._dtype = dtype

    def add(self, name: str, value: float = 1.0) -> None:
        """Let the row that is open have a feature."""
        self._ids.append(self._numbers.setdefault(name, len(self._numbers)))
        self._values.append(value)

    def end_row(self) -> None:
        """Close a row; the next one begins."""
        self._ends.append(len(self._ids))

    def finish(self) -> Occurrences:
        """All that was gathered."""
        return Occurrences(
            list(self._numbers),
            np.frombuffer(self._ids, dtype=np.int32),
            np.frombuffer(self._ends, dtype=np.int64),
            np.frombuffer(self._values, dtype=self._dtype),
        )


def is_number(value: Any) -> bool:
    """Whether a value counts as it is: a real number, but no truth value."""
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)


def finite(value: Any, place: str, name: Any) -> float:
    """A value as a float, unless it is NaN or infinite."""
    number = float(value)
    if not math.isfinite(number):
        raise InvalidData(f"{place}[{name!r}] is {number}: drop it, or give a finite number")
    return number


def attribute_occurrences(rows: Iterable[tuple[str, Any]], dtype: np.dtype) -> Occurrences:
    """Occurrences in rows that say themselves which features they have.

    Parameters
    ----------
    rows : iterable of (place, row)
        A place is what errors call the row. A row is a name, a collection of names, or a
        dictionary: a number is the value of the feature of that key, text makes the feature
        "key=text", a collection of texts one for each, True the feature "key", and False or None
        nothing.
    dtype : dtype
        Of the values.

    Examples
    --------
    >>> rows = [("X[0]", {"word": "the", "length": 3.0}), ("X[1]", ["a"])]
    >>> found = attribute_occurrences(rows, np.dtype(np.float32))
    >>> found.names, found.ids.tolist(), found.values.tolist()
    (['word=the', 'length', 'a'], [0, 1, 2], [1.0, 3.0, 1.0])
    """
    collector = Collector(dtype)
    for place, row in rows:
        match row:
            case str():
                collector.add(row)
            case Mapping():
                for key, value in row.items():
                    _add_item(collector, place, key, value)
            case list() | tuple() | set() | frozenset():
                for name in row:
                    collector.add(_as_name(name, place))
            case _:
                raise InvalidType(
                    f"{place} is of type {type(row).__name__}: give a dictionary of features, a "
                    "list of their names, or text"
                )
        collector.end_row()
    return collector.finish()


def _add_item(collector: Collector, place: str, key: Any, value: Any) -> None:
    if isinstance(value, str):
        collector.add(f"{key}={value}")
    elif is_number(value):
        collector.add(str(key), finite(value, place, key))
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            collector.add(f"{key}={_as_name(item, f'{place}[{key!r}]')}")
    elif value is not None and not isinstance(value, bool | np.bool_):
        raise InvalidType(
            f"{place}[{key!r}] is of type {type(value).__name__}: give text, a number, True or "
            "False, or a list of texts"
        )
    elif value:
        collector.add(str(key))


def _as_name(name: Any, place: str) -> str:
    if not isinstance(name, str):
        raise InvalidType(
            f"{place} holds {name!r:.50} of type {type(name).__name__} among names: give text, or "
            "a dictionary from names to numbers"
        )
    return name
