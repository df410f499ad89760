"""Extractors on disk: settings as JSON, names of columns as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.errors import InvalidType
from taut.features.base import Extractor
from taut.features.columns import restored
from taut.features.sequences import SequenceFeatures
from taut.features.texts import RowFeatures, TextFeatures
from taut.storage.files import decode_nested, encode_nested
from taut.storage.stored import require

EXTRACTORS: dict[str, type[Extractor]] = {
    extractor.__name__: extractor for extractor in (RowFeatures, SequenceFeatures, TextFeatures)
}


def to_dict(extractor: Extractor) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """An extractor as what JSON holds, and arrays; those of one that is not fitted are none."""
    name = type(extractor).__name__
    if EXTRACTORS.get(name) is not type(extractor):
        raise InvalidType(
            f"features = {extractor!r} is not one of taut's and cannot be stored: save the model "
            "without it, and call transform before predict"
        )
    settings = extractor.get_params(deep=False)
    meta: dict[str, Any] = {
        "class": name,
        "settings": {name: encode_nested(value) for name, value in settings.items()},
    }
    if not hasattr(extractor, "columns_"):
        return meta, {}
    if isinstance(extractor, SequenceFeatures):
        meta["template"] = extractor.template_
    return meta, extractor.columns_.stored()


def same_extractors(one: Extractor, other: Extractor) -> bool:
    """Whether two fitted extractors make the same columns of the same data.

    Examples
    --------
    >>> from taut.features import TextFeatures
    >>> from taut.features.stored import same_extractors
    >>> one, other = (TextFeatures().fit([text]) for text in ("the cat", "the dog"))
    >>> same_extractors(one, one), same_extractors(one, other)
    (True, False)
    """
    own, others = one.columns_.stored(), other.columns_.stored()
    same = _beside_columns(one) == _beside_columns(other) and own.keys() == others.keys()
    return same and all(np.array_equal(own[name], others[name]) for name in own)


def _beside_columns(extractor: Extractor) -> str:
    """The kind of an extractor and all that it has but its columns."""
    known = {name: value for name, value in vars(extractor).items() if name != "columns_"}
    return repr((type(extractor), sorted(known.items())))


def from_dict(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> Extractor:
    """The inverse of `to_dict`, of what is not trusted."""
    settings = {name: decode_nested(value) for name, value in meta["settings"].items()}
    extractor = EXTRACTORS[meta["class"]](**settings)
    if not arrays:
        return extractor
    extractor._check_settings()
    extractor.columns_ = restored(arrays)
    if isinstance(extractor, SequenceFeatures):
        lines = meta["template"]
        require(lines is None or isinstance(lines, list), "the lines of a template")
        extractor.restore_template(lines)
    return extractor
