"""The formats that files may have, and how one is chosen for a file."""

from __future__ import annotations

import difflib
from dataclasses import fields
from typing import Any

from taut.errors import InvalidData, InvalidType
from taut.readers.arrow_files import Arrow
from taut.readers.base import Format
from taut.readers.conll import Conll, ConllU
from taut.readers.crfsuite import CrfSuite
from taut.readers.delimited import Delimited
from taut.readers.files import DataFile
from taut.readers.numpy_files import Npy, Npz
from taut.readers.shard_folders import ShardFolder
from taut.readers.svm_hmm import SvmHmm
from taut.readers.svmlight import Svmlight
from taut.readers.text_lines import TextLines

_KNOWN: tuple[type[Format], ...] = (
    Svmlight,
    SvmHmm,
    Delimited,
    Npy,
    Npz,
    Arrow,
    ShardFolder,
    Conll,
    ConllU,
    CrfSuite,
    TextLines,
)

#: Formats by name.
FORMATS: dict[str, type[Format]] = {known.name: known for known in _KNOWN}


def as_format(file: DataFile, given: str | Format | None, options: dict[str, Any]) -> Format:
    """The format that a user names, or that suits the name or the content of a file."""
    if isinstance(given, Format):
        if options:
            raise InvalidData(
                f"{next(iter(options))} is given beside the format {given}: make it an argument of "
                "that"
            )
        return given
    if given is None:
        return _made(_format_of(file), options)
    if not isinstance(given, str):
        raise InvalidType(f"format = {given!r}: give a name, a Format, or None")
    if given not in FORMATS:
        raise InvalidData(f"format = {given!r}: give one of {sorted(FORMATS)}")
    return _made(FORMATS[given], options)


def _format_of(file: DataFile) -> type[Format]:
    if file.is_folder:
        return ShardFolder
    named = [known for known in _KNOWN if file.suffix and file.suffix in known.suffixes]
    if named:
        return named[0]
    head = file.head()
    for known in _KNOWN:
        if known.recognises(head):
            return known
    raise InvalidData(
        f"{file.name}: neither its name nor its beginning tells its format: give format=, one of "
        f"{sorted(FORMATS)}"
    )


def _made(kind: type[Format], options: dict[str, Any]) -> Format:
    """A format with options, which must be its own."""
    known = [field.name for field in fields(kind) if field.repr]
    for name in options:
        if name not in known:
            close = difflib.get_close_matches(name, known, 1)
            meant = f"; do you mean {close[0]}?" if close else ""
            raise InvalidType(
                f"the format {kind.name!r} has no option {name!r}{meant}; it has "
                f"{', '.join(known) or 'none'}"
            )
    return kind(**options)
