"""Where a functional descent stands: its point, what it has seen, and what each step found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taut.problem import Problem
from taut.solvers._subset_state import SubsetState
from taut.spaces.support_budget import SupportBudget
from taut.storage.stored import Stored, check, require


class DescentStep(NamedTuple):
    """What one step found, before it moved w but for the last four numbers.

    Attributes
    ----------
    step : int
        Its number t, from 1 on.
    seen : int
        Examples in all steps so far.
    with_loss : float
        The share of the subset with a violated label, weighted.
    hinge : float
        The mean over the subset of the largest violation at w, weighted.
    residual : float
        The mean over the subset of the largest residual margin: `hinge`, at most the largest loss
        where residual margins are bounded.
    rate : float
        lambda_t.
    square : float
        |u|^2 of the step; at most residual / rate + gap (Theorem 3, with an inexact step).
    gap : float
        The duality gap of the step's own problem, in the scaling of C.
    evaluations : int
        Values of the kernel so far.
    n_support : int
        Rows with coefficients.
    """

    step: int
    seen: int
    with_loss: float
    hinge: float
    residual: float
    rate: float
    square: float
    gap: float
    evaluations: int
    n_support: int


class DescentState(SubsetState):
    """A point that is the sum of all steps. There are no dual variables of the whole problem."""

    counts = (*SubsetState.counts, "evaluations")

    def __init__(self, problem: Problem, rng: np.random.Generator, averaging: bool) -> None:
        super().__init__(problem, rng, averaging)
        #: Values of a kernel that runs before this one computed.
        self.evaluations = 0
        self.steps: list[DescentStep] = []
        #: What keeps support rows within a budget.
        self.limit: SupportBudget | None = None

    def arrays(self):
        """Everything, as named arrays."""
        if self.limit is not None and self.average is not None:
            self.problem.data.settle(self.average)
        arrays = super().arrays()
        arrays["counts"][-1] += self.problem.data.evaluations
        steps = np.array(self.steps, dtype=np.float64).reshape(-1, len(DescentStep._fields))
        return arrays | {"steps": steps}

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        check(arrays, {"steps": Stored("f8", (None, len(DescentStep._fields)))})
        super().restore(arrays)
        require(self.step >= len(arrays["steps"]), "steps are miscounted")
        self.evaluations -= self.problem.data.evaluations
        whole = ("step", "seen", "evaluations", "n_support")
        self.steps = []
        for row in arrays["steps"].tolist():
            found = DescentStep(*row)
            self.steps.append(found._replace(**{name: int(getattr(found, name)) for name in whole}))
