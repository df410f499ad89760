"""Templates: lines that say which features a position of a sequence has, as in CRF++.

A line such as ``U01:%x[-1,0]/%x[0,0]`` is a feature for each text that it becomes when each macro
is replaced by a value around the position: ``%x[-1,0]`` by column 0 of the position before it.
Outside of the sequence the value is ``_B-1`` right before it, ``_B+1`` right behind it, and so on.
A macro whose value is missing makes no feature.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from taut.checks import as_path
from taut.errors import InvalidData, InvalidFile, InvalidType

_MACRO = re.compile(r"%(\w+)\[([^\]]*)\]")
_FARTHEST = 1000  # positions from the one that a feature belongs to


class View(NamedTuple):
    """What a macro makes of a column: the values of `function`, of a `size` where it has one."""

    function: str
    column: str
    size: int = 0

    def of(self, value: str) -> str | None:
        """The value of the view where the column has this one; None where there is none."""
        return _FUNCTIONS[self.function](value, self.size)


class Macro(NamedTuple):
    """A view, so many positions behind the one that the feature belongs to."""

    offset: int
    view: View


class Template(NamedTuple):
    """A line: macros, and the texts around them, one more than macros."""

    texts: tuple[str, ...]
    macros: tuple[Macro, ...]

    def name(self, values: Iterable[str]) -> str:
        """The feature for these values of the macros."""
        first, *others = self.texts
        return first + "".join(value + text for value, text in zip(values, others, strict=True))


def shape(word: str) -> str:
    """What the letters of a word look like: X for capitals, x for others, d for digits.

    Other signs stand for themselves. Runs count as one.

    Examples
    --------
    >>> shape("McDonald"), shape("1990-91"), shape("U.S.")
    ('XxXx', 'd-d', 'X.X.')
    """
    return "".join(kind for kind, _ in groupby(map(_kind, word)))


def _kind(letter: str) -> str:
    if letter.isalpha():
        return "X" if letter.isupper() else "x"
    return "d" if letter.isdigit() else letter


def _prefix(value: str, size: int) -> str | None:
    return value[:size] if len(value) >= size else None


def _suffix(value: str, size: int) -> str | None:
    return value[-size:] if len(value) >= size else None


_FUNCTIONS: dict[str, Callable[[str, int], str | None]] = {
    "x": lambda value, _: value,
    "lower": lambda value, _: value.lower(),
    "shape": lambda value, _: shape(value),
    "prefix": _prefix,
    "suffix": _suffix,
}
_SIZED = ("prefix", "suffix")


def read_template(path: str | os.PathLike[str]) -> list[str]:
    r"""The lines of a template file, as CRF++ has them, for `SequenceFeatures(template=...)`.

    Parameters
    ----------
    path : path-like
        A text file in UTF-8: features in lines that begin with U, comments after #, and B.

    Returns
    -------
    list of str
        Without comments and empty lines.

    Raises
    ------
    InvalidFile
        A line is no template; the error names it.

    Examples
    --------
    >>> import tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "template")
    >>> with open(path, "w") as file:
    ...     _ = file.write("# unigrams\nU00:%x[0,0]\n\nB\n")
    >>> read_template(path)
    ['U00:%x[0,0]', 'B']
    """
    path = as_path("path", path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise InvalidFile(f"{path.name} is not UTF-8 ({error}): convert it to UTF-8") from error
    kept = []
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if text and not text.startswith("#"):
            try:
                parse([text])
            except InvalidData as error:
                raise InvalidFile(f"{path.name}, line {number}: {error}") from error
            kept.append(text)
    return kept


def parse(lines: Sequence[str]) -> list[Template]:
    """The templates of some lines.

    Examples
    --------
    >>> [template] = parse(["U01:%x[-1,0]/%x[0,0]", "B"])
    >>> template.name(["the", "cat"])
    'U01:the/cat'
    """
    if isinstance(lines, str) or not isinstance(lines, Sequence):
        raise InvalidType(
            f"template = {lines!r:.80}: give a list of lines such as 'U01:%x[-1,0]/%x[0,0]', "
            "read_template(path), 'default', or None where positions list their own features"
        )
    return [_parse_line(line) for line in lines if not _is_silent(line)]


def _is_silent(line: str) -> bool:
    """Whether a line stands for what a chain has anyway, or for nothing."""
    if not isinstance(line, str):
        raise InvalidType(f"the template holds {line!r:.80}: give lines of text")
    text = line.strip()
    return text in ("", "B") or text.startswith("#")


def _parse_line(line: str) -> Template:
    text = line.strip()
    if text.startswith("B"):
        raise InvalidData(
            f"template line {text!r}: a pair of neighbouring labels has one weight, whatever the "
            "words: give 'B' alone, or leave the line out"
        )
    if not text.startswith("U"):
        raise InvalidData(
            f"template line {text!r}: lines of features begin with U, comments with #"
        )
    texts, macros, start = [], [], 0
    for found in _MACRO.finditer(text):
        texts.append(text[start : found.start()])
        macros.append(_macro(text, found[1], [part.strip() for part in found[2].split(",")]))
        start = found.end()
    texts.append(text[start:])
    if any("%" in part and re.search(r"%\w+\[", part) for part in texts):
        raise InvalidData(f"template line {text!r} has a macro without ]: write %x[-1,0]")
    return Template(tuple(texts), tuple(macros))


def _macro(line: str, function: str, arguments: list[str]) -> Macro:
    if function not in _FUNCTIONS:
        raise InvalidData(
            f"template line {line!r} has the macro %{function}: there are "
            f"{', '.join(f'%{name}' for name in _FUNCTIONS)}"
        )
    sized = function in _SIZED
    if len(arguments) != 2 + sized or not all(arguments):
        form = f"%{function}[position,column{',size' * sized}]"
        raise InvalidData(f"template line {line!r} has %{function}[{','.join(arguments)}]: {form}")
    offset = _integer(line, arguments[0], -_FARTHEST)
    return Macro(
        offset, View(function, arguments[1], _integer(line, arguments[2], 1) if sized else 0)
    )


def _integer(line: str, text: str, low: int) -> int:
    if not re.fullmatch(r"[+-]?\d{1,4}", text) or not low <= int(text) <= _FARTHEST:
        raise InvalidData(f"template line {line!r}: {text} is no number from {low} to {_FARTHEST}")
    return int(text)


def window_template(
    column: str | int = 0,
    *,
    window: int = 2,
    ngrams: int = 2,
    reach: int | None = None,
    prefixes: int = 0,
    suffixes: int = 0,
    shapes: bool = False,
) -> list[str]:
    """Lines for one column: its values around a position, and what the value there looks like.

    Parameters
    ----------
    column : str or int, default=0
        The name or number of a column.
    window : int, default=2
        How far single values are looked at, before and behind.
    ngrams : int, default=2
        The longest run of neighbouring values that is a feature.
    reach : int, optional
        How far such runs may lie away; as far as `window` by default.
    prefixes, suffixes : int, default=0
        The longest beginning and ending of the value itself.
    shapes : bool, default=False
        Whether its shape is a feature; see `taut.features.shape`.

    Returns
    -------
    list of str
        To be added to others, and given to `SequenceFeatures(template=...)`.

    Examples
    --------
    >>> from taut.features import window_template
    >>> window_template("pos", window=1)
    ['Upos[-1]:%x[-1,pos]', 'Upos[0]:%x[0,pos]', 'Upos[1]:%x[1,pos]',
     'Upos[-1..0]:%x[-1,pos]|%x[0,pos]', 'Upos[0..1]:%x[0,pos]|%x[1,pos]']
    >>> window_template(window=0, prefixes=1, shapes=True)
    ['U0[0]:%x[0,0]', 'U0.prefix1:%prefix[0,0,1]', 'U0.shape:%shape[0,0]']
    """
    lines = [f"U{column}[{k}]:%x[{k},{column}]" for k in range(-window, window + 1)]
    far = window if reach is None else reach
    for size in range(2, ngrams + 1):
        for first in range(-far, far - size + 2):
            macros = "|".join(f"%x[{k},{column}]" for k in range(first, first + size))
            lines.append(f"U{column}[{first}..{first + size - 1}]:{macros}")
    for function, longest in (("prefix", prefixes), ("suffix", suffixes)):
        for size in range(1, longest + 1):
            lines.append(f"U{column}.{function}{size}:%{function}[0,{column},{size}]")
    if shapes:
        lines.append(f"U{column}.shape:%shape[0,{column}]")
    return lines
