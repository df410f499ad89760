"""A problem whose blocks are read chunk by chunk, and need not fit into memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from taut.binding import Data, Findings, Room, bind
from taut.data.chunks import Chunk, place_of
from taut.data.held import Held, as_chunk
from taut.data.source import Source
from taut.errors import InvalidData
from taut.problem import Belonging, Problem, check_block_weight, check_factor
from taut.spaces.regularizer import Prior, Regularizer
from taut.storage.digest import Digest, digest_of
from taut.structures.abilities import ability
from taut.structures.base import CompiledStructure, Structure

Recode = Callable[[Chunk], Chunk]


class BoundChunk(NamedTuple):
    """Some blocks as they were read, the oracles bound to them, and their weights C_i."""

    chunk: Chunk
    data: Data
    weight: np.ndarray


def examples_for(structure: Structure | CompiledStructure, chunk: Chunk) -> Any:
    """The X of a chunk in the form that a structure takes; a plain one takes a list."""
    if not isinstance(structure, CompiledStructure):
        return _one_by_one(chunk, chunk.X)
    if ability(structure, "takes_checked"):
        return chunk.examples
    return chunk.X if chunk.offsets is None else (chunk.X, chunk.offsets)


def labels_for(structure: Structure | CompiledStructure, chunk: Chunk, y: Any) -> Any:
    """Labels of the blocks of a chunk; a plain structure takes one item for each block."""
    if isinstance(structure, CompiledStructure) or y is None or len(y) == chunk.n_blocks:
        return y
    return _one_by_one(chunk, y)


def _one_by_one(chunk: Chunk, rows: Any) -> list[Any]:
    """What a chunk has for each of its rows, as a list with an item for each block."""
    if isinstance(rows, list):
        return rows
    if chunk.offsets is None:
        return [rows[k] for k in range(chunk.n_blocks)]
    return [rows[start:stop] for start, stop in itertools.pairwise(chunk.offsets.tolist())]


class StreamedProblem(Problem):
    """The problem of all blocks of a source: minimise 1/2 |w|^2 + sum_i C_i hinge_i(w).

    Parameters
    ----------
    structure : Structure or CompiledStructure
        What a label is.
    source : Source
        Such as `taut.data.open_shards(path)` or a `taut.data.Stream`.
    C : float, default=1.0
        Multiplies the sum of the hinges.
    n_jobs : int, default=1
        Threads for visits and for passes over the blocks of a chunk.
    regularizer : Regularizer, optional
        A prior on w, and bounds of weights, instead of 1/2 |w|^2.
    recode : callable, optional
        Turns a chunk into one whose targets and weights are those that the structure takes.
    recoding : bytes, optional
        Tells recodings apart that differ in the weights of blocks, and perhaps not in those of the
        first: checkpoints of another are refused.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import StreamedProblem, solve
    >>> from taut.data import Stream
    >>> from taut.structures import Scalar
    >>> parts = [(np.array([[1.0]]), np.array([1.0])), (np.array([[-2.0]]), np.array([-1.0]))]
    >>> problem = StreamedProblem(Scalar(), Stream(parts), C=0.5)
    >>> solve(problem, tol=1e-6, random_state=0).w.round(3)
    array([0.5])
    """

    comes_as = "chunks"

    def __init__(
        self,
        structure: Structure | CompiledStructure,
        source: Source,
        C: float = 1.0,
        n_jobs: int = 1,
        regularizer: Regularizer | Prior | None = None,
        recode: Recode | None = None,
        recoding: bytes = b"",
    ) -> None:
        check_factor(C)
        if ability(structure, "points") != "weights":
            raise InvalidData(
                f"{type(structure).__name__} compares all examples with each other, and data that "
                "are read part by part are not there together: give them in memory with a solver "
                "that works on all of them, such as dual_coordinate, or explicit=True where the "
                "kernel has finitely many features"
            )
        self.structure = structure
        self.source = source
        self.C = C
        self.n_jobs = n_jobs
        self.regularizer: Regularizer | Prior | None = regularizer
        self.recode = recode or (lambda chunk: chunk)
        self.recoding = recoding
        self.room = Room()  # chunks are worked on one after the other
        self.answers: dict[int, Any] = {}  # of users' structures, by chunk
        self.repeatable = source.repeatable
        self.random_access, self.goes_on = source.random_access, source.goes_on
        # One block tells the shape of w and of the prior.
        self.data = self.bind(source.head.take([0])).data
        self.regularizer = self.data.prior
        self.quadratic = self.data.quadratic

    @classmethod
    def of(cls, problem: Problem) -> StreamedProblem:
        """A problem in memory, as if it were read chunk by chunk."""
        if isinstance(problem, cls):
            return problem
        if problem.space is not None:
            raise InvalidData(
                "the problem has a kernel, or another space of its own, and this solver reads "
                "features chunk by chunk, which it takes as linear: leave the kernel or the space "
                "out, or take a solver that works on all data in memory, such as dual_coordinate"
            )
        as_list = ability(problem.structure, "takes_examples")
        if as_list and not len(problem.X) == len(problem.y) == problem.n_blocks:
            raise InvalidData(
                f"X has {len(problem.X)} items and y {len(problem.y)} for {problem.n_blocks} "
                "examples: this solver takes lists of examples and of their labels"
            )
        chunk = as_chunk(problem.X, problem.y, problem.sample_weight, as_list=as_list)
        return cls(problem.structure, Held(chunk), problem.C, problem.n_jobs, problem.regularizer)

    def _set_factor(self, C: float) -> None:
        self.C = C

    @property
    def n_parts(self) -> int:  # type: ignore[override]
        """Number of chunks; 0 while it is not known."""
        return self.source.n_chunks or 0

    @property
    def n_blocks(self) -> int:
        """Number of blocks; 0 while it is not known."""
        return self.source.n_blocks or 0

    def belonging(self) -> Callable[[], Belonging]:
        """What dual variables of this problem belong to; the source tells which data it has read.

        Of the recoding its code with what it has enclosed, and what it makes of the first chunk,
        are in it.
        """
        structure, prior = self._law()
        recoding = replace(self.recode(self.source.head), sample_weight=None).add_to(Digest())
        # Those of the library keep the source and weights, which have digests of their own.
        own = getattr(self.recode, "__module__", "").partition(".")[0] == "taut"
        recoding.add(self.recode.__code__ if own else self.recode)

        def answer() -> Belonging:
            data = digest_of(self.source.digest, recoding.strict())
            return Belonging(structure.strict(), prior.strict(), data)

        return answer

    @property
    def weight_digest(self) -> bytes:
        """A digest of C, the weights of all blocks, and what the recoding makes of them."""
        head = self.bind(self.source.head).weight
        return digest_of(self.C, self.source.digest, self.recoding, head)

    def known_weights(self) -> tuple[np.ndarray, bytes]:
        """C alone, and a digest of the weights without it."""
        return np.array([self.C]), self.with_factor(1.0).weight_digest

    def n_weighted(self) -> int:
        """How many blocks have weight, by one reading where nothing else tells."""
        if self.n_blocks and self.recode(self.source.head).sample_weight is None:
            return self.n_blocks
        total = 0
        with closing(self.source.chunks()) as chunks:
            for chunk in chunks:
                weight = self.recode(chunk).sample_weight
                total += chunk.n_blocks if weight is None else int(np.count_nonzero(weight))
        return total

    def bind(self, chunk: Chunk) -> BoundChunk:
        """A chunk with oracles and weights."""
        own = self.recode(chunk)
        X = examples_for(self.structure, own)
        y = labels_for(self.structure, own, own.y)
        data = bind(self.structure, X, y, self.regularizer, self.room)
        weight = np.ones(own.n_blocks) if own.sample_weight is None else own.sample_weight
        weight = self.C * weight
        check_block_weight(weight)
        return BoundChunk(chunk, data, weight)

    def take(self, bound: BoundChunk, which: np.ndarray) -> BoundChunk:
        """A copy of some blocks, which are not encoded again where the structure can take them.

        Arrays that the chunk and the oracles have in common are so in the copy.
        """
        data = bound.data.take(which)
        if data is None:
            return self.bind(bound.chunk.take(which))
        pairs = zip(bound.data.arrays(), data.arrays(), strict=True)
        copies = {place_of(old): new for old, new in pairs}
        return BoundChunk(bound.chunk.take(which, copies), data, bound.weight[which])

    def bound_chunks(
        self, order: np.ndarray | None = None, start: int = 0
    ) -> Generator[BoundChunk]:
        """Chunks as they are read, and bound; valid until the next one is asked for.

        Without the first `start` ones, unless those do not come again.
        """
        if order is not None:
            order = order[start:]
        skipped = 0 if self.goes_on or order is not None else start
        with closing(self.source.chunks(order)) as chunks:
            for chunk in itertools.islice(chunks, skipped, None):
                bound = self.bind(chunk)
                bound.data.remember(self.answers, chunk.number)
                yield bound

    def bound(
        self, order: np.ndarray | None = None, start: int = 0
    ) -> Generator[tuple[Data, np.ndarray]]:
        """The blocks with their weights C_i, as they are read."""
        with closing(self.bound_chunks(order, start)) as chunks:
            for _chunk, data, weight in chunks:
                yield data, weight

    def checksum(self) -> bytes:
        """Nothing: chunks are compared with their first reading as they come."""
        return b""

    def closing_audit(self, v: np.ndarray) -> Findings:
        """The same with the blocks of the first chunk."""
        head = self.bind(self.source.head)
        head.data.remember(self.answers, self.source.head.number)
        found = head.data.closing_audit(v, head.weight)
        return found._replace(
            shortfall=found.shortfall * max(self.n_blocks / len(head.weight), 1.0)
        )

    def n_changed(self, other: StreamedProblem) -> int:
        """Blocks whose truth is another in a problem of the same source, by one reading."""
        total = 0
        for chunk, data, _weight in self.bound_chunks():
            total += data.n_changed(other.bind(chunk).data)
        return total
