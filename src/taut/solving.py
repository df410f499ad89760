"""The two ways to start a run: with all data, and fed part by part."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from contextlib import ExitStack

import numpy as np

from taut.console.interrupts import closing_all
from taut.console.progress import looks_on
from taut.engines.naming import Arrays
from taut.errors import InvalidData
from taut.problem import OF_STRUCTURE, Belonging, Problem
from taut.result import Result
from taut.solvers import DualCoordinate, OnlineCache, Solver
from taut.storage.digest import LEAVE_OUT, digest_of
from taut.training.checkpoint import Checkpoint, CheckpointFile, Fingerprint
from taut.training.loop import DIGEST, Callback, Run

#: What is used where nobody says what, by how blocks are had.
DEFAULT_SOLVERS: dict[str, type[Solver]] = {
    "whole": DualCoordinate,
    "rows": DualCoordinate,
    "chunks": OnlineCache,
}


def check_ends(tol: float, max_iter: int, time_limit: float | None) -> None:
    """Refuse what no run could end at."""
    if not 0.0 <= tol < math.inf:
        raise InvalidData(f"tol = {tol}: it must be 0 or more, and finite")
    if max_iter < 1:
        raise InvalidData(f"max_iter = {max_iter}: it must be at least 1")
    if time_limit is not None and not time_limit > 0.0:
        raise InvalidData(f"time_limit = {time_limit}: it must be positive, or None")


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
    keep_state: bool = True,
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
        Seconds; the verification at the end comes on top, and compilation does not count.
    callbacks : iterable of callables
        Called with a `Record` after each pass; one that returns True ends training. A callback's
        `close()`, if it has one, is called at the end.
    checkpoint : Checkpoint or path, optional
        Where to save the run and to resume it from.
    start : dict of arrays, optional
        `Result.state` of another solve of the same structure, data and prior, as a hot start.
    keep_state : bool, default=True
        Whether `Result.state` may be asked for after the data have changed: all bytes of data in
        memory are then hashed before the first pass.
    random_state : int or Generator, optional
    check : bool, default=True
        Test the laws of a structure of your own on a few blocks first, with some tens of calls.

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
    check_ends(tol, max_iter, time_limit)
    if checkpoint is not None and not problem.data.lasting:
        raise InvalidData(
            f"checkpoint = {str(getattr(checkpoint, 'path', checkpoint))!r}: dual variables of "
            f"{type(problem.structure).__name__} belong to pairs that this process finds, and no "
            "other could go on from a file; leave checkpoint out, or give explicit=True where the "
            "kernel has finitely many features"
        )
    if check:
        problem.spot_check()
    solver = solver or DEFAULT_SOLVERS[problem.comes_as]()
    run = Run(problem, solver, tol, np.random.default_rng(random_state))
    if keep_state or start is not None or checkpoint is not None:
        run.belonging = problem.belonging()
    if start is not None:
        check_start(start, run.belonging(), problem)
        run.hot_start(start)
    file, callbacks = None, list(callbacks)
    with ExitStack() as stack:
        if checkpoint is not None:
            fingerprint = fingerprint_of(run.belonging(), problem.weight_digest, solver)
            file = CheckpointFile(checkpoint, fingerprint, problem.of_users)
            stack.enter_context(file)
            file.resume(run)
        stack.enter_context(closing_all(callbacks))
        meddled = not all(map(looks_on, callbacks))
        before = problem.checksum() if meddled else b""
        status = run.go(max_iter if problem.repeatable else 1, time_limit, callbacks, file)
        if meddled and problem.checksum() != before:
            if file is not None:
                file.remove()  # it may have planes of what the data were changed to
            raise InvalidData(
                "X, y or sample_weight has changed while the fit ran, so that its bounds belong to "
                "no problem: let callbacks, and other threads, work on copies"
            )
    return run.result(status)


def belonging_of(start: Arrays) -> Belonging:
    """What dual variables say that they belong to."""
    return Belonging.of_bytes(start[DIGEST].tobytes() if DIGEST in start else b"")


def check_start(start: Arrays, belonging: Belonging, problem: Problem) -> None:
    """Refuse dual variables that belong to something else than a problem does.

    Planes keep the losses and features of their labels: with others the bounds would be wrong.
    """
    differing = belonging.differing(belonging_of(start))
    if differing:
        data = "other data" if problem.data.lasting else "another table of pairs, as each fit has"
        words = {"data": data, "structure": f"another {OF_STRUCTURE}"}
        others = [words.get(name, f"another {name}") for name in differing]
        raise InvalidData(
            f"the start cannot be used: it was made with {' and '.join(others)}. Start from a "
            "solve with the same structure, prior and data, or set warm_start=False"
            + (LEAVE_OUT if problem.of_users else "")
        )


def fingerprint_of(belonging: Belonging, weights: bytes, solver: Solver | None) -> Fingerprint:
    """What a checkpoint must belong to: settings of the solver are part of it, tol is not."""
    kind, settings = type(solver), {} if solver is None else vars(solver)
    # A method that an object has of its own is no setting.
    own = {name: value for name, value in settings.items() if not callable(getattr(kind, name, 0))}
    digests = belonging._asdict() | {"weights": weights, "solver": digest_of(kind, own)}
    return {name: digest.hex() for name, digest in digests.items()}


class OnlineRun:
    """Training that is fed: each call goes through what has come into the problem's source.

    The problem is one over a `taut.data.inflow.Inflow`, the solver one that `can_be_fed`.
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
