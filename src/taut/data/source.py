"""Where blocks come from when they do not fit into memory: chunk by chunk."""

from __future__ import annotations

import functools
import os
import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from taut.data.chunks import Chunk, concatenate
from taut.data.targets import number_labels
from taut.errors import InvalidData

__all__ = ["Chunk", "Source", "concatenate", "read_ahead"]

T = TypeVar("T")


class Source(ABC):
    """Blocks of training data that are read chunk by chunk.

    Attributes
    ----------
    n_blocks, n_chunks : int or None
        None while they are not known.
    n_features : int or None
        None for examples that are not rows.
    dtype : dtype or None
        Of the rows.
    repeatable : bool
        Whether the data can be read more than once.
    random_access : bool
        Whether chunks can be read in any order.
    goes_on : bool
        Whether another reading goes on behind the chunks that were read before.
    lacks_zeros : bool
        Whether columns that no row has may be missing behind the last: they are zero.
    digest : bytes
        Tells the data from others, by all their bytes.
    """

    n_blocks: int | None
    n_chunks: int | None
    n_features: int | None
    dtype: np.dtype | None
    repeatable: bool
    random_access: bool = False
    goes_on: bool = False
    lacks_zeros: bool = False
    digest: bytes

    @property
    @abstractmethod
    def classes(self) -> np.ndarray | None:
        """Distinct labels, sorted if they can be; None for real-valued or no targets."""

    @abstractmethod
    def chunks(self, order: ArrayLike | None = None) -> Generator[Chunk]:
        """Read chunks.

        Parameters
        ----------
        order : array-like of int, optional
            Numbers of the wanted chunks, each at most once; None is all in sequence.

        Yields
        ------
        Chunk
        """

    @functools.cached_property
    def head(self) -> Chunk:
        """The first chunk, with arrays of its own: what the others are like."""
        with closing(self.chunks()) as chunks:
            return concatenate([next(chunks)])

    def codes(self, chunk: Chunk) -> np.ndarray:
        """Number the targets of a chunk by class.

        Parameters
        ----------
        chunk : Chunk
            Of this source, or made of such by `take` and `concatenate`.

        Returns
        -------
        ndarray of int32
            ``classes[codes]`` are the labels.

        Raises
        ------
        InvalidData
            There are no classes, or a label is none of them.
        """
        classes = self.classes
        if classes is None or chunk.y is None:
            raise InvalidData(
                "the targets have no classes: they are missing or real numbers; give labels that "
                "are whole numbers, text or other discrete values"
            )
        return number_labels(chunk.y, classes)

    def labels(self, chunk: Chunk) -> Any:
        """The targets of a chunk as they were given."""
        return chunk.y

    def class_sums(self) -> np.ndarray:
        """The summed weight of each class, by a reading of its own."""
        sums = np.zeros(0 if self.classes is None else len(self.classes))
        with closing(self.chunks()) as chunks:
            for chunk in chunks:
                sums += np.bincount(self.codes(chunk), chunk.sample_weight, len(sums))
        return sums

    def take(self, blocks: ArrayLike) -> Chunk:
        """Copy some blocks, reading no chunks but those that are needed.

        Parameters
        ----------
        blocks : array-like of int
            Numbers of blocks in the source, ascending.

        Returns
        -------
        Chunk

        Raises
        ------
        InvalidData
            A number is out of range or out of order, or the source can be read only once.
        """
        if not self.repeatable:
            raise InvalidData(
                "blocks cannot be taken from a source that can be read only once; write it to "
                "disk with write_shards"
            )
        wanted = np.asarray(blocks, dtype=np.int64)
        if wanted.ndim != 1 or len(wanted) == 0 or wanted[0] < 0 or (np.diff(wanted) < 0).any():
            raise InvalidData("blocks must be block numbers >= 0 in ascending order; sort them")
        pieces = []
        for chunk in self._chunks_of(wanted):
            start, stop = np.searchsorted(wanted, [chunk.first, chunk.first + chunk.n_blocks])
            if start < stop:
                pieces.append(chunk.take(wanted[start:stop] - chunk.first))
            if stop == len(wanted):
                return concatenate(pieces)
        raise InvalidData(
            f"block {wanted[-1]} is wanted, the source has {self.n_blocks}; count blocks from 0"
        )

    def _chunks_of(self, blocks: np.ndarray) -> Iterator[Chunk]:
        """Chunks in sequence that hold these blocks, and perhaps others."""
        return self.chunks()


def read_ahead(items: Iterable[T], depth: int = 1) -> Generator[T]:
    """Run an iterator in a thread of its own, a few items ahead of who consumes them.

    At most ``depth + 1`` items are alive: the one in use, and `depth` waiting or in the making. An
    exception of the iterator reaches the consumer in its place. When the consumer stops early, the
    thread ends with the item that it is at, and the iterator is closed. A forked process has no
    such thread: it cannot go on reading, and leaves locks and iterator alone.
    """
    process = os.getpid()
    changed = threading.Condition()
    ready: deque[T] = deque()
    failures: list[BaseException] = []
    ended = stopped = False

    def work() -> None:
        nonlocal ended
        try:
            iterator = iter(items)
            while True:
                # Before the next item is made, so that none waits beyond `depth`.
                with changed:
                    changed.wait_for(lambda: stopped or len(ready) < depth)
                    if stopped:
                        return
                try:
                    item = next(iterator)
                except StopIteration:
                    return
                with changed:
                    ready.append(item)
                    changed.notify()
                # Or it would stay alive while the next one is made.
                del item
        except BaseException as error:
            failures.append(error)
        finally:
            with changed:
                ended = True
                changed.notify()

    thread = threading.Thread(target=work, name="taut-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            with changed:
                changed.wait_for(lambda: ready or ended)
                if not ready:
                    break
                item = ready.popleft()
                changed.notify()
            yield item
            if os.getpid() != process:
                raise RuntimeError(
                    "this reading began before the process was forked, and its thread stayed in "
                    "the parent: read anew in the child"
                )
        if failures:
            raise failures.pop()
    finally:
        if os.getpid() == process:
            with changed:
                stopped = True
                changed.notify()
            # The garbage collector may run this in the very thread, which then ends by itself.
            if thread is not threading.current_thread():
                thread.join()
                if isinstance(items, Iterator) and hasattr(items, "close"):
                    items.close()
