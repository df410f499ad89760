"""Files of tokens in columns: those of the CoNLL shared tasks, and CoNLL-U."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from taut.errors import InvalidData
from taut.readers.base import Format, Part
from taut.readers.files import DataFile
from taut.readers.sentences import Strings, check_encoding, token_parts

#: The columns of CoNLL-U, in this order.
UNIVERSAL = (
    "id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Conll(Format):
    r"""A token in each line, in columns; blank lines end sentences.

    Tabs divide the columns of a line that has any, else runs of spaces do. Lines whose first column
    is -DOCSTART- are left out. X is a list of sentences, each a list of tuples of text; y is a list
    of lists of labels.

    Parameters
    ----------
    columns : sequence of int, optional
        The columns of a token, counted from 0, or from the end if negative; by default all but
        `target`.
    target : int or None, default=-1
        The column of the label; None where there is none.
    encoding : str, default="utf-8"

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import taut
    >>> path = Path(tempfile.mkdtemp()) / "train.conll"
    >>> _ = path.write_text("The DT B-NP\ncat NN I-NP\n\nSleep VB B-VP\n")
    >>> X, y = taut.read(path)
    >>> X[0], y[0]
    ([('The', 'DT'), ('cat', 'NN')], ['B-NP', 'I-NP'])
    """

    columns: Sequence[int] | None = None
    target: int | None = -1
    encoding: str = "utf-8"

    name = "conll"
    suffixes = (".conll", ".iob", ".iob2", ".bio")

    def __post_init__(self) -> None:
        check_encoding(self.encoding)
        if self.target is not None:
            _check_column("target", self.target)
        for column in () if self.columns is None else self.columns:
            _check_column("columns", column)

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Whole sentences."""
        reader = _Columns(self, file)
        yield from token_parts(file, size, self.encoding, reader.token)


class _Columns:
    """Reads lines of columns, as many in each as in the first."""

    def __init__(self, known: Conll, file: DataFile) -> None:
        self.known, self.file = known, file
        self.strings = Strings()
        self.width = 0
        self.kept: list[int] = []
        self.target: int | None = None

    def token(self, number: int, line: str) -> tuple[tuple[str, ...], str | None] | None:
        """The columns of a token and its label."""
        fields = line.split("\t") if "\t" in line else line.split()
        if fields[0] == "-DOCSTART-":
            return None
        if len(fields) != self.width:
            self._see(number, fields)
        label = None if self.target is None else self.strings[fields[self.target]]
        return tuple(self.strings[fields[k]] for k in self.kept), label

    def _see(self, number: int, fields: list[str]) -> None:
        n = len(fields)
        if self.width:
            raise self.file.fault(
                f"has {n} columns, lines before have {self.width}; mend the line, or divide all "
                "columns by tabs where values are empty or hold spaces",
                number,
                min(n, self.width) + 1,
            )
        self.width = n
        target = self.known.target
        self.target = None if target is None else self._place(number, target)
        columns = self.known.columns
        if columns is None:
            self.kept = [k for k in range(n) if k != self.target]
        else:
            self.kept = [self._place(number, column) for column in columns]
        if not self.kept:
            raise self.file.fault(
                "has one column, and that is taken for labels; give target=None where there are "
                "none",
                number,
            )

    def _place(self, number: int, column: int) -> int:
        if not -self.width <= column < self.width:
            raise self.file.fault(
                f"has {self.width} columns, and column {column} is asked for; count from 0, or "
                "from the end by negative numbers",
                number,
            )
        return column % self.width


def _check_column(name: str, column: Any) -> None:
    if not isinstance(column, int) or isinstance(column, bool):
        raise InvalidData(f"{name} has {column!r}: give numbers of columns, counted from 0")


@dataclass(frozen=True, kw_only=True)
class ConllU(Format):
    r"""CoNLL-U: a token in each line, in ten columns; comments, ranges and empty nodes are skipped.

    X is a list of sentences, each a list of tuples of text; y is a list of lists of labels.

    Parameters
    ----------
    columns : sequence of str, default=("form",)
        The columns of a token: some of id, form, lemma, upos, xpos, feats, head, deprel, deps and
        misc.
    target : str or None, default="upos"
        The column of the label; None for no labels.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import taut
    >>> path = Path(tempfile.mkdtemp()) / "train.conllu"
    >>> line = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    >>> rows = [("1-2", "It's", "_"), (1, "It", "PRON"), (2, "'s", "AUX")]
    >>> _ = path.write_text("# text = It's\n" + "".join(line.format(*row) for row in rows))
    >>> X, y = taut.read(path)
    >>> X[0], y[0]
    ([('It',), ("'s",)], ['PRON', 'AUX'])
    """

    columns: Sequence[str] = ("form",)
    target: str | None = "upos"

    name = "conllu"
    suffixes = (".conllu",)

    def __post_init__(self) -> None:
        named = [*self.columns, *(() if self.target is None else (self.target,))]
        for column in [self.columns] if isinstance(self.columns, str) else named:
            if isinstance(self.columns, str) or column not in UNIVERSAL:
                raise InvalidData(f"columns and target: {column!r} is not among {UNIVERSAL}")
        if not self.columns:
            raise InvalidData(f"columns = {self.columns!r}: give some of {UNIVERSAL}")

    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Whole sentences."""
        strings = Strings()
        kept = [UNIVERSAL.index(column) for column in self.columns]
        target = None if self.target is None else UNIVERSAL.index(self.target)

        def token(number: int, line: str) -> tuple[tuple[str, ...], str | None] | None:
            if line.startswith("#"):
                return None
            fields = line.split("\t")
            if len(fields) != len(UNIVERSAL):
                raise file.fault(
                    f"has {len(fields)} columns divided by tabs, CoNLL-U has {len(UNIVERSAL)}; "
                    "mend the line, or read other files with format='conll'",
                    number,
                    min(len(fields), len(UNIVERSAL)) + 1,
                )
            if not fields[0].isdecimal():
                first, mark, second = fields[0].partition("-" if "-" in fields[0] else ".")
                if mark and first.isdecimal() and second.isdecimal():
                    return None
                raise file.fault(
                    f"begins with {fields[0]!r:.30}; tokens are numbered 1, 2, ..., ranges 1-2 and "
                    "empty nodes 1.1",
                    number,
                    1,
                )
            label = None if target is None else strings[fields[target]]
            return tuple(strings[fields[k]] for k in kept), label

        yield from token_parts(file, size, "utf-8", token)
