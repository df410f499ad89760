"""Data that come in while a model is trained, and are gone afterwards."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taut.data.chunks import Chunk
from taut.data.source import Source
from taut.data.streams import Stream
from taut.errors import InvalidData


class Inflow(Source):
    """A source that is fed part by part; each part can be read once.

    `kind` is what `Stream` takes, `classes` are all labels that may occur, where targets are
    labels, and `owner` is who is fed, for errors.

    Examples
    --------
    >>> inflow = Inflow("rows")
    >>> inflow.feed(np.eye(2), [0.5, 1.5])
    >>> [(chunk.first, chunk.n_blocks) for chunk in inflow.chunks()]
    [(0, 2)]
    >>> inflow.feed(np.eye(2), [0.5, 1.5])
    >>> [(chunk.first, chunk.n_blocks) for chunk in inflow.chunks()]
    [(2, 2)]
    """

    n_blocks: int
    n_chunks: int
    repeatable = False
    goes_on = True

    def __init__(
        self, kind: str, classes: ArrayLike | None = None, owner: str = "the model"
    ) -> None:
        self.kind = kind
        self.owner = owner
        self.given = classes
        self.n_blocks = 0
        self.n_chunks = 0
        self.digest = b"inflow"
        self._first: Stream | None = None
        self._waiting: deque[Chunk] = deque()

    def feed(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        margin: Any = None,
        check: Callable[[Chunk], Any] | None = None,
    ) -> None:
        """Check a part and take it in as a whole; `check` may refuse it too."""
        part = Stream([(X, y, sample_weight, margin)], kind=self.kind, classes=self.given)
        if self._first is None:
            self._first, self.head = part, part.head
            self.n_features, self.dtype = part.n_features, part.dtype
        elif part.n_features != self.n_features:
            raise InvalidData(
                f"X has {part.n_features} features, but {self.owner} is expecting "
                f"{self.n_features} features as input: give those of the first part"
            )
        chunks = list(part.chunks())
        if check is not None:
            for chunk in chunks:
                check(chunk)
        self._append(chunks)

    def _append(self, chunks: Iterable[Chunk]) -> None:
        for chunk in chunks:
            numbered = replace(chunk, number=self.n_chunks, first=self.n_blocks)
            self._waiting.append(numbered)
            self.n_chunks += 1
            self.n_blocks += chunk.n_blocks

    @property
    def classes(self) -> np.ndarray | None:
        """The labels that were given; without them those of the first part."""
        return None if self._first is None else self._first.classes

    def chunks(self, order: ArrayLike | None = None) -> Generator[Chunk]:
        """What has come in since the last reading."""
        while self._waiting:
            yield self._waiting.popleft()
