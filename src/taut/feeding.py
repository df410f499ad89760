"""Training that is fed part by part, by the same run as the loop's."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from taut.interrupts import closing_all
from taut.loop import Callback, Run
from taut.problem import Problem
from taut.result import Result
from taut.solvers import Solver


class OnlineRun:
    """Training that is fed: each call goes through what has come into the problem's source.

    Parameters
    ----------
    problem : StreamedProblem
        Over a `taut.data.inflow.Inflow`.
    solver : OnlineCache
    tol : float
    random_state : int or Generator, optional
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        tol: float,
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.run = Run(problem, solver, tol, np.random.default_rng(random_state))

    def go_on(self, callbacks: Iterable[Callback] = (), time_limit: float | None = None) -> Result:
        """One pass through what is new, and the result for all that has come in so far."""
        callbacks, passes = list(callbacks), self.run.iteration + 1
        with closing_all(callbacks):
            return self.run.result(self.run.go(passes, time_limit, callbacks, None))
