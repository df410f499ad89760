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
from collections.abc import Generator
from typing import ClassVar

import numpy as np

from taut.binding import Data, PythonData
from taut.compiled.lanes import aligned_zeros
from taut.engines.turns import KeepGoing, shuffle
from taut.problem import Problem
from taut.sampling import Argmax, Sampler
from taut.solvers._sequential_state import PartData, SequentialState, Turn
from taut.solvers._visitors import (
    HINGE,
    STEPS,
    Progress,
    PythonVisitor,
    Rule,
    SampledVisitor,
    Visitor,
    mixed,
)
from taut.solvers.base import Candidate, PassEvent, PassReport, Solver

_SECONDS = 1.0  # of visits without a report
_GROUP = 0.01  # of the visits so far, in which s stands still
_CHEAP = 512  # numbers that are scaled in the time of a cheap visit, about
_MOST = 0.05  # of the blocks: the longest first group that scaling may need to be cheap
_NEVER = 2**62


class Sequential(Solver[SequentialState]):
    """A solver that goes through the blocks, and keeps their sum.

    Visits are sequential: `n_jobs` has no effect on them, and serves the certificate alone.
    """

    can_be_fed = True
    #: Whether s = n / t; else it is 1. While n is not known it is what has been seen: s = 1.
    fades: ClassVar[bool] = False
    #: Random order: of the blocks in memory, of chunks where that is possible, of blocks in each.
    shuffle: bool = True
    #: Whether the average of w is looked at beside w.
    averaging: bool = True

    @property
    def n_wanted(self) -> int:
        """How many labels the sampler is asked for."""
        return 1

    def sampler_of(self, data: Data) -> Sampler:
        """What finds labels."""
        return Argmax()

    @property
    def rule(self) -> Rule:
        """When the first label of a visit gets all weight; None for exact steps to all labels."""
        return None

    def visitor_of(self, data: Data, state: SequentialState) -> Visitor:
        """What visits the blocks of a part."""
        sampler, rule = self.sampler_of(data), self.rule
        if isinstance(data, PythonData):
            return PythonVisitor(data, sampler, self.n_wanted, rule, state.rng)
        return SampledVisitor(data, sampler, self.n_wanted, rule, state.scratch)

    def init(self, problem: Problem, rng: np.random.Generator) -> SequentialState:
        """S = 0."""
        data = problem.data
        state = SequentialState(problem, aligned_zeros(data.size, np.float64), rng)
        state.averaging = self.averaging
        if self.rule is None and not data.lifts:
            state.scratch = aligned_zeros(data.size, np.float64)
        if self.fades and problem.repeatable:
            state.n = problem.n_weighted()
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
                state.turn = Turn(self.visitor_of(data, state), order, weight)
            else:
                state.number += 1
        return not state.ended

    def _parts(self, state: SequentialState) -> Generator[PartData]:
        """The parts of this pass that are still to be visited, the one at hand included."""
        problem, order = state.problem, None
        if problem.random_access:
            order = np.arange(problem.n_parts)
            if self.shuffle:
                shuffle(order, np.uint64(state.seed))
        return problem.bound(order, state.number)

    def _visit(self, state: SequentialState) -> None:
        """Visit as many blocks as the pace, the group and the part allow."""
        turn = state.turn
        assert turn is not None
        if state.visits >= state.group:
            self._begin_group(state)
        count = min(state.pace.visits, state.group - state.visits)
        blocks = turn.order[state.done : state.done + count]
        started = time.perf_counter()
        turn.visitor.visit(
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
        if state.done >= len(turn.order):
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
        candidate = None if average is None else Candidate(average)
        return PassReport(max(float(gap), 0.0), 0.0, calls, self._event(state), candidate)

    def _event(self, state: SequentialState) -> PassEvent:
        """Where a pass stands; without a step in it, another one makes none either."""
        if not state.ended:
            return PassEvent.PART
        idle = state.problem.repeatable and not self.fades and state.sums[STEPS] == 0.0
        return PassEvent.SETTLED if idle else PassEvent.COMPLETE

    def _average(self, state: SequentialState) -> np.ndarray | None:
        """The mean of w over all visits; where it fades, later ones count in proportion to t."""
        t = state.visits
        if t == 0 or not self.averaging:
            return None
        return state.averaged(2.0 * (state.n or t) / (t * (t + 1.0)) if self.fades else 1.0 / t)
