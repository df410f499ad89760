"""Block ascent over a stream: all dual variables in memory, the features of one chunk at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from taut.data.chunks import Chunk
from taut.errors import InvalidData
from taut.solvers._block_ascent import BlockAscent, CoordinateState, draw_seed
from taut.solvers.base import Arrays, Candidate, DualState, KeepGoing, PassEvent, PassReport
from taut.storage.stored import Stored, check, require, vector
from taut.streamed import Part, StreamedProblem


class ChunkedState(DualState):
    """Dual variables of a stream's blocks, chunk by chunk."""

    loss_sum = 0.0

    def __init__(
        self, problem: StreamedProblem, ascent: BlockAscent, w: np.ndarray, rng: np.random.Generator
    ) -> None:
        self.problem = problem
        self.ascent = ascent
        self.w = w
        self.rng = rng
        self.kept: dict[int, Arrays] = {}  # by number of the chunk
        self.curvatures = np.zeros(2)  # summed over blocks until a pass is whole, and their number
        self.measured = False

    def go_through(self, stiffness: float, keep_going: KeepGoing) -> PassReport:
        """Visit the blocks of all chunks, one chunk after the other."""
        source, order, seed = self.problem.source, None, draw_seed(self.rng)
        if self.ascent.shuffle and source.random_access:
            order = self.rng.permutation(source.n_chunks or 0)
        gap, movement, calls, complete = 0.0, 0.0, 0, True
        with closing(self.problem.parts(order)) as parts:
            for chunk, part in parts:
                state = self._waken(chunk, part)
                # As in memory, where half the seed and the block's number decide about its samples.
                own_seed = seed + np.uint64(2 * chunk.first)
                report = self.ascent.go_through(state, own_seed, stiffness, keep_going)
                self._keep(chunk, part, state)
                if not self.measured:
                    self.curvatures += state.curvature() * chunk.n_blocks, chunk.n_blocks
                self.loss_sum += state.loss_sum  # which is 0 when a chunk is read
                gap, movement = gap + report.gap, movement + report.movement
                calls, complete = calls + report.oracle_calls, report.event.complete
                if not complete:
                    break
        self.measured |= complete
        if not complete:
            return PassReport(math.inf, movement, calls, PassEvent.INCOMPLETE)
        return PassReport(gap, movement, calls, PassEvent.COMPLETE, Candidate())

    def _waken(self, chunk: Chunk, part: Part) -> CoordinateState:
        """The dual variables of a chunk that was read."""
        n_jobs = self.problem.n_jobs
        state = self.ascent.state_of(part.data, part.weight, n_jobs, self.w, self.rng)
        if chunk.number in self.kept:
            state.duals.put(np.arange(chunk.n_blocks), self.kept[chunk.number])
        return state

    def _keep(self, chunk: Chunk, part: Part, state: CoordinateState) -> None:
        own = state.duals.take(np.arange(chunk.n_blocks))
        self.kept[chunk.number] = own | {"weight": part.weight}

    def _check_kept(self, same_weights: bool = True) -> None:
        """Refuse dual variables that are none of these chunks, by a reading where there can be."""
        if not self.problem.repeatable:
            return
        seen = set()
        with closing(self.problem.parts()) as parts:
            for chunk, part in parts:
                if chunk.number not in self.kept:
                    continue
                seen.add(chunk.number)
                own = self.kept[chunk.number]
                check(own, {"weight": Stored("f8", part.weight.shape, 0.0)})
                same = own["weight"] == part.weight
                require(same | (not same_weights), "weights differ from those of the data")
                n_jobs = self.problem.n_jobs
                state = self.ascent.state_of(part.data, part.weight, n_jobs, self.w, self.rng)
                state.duals.check(own, own["weight"])
        require(seen == self.kept.keys(), "there are no such chunks")

    def _states(self) -> Iterator[tuple[Chunk, Part, CoordinateState]]:
        """All chunks with their dual variables, by a reading of its own."""
        with closing(self.problem.parts()) as parts:
            for chunk, part in parts:
                yield chunk, part, self._waken(chunk, part)

    def dual_vector(self, U):
        """U, and the summed loss with it, computed afresh where the stream can be read again."""
        if not self.problem.repeatable:  # the only pass has no centre: w = shift + U
            nothing = np.zeros_like(U)
            self.problem.quadratic.place(U, nothing, 0.0, nothing)
            np.subtract(self.w, U, out=U)
            return
        U[:] = 0.0
        self.loss_sum = sum(state.duals.sum_up(U) for _chunk, _part, state in self._states())

    def curvature(self):
        """Mean of C_i |psi_i|^2 over the blocks, as of the first pass."""
        total, count = self.curvatures
        return float(total / max(count, 1.0))

    def widen(self):
        """W in float64."""
        self.w = self.w.astype(np.float64)

    def arrays(self):
        """Everything, as named arrays."""
        numbers = np.array([self.loss_sum, self.measured, *self.curvatures])
        arrays = {"w": self.w, "numbers": numbers}
        for number, own in self.kept.items():
            arrays |= {f"chunk.{number}.{name}": array for name, array in own.items()}
        return arrays

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        check(arrays, {"w": vector(len(self.w)), "numbers": Stored("f8", (4,))})
        if arrays["w"].dtype != self.w.dtype:
            self.widen()
        self.w[:] = arrays["w"]
        self.kept = _chunks_of(arrays)
        self._check_kept()
        self.loss_sum, self.measured = float(arrays["numbers"][0]), bool(arrays["numbers"][1])
        self.curvatures[:] = arrays["numbers"][2:]

    def hot_start(self, arrays, same_weights):
        """The dual point of `arrays`, scaled block by block to these weights, by a reading."""
        self.kept = _chunks_of(arrays)
        if not self.kept:
            raise InvalidData(
                f"the start was not made by {self.ascent.name} over a stream: start from such a "
                "solve, or from nothing (warm_start=False)"
            )
        self._check_kept(same_weights)
        for chunk, part, state in self._states():
            old = {"weight": self.kept[chunk.number]["weight"]}
            state.hot_start(state.duals.arrays() | old, same_weights)
            self.curvatures += state.curvature() * chunk.n_blocks, chunk.n_blocks
            self._keep(chunk, part, state)
        self.measured = True


def _chunks_of(arrays: Arrays) -> dict[int, Arrays]:
    """The arrays `chunk.k.name`, by k."""
    kept: dict[int, Arrays] = {}
    for name, array in arrays.items():
        kind, _, rest = name.partition(".")
        if kind == "chunk":
            number, _, own = rest.partition(".")
            require(number.isdecimal() and number.isascii(), f"{name!r:.50} is no array of a chunk")
            kept.setdefault(int(number), {})[own] = array
    return kept
