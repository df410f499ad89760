"""How the memory of a run over a stream is divided: what it needs at least, and what is left."""

from __future__ import annotations

import math

import numpy as np

from taut.engines.holders import Segment, resting_size
from taut.engines.part import Ascent
from taut.streamed import StreamedProblem

_OF_W = 5  # vectors of the type of w: w, the centre, U, the average, the best
_BUFFERS = 5  # chunks: three to read into, the source's first, and one for temporary arrays
_ENTRIES = 4  # times that blocks of a chunk are put to rest before it is read again
_COPIES = 3  # of the dual variables of a chunk, while they are copied or grow
_WORK = 64  # bytes per block of a chunk, while it is explored
_LARGEST = 4_000_000  # bytes that a segment of several chunks may have
_LOOSE = 25  # one part in so many is for what the C library holds back between small arrays
_SEGMENTS = 16  # of the bytes for blocks, that a segment of several chunks may at most be a part of


class Budget:
    """What a run needs beside the blocks that it keeps, as its first chunk tells."""

    def __init__(self, problem: StreamedProblem, ascent: Ascent) -> None:
        head, self.n_weights = problem.source.head, problem.data.size
        bound, self.dtype = problem.bind(head), np.dtype(problem.data.dtype)
        part = ascent.part_of(bound.data, bound.weight, problem.n_jobs, self.dtype)
        everything = np.arange(head.n_blocks)
        self.bound = Segment(everything, head, part).nbytes
        resting = part.take(everything)
        size = resting_size(everything, resting)
        empty = resting_size(everything[:0], {name: array[:0] for name, array in resting.items()})
        self.per_block = math.ceil((size + (_ENTRIES - 1) * empty) / head.n_blocks)
        self.n_blocks = problem.n_blocks
        self.shared = problem.room.nbytes
        # Each thread has its own w and its moves; with one, w is what it works on.
        self.of_threads = 2 * problem.n_jobs + 1 if problem.n_jobs > 1 else 0
        # Buffers, a chunk that is bound and explored, and a copy of its blocks that are kept.
        duals = _COPIES * part.nbytes + _WORK * head.n_blocks
        self.reading = (_BUFFERS - 1) * head.nbytes + duals + 2 * self.bound

    def vectors(self, dtype: np.dtype) -> int:
        """Bytes of all vectors of the size of w, of which the passes' have this type.

        In float64 are what resting blocks add to U, the result and its copy with another shape,
        and for verifying w of another type.
        """
        wide = 3 if dtype == np.float64 else 4
        of_w = (_OF_W + self.of_threads) * dtype.itemsize
        return self.n_weights * (of_w + 8 * wide) + self.shared

    def cache_bytes(self, memory: int, dtype: np.dtype) -> int:
        """Bytes of a budget for the blocks that are kept; 0 or less if it is too small."""
        rest = memory - memory // _LOOSE - self.vectors(dtype) - self.reading
        return rest - self.piece(rest)

    def piece(self, rest: int) -> int:
        """Bytes that a segment may have: while it is copied, it is in memory twice."""
        return max(self.bound, min(_LARGEST, rest // _SEGMENTS))

    @property
    def duals(self) -> int:
        """Bytes of the dual variables of all blocks, as far as they are known."""
        return self.n_blocks * self.per_block

    @property
    def least(self) -> int:
        """Bytes that suffice if all blocks have weight, each on as few labels as at first."""
        copies = max(self.bound, min(_LARGEST, self.duals // (_SEGMENTS - 1) + 1))
        used = self.vectors(self.dtype) + self.reading + copies + self.duals
        return used + used // (_LOOSE - 1) + 1
