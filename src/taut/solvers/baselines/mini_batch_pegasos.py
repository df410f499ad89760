"""Pegasos with mini-batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.checks import check_flag, check_number
from taut.engines.turns import KeepGoing
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers._subset_state import BestDual, SubsetState
from taut.solvers._subsets import Subsets, size_of, worst_planes
from taut.solvers.base import Candidate, PassEvent, PassReport
from taut.storage.stored import Stored, check, require


class BatchState(SubsetState):
    """w = 1/t sum over t steps of n/k sum C_i psi_i, over the violated labels of a subset.

    Block i has got at most C_i n visits_i / (k t), whatever the labels were: times a factor that
    bounds this by C_i, w is a feasible dual point.
    """

    counts = (*SubsetState.counts, "size")

    def __init__(self, problem: Problem, rng: np.random.Generator, averaging: bool) -> None:
        super().__init__(problem, rng, averaging)
        self.size = 0  # k
        self.visits = np.zeros(problem.n_blocks, dtype=np.int64)
        self.losses = 0.0  # of w, as psi add up to it
        self.best = BestDual(problem)

    def appraise(self) -> None:
        """The best feasible multiple of w as a dual point."""
        most = np.count_nonzero(self.problem.block_weight) * int(self.visits.max(initial=0))
        limit = self.size * self.step / most if most else 0.0
        quadratic = self.problem.quadratic
        factor, dual = quadratic.highest_along(self.w, self.losses, limit)
        self.best.offer(
            dual, factor * self.losses, lambda U: quadratic.dual_vector(self.w, factor, U)
        )

    @property
    def loss_sum(self):
        """Of the best dual point."""
        return self.best.loss

    def dual_value(self, conjugate):
        """D of the best dual point."""
        return self.best.value

    def dual_vector(self, U):
        """A multiple of some w."""
        self.best.vector(U)

    def arrays(self):
        """Everything, as named arrays."""
        own = {"visits": self.visits, "losses": np.array(self.losses)}
        return super().arrays() | own | self.best.arrays()

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        check(
            arrays,
            {"visits": Stored("i8", self.visits.shape, 0), "losses": Stored("f8", (), 0.0)},
        )
        super().restore(arrays)
        require(int(arrays["visits"].sum()) == self.seen, "visits are miscounted")
        self.visits[:] = arrays["visits"]
        self.losses = float(arrays["losses"])
        self.best.restore(arrays)


@dataclass
class MiniBatchPegasos(Subsets[BatchState]):
    """Pegasos with mini-batches (Shalev-Shwartz, Singer, Srebro and Cotter, 2011), for structures.

    Problem: min_w 1/2 |w|^2 + sum_i C_i max(0, max_y loss_i(y) - <w, psi_i(y)>).
    Given: a loss-augmented argmax for each block. Comes out: w, an average of w, a feasible dual
    point.

    Step t looks at a subset S of k examples, all at one w, and sets, with lambda = 1 / (n C),

        w <- (1 - 1/t) w + 1 / (lambda t k) sum_{i in S, violated} psi_i(y_i).

    The average is that of polynomial decay (Shamir and Zhang, 2013):
    average <- (1 - r) average + r w with r = (decay + 1) / (t + decay). `Subgradient` is Pegasos
    with one example at a time, for linear models much faster; this one also takes kernels.

    Cost per step: k oracle calls, and w's length, or with a kernel a row of its matrix for each
    example that is violated. Memory: three vectors of w's length, and a number per block.
    Certificate: exact. w times a factor is a feasible dual point: a block has got n C_i / k at most
    in each step that looked at it. The best one after any pass so far is the lower bound.

    Parameters
    ----------
    subset : int or float, default=50
        k, or the share of all examples.
    order : {"permuted", "window", "uniform", "residual"}, default="permuted"
        As of `FunctionalDescent`.
    averaging : bool, default=True
        Look at the average of w as well, and end with the better of the two; else with w itself.
    decay : float, default=3.0
        How fast early points lose their part in the average; 0 for the plain mean.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import MiniBatchPegasos
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, MiniBatchPegasos(subset=2), tol=0.01, random_state=0)
    >>> round(result.certificate.primal, 2)
    0.5
    """

    name: ClassVar[str] = "mini_batch_pegasos"

    subset: int | float = 50
    order: str = "permuted"
    averaging: bool = True
    decay: float = 3.0

    def __post_init__(self) -> None:
        self.check_subsets()
        check_flag("averaging", self.averaging)
        check_number("decay", self.decay)
        if not 0.0 <= self.decay < np.inf:
            raise InvalidData(f"decay = {self.decay}: give a finite number from 0 on")

    def init(self, problem: Problem, rng: np.random.Generator) -> BatchState:
        """w = 0."""
        state = BatchState(problem, rng, self.averaging)
        state.size = size_of(self.subset, int(np.count_nonzero(problem.block_weight)))
        return state

    def step(
        self,
        problem: Problem,
        state: BatchState,
        chosen: np.ndarray,
        n: int,
        keep_going: KeepGoing,
    ) -> float:
        """Shrink w, and add the violated planes of these examples as they were before."""
        t = state.step
        factor = n / (state.size * t)
        weight, psi = problem.block_weight[chosen], np.zeros_like(state.w)
        losses, hinges = worst_planes(problem, state.w, chosen, factor * weight, psi)
        state.w *= 1.0 - 1.0 / t
        state.w += psi
        state.losses = (1.0 - 1.0 / t) * state.losses + losses
        state.visits[chosen] += 1
        state.take_average((self.decay + 1.0) / (t + self.decay))
        return hinges / (factor * problem.C)

    def report(
        self, problem: Problem, state: BatchState, primal: float, calls: int, over: bool
    ) -> PassReport:
        """The bounds as far as the steps tell them, and the average."""
        state.appraise()
        event = PassEvent.COMPLETE if over else PassEvent.PART
        candidate = None if state.average is None else Candidate(state.average)
        return PassReport(max(primal - state.best.value, 0.0), 0.0, calls, event, candidate)
