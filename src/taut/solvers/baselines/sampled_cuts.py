"""The cutting-plane method with planes of sampled examples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.engines.base import DualState
from taut.engines.turns import KeepGoing
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers._subset_state import BestDual
from taut.solvers._subsets import check_subset, is_count, size_of, turns_of, worst_planes
from taut.solvers.base import Candidate, PassEvent, PassReport, Solver
from taut.solvers.baselines.one_slack import CutState
from taut.storage.stored import Stored, check, require

_PART = 0.01  # of the gap of the planes' own problem, to which that is solved


class SampledCutState(CutState):
    """Planes that estimate the sum of all hinges, and the examples that each consists of.

    A plane puts more than C_i on an example that it has drawn. So the weights of the planes are a
    feasible dual point only when multiplied by a factor, which `appraise` chooses.
    """

    follows = False
    hot_start = DualState.hot_start  # planes of samples are below no other sum of hinges

    def __init__(self, problem: Problem, rng: np.random.Generator) -> None:
        super().__init__(problem)
        self.rng = rng
        self.drawn: list[np.ndarray] = []  # of each plane
        self.shares = np.empty(0)  # of C_i that it puts on each of them
        self.best = BestDual(problem)
        self.seen = 0  # examples in all planes so far

    def add(self, psi: np.ndarray, loss: float, drawn: np.ndarray, share: float) -> None:
        """A plane of these examples."""
        self.cuts.add(psi, loss)
        self.drawn.append(drawn)
        self.shares = np.append(self.shares, share)
        self.seen += len(drawn)

    def forget(self, patience: int) -> None:
        """Drop planes that have had no weight for so long."""
        self.cuts.count_idle()
        kept = np.flatnonzero(self.cuts.idle < patience)
        self.drawn = [self.drawn[k] for k in kept]
        self.shares = self.shares[kept]
        self.cuts.drop(patience)

    def appraise(self) -> None:
        """The best multiple of the planes' weights that is a feasible dual point."""
        used = np.zeros(self.problem.n_blocks)
        for k in np.flatnonzero(self.cuts.coef):
            used[self.drawn[k]] += self.cuts.coef[k] * self.shares[k]
        most, loss = used.max(initial=0.0), self.cuts.loss_sum(self.cuts.coef)
        limit = 1.0 / most if most > 0.0 else 0.0
        factor, dual = self.problem.quadratic.highest_along(self.w, loss, limit)
        self.best.offer(dual, factor * loss, lambda U: self.cuts.sum_up(factor * self.cuts.coef, U))

    @property
    def loss_sum(self) -> float:
        """Of the best dual point."""
        return self.best.loss

    def dual_value(self, conjugate):
        """D of the best dual point."""
        return self.best.value

    def dual_vector(self, U):
        """That of the best dual point."""
        self.best.vector(U)

    def arrays(self):
        """Everything, as named arrays."""
        return (
            super().arrays()
            | {
                "drawn": np.concatenate([np.empty(0, np.int64), *self.drawn]),
                "n_drawn": np.array([len(drawn) for drawn in self.drawn], dtype=np.int64),
                "shares": self.shares,
                "seen": np.array([self.seen]),
            }
            | self.best.arrays()
        )

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        n = len(arrays["coef"])
        check(
            arrays,
            {
                "n_drawn": Stored("i8", (n,), 1),
                "shares": Stored("f8", (n,), 0.0),
                "seen": Stored("i8", (1,), 0),
                "drawn": Stored("i8", (None,), 0, self.problem.n_blocks - 1),
            },
        )
        require(int(arrays["n_drawn"].sum()) == len(arrays["drawn"]), "draws are miscounted")
        super().restore(arrays)
        self.drawn = np.split(arrays["drawn"], np.cumsum(arrays["n_drawn"]))[:-1]
        self.shares, self.seen = arrays["shares"].copy(), int(arrays["seen"][0])
        self.best.restore(arrays)


@dataclass
class SampledCuts(Solver[SampledCutState]):
    """The 1-slack cutting-plane method with planes of sampled examples (Yu and Joachims, 2008).

    Problem: max_b sum_j b_j loss_j - 1/2 |sum_j b_j psi_j|^2, b >= 0, sum_j b_j <= 1, over planes
    psi_j = v/k sum_{i in S_j} C_i psi_i(y_ij), loss_j alike, where S_j are k of the v examples that
    were violated at some w.
    Given: a loss-augmented argmax for each block. Comes out: w = sum_j b_j psi_j.

    Each step looks at all examples, draws k of those that are violated, and adds their plane, an
    unbiased estimate of the plane that `OneSlack` would add; then it solves the problem of all
    planes. So w has support rows of samples alone. w settles near the optimum and not at it.

    Cost per step: one oracle call per block; with a kernel a row of its matrix for each example
    that was drawn for the first time; a QP in the number of planes.
    Memory: a vector of w's length per plane; planes without weight for `patience` steps go.
    Certificate: exact. The w of the lowest primal value so far; and the planes' weights times a
    factor, small enough that no example has more than C_i, for the lower bound, which stays loose:
    the best one of all steps so far.

    Parameters
    ----------
    subset : int or float, default=0.01
        k, or the share of all examples that have weight.
    patience : int, default=20
        Steps for which a plane without weight is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import SampledCuts
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, SampledCuts(subset=1), max_iter=50, random_state=0)
    >>> round(result.certificate.primal, 1)
    0.5
    """

    name: ClassVar[str] = "sampled_cuts"
    takes: ClassVar[tuple[str, ...]] = ("whole", "rows")
    starts_hot: ClassVar[bool] = False

    subset: int | float = 0.01
    patience: int = 20

    def __post_init__(self) -> None:
        check_subset(self.subset)
        if not is_count(self.patience):
            raise InvalidData(f"patience = {self.patience!r}: give a whole number from 1 on")

    def init(self, problem: Problem, rng: np.random.Generator) -> SampledCutState:
        """No planes."""
        return SampledCutState(problem, rng)

    def pass_(
        self,
        problem: Problem,
        state: SampledCutState,
        stiffness: float,
        keep_going: KeepGoing,
    ) -> PassReport:
        """A plane of some violated examples at the present w, and the weights of all planes."""
        with turns_of(problem):
            return self._pass(problem, state)

    def _pass(self, problem: Problem, state: SampledCutState) -> PassReport:
        weight = problem.block_weight
        hinges = np.maximum(problem.data.hinges(state.w, problem.n_jobs), 0.0)
        state.look(problem.quadratic.value(state.w) + float(weight @ hinges))
        violated = np.flatnonzero((weight > 0.0) & (hinges > 0.0))
        if len(violated):
            size = min(size_of(self.subset, int(np.count_nonzero(weight))), len(violated))
            drawn = np.sort(state.rng.choice(violated, size, replace=False))
            share, psi = len(violated) / size, np.zeros_like(state.w)
            loss, _hinges = worst_planes(problem, state.w, drawn, share * weight[drawn], psi)
            state.add(psi, loss, drawn, share)
            state.optimise(_PART)
            state.forget(self.patience)
        state.appraise()
        gap = max(state.lowest - state.best.value, 0.0)
        candidate = None if state.lowest_w is None else Candidate(state.lowest_w)
        return PassReport(gap, 0.0, len(weight), PassEvent.COMPLETE, candidate)
