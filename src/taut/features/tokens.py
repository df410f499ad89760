"""Sequences of tokens as columns of numbered values, and templates applied to these."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from taut.data.arrays import offsets_of
from taut.errors import InvalidData, InvalidType
from taut.features.occurrences import Occurrences, finite, is_number
from taut.features.templates import Macro, Template, View

_MISSING = -1


class Tokens(NamedTuple):
    """The tokens of all sequences, and where each sequence begins and the last one ends."""

    items: Sequence[Any]
    offsets: np.ndarray

    def placed(self) -> Iterator[tuple[str, Any]]:
        """Each token with what errors call it."""
        for i, (start, stop) in enumerate(
            zip(self.offsets[:-1].tolist(), self.offsets[1:].tolist())
        ):
            for t in range(start, stop):
                yield f"X[{i}][{t - start}]", self.items[t]


def as_tokens(X: Any) -> Tokens:
    """The tokens of a list of sequences."""
    if isinstance(X, str) or not hasattr(X, "__len__") or not hasattr(X, "__getitem__"):
        raise InvalidType(
            f"X is of type {type(X).__name__}: give a list of sequences, each a list of tokens"
        )
    if len(X) == 0:
        raise InvalidData("X has no sequences; pass at least one")
    for i, sequence in enumerate(X):
        if isinstance(sequence, Mapping) or not hasattr(sequence, "__len__"):
            raise InvalidType(
                f"X[{i}] is of type {type(sequence).__name__}: give a list of sequences, each a "
                "list of tokens, or one list of tokens with lengths="
            )
        if len(sequence) == 0:
            raise InvalidData(f"X[{i}] has zero length; drop it and its labels")
    items = [token for sequence in X for token in sequence]
    return Tokens(items, offsets_of([len(sequence) for sequence in X]))


class Coded(NamedTuple):
    """Values by number, -1 where there is none."""

    values: list[str]
    codes: np.ndarray


class TokenColumns:
    """The columns that tokens have: values by name of the column, texts apart from numbers.

    A token that is text is column 0, a list of texts has its columns by number, and a dictionary by
    its keys.
    """

    def __init__(self, tokens: Tokens) -> None:
        self.offsets = tokens.offsets
        n = len(tokens.items)
        numbers: dict[str, dict[str, int]] = {}
        codes: dict[str, np.ndarray] = {}
        self.numeric: dict[str, np.ndarray] = {}
        for t, (place, token) in enumerate(tokens.placed()):
            for column, value in _entries(place, token):
                if isinstance(value, str):
                    if column not in codes:
                        codes[column] = np.full(n, _MISSING, dtype=np.int32)
                        numbers[column] = {}
                    known = numbers[column]
                    codes[column][t] = known.setdefault(value, len(known))
                elif is_number(value):
                    column_values = self.numeric.setdefault(column, np.zeros(n))
                    column_values[t] = finite(value, place, column)
                elif value is not None:
                    raise InvalidType(
                        f"{place}[{column!r}] is of type {type(value).__name__}: templates take "
                        "text, and numbers that are features as they are; give "
                        "SequenceFeatures(template=None) for positions that list their features"
                    )
        self.texts = {name: Coded(list(numbers[name]), codes[name]) for name in codes}

    @property
    def n_tokens(self) -> int:
        """How many tokens there are."""
        return int(self.offsets[-1])


def _entries(place: str, token: Any) -> Iterable[tuple[str, Any]]:
    match token:
        case str():
            return (("0", token),)
        case Mapping():
            return ((str(name), value) for name, value in token.items())
        case list() | tuple():
            return ((str(k), value) for k, value in enumerate(token))
    raise InvalidType(
        f"{place} is of type {type(token).__name__}: give text, a list of texts, or a dictionary "
        "from columns to values"
    )


def template_occurrences(columns: TokenColumns, templates: Sequence[Template]) -> Occurrences:
    """What templates, and the numbers of tokens, give at each position.

    Work is done on numbers of values, for all positions at a time; the name of a feature is put
    together once, however often it occurs.
    """
    around = _Around(columns)
    numbers: dict[str, int] = {}  # several combinations of values may have one name
    ids = np.empty((columns.n_tokens, len(templates) + len(columns.numeric)), dtype=np.int32)
    for k, template in enumerate(templates):
        kinds, examples = around.kinds(template)
        parts = [around.coded(macro) for macro in template.macros]
        seen = [[part.values[code] for code in part.codes[examples].tolist()] for part in parts]
        found = zip(*seen, strict=True) if seen else iter([()])
        named = [numbers.setdefault(template.name(each), len(numbers)) for each in found]
        ids[:, k] = np.array([*named, _MISSING], dtype=np.int32)[kinds]
    values = None
    if columns.numeric:
        values = np.ones(ids.shape, dtype=np.float64)
        for k, (name, column) in enumerate(columns.numeric.items(), len(templates)):
            number = numbers.setdefault(name, len(numbers))
            ids[:, k] = np.where(column != 0.0, number, _MISSING)
            values[:, k] = column
    indptr = np.arange(columns.n_tokens + 1, dtype=np.int64) * ids.shape[1]
    return Occurrences(
        list(numbers), ids.ravel(), indptr, None if values is None else values.ravel()
    )


class _Around:
    """Values of views, at positions around each position."""

    def __init__(self, columns: TokenColumns) -> None:
        self.columns = columns
        sizes = np.diff(columns.offsets)
        self.position = np.arange(columns.n_tokens)
        self.first = np.repeat(columns.offsets[:-1], sizes)
        self.behind = np.repeat(columns.offsets[1:], sizes)
        self._views: dict[View, Coded] = {}
        self._macros: dict[Macro, Coded] = {}

    def _view(self, view: View) -> Coded:
        """The values of a view at the positions themselves."""
        if view not in self._views:
            column = self.columns.texts[view.column]
            numbers: dict[str, int] = {}
            table = np.full(len(column.values) + 1, _MISSING, dtype=np.int32)  # and of no value
            for code, value in enumerate(column.values):
                seen = view.of(value)
                if seen is not None:
                    table[code] = numbers.setdefault(seen, len(numbers))
            self._views[view] = Coded(list(numbers), table[column.codes])
        return self._views[view]

    def coded(self, macro: Macro) -> Coded:
        """The values of a macro, beyond the ends of the sequence by markers."""
        if macro not in self._macros:
            self._macros[macro] = self._shifted(macro)
        return self._macros[macro]

    def _shifted(self, macro: Macro) -> Coded:
        values, codes = self._view(macro.view)
        if macro.offset == 0:
            return Coded(values, codes)
        place = self.position + macro.offset
        beyond = self.first - place if macro.offset < 0 else place - self.behind + 1
        inside = beyond <= 0
        sign = "-" if macro.offset < 0 else "+"
        markers = [f"_B{sign}{k}" for k in range(1, abs(macro.offset) + 1)]
        outside = len(values) - 1 + beyond
        there = codes[np.where(inside, place, self.position)]
        return Coded([*values, *markers], np.where(inside, there, outside).astype(np.int32))

    def kinds(self, template: Template) -> tuple[np.ndarray, np.ndarray]:
        """The number of each position's combination of values, and an example of each."""
        n = self.columns.n_tokens
        kinds = np.zeros(n, dtype=np.int64)
        examples = np.zeros(1, dtype=np.int64)
        for macro in template.macros:
            values, codes = self.coded(macro)
            missing = (kinds < 0) | (codes < 0)
            key = np.where(missing, -1, kinds * len(values) + codes)
            found, examples, kinds = np.unique(key, return_index=True, return_inverse=True)
            if found[0] < 0:
                kinds, examples = kinds - 1, examples[1:]
        return kinds, examples
