"""Some blocks with their dual variables, which sweeps improve one block at a time.

Which blocks are visited, in which order, and what their gaps say about when to come back: the same
for all solvers that ascend by blocks, wherever the blocks are. Solvers differ in the form of their
dual variables and in what a visit does (`taut.duals`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from taut.binding import Data
from taut.compiled.jit import kernel
from taut.duals import BlockDual
from taut.engines.naming import Arrays
from taut.engines.turns import KeepGoing, Pace, shuffle
from taut.errors import InvalidData
from taut.storage.stored import Stored, check, require

_NEVER = 2**62  # a pass that does not come
_LONGEST = 2**48  # more passes than any run has
USED_UP = 1.0 - 1e-6  # share of a block's weight from which the truth has nothing left
_KNOWN = ("gap", "interval", "due")  # of each block
_SUMS = ("loss_sum", "rise")  # of all blocks, as large as the objective is


def check_order(order: str) -> None:
    """Refuse orders of visits that there are not."""
    if order not in ("permutation", "uniform", "gap"):
        raise InvalidData(f"order = {order!r}: give 'permutation', 'uniform' or 'gap'")


class Ascent(ABC):
    """What a solver says about sweeps over blocks."""

    name: ClassVar[str]
    #: Passes over what was found already, without the oracle, between passes with it.
    cached_passes: int = 0
    #: A block with a gap below this fraction of the mean is visited less often; 0 visits all.
    shrink: float = 0.0
    #: The longest interval between visits, in passes with the oracle.
    max_interval: int = 1
    #: Each due block once ("permutation"), or as many draws, all with the same odds ("uniform") or
    #: with odds proportional to the gap ("gap").
    order: str = "permutation"
    #: Whether the order is random; otherwise it is that of the blocks.
    shuffle: bool = True

    @abstractmethod
    def duals_of(self, data: Data, weight: np.ndarray, n_jobs: int) -> BlockDual:
        """All weight on the truths, in the form that this solver works with."""

    def part_of(self, data: Data, weight: np.ndarray, n_jobs: int, dtype: np.dtype) -> Part:
        """Some blocks with a = 0, for w of a type."""
        duals = self.duals_of(data, weight, n_jobs)
        if dtype != data.dtype:
            duals.allocate(dtype.type)
        return Part(self, duals)


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


class Reply(NamedTuple):
    """What a sweep over a part found; replies of several add up."""

    gap: float  # of all blocks of the part, each as it was last seen
    movement: float  # sum over visits of the squared length of the visit's move of U
    calls: int  # of the oracle
    whole: bool  # whether all blocks were visited that it was about
    asked: bool  # whether visits asked the oracle

    @property
    def complete(self) -> bool:
        """Whether the oracle was asked for all blocks that were due."""
        return self.whole and self.asked

    @classmethod
    def total(cls, replies: Sequence[Reply]) -> Reply:
        """Of all parts together."""
        return cls(
            sum(reply.gap for reply in replies),
            sum(reply.movement for reply in replies),
            sum(reply.calls for reply in replies),
            all(reply.whole for reply in replies),
            all(reply.asked for reply in replies),
        )


class Part:
    """Dual variables of some blocks, and what is known about when to visit which."""

    def __init__(self, ascent: Ascent, duals: BlockDual) -> None:
        check_order(ascent.order)
        n = len(duals.weight)
        self.ascent = ascent
        self.duals = duals
        self.loss_sum = 0.0  # of a loss, as visits have added it up
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
        self.leave_out(duals.weight == 0.0)

    # Sweeps

    def sweep(
        self,
        w: np.ndarray,
        seed: np.uint64,
        rng: np.random.Generator,
        stiffness: float,
        keep_going: KeepGoing,
    ) -> Reply:
        """A whole sweep, whose order and samples are drawn from a seed."""
        sweep = self.begin(seed, rng)
        visited = self.visit_in_turn(sweep, w, stiffness, keep_going)
        if visited == len(sweep.order):
            self.duals.finish(w, stiffness, sweep.sums)
        return self.end(sweep, visited)

    def begin(self, seed: np.uint64, rng: np.random.Generator) -> Sweep:
        """The blocks that a sweep visits: with the oracle those that are due, or by planes."""
        period = 1 + self.ascent.cached_passes
        asks = not self.duals.cached_visits or self.passes % period == 0
        asks = asks and self.duals.asks
        blocks = np.flatnonzero(self.due <= self.passes if asks else self.duals.revisitable())
        before = self.gap[blocks] if asks else self.gap[:0]
        sums = np.array([self.loss_sum, 0.0, 0.0])
        return Sweep(asks, blocks, before, self.ordered(blocks, seed, rng), seed, sums)

    def visit(self, blocks: np.ndarray, sweep: Sweep, w: np.ndarray, stiffness: float) -> None:
        """Visit some of the blocks of a sweep."""
        self.duals.seed = sweep.seed
        self.duals.visit(blocks, w, stiffness, sweep.asks_oracle, self.gap, sweep.sums)

    def visit_in_turn(
        self, sweep: Sweep, w: np.ndarray, stiffness: float, keep_going: KeepGoing
    ) -> int:
        """Visit for a fraction of a second at a time, asking in between; return how many."""
        done = 0
        for first, done in self.pace.ranges(len(sweep.order), keep_going):
            self.visit(sweep.order[first:done], sweep, w, stiffness)
        return done

    def end(self, sweep: Sweep, visited: int) -> Reply:
        """What a sweep did that visited so many of the blocks in its order."""
        asks, blocks, before, order, _seed, sums = sweep
        if asks:
            if visited < len(order) or self.ascent.order != "permutation":
                seen = np.isin(blocks, order[:visited])
                blocks, before = blocks[seen], before[seen]
            self._schedule(blocks, before)
        self.passes += 1
        self.loss_sum = float(sums[0])
        calls, whole = visited if asks else 0, visited == len(order)
        # Where no oracle can be asked, nothing is due that it was not asked for.
        return Reply(self.total_gap, float(sums[1]), calls, whole, asks or not self.duals.asks)

    def ordered(self, blocks: np.ndarray, seed: np.uint64, rng: np.random.Generator) -> np.ndarray:
        """Blocks in the order in which a sweep visits them."""
        if not self.ascent.shuffle:
            return blocks
        gaps = self.gap[blocks]
        certain = self.ascent.order == "permutation" or (self.due[blocks] < 0).any()
        if certain or gaps.sum() <= 0.0:
            order = blocks.copy()
            shuffle(order, seed)
            return order
        if self.ascent.order == "uniform":
            return rng.choice(blocks, size=len(blocks))
        # A tenth of the draws is uniform, because a gap is as old as the block's last visit.
        odds = 0.9 * gaps / gaps.sum() + 0.1 / len(blocks)
        return rng.choice(blocks, size=len(blocks), p=odds / odds.sum())

    def _schedule(self, visited: np.ndarray, before: np.ndarray) -> None:
        """Set the next visit of the blocks just visited by how their gaps compare."""
        ascent = self.ascent
        step = 1 + ascent.cached_passes * self.duals.cached_visits
        rise, age = _set_visits(
            visited, before, self.gap, self.interval, self.due, self.passes, step, ascent.shrink,
            ascent.max_interval,
        )  # fmt: skip
        if age > 0:
            self.rise = max(rise, 0.0) / age
        self.age = max(self.age - age + self.n_weighted - len(visited), 0)

    # What is known of the blocks

    @property
    def total_gap(self) -> float:
        """Of all blocks, each as it was last seen, and how much that has risen since."""
        return float(self.gap.sum()) + self.rise * self.age

    def leave_out(self, blocks: np.ndarray) -> None:
        """Do not visit some blocks: they have no weight, or are another part's."""
        self.gap[blocks] = 0.0
        self.due[blocks] = _NEVER

    @property
    def left_out(self) -> np.ndarray:
        """Which blocks are never visited."""
        return self.due == _NEVER

    def wake(self) -> None:
        """Visit all blocks in the next pass with the oracle."""
        self.interval[:] = 1
        self.age = 0
        self.due[self.duals.weight > 0.0] = -1

    def curvature(self) -> np.ndarray:
        """C_i |psi_i|^2 of each block."""
        return self.duals.weight * self.duals.curvature()

    def sum_up(self, U: np.ndarray) -> float:
        """U += sum of a psi, and the sum of a loss, computed afresh."""
        self.loss_sum = self.duals.sum_up(U)
        return self.loss_sum

    def subtract(self, U: np.ndarray) -> float:
        """U -= sum of a psi, and the sum of a loss."""
        np.negative(U, out=U)
        self.sum_up(U)
        np.negative(U, out=U)
        return self.loss_sum

    def widen(self) -> None:
        """All that visits work with in float64."""
        self.duals.allocate(np.float64)

    # Moving blocks between parts

    def take(self, blocks: np.ndarray) -> Arrays:
        """The dual variables of some blocks."""
        return self.duals.take(blocks)

    def put(self, blocks: np.ndarray, arrays: Arrays) -> None:
        """Let some blocks have dual variables that `take` returned."""
        self.duals.put(blocks, arrays)

    def copy_of(self, other: Part, blocks: np.ndarray) -> None:
        """Have what another part has of its blocks of these numbers, and know what it knows."""
        self.put(np.arange(len(blocks)), other.take(blocks))
        self.know(other, blocks)
        self.rise = other.rise

    def know(self, other: Part, blocks: np.ndarray) -> None:
        """Know of the blocks what another part knows of its blocks of these numbers."""
        for name in _KNOWN:
            getattr(self, name)[:] = getattr(other, name)[blocks]
        self.passes = other.passes
        self.loss_sum = self.duals.loss_sum

    def join(self, others: Sequence[Part]) -> None:
        """Have what other parts have, one after the other, and know what they know."""
        first = 0
        self.passes = max(other.passes for other in others)
        for other in others:
            n = len(other.gap)
            own = slice(first, first + n)
            self.put(np.arange(first, first + n), other.take(np.arange(n)))
            for name in _KNOWN:
                getattr(self, name)[own] = getattr(other, name)
            self.due[own] += np.where(other.left_out, 0, self.passes - other.passes)
            first += n
        self.loss_sum = self.duals.loss_sum

    @property
    def nbytes(self) -> int:
        """Memory of the dual variables, which grow; all else is as long as there are blocks."""
        return self.duals.nbytes

    # Saving

    def arrays(self) -> Arrays:
        """Everything, as named arrays."""
        own = {name: getattr(self, name) for name in _KNOWN}
        own |= {name: np.array(float(getattr(self, name))) for name in _SUMS}
        counters = np.array([self.passes, self.age], dtype=np.int64)
        return own | {"weight": self.duals.weight, "counters": counters} | self.duals.arrays()

    def check(self, arrays: Arrays) -> None:
        """Refuse what no run over these blocks can have left."""
        n, weight = len(self.gap), self.duals.weight
        check(
            arrays,
            {
                "gap": Stored("f8", (n,), 0.0, infinite=True),
                "interval": Stored("i8", (n,), 1, _LONGEST),
                "due": Stored("i8", (n,), -1, _NEVER),
                "loss_sum": Stored("f8", ()),
                "rise": Stored("f8", (), 0.0),
                "counters": Stored("i8", (2,), 0, _LONGEST),
            },
        )
        require(arrays["due"][weight == 0.0] == _NEVER, "blocks without weight are due")
        self.duals.check(arrays, weight)

    def restore(self, arrays: Arrays) -> None:
        """Go on exactly where `arrays` were taken."""
        self.check(arrays)
        for name in _KNOWN:
            getattr(self, name)[:] = arrays[name]
        for name in _SUMS:
            setattr(self, name, float(arrays[name]))
        self.passes, self.age = arrays["counters"].tolist()
        self.duals.restore(arrays, np.ones(len(self.gap)))

    def hot_start(self, arrays: Arrays) -> None:
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
