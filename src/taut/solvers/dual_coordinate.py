"""Dual coordinate ascent with shared slacks, for any structure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.binding import Data, has_oracle
from taut.duals import BlockDual, EnumeratedDual, planes_of
from taut.duals.plane_steps import corrective_steps
from taut.engines.part import check_order
from taut.errors import InvalidData
from taut.solvers._block_ascent import BlockAscent


@dataclass
class DualCoordinate(BlockAscent):
    """Dual coordinate ascent with shared slacks (Ramanan, Algorithm 1), over planes as found.

    Problem: max_a sum_iy a_iy loss_i(y) - 1/2 |sum_iy a_iy psi_i(y)|^2, a >= 0, sum_y a_iy <= C_i.
    Given: a loss-augmented argmax for each block. Comes out: w = sum a psi and a feasible a.

    A visit of block i calls the oracle, adds the plane that it finds to the block's planes, and
    moves weight between pairs of planes by exact steps. Structures with few labels have the exact
    step over all of them instead. Blocks whose duality gap is small beside the mean are visited at
    growing intervals, which shrinks the problem to the blocks that matter.

    Cost per pass: one oracle call per visited block, plus (planes in the block) x (steps).
    Memory: a label, a coefficient, a loss and a Gram row per plane; no vector of n_features per
    block.
    Certificate: exact; the dual point is feasible at all times.

    Parameters
    ----------
    max_steps : int, default=6
        Corrective steps per visit, where the block keeps planes.
    cached_passes : int, default=1
        Passes over the planes already found, without the oracle, between passes with it.
    shrink : float, default=0.02
        A block with a gap below this fraction of the mean is visited less often; 0 visits all.
    max_interval : int, default=16
        The longest interval between visits, in passes with the oracle.
    order : {"permutation", "uniform", "gap"}, default="permutation"
        Each due block once in random order, or as many draws: all with the same odds, or with odds
        proportional to the gap.
    recentring : float or "auto", default="auto"
        Strength of the moving centre, relative to the regulariser; 0 switches it off, and the dual
        then never falls.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import DualCoordinate
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, DualCoordinate(recentring=0.0), tol=1e-6, random_state=0)
    >>> round(result.certificate.primal, 4)
    0.5
    """

    name: ClassVar[str] = "dual_coordinate"
    takes: ClassVar[tuple[str, ...]] = ("whole", "rows")

    max_steps: int = 6
    cached_passes: int = 1
    shrink: float = 0.02
    max_interval: int = 16
    order: str = "permutation"
    recentring: float | str = "auto"

    def __post_init__(self) -> None:
        check_order(self.order)
        if self.max_steps < 1 or self.cached_passes < 0 or self.max_interval < 1:
            raise InvalidData(
                f"max_steps = {self.max_steps} and max_interval = {self.max_interval} must be at "
                f"least 1, cached_passes = {self.cached_passes} at least 0"
            )

    def duals_of(self, data: Data, weight: np.ndarray, n_jobs: int) -> BlockDual:
        """The form of dual variables that the oracles allow."""
        if has_oracle(data, "exact_step"):
            return EnumeratedDual(data, weight, n_jobs)
        return planes_of(data, weight, n_jobs, corrective_steps, self.max_steps)
