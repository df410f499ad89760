"""All of a file in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from taut.data.chunks import as_csr
from taut.data.source import Source
from taut.data.targets import find_classes
from taut.errors import InvalidData
from taut.readers.base import Part

if TYPE_CHECKING:
    from taut.readers.base import Format


@dataclass(frozen=True, eq=False)
class Table:
    r"""What `taut.read` returns: the data of a file, in memory.

    Estimators take it in place of X and y, and `X, y = table` unpacks it.

    Parameters
    ----------
    X : ndarray, CSR array or list
        Rows, those of sequences stacked; or a list of examples.
    y : ndarray or list, optional
        Targets of rows, or of examples.
    sample_weight : ndarray, optional
        Of rows, or of sequences where there are `lengths`.
    queries : ndarray of int64, optional
        The query of each row: what `RankSVM.fit` takes as groups.
    lengths : ndarray of int64, optional
        Rows of each sequence.
    feature_names : list of str, optional
        Names of the columns of X.
    name : str
        Of the file.
    format : Format, optional
        How it was read, with all that was found: `read(path, like=table)` reads another file so.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import taut
    >>> path = Path(tempfile.mkdtemp()) / "train.svm"
    >>> _ = path.write_text("1 1:0.5 3:2\n-1 2:1\n")
    >>> table = taut.read(path)
    >>> table
    Table('train.svm', 2 rows, 3 features, CSR float64, 3 values, 2 classes)
    >>> X, y = table
    >>> y
    array([ 1, -1])
    """

    X: Any
    y: Any = None
    sample_weight: np.ndarray | None = None
    queries: np.ndarray | None = None
    lengths: np.ndarray | None = None
    feature_names: list[str] | None = None
    name: str = ""
    format: Format | None = None

    def __iter__(self) -> Iterator[Any]:
        yield self.X
        yield self.y

    def __repr__(self) -> str:
        words = [repr(self.name), *self._size(), *self._targets()]
        if self.sample_weight is not None:
            words.append("weights")
        return f"Table({', '.join(words)})"

    def _size(self) -> list[str]:
        if isinstance(self.X, list):
            return [_count(len(self.X), "example")]
        n, width = self.X.shape
        words = [_count(n, "row"), _count(width, "feature")]
        if self.lengths is not None:
            words.insert(0, _count(len(self.lengths), "sequence"))
        if self.queries is not None:
            words.insert(0, _count(len(np.unique(self.queries)), "quer", "y", "ies"))
        if sp.issparse(self.X):
            return [*words, f"CSR {self.X.dtype}", _count(self.X.nnz, "value")]
        return [*words, str(self.X.dtype)]

    def _targets(self) -> list[str]:
        if self.y is None:
            return ["no targets"]
        if isinstance(self.y, list):
            return []
        classes = find_classes([self.y])
        if classes is None or len(classes) > max(100, len(self.y) // 2):
            return ["numbers as targets"]
        return [_count(len(classes), "class", "", "es")]

    def widened(self, n_features: int) -> Table:
        """The same with columns of zeros behind the last, if rows are CSR and lack them.

        Files of sparse rows do not tell of columns that no row has. More columns are refused.
        """
        return replace(self, X=widened(self.X, n_features, self.name))


def _count(n: int, what: str, one: str = "", many: str = "s") -> str:
    return f"{n} {what}{one if n == 1 else many}"


def widened(X: Any, n_features: int, name: str) -> Any:
    """Rows of a file with as many columns as a model has: those that CSR lacks are zero."""
    if not sp.issparse(X) or X.shape[1] == n_features:
        return X
    if X.shape[1] > n_features:
        raise InvalidData(
            f"{name} has {X.shape[1]} features, the model was fitted with {n_features}: fit it "
            f"with n_features={X.shape[1]}, or leave the columns from {n_features + 1} on out of "
            "the file"
        )
    return as_csr(X.data, X.indices, X.indptr, n_features)


def rows_of(part: Part, start: int, stop: int) -> Part:
    """Some consecutive rows of a part without sequences, in the same memory."""
    X = part.X
    if sp.issparse(X):
        indptr = X.indptr[start : stop + 1]
        values = slice(int(indptr[0]), int(indptr[-1]))
        X = as_csr(X.data[values], X.indices[values], indptr - indptr[0], X.shape[1])
    else:
        X = X[start:stop]
    return Part(
        X,
        *(None if value is None else value[start:stop]
          for value in (part.y, part.sample_weight, part.queries)),
    )  # fmt: skip


def joined(parts: list[Part]) -> Part:
    """One part of at least one, with arrays of its own; CSR is as wide as the widest."""
    growing = Growing()
    for part in parts:
        growing.add(part)
    return growing.part()


class Growing:
    """Parts that are added one after the other, copied into arrays that grow."""

    def __init__(self) -> None:
        self.n_parts = 0
        self._width = 0
        self._columns: dict[str, _Column] = {}
        self._lists: dict[str, list[Any]] = {}

    def add(self, part: Part) -> None:
        """Copy a part to the end."""
        self.n_parts += 1
        for name, value in part._asdict().items():
            if sp.issparse(value):
                self._width = max(self._width, value.shape[1])
                pointers = self._column("indptr")
                last = pointers.last()
                self._column("data").add(value.data)
                self._column("indices").add(value.indices)
                pointers.add(value.indptr[1:] + last if self.n_parts > 1 else value.indptr)
            elif isinstance(value, list):
                self._lists.setdefault(name, []).extend(value)
            elif value is not None:
                self._column(name).add(value)

    def _column(self, name: str) -> _Column:
        return self._columns.setdefault(name, _Column())

    def part(self) -> Part:
        """All of them as one."""
        found: dict[str, Any] = {name: each.array() for name, each in self._columns.items()}
        if "data" in found:
            data, indices, indptr = (found.pop(name) for name in ("data", "indices", "indptr"))
            found["X"] = as_csr(data, indices, indptr, self._width)
        return Part(**(found | self._lists))


class _Column:
    """An array that grows; the system moves large ones without copying them."""

    def __init__(self) -> None:
        self._values = np.empty(0)
        self._n = 0

    def last(self) -> int:
        """The last number, or 0."""
        return int(self._values[self._n - 1]) if self._n else 0

    def add(self, values: np.ndarray) -> None:
        """Copy values to the end, of a type that holds all of them."""
        n = self._n + len(values)
        if self._n == 0:
            self._values = np.empty_like(values)
        elif self._values.dtype != values.dtype:
            kind = np.result_type(self._values.dtype, values.dtype)
            self._values = self._values.astype(kind)
        if n > len(self._values):
            self._values.resize((n + n // 2, *values.shape[1:]), refcheck=False)
        self._values[self._n : n] = values
        self._n = n

    def array(self) -> np.ndarray:
        """What was added."""
        self._values.resize((self._n, *self._values.shape[1:]), refcheck=False)
        return self._values


def table_of(source: Source) -> Table:
    """All of a source in memory.

    Examples
    --------
    >>> from taut.data import Stream
    >>> X, y = table_of(Stream([(np.eye(2), [3, 4]), (np.eye(2), [3, 5])]))
    >>> X.shape, y
    ((4, 2), array([3, 4, 3, 5]))
    """
    growing = Growing()
    with closing(source.chunks()) as chunks:
        for chunk in chunks:
            lengths = None if chunk.offsets is None else np.diff(chunk.offsets)
            y = source.labels(chunk)
            growing.add(Part(chunk.X, y, chunk.sample_weight, None, lengths))
    return Table(*growing.part(), name=type(source).__name__)


class Extent:
    """Which columns the parts of a file have, and whether targets are whole numbers.

    `first` and `width` are those of a format, where it knows them.
    """

    def __init__(self, first: int | None, width: int | None) -> None:
        self._first, self._width = first, width
        self._lowest, self._highest = 1, -1
        self._sparse = False
        self.real = False

    def add(self, part: Part) -> None:
        """Take a part into account."""
        if sp.issparse(part.X):
            self._sparse = True
            if self._first is None and self._lowest:
                self._lowest = int(part.X.indices.min(initial=1))
            self._highest = max(self._highest, part.X.shape[1] - 1)
        if isinstance(part.y, np.ndarray) and part.y.dtype.kind == "f":
            self.real = True

    @property
    def first(self) -> int:
        """The number of the first column."""
        return self._lowest if self._first is None else self._first

    @property
    def width(self) -> int:
        """How many columns there are."""
        width = self._highest + 1 - self.first if self._width is None else self._width
        if width < 1:
            raise InvalidData(
                "no row of the file has a feature, so that there are no columns: give n_features"
            )
        return width

    def settled(self, format: Format) -> Format:
        """The format, with the columns that were found, for other files."""
        return format.of_columns(self.first, self.width) if self._sparse else format

    def laid_out(self, part: Part) -> Part:
        """A part with all columns, counted from 0, and targets of one type; its X is used up."""
        X, y = part.X, part.y
        if sp.issparse(X):
            if X.shape[1] - self.first > self.width:
                raise InvalidData(
                    f"the file has {X.shape[1]} columns, counted from {self.first}, and "
                    f"n_features = {self.width}: give a larger number, or none"
                )
            if self.first:
                X.indices -= self.first
            X = as_csr(X.data, X.indices, X.indptr, self.width)
        if self.real and isinstance(y, np.ndarray) and y.dtype.kind == "i":
            y = y.astype(np.float64)
        return part._replace(X=X, y=y)

    def whole(self, part: Part) -> Part:
        """All of a file, in the layout of `as_matrix`."""
        part = self.laid_out(part)
        if sp.issparse(part.X) and part.X.nnz < 2**31:
            part.X.indptr = part.X.indptr.astype(np.int32)
        return part
