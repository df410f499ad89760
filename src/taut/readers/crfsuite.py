r"""Files of CRFsuite: a label and attributes in each line, divided by tabs."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from taut.readers.base import Format, Part
from taut.readers.files import DataFile
from taut.readers.sentences import Strings, check_encoding, token_parts

_ESCAPED = re.compile(r"\\(.)")
_COLON = re.compile(r"(?<!\\)(?:\\\\)*:")  # that no backslash escapes


@dataclass(frozen=True, kw_only=True)
class CrfSuite(Format):
    r"""A label and the attributes of a position in each line; blank lines end sequences.

    An attribute is a name, or ``name:value`` with a number; ``\:`` and ``\\`` stand for a colon and
    a backslash in names. X is a list of sequences of positions, each a list of names, or a
    dictionary from names to values where one of these is not 1. These are for
    ``SequenceFeatures(template=None)``.

    Parameters
    ----------
    target : bool, default=True
        Whether lines begin with a label.
    encoding : str, default="utf-8"

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import taut
    >>> path = Path(tempfile.mkdtemp()) / "train.crfsuite"
    >>> _ = path.write_text("DT\tw=the\tfirst\nNN\tw=cat\tlength:3\n")
    >>> X, y = taut.read(path)
    >>> X[0], y[0]
    ([['w=the', 'first'], {'w=cat': 1.0, 'length': 3.0}], ['DT', 'NN'])
    """

    target: bool = True
    encoding: str = "utf-8"

    name = "crfsuite"
    suffixes = (".crfsuite",)

    def __post_init__(self) -> None:
        check_encoding(self.encoding)

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Whole sequences."""
        strings = Strings()

        def token(number: int, line: str) -> tuple[Any, str | None]:
            fields = line.split("\t")
            if fields[0].startswith("@weight:"):
                raise file.fault(
                    "has the weight of a sequence; take such lines out, and give fit sample_weight",
                    number,
                    1,
                )
            label = strings[_ESCAPED.sub(r"\1", fields[0])] if self.target else None
            start = len(fields[0]) + 1 if self.target else 0
            return _attributes(file, strings, number, fields[self.target :], start), label

        yield from token_parts(file, size, self.encoding, token)


def _attributes(
    file: DataFile, strings: Strings, number: int, fields: list[str], start: int
) -> list[str] | dict[str, float]:
    """The attributes of a line; `start` is how many characters stand before them."""
    names, values = [], []
    for field in fields:
        if field:
            name, value = _attribute(file, number, field, start)
            names.append(strings[name])
            values.append(value)
        start += len(field) + 1
    if all(value == 1.0 for value in values):
        return names
    summed: dict[str, float] = {}
    for name, value in zip(names, values, strict=True):
        summed[name] = summed.get(name, 0.0) + value
    return summed


def _attribute(file: DataFile, number: int, field: str, start: int) -> tuple[str, float]:
    if ":" not in field and "\\" not in field:
        return field, 1.0
    colon = _COLON.search(field)
    if colon is None:
        return _ESCAPED.sub(r"\1", field), 1.0
    name, value = field[: colon.end() - 1], field[colon.end() :]
    try:
        amount = float(value) if value else 1.0
    except ValueError:
        amount = math.nan
    if not math.isfinite(amount):
        raise file.fault(
            rf"{value!r:.50} is no finite number; write \: for a colon in a name",
            number,
            start + colon.end() + 1,
        )
    return _ESCAPED.sub(r"\1", name), amount
