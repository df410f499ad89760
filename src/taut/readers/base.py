"""What a format of files is: how its bytes become parts of a data set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from taut.readers.files import DataFile


class Part(NamedTuple):
    """Some consecutive rows or examples of a file.

    Parameters
    ----------
    X : ndarray, CSR array or list
        Rows, those of sequences stacked; or a list of examples of any kind, such as the sentences
        of a text. All parts of a file are of one kind. CSR may have fewer columns than other parts:
        those that are missing are zero.
    y : ndarray or list, optional
        One target for each row; for a list of examples, one entry for each.
    sample_weight : ndarray of float64, optional
        Of rows, or of sequences where there are `lengths`.
    queries : ndarray of int64, optional
        The query of each row.
    lengths : ndarray of int64, optional
        Rows of each sequence. A sequence is never cut.
    """

    X: Any
    y: Any = None
    sample_weight: np.ndarray | None = None
    queries: np.ndarray | None = None
    lengths: np.ndarray | None = None


@dataclass(frozen=True, kw_only=True)
class Format(ABC):
    """How files of one kind are read.

    A subclass is a frozen dataclass whose fields are the options of the format: what
    `taut.read(path, format=name, **options)` takes. It writes `parts`, which reads a file from
    its beginning to its end, any number of times. What must be known before, such as the
    categories of a column, `prepared` finds by a reading of its own.

    Faults of a file are raised as ``file.fault(message, line, column)``.

    Attributes
    ----------
    name : str
        What users call it.
    suffixes : tuple of str
        Of file names, with the dot.
    first_column : int or None
        The number that files give to the first column of CSR parts. None where that is to be
        found: 0 if any row has a column 0, else 1.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]] = ()
    first_column: ClassVar[int | None] = 0

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """Whether a file that begins with these bytes is surely one of this format."""
        return False

    def prepared(self, file: DataFile) -> Self:
        """The same format, with all that must be known of a file before its parts can be read."""
        return self

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the columns of X, as a format that is `prepared` knows them."""
        return None

    @property
    def n_columns(self) -> int | None:
        """How many columns CSR parts have together, if it is known."""
        return None

    def of_columns(self, first: int, n_columns: int) -> Self:
        """The same format, for other files with the columns that one of CSR parts has."""
        return self

    @abstractmethod
    def parts(self, file: DataFile, size: int) -> Iterator[Part]:
        """Read a file from its beginning.

        Parameters
        ----------
        file : DataFile
        size : int
            Bytes of the file that a part should come from, about.

        Yields
        ------
        Part
            Its arrays are valid until the next part is asked for, so that memory can be used again.
        """
