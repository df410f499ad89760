"""The one loop: pass, estimate, verify, report, save, stop. Solvers never loop by themselves."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np

from taut.binding import Findings
from taut.compiled.jit import clock, compile_seconds, kernel
from taut.compiled.lanes import aligned_zeros
from taut.console.interrupts import catch_interrupt
from taut.engines.centre import MovingCentre
from taut.engines.naming import Arrays
from taut.errors import CrossedBounds, InvalidData, MemoryUsedUp
from taut.problem import Belonging, Problem
from taut.result import DualPoint, History, Record, Result, Status, nothing_proved, relative
from taut.solvers import Solver
from taut.solvers.base import Candidate, PassEvent, PassReport
from taut.storage.stored import require
from taut.training import tuning
from taut.training.checkpoint import CheckpointFile
from taut.training.outcome import certificate_of
from taut.training.snapshots import check_vectors, resume, snapshot_of

Callback = Callable[[Record], object]

_log = logging.getLogger("taut")
DIGEST, WEIGHTS = "data_digest", "weight_digest"  # among the arrays of a result's state
COLD = "cold"  # there too, where nobody can start from them

_LIMITS = (Status.MAX_ITER, Status.TIME_LIMIT)  # that would not have been met without rounding


@kernel
def _blend(average, w, rate):
    """Average += rate (w - average)."""
    for j in range(w.shape[0]):
        average[j] += rate * (w[j] - average[j])


def check_numbers(value: float) -> None:
    """Refuse to go on with numbers that are none."""
    if not math.isfinite(value):
        raise InvalidData(
            f"a bound on the objective is {value}: numbers became too large to compute with; scale "
            "the features, or lower C and sample_weight"
        )


class Run:
    """One training run: the dual point, the moving centre, the best bounds so far."""

    def __init__(
        self, problem: Problem, solver: Solver, tol: float, rng: np.random.Generator
    ) -> None:
        self.compiled = compile_seconds()  # before the run began
        self.problem = problem
        self.solver = solver
        self.tol = tol
        self.rng = rng
        solver.check(problem)
        self.state = solver.init(problem, rng)
        self.centre = MovingCentre(self.state.w, problem.quadratic)
        self.scratch: np.ndarray | None = None
        U = self.centre.U if self.state.at_zero else self.summed_up()
        self.centre.place(U, self.state.w)
        self.average: np.ndarray | None = None  # of w, from the third complete pass on
        self.alignment = 1.0
        self.averaged = 0
        self.history = History()
        self.iteration = 0
        self.parts = 0  # of passes, where the solver divides them
        self.summed = 0  # parts when w was last summed up afresh
        self.recentres = False  # whether the centre moves before the next part
        self.oracle_calls = 0
        self.seconds = 0.0
        # True gap over estimated gap when last verified. A pass sees blocks before it mends them,
        # so the estimate is usually too high.
        self.overestimate = tuning.FIRST_OVERESTIMATE
        self.aim()
        self.better = "w"  # of w and the running average, the one that was better last time
        self.best_w: np.ndarray | None = None
        self.best_primal = math.inf
        self.penalty = 0.0  # the regulariser's part of it
        self.best_dual = -math.inf
        self.primal_rounding = self.dual_rounding = 0.0  # how far it may have moved the two
        self.verified_gap = math.inf
        self.findings = Findings()  # about the primal
        self.fruitless = 0
        self.least_gap, self.stagnant = math.inf, 0

        #: What the dual variables belong to; where data may change it is asked before the passes.
        self.belonging: Callable[[], Belonging] = lambda: problem.belonging()()

        if tol < tuning.SINGLE_PRECISION:
            self.widen()

    def hot_start(self, start: Arrays) -> None:
        """Begin at the dual point of another solve; under the same weights also at its best w."""
        require("best_w" in start, "best_w is missing")
        check_vectors(self.problem.data, start)
        if COLD in start and self.solver.starts_hot:
            raise InvalidData(
                "the start is of a solver that keeps no dual variables: start from a solve with "
                "dual_coordinate, or from nothing (warm_start=False)"
            )
        same_weights = start[WEIGHTS].tobytes() == self.problem.weight_digest
        self.state.hot_start(start, same_weights)
        U = self.summed_up()
        centred = self.solver.recentring == "auto" and not self.state.steady
        if centred and not same_weights:
            self.centre.hot_start(start["best_w"], self.state.curvature())
        self.place(U)
        if same_weights:
            self.average, self.better = start["best_w"].astype(self.state.w.dtype), "average"
            self.verify()

    def widen(self) -> None:
        """Go on in float64, where the data's single precision is not enough."""
        if not self.state.precise:
            self.state.widen()
            self.centre.widen()
            if self.average is not None:
                self.average = self.average.astype(np.float64)

    def go(
        self,
        max_iter: int,
        time_limit: float | None,
        callbacks: list[Callback],
        file: CheckpointFile | None,
    ) -> Status:
        """Pass after pass until there is a reason to stop; the bounds are true ones then."""
        for callback in callbacks:
            getattr(callback, "begin", lambda run: None)(self)
        began = clock() - self.seconds
        deadline = math.inf if time_limit is None else began + self.seconds + time_limit

        with closing(self.state), catch_interrupt() as interrupted:

            def keep_going() -> bool:
                return not interrupted.is_set() and clock() < deadline

            status = self.verdict() or (Status.MAX_ITER if self.iteration >= max_iter else None)
            while status is None:
                # Here and not after the pass: a run that stops, is saved and goes on with a higher
                # limit takes the same steps as one that never stopped.
                if self.parts > 0:
                    self.recentre(self.history.records[-1])
                report = self.pass_(keep_going)
                record = self.account(report, began)
                settled = report.event is PassEvent.SETTLED
                status = self.verdict() or (Status.SETTLED if settled else None)
                try:
                    answers = [callback(record) for callback in callbacks]
                    if status is None and any(answer is True for answer in answers):
                        status = Status.CALLBACK
                except KeyboardInterrupt:
                    interrupted.set()
                if status is None:
                    if interrupted.is_set():
                        status = Status.INTERRUPTED
                    elif report.event is PassEvent.OUT_OF_MEMORY:
                        status = Status.OUT_OF_MEMORY
                    elif clock() >= deadline:
                        status = Status.TIME_LIMIT
                    elif self.iteration >= max_iter:
                        status = Status.MAX_ITER
                if file is not None and (status is not None or file.due()):
                    file.save_if_possible(self.snapshot)
            if not self.problem.repeatable:
                self.settle_for_estimates()
                status = Status.READ_ONCE if status is Status.MAX_ITER else status
            elif status not in (Status.CONVERGED, Status.STALLED):
                self.verify()
                least = tuning.IN_THE_WAY * relative(self.best_primal, self.best_dual)
                hopeless = self.relative_rounding > max(self.tol, tuning.PRECISION, least)
                stalled = hopeless and status in _LIMITS
                status = self.verdict() or (Status.STALLED if stalled else status)
            if self.problem.repeatable:
                assert self.best_w is not None
                self.findings = self.problem.closing_audit(self.wide(self.best_w))
                self.primal_rounding += self.findings.shortfall
                if status is Status.CONVERGED:
                    status = self.verdict() or Status.STALLED
        self.seconds = clock() - began
        return status

    def weights(self) -> np.ndarray:
        """What the run would end with if nothing were verified, copied."""
        return np.array(self.problem.weights(self.state.outcome))

    def pass_(self, keep_going: Callable[[], bool]) -> PassReport:
        """The next pass of the solver, or part of one.

        Memory that is used up ends the run with what there is: visits ask for all that they need
        before they change anything.
        """
        try:
            return self.solver.pass_(self.problem, self.state, self.centre.stiffness, keep_going)
        except MemoryUsedUp as error:
            _log.info("%s", error)
            return PassReport(math.inf, 0.0, 0, PassEvent.OUT_OF_MEMORY)

    def account(self, report: PassReport, began: float) -> Record:
        """Bring estimates, and when it is time true bounds, up to date after a pass."""
        event = report.event
        self.parts += 1
        self.iteration += event.over
        drifts = event.over and self.parts - self.summed >= tuning.DRIFT
        if (event.stuck or drifts) and not self.state.precise:
            if event.stuck:
                self.widen()
            self.place(self.summed_up())
            self.summed = self.parts
        self.recentres = event is not PassEvent.EXPLORED
        self.oracle_calls += report.oracle_calls
        conjugate, excess, moved = self.centre.survey(self.state.w)
        dual = self.state.dual_value(conjugate)
        gap = report.gap + excess
        check_numbers(dual)
        self.alignment = moved / report.movement if report.movement > 0.0 else 1.0
        if event.over:
            self.stagnant = 0 if gap < tuning.PASS_GAIN * self.least_gap else self.stagnant + 1
            self.least_gap = min(gap, self.least_gap)
        primal, exact = dual + gap, False
        self.state.primal, self.state.excess = primal, excess
        if report.candidate is not None and not self.state.steady:
            self.consider(report.candidate)
        looks_back = event.over and self.looks_back()
        if looks_back or (event.complete and self.worth_verifying(gap, primal)):
            exact = self.verify(None if looks_back else dual)
            primal = self.best_primal
            dual = self.best_dual if exact else dual
            if primal - dual > gap:
                self.state.wake()
            ratio = (primal - dual) / gap if gap else 1.0
            self.overestimate = float(np.clip(ratio, *tuning.TRUSTED_OVERESTIMATE))
            self.aim()
        self.seconds = clock() - began
        record = Record(
            self.iteration + (not event.over), self.seconds, primal, dual, exact,
            self.oracle_calls, self.centre.stiffness,
        )  # fmt: skip
        self.history.records.append(record)
        _log.debug("pass %d: primal %.6g, dual %.6g", record.iteration, primal, dual)
        if self.stagnant >= tuning.PASS_PATIENCE:
            self.widen()
        return record

    def aim(self) -> None:
        """Tell the solver what its estimates must come to before they are worth verifying."""
        self.state.tol = self.tol / max(self.overestimate, 1.0)

    def looks_back(self) -> bool:
        """Whether it is time to see how good w is in a long run, which may not end at its best."""
        power = self.iteration & (self.iteration - 1) == 0
        return self.problem.repeatable and power and self.iteration >= tuning.LONG_RUN

    def consider(self, candidate: Candidate) -> None:
        """Have a solver's candidate beside w, or move the average, which begins with the third w.

        The average takes w as it is by now: it may have been summed up afresh after the pass.
        """
        if candidate.w is not None:
            self.average, self.better = candidate.w, "average"
            return
        if candidate.restarts:
            self.keep_best()
            self.average, self.averaged, self.better = None, 0, "average"
        self.averaged += 1
        if self.average is not None:
            _blend(self.average, self.state.w, max(tuning.AVERAGING, 1.0 / self.averaged))
        elif self.averaged >= tuning.FIRST_AVERAGED:
            self.average = self.state.w.copy()

    def settle_for_estimates(self) -> None:
        """The bounds of what has been seen, where it cannot be looked at again."""
        self.take_dual(self.summed_up())
        self.best_primal = max(self.state.primal, self.best_dual)
        self.best_w = self.state.outcome.copy()
        # What points of a kernel have besides coefficients may be left behind by now, and settling
        # it takes as long as a pass.
        known = self.problem.quadratic.of_weights
        self.penalty = self.problem.quadratic.value(self.wide(self.best_w)) if known else math.nan

    def worth_verifying(self, gap: float, primal: float) -> bool:
        """Whether the estimates let one expect a true gap within tol."""
        if not self.problem.repeatable:
            return False
        wanted = max(tuning.MARGIN_OF_ESTIMATES * self.tol, tuning.HIDDEN_GAP)
        return self.overestimate * gap <= wanted * primal

    def verify(self, dual: float | None = None) -> bool:
        """True bounds: the primal by all oracles, the dual from the dual variables.

        `dual` is its value as the passes added it up, which rounding may have changed a little. A
        primal value too far from it can decide nothing, and the dual bound is then left as it was.
        Returns whether it was not.
        """
        exact = dual is None
        if dual is None:
            self.take_dual(self.summed_up())
            dual = self.best_dual
        dual = max(dual, self.best_dual)
        candidates = {"w": self.state.w}
        if self.average is not None:
            candidates["average"] = self.average
        primals: dict[str, float] = {}
        for name in sorted(candidates, key=lambda name: name != self.better):
            w = candidates[name]
            v = self.wide(w)
            primals[name], rounding = self.problem.primal_bound(v)
            check_numbers(primals[name])
            self.oracle_calls += self.problem.n_blocks
            if primals[name] < self.best_primal:
                self.best_primal, self.primal_rounding, self.best_w = primals[name], rounding, w
                self.penalty = self.problem.quadratic.value(v)
            # The other is rarely better by much: ask for it only where it could decide. Where w
            # moves by rules of its own it may be, and in the end both are asked for.
            own_gap = self.relative_to(dual, primals[name])
            decides = self.tol < own_gap <= tuning.UNDECIDED * self.tol
            if not decides and (self.state.follows or not exact):
                break
        self.better = min(primals, key=lambda name: primals[name])
        near = max(tuning.NEAR * self.tol, tuning.PRECISION)
        if not exact and relative(self.best_primal, dual) <= near:
            U = self.summed_up()
            self.take_dual(U)
            exact, dual = True, self.best_dual
            if self.relative_to(dual) > self.tol:
                self.keep_best()
                self.place(U)
        if exact:
            self.check_order()
        if self.verdict() is None:
            self.keep_best()
        gap = self.relative_to(dual)
        self.fruitless = 0 if gap < tuning.VERIFIED_GAIN * self.verified_gap else self.fruitless + 1
        self.verified_gap = min(gap, self.verified_gap)
        if self.fruitless >= tuning.VERIFIED_PATIENCE // 2:
            self.widen()
        return exact

    @property
    def rounding(self) -> float:
        """How far rounding may have moved the best bounds towards each other, at most."""
        return self.primal_rounding + self.dual_rounding

    def relative_to(self, dual: float, primal: float | None = None) -> float:
        """The relative gap of the best or another primal value to a dual one, with rounding."""
        return relative(self.best_primal if primal is None else primal, dual, self.rounding)

    def summed_up(self) -> np.ndarray:
        """U, summed up afresh from the dual variables."""
        # The centre's own vector is about to be the same: a large w is not kept once more.
        U = self.centre.U if self.centre.U.dtype == np.float64 else self.wide(self.centre.U)
        self.state.dual_vector(U)
        return U

    def take_dual(self, U: np.ndarray) -> None:
        """Let the dual point that was just summed up be the best one, if it is."""
        dual, rounding = self.problem.dual_bound(self.state.loss_sum, U)
        check_numbers(dual)
        if dual > self.best_dual:
            self.best_dual, self.dual_rounding = dual, rounding

    def check_order(self) -> None:
        """Refuse to go on where the bounds prove each other wrong."""
        excess = self.best_dual - self.best_primal
        if excess <= self.rounding + tuning.CROSSING * abs(self.best_primal):
            return
        name = type(self.problem.structure).__name__
        raise CrossedBounds(
            f"the lower bound {self.best_dual:.9g} on the objective lies above the value "
            f"{self.best_primal:.9g} of a model, so one of them is wrong. Likely causes: "
            f"{name}.argmax does not return the label of highest score + loss (did it forget the "
            "loss?); losses or features differ from call to call; or the data or losses have "
            "changed since the run began or was saved. taut.check_structure(structure, X, y) tests "
            "the laws; without warm_start and checkpoint nothing is taken over from before"
        )

    def place(self, U: np.ndarray) -> None:
        """Set w for a dual point given by U, where w follows it."""
        if self.state.follows:
            self.centre.place(U, self.state.w)

    def keep_best(self) -> None:
        """Let the best w be none of the vectors that passes change."""
        if self.best_w is not None and id(self.best_w) in (id(self.state.w), id(self.average)):
            self.best_w = self.best_w.copy()

    def wide(self, vector: np.ndarray) -> np.ndarray:
        """A vector as float64, in memory that the next call uses again."""
        if vector.dtype == np.float64:
            return vector
        if self.scratch is None:
            self.scratch = aligned_zeros(len(vector), np.float64)
        self.scratch[:] = vector
        return self.scratch

    def verdict(self) -> Status | None:
        """Whether the true bounds end the run."""
        if not self.problem.repeatable:
            return None
        gap = relative(self.best_primal, self.best_dual)
        rounding = self.relative_rounding
        if gap + rounding <= self.tol:
            return Status.CONVERGED
        if rounding > self.tol and gap <= rounding:
            return Status.STALLED
        if gap <= max(tuning.PRECISION, rounding) and self.fruitless >= tuning.VERIFIED_PATIENCE:
            return Status.STALLED
        return None

    @property
    def relative_rounding(self) -> float:
        """What rounding may be of the relative gap."""
        known = 0.0 < self.best_primal < math.inf
        return self.rounding / self.best_primal if known else 0.0

    def recentre(self, record: Record) -> None:
        """Move the centre between two passes; each pass tells how strong it should be."""
        if not self.recentres:
            self.centre.new_problem()
            return
        kappa = 0.0 if self.state.steady else self.solver.recentring
        if kappa == "auto" and not self.centre.begun:
            kappa = self.centre.first_strength(self.state.curvature())
        elif kappa == "auto":
            kappa = self.centre.next_strength(self.alignment, record.gap)
        self.centre.move(self.state.w, float(kappa))

    def result(self, status: Status) -> Result:
        """What the caller gets."""
        certificate, what_to_do = certificate_of(self, status)
        own = getattr(self.solver, "advice", "")
        if own and status in (Status.SETTLED, *_LIMITS):
            meaning = nothing_proved(certificate.primal, certificate.dual)
            after = f"after {self.iteration} {'pass' if self.iteration == 1 else 'passes'}"
            if status is Status.TIME_LIMIT:
                after = f"by time_limit {after} and {self.seconds:.1f} s"
                own = f"raise time_limit; {own}"
            message = f"Stopped {after}: {own}.{meaning}"
            certificate, what_to_do = replace(certificate, message=message), own
        assert self.best_w is not None
        self.scratch = None  # makes place for the weights
        return Result(
            self.problem.weights(self.best_w), certificate, self.history, self.read_state,
            self.read_dual_point, what_to_do, self.state.support,
        )  # fmt: skip

    def read_dual_point(self) -> DualPoint:
        """The last dual point, which need not be the best one, summed up afresh."""
        U = np.zeros(len(self.state.w))
        self.state.dual_vector(U)
        return DualPoint(self.state.loss_sum, U)

    def read_state(self) -> Arrays:
        """The dual point, and the data that it belongs to."""
        digests = {DIGEST: b"".join(self.belonging()), WEIGHTS: self.problem.weight_digest}
        assert self.best_w is not None
        return {
            **self.state.arrays(),
            **{name: np.frombuffer(digest, np.uint8) for name, digest in digests.items()},
            "best_w": self.best_w,
            **({} if self.solver.starts_hot else {COLD: np.ones(1)}),
        }

    def snapshot(self) -> tuple[Arrays, dict[str, Any]]:
        """All that is needed to go on exactly from here."""
        return snapshot_of(self)

    def resume(self, arrays: Arrays, meta: dict[str, Any]) -> None:
        """Go on from a snapshot, whose bounds are proved again."""
        resume(self, arrays, meta)
