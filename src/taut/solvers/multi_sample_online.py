"""Online dual ascent with several labels per visit, which keeps nothing of a block."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from taut.binding import Data
from taut.solvers._sequential import Sequential
from taut.solvers._sequential_state import SequentialState
from taut.solvers._several_labels import SeveralLabels
from taut.solvers._visitors import ExactVisitor, Visitor


@dataclass
class OnlineMultiSample(SeveralLabels, Sequential):
    """Multi-sample dual ascent, online (Branson, Beijbom and Belongie, 2013, Algorithm 1).

    Problem: max_a sum_iy a_iy loss_i(y) - 1/2 |sum_iy a_iy psi_i(y)|^2, a >= 0, sum_y a_iy <= C_i.
    Given: for each block a few labels, the loss-augmented argmax among them, from a sampler
    (`taut.sampling`). Comes out: w, an average of w, a feasible dual point.

    A visit takes the steps of `MultiSample` from all weight on the truth, and keeps nothing of the
    block; what earlier visits found fades as n / t. The weights are w^t = (t - 1)/t w^(t-1) + ...,
    and violations in a visit are those of the weights already faded: as printed, with those before,
    the dual is not what the step maximises.

    Over a source the features of one chunk at a time are kept; in sequence (`shuffle=False`) the
    outcome is that of the same data in memory.

    Cost per pass: one call of the sampler per block, and one inner product for each label of it;
    one thread, whatever `n_jobs` is.
    Memory: three vectors of the length of w; nothing per block.
    Certificate: exact, as that of `Subgradient`. Convergence is guessed from the losses that
    accumulate in a pass, and confirmed by a true gap.
    Data that can be read once, and `partial_fit`: the average, with estimates.

    Parameters
    ----------
    n_samples : int, optional
        Labels per visit. By default all where the structure has an exact step over them, else 10.
    sampler : str, callable or Sampler, default="auto"
        As for `MultiSample`.
    shuffle : bool, default=True
        Random order: of the blocks in memory; of the chunks of a source, where it allows that, and
        of the blocks in each. Else in sequence.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import OnlineMultiSample
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[1.0, 0.2], [0.1, 1.0], [1.0, 1.0]]), np.array([0, 1, 2])
    >>> problem = Problem(Multiclass(3, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, OnlineMultiSample(), tol=1e-2, random_state=0)
    >>> result.certificate.relative_gap <= 1e-2
    True
    """

    name: ClassVar[str] = "multi_sample_online"
    fades: ClassVar[bool] = True

    _: KW_ONLY
    shuffle: bool = True

    def visitor_of(self, data: Data, state: SequentialState) -> Visitor:
        """What visits blocks with the labels that the sampler finds, or with all of them."""
        if self.takes_all(data):
            return ExactVisitor(data)
        return super().visitor_of(data, state)
