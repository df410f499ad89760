"""What readers of text share: sequences of tokens that blank lines divide, and shared strings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from taut.errors import InvalidData
from taut.readers.base import Part
from taut.readers.files import DataFile


class Strings(dict[str, str]):
    """One object for each text, however often a file has it: ``strings[text]``."""

    def __missing__(self, text: str) -> str:
        self[text] = text
        return text


def check_encoding(encoding: str) -> None:
    """Refuse what is no name of an encoding."""
    try:
        "".encode(encoding)
    except (LookupError, TypeError) as error:
        raise InvalidData(f"encoding = {encoding!r}: give a name such as 'utf-8'") from error


def token_parts(
    file: DataFile,
    size: int,
    encoding: str,
    read_token: Callable[[int, str], tuple[Any, str | None] | None],
) -> Iterator[Part]:
    """Sequences of tokens, each with its label, from lines that blank lines divide.

    Parameters
    ----------
    file : DataFile
    size : int
        Characters of the file that a part should come from, about.
    encoding : str
        Of the text.
    read_token : function of the number and the text of a line
        A token and its label; None for lines that are no tokens. Labels are None where there are
        none.
    """
    X: list[list[Any]] = []
    y: list[list[str]] = []
    tokens: list[Any] = []
    labels: list[str] = []
    n_read = 0
    for number, line in file.lines(encoding):
        n_read += len(line) + 1
        if line and not line.isspace():
            found = read_token(number, line)
            if found is not None:
                tokens.append(found[0])
                if found[1] is not None:
                    labels.append(found[1])
        elif tokens:
            X.append(tokens)
            y.append(labels)
            tokens, labels = [], []
            if n_read >= size:
                yield _part(X, y)
                X, y, n_read = [], [], 0
    if tokens:
        X.append(tokens)
        y.append(labels)
    if X:
        yield _part(X, y)


def _part(X: list[list[Any]], y: list[list[str]]) -> Part:
    return Part(X, y if y[0] else None)
