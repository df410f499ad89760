"""Labels of any hashable type as class numbers, checked before any work is done."""

from collections.abc import Iterable, Sequence
from itertools import chain
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from taut.data.arrays import check_unmasked, show
from taut.errors import InvalidData, InvalidType


def as_label_sequences(y: Any, offsets: np.ndarray, name: str = "y", rows: str = "X") -> np.ndarray:
    """Flatten the labels of sequences: a list of label sequences, or one label per row.

    Labels are hashable. Where tuples could be labels or sequences, they are sequences if there are
    as many as `offsets` has. The array is typed if `y` consists of arrays of one kind, else of
    dtype object. Errors call the labels `name`, and what has the rows `rows`.

    Examples
    --------
    >>> as_label_sequences([["a"], ["b", ("c", 1)]], np.array([0, 1, 3]))
    array(['a', 'b', ('c', 1)], dtype=object)
    """
    lengths = np.diff(offsets)
    y = _array_like(y, name)
    nested = is_nested(y, len(lengths))
    if len(y) != (len(lengths) if nested else offsets[-1]):
        raise InvalidData(
            f"{name} has {len(y)} entries, {rows} has {offsets[-1]} rows in {len(lengths)} "
            "sequences; pass one list of labels per sequence, or one label per row"
        )
    if not nested:
        return _flat(y, name)
    y = [np.asarray(labels) if hasattr(labels, "__array__") else labels for labels in y]
    for i, (labels, length) in enumerate(zip(y, lengths, strict=True)):
        if isinstance(labels, str | bytes) or not hasattr(labels, "__len__"):
            raise InvalidData(
                f"{name}[{i}] is {labels!r}; pass a list of {length} labels, one per row of "
                f"{rows}[{i}]"
            )
        if getattr(labels, "ndim", 1) != 1:
            raise InvalidData(
                f"{name}[{i}] has shape {labels.shape}; pass {length} labels in one dimension"
            )
        if len(labels) != length:
            raise InvalidData(
                f"{name}[{i}] has {len(labels)} labels, {rows}[{i}] has {length} rows; "
                "pass one label per row"
            )
    # One kind only: numpy would turn numbers beside text into text.
    kinds = {labels.dtype.kind if isinstance(labels, np.ndarray) else "O" for labels in y}
    if len(kinds) == 1 and kinds != {"O"}:
        return np.concatenate(list(y))
    return _objects(chain.from_iterable(y))


def as_labels(y: Any, n: int, name: str = "y", unit: str = "row") -> np.ndarray:
    """Labels of n rows, or of what else has one, as an array, typed if `y` is."""
    labels = _flat(y, name)
    if len(labels) != n:
        raise InvalidData(
            f"X has {n} {unit}s, {name} has {len(labels)} labels: give one label to each"
        )
    return labels


