"""Weights of sequences in the form of `crfsuite dump`, for eyes and for programs that read it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.errors import InvalidData, InvalidType
from taut.estimators import ChainSVM
from taut.storage import files

#: Attributes of the first and of the last position.
_FIRST, _LAST = "__BOS__", "__EOS__"
_ARROW = " --> "


def to_crfsuite(model: Any, path: str | os.PathLike) -> None:
    """Write the weights of a `ChainSVM` as `crfsuite dump` prints those of a CRF.

    Labels, attributes, transitions and state features, each with all digits of its weight; those of
    weight 0 are left out. Attributes are the names of features, or x0, x1, ... where the model has
    none. Weights of first and last labels are those of the attributes `__BOS__` and `__EOS__`. It
    is a text to look at and to read with programs made for dumps; CRFsuite itself loads no dumps.

    Parameters
    ----------
    model : ChainSVM
        Fitted, without a kernel.
    path : str or path
        An existing file is replaced as a whole.

    Examples
    --------
    >>> import os, tempfile
    >>> import taut
    >>> from taut.exports import to_crfsuite
    >>> X, y = [[[1.0, 0.0], [0.0, 1.0]]], [["noun", "verb"]]
    >>> model = taut.ChainSVM(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.txt")
    ...     to_crfsuite(model, path)
    ...     with open(path) as file:
    ...         lines = file.read().splitlines()
    >>> lines[:4]
    ['LABELS = {', '      0: noun', '      1: verb', '}']
    """
    if not isinstance(model, ChainSVM):
        raise InvalidType(
            f"model is of type {type(model).__name__}: weights of labels and of pairs of "
            "neighbours are those of a fitted ChainSVM"
        )
    check_is_fitted(model)
    if "dual_coef_" in vars(model):
        raise InvalidData(
            f"ChainSVM has kernel_ = {model.kernel_!r}: its features have no weights to write; fit "
            "with kernel='linear'"
        )
    with files.whole_file(path) as file:
        file.write("".join(f"{line}\n" for line in _lines(model)).encode())


def _lines(model: ChainSVM) -> Iterator[str]:
    labels = _names("label", map(str, model.classes_.tolist()))
    known: Any = model._column_names()
    names = [f"x{j}" for j in range(model.coef_.shape[1])] if known is None else list(known)
    weights = [*model.coef_.T]
    for name, ends in ((_FIRST, model.start_), (_LAST, model.end_)):
        if ends.any():
            names, weights = [*names, name], [*weights, ends]
    attributes = _names("feature", names)
    yield from _table("LABELS", _numbered(labels))
    yield from _table("ATTRIBUTES", _numbered(attributes))
    yield from _table("TRANSITIONS", _weighted(1, labels, labels, model.transition_))
    yield from _table("STATE_FEATURES", _weighted(0, attributes, labels, np.stack(weights)))


def _table(title: str, rows: Iterator[str]) -> Iterator[str]:
    yield f"{title} = {{"
    yield from rows
    yield "}"
    yield ""


def _numbered(names: list[str]) -> Iterator[str]:
    return (f"  {place:5d}: {name}" for place, name in enumerate(names))


def _weighted(kind: int, rows: list[str], columns: list[str], weights: np.ndarray) -> Iterator[str]:
    for i, j in np.argwhere(weights):
        # Without an exponent, which readers of dumps do not know.
        weight = np.format_float_positional(weights[i, j], trim="0")
        yield f"  ({kind}) {rows[i]}{_ARROW}{columns[j]}: {weight}"


def _names(what: str, given: Any) -> list[str]:
    """Names that a line can hold and that tell things apart."""
    names = list(given)
    for name in names:
        if name.splitlines() != [name] or name != name.strip() or _ARROW in name:
            raise InvalidData(
                f"the {what} {name!r} cannot be written: it is empty, begins or ends with a space, "
                f"or has a line break or {_ARROW!r} within; rename it"
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidData(f"two {what}s are called {twice!r} in writing: rename one of them")
    return names
