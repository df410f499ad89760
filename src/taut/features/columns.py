"""Which column a feature has: by a vocabulary of names, or by a hash of the name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils import murmurhash3_32

from taut.errors import InvalidData
from taut.features.occurrences import Occurrences
from taut.storage.stored import require

#: Text of the user's may hold lone surrogates, from undecodable bytes of a file.
_ERRORS = "surrogatepass"
_WIDTHS = (np.uint8, np.uint16, np.uint32)  # of lengths of names


class Columns(ABC):
    """A number for each feature that is kept."""

    n_columns: int

    @abstractmethod
    def places(self, names: Sequence[str]) -> np.ndarray:
        """The column of each feature, as int32; -1 for those without one."""

    @abstractmethod
    def names(self) -> list[str]:
        """What the columns are called."""

    def forget_places(self) -> None:
        """Free the memory that looking names up takes, if any, until the next look."""

    @abstractmethod
    def stored(self) -> dict[str, np.ndarray]:
        """Arrays from which `restored` makes the same columns."""


class Vocabulary(Columns):
    """A column for each of some names, which are kept as one text.

    Parameters
    ----------
    text : ndarray of uint8
        All names in UTF-8, one behind the other.
    sizes : ndarray of unsigned integers
        The bytes of each name.

    Examples
    --------
    >>> known = Vocabulary.of(["the", "cat"])
    >>> known.places(["cat", "dog"]), known.names()
    (array([ 1, -1], dtype=int32), ['the', 'cat'])
    """

    def __init__(self, text: np.ndarray, sizes: np.ndarray) -> None:
        self.text, self.sizes = text, sizes
        self.n_columns = len(sizes)
        self._places: dict[str, int] | None = None

    @classmethod
    def of(cls, names: Sequence[str]) -> Vocabulary:
        """The vocabulary of some names in this order."""
        encoded = [name.encode("utf-8", _ERRORS) for name in names]
        sizes = np.fromiter(map(len, encoded), np.int64, len(encoded))
        width = next(w for w in _WIDTHS if sizes.max(initial=0) <= np.iinfo(w).max)
        return cls(np.frombuffer(b"".join(encoded), np.uint8), sizes.astype(width))

    @classmethod
    def learn(cls, found: Occurrences, min_count: int) -> Vocabulary:
        """The features that occur at least `min_count` times.

        Frequent ones come first: rows of weights that are used together then lie together.
        """
        counts = found.counts()
        order = np.argsort(-counts, kind="stable")
        kept = order[: np.count_nonzero(counts >= min_count)]
        if len(kept) == 0:
            raise InvalidData(
                f"no feature occurs {min_count} times or more in {found.n_rows} rows: lower "
                "min_count, or give more data"
            )
        return cls.of([found.names[i] for i in kept.tolist()])

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray]) -> Vocabulary:
        """The inverse of `stored`, of arrays that are not trusted."""
        text, sizes = arrays["text"], arrays["sizes"]
        require(text.dtype == np.uint8 and sizes.dtype in _WIDTHS, "names of another type")
        require(text.ndim == sizes.ndim == 1 and len(sizes) > 0, "names of another shape")
        require(int(sizes.sum(dtype=np.uint64)) == len(text), "names that do not fill their text")
        known = cls(text, sizes)
        require(len(known._numbered()) == len(sizes), "names that occur twice")
        return known

    def stored(self) -> dict[str, np.ndarray]:
        """The text and the sizes."""
        return {"text": self.text, "sizes": self.sizes}

    def names(self) -> list[str]:
        """What the columns are called."""
        return list(self._names())

    def _names(self) -> Iterator[str]:
        text, start = self.text.tobytes(), 0
        for size in self.sizes.tolist():
            yield text[start : start + size].decode("utf-8", _ERRORS)
            start += size

    def _numbered(self) -> dict[str, int]:
        if self._places is None:
            self._places = {name: column for column, name in enumerate(self._names())}
        return self._places

    def places(self, names: Sequence[str]) -> np.ndarray:
        """The column of each feature; -1 for those that the vocabulary lacks."""
        known = self._numbered()
        return np.fromiter((known.get(name, -1) for name in names), np.int32, len(names))

    def __getstate__(self) -> dict[str, Any]:
        # Training needs the memory that the table of places takes; it is made again when asked for.
        return vars(self) | {"_places": None}

    def forget_places(self) -> None:
        """Free the memory that looking names up takes."""
        self._places = None


class Hashed(Columns):
    """One of `n_columns` columns for any name: features that collide share one.

    Examples
    --------
    >>> columns = Hashed(8).places(["the", "cat"])
    >>> bool(((columns >= 0) & (columns < 8)).all())
    True
    """

    def __init__(self, n_columns: int) -> None:
        self.n_columns = n_columns

    @classmethod
    def restored(cls, arrays: dict[str, np.ndarray]) -> Hashed:
        """The inverse of `stored`, of arrays that are not trusted."""
        size = arrays["hashed"]
        require(size.dtype == np.int64 and size.shape == (1,), "a number of columns")
        require(bool(0 < size[0] < 2**31), "a number of columns out of range")
        return cls(int(size[0]))

    def stored(self) -> dict[str, np.ndarray]:
        """The number of columns."""
        return {"hashed": np.array([self.n_columns], dtype=np.int64)}

    def places(self, names: Sequence[str]) -> np.ndarray:
        """The column of each feature."""
        hashes = (murmurhash3_32(name.encode("utf-8", _ERRORS), positive=True) for name in names)
        return (np.fromiter(hashes, np.int64, len(names)) % self.n_columns).astype(np.int32)

    def names(self) -> list[str]:
        """Numbers: hashes do not tell the names."""
        return [f"hash{column}" for column in range(self.n_columns)]


def restored(arrays: dict[str, np.ndarray]) -> Columns:
    """Columns from what `stored` of either kind has given."""
    kind: type[Vocabulary] | type[Hashed] = Hashed if "hashed" in arrays else Vocabulary
    return kind.restored(arrays)


def matrix_of(found: Occurrences, columns: Columns, dtype: np.dtype) -> sp.csr_array:
    """Occurrences as a CSR matrix: features without a column are left out, others summed up."""
    table = columns.places(found.names)
    placed = np.append(table, np.int32(-1))[found.ids]  # an id of -1 finds the last one
    kept = placed >= 0
    ends = np.zeros(len(kept) + 1, dtype=np.int32 if len(kept) < 2**31 else np.int64)
    np.cumsum(kept, out=ends[1:])
    indices = placed[kept]
    del placed
    if found.values is None:
        values = np.ones(len(indices), dtype)
    else:
        values = found.values[kept].astype(dtype, copy=False)
    shape = (found.n_rows, columns.n_columns)
    matrix = sp.csr_array((values, indices, ends[found.indptr]), shape=shape)
    matrix.sum_duplicates()
    return matrix
