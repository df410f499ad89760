"""Stochastic subgradient descent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.compiled.jit import kernel
from taut.duals.planes import N_PLANES
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers._sequential import Sequential
from taut.solvers._sequential_state import SequentialState
from taut.solvers._visitors import Step


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
    """Stochastic subgradient descent with steps 1 / (lambda t): Pegasos.

    Problem: min_w 1/2 |w|^2 + sum_i C_i max(0, max_y loss_i(y) - <w, psi_i(y)>).
    Given: a loss-augmented argmax for each block. Comes out: w, an average of w, a feasible dual
    point.

    Pegasos (Shalev-Shwartz, Singer and Srebro, 2007), for structures as of Ratliff, Bagnell and
    Zinkevich (2007), with lambda = 1 / (n C): visit t shrinks w by (t - 1) / t and adds n C_i / t
    times psi of the most violated label, if it violates. The label is found at the shrunken w, and
    from the two hundredth visit on w shrinks once for each hundredth of the visits so far. The
    average gives w after visit t a weight proportional to t (Lacoste-Julien, Schmidt and Bach,
    2012).

    Cost per pass: one loss-augmented argmax per block; one thread, whatever `n_jobs` is.
    Memory: a few vectors of the length of w; nothing per block.
    Certificate: exact. After k passes w itself is a feasible dual point: each block has put C_i / k
    at most on each label that it found. The gap that passes report takes hinges as visits saw them.
    Data that can be read once, and `partial_fit`: the average, with estimates; n is then the number
    of blocks seen so far.

    Parameters
    ----------
    projection : bool, default=False
        Draw w back into the ball around the prior mean in which the optimum is known to lie, of
        squared radius P(prior mean), whenever w shrinks. Needs one more reading of the data, and
        cannot be had together with sign constraints.
    averaging : bool, default=True
        Look at the average of w as well, and end with the better of the two; else with w itself.
    shuffle : bool, default=True
        Random order: of the blocks in memory; of the chunks of a source, where it allows that, and
        of the blocks in each. Else in sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import Subgradient
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, Subgradient(), tol=0.01, random_state=0)
    >>> round(result.certificate.primal, 2)
    0.5
    """

    name: ClassVar[str] = "subgradient"
    fades: ClassVar[bool] = True

    projection: bool = False
    averaging: bool = True
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
    if problem.data.prior.is_bounded:
        raise InvalidData(
            "projection=True with sign constraints or other bounds of weights: the radius that it "
            "uses does not hold there; give projection=False"
        )
    if not problem.repeatable:
        raise InvalidData(
            "projection=True needs one reading of the data before the first pass, and these can be "
            "read only once: give projection=False"
        )
    return math.sqrt(problem.primal(problem.data.prior.mean))
