"""Training data that a program makes or fetches part by part."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taut.data.chunks import Chunk, concatenate
from taut.data.labels import class_index
from taut.data.memory import as_bytes
from taut.data.parts import KINDS, Parts, split
from taut.data.source import Source, read_ahead
from taut.data.targets import find_classes
from taut.errors import InvalidData, InvalidType
from taut.storage.digest import LEAVE_OUT, Digest

_CHUNK = 4_000_000


class Stream(Source):
    """Blocks from any iterable of parts, which need never be in memory together.

    Parts are checked as they come, cut to chunks, and fetched by a thread of their
    own while the chunk before is in use. The first part is fetched at once. What can be read again
    must give the same data each time, in the same order: bounds are sums over all readings. Each
    chunk is compared with that of the first reading before anybody gets it.

    Parameters
    ----------
    parts : iterable, or function without arguments that returns a new iterator at each call
        Of ``(X, y)``, ``(X, y, sample_weight)`` or ``(X, y, sample_weight, margin)``, with None for
        what is missing; or of `Chunk`. An iterator, such as a generator, can be read only once; a
        list, any other iterable or a function can be read again.
    kind : {"rows", "sequences", "examples"}, default="rows"
        What the `X` of a part is: a matrix, or one row of it for single examples; a list of
        matrices; a list of objects of any kind.
    classes : array-like, optional
        All labels that may occur. By default they are found by a pass of its own when they are
        asked for.
    chunk_size : int or str, default="4MB"
        Bytes of a chunk, the unit of reading.

    Raises
    ------
    InvalidData
        There is no part, or the first one cannot be used.

    Examples
    --------
    >>> def parts():
    ...     for k in range(3):
    ...         yield np.full((2, 1), float(k)), ["a", "b"]
    >>> stream = Stream(parts)
    >>> [chunk.X.sum() for chunk in stream.chunks()]
    [np.float64(0.0), np.float64(2.0), np.float64(4.0)]
    >>> stream.n_blocks, stream.classes
    (6, array(['a', 'b'], dtype='<U1'))
    """

    def __init__(
        self,
        parts: Iterable[Any] | Callable[[], Iterable[Any]],
        *,
        kind: str = "rows",
        classes: ArrayLike | None = None,
        chunk_size: int | str = _CHUNK,
    ) -> None:
        if kind not in KINDS:
            raise InvalidData(f"kind = {kind!r}; use one of {', '.join(map(repr, KINDS))}")
        if not (callable(parts) or isinstance(parts, Iterable)):
            raise InvalidType(
                f"parts is of type {type(parts).__name__}; give an iterable of (X, y), or a "
                "function that returns one"
            )
        self.kind = kind
        self.n_blocks: int | None = None
        self.n_chunks: int | None = None
        self.repeatable = callable(parts) or not isinstance(parts, Iterator)
        self._parts = parts
        self._chunk_size = as_bytes(chunk_size, "chunk_size")
        self._checks = Parts(kind, self._chunk_size)
        self._classes = None if classes is None else class_index(classes, "classes")[0]
        self._found = self._given = classes is not None
        self._digests: dict[int, bytes] = {}  # by number of the chunk
        self._opaque: str | None = None
        self._readings = 0
        pieces = self._pieces()
        self.head = head = next(pieces)
        self.n_features = self._checks.n_features
        self.dtype = self._checks.dtype
        # A stream that can be read once goes on behind the part that has been read already.
        self._rest: Iterator[Chunk] | None = None
        if self.repeatable:
            pieces.close()
        else:
            self._rest = _chain(head, pieces)

    def __repr__(self) -> str:
        blocks = "?" if self.n_blocks is None else self.n_blocks
        often = "repeatable" if self.repeatable else "read once"
        return (
            f"Stream(kind={self.kind!r}, n_blocks={blocks}, n_features={self.n_features}, {often})"
        )

    @property
    def classes(self) -> np.ndarray | None:
        """Distinct labels, sorted if they can be; None for real-valued or no targets.

        Raises
        ------
        InvalidData
            They were not given, and a pass to find them would use up the stream.
        """
        if not self._found:
            if not self.repeatable:
                raise InvalidData(
                    "the classes of a stream that can be read only once are not known beforehand; "
                    "pass classes, or a function that returns a new iterator"
                )
            self._classes = self._find_classes()
            self._found = True
        return self._classes

    @property
    def digest(self) -> bytes:  # type: ignore[override]
        """Of all data; of the first chunk alone where the stream can be read only once.

        A stream that has not been read to its end yet is read for it.

        Raises
        ------
        InvalidData
            There are objects in it that cannot be compared.
        """
        if self.repeatable and self.n_chunks is None:
            with closing(self._read()) as chunks:
                for _ in chunks:
                    pass
        known = Digest()
        known.opaque = self._opaque
        n_chunks = self.n_chunks if self.repeatable else 1
        given = self._classes if self._given else None
        known.add((self.kind, given, [self._digests[k] for k in range(n_chunks or 0)]))
        return known.strict()

    def chunks(self, order: ArrayLike | None = None) -> Generator[Chunk]:
        """Read the stream from its beginning.

        Parameters
        ----------
        order : array-like of int, optional
            Only the natural order, for a stream that has been read to its end before.

        Yields
        ------
        Chunk
            With arrays of its own; labels that are not numbers are as they were given.

        Raises
        ------
        InvalidData
            A part cannot be used, the stream has been used up, another order is asked for, or
            the data are not those of the first reading.
        """
        if order is not None and (
            self.n_chunks is None or not np.array_equal(np.asarray(order), np.arange(self.n_chunks))
        ):
            raise InvalidData(
                "a stream can only be read in its own order; write it to disk with write_shards to "
                "read chunks in any order"
            )
        return self._read()

    def _read(self) -> Generator[Chunk]:
        pieces: Iterator[Chunk]
        if self.repeatable:
            pieces = self._pieces()
        elif self._rest is None:
            raise InvalidData(
                "this stream could be read only once, and has been; pass a list or a function that "
                "returns a new iterator"
            )
        else:
            pieces, self._rest = self._rest, None
        n_blocks = n_chunks = 0
        with closing(read_ahead(pieces)) as chunks:
            for chunk in chunks:
                n_blocks += chunk.n_blocks
                n_chunks += 1
                yield chunk
        if self.n_blocks not in (None, n_blocks):
            raise InvalidData(
                f"the stream had {self.n_blocks} blocks before and {n_blocks} now; make each pass "
                "give the same"
            )
        self.n_blocks, self.n_chunks = n_blocks, n_chunks

    def _pieces(self) -> Generator[Chunk]:
        items = self._parts() if callable(self._parts) else self._parts
        self._readings += 1
        reading, number = self._readings, 0
        for part in self._checks.read(items):
            for piece in split(part, self._chunk_size):
                # Owned, because the next part may come in the same memory.
                chunk = concatenate([piece])
                chunk = replace(chunk, number=number, X=_owned(chunk.X), y=_owned(chunk.y))
                if self.repeatable or number == 0:
                    self._compare(chunk, reading)
                yield chunk
                number += 1

    def _compare(self, chunk: Chunk, reading: int) -> None:
        """Refuse a chunk that is another than in the first reading."""
        digest = chunk.add_to(Digest())
        self._opaque = self._opaque or digest.opaque
        if self._digests.setdefault(chunk.number, digest.digest()) != digest.digest():
            last = chunk.first + chunk.n_blocks - 1
            hint = LEAVE_OUT if digest.of_users else ""
            raise InvalidData(
                f"the stream gave other data at chunk {chunk.number} (blocks {chunk.first} to "
                f"{last}) in reading {reading} than before, and no bound holds for data that "
                "change. If a loader shuffles or augments in each pass, let it begin with the same "
                "seed each time, write the data once with taut.data.write_shards, or give an "
                f"iterator, which is read once{hint}"
            )

    def _find_classes(self) -> np.ndarray | None:
        with closing(self._read()) as chunks:
            head = next(chunks)
            if head.y is None:
                return None
            return find_classes(_targets(head, chunks))


def _owned(values: Any) -> Any:
    """A list of any objects as a copy of its own, if they can be copied."""
    if not isinstance(values, list):
        return values
    try:
        return copy.deepcopy(values)
    except Exception:
        return values


def _targets(head: Chunk, chunks: Iterator[Chunk]) -> Iterator[Any]:
    yield head.y
    for chunk in chunks:
        yield chunk.y


def _chain(head: Chunk, rest: Iterator[Chunk]) -> Iterator[Chunk]:
    yield head
    yield from rest
