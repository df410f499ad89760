"""Stochastic subgradient descent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut._jit import kernel
from taut.errors import InvalidData
from taut.planes import N_PLANES
from taut.problem import Problem
from taut.solvers._sequential import Sequential, SequentialState
from taut.solvers._visits import Step


@kernel
def full_step(planes, i, violation, stiffness, max_steps, change):
    """All weight to the first label, if it violates."""
    for q in range(planes.places[i, N_PLANES]):
        change[q] = 0.0
    if violation[1] > 0.0:
        change[1] = planes.coef[0]
        change[0] = -planes.coef[0]
    return change[1] * planes.loss[1], 0.0


@dataclass
class Subgradient(Sequential):
    """Stochastic subgradient descent with step 1 / (lambda t)."""

    name: ClassVar[str] = "subgradient"
    fades: ClassVar[bool] = True

    projection: bool = False
    shuffle: bool = True

    @property
    def step(self) -> Step:
        """All weight to the most violated label."""
        return Step(full_step, uses_gram=False)

    def init(self, problem: Problem, rng: np.random.Generator) -> SequentialState:
        """S = 0, and where the optimum is."""
        state = super().init(problem, rng)
        if self.projection:
            state.radius = _radius(problem)
        return state


def _radius(problem: Problem) -> float:
    """The square root of P at the prior mean: the optimum is not farther from there.

    At the optimum w = shift + U with |U|^2 = sum a (loss - <shift, psi>) - sum_i C_i hinge_i(w),
    which is at most sum_i C_i hinge_i(shift).
    """
    if problem.data.prior.bounded.any():
        raise InvalidData(
            "projection=True with sign constraints: the bound on the weights that it uses does not "
            "hold there; give projection=False"
        )
    if not problem.repeatable:
        raise InvalidData(
            "projection=True needs one reading of the data before the first pass, and these can be "
            "read only once: give projection=False"
        )
    return math.sqrt(problem.primal(problem.data.prior.mean))
