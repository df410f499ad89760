"""The certificate of a run (`taut.training.loop.Run`), and what to do if it proves too little."""

from __future__ import annotations

import logging
from typing import Any

from taut.compiled.jit import compile_seconds
from taut.engines.base import no_start
from taut.result import GO_ON, OVER_RETURNED, Certificate, Status, meaning_of, peak_memory, relative
from taut.structures.abilities import ability
from taut.training.advice import advice

_log = logging.getLogger("taut")


def certificate_of(run: Any, status: Status) -> tuple[Certificate, str]:
    """What the best bounds of a run prove, and what to change where a limit ended it."""
    # Within rounding the two may cross.
    primal, dual = run.best_primal, min(run.best_dual, run.best_primal)
    what_to_do = advice(status, run.history, run.tol, run.state.curvature, run.problem.X)
    of = ability(run.problem.structure, "certifies") + run.problem.data.condition
    doubt = "" if run.findings.doubt is None else f"{run.findings.doubt}."
    if doubt:
        of += OVER_RETURNED
    message = status.value.format(
        relative_gap=relative(primal, dual, run.rounding), tol=run.tol, passes=run.iteration,
        seconds=run.seconds, rounding=run.relative_rounding, advice=what_to_do,
        again=GO_ON if run.solver.starts_hot else no_start(run.solver.name),
    )  # fmt: skip
    message += meaning_of(primal, dual, of, doubt)
    _log.info("%s primal %.6g, dual %.6g", message, primal, dual)
    certificate = Certificate(
        primal, dual, run.penalty, run.problem.repeatable, status, message, run.oracle_calls,
        run.iteration, run.seconds, peak_memory(), of, run.rounding,
        compile_seconds() - run.compiled, doubt,
    )  # fmt: skip
    return certificate, what_to_do
