"""Where a functional descent stands: its point, what it has seen, and what each step found."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.lanes import aligned_zeros
from taut.problem import Problem
from taut.solvers._subset_state import SubsetState
from taut.spaces.few_rows import FewRows
from taut.spaces.support_budget import SupportBudget
from taut.storage.stored import Stored, check, require


class DescentStep(NamedTuple):
    """What one step found.

    `with_loss`, `hinge` and `residual` are at the w before the step; `square`, `gap`, `evaluations`
    and `n_support` are known after it.

    Attributes
    ----------
    step : int
        Its number t, from 1 on.
    seen : int
        Examples in all steps so far.
    with_loss : float
        The share of the subset's weight that is on examples with a violated label.
    hinge : float
        The sum over the subset of the largest violations, times weights, divided by the number of
        examples k, as the problem of the step has it.
    residual : float
        The same of the largest residual margins: `hinge`, or less where residual margins are
        bounded.
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
    """A point that is the sum of all steps. There are no dual variables of the whole problem.

    Where points are weights, the average is kept as a multiple of what w is ahead of it: a step
    that moves some weights then costs as much as these are many, and not as w is long.
    """

    counts = (*SubsetState.counts, "passes", "evaluations")

    def __init__(self, problem: Problem, rng: np.random.Generator, averaging: bool) -> None:
        self._of_weights = problem.quadratic.of_weights
        super().__init__(problem, rng, averaging)
        #: Passes of this run that are over.
        self.passes = 0
        #: Values that earlier runs or calls computed; negative where the problem had some before.
        self.evaluations = -int(problem.data.evaluations)
        self.steps: list[DescentStep] = []
        #: The largest loss of each example, where residual margins are bounded by it.
        self.most: np.ndarray | None = None
        #: What keeps support rows within a budget.
        self.limit: SupportBudget | None = None

    @property
    def average(self) -> np.ndarray | None:
        """The average; of weights, in an array of its own."""
        if self._known is None or not self._of_weights:
            return self._known
        average = aligned_zeros(len(self.w), np.float64)
        np.multiply(self._known, -self._factor, out=average)
        average += self.w
        return average

    @average.setter
    def average(self, given: np.ndarray | None) -> None:
        # The average itself; of weights, w - average over the factor.
        self._known, self._factor = given, 1.0
        if given is not None and self._of_weights:
            self._known = self.w - given

    def add(self, rows: FewRows, coefficients: np.ndarray, share: float) -> None:
        """Move w by rows, and have it in the average with a share."""
        points = [(self.w, 1.0)]
        if self._known is not None and self._of_weights:
            points.append((self._known, 1.0 / self._factor))
        rows.add(coefficients, points)
        self._take_average(share)

    def absorb(self, data: Any, U: np.ndarray, share: float) -> None:
        """Move w by what dual variables of some blocks sum up to, alike."""
        self.problem.data.absorb(data, U, self.w)
        if self._known is not None and self._of_weights:
            self._known += U / self._factor
        self._take_average(share)

    def _take_average(self, share: float) -> None:
        if self._known is None or not self._of_weights:
            self.take_average(share)
        elif share < 1.0:
            self._factor *= 1.0 - share
        else:
            self._known[:], self._factor = 0.0, 1.0

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
        # lambda may be infinite.
        check(arrays, {"steps": Stored("f8", (None, len(DescentStep._fields)), infinite=True)})
        computed = self.problem.data.evaluations
        super().restore(arrays)
        require(self.step >= len(arrays["steps"]), "steps are miscounted")
        self.evaluations -= computed
        whole = ("step", "seen", "evaluations", "n_support")
        self.steps = []
        for row in arrays["steps"].tolist():
            found = DescentStep(*row)
            self.steps.append(found._replace(**{name: int(getattr(found, name)) for name in whole}))
