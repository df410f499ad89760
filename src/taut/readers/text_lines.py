"""Files with a label and a text in each line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from taut.checks import check_choice
from taut.errors import InvalidData
from taut.readers.base import Format, Part
from taut.readers.files import DataFile
from taut.readers.sentences import Strings, check_encoding

_TARGETS = ("first", "last", "none")


@dataclass(frozen=True, kw_only=True)
class TextLines(Format):
    r"""A label and a text in each line; blank lines are left out.

    X is a list of texts, as `taut.features.TextFeatures` takes them, y a list of labels.

    Parameters
    ----------
    target : "first", "last" or "none", default="first"
        Where the label of a line is.
    separator : str, optional
        What divides label and text; by default a tab in lines that have one, else spaces.
    encoding : str, default="utf-8"

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import taut
    >>> path = Path(tempfile.mkdtemp()) / "train.txt"
    >>> _ = path.write_text("good\tA fine film.\nbad\tDull.\n")
    >>> X, y = taut.read(path, format="text_lines")
    >>> X, y
    (['A fine film.', 'Dull.'], ['good', 'bad'])
    """

    target: str = "first"
    separator: str | None = None
    encoding: str = "utf-8"

    name = "text_lines"

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        check_choice("target", self.target, _TARGETS)
        if self.separator == "":
            raise InvalidData("separator = '': give what divides label and text, or None")

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Some lines."""
        strings = Strings()
        X: list[str] = []
        y: list[str] = []
        n_read = 0
        for number, line in file.lines(self.encoding):
            text = line.strip()
            if not text:
                continue
            if self.target != "none":
                label, text = self._divided(file, number, text)
                y.append(strings[label])
            X.append(text)
            n_read += len(line) + 1
            if n_read >= size:
                yield Part(X, y or None)
                X, y, n_read = [], [], 0
        if X:
            yield Part(X, y or None)

    def _divided(self, file: DataFile, number: int, line: str) -> tuple[str, str]:
        """The label and the text of a line."""
        separator = "\t" if self.separator is None and "\t" in line else self.separator
        if self.target == "first":
            fields = line.split(separator, 1)
        else:
            fields = line.rsplit(separator, 1)[::-1]
        if len(fields) < 2 or not fields[0].strip():
            raise file.fault(
                f"{line!r:.50} is not a label and a text; divide them by a tab or a space, or "
                "name what divides them by separator=",
                number,
            )
        return fields[0].strip(), fields[1].strip()
