"""Solvers that ascend the dual block by block, and keep dual variables for each."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from taut.engines import engine_of
from taut.engines.base import Engine
from taut.engines.part import Ascent, Reply
from taut.engines.turns import KeepGoing
from taut.problem import Problem
from taut.solvers.base import Candidate, PassEvent, PassReport, Solver


def report_of(reply: Reply) -> PassReport:
    """What sweeps over all blocks found, as a pass."""
    return PassReport(
        gap=reply.gap,
        movement=reply.movement,
        oracle_calls=reply.calls,
        event=PassEvent.COMPLETE if reply.complete else PassEvent.INCOMPLETE,
        candidate=Candidate() if reply.complete else None,
    )


class BlockAscent(Ascent, Solver[Any]):
    """A solver whose pass is a sweep over all blocks, wherever they are."""

    takes: ClassVar[tuple[str, ...]] = ("whole",)

    def init(self, problem: Problem, rng: np.random.Generator) -> Engine:
        """All weight on the truths: a = 0."""
        return engine_of(problem, self, rng)

    def pass_(
        self, problem: Problem, state: Any, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """One sweep: with the oracle over the blocks that are due, or over the stored planes."""
        return report_of(state.sweep(stiffness, keep_going))
