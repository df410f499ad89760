"""The cutting-plane method with a slack for each block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.binding import Data
from taut.duals import BlockDual, planes_of
from taut.duals.plane_steps import corrective_steps
from taut.engines.part import Sweep
from taut.engines.serial import Serial
from taut.engines.turns import KeepGoing, draw_seed
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers._block_ascent import BlockAscent, report_of
from taut.solvers.base import PassReport

_STEPS = 6  # between pairs of a block's planes, in one sweep


@dataclass
class NSlack(BlockAscent):
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

    def __post_init__(self) -> None:
        if self.batch is not None and self.batch < 1:
            raise InvalidData(f"batch = {self.batch}: it must be at least 1, or None for all")
        if not self.precision > 0.0 or self.max_sweeps < 1:
            raise InvalidData(
                f"precision = {self.precision} must be positive, max_sweeps = {self.max_sweeps} at "
                "least 1"
            )

    def duals_of(self, data: Data, weight: np.ndarray, n_jobs: int) -> BlockDual:
        """Planes, which the oracle adds to and sweeps move weight between."""
        return planes_of(data, weight, n_jobs, corrective_steps, _STEPS, oracle_steps=0)

    def pass_(
        self, problem: Problem, state: Serial, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """The oracle for all blocks, batch by batch, each followed by its QP."""
        part, visited = state.part, 0
        sweep = part.begin(draw_seed(state.rng), state.rng)
        size = self.batch or max(len(sweep.order), 1)
        for start in range(0, len(sweep.order), size):
            batch = sweep.order[start : start + size]
            own = sweep._replace(order=batch)
            visited += part.visit_in_turn(own, state.w, stiffness, keep_going)
            if visited == start + len(batch):
                found = float(part.gap[np.isfinite(part.gap)].sum())
                self._solve(state, sweep.sums, found, stiffness, keep_going)
            if not keep_going():
                break
        return report_of(part.end(sweep, visited))

    def _solve(
        self,
        state: Serial,
        sums: np.ndarray,
        found: float,
        stiffness: float,
        keep_going: KeepGoing,
    ) -> None:
        """Sweeps over the kept labels, until their own gap is small beside the one found."""
        part = state.part
        for _ in range(self.max_sweeps):
            sums[2] = 0.0
            seed, blocks = draw_seed(state.rng), np.flatnonzero(part.duals.revisitable())
            order = part.ordered(blocks, seed, state.rng)
            sweep = Sweep(False, blocks, part.gap[:0], order, seed, sums)
            whole = part.visit_in_turn(sweep, state.w, stiffness, keep_going) == len(order)
            if not whole or sums[2] <= self.precision * found:
                break
