"""Data that come in parts: each part checked as it comes, and against those before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import Matrix, as_matrix, as_sequences, check_finite
from taut.data.chunks import Chunk, as_csr, concatenate
from taut.data.targets import Vocabulary, as_targets, kind_of
from taut.data.weights import as_weights, per_block
from taut.errors import InvalidData, InvalidType

KINDS = ("rows", "sequences", "examples")

_OPTIONAL = ("y", "sample_weight", "margin")


class Parts:
    """What the parts of one data set have in common: kind, features, dtype, targets.

    The `kind` is one of `KINDS`, or None for rows or sequences, as the first part has it. Single
    examples are gathered into parts of `size` bytes. A `vocabulary` numbers labels, so that chunks
    have class codes; without it they keep the labels. `per` says what the targets of sequences
    belong to, "rows" or "blocks", and is None while all have been of length 1.
    """

    def __init__(self, kind: str | None, size: int, vocabulary: Vocabulary | None = None) -> None:
        self.kind = kind
        self.size = size
        self.vocabulary = vocabulary
        self.sparse: bool | None = None
        self.n_features: int | None = None
        self.dtype: np.dtype | None = None
        self.target: str | None = None
        self.per: str | None = None
        self._given: dict[str, bool] = {}

    def read(self, items: Iterable[Any]) -> Iterator[Chunk]:
        """Check items ``(X, y)``, ``(X, y, sample_weight)`` or ``(X, y, sample_weight, margin)``.

        A `Chunk` has been checked already. With an `x` of one dimension an item is a single
        example; such are gathered. Numbers of chunks and blocks are counted from 0. Chunks may
        share memory with the items.
        """
        first, weight = 0, 0.0
        for number, (place, item) in enumerate(self._gather(items)):
            try:
                chunk = self.fit(item) if isinstance(item, Chunk) else self.check(*item)
                chunk = replace(chunk, number=number, first=first)
            except InvalidData as error:
                raise type(error)(f"{place}: {error}") from error
            first += chunk.n_blocks
            weight += 1.0 if chunk.sample_weight is None else chunk.sample_weight.sum()
            yield chunk
        if first == 0:
            raise InvalidData(
                "there are no parts; give at least one (X, y), and if they come from an iterator, "
                "make sure that it has not been used up before"
            )
        if weight == 0.0:
            raise InvalidData(
                "sample_weight is zero in all parts; give one block a positive weight"
            )

    def check(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        margin: Any = None,
    ) -> Chunk:
        """Check one part, and that it fits to those before it."""
        if self.kind is None:
            self.kind = "sequences" if holds_matrices(X) else "rows"
        offsets = None
        rows: Any
        if self.kind == "examples":
            rows = _as_list(X, "X")
            if not rows:
                raise InvalidData("X has no examples; pass at least one")
            n = len(rows)
        elif self.kind == "sequences":
            if not holds_matrices(X):
                raise InvalidData(
                    f"X is of type {type(X).__name__}; pass a list of (length, n_features) matrices"
                )
            rows, offsets = as_sequences(X)
            n = len(offsets) - 1
        else:
            rows = as_matrix(X)
            n = rows.shape[0]
        if y is not None:
            y = _as_list(y, "y") if self.kind == "examples" else as_targets(y, n, offsets)
            if len(y) != n and self.kind == "examples":
                raise InvalidData(f"X has {n} examples, y has {len(y)} labels; give one to each")
        unit = self.kind.removesuffix("s")
        if sample_weight is not None:
            sample_weight = as_weights(sample_weight, n, unit=unit)
        if margin is not None:
            margin = per_block(margin, n, "margin", unit, "margin")
        return self.fit(Chunk(0, 0, rows, offsets, y, sample_weight, margin))

    def fit(self, chunk: Chunk, first: int = 0) -> Chunk:
        """Give a checked chunk the layout of those before it, or refuse it.

        `first` is what errors call its first row or sequence.
        """
        if not isinstance(chunk.X, list):
            chunk = replace(chunk, X=self._fit_matrix(chunk.X, chunk.offsets, first))
        if isinstance(chunk.y, np.ndarray):
            chunk = replace(chunk, y=self._fit_targets(chunk.y, chunk))
        for name in _OPTIONAL:
            given = getattr(chunk, name) is not None
            if self._given.setdefault(name, given) != given:
                raise InvalidData(
                    f"{name} is {'given' if given else 'missing'} here, but not in the first part; "
                    f"give {name} in all parts or in none"
                )
        return chunk

    def _fit_matrix(self, X: Matrix, offsets: np.ndarray | None, first: int) -> Matrix:
        sparse, width = sp.issparse(X), X.shape[1]
        if self.dtype is None:
            self.sparse, self.n_features, self.dtype = sparse, width, X.dtype
        if sparse != self.sparse:
            kinds = ["sparse" if s else "dense" for s in (sparse, self.sparse)]
            raise InvalidData(
                f"X is {kinds[0]}, the first part is {kinds[1]}; make all dense or all sparse"
            )
        if width != self.n_features:
            raise InvalidData(
                f"X has {width} features, the first part has {self.n_features}; give all parts "
                "the same features"
            )
        narrower = X.dtype.itemsize > self.dtype.itemsize
        X = as_chunk_matrix(X, self.dtype)
        if narrower:
            check_finite(X, "X", offsets, first=first)
        return X

    def _fit_targets(self, y: np.ndarray, chunk: Chunk) -> np.ndarray:
        kind = kind_of(y)
        if self.target is None:
            self.target = kind
        if (self.target, kind) == ("float", "int"):
            y = y.astype(np.float64)
        elif self.target not in ("label", kind):
            words = {"float": "real numbers", "int": "integers", "label": "labels"}
            raise InvalidData(
                f"y are {words[kind]}, those of the first part are {words[self.target]}; convert y "
                "to one type in all parts"
            )
        if chunk.offsets is not None and chunk.offsets[-1] != chunk.n_blocks:
            per = "rows" if len(y) == chunk.offsets[-1] else "blocks"
            if self.per not in (None, per):
                words = {"rows": "one per row", "blocks": "one per sequence"}
                raise InvalidData(
                    f"y has {words[per]}, before it had {words[self.per]}; make all parts alike"
                )
            self.per = per
        if self.target == "label" and self.vocabulary is not None and y.dtype != np.int32:
            y = self.vocabulary.number(y)
        return y

    def _gather(self, items: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        """Items that are parts as they are, single examples together."""
        waiting: list[tuple] = []
        limit = 1
        for k, item in enumerate(items):
            place = f"part {k}"
            if isinstance(item, Chunk):
                yield place, item
                continue
            if not isinstance(item, tuple | list) or not 2 <= len(item) <= 4:
                entries = f" with {len(item)} entries" if isinstance(item, tuple | list) else ""
                raise InvalidType(
                    f"{place} is of type {type(item).__name__}{entries}; give tuples (X, y), "
                    "(X, y, sample_weight) or (X, y, sample_weight, margin), with None for what is "
                    "missing"
                )
            item = tuple(item)
            single = self.kind in (None, "rows") and _is_row(item[0])
            if single != bool(waiting) and k > 0:
                raise InvalidData(
                    f"{place} is {'a single example' if single else 'no single example'}, unlike "
                    "those before it; give rows one by one, or in parts of two dimensions"
                )
            if not single:
                yield place, item
                continue
            if len(waiting) == limit and k > 1:
                yield _stacked(waiting, k)
                waiting = []
            # A copy, because the next item may come in the same memory.
            waiting.append((np.array(item[0]), *item[1:]))
            limit = max(1, self.size // max(1, waiting[0][0].nbytes))
        if waiting:
            yield _stacked(waiting, k + 1)


def split(chunk: Chunk, size: int, first: int | None = None) -> Iterator[Chunk]:
    """Cut a chunk into pieces of about `size` bytes, the first of at most `first` if it can be.

    Each piece has at least one block.
    """
    ends = chunk.ends()
    start, n = 0, chunk.n_blocks
    limit = size if first is None else first
    while start < n:
        stop = int(np.searchsorted(ends, ends[start] + limit, side="right")) - 1
        stop = max(start + 1, stop)
        yield chunk.between(start, stop)
        start, limit = stop, size


def rechunk(chunks: Iterable[Chunk], size: int) -> Iterator[Chunk]:
    """Cut and join consecutive chunks so that each has about `size` bytes."""
    waiting: list[Chunk] = []
    filled = 0
    number = 0
    for chunk in chunks:
        for piece in split(chunk, size, max(1, size - filled)):
            nbytes = int(piece.ends()[-1])
            if waiting and filled + nbytes > size:
                yield replace(concatenate(waiting), number=number)
                waiting, filled, number = [], 0, number + 1
            waiting.append(piece)
            filled += nbytes
        # A copy of what is left, because the next chunk may come in the same memory.
        waiting[-1] = concatenate([waiting[-1]])
    if waiting:
        yield replace(concatenate(waiting), number=number)


def as_chunk_matrix(X: Any, dtype: np.dtype) -> Matrix:
    """A checked matrix with this dtype; CSR with int64 ``indptr`` whatever its size."""
    with np.errstate(over="ignore"):
        if not sp.issparse(X):
            return X.astype(dtype, copy=False)
        data = X.data.astype(dtype, copy=False)
    return as_csr(data, X.indices, X.indptr.astype(np.int64, copy=False), X.shape[1])


def holds_matrices(X: Any) -> bool:
    """Whether the items of `X` are matrices, one per sequence."""
    if isinstance(X, np.ndarray) and X.dtype != object:
        return X.ndim == 3
    if sp.issparse(X) or not isinstance(X, list | tuple | np.ndarray) or len(X) == 0:
        return False
    try:
        return sp.issparse(X[0]) or np.ndim(X[0]) == 2
    except ValueError:
        return False


def _is_row(x: Any) -> bool:
    if isinstance(x, np.ndarray):
        return x.ndim == 1
    return isinstance(x, list | tuple) and len(x) > 0 and not is_array_like(x[0])


def is_array_like(value: Any) -> bool:
    """Whether it has items: it is an array, sparse, a list or a tuple."""
    return isinstance(value, list | tuple) or getattr(value, "ndim", 0) > 0


def _stacked(examples: list[tuple], end: int) -> tuple[str, tuple]:
    place = f"examples {end - len(examples)} to {end - 1}"
    for i, example in enumerate(examples):
        if (len(example), example[0].shape) != (len(examples[0]), examples[0][0].shape):
            raise InvalidData(
                f"example {end - len(examples) + i} has {len(example[0])} values and "
                f"{len(example)} entries, the one before has {len(examples[0][0])} and "
                f"{len(examples[0])}; make all alike"
            )
    X, *rest = zip(*examples)
    return place, (np.stack(X), *(_column(values) for values in rest))


def _column(values: tuple) -> Any:
    return None if all(value is None for value in values) else list(values)


def _as_list(values: Any, name: str) -> list[Any]:
    if isinstance(values, str | bytes) or not hasattr(values, "__iter__"):
        raise InvalidType(
            f"{name} is of type {type(values).__name__}; pass a list of examples, and of labels"
        )
    return list(values)
