"""Bounds and test losses over the CPU time of passes alone: the clock stands while we look."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from taut import Problem, solve
from taut.result import Record
from taut.solvers import PassEvent, PassReport, Solver


@dataclass
class Curve:
    """What was seen after CPU seconds and whole passes; primals are the smallest by then."""

    seconds: list[float] = field(default_factory=list)
    passes: list[int] = field(default_factory=list)
    dual: list[float] = field(default_factory=list)
    primal: list[float] = field(default_factory=list)
    test: list[float] = field(default_factory=list)
    setting: str = ""

    def seconds_to(self, gap: float) -> float | None:
        """CPU seconds to a relative gap; None if it was not reached."""
        points = zip(self.seconds, self.dual, self.primal, strict=True)
        return next((s for s, d, p in points if p - d <= gap * p), None)

    def passes_to(self, gap: float) -> int | None:
        """Passes to a relative gap; None if it was not reached."""
        points = zip(self.passes, self.dual, self.primal, strict=True)
        return next((n for n, d, p in points if p - d <= gap * p), None)

    def seconds_below(self, primal: float) -> float | None:
        """CPU seconds to a primal value; None if it was not reached."""
        points = zip(self.seconds, self.primal, strict=True)
        return next((s for s, p in points if p <= primal), None)

    def test_after(self, passes: int) -> float | None:
        """The test loss when so many passes were over; None if there were fewer."""
        points = zip(self.passes, self.test, strict=True)
        return next((loss for done, loss in points if done >= passes), None)


def watch(
    problem: Problem,
    solver: Solver,
    *,
    limit: float,
    gap: float,
    tol: float,
    seed: int,
    at: str = "better",
    test: Callable[[np.ndarray], float] | None = None,
    growth: float = 1.08,
    passes: int = 10**9,
) -> Curve:
    """The curve of one run, until a relative gap, CPU seconds or a number of passes is reached.

    The primal, and the test loss of the same weights, are those of w, of its average, or of the
    better of both, as `at` says. The average is the solver's own, or a running one where the loop
    would verify such a one. `tol` is what the solver is told to reach. We look at the first passes,
    at the last one, and at steps of the factor `growth` between.
    """
    watched = _Watched(problem, solver, limit, gap, tol, at, test, growth)
    solve(problem, watched, tol=tol, max_iter=passes, callbacks=[watched.look], random_state=seed)
    return watched.curve


class _Watched:
    """A solver that shows its state and its reports, and that ends passes at the limit."""

    def __init__(self, problem, solver, limit, gap, tol, at, test, growth):
        self._problem, self._solver, self._at, self._test = problem, solver, at, test
        self._limit, self._gap, self._tol, self._growth = limit, gap, tol, growth
        self._parts, self._next, self._average = 0, 1, None
        self._best = np.inf
        self._spent, self._began = 0.0, time.process_time()
        self.curve = Curve()

    def __getattr__(self, name):
        return getattr(self._solver, name)

    def init(self, problem, rng):
        self._state = self._solver.init(problem, rng)
        return self._state

    def pass_(self, problem, state, stiffness, keep_going):
        def within_limit():
            return keep_going() and self._seconds() < self._limit

        self._report = self._solver.pass_(problem, state, stiffness, within_limit)
        return self._report

    def _seconds(self):
        return self._spent + time.process_time() - self._began

    def look(self, record: Record) -> bool:
        """A callback: note the time, and now and then what has been reached."""
        self._spent = self._seconds()
        report, w = self._report, self._state.w
        self._parts += 1
        self._take_into_average(report, w)
        passes = record.iteration - (not report.event.over)
        reached = record.exact and record.primal - record.dual <= self._tol * record.primal
        stop = reached or report.event is PassEvent.SETTLED or self._spent >= self._limit
        if stop or self._parts >= self._next or (report.event.over and passes <= 2):
            self._next = max(self._parts + 1, int(self._growth * self._parts))
            self._note(record, passes)
            stop |= self._best - record.dual <= self._gap * self._best
        self._began = time.process_time()
        return stop

    def _take_into_average(self, report: PassReport, w: np.ndarray) -> None:
        if report.candidate is None:
            return
        if report.candidate.w is not None:
            self._average = report.candidate.w
        else:
            self._average = w.copy() if self._average is None else 0.8 * self._average + 0.2 * w

    def _candidates(self):
        w, average = self._state.w, self._average
        if average is None:
            return [w]
        return {"w": [w], "average": [average], "better": [w, average]}[self._at]

    def _note(self, record, passes):
        found = [
            (self._problem.primal_bound(v.astype(np.float64)).value, v) for v in self._candidates()
        ]
        primal, v = min(found, key=lambda pair: pair[0])
        self._best = min(self._best, primal, record.primal if record.exact else np.inf)
        self.curve.seconds.append(self._spent)
        self.curve.passes.append(passes)
        self.curve.dual.append(record.dual)
        self.curve.primal.append(self._best)
        if self._test is not None:
            self.curve.test.append(self._test(self._problem.weights(v)))
