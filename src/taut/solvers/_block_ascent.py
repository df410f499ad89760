"""Passes over blocks whose dual variables are improved one block at a time.

Which blocks are visited, in which order, and what their gaps say about when to come back: the same
for all solvers that ascend by blocks. They differ in the form of their dual variables and in what a
visit does (`taut.duals`).
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple

import numpy as np

from taut.binding import CompiledData, PythonData
from taut.compiled.jit import kernel
from taut.compiled.lanes import aligned_zeros
from taut.duals import BlockDual
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers._turns import Pace, shuffle
from taut.solvers.base import (
    Arrays,
    Candidate,
    DualState,
    KeepGoing,
    PassEvent,
    PassReport,
    Solver,
)
from taut.storage.stored import Stored, check, require, vector

_NEVER = 2**62  # a pass that does not come
_LONGEST = 2**48  # more passes than any run has
USED_UP = 1.0 - 1e-6  # share of a block's weight from which the truth has nothing left


def check_in_memory(problem: Problem, solver: str) -> None:
    """Refuse data that are read part by part."""
    if not problem.in_memory:
        raise InvalidData(
            f"{solver} needs all data in memory, and these are read part by part: use "
            "solver='online_cache', or load them if they fit"
        )


class Sweep(NamedTuple):
    """A pass under way: whether it asks the oracle, the blocks, their gaps before, and the order.

    `seed` is for what samplers draw. `sums` are the summed loss, the summed squared lengths of
    moves, and the summed gaps over the planes of blocks, as visits add to them.
    """

    asks_oracle: bool
    blocks: np.ndarray
    before: np.ndarray
    order: np.ndarray
    seed: np.uint64
    sums: np.ndarray


class CoordinateState(DualState):
    """Dual variables of all blocks, and what is known about when to visit which."""

    loss_sum = 0.0

    def __init__(self, duals: BlockDual, w: np.ndarray, rng: np.random.Generator) -> None:
        n = len(duals.weight)
        self.duals = duals
        self.at_zero = duals.at_zero
        self.rng = rng
        self.w = w
        self.passes = 0
        self.gap = np.full(n, np.inf)  # as seen at the last visit
        self.interval = np.ones(n, dtype=np.int64)
        self.due = np.full(n, -1, dtype=np.int64)  # the pass of the next visit; -1 for certain
        # Blocks that are left out keep the gap that was last seen. What they turn out to have when
        # they are seen again tells by how much such gaps rise in each pass, on average.
        self.rise = 0.0
        self.age = 0  # passes since the last visit, summed over the blocks
        self.pace = Pace()
        self.n_weighted = int(np.count_nonzero(duals.weight))
        self.gap[duals.weight == 0.0] = 0.0
        self.due[duals.weight == 0.0] = _NEVER

    def visit(self, part: np.ndarray, sweep: Sweep, stiffness: float) -> None:
        """Visit some of the blocks of a pass."""
        self.duals.seed = sweep.seed
        self.duals.visit(part, self.w, stiffness, sweep.asks_oracle, self.gap, sweep.sums)

    def leave_out(self, blocks: np.ndarray) -> None:
        """Do not visit some blocks; they are somebody else's."""
        self.gap[blocks] = 0.0
        self.due[blocks] = _NEVER

    @property
    def left_out(self) -> np.ndarray:
        """Which blocks are never visited."""
        return self.due == _NEVER

    def take_over(self, other: CoordinateState, blocks: np.ndarray) -> None:
        """Know about all blocks what `other` knows about its blocks of these numbers."""
        for name in ("gap", "interval", "due"):
            getattr(self, name)[:] = getattr(other, name)[blocks]
        self.passes, self.rise = other.passes, other.rise
        self.loss_sum = self.duals.loss_sum

    def take_over_all(self, others: list[CoordinateState]) -> None:
        """Know about all blocks what `others` know about theirs, one after the other."""
        self.passes = max(other.passes for other in others)
        for name in ("gap", "interval"):
            getattr(self, name)[:] = np.concatenate([getattr(other, name) for other in others])
        late = [np.where(other.left_out, 0, self.passes - other.passes) for other in others]
        self.due[:] = np.concatenate([o.due + shift for o, shift in zip(others, late, strict=True)])
        self.loss_sum = self.duals.loss_sum

    def dual_vector(self, U):
        """U, and the summed loss with it, computed afresh."""
        U[:] = 0.0
        self.loss_sum = self.duals.sum_up(U)

    def curvature(self) -> float:
        """Mean of C_i |psi_i|^2 over the blocks."""
        return float(np.mean(self.duals.weight * self.duals.curvature()))

    def wake(self) -> None:
        """Visit all blocks in the next pass with the oracle."""
        self.interval[:] = 1
        self.age = 0
        self.due[self.duals.weight > 0.0] = -1

    def widen(self) -> None:
        """W and all that visits work with in float64."""
        wide = aligned_zeros(len(self.w), np.float64)
        wide[:] = self.w
        self.w = wide
        self.duals.allocate(np.float64)

    def arrays(self) -> Arrays:
        """Everything, as named arrays."""
        own = {
            "w": self.w,
            "weight": self.duals.weight,
            "gap": self.gap,
            "interval": self.interval,
            "due": self.due,
            "counters": np.array([self.passes, self.loss_sum, self.rise, self.age]),
        }
        return own | self.duals.arrays()

    def check(self, arrays: Arrays) -> None:
        """Refuse what no run over these blocks can have left."""
        n, weight = len(self.gap), self.duals.weight
        check(
            arrays,
            {
                "w": vector(len(self.w)),
                "gap": Stored("f8", (n,), 0.0, infinite=True),
                "interval": Stored("i8", (n,), 1, _LONGEST),
                "due": Stored("i8", (n,), -1, _NEVER),
                "counters": Stored("f8", (4,), high=_LONGEST),
            },
        )
        require(arrays["counters"][[0, 2, 3]] >= 0.0, "counters are negative")
        require(arrays["due"][weight == 0.0] == _NEVER, "blocks without weight are due")
        self.duals.check(arrays, weight)

    def restore(self, arrays: Arrays) -> None:
        """Go on exactly where `arrays` were taken."""
        self.check(arrays)
        if arrays["w"].dtype != self.w.dtype:
            self.widen()
        for name in ("w", "gap", "interval", "due"):
            getattr(self, name)[:] = arrays[name]
        passes, self.loss_sum, self.rise, age = arrays["counters"].tolist()
        self.passes, self.age = int(passes), int(age)
        self.duals.restore(arrays, np.ones(len(self.gap)))

    def hot_start(self, arrays: Arrays, same_weights: bool) -> None:
        """The dual point of `arrays`, scaled block by block to these weights.

        Blocks that had not used up what they were allowed keep what they have where more is
        allowed: that is near to where they will be, and scaled it would be too much.
        """
        if "weight" not in arrays:
            raise InvalidData(
                "the start was made by a solver that keeps some blocks only: start from a solve "
                "with dual_coordinate, or from nothing (warm_start=False)"
            )
        missing = self.duals.arrays().keys() - arrays.keys()
        if missing:
            raise InvalidData(
                f"the start has no {', '.join(sorted(missing))}: its dual variables have another "
                "form; start from a solve with the same solver, or from nothing (warm_start=False)"
            )
        old = arrays["weight"]
        check(arrays, {"weight": Stored("f8", self.duals.weight.shape, 0.0)})
        self.duals.check(arrays, old)
        growth = self.duals.weight / np.where(old > 0.0, old, 1.0)
        self.duals.restore(arrays, np.ones(len(old)))
        at_bound = self.duals.used() >= USED_UP * old
        self.duals.restore(arrays, np.where(at_bound, growth, np.minimum(growth, 1.0)))
        self.duals.complete()


