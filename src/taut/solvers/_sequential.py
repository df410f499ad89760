"""Solvers that go through the blocks one after the other, and keep nothing per block.

Visit t moves weight a_j >= 0, sum_j a_j <= C_i, from a block's truth to labels that it finds, and
adds to a sum of all visits:  S += sum_j a_j psi_i(y_j),  L += sum_j a_j loss_j. With n blocks,

    w = shift + s S,     s = n / t: what was found early fades, as by steps 1 / (lambda t) for
                                    1/2 |w|^2 with lambda = 1 / (n C);
                     or  s = 1:     what was found stays.

Scaling touches all of w, so t rises in groups of visits: within a group s has the value of its end.
Groups end where the count of visits says so, and at the end of each pass, whatever part of the data
is at hand: a stream and the same data in memory give the same numbers.

Every block has got at most C_i in each pass. So sigma S with 0 <= sigma <= 1 / (passes begun) is a
dual vector of feasible dual variables, at any time, and sigma L is their summed loss: with the best
sigma it gives a true lower bound, though no dual variable is kept. After k whole passes of the
fading rule s = 1 / k, and w itself is such a point.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Generator
from contextlib import closing
from typing import ClassVar

import numpy as np

from taut._jit import kernel
from taut._lanes import aligned_zeros
from taut.binding import CompiledData, PythonData
from taut.errors import InvalidData
from taut.problem import Problem
from taut.sampling import Argmax, Sampler
from taut.solvers._turns import Pace, shuffle
from taut.solvers._visits import (
    HINGE,
    LOSS,
    STEPS,
    Progress,
    PythonVisits,
    SampledVisits,
    Step,
    Visits,
    mixed,
)
from taut.solvers.base import DualState, KeepGoing, PassReport, Solver
from taut.streamed import StreamedProblem

_SECONDS = 1.0  # of visits without a report
_GROUP = 0.01  # of the visits so far, in which s stands still
_CHEAP = 512  # numbers that are scaled in the time of a cheap visit, about
_MOST = 0.05  # of the blocks: the longest first group that scaling may need to be cheap
_NEVER = 2**62

_COUNTS = ("visits", "first", "passes", "group", "seed", "number", "done")

PartData = tuple[CompiledData | PythonData, np.ndarray]


@kernel
def _subtract(vector, other, factor):
    for j in range(vector.shape[0]):
        vector[j] -= factor * other[j]


class Turn:
    """The blocks of a part that are to be visited, in order."""

    def __init__(self, visits: Visits, order: np.ndarray, weight: np.ndarray) -> None:
        self.visits = visits
        self.order = order
        self.weight = weight


class SequentialState(DualState):
    """The sum of all visits, through w, and where in the data the next one is.

    Attributes
    ----------
    scale : float
        s: w is what the prior has and this times S.
    share : float
        sigma, of the dual point that was last appraised.
    late : ndarray
        The sum of all moves of S, each times the number of visits before it.
    sums : ndarray
        L; C_i times the hinges as seen in this pass; how many of its visits moved w.
    n : int
        Blocks with weight; 0 while it is not known.
    visits, first : int
        Visits so far, and before this pass.
    passes : int
        How often each block may have been visited: passes begun, and 1 where blocks do not come
        again.
    group : int
        The count of visits up to which s stands still.
    seed, number, done : int
        Of the order of this pass; parts that it is through with; visits in the part at hand.
    """

    follows = False

    def __init__(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> None:
        self.problem = problem
        self.w = w
        self.rng = rng
        self.late = aligned_zeros(len(w), np.float64)
        self.average = aligned_zeros(len(w), np.float64)
        self.scratch = np.zeros(0)
        self.sums = np.zeros(3)
        self.scale = 1.0
        self.share = 0.0
        self.dual = 0.0
        self.n = 0
        self.radius = math.inf  # of S in the scale of w
        self.visits = self.first = self.passes = 0
        self.group = self.seed = self.number = self.done = 0
        self.ended = True  # whether a pass is to begin
        self.turn: Turn | None = None
        self.reader: Generator[PartData] | None = None
        self.pace = Pace()

    # What the loop asks for

    @property
    def loss_sum(self) -> float:
        """sigma L."""
        return float(self.share * self.sums[LOSS])

    @property
    def outcome(self):
        """The average of w: the hinges that visits saw are those of its points."""
        return self.average if self.visits else self.w

    def dual_vector(self, U):
        """sigma S."""
        self.problem.quadratic.dual_vector(self.w, self.share / self.scale, U)

    def dual_value(self, conjugate):
        """D, as it was last appraised."""
        return self.dual

    def curvature(self):
        """Not known, and of no use: there is no centre."""
        return 0.0

    def close(self):
        """Stop reading. A part that does not come again is kept until it is through."""
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.close()
        if not _goes_on(self.problem):
            self.turn = None

    # The dual point

    def appraise(self) -> None:
        """The best sigma that keeps the dual point feasible, and its dual value.

        The dual is concave in sigma, and its slope is linear where w has no bounds: the root of the
        line through the slopes at both ends is then the best, and a feasible choice in any case.
        """
        quadratic, loss = self.problem.quadratic, self.scale * self.sums[LOSS]
        limit = 1.0 / (self.scale * max(self.passes, 1))  # of sigma / s, which multiplies w
        conjugate, rise = quadratic.along(self.w, limit)
        factor, end = limit, loss - rise
        if end < 0.0:
            begin = loss - quadratic.along(self.w, 0.0)[1]
            factor = limit * begin / (begin - end) if begin > 0.0 else 0.0
            conjugate, _ = quadratic.along(self.w, factor)
        self.share = factor * self.scale
        self.dual = float(factor * loss - conjugate)

    def shrink(self, factor: float) -> None:
        """Multiply the weights of all visits so far."""
        self.problem.quadratic.rescale(self.w, factor)
        self.late *= factor
        self.sums[LOSS] *= factor

    def rescale(self, scale: float) -> None:
        """Let w have another scale."""
        if scale != self.scale:
            self.problem.quadratic.rescale(self.w, scale / self.scale)
            self.scale = scale

    def averaged(self, factor: float) -> np.ndarray:
        """shift + factor times the sum of S after each visit; in memory that is used again."""
        self.average[:] = self.w
        self.problem.quadratic.rescale(self.average, factor * self.visits / self.scale)
        _subtract(self.average, self.late, factor)
        return self.average

    # Saving

    def arrays(self):
        """Everything, as named arrays."""
        return {
            "w": self.w,
            "late": self.late,
            "scratch": self.scratch,
            "sums": self.sums,
            "scales": np.array([self.scale, self.share, self.dual, self.problem.C]),
            "counts": np.array([self.ended, *(getattr(self, name) for name in _COUNTS)]),
        }

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        for name in ("w", "late", "sums"):
            getattr(self, name)[:] = arrays[name]
        if len(arrays["scratch"]) == len(self.scratch):
            self.scratch[:] = arrays["scratch"]
        self.scale, self.share, self.dual, _ = arrays["scales"].tolist()
        ended, *counts = arrays["counts"].tolist()
        self.ended = bool(ended)
        for name, count in zip(_COUNTS, counts, strict=True):
            setattr(self, name, count)

    def hot_start(self, arrays, same_weights):
        """All visits of another solve of the same blocks, with weights in the same proportions."""
        if "counts" not in arrays or "late" not in arrays:
            raise InvalidData(
                "the start was made by a solver that keeps dual variables of its blocks: start "
                "from a solve with a solver of this kind, or from nothing (warm_start=False)"
            )
        C = float(arrays["scales"][3])
        same_proportions = self.problem.with_factor(C).weight_digest
        if arrays["weight_digest"].tobytes() != same_proportions:
            raise InvalidData(
                "the start has sample weights in other proportions, and it is not known what each "
                "block has got: start from a solve with the same sample weights and any C, or from "
                "nothing (warm_start=False)"
            )
        self.restore(arrays)
        self.group = self.visits  # another rule for s may hold from here on
        if not same_weights:
            self.shrink(self.problem.C / C)
        self.appraise()


class Sequential(Solver[SequentialState]):
    """A solver that goes through the blocks, and keeps their sum.

    Visits are sequential: `n_jobs` has no effect on them, and serves the certificate alone.

    Attributes
    ----------
    fades : bool
        Whether s = n / t; else it is 1. While n is not known it is what has been seen: s = 1.
    shuffle : bool
        Random order: of the blocks in memory; of the chunks of a source, where it allows that, and
        of the blocks in each.
    sampler : Sampler
        What finds labels.
    n_labels : int
        How many it is asked for.
    """

    can_be_fed = True
    fades: ClassVar[bool] = False
    shuffle: bool = True
    sampler: Sampler = Argmax()
    n_labels: int = 1

    @property
    @abstractmethod
    def step(self) -> Step:
        """How a visit moves weight from the truth to the labels that it finds."""

    def visits_of(self, data: CompiledData | PythonData, state: SequentialState) -> Visits:
        """Visits of the blocks of a part."""
        if isinstance(data, PythonData):
            return PythonVisits(data, self.sampler, self.n_labels, self.step, state.rng)
        return SampledVisits(data, self.sampler, self.n_labels, self.step, state.scratch)

    def init(self, problem: Problem, rng: np.random.Generator) -> SequentialState:
        """S = 0."""
        data = problem.data
        state = SequentialState(problem, aligned_zeros(data.size, np.float64), rng)
        if self.step.uses_gram and isinstance(data, CompiledData) and data.oracles.inner is None:
            state.scratch = aligned_zeros(data.size, np.float64)
        if self.fades and problem.repeatable:
            state.n = _n_weighted(problem)
        return state

    def pass_(
        self, problem: Problem, state: SequentialState, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """A pass; one over a stream is handed back about every second."""
        began, before = time.perf_counter(), state.visits
        if state.ended:
            self._begin(state)
        while self._take_turn(state):
            self._visit(state)
            through = state.turn is None  # with a part; data in memory have one
            if not keep_going() or (through and time.perf_counter() - began > _SECONDS):
                self._take_turn(state)  # to know whether it was the last part
                break
        return self._report(state, state.visits - before)

    def _begin(self, state: SequentialState) -> None:
        """Begin another pass."""
        state.ended, state.number, state.done, state.first = False, 0, 0, state.visits
        state.seed = int(state.rng.integers(1, 2**63))
        state.sums[STEPS] = 0.0
        if state.problem.repeatable:
            state.sums[HINGE] = 0.0
        if state.problem.repeatable or state.passes == 0:
            state.passes += 1

    def _take_turn(self, state: SequentialState) -> bool:
        """Have blocks to visit, of the next part if need be; False at the end of the pass."""
        while state.turn is None and not state.ended:
            if state.reader is None:
                state.reader = self._parts(state)
            found = next(state.reader, None)
            if found is None:
                state.reader, state.ended = None, True
                break
            data, weight = found
            order = np.flatnonzero(weight > 0.0)
            if self.shuffle:
                shuffle(order, np.uint64(mixed(np.uint64(state.seed), state.number)))
            if len(order):
                state.turn = Turn(self.visits_of(data, state), order, weight)
            else:
                state.number += 1
        return not state.ended

    def _parts(self, state: SequentialState) -> Generator[PartData]:
        """The parts of this pass that are still to be visited, the one at hand included."""
        problem = state.problem
        if not isinstance(problem, StreamedProblem):
            if state.number == 0:
                yield problem.data, problem.block_weight
            return
        source, order = problem.source, None
        if source.random_access:
            order = np.arange(source.n_chunks or 0)
            if self.shuffle:
                shuffle(order, np.uint64(state.seed))
            order = order[state.number :]
        with closing(problem.parts(order)) as parts:
            for _ in range(0 if source.goes_on or order is not None else state.number):
                next(parts)
            for _chunk, part in parts:
                yield part.data, part.weight

    def _visit(self, state: SequentialState) -> None:
        """Visit as many blocks as the pace, the group and the part allow."""
        turn = state.turn
        assert turn is not None
        if state.visits >= state.group:
            self._begin_group(state)
        count = min(state.pace.visits, state.group - state.visits)
        blocks = turn.order[state.done : state.done + count]
        started = time.perf_counter()
        turn.visits.visit(
            blocks,
            turn.weight,
            Progress(
                state.w, state.late, state.sums, state.scale, state.visits, np.uint64(state.seed)
            ),
        )
        state.pace.adapt(len(blocks), time.perf_counter() - started)
        state.visits += len(blocks)
        state.done += len(blocks)
        if state.visits == state.group:
            self._project(state)
        if state.done == len(turn.order):
            state.turn, state.done, state.number = None, 0, state.number + 1

    def _begin_group(self, state: SequentialState) -> None:
        """Choose the visits in which s stands still, and give w its scale at their end."""
        if not (self.fades and state.n):
            state.group = _NEVER
            state.rescale(1.0)
            return
        cheap = min(len(state.w) // _CHEAP, int(_MOST * state.n))
        size = max(1, int(_GROUP * state.visits), cheap)
        state.group = min(state.visits + size, max(state.passes * state.n, state.visits + 1))
        state.rescale(state.n / state.group)

    def _project(self, state: SequentialState) -> None:
        """Draw w back to where the optimum is known to be."""
        if state.radius < math.inf:
            length = math.sqrt(2.0 * state.problem.quadratic.value(state.w))
            if length > state.radius:
                state.shrink(state.radius / length)

    def _report(self, state: SequentialState, calls: int) -> PassReport:
        """The bounds as far as the visits tell them, and the average of w."""
        problem, visited = state.problem, state.visits - state.first
        average = self._average(state)
        state.appraise()
        hinges = state.sums[HINGE]
        if problem.repeatable and not state.ended:  # those to come are like those that came
            hinges *= max((state.n or problem.n_blocks) / max(visited, 1), 1.0)
        w = state.w if problem.repeatable else state.outcome
        gap = problem.quadratic.value(w) + hinges - state.dual
        return PassReport(
            gap=max(float(gap), 0.0),
            movement=0.0,
            complete=state.ended,
            oracle_calls=calls,
            over=state.ended,
            recentre=False,
            settled=(
                state.ended and problem.repeatable and not self.fades and state.sums[STEPS] == 0.0
            ),
            average=average,
        )

    def _average(self, state: SequentialState) -> np.ndarray | None:
        """The mean of w over all visits; where it fades, later ones count in proportion to t."""
        t = state.visits
        if t == 0:
            return None
        return state.averaged(2.0 * (state.n or t) / (t * (t + 1.0)) if self.fades else 1.0 / t)


def _n_weighted(problem: Problem) -> int:
    """How many blocks have weight, by one reading where nothing else tells."""
    if not isinstance(problem, StreamedProblem):
        return int(np.count_nonzero(problem.block_weight))
    source = problem.source
    if problem.n_blocks and problem.recode(source.head).sample_weight is None:
        return problem.n_blocks
    total = 0
    with closing(source.chunks()) as chunks:
        for chunk in chunks:
            weight = problem.recode(chunk).sample_weight
            total += chunk.n_blocks if weight is None else int(np.count_nonzero(weight))
    return total


def _goes_on(problem: Problem) -> bool:
    """Whether blocks come in that do not come again."""
    return isinstance(problem, StreamedProblem) and problem.source.goes_on
