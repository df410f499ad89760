"""The cutting-plane method with a slack for each block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from taut.solvers._working_sets import WorkingSets


@dataclass
class NSlack(WorkingSets):
    """The n-slack cutting-plane method (Tsochantaridis et al.; Joachims et al., Algorithm 1).

    Problem: max_a sum_iy a_iy loss_i(y) - 1/2 |sum_iy a_iy psi_i(y)|^2, a >= 0, sum_y a_iy <= C_i.
    Given: a loss-augmented argmax for each block. Comes out: w = sum a psi and a feasible a.

    A batch of blocks asks the oracle at one w, and each block keeps the label that it finds if that
    is violated by more than its slack. The QP over the kept labels of all blocks is then solved by
    sweeps of pair steps within blocks, from the last solution on, until its own gap is small beside
    that of the whole problem. Labels without weight are dropped when a block has no room for
    another.

    Cost per pass: one oracle call per block; for each batch some sweeps over the kept labels of all
    blocks.
    Memory: a label, a coefficient, a loss and a Gram row per kept label; no vector of n_features
    per block.
    Certificate: exact; the dual never falls.

    Parameters
    ----------
    batch : int, optional
        Blocks that ask the oracle at one w; all of them by default. The published algorithm has 1:
        small batches ask less often, and solve more QPs.
    precision : float, default=0.3
        To which part of the gap that the oracles have found the QP is solved, as sweeps see it.
    max_sweeps : int, default=100
        Sweeps for one QP.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import NSlack
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, NSlack(), tol=1e-6, random_state=0)
    >>> round(result.certificate.primal, 4)
    0.5
    """

    name: ClassVar[str] = "n_slack"

    batch: int | None = None
    precision: float = 0.3
    max_sweeps: int = 100
