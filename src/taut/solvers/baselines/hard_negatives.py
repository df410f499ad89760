"""Hard-negative mining around a binary solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taut.binding import MinedLabels, nothing_mined
from taut.compiled.lanes import aligned_copy, aligned_zeros
from taut.engines.base import DualState
from taut.engines.naming import Arrays
from taut.engines.part import USED_UP, Part
from taut.engines.turns import KeepGoing, draw_seed
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers.base import PassEvent, PassReport, Solver
from taut.solvers.dual_coordinate import DualCoordinate
from taut.storage.stored import Stored, check, check_totals, vector


class MiningState(DualState):
    """The mined labels, with the dual variables of the binary problem over them."""

    follows = False
    loss_sum = 0.0  # of the dual point, as `dual_vector` last summed it up

    def __init__(
        self, problem: Problem, ascent: DualCoordinate, w: np.ndarray, rng: np.random.Generator
    ) -> None:
        self.problem = problem
        self.ascent = ascent
        self.w = w
        self.rng = rng
        self.labels: MinedLabels = nothing_mined(problem.data)
        self.binary: Part | None = None  # while there are labels
        self.dual = problem.dual(0.0, np.zeros(len(w)))

    # The binary problem

    @property
    def weight(self) -> np.ndarray:
        """C_i of each mined label."""
        return self.problem.block_weight[self.labels.owner]

    @property
    def alpha(self) -> np.ndarray:
        """The dual variable of each mined label."""
        return np.empty(0) if self.binary is None else self.binary.duals.used()

    def have(self, labels: MinedLabels, alpha: np.ndarray) -> None:
        """Let the mined labels be these, with these dual variables."""
        self.labels, self.binary = labels, None
        if len(labels):
            data, n_jobs = labels.examples(), self.problem.n_jobs
            self.binary = self.ascent.part_of(data, self.weight, n_jobs, self.w.dtype)
            self.binary.duals.restore({"alpha": alpha[:, None]}, np.ones(len(labels)))
            self.binary.loss_sum = self.binary.duals.loss_sum

    def violations(self, v: np.ndarray) -> np.ndarray:
        """How much each mined label violates its margin at v, or 0."""
        if self.binary is None:
            return np.empty(0)
        return self.binary.duals.data.hinges(v, self.problem.n_jobs)

    @property
    def binary_dual(self) -> float:
        """The dual value of the binary problem, of which w is the dual vector."""
        conjugate, _, _ = self.problem.quadratic.survey(self.w, self.w, 0.0, np.empty_like(self.w))
        return (0.0 if self.binary is None else self.binary.loss_sum) - conjugate

    def place(self) -> None:
        """Sum up w from the dual variables of the binary problem, and value the dual point."""
        U = aligned_zeros(len(self.w), np.float64)
        if self.binary is not None:
            self.binary.duals.sum_up(U)
        self.problem.quadratic.place(self.w, U, 0.0, U)
        self.dual_vector(U)
        self.dual = self.problem.dual(self.loss_sum, U)

    # What the loop asks for

    def shares(self) -> np.ndarray:
        """What each mined label has of its dual variable in the dual point.

        The labels of a block may have more weight together than one slack allows.
        """
        allowed = self.problem.block_weight
        total = np.bincount(self.labels.owner, self.alpha, len(allowed))
        share = np.where(total > allowed, allowed / np.where(total > 0.0, total, 1.0), 1.0)
        return share[self.labels.owner]

    def dual_vector(self, U):
        """U, and the summed loss with it, of the dual variables that share their slacks."""
        U[:] = 0.0
        self.loss_sum = 0.0
        if self.binary is not None:
            own = self.binary.duals
            shared = self.ascent.duals_of(own.data, own.weight, own.n_jobs)
            shared.restore(own.arrays(), self.shares())
            self.loss_sum = shared.sum_up(U)
            factor = self._best_factor(U)
            self.loss_sum *= factor
            U *= factor

    def _best_factor(self, U: np.ndarray) -> float:
        """What to multiply the dual point of U by, at most 1, for the largest dual value.

        Blocks that were scaled one by one can be too large together. Along the ray the dual is a
        parabola, or near to one where w has bounds: its ends are tried beside its top.
        """

        def dual(factor: float) -> float:
            return self.problem.dual(factor * self.loss_sum, factor * U)

        zero, half, one = dual(0.0), dual(0.5), dual(1.0)
        slope, bend = 4.0 * half - 3.0 * zero - one, 4.0 * half - 2.0 * (zero + one)
        top = slope / (2.0 * bend) if bend > 0.0 else 1.0
        return max(1.0, min(max(top, 0.0), 1.0), 0.0, key=dual)

    def dual_value(self, conjugate):
        """D of the dual point, which w does not belong to."""
        return self.dual

    def curvature(self):
        """Mean of C_i |psi|^2 over the mined labels."""
        return 0.0 if self.binary is None else float(np.mean(self.binary.curvature()))

    def widen(self):
        """W in float64."""
        self.w = aligned_copy(self.w, np.float64)
        self.have(self.labels, self.alpha)

    def arrays(self):
        """Everything, as named arrays."""
        mined = {f"mined.{name}": array for name, array in self.labels.arrays().items()}
        return mined | {
            "w": self.w,
            "block_weight": self.problem.block_weight,
            "mined.alpha": self.alpha,
            "dual": np.array(self.dual),
        }

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        check(arrays, {"w": vector(len(self.w)), "dual": Stored("f8", ())})
        if arrays["w"].dtype != self.w.dtype:
            self.widen()
        self.w[:] = arrays["w"]
        self.have(*self._mined(arrays))
        self.dual = float(arrays["dual"])

    def hot_start(self, arrays, same_weights):
        """The mined labels of another solve, their dual variables scaled to these weights.

        What was not at its bound stays as it is where more is allowed.
        """
        if "mined.alpha" not in arrays:
            raise InvalidData(
                "the start was made by a solver that mines no negatives: start from a solve with "
                "hard_negatives, or from nothing (warm_start=False)"
            )
        labels, alpha = self._mined(arrays)
        old, new = (C[labels.owner] for C in (arrays["block_weight"], self.problem.block_weight))
        growth = new / np.where(old > 0.0, old, 1.0)
        at_bound = alpha >= USED_UP * old
        self.have(labels, alpha * np.where(at_bound, growth, np.minimum(growth, 1.0)))
        self.place()

    def _mined(self, arrays: Arrays) -> tuple[MinedLabels, np.ndarray]:
        """Mined labels and their dual variables."""
        own = {name[6:]: array for name, array in arrays.items() if name.startswith("mined.")}
        labels, alpha = self.labels.restored(own), own["alpha"]
        weight = Stored("f8", self.problem.block_weight.shape, 0.0)
        check(arrays, {"block_weight": weight, "mined.alpha": Stored("f8", (len(labels),), 0.0)})
        check_totals(alpha, arrays["block_weight"][labels.owner], whole=False)
        return labels, alpha


@dataclass
class HardNegatives(Solver[MiningState]):
    """Mining hard negatives for a binary SVM (Felzenszwalb et al. 2008).

    Problem: min_w 1/2 |w|^2 + sum_j C_i(j) max(0, loss_i(j)(y_j) - <w, psi_i(j)(y_j)>) over mined
    labels y_j of blocks i(j), each a binary example with a slack of its own. That is not P, where
    the labels of a block share a slack: where several of a block's labels are hard, w is not the
    minimum of P, and the gap stays open. With one candidate per block both are the same.
    Given: a loss-augmented argmax for each block. Comes out: the w of the binary problem, and a
    feasible dual point of P.

    A pass is a round. Each block's most violated label at w joins the mined ones (Branson et al.
    2013, section 5.1, with one label instead of 100); labels without weight that are not
    violated are dropped; the binary problem is solved, from where it was, by `DualCoordinate`. The
    method has come to its end when the binary problem, with what a round found, is solved to
    `inner_gap` as it stands. Labels that violate less than a mined one of their block may never be
    found: which w comes out depends on the way.

    Cost per pass: one oracle call per block, and for each inner pass the scores of two labels per
    mined label, with the potentials of its block.
    Memory: per mined label the label and the truth, a coefficient and two numbers; psi itself for
    structures in plain Python.
    Certificate: exact. The primal is that of P at w. For the dual, the coefficients of a block's
    labels are scaled down to sum to C_i where they exceed it, then all together by one factor.

    Parameters
    ----------
    inner_gap : float, default=0.01
        Relative duality gap to which the binary problem is solved in each round.
    max_rounds : int, default=300
        Passes over the mined labels in a round.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import HardNegatives
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[1.0, 0.2], [0.1, 1.0], [1.0, 1.0]]), np.array([0, 1, 2])
    >>> problem = Problem(Multiclass(3, bias=1.0), X, y, C=1.0)
    >>> best = solve(problem, tol=1e-6, random_state=0).certificate
    >>> mined = solve(problem, HardNegatives(inner_gap=1e-6), random_state=0).certificate
    >>> mined.status.name, mined.dual < best.dual < mined.primal
    ('SETTLED', True)
    """

    name: ClassVar[str] = "hard_negatives"
    takes: ClassVar[tuple[str, ...]] = ("whole",)

    inner_gap: float = 0.01
    max_rounds: int = 300

    def __post_init__(self) -> None:
        if not (0.0 < self.inner_gap < 1.0 and self.max_rounds >= 1):
            raise InvalidData(
                f"inner_gap = {self.inner_gap} must be between 0 and 1, max_rounds = "
                f"{self.max_rounds} at least 1"
            )

    def init(self, problem: Problem, rng: np.random.Generator) -> MiningState:
        """Nothing is mined."""
        w = aligned_zeros(problem.data.size, problem.data.dtype)
        return MiningState(problem, DualCoordinate(), w, rng)

    def pass_(
        self, problem: Problem, state: MiningState, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """A round: mine at w, drop what is easy, solve the binary problem."""
        v = aligned_copy(state.w, np.float64)
        known = state.violations(v)
        hinges, found, violation = state.labels.mine(v, problem.n_jobs, known)
        penalty = problem.quadratic.value(v)
        primal = penalty + float(problem.block_weight @ hinges)
        paid = np.flatnonzero(problem.block_weight[found.owner] > 0.0)
        state.have(state.labels.joined(found.take(paid)), np.pad(state.alpha, (0, len(paid))))
        violation = np.append(known, violation[paid])
        binary_primal = penalty + float(state.weight @ violation)
        solved = binary_primal - state.binary_dual <= self.inner_gap * binary_primal
        event = PassEvent.SETTLED
        if not solved:
            kept = np.flatnonzero((state.alpha > 0.0) | (violation > 0.0))
            state.have(state.labels.take(kept), state.alpha[kept])
            stuck = not self._solve(state, keep_going) and keep_going()
            event = PassEvent.STUCK if stuck else PassEvent.COMPLETE
            state.place()
        return PassReport(primal - state.dual, 0.0, problem.n_blocks, event)

    def _solve(self, state: MiningState, keep_going: KeepGoing) -> bool:
        """Passes over the mined labels; whether they came to the gap that is asked for."""
        assert state.binary is not None
        for _ in range(self.max_rounds):
            seed = draw_seed(state.rng)
            reply = state.binary.sweep(state.w, seed, state.rng, 1.0, keep_going)
            if not reply.complete:
                break
            if reply.gap <= self.inner_gap * (state.binary_dual + reply.gap):
                return True
        return False
