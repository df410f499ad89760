"""Frank-Wolfe, block by block or in batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.binding import CompiledData, Data, has_oracle
from taut.checks import check_choice
from taut.duals import BatchMarginalDual, BlockDual, planes_of
from taut.duals.plane_steps import away_step, corrective_steps, toward_step
from taut.engines.part import check_order
from taut.errors import InvalidData, MissingOracle
from taut.solvers._block_ascent import BlockAscent

_VARIANTS = {"plain": toward_step, "away": away_step, "pairwise": corrective_steps}


@dataclass
class FrankWolfe(BlockAscent):
    """Block-coordinate Frank-Wolfe (Lacoste-Julien et al.), with away or pairwise steps.

    Problem: max_a sum_iy a_iy loss_i(y) - 1/2 |sum_iy a_iy psi_i(y)|^2, a >= 0, sum_y a_iy <= C_i.
    Given: a loss-augmented argmax for each block. Comes out: w = sum a psi and a feasible a.

    `PartialLinearization` at temperature 0: a_i moves towards the most violated label by an exact
    step. A block keeps the labels that have weight, so that weight can also be taken away from the
    least violated of them, or moved from that one to the most violated one.

    Cost per pass: one loss-augmented argmax per block, plus the squared number of its labels.
    Memory: a label, a coefficient, a loss and a Gram row per label with weight.
    Certificate: exact; so are the gaps of a pass, which gap sampling draws blocks by.

    Parameters
    ----------
    variant : {"plain", "away", "pairwise"}, default="plain"
    update : {"block", "batch"}, default="block"
        Batches need the means of labels, and are of the plain variant.
    order : {"permutation", "uniform", "gap"}, default="permutation"
        Each block once in random order, or as many draws: all with the same odds, or with odds
        proportional to the gap.
    recentring : float or "auto", default="auto"
        Strength of the moving centre, as for `DualCoordinate`. The published algorithm has none: 0
        switches it off, and the dual then never falls.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import FrankWolfe
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, FrankWolfe("pairwise"), tol=1e-6, random_state=0)
    >>> round(result.certificate.primal, 4)
    0.5
    """

    name: ClassVar[str] = "frank_wolfe"

    variant: str = "plain"
    update: str = "block"
    order: str = "permutation"
    recentring: float | str = "auto"

    def __post_init__(self) -> None:
        check_update(self.update, self.order)
        check_choice("variant", self.variant, sorted(_VARIANTS))
        if self.update == "batch" and self.variant != "plain":
            raise InvalidData(f"update = 'batch' with variant = {self.variant!r}: give 'plain'")

    def duals_of(self, data: Data, weight: np.ndarray, n_jobs: int) -> BlockDual:
        """Planes; means for steps of all blocks together."""
        if self.update == "batch":
            return BatchMarginalDual(with_means(data, self.name), weight, 1, 0.0)
        return planes_of(data, weight, n_jobs, _VARIANTS[self.variant])


def check_update(update: str, order: str) -> None:
    """Refuse what is no way to go through blocks."""
    if update not in ("block", "batch"):
        raise InvalidData(f"update = {update!r}: give 'block' or 'batch'")
    check_order(order)
    if update == "batch" and order != "permutation":
        raise InvalidData(
            f"order = {order!r} with update = 'batch', which visits every block: give 'permutation'"
        )


def with_means(data: Data, solver: str) -> CompiledData:
    """The data, if their structure has the expectation oracles that a solver needs."""
    if has_oracle(data, "expect"):
        return data
    raise MissingOracle(
        f"{solver} needs the means of labels, and {type(data.structure).__name__} has no "
        "expect(data, i, work, temperature, loss_weight, base, mean): write it and its "
        "companions (see taut.CompiledStructure), or use solver='dual_coordinate' or "
        "'frank_wolfe', which need argmax alone"
    )
