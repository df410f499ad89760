"""The QP over the labels that mini-batches have found: what `WorkingSet` and `NSlack` share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from taut.binding import Data
from taut.duals import BlockDual, planes_of
from taut.duals.base import PlaneDual
from taut.duals.plane_steps import corrective_steps
from taut.engines.part import Sweep, check_order
from taut.engines.serial import Serial
from taut.engines.turns import KeepGoing, draw_seed, shuffle
from taut.errors import InvalidData
from taut.problem import Problem
from taut.sampling import ARGMAX, Sampler, as_sampler
from taut.solvers._block_ascent import BlockAscent, report_of
from taut.solvers.base import PassEvent, PassReport
from taut.storage.stored import Stored, check

_STEPS = 6  # between pairs of a block's planes, in one sweep
#: What follows a mini-batch: methods of `WorkingSets`.
_UPDATES = {"solve": "_solve", "closed_form": "_step"}
_OF_TOL = 0.1  # of the wanted gap: what labels that are not worth adding may leave of it


class WorkingSetState(Serial):
    """Dual variables of all blocks, and how many mini-batches there have been."""

    batches = 0

    @property
    def duals(self) -> PlaneDual:
        """The working sets."""
        duals = self.part.duals
        assert isinstance(duals, PlaneDual)
        return duals

    def arrays(self):
        """Everything, as named arrays."""
        numbers = {"batches": np.array([self.batches]), "primal": np.array([self.primal])}
        return super().arrays() | numbers

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        wanted = {"batches": Stored("i8", (1,), 0), "primal": Stored("f8", (1,))}
        check(arrays, wanted)
        super().restore(arrays)
        self.batches, self.primal = int(arrays["batches"][0]), float(arrays["primal"][0])


class WorkingSets(BlockAscent):
    """Mini-batches ask the oracle at one w, and then the labels found so far are optimised."""

    #: Blocks that ask the oracle at one w; None for all.
    batch: int | None = None
    #: Labels of a visit, and who chooses them if there are several.
    n_planes: int = 1
    sampler: str | Callable | Sampler = "diverse"
    #: The key of `_UPDATES`.
    update: str = "solve"
    #: By how much a label must exceed its block's slack; "auto" goes by the wanted gap.
    eps: float | str = 0.0
    #: Mini-batches between two looks for labels that have had no weight for `patience` of them; 0
    #: for none.
    check_every: int = 0
    patience: int = 0
    #: To which part of the gap that the oracles have found the QP is solved, by how many sweeps.
    precision: float = 0.3
    max_sweeps: int = 100

    def __post_init__(self) -> None:
        check_order(self.order)
        if self.batch is not None and self.batch < 1:
            raise InvalidData(f"batch = {self.batch}: it must be at least 1, or None for all")
        if self.n_planes < 1:
            raise InvalidData(f"n_planes = {self.n_planes}: it must be at least 1")
        if self.update not in _UPDATES:
            raise InvalidData(f"update = {self.update!r}: give {' or '.join(map(repr, _UPDATES))}")
        valid = self.eps == "auto" if isinstance(self.eps, str) else 0.0 <= self.eps < np.inf
        if not valid:
            raise InvalidData(f"eps = {self.eps!r}: give a finite number >= 0, or 'auto'")
        if min(self.check_every, self.patience) < 0:
            raise InvalidData(
                f"check_every = {self.check_every} and patience = {self.patience}: they must be at "
                "least 0"
            )
        if not self.precision > 0.0 or self.max_sweeps < 1:
            raise InvalidData(
                f"precision = {self.precision} must be positive, max_sweeps = {self.max_sweeps} at "
                "least 1"
            )

    def init(self, problem: Problem, rng: np.random.Generator) -> WorkingSetState:
        """No labels but the truths."""
        return WorkingSetState(problem, self, rng)

    def duals_of(self, data: Data, weight: np.ndarray, n_jobs: int) -> BlockDual:
        """Planes, which the oracle adds to and sweeps move weight between."""
        sampler = ARGMAX if self.n_planes == 1 else as_sampler(self.sampler, data)
        duals = planes_of(
            data, weight, n_jobs, corrective_steps, _STEPS, oracle_steps=0, sampler=sampler,
            n_samples=self.n_planes,
        )  # fmt: skip
        duals.share, duals.patience = 1.0, self.patience
        return duals

    def pass_(
        self, problem: Problem, state: Any, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """The oracle for all blocks, batch by batch, each followed by an update.

        A pass that leaves w as it is has looked at all blocks at one w, those that a draw has
        missed last.
        """
        part = state.part
        state.duals.margin = self._margin(state)
        sweep = part.begin(draw_seed(state.rng), state.rng)
        visited, still = self._go_through(state, sweep, stiffness, keep_going)
        if still and visited == len(sweep.order):
            missed = np.setdiff1d(sweep.blocks, sweep.order)
            more = sweep._replace(order=missed)
            sweep = sweep._replace(order=np.append(sweep.order, missed))
            count, still = self._go_through(state, more, stiffness, keep_going)
            visited += count
        report = report_of(part.end(sweep, visited))
        if still and report.event is PassEvent.COMPLETE:
            return replace(report, event=PassEvent.SETTLED)
        return report

    def _go_through(
        self, state: WorkingSetState, sweep: Sweep, stiffness: float, keep_going: KeepGoing
    ) -> tuple[int, bool]:
        """Batches of blocks in order; how many were visited, and whether w has not moved."""
        part, duals, visited, still = state.part, state.duals, 0, True
        size = self.batch or max(len(sweep.order), 1)
        for start in range(0, len(sweep.order), size):
            batch = sweep.order[start : start + size]
            own = sweep._replace(order=batch)
            visited += part.visit_in_turn(own, state.w, stiffness, keep_going)
            if visited < start + len(batch):
                break
            # No label above slack + eps, and planes that are no further from their optimum.
            if (part.gap[batch] > duals.margin * duals.weight[batch]).any():
                still = False
                update = getattr(self, _UPDATES[self.update])
                update(state, own, stiffness, keep_going)
            self._tidy(state)
            if not keep_going():
                break
        return visited, still

    def _margin(self, state: WorkingSetState) -> float:
        """By how much a label must exceed the slack."""
        if not isinstance(self.eps, str):
            return float(self.eps)
        return _OF_TOL * state.tol * state.primal / float(state.duals.weight.sum())

    def _tidy(self, state: WorkingSetState) -> None:
        """Drop labels that have been without weight for long, from time to time."""
        if self.check_every:
            state.batches += 1
            state.duals.planes.count_idle()
            if state.batches % self.check_every == 0:
                state.duals.planes.drop_idle(self.patience)

    def _solve(
        self, state: WorkingSetState, sweep: Sweep, stiffness: float, keep_going: KeepGoing
    ) -> None:
        """Sweeps over the labels of all blocks, until their own gap is small beside that found."""
        part = state.part
        found = float(part.gap[np.isfinite(part.gap)].sum())
        for _ in range(self.max_sweeps):
            sweep.sums[2] = 0.0
            seed, order = draw_seed(state.rng), np.flatnonzero(part.duals.revisitable())
            shuffle(order, seed)
            own = sweep._replace(asks_oracle=False, order=order, seed=seed)
            whole = part.visit_in_turn(own, state.w, stiffness, keep_going) == len(order)
            if not whole or sweep.sums[2] <= self.precision * found:
                break

    def _step(
        self, state: WorkingSetState, sweep: Sweep, stiffness: float, keep_going: KeepGoing
    ) -> None:
        """Single and pair steps between the labels of the batch's blocks."""
        own = sweep._replace(asks_oracle=False)
        state.part.visit_in_turn(own, state.w, stiffness, keep_going)
