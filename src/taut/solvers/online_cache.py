"""Dual coordinate ascent over a stream, with a cache of the blocks that matter."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.checks import check_number
from taut.data.memory import as_bytes, return_large_arrays
from taut.engines.budget import Budget
from taut.engines.cache import Cache
from taut.engines.part import Reply
from taut.engines.turns import KeepGoing
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers.base import Candidate, PassEvent, PassReport, Solver
from taut.solvers.dual_coordinate import DualCoordinate
from taut.streamed import StreamedProblem

_SECONDS = 1.0  # of exploring without a report
_SETTLED = 0.2  # of `online_gap`: to what the cache is optimised within a pass
_PATIENCE = 40  # rounds without gain, after which the cache is as good as it gets
_PART = 0.1  # of what exploring found in a pass, to which the cache is optimised at its end
_ENOUGH = 0.3  # of the gap that is asked for, below which that is no better
_IDLE = 0.3  # share of idle blocks from which a segment is worth copying
_FREED = 0.2  # share of the budget that is freed when it is reached


@dataclass
class OnlineCache(Solver[Cache]):
    """Dual coordinate ascent with a cache of support vectors (Ramanan, Algorithm 2).

    Problem: max_a sum_iy a_iy loss_i(y) - 1/2 |sum_iy a_iy psi_i(y)|^2, a >= 0, sum_y a_iy <= C_i.
    Given: blocks chunk by chunk, and a loss-augmented argmax for each. Comes out: w and a feasible
    a, most of which is zero.

    A pass explores the stream: each block that is not in the cache is visited once, as by
    `DualCoordinate`, and kept with its features if it got weight. When the gaps found since the
    cache was last optimised exceed `online_gap` times the objective, and at the end of the pass,
    the cache is optimised by passes over it alone; blocks that lost their weight are dropped then.

    Cost per pass: one reading of the data, one oracle call per block, and passes over the cache.
    Memory: within `memory`. If the cache outgrows it, the features of its most settled blocks are
    dropped; their dual variables stay, and both come together when their chunk is read again.
    Blocks whose features are large and whose psi are small keep psi instead, while these fit, and
    are visited without the oracle. A run whose dual variables alone outgrow it ends with its best
    model (`Status.OUT_OF_MEMORY`).
    Certificate: exact, by one reading more; an estimate for a stream that can be read only once.
    One pass: `max_iter=1`.

    Parameters
    ----------
    memory : int or str, default="1GB"
        Bytes for buffers, cache and vectors together, on top of what the interpreter and its
        libraries take; `least_memory` says how many suffice.
    online_gap : float, default=0.1
        How much gap exploring may leave before the cache is optimised, relative to the objective.
    cache_gap : float, default=1e-3
        Relative gap to which the cache is optimised at the end of a pass; a tenth of what exploring
        found in the pass where that is less.
    reach : float, default=2.0
        Blocks that would be violated if their losses were larger by this share are kept too: they
        may be violated before they are seen again. It is the share for a cache that is a quarter
        full; the share is larger before, so that at first everything is kept, and 0 from half on.
    max_rounds : int, default=300
        Passes over the cache at one time.
    shuffle : bool, default=True
        Read chunks in random order, where the source allows it; else in sequence.
    recentring : float or "auto", default="auto"
        As for `DualCoordinate`.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import BinarySVM
    >>> from taut.data import Stream
    >>> from taut.solvers import OnlineCache
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(1000, 5))
    >>> y = X[:, 0] > 0
    >>> stream = Stream([(X[k : k + 100], y[k : k + 100]) for k in range(0, 1000, 100)])
    >>> model = BinarySVM(solver=OnlineCache(memory="50MB"), random_state=0).fit(stream)
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    name: ClassVar[str] = "online_cache"
    can_be_fed: ClassVar[bool] = True

    memory: int | str = "1GB"
    online_gap: float = 0.1
    cache_gap: float = 1e-3
    reach: float = 2.0
    max_rounds: int = 300
    shuffle: bool = True
    recentring: float | str = "auto"

    def __post_init__(self) -> None:
        as_bytes(self.memory, "memory")
        for name in ("online_gap", "cache_gap", "reach", "max_rounds"):
            check_number(name, getattr(self, name))
        if not (self.online_gap > 0.0 and self.cache_gap > 0.0 and self.max_rounds >= 1):
            raise InvalidData(
                f"online_gap = {self.online_gap} and cache_gap = {self.cache_gap} must be "
                f"positive, max_rounds = {self.max_rounds} at least 1"
            )
        if not 0.0 <= self.reach < math.inf:
            raise InvalidData(f"reach = {self.reach}: it must be 0 or more, and finite")

    def init(self, problem: Problem, rng: np.random.Generator) -> Cache:
        """An empty cache."""
        return_large_arrays()
        streamed = StreamedProblem.of(problem)
        state = Cache(streamed, DualCoordinate(), rng, as_bytes(self.memory))
        if state.cache_bytes <= 0:
            budget = state.budget
            raise InvalidData(
                f"memory = {self.memory!r} does not hold the vectors of {state.w.size} weights "
                f"({budget.vectors(state.w.dtype)} bytes) and the buffers for reading: give at "
                f"least {budget.least} bytes, {budget.duals} of which are for dual variables"
            )
        return state

    @staticmethod
    def least_memory(problem: Problem) -> int:
        """The smallest `memory` that suffices for a problem, whatever its blocks turn out to be.

        It holds all vectors of the size of w, the buffers for reading, and the dual variables of
        all blocks; not their features, which are then read again in each pass. Less may do where
        many blocks have no weight in the end, and a run that finds that it does not ends with
        `Status.OUT_OF_MEMORY`. Structures whose blocks gather many labels may need more.

        Parameters
        ----------
        problem : Problem
            Such as a `taut.StreamedProblem`. Where the number of its blocks is not known, their
            dual variables are left out.

        Returns
        -------
        int
            Bytes.

        Examples
        --------
        >>> import numpy as np
        >>> from taut import StreamedProblem
        >>> from taut.data import Stream
        >>> from taut.solvers import OnlineCache
        >>> from taut.structures import Scalar
        >>> parts = [(np.ones((100, 5)), np.ones(100)), (-np.ones((100, 5)), -np.ones(100))]
        >>> least = OnlineCache.least_memory(StreamedProblem(Scalar(), Stream(parts)))
        >>> OnlineCache(memory=least).memory == least
        True
        """
        return Budget(StreamedProblem.of(problem), DualCoordinate()).least

    def pass_(
        self, problem: Problem, state: Cache, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """A part of a pass: some chunks explored, or one round of optimising the cache."""
        if state.ended and not state.optimising:
            state.begin_pass()
        if state.optimising:
            return self._optimise(state, stiffness, keep_going)
        return self._explore(state, stiffness, keep_going)

    def _explore(self, state: Cache, stiffness: float, keep_going: KeepGoing) -> PassReport:
        """Visit blocks that are not in the cache, until there is enough to optimise."""
        began, event, replies = time.perf_counter(), PassEvent.EXPLORED, list[Reply]()
        if state.scale < 0.0:  # once: the clock must not decide when the cache is optimised
            state.scale = abs(state.primal)
        while True:
            bound = state.read(self.shuffle)
            if bound is None:
                state.optimising = True
                break
            part = state.waken(bound)
            replies.append(state.explore(part, stiffness, keep_going))
            state.keep(bound, part, self._reach(state))
            state.position += 1
            if not self._fit_into_memory(state):
                event = PassEvent.OUT_OF_MEMORY
                break
            if state.explored > self.online_gap * max(state.scale, abs(state.loss_sum)):
                state.optimising = True
                break
            if time.perf_counter() - began > _SECONDS or not keep_going():
                break
        if state.optimising:
            state.merge_small()
            state.begin_rounds()
        total = Reply.total(replies)
        return PassReport(state.cached_gap, total.movement, total.calls, event)

    def _optimise(self, state: Cache, stiffness: float, keep_going: KeepGoing) -> PassReport:
        """One sweep over the cache; whether there is another depends on the gap that it finds."""
        reply = state.sweep(stiffness, keep_going)
        gap = reply.gap
        state.end_round(gap + state.excess)
        settled = reply.complete and gap + state.excess <= self._target(state)
        stuck = not settled and (state.waited >= _PATIENCE or state.rounds >= self.max_rounds)
        done = reply.whole and (settled or stuck or not state.parts)
        if done:
            state.optimising, state.explored, state.scale = False, 0.0, -1.0
            state.forget_useless(self._reach(state), _IDLE)
        over = done and state.ended
        if over:  # within a pass the report is about the cache, which alone is optimised
            gap += state.unseen_gap
        if not self._fit_into_memory(state):
            event = PassEvent.OUT_OF_MEMORY
        elif done and stuck:
            event = PassEvent.STUCK if over else PassEvent.STUCK_PART
        else:
            event = PassEvent.COMPLETE if over else PassEvent.PART
        average = Candidate(restarts=state.rounds == 1) if state.ended else None
        return PassReport(gap, reply.movement, reply.calls, event, average)

    def _target(self, state: Cache) -> float:
        """The gap at which the cache is settled."""
        scale = max(abs(state.primal), abs(state.loss_sum))
        if not state.ended:
            return _SETTLED * self.online_gap * scale
        wanted = min(self.cache_gap * scale, _PART * state.explored_in_pass)
        return max(wanted, _ENOUGH * state.tol * scale)

    def _reach(self, state: Cache) -> float:
        """How near to a violation a kept block must be; when it is full, only weight counts."""
        filled = 2.0 * state.nbytes / max(state.cache_bytes, 1)
        return self.reach * max(1.0 / max(filled, 1e-6) - 1.0, 0.0)

    @staticmethod
    def _fit_into_memory(state: Cache) -> bool:
        """Drop features until the rest fits; False if the dual variables alone do not."""
        allowed = state.cache_bytes
        if state.nbytes > allowed:
            state.forget_useless(0.0, 0.0)
        while state.nbytes > allowed and state.parts:
            state.overflows += 1
            state.n_dropped += state.rest(state.nbytes - allowed + int(_FREED * allowed))
        return state.nbytes <= allowed
