"""Where a functional descent stands: its point, what it has seen, and what each step found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taut.compiled.lanes import aligned_zeros
from taut.engines.base import DualState
from taut.errors import InvalidData
from taut.problem import Problem
from taut.spaces.support_budget import SupportBudget
from taut.storage.stored import Stored, check, require

_COUNTS = ("step", "seen", "done", "seed", "evaluations")


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


class DescentState(DualState):
    """A point that is the sum of all steps. There are no dual variables of the whole problem."""

    follows = False

    def __init__(self, problem: Problem, rng: np.random.Generator, averaging: bool) -> None:
        self.problem = problem
        self.rng = rng
        self.w = aligned_zeros(problem.data.size, np.float64)
        self.average = np.zeros_like(self.w) if averaging else None
        self.step = self.seen = 0
        # Of the order of this pass, and the blocks of it that are done; earlier evaluations.
        self.seed = self.done = self.evaluations = 0
        self.steps: list[DescentStep] = []
        #: What keeps support rows within a budget.
        self.limit: SupportBudget | None = None

    def take_average(self) -> None:
        """Have w after this step in the average, in which the t-th counts as t does."""
        if self.average is not None:
            self.average += 2.0 / (self.step + 1.0) * (self.w - self.average)

    @property
    def outcome(self):
        """The average, if there is one."""
        return self.w if self.average is None else self.average

    @property
    def loss_sum(self):
        """Of the only dual point that is known to be feasible, a = 0."""
        return 0.0

    def dual_value(self, conjugate):
        """0, which no objective is below."""
        return 0.0

    def dual_vector(self, U):
        """That of a = 0."""
        U[:] = 0.0

    def curvature(self):
        """Not known, and of no use: there is no centre."""
        return 0.0

    def arrays(self):
        """Everything, as named arrays."""
        steps = np.array(self.steps, dtype=np.float64).reshape(-1, len(DescentStep._fields))
        counts = np.array([getattr(self, name) for name in _COUNTS], dtype=np.int64)
        counts[-1] += self.problem.data.evaluations
        average = self.w[:0] if self.average is None else self.average
        return {"w": self.w, "average": average, "steps": steps, "counts": counts}

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        width = len(DescentStep._fields)
        check(
            arrays,
            {
                "w": Stored("f8", self.w.shape),
                "average": Stored("f8", (0,) if self.average is None else self.w.shape),
                "steps": Stored("f8", (None, width)),
                "counts": Stored("i8", (len(_COUNTS),), 0),
            },
        )
        counts = dict(zip(_COUNTS, arrays["counts"].tolist()))
        require(counts["step"] >= len(arrays["steps"]), "steps are miscounted")
        self.w[:] = arrays["w"]
        if self.average is not None:
            self.average[:] = arrays["average"]
        for name, count in counts.items():
            setattr(self, name, count)
        self.evaluations -= self.problem.data.evaluations
        whole = ("step", "seen", "evaluations", "n_support")
        self.steps = []
        for row in arrays["steps"].tolist():
            found = DescentStep(*row)
            self.steps.append(found._replace(**{name: int(getattr(found, name)) for name in whole}))

    def hot_start(self, arrays, same_weights):
        """Steps of another run are no dual point."""
        raise InvalidData(
            "functional descent has no dual variables to start from: use warm_start=False, or "
            "partial_fit of OnlineSVM to go on"
        )
