"""Passive-aggressive learning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from taut.solvers._sequential import Sequential


@dataclass
class PassiveAggressive(Sequential):
    """Passive-aggressive learning, PA-I (Crammer, Dekel, Keshet, Shalev-Shwartz and Singer, 2006).

    Problem: none that it solves; w is judged by 1/2 |w|^2 + sum_i C_i hinge_i(w).
    Given: a loss-augmented argmax for each block. Comes out: w, the average of w over all visits, a
    feasible dual point.

    A visit of block i moves w as little as needed to satisfy its most violated label, with C_i as
    the limit: w += tau psi, tau = min(C_i, violation / |psi|^2). In the terms of the dual that is
    the exact step of a block that begins with no weight. What earlier passes gave stays, so further
    passes go on adding where data are not separable, and do not lead to the optimum: this is a
    method for one pass or a few.

    Cost per pass: one loss-augmented argmax per block, and |psi|^2; one thread, whatever `n_jobs`.
    Memory: a few vectors of the length of w; nothing per block.
    Certificate: exact, and not small as a rule: the dual point is the best multiple of the sum of
    all steps that no block's C_i forbids. A pass without a step ends the run, whatever the gap.
    Data that can be read once, and `partial_fit`: the average, with estimates.

    Parameters
    ----------
    averaging : bool, default=True
        Look at the average of w as well, and end with the better of the two; else with w itself.
    shuffle : bool, default=True
        Random order: of the blocks in memory; of the chunks of a source, where it allows that, and
        of the blocks in each. Else in sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import PassiveAggressive
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, PassiveAggressive(), max_iter=1, random_state=0)
    >>> result.w.round(2), round(result.certificate.primal, 2)
    (array([ 0.39, -0.39,  0.39, -0.39,  0.11, -0.11]), 0.76)
    """

    name: ClassVar[str] = "passive_aggressive"

    averaging: bool = True
    shuffle: bool = True
