"""Targets that come in parts: numbers, or labels and their classes."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from taut.data.arrays import as_numbers, check_finite, show
from taut.data.labels import as_label_sequences, as_labels, distinct, is_nested, sort_classes
from taut.errors import InvalidData


def as_targets(y: Any, n: int, offsets: np.ndarray | None = None, name: str = "y") -> np.ndarray:
    """Check the targets of n rows, or of n sequences and their rows, which begin at `offsets`.

    Float64 or int64 if all are numbers, which must be finite, else labels as they are.

    Examples
    --------
    >>> as_targets([1, 2.5], 2)
    array([1. , 2.5])
    >>> as_targets([["a"], ["b", "c"]], 2, np.array([0, 1, 3]))
    array(['a', 'b', 'c'], dtype=object)
    """
    per_block = offsets is None or (
        hasattr(y, "__len__") and len(y) == n and not is_nested(_indexed(y), n)
    )
    if offsets is None or per_block:
        labels = as_labels(y, n, name)
    else:
        labels = as_label_sequences(y, offsets, name)
    kind = labels.dtype.kind
    if kind == "O":
        types = set(map(type, labels))
        if not all(issubclass(t, int | float | np.integer | np.floating) for t in types) or (
            bool in types
        ):
            return labels
        kind = "i" if all(issubclass(t, int | np.integer) for t in types) else "f"
    if kind == "f":
        numbers = labels.astype(np.float64)
        check_finite(numbers, name)
        return numbers
    if kind not in "iu":
        return labels
    try:
        numbers = labels.astype(np.int64)
    except OverflowError:
        return labels
    if labels.dtype.kind == "u" and (numbers < 0).any():
        i = int(np.argmax(numbers < 0))
        raise InvalidData(f"{name}[{i}] = {labels[i]} exceeds int64; renumber the labels")
    return numbers


def as_real_targets(y: Any, n: int, name: str = "y") -> np.ndarray:
    """The numbers of n rows as float64."""
    targets = as_numbers(y, name).astype(np.float64, copy=False)
    if targets.ndim != 1:
        try:
            targets = column_or_1d(targets, warn=True)
        except ValueError as error:
            raise InvalidData(f"{name}: {error}; pass one number per row") from error
    if len(targets) != n:
        raise InvalidData(f"X has {n} rows, {name} has {len(targets)} numbers: give one to each")
    check_finite(targets, name)
    return targets


def kind_of(targets: np.ndarray) -> str:
    """What targets are: "float", "int" or "label", as which class codes count too."""
    return {"<f8": "float", "<i8": "int"}.get(targets.dtype.newbyteorder("<").str, "label")


class Vocabulary:
    """Distinct labels of data that come in parts, numbered by appearance.

    `labels` has them by number, as `encode` gives them, which may refuse one.

    Examples
    --------
    >>> words = Vocabulary()
    >>> words.number(np.array(["b", "a", "b"])), words.number(np.array(["c", "a"]))
    (array([1, 0, 1], dtype=int32), array([2, 0], dtype=int32))
    >>> words.labels
    ['a', 'b', 'c']
    """

    def __init__(self, encode: Callable[[Any], Any] | None = None) -> None:
        self._encode = encode
        self.labels: list[Any] = []
        self._codes: dict[Any, int] = {}

    def number(self, labels: Any, name: str = "y") -> np.ndarray:
        """Numbers of labels, new ones after those that were seen before."""
        values, codes = distinct(labels, name)
        table = np.empty(len(values), dtype=np.int32)
        for i, label in enumerate(values.tolist()):
            table[i] = self._codes.setdefault(label, len(self.labels))
            if table[i] == len(self.labels):
                self.labels.append(label if self._encode is None else self._encode(label))
        return table[codes]


def find_classes(parts: Iterable[Any]) -> np.ndarray | None:
    """Find the classes of targets that come in parts, arrays or lists of labels of one kind.

    Sorted, or in order of appearance if labels cannot be compared; None if numbers are not all
    whole.

    Examples
    --------
    >>> find_classes([np.array([2, 1]), np.array([5, 1])])
    array([1, 2, 5])
    """
    numbers: np.ndarray | None = None
    words = Vocabulary()
    for part in parts:
        if not (isinstance(part, np.ndarray) and part.dtype.kind in "if"):
            words.number(part)
            continue
        found, _ = distinct(part)
        if found.dtype.kind == "f" and not (found == np.trunc(found)).all():
            return None
        numbers = found if numbers is None else np.union1d(numbers, found)
    if numbers is not None:
        return numbers
    return sort_classes(np.fromiter(words.labels, dtype=object))[0]


def number_labels(labels: Any, classes: np.ndarray, name: str = "y") -> np.ndarray:
    """Number labels by class, and refuse others; classes that are numbers are sorted.

    Examples
    --------
    >>> number_labels(["b", "a"], np.array(["a", "b"]))
    array([1, 0], dtype=int32)
    """
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "if" and classes.dtype.kind in "if":
        places = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        unknown = classes[places] != labels
        if unknown.any():
            raise _unknown(labels, int(np.argmax(unknown)), classes, name)
        return places.astype(np.int32)
    table = {label: k for k, label in enumerate(classes.tolist())}
    values = labels.tolist() if isinstance(labels, np.ndarray) else labels
    codes = np.empty(len(values), dtype=np.int32)
    for i, label in enumerate(values):
        try:
            codes[i] = table[label]
        except (KeyError, TypeError) as error:
            raise _unknown(labels, i, classes, name) from error
    return codes


def _unknown(labels: Any, i: int, classes: np.ndarray, name: str) -> InvalidData:
    some = ", ".join(map(repr, classes[:10].tolist()))
    return InvalidData(
        f"{name}[{i}] = {show(labels[i])} is none of the classes {some}"
        f"{', ...' if len(classes) > 10 else ''}; name all labels in classes"
    )


def _indexed(y: Any) -> Any:
    """`y` with items by position: those of a pandas series are found by their index."""
    return np.asarray(y) if hasattr(y, "__array__") else y