def draw_seed(rng: np.random.Generator) -> np.uint64:
    """A number, not zero, from which a pass draws its order and samples."""
    return rng.integers(1, 2**63, dtype=np.uint64)


class BlockAscent(Solver[CoordinateState]):
    """A solver that visits blocks, and keeps dual variables for each.

    Attributes
    ----------
    cached_passes : int
        Passes over what was found already, without the oracle, between passes with it.
    shrink : float
        A block with a gap below this fraction of the mean is visited less often; 0 visits all.
    max_interval : int
        The longest interval between visits, in passes with the oracle.
    order : {"permutation", "gap"}
        Each due block once in random order, or as many draws with odds proportional to the gap.
    shuffle : bool
        Whether the order is random; otherwise it is that of the blocks.
    """

    cached_passes: int = 0
    shrink: float = 0.0
    max_interval: int = 1
    order: str = "permutation"
    shuffle: bool = True

    @abstractmethod
    def duals_of(
        self, data: CompiledData | PythonData, weight: np.ndarray, n_jobs: int
    ) -> BlockDual:
        """All weight on the truths, in the form that this solver works with."""

    def init(self, problem: Problem, rng: np.random.Generator) -> CoordinateState:
        """All weight on the truths: a = 0."""
        check_in_memory(problem, self.name)
        w = aligned_zeros(problem.data.size, problem.data.dtype)
        return self.state_of(problem.data, problem.block_weight, problem.n_jobs, w, rng)

    def state_of(
        self,
        data: CompiledData | PythonData,
        weight: np.ndarray,
        n_jobs: int,
        w: np.ndarray,
        rng: np.random.Generator,
    ) -> CoordinateState:
        """a = 0 for some blocks."""
        duals = self.duals_of(data, weight, n_jobs)
        if w.dtype != data.dtype:
            duals.allocate(w.dtype.type)
        return CoordinateState(duals, w, rng)

    def pass_(
        self, problem: Problem, state: CoordinateState, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """One pass: with the oracle over the blocks that are due, or over the stored planes."""
        return self.go_through(state, draw_seed(state.rng), stiffness, keep_going)

    def go_through(
        self, state: CoordinateState, seed: np.uint64, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """One pass, whose order and samples are drawn from a seed."""
        sweep = self.begin(state, seed)
        visited = self._visit(state, sweep, stiffness, keep_going)
        if visited == len(sweep.order):
            state.duals.finish(state.w, stiffness, sweep.sums)
        return self.end(state, sweep, visited)

    def begin(self, state: CoordinateState, seed: np.uint64) -> Sweep:
        """The blocks that a pass visits."""
        asks = not state.duals.cached_visits or state.passes % (1 + self.cached_passes) == 0
        candidates = state.due <= state.passes if asks else state.duals.revisitable()
        blocks = np.flatnonzero(candidates)
        before = state.gap[blocks] if asks else state.gap[:0]
        sums = np.array([state.loss_sum, 0.0, 0.0])
        return Sweep(asks, blocks, before, self._order(blocks, state, seed), seed, sums)

    def end(self, state: CoordinateState, sweep: Sweep, visited: int) -> PassReport:
        """What a pass did that visited so many of the blocks in its order."""
        asks, blocks, before, order, _seed, sums = sweep
        if asks:
            if visited < len(order) or self.order != "permutation":
                seen = np.isin(blocks, order[:visited])
                blocks, before = blocks[seen], before[seen]
            self._schedule(state, blocks, before)
        state.passes += 1
        state.loss_sum = float(sums[0])
        complete = asks and visited == len(order)
        return PassReport(
            gap=float(state.gap.sum()) + state.rise * state.age,
            movement=float(sums[1]),
            oracle_calls=visited if asks else 0,
            event=PassEvent.COMPLETE if complete else PassEvent.INCOMPLETE,
            candidate=Candidate() if complete else None,
        )

    def _order(self, blocks: np.ndarray, state: CoordinateState, seed: np.uint64) -> np.ndarray:
        if not self.shuffle:
            return blocks
        gaps = state.gap[blocks]
        certain = self.order == "permutation" or (state.due[blocks] < 0).any()
        if certain or gaps.sum() <= 0.0:
            order = blocks.copy()
            shuffle(order, seed)
            return order
        # A tenth of the draws is uniform, because a gap is as old as the block's last visit.
        odds = 0.9 * gaps / gaps.sum() + 0.1 / len(blocks)
        return state.rng.choice(blocks, size=len(blocks), p=odds / odds.sum())

    @staticmethod
    def _visit(
        state: CoordinateState, sweep: Sweep, stiffness: float, keep_going: KeepGoing
    ) -> int:
        """Visit in parts of a fraction of a second, asking between them; return how many."""
        done = 0
        for first, done in state.pace.ranges(len(sweep.order), keep_going):
            state.visit(sweep.order[first:done], sweep, stiffness)
        return done

    def _schedule(self, state: CoordinateState, visited: np.ndarray, before: np.ndarray) -> None:
        """Set the next visit of the blocks just visited by how their gaps compare."""
        step = 1 + self.cached_passes * state.duals.cached_visits
        rise, age = _set_visits(
            visited, before, state.gap, state.interval, state.due, state.passes, step, self.shrink,
            self.max_interval,
        )  # fmt: skip
        if age > 0:
            state.rise = max(rise, 0.0) / age
        state.age = max(state.age - age + state.n_weighted - len(visited), 0)


@kernel
def _set_visits(visited, before, gap, interval, due, now, step, shrink, longest):
    """A gap below `shrink` times the mean lengthens the interval; any other makes it 1.

    Returns by how much the gaps of blocks that had been left out rose since they were last seen,
    and for how many passes they had been.
    """
    mean = 0.0
    rise = 0.0
    age = 0
    for position in range(visited.shape[0]):
        i = visited[position]
        gap[i] = max(gap[i], 0.0)
        mean += gap[i] / visited.shape[0]
        if interval[i] > 1:
            rise += gap[i] - before[position]
            age += interval[i] - 1
    for i in visited:
        interval[i] = min(2 * interval[i] + 1, longest) if gap[i] < shrink * mean else 1
        due[i] = now + step * interval[i]
    return rise, age
