"""Partial linearisation, and exponentiated gradient, which is its case of whole steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.binding import Data
from taut.duals import BatchMarginalDual, BlockDual, MarginalDual
from taut.errors import InvalidData
from taut.solvers._block_ascent import BlockAscent
from taut.solvers.frank_wolfe import FrankWolfe, check_update, with_means


@dataclass
class PartialLinearization(BlockAscent):
    """Partial linearisation with an expectation oracle (Mohapatra et al., Algorithms 1 and 2).

    Problem: max_a sum_iy a_iy loss_i(y) - 1/2 |sum_iy a_iy psi_i(y)|^2, a >= 0, sum_y a_iy <= C_i.
    Given: an expectation oracle for each block. Comes out: w = sum a psi and a feasible a.

    The dual is linearised but for the entropy of a times the temperature. The solution of that is
    the direction, s_i(y) proportional to a_i(y) exp(violation_i(y) / temperature), in which a_i
    moves by an exact step. At temperature 0 that is (block) Frank-Wolfe, with whole steps it is
    (online) exponentiated gradient.

    Cost per pass: one expectation per block. Memory: the marginals of the parts of a label
    (positions and pairs of neighbours of a sequence, tables of cliques of a graph), no vector of
    n_features per block; twice that in batches.
    Certificate: exact; marginals are made those of a distribution before the dual is summed up. The
    gap of a pass is that along its direction, which is not more than the true one, so the run is
    verified more often than with other solvers.

    Parameters
    ----------
    temperature : float, default=0.01
        In units of the loss. Small: directions are like Frank-Wolfe's; large: steps stay near.
    step : {"exact", "exponentiated"}, default="exact"
        Exact line search, or the whole step of exponentiated gradient, which may lower the dual.
    update : {"block", "batch"}, default="block"
        A step for each block (Algorithm 2), or one for all of them (Algorithm 1).
    order : {"permutation", "gap"}, default="permutation"
        Each block once in random order, or as many draws with odds proportional to the gap.
    recentring : float or "auto", default="auto"
        Strength of the moving centre, as for `DualCoordinate`. The published algorithms have none:
        0 switches it off, and the dual then never falls.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import PartialLinearization
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, PartialLinearization(), tol=1e-6, random_state=0)
    >>> round(result.certificate.primal, 4)
    0.5
    """

    name: ClassVar[str] = "partial_linearization"

    temperature: float = 0.01
    step: str = "exact"
    update: str = "block"
    order: str = "permutation"
    recentring: float | str = "auto"

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature < np.inf:
            raise InvalidData(f"temperature = {self.temperature}: it must be 0 or more, and finite")
        if self.step not in ("exact", "exponentiated"):
            raise InvalidData(f"step = {self.step!r}: give 'exact' or 'exponentiated'")
        if self.step == "exponentiated" and self.temperature == 0.0:
            raise InvalidData(
                "step = 'exponentiated' at temperature 0 would jump from label to label: give a "
                "positive temperature, or step='exact'"
            )
        check_update(self.update, self.order)

    def duals_of(self, data: Data, weight: np.ndarray, n_jobs: int) -> BlockDual:
        """Means of blocks; planes for single steps at temperature 0, where means are labels."""
        if self.temperature == 0.0:
            return FrankWolfe(update=self.update).duals_of(data, weight, n_jobs)
        data, line_search = with_means(data, self.name), self.step == "exact"
        if self.update == "batch":
            return BatchMarginalDual(data, weight, 1, self.temperature, line_search)
        return MarginalDual(data, weight, n_jobs, self.temperature, line_search)


@dataclass
class ExponentiatedGradient(PartialLinearization):
    """Exponentiated gradient (Collins et al.): partial linearisation with whole steps.

    Online by default, a block at a time. 1 / temperature is the learning rate; the dual may fall
    where it is too high.

    Parameters
    ----------
    temperature : float, default=1.0
    step, update, order, recentring
        As for `PartialLinearization`, but without a centre by default.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import ExponentiatedGradient
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, ExponentiatedGradient(), tol=1e-4, random_state=0)
    >>> round(result.certificate.primal, 3)
    0.5
    """

    name: ClassVar[str] = "exponentiated_gradient"

    temperature: float = 1.0
    step: str = "exponentiated"
    recentring: float | str = 0.0
