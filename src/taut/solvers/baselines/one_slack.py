"""The cutting-plane method with one slack for all blocks."""

from __future__ import annotations

import math
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from taut.compiled.lanes import aligned_zeros
from taut.engines.base import DualState
from taut.engines.naming import Arrays
from taut.engines.turns import KeepGoing, Pace
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers.base import Candidate, PassEvent, PassReport, Solver
from taut.solvers.baselines._cuts import Cuts
from taut.solvers.baselines._simplex_qp import best_weights
from taut.storage.stored import Stored, check

_ROUNDS = 50  # QPs in a row, where bounds make the dual no quadratic
_LITTLE = 0.01  # of what is left to gain: rounds that gain less would never get there
_PART = 0.01  # of the gap that a pass found, to which the planes' own problem is solved


class _Point(NamedTuple):
    """Weights of the planes, the v that belongs to them, the dual, and the planes' violations."""

    coef: np.ndarray
    v: np.ndarray
    dual: float
    violation: np.ndarray

    @property
    def gap(self) -> float:
        """Of the problem of these planes alone."""
        return float(self.violation.max(initial=0.0) - self.coef @ self.violation)


class CutState(DualState):
    """The planes found so far, their weights, and the w of lowest primal value so far."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.w = aligned_zeros(problem.data.size, np.float64)
        self.cuts = Cuts(problem.quadratic)
        self.pace = Pace()
        self.gap = math.inf
        self.lowest = math.inf
        self.lowest_w: np.ndarray | None = None

    @property
    def loss_sum(self) -> float:
        """Sum of the weights times the losses of the planes."""
        return self.cuts.loss_sum(self.cuts.coef)

    def dual_vector(self, U):
        """U, summed up afresh from the planes."""
        self.cuts.sum_up(self.cuts.coef, U)

    def look(self, primal: float) -> None:
        """Keep w if its primal value, which is given, is the lowest so far."""
        if primal < self.lowest:
            self.lowest, self.lowest_w = primal, self.w.copy()

    def optimise(self, part: float) -> float:
        """Solve the problem of the planes to a part of its gap; returns the dual value.

        g* of the dual vector is majorised by a quadratic with the Gram matrix of the planes, which
        is exact unless there are bounds: g*(U + d) <= g*(U) + <w, d> + 1/2 |d|^2. Each solution
        gains, and they are repeated until the gap is small enough.
        """
        cuts = self.cuts
        here = self._at(cuts.coef)
        target = part * here.gap
        for _ in range(_ROUNDS):
            if here.gap <= target:
                break
            linear = here.violation + cuts.gram @ here.coef
            there = self._at(best_weights(cuts.gram, linear, here.coef))
            gain = there.dual - here.dual
            if gain > 0.0:
                here = there
            if not gain > _LITTLE * target:
                break
        cuts.coef, self.w[:] = here.coef, here.v
        return here.dual

    def _at(self, coef: np.ndarray) -> _Point:
        quadratic, U, v = self.problem.quadratic, np.empty_like(self.w), np.empty_like(self.w)
        self.cuts.sum_up(coef, U)
        quadratic.place(v, U, 0.0, U)
        dual = self.cuts.loss_sum(coef) - quadratic.conjugate(U)
        return _Point(coef, v, dual, self.cuts.violations(quadratic.point(v)))

    def curvature(self) -> float:
        """Not asked for: there is no centre."""
        return 0.0

    def arrays(self) -> Arrays:
        """Everything, as named arrays."""
        lowest = {} if self.lowest_w is None else {"lowest_w": self.lowest_w}
        numbers = np.array([self.gap, self.lowest])
        weight, digest = self.problem.known_weights()
        own = {"w": self.w, "numbers": numbers, "weight": weight}
        own["sample_weight"] = np.frombuffer(digest, np.uint8)
        return own | lowest | self.cuts.arrays()

    def restore(self, arrays: Arrays) -> None:
        """Go on exactly where `arrays` were taken."""
        self._check(arrays)
        self.w[:] = arrays["w"]
        self.gap, self.lowest = arrays["numbers"].tolist()
        self.lowest_w = arrays.get("lowest_w")
        self.cuts.restore(arrays)

    def hot_start(self, arrays: Arrays, same_weights: bool) -> None:
        """The planes of `arrays`, multiplied by the least growth of a block's weight.

        So they are planes of this problem too, whatever the growth of other blocks is: hinges are
        not negative. They are as good as before where all weights grow alike, and of no use where a
        block has lost its weight.
        """
        if "psi_places" not in arrays:
            raise InvalidData(
                "the start was made by another solver: start from a solve with one_slack, or from "
                "nothing (warm_start=False)"
            )
        self._check(arrays)
        growth = 1.0 if same_weights else self._growth(arrays)
        if growth > 0.0 and len(arrays["coef"]):
            self.cuts.restore(arrays)
            self.cuts.scale(growth)
            self.optimise(_PART)

    def _check(self, arrays: Arrays) -> None:
        """Refuse what no run can have left."""
        size = len(self.w)
        check(
            arrays,
            {
                "w": Stored("f8", (size,)),
                "numbers": Stored("f8", (2,), 0.0, infinite=True),
                "weight": Stored("f8", self.problem.known_weights()[0].shape, 0.0),
            },
        )
        if "lowest_w" in arrays:
            check(arrays, {"lowest_w": Stored("f8", (size,))})
        self.cuts.check(arrays, size)

    def _growth(self, arrays: Arrays) -> float:
        old, (new, digest) = arrays["weight"], self.problem.known_weights()
        if arrays["sample_weight"].tobytes() != digest:
            raise InvalidData(
                "the start has other sample weights, and those of data that are read part by part "
                "cannot be compared block by block: start from nothing (warm_start=False)"
            )
        had = old > 0.0
        return float((new[had] / old[had]).min())


@dataclass
class OneSlack(Solver[CutState]):
    """The 1-slack cutting-plane method (Joachims, Finley and Yu, Algorithm 3).

    Problem: max_b sum_j b_j loss_j - 1/2 |sum_j b_j psi_j|^2, b >= 0, sum_j b_j <= 1, over planes
    psi_j = sum_i C_i psi_i(y_ij), loss_j = sum_i C_i loss_i(y_ij).
    Given: a loss-augmented argmax for each block. Comes out: w = sum_j b_j psi_j and a feasible b,
    which is the feasible a_iy = C_i sum of b_j over the planes with y_ij = y.

    A pass asks the oracle of each block at the same w. The labels that it finds make one plane,
    below the sum of all hinges and equal to it at w. The best weights of all planes are then found
    by an active set, from the last ones on. With sign constraints the dual is no quadratic: a
    quadratic below it is maximised instead, over and over.

    Cost per pass: one reading of the data, one oracle call per block, an inner product of w's
    length with each plane, and a QP in the number of planes: a Cholesky factor for those that have
    weight, and a few steps.
    Memory: a vector of w's length per plane, dense or sparse; a plane that has had no weight for
    `patience` passes is dropped. Blocks take none, and may be read part by part. w is of float64
    whatever the data are.
    Certificate: exact. The primal value is known at the w of each pass, and the w of the lowest one
    is what is certified: it need not be the last.
    Warm start: the planes of another C, scaled to this one.

    Parameters
    ----------
    patience : int, default=20
        Passes for which a plane without weight is kept.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.solvers import OneSlack
    >>> from taut.structures import Multiclass
    >>> X, y = np.array([[0.5, 0.5], [-0.5, -0.5]]), np.array([0, 1])
    >>> problem = Problem(Multiclass(2, bias=1.0), X, y, C=1.0)
    >>> result = solve(problem, OneSlack(), tol=1e-6)
    >>> round(result.certificate.primal, 4)
    0.5
    """

    name: ClassVar[str] = "one_slack"

    patience: int = 20

    def __post_init__(self) -> None:
        if self.patience < 1:
            raise InvalidData(f"patience = {self.patience}: it must be at least 1")

    def init(self, problem: Problem, rng: np.random.Generator) -> CutState:
        """No planes."""
        if not problem.repeatable:
            raise InvalidData(
                f"{self.name} goes over the data again and again, and these can be read only once: "
                "use solver='online_cache'"
            )
        return CutState(problem)

    def pass_(
        self, problem: Problem, state: CutState, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """The plane of the present w, and the weights of all planes."""
        psi, sums = aligned_zeros(problem.data.size, np.float64), np.zeros(2)
        calls, whole = self._look_at_blocks(problem, state, keep_going, psi, sums)
        if whole:
            state.look(problem.quadratic.value(state.w) + float(sums[1]))
            state.cuts.add(psi, float(sums[0]))
            dual = state.optimise(_PART)
            state.cuts.count_idle()
            state.cuts.drop(self.patience)
            state.gap = max(state.lowest - dual, 0.0)
        event = PassEvent.COMPLETE if whole else PassEvent.INCOMPLETE
        lowest = None if state.lowest_w is None else Candidate(state.lowest_w)
        return PassReport(state.gap, 0.0, calls, event, lowest)

    @staticmethod
    def _look_at_blocks(
        problem: Problem,
        state: CutState,
        keep_going: KeepGoing,
        psi: np.ndarray,
        sums: np.ndarray,
    ) -> tuple[int, bool]:
        """Sum up the plane; the number of oracle calls, and whether all blocks were looked at."""
        calls, last = 0, 0
        with closing(problem.bound()) as parts:
            for data, weight in parts:
                if calls > 0 and not keep_going():
                    return calls, False
                for first, last in state.pace.ranges(data.n_blocks, keep_going):
                    data.add_worst(state.w, weight, problem.n_jobs, first, last, psi, sums)
                    calls += int(np.count_nonzero(weight[first:last]))
                if last < data.n_blocks:
                    return calls, False
        return calls, True
