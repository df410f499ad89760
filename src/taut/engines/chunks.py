"""A part for each chunk of a source: all dual variables in memory, the features of one chunk."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from taut.engines.base import Engine
from taut.engines.naming import Arrays, named, of_parts
from taut.engines.part import Ascent, Part, Reply
from taut.engines.turns import KeepGoing, draw_seed
from taut.errors import InvalidData
from taut.storage.stored import Stored, check, require
from taut.streamed import BoundChunk, StreamedProblem


class Chunks(Engine):
    """Dual variables of a source's blocks, chunk by chunk."""

    problem: StreamedProblem
    loss_sum = 0.0

    def __init__(self, problem: StreamedProblem, ascent: Ascent, rng: np.random.Generator) -> None:
        super().__init__(problem, ascent, rng)
        self.kept: dict[int, Arrays] = {}  # by number of the chunk
        self.curvatures = np.zeros(2)  # summed over blocks until a pass is whole, and their number
        self.measured = False

    def sweep(self, stiffness: float, keep_going: KeepGoing) -> Reply:
        """Sweep over one chunk after the other."""
        seed, order = draw_seed(self.rng), self.draw_order(self.ascent.shuffle)
        replies: list[Reply] = []
        with closing(self.problem.bound_chunks(order)) as chunks:
            for bound in chunks:
                part = self._waken(bound)
                # As in memory, where half the seed and the block's number decide about its samples.
                own_seed = seed + np.uint64(2 * bound.chunk.first)
                replies.append(part.sweep(self.w, own_seed, self.rng, stiffness, keep_going))
                self._keep(bound, part)
                if not self.measured:
                    self._measure(part)
                self.loss_sum += part.loss_sum  # which is 0 when a chunk is read
                if not replies[-1].complete:
                    break
        total = Reply.total(replies)
        self.measured |= total.complete
        return total if total.complete else total._replace(gap=math.inf)

    def _waken(self, bound: BoundChunk) -> Part:
        """A chunk that was read, with its dual variables."""
        part = self.part_of(bound.data, bound.weight)
        if bound.chunk.number in self.kept:
            part.put(np.arange(bound.chunk.n_blocks), self.kept[bound.chunk.number])
        return part

    def _keep(self, bound: BoundChunk, part: Part) -> None:
        own = part.take(np.arange(bound.chunk.n_blocks))
        self.kept[bound.chunk.number] = own | {"weight": bound.weight}

    def _measure(self, part: Part) -> None:
        values = part.curvature()
        self.curvatures += float(np.mean(values)) * len(values), len(values)

    def _check_kept(self, same_weights: bool = True) -> None:
        """Refuse dual variables that are none of these chunks, by a reading where there can be."""
        if not self.problem.repeatable:
            return
        seen = set()
        with closing(self.problem.bound_chunks()) as chunks:
            for bound in chunks:
                if bound.chunk.number not in self.kept:
                    continue
                seen.add(bound.chunk.number)
                own = self.kept[bound.chunk.number]
                check(own, {"weight": Stored("f8", bound.weight.shape, 0.0)})
                same = own["weight"] == bound.weight
                require(same | (not same_weights), "weights differ from those of the data")
                self.part_of(bound.data, bound.weight).duals.check(own, own["weight"])
        require(seen == self.kept.keys(), "there are no such chunks")

    def _parts(self) -> Iterator[tuple[BoundChunk, Part]]:
        """All chunks with their dual variables, by a reading of its own."""
        with closing(self.problem.bound_chunks()) as chunks:
            for bound in chunks:
                yield bound, self._waken(bound)

    def dual_vector(self, U):
        """U, and the summed loss with it, computed afresh where the stream can be read again."""
        if not self.problem.repeatable:  # the only pass has no centre: w = shift + U
            nothing = np.zeros_like(U)
            self.problem.quadratic.place(U, nothing, 0.0, nothing)
            np.subtract(self.w, U, out=U)
            return
        U[:] = 0.0
        self.loss_sum = sum(part.sum_up(U) for _bound, part in self._parts())

    def curvature(self):
        """Mean of C_i |psi_i|^2 over the blocks, as of the first pass."""
        total, count = self.curvatures
        return float(total / max(count, 1.0))

    def arrays(self):
        """Everything, as named arrays."""
        numbers = np.array([self.loss_sum, self.measured, *self.curvatures])
        return {"w": self.w, "numbers": numbers} | named(self.kept)

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        check(arrays, {"numbers": Stored("f8", (4,))})
        self.restore_w(arrays)
        self.kept = of_parts(arrays)
        self._check_kept()
        self.loss_sum, self.measured = float(arrays["numbers"][0]), bool(arrays["numbers"][1])
        self.curvatures[:] = arrays["numbers"][2:]

    def hot_start(self, arrays, same_weights):
        """The dual point of `arrays`, scaled block by block to these weights, by a reading."""
        own = "numbers" in arrays and "chunks" not in arrays  # those of a cache have both
        self.kept = of_parts(arrays) if own else {}
        if not self.kept:
            raise InvalidData(
                f"the start was not made by {self.ascent.name} over a stream: start from such a "
                "solve, or from nothing (warm_start=False)"
            )
        self._check_kept(same_weights)
        for bound, part in self._parts():
            old = {"weight": self.kept[bound.chunk.number]["weight"]}
            part.hot_start(part.duals.arrays() | old)
            self._measure(part)
            self._keep(bound, part)
        self.measured = True
