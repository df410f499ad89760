"""The two ways to start a run: with all data, and fed part by part."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable

import numpy as np

from taut.binding import spot_check
from taut.checkpoint import Checkpoint, CheckpointFile
from taut.errors import InvalidData
from taut.interrupts import closing_all
from taut.loop import DIGEST, Callback, Run
from taut.problem import Problem
from taut.result import (
    Result,
)
from taut.solvers import DualCoordinate, OnlineCache, Solver
from taut.solvers.base import Arrays


def solve(
    problem: Problem,
    solver: Solver | None = None,
    *,
    tol: float = 1e-3,
    max_iter: int = 1000,
    time_limit: float | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Checkpoint | str | os.PathLike | None = None,
    start: Arrays | None = None,
    random_state: int | np.random.Generator | None = None,
    check: bool = True,
) -> Result:
    """Solve a problem until its relative duality gap is within `tol`.

    The dual value is exact after each pass; the gap is estimated from what the pass saw. When the
    estimate is within reach of `tol`, the dual point is summed up afresh and the primal value is
    computed by all oracles; only that ends the loop.

    Parameters
    ----------
    problem : Problem
    solver : Solver, optional
        `DualCoordinate()` by default, or `OnlineCache()` where the data are not in memory.
    tol : float, default=1e-3
        Relative gap (P - D) / P to reach.
    max_iter : int, default=1000
        Passes over the blocks.
    time_limit : float, optional
        Seconds; the verification at the end comes on top.
    callbacks : iterable of callables
        Called with a `Record` after each pass; one that returns True ends training. A callback's
        `close()`, if it has one, is called at the end.
    checkpoint : Checkpoint or path, optional
        Where to save the run and to resume it from.
    start : dict of arrays, optional
        `Result.state` of another solve of the same data, as a hot start.
    random_state : int or Generator, optional
    check : bool, default=True
        Test the laws of a structure of your own on four blocks first, with some tens of calls.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Multiclass
    >>> problem = Problem(Multiclass(2), np.array([[1.0], [-1.0]]), np.array([0, 1]), C=10.0)
    >>> result = solve(problem, tol=1e-6, random_state=0)
    >>> result.w.round(3), result.certificate.status.name
    (array([ 0.5, -0.5]), 'CONVERGED')
    """
    if not 0.0 <= tol < math.inf:
        raise InvalidData(f"tol = {tol}: it must be 0 or more, and finite")
    if max_iter < 1:
        raise InvalidData(f"max_iter = {max_iter}: it must be at least 1")
    if time_limit is not None and not time_limit > 0.0:
        raise InvalidData(f"time_limit = {time_limit}: it must be positive, or None")
    if check:
        spot_check(problem.data)
    solver = solver or (DualCoordinate() if problem.in_memory else OnlineCache())
    run = Run(problem, solver, tol, np.random.default_rng(random_state))
    if start is not None:
        # Planes keep the losses of their labels: with other truths the bounds would be wrong.
        if start[DIGEST].tobytes() != problem.data_digest:
            raise InvalidData(
                "the start belongs to other data: start from a solve of the same data, or from "
                "nothing (warm_start=False)"
            )
        run.hot_start(start)
    file = None
    if checkpoint is not None:
        digests = f"{problem.data_digest.hex()} {problem.weight_digest.hex()}"
        file = CheckpointFile(checkpoint, f"{digests} {run.solver}")
        file.resume(run)
    callbacks = list(callbacks)
    with closing_all(callbacks):
        status = run.go(max_iter if problem.repeatable else 1, time_limit, callbacks, file)
    return run.result(status)


class OnlineRun:
    """Training that is fed: each call goes through what has come into the problem's source.

    Parameters
    ----------
    problem : StreamedProblem
        Over a `taut.data.inflow.Inflow`.
    solver : Solver
        One that `can_be_fed`.
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