def are_right(predicted: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Which labels equal the truth, whatever their types."""
    pairs = zip(predicted.tolist(), truth.tolist(), strict=True)
    return np.array([a == b for a, b in pairs], dtype=bool)


def share_right(predicted: np.ndarray, truth: np.ndarray, weight: np.ndarray) -> float:
    """The weighted share of labels that equal the truth, whatever their types."""
    return float(np.average(are_right(predicted, truth), weights=weight))


def class_index(y: Any, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Find the classes of labels, at least two, and number the labels by class.

    Labels that compare equal, such as 1 and True, are one class. Classes are sorted, or in order of
    appearance if labels cannot be compared; they are of the dtype of `y`, of the labels' common
    simple type, or of dtype object. ``classes[codes]`` are the labels. NaN, infinity, fractions and
    what is not hashable are refused.

    Examples
    --------
    >>> class_index(["b", "a", "b"])
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1], dtype=int32))
    >>> class_index([("b", 1), None])
    (array([('b', 1), None], dtype=object), array([0, 1], dtype=int32))
    """
    classes, codes = distinct(y, name)
    for code, label in enumerate(classes):
        if isinstance(label, float | np.floating) and not label.is_integer():
            i = int(np.argmax(codes == code))
            if np.isinf(label):
                raise InvalidData(f"Input {name} contains infinity at row {i}; drop such rows")
            raise InvalidData(
                f"Unknown label type: {name}[{i}] = {label:g} is continuous; classes are integers, "
                "text or other discrete labels"
            )
    if len(classes) < 2:
        found = f"1 class: {show(classes[0])}" if len(classes) else "0 classes"
        raise InvalidData(f"{name} needs at least 2 classes, got {found}; add rows of other labels")
    if classes.dtype != object:
        return classes, codes
    classes, places = sort_classes(classes)
    return classes, places[codes]


def sort_classes(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sort distinct labels of dtype object, if they can be compared; where each one is now.

    They get their common simple type, if they have one.

    Examples
    --------
    >>> sort_classes(np.array(["b", "a"], dtype=object))
    (array(['a', 'b'], dtype='<U1'), array([1, 0], dtype=int32))
    """
    try:
        order = sorted(range(len(classes)), key=classes.__getitem__)
    except TypeError:
        order = list(range(len(classes)))
    return _typed(classes[order]), np.argsort(order).astype(np.int32)


def class_weights(
    class_weight: dict | str | None, classes: np.ndarray, codes: np.ndarray, weight: np.ndarray
) -> np.ndarray:
    """Factors on the weights of rows, by class; `classes` and `codes` are from `class_index`.

    A dict has factors by label, 1 for labels that are not in it; "balanced" gives all classes the
    same summed weight. Keys that are no class, and factors that are not finite and >= 0 or are all
    zero, are refused.

    Examples
    --------
    >>> class_weights({"a": 3}, np.array(["a", "b"]), np.array([0, 1]), np.ones(2))
    array([3., 1.])
    >>> class_weights("balanced", np.array([0, 1]), np.array([0, 0, 0, 1]), np.ones(4))
    array([0.66666667, 2.        ])
    """
    factors = np.ones(len(classes))
    if class_weight is None:
        return factors
    if isinstance(class_weight, str) and class_weight == "balanced":
        sums = np.bincount(codes, weights=weight, minlength=len(classes))
        return np.divide(sums.sum() / len(classes), sums, out=factors, where=sums > 0.0)
    if not isinstance(class_weight, dict):
        raise InvalidData(
            f"class_weight = {class_weight!r}: give None, 'balanced' or a dict of factors by class"
        )
    places = {label: k for k, label in enumerate(classes.tolist())}
    for label, factor in class_weight.items():
        if label not in places:
            raise InvalidData(
                f"class_weight has the key {show(label)}, which is no label of y; its classes are "
                f"{', '.join(map(repr, list(places)[:10]))}{', ...' if len(places) > 10 else ''}"
            )
        if not (isinstance(factor, Real) and 0.0 <= float(factor) < np.inf):
            raise InvalidData(
                f"class_weight[{show(label)}] = {show(factor)}; give finite numbers >= 0"
            )
        factors[places[label]] = factor
    if not factors.any():
        raise InvalidData("class_weight is zero for all classes; give one a positive factor")
    return factors


def hold_out(codes: np.ndarray, share: float, rng: np.random.Generator) -> np.ndarray:
    """Choose a share of the rows of each class at random, as a mask, but never all of them.

    Examples
    --------
    >>> held = hold_out(np.array([0, 0, 0, 0, 1, 1, 2]), 0.5, np.random.default_rng(0))
    >>> int(held[:4].sum()), int(held[4:6].sum()), int(held[6:].sum())
    (2, 1, 0)
    """
    held = np.zeros(len(codes), dtype=bool)
    shuffled = rng.permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    for rows in np.split(by_class, np.cumsum(np.bincount(codes))[:-1]):
        held[rows[: min(round(share * len(rows)), len(rows) - 1)]] = True
    return held


def _array_like(y: Any, name: str) -> Any:
    """Labels as a sequence or an array."""
    if hasattr(y, "__array__"):
        check_unmasked(y, name)
        y = np.asarray(y)
    if isinstance(y, str | bytes) or not (isinstance(y, Sequence) or np.ndim(y)):
        raise InvalidData(
            f"Expected array-like (array or non-string sequence), got {y!r} for {name}; "
            "pass a list or an array of labels"
        )
    return y


def is_nested(y: Any, n_sequences: int) -> bool:
    """Whether the items of `y` are the labels of one sequence each, not labels themselves."""
    if len(y) == 0:
        return False
    if isinstance(y, np.ndarray) and y.ndim > 1:
        return len(y) == n_sequences
    if isinstance(y[0], tuple):
        return len(y) == n_sequences
    # Columns of some libraries of data frames do not say how many dimensions they have.
    n_dimensions: int = getattr(y[0], "ndim", hasattr(y[0], "__array__"))
    return isinstance(y[0], list) or n_dimensions > 0


def _flat(y: Any, name: str) -> np.ndarray:
    """Labels as a 1-D array, of dtype object unless they come typed."""
    y = _array_like(y, name)
    if not isinstance(y, np.ndarray):
        return _objects(y)
    try:
        return column_or_1d(y, warn=True)
    except ValueError as error:
        raise InvalidData(f"{name}: {error}; pass one label per row") from error


def _objects(labels: Iterable[Any]) -> np.ndarray:
    # np.array would make a matrix of labels that are tuples.
    return np.fromiter(labels, dtype=object)


def distinct(y: Any, name: str = "y") -> tuple[np.ndarray, np.ndarray]:
    """Distinct labels, sorted if typed and by appearance if not, and the number of each label."""
    labels = _flat(y, name)
    if labels.dtype != object:
        missing = np.isnan(labels) if labels.dtype.kind in "fcmM" else np.False_
        if missing.any():
            raise _missing(int(np.argmax(missing)), name)
        if labels.dtype.kind in "iu" and _are_close(labels):
            return _number(labels)
        values, codes = np.unique(labels, return_inverse=True)
        return values, codes.astype(np.int32)
    seen: dict[Any, int] = {}
    codes = np.empty(len(labels), dtype=np.int32)
    for i, label in enumerate(labels):
        try:
            codes[i] = seen.setdefault(label, len(seen))
        except TypeError as error:
            raise InvalidType(
                f"{name}[{i}] is of type {type(label).__name__}, which is not hashable; "
                "use tuples, text or numbers as labels"
            ) from error
    for label, code in seen.items():
        if _is_missing(label):
            raise _missing(int(np.argmax(codes == code)), name)
    return _objects(seen), codes


def _are_close(labels: np.ndarray) -> bool:
    return len(labels) > 0 and int(labels.max()) - int(labels.min()) <= 2 * len(labels)


def _number(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """As np.unique, for integers close together: by a table instead of by sorting."""
    least = labels.min()
    # As unsigned, because the difference of two small integers may wrap around.
    places = (labels - least).view(f"u{labels.itemsize}").astype(np.intp)
    values = np.flatnonzero(np.bincount(places))
    table = np.empty(values[-1] + 1, dtype=np.int32)
    table[values] = np.arange(len(values))
    return (values.astype(labels.dtype) + least).astype(labels.dtype), table[places]


def _is_missing(label: Any) -> bool:
    if isinstance(label, tuple):
        return any(map(_is_missing, label))
    try:
        return bool(label != label)
    except TypeError:
        # pandas.NA has no truth value.
        return True


def _missing(i: int, name: str) -> InvalidData:
    return InvalidData(f"{name}[{i}] is or contains NaN; drop such rows or give them a label")


def _typed(labels: np.ndarray) -> np.ndarray:
    """Labels of one simple type as an array of that type, if it holds them exactly."""
    kinds = set(map(type, labels))
    kind = kinds.pop()
    if not kinds and (kind in (bool, int, float, str) or issubclass(kind, np.generic)):
        plain = labels.tolist()
        typed = np.array(plain)
        # Numpy drops trailing NULs of text and makes floats of large integers.
        if typed.dtype.kind == np.dtype(kind).kind and typed.tolist() == plain:
            return typed
    return labels
