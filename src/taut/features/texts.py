"""Features of texts, and of rows that list their features."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from taut.checks import check_choice, check_flag
from taut.errors import InvalidData, InvalidType
from taut.features.base import Extractor
from taut.features.occurrences import Collector, Occurrences, attribute_occurrences
from taut.features.templates import shape

#: Words, or single signs that are neither letters, digits nor space.
_TOKEN = re.compile(r"\w+|[^\w\s]")
_NORMS = ("l2", "none")


def _as_rows(X: Any, kinds: str) -> Any:
    if isinstance(X, str) or not hasattr(X, "__len__") or not hasattr(X, "__iter__"):
        raise InvalidType(f"X is of type {type(X).__name__}: give a list of {kinds}")
    if len(X) == 0:
        raise InvalidData("X has 0 sample(s) while a minimum of 1 is required")
    return X


class RowFeatures(Extractor):
    """Features of rows that list them themselves.

    Takes a list of rows, each a dictionary or a list of names, and returns CSR. Text in a
    dictionary makes the feature ``key=text``, a number is the value of the feature ``key``, a list
    of texts makes a feature for each, True the feature ``key``, False and None nothing.

    Parameters
    ----------
    min_count : int, default=1
        Features that occur less often in training are left out.
    hashing : int, optional
        A number of columns, such as 2**20: features get the column that their name hashes to, there
        is nothing to learn, and those that collide are summed up.
    dtype : "float32" or "float64", default="float32"
        Of the values, and so of training.

    Attributes
    ----------
    columns_ : Columns
        The names of the features that are kept, or the number of columns that names are hashed to.

    Examples
    --------
    >>> from taut.features import RowFeatures
    >>> extractor = RowFeatures()
    >>> X = extractor.fit_transform([{"animal": "cat", "kg": 4.5}, {"animal": "dog", "kg": 30.0}])
    >>> extractor.get_feature_names_out().tolist()
    ['kg', 'animal=cat', 'animal=dog']
    >>> X.toarray()
    array([[ 4.5,  1. ,  0. ],
           [30. ,  0. ,  1. ]], dtype=float32)
    """

    def __init__(
        self, *, min_count: int = 1, hashing: int | None = None, dtype: str = "float32"
    ) -> None:
        self.min_count = min_count
        self.hashing = hashing
        self.dtype = dtype

    def _occurrences(self, X: Any) -> tuple[Occurrences, None]:
        rows = _as_rows(X, "rows, each a dictionary or a list of names")
        placed = ((f"X[{i}]", row) for i, row in enumerate(rows))
        return attribute_occurrences(placed, np.dtype(self.dtype)), None


class TextFeatures(Extractor):
    """Counts of words, runs of words and runs of letters in texts.

    Takes a list of texts, or of lists of words, and returns CSR.

    Parameters
    ----------
    words : (int, int) or None, default=(1, 1)
        The shortest and the longest run of words that is a feature.
    characters : (int, int) or None, default=None
        The same of letters within a word, whose ends count as spaces: (2, 4) tells endings.
    shapes : bool, default=False
        Whether shapes of words are features; see `taut.features.shape`.
    lowercase : bool, default=True
        Whether words are lower-cased first; shapes are those of the words as they are.
    binary : bool, default=False
        Whether a feature has the value 1 however often it occurs in a text.
    norm : "l2" or "none", default="l2"
        Whether the features of a text are scaled to length 1.
    min_count : int, default=1
        Features that occur less often in training are left out.
    hashing : int, optional
        A number of columns, such as 2**20: features get the column that their name hashes to, there
        is nothing to learn, and those that collide are summed up.
    dtype : "float32" or "float64", default="float32"
        Of the values, and so of training.

    Attributes
    ----------
    columns_ : Columns
        The names of the features that are kept, or the number of columns that names are hashed to.

    Examples
    --------
    >>> from taut.features import TextFeatures
    >>> extractor = TextFeatures(words=(1, 2), norm="none")
    >>> extractor.fit_transform(["the cat sat", "The cat!"]).toarray()
    array([[1., 1., 1., 1., 1., 0., 0.],
           [1., 1., 1., 0., 0., 1., 1.]], dtype=float32)
    >>> extractor.get_feature_names_out().tolist()
    ['the', 'cat', 'the cat', 'sat', 'cat sat', '!', 'cat !']
    """

    def __init__(
        self,
        words: tuple[int, int] | None = (1, 1),
        characters: tuple[int, int] | None = None,
        *,
        shapes: bool = False,
        lowercase: bool = True,
        binary: bool = False,
        norm: str = "l2",
        min_count: int = 1,
        hashing: int | None = None,
        dtype: str = "float32",
    ) -> None:
        self.words = words
        self.characters = characters
        self.shapes = shapes
        self.lowercase = lowercase
        self.binary = binary
        self.norm = norm
        self.min_count = min_count
        self.hashing = hashing
        self.dtype = dtype

    def _check_settings(self) -> None:
        super()._check_settings()
        for name in ("shapes", "lowercase", "binary"):
            check_flag(name, getattr(self, name))
        check_choice("norm", self.norm, _NORMS)
        if self.words is None and self.characters is None and not self.shapes:
            raise InvalidData(
                "words = None, characters = None and shapes = False leave no features: give the "
                "lengths of one of them, such as words=(1, 2)"
            )
        _check_range("words", self.words)
        _check_range("characters", self.characters)

    def _occurrences(self, X: Any) -> tuple[Occurrences, None]:
        collector = Collector(np.dtype(self.dtype))
        for i, text in enumerate(_as_rows(X, "texts")):
            features = self._features(_words_of(text, f"X[{i}]"))
            for name in dict.fromkeys(features) if self.binary else features:
                collector.add(name)
            collector.end_row()
        return collector.finish(), None

    def _features(self, given: Sequence[str]) -> Iterator[str]:
        words = [word.lower() for word in given] if self.lowercase else given
        yield from map(" ".join, _runs(words, self.words))
        if self.characters is not None:
            for word in words:
                yield from (f"c:{run}" for run in _runs(f" {word} ", self.characters))
        if self.shapes:
            yield from (f"shape:{shape(word)}" for word in given)

    def _shaped(self, matrix: sp.csr_array, layout: Any) -> sp.csr_array:
        return normalize(matrix, copy=False) if self.norm == "l2" else matrix


def _runs(items: Sequence[str], sizes: tuple[int, int] | None) -> Iterator[Sequence[str]]:
    """All runs of neighbouring items whose length is in a range."""
    if sizes is not None:
        for size in range(sizes[0], sizes[1] + 1):
            for start in range(len(items) - size + 1):
                yield items[start : start + size]


def _words_of(text: Any, place: str) -> Sequence[str]:
    match text:
        case str():
            return _TOKEN.findall(text)
        case list() | tuple() if all(isinstance(word, str) for word in text):
            return text
    raise InvalidType(
        f"{place} is of type {type(text).__name__}: give text, or a list of words; rows that list "
        "their features are for RowFeatures"
    )


def _check_range(name: str, given: Any) -> None:
    if given is None:
        return
    pair = isinstance(given, list | tuple) and len(given) == 2
    if not pair or not all(type(size) is int for size in given) or not 1 <= given[0] <= given[1]:
        raise InvalidData(
            f"{name} = {given!r}: give the shortest and the longest length, such as (1, 2), or None"
        )
