"""How a file was read, as JSON values, and back."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from taut.errors import InvalidContent
from taut.readers.base import Format
from taut.readers.registry import FORMATS
from taut.readers.tabular import Column
from taut.storage import files
from taut.storage.stored import require


def to_dict(format: Format) -> dict[str, Any]:
    """The name of a format and its options.

    Examples
    --------
    >>> from taut.readers.stored import from_dict, to_dict
    >>> from taut.readers.svmlight import Svmlight
    >>> to_dict(Svmlight(n_features=3))
    {'name': 'svmlight', 'options': {'zero_based': 'auto', 'n_features': 3}}
    >>> from_dict(to_dict(Svmlight(n_features=3)))
    Svmlight(zero_based='auto', n_features=3)
    """
    options = {field.name: getattr(format, field.name) for field in fields(format)}
    return {
        "name": format.name,
        "options": {name: files.encode_nested(_plain(value)) for name, value in options.items()},
    }


def from_dict(item: dict[str, Any]) -> Format:
    """The inverse of `to_dict`; what is none is refused."""
    known = FORMATS.get(item["name"])
    require(known is not None, f"a format {item['name']!r:.50}")
    assert known is not None
    names = {field.name for field in fields(known)}
    options = {name: files.decode_nested(value) for name, value in item["options"].items()}
    require(set(options) <= names, "options of a format")
    if options.get("found") is not None:
        options["found"] = tuple(map(_column, options["found"]))
    try:
        return known(**options)
    except (TypeError, ValueError) as error:
        raise InvalidContent(f"a format with other options ({error})") from error


def _plain(value: Any) -> Any:
    """Lists in place of tuples, which are labels elsewhere."""
    return [_plain(entry) for entry in value] if isinstance(value, tuple | list) else value


def _column(stored: Any) -> Column:
    require(isinstance(stored, list) and len(stored) == len(Column._fields), "a column of a table")
    name, role, is_text, categories = stored
    texts = isinstance(categories, list) and all(isinstance(each, str) for each in categories)
    require(texts and isinstance(name, str) and isinstance(role, str), "a column of a table")
    require(isinstance(is_text, bool), "a column of a table")
    return Column(name, role, is_text, tuple(categories))
