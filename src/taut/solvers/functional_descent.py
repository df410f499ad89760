"""Stochastic functional descent: w grows by what small problems add to it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from taut.binding.residuals import margins_at
from taut.binding.row_problem import RowProblem, row_problem
from taut.checks import check_choice, check_flag, check_number
from taut.engines.turns import KeepGoing, draw_seed
from taut.errors import InvalidData, InvalidType
from taut.problem import Problem
from taut.solvers._block_ascent import BlockAscent
from taut.solvers._descent_state import DescentState, DescentStep
from taut.solvers._subsets import Subsets, is_count
from taut.solvers.base import Candidate, PassEvent, PassReport
from taut.solvers.dual_coordinate import DualCoordinate
from taut.spaces.support_budget import SupportBudget
from taut.storage.stored import LARGEST

_SWEEPS = 300  # over a subset, at most: a step that is less exact says so


class _Found(NamedTuple):
    """What a step found: hinges and largest residual margins at the w before, and its problem."""

    hinges: np.ndarray
    residuals: np.ndarray
    square: float
    gap: float


@dataclass
class FunctionalDescent(Subsets[DescentState]):
    """Stochastic functional descent (He): each step asks for what w lacks on some examples.

    Problem of step t, on a subset S_t of k examples:

        min_u  lambda_t / 2 |u|^2 + 1/k sum_{i in S_t} max_y [ rho_i(y) - <u, psi_i(y)> ],
        rho_i(y) = loss_i(y) - <w, psi_i(y)>, the residual margin at w;   then w <- w + u.

    Given: a loss-augmented argmax for each block. Comes out: w, the sum of all steps.

    Where a structure lists its labels, as classes do, rho can be bounded, by default from above by
    M, the largest loss of the example: u need not mend more than that. The thesis bounds it from
    below as well, by 0: what w keeps far enough away must not come nearer. That makes support rows
    of most examples, and errors were higher (docs/functional_descent.md). Elsewhere, as in chains,
    rho is what it is: the maximum inside an argmax that decomposes is over all labels at once.

    The outcome is the average of w over the steps, the t-th counting as t does, which is steadier.

    There is no constant C to search for, and no convergence to the minimum of an objective: with
    constant lambda_t w goes on moving. It converges if the sum of lambda_t^(-1/2) is finite, as for
    t^a with a > 2. A lambda_t beyond the largest numbers, as of long runs of "geometric", makes a
    step of 0. Each step has |u|^2 <= (mean of max rho) / lambda_t + its duality gap.

    Cost per step: the problem of k blocks, and with a kernel a row of its matrix for each example
    that moves.
    Memory: w, a line about each step, and during a step the matrix of k x k inner products, for at
    most 4096 rows, unless rows are dense and k > 4 times as long; nothing per block.
    Certificate: none. The primal is that of the problem's C, a reference that steps do not know;
    the lower bound is 0. Each step's own problem is solved to a certified gap (`DescentStep`).

    Parameters
    ----------
    subset : int or float, default=50
        k, or the share of all examples.
    schedule : {"constant", "linear", "geometric", "power"} or callable, default="constant"
        lambda_t: 1 / k, t / n, rate^-t or t^rate; or a function of t.
    rate : float, optional
        The q of "geometric", in (0, 1), and the exponent of "power", above 0.
    factor : float, default=1.0
        Multiplies the schedule.
    order : {"permuted", "window", "uniform", "residual"}, default="permuted"
        All examples in random order, a subset after the other; in the order in which they are;
        each subset drawn anew, without replacement; or with odds proportional to the largest
        residual margins, bounded as `bounds` says, which looks at all examples in each step.
    precision : float, default=0.01
        Relative gap to which the problem of a step is solved.
    bounds : {"auto", "above", "both", "none"}, default="auto"
        How residual margins are bounded: from above where labels are listed, else not at all.
    averaging : bool, default=True
        Whether the average of w is looked at as well. `solve`, and an estimator with a C, then
        return the better of the two by the primal at C; `OnlineSVM` always the average.
    budget : int, optional
        Support rows that w and its average may have together, with a kernel.
    overflow : {"merge", "remove"}, default="merge"
        What happens to those with the smallest coefficients beyond that: w is projected onto the
        span of the rows that stay, or they are dropped, which spoils w.
    epochs : int, default=2
        Passes after which training ends, if nothing ends it before.
    n_total : int, optional
        n of "linear", where more examples are to come than the problem has.
    inner : BlockAscent, optional
        Solves the problems of steps by sweeps; by default `DualCoordinate()`, and where blocks
        are rows with two or several classes, exact steps on the matrix of the subset's rows.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.kernels import RBF
    >>> from taut.solvers import FunctionalDescent
    >>> from taut.spaces.kernel import through_kernel
    >>> from taut.structures import Scalar
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.where(np.linalg.norm(X, axis=1) > 1.2, 1.0, -1.0)
    >>> problem = Problem(Scalar(), X, y, space=through_kernel(RBF(1.0), whole=0))
    >>> result = solve(problem, FunctionalDescent(subset=30), max_iter=2, random_state=0)
    >>> result.certificate.dual
    0.0
    """

    name: ClassVar[str] = "functional_descent"
    #: What to do where the gap is not small enough: it never will be.
    advice: ClassVar[str] = (
        "functional_descent does not minimise this objective, and more passes may raise it; use 1 "
        "to 3 passes and judge the model by its errors, or solver='dual_coordinate'"
    )
    subset: int | float = 50
    schedule: str | Callable[[int], float] = "constant"
    rate: float | None = None
    factor: float = 1.0
    order: str = "permuted"
    precision: float = 0.01
    bounds: str = "auto"
    averaging: bool = True
    budget: int | None = None
    overflow: str = "merge"
    epochs: int = 2
    n_total: int | None = None
    inner: BlockAscent | None = None

    def __post_init__(self) -> None:
        self.check_subsets()
        check_choice("bounds", self.bounds, ("auto", *_LEAST, "none"))
        check_choice("overflow", self.overflow, ("merge", "remove"))
        check_flag("averaging", self.averaging)
        counts = {"budget": (self.budget, "a number of support rows"),
                  "n_total": (self.n_total, "a number of examples")}  # fmt: skip
        for name, (value, what) in counts.items():
            if value is not None and not is_count(value):
                raise InvalidData(f"{name} = {value!r}: give {what}, or None")
        if not is_count(self.epochs):
            raise InvalidData(f"epochs = {self.epochs!r}: give a whole number from 1 on")
        check_number("factor", self.factor)
        if not 0.0 < self.factor < math.inf:
            raise InvalidData(f"factor = {self.factor}: it must be positive and finite")
        check_number("precision", self.precision)
        if not 0.0 < self.precision < 1.0:
            raise InvalidData(f"precision = {self.precision}: give a number between 0 and 1")
        if not callable(self.schedule):
            check_choice("schedule", self.schedule, tuple(_SCHEDULES))
            needed = _RATES.get(self.schedule)
            if needed is None:
                return
            if self.rate is not None:
                check_number("rate", self.rate)
            rate = math.nan if self.rate is None else self.rate
            if not needed[0] < rate < needed[1]:
                raise InvalidData(
                    f"schedule = {self.schedule!r} with rate = {self.rate}: give a rate between "
                    f"{needed[0]:g} and {needed[1]:g}"
                )

    def check(self, problem: Problem) -> None:
        """Refuse bounds and budgets where they have no meaning."""
        super().check(problem)
        if self.bounds in _LEAST and not problem.data.bounds_residuals:
            raise InvalidData(
                f"bounds = {self.bounds!r} needs all labels of an example, one by one, and "
                f"{type(problem.structure).__name__} lists none: give 'none' or 'auto'"
            )
        if self.budget is not None and problem.quadratic.of_weights:
            raise InvalidData(
                f"budget = {self.budget} is a number of support rows, and linear models have none: "
                "leave it out, or give a kernel"
            )

    def rate_of(self, t: int, k: int, n: int) -> float:
        """lambda_t; infinite beyond the largest numbers, for a step of 0."""
        if callable(self.schedule):
            value = self.schedule(t)
            try:
                value = float(value)
            except (TypeError, ValueError) as error:
                raise InvalidType(
                    f"the schedule returns {value!r} for step {t}: return lambda, a number"
                ) from error
        else:
            value = _SCHEDULES[self.schedule](t, k, self.n_total or n, self.rate)
        value *= self.factor
        if not value > 0.0:
            raise InvalidData(
                f"the schedule gives lambda = {value} for step {t}: it must be positive"
            )
        return value

    def init(self, problem: Problem, rng: np.random.Generator) -> DescentState:
        """w = 0."""
        state = DescentState(problem, rng, self.averaging)
        if self.budget is not None:
            data: Any = problem.data
            merges = self.overflow == "merge"
            state.limit = SupportBudget(data.blocks.features, self.budget, merges)
        return state

    def pass_(
        self, problem: Problem, state: DescentState, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """A pass, unless there were enough: a run that is resumed at its end stays there."""
        if state.passes >= self.epochs:
            return PassReport(0.0, 0.0, 0, PassEvent.SETTLED)
        return super().pass_(problem, state, stiffness, keep_going)

    def report(
        self, problem: Problem, state: DescentState, primal: float, calls: int, over: bool
    ) -> PassReport:
        """The primal at the reference C, and no lower bound but 0."""
        state.passes += over
        event = PassEvent.INCOMPLETE if over else PassEvent.PART
        if over and state.passes >= self.epochs:
            event = PassEvent.SETTLED
        average = state.average
        candidate = None if average is None else Candidate(average)
        return PassReport(max(primal, 0.0), 0.0, calls, event, candidate)

    def violations(self, problem: Problem, state: DescentState) -> np.ndarray:
        """The largest residual margin of each example, bounded as those of steps are."""
        hinges = super().violations(problem, state)
        data: Any = problem.data
        if self.bounds == "none" or not data.bounds_residuals:
            return hinges
        if state.most is None:
            state.most = margins_at(data, state.w, np.arange(data.n_blocks))[1]
        return np.minimum(hinges, state.most)

    def step(
        self,
        problem: Problem,
        state: DescentState,
        chosen: np.ndarray,
        n: int,
        keep_going: KeepGoing,
    ) -> float:
        """Add to w what these examples ask for."""
        k, given = len(chosen), problem.sample_weight[chosen]
        rate = self.rate_of(state.step, k, n)
        data: Any = problem.data
        # Where all labels of a row are at hand, its problem needs no more than inner products.
        rows = row_problem(data, chosen) if self.inner is None and data.bounds_residuals else None
        # Weights too large to compute with are refused by what they come to.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            weight = given / (rate * k)
            if rows is not None:
                found = self._by_rows(rows, problem, state, chosen, weight, keep_going)
            else:
                found = self._by_sweeps(problem, state, chosen, weight, keep_going)
        if state.limit is not None:
            state.limit.shrink(*state.points)
        total = float(given.sum())
        state.steps.append(
            DescentStep(
                state.step, state.seen, float(given @ (found.hinges > 0.0)) / total,
                float(given @ found.hinges) / k, float(given @ found.residuals) / k, rate,
                found.square, found.gap, state.evaluations + data.evaluations,
                data.n_support(state.w),
            )
        )  # fmt: skip
        return float(given @ found.hinges)

    def _by_rows(
        self,
        rows: RowProblem,
        problem: Problem,
        state: DescentState,
        chosen: np.ndarray,
        weight: np.ndarray,
        keep_going: KeepGoing,
    ) -> _Found:
        """Solve the problem of a step on the matrix of its rows."""
        losses, most = margins_at(problem.data, state.w, chosen)
        hinges = np.maximum(losses.max(axis=1), 0.0)
        if self.bounds != "none":
            losses = np.clip(losses, _LEAST.get(self.bounds, -math.inf), most[:, None])
        solution = rows.solve(losses, weight, self.precision, draw_seed(state.rng), keep_going)
        _check_step(state.step, solution.square, solution.gap)
        state.add(rows.rows, solution.coefficients, 2.0 / (state.step + 1.0))
        residuals = np.maximum(losses.max(axis=1), 0.0)
        return _Found(hinges, residuals, solution.square, solution.gap)

    def _by_sweeps(
        self,
        problem: Problem,
        state: DescentState,
        chosen: np.ndarray,
        weight: np.ndarray,
        keep_going: KeepGoing,
    ) -> _Found:
        """Solve it by sweeps over its blocks, as far as `precision` asks, or until told to stop."""
        whole: Any = problem.data
        data: Any = problem.some(chosen)
        local = whole.local(data, state.w)
        hinges = data.hinges(local)
        if self.bounds != "none" and data.bounds_residuals:
            data = whole.with_residuals(data, local, _LEAST.get(self.bounds, -math.inf))
            local = np.zeros_like(local)
        quadratic, begin = data.quadratic, local.copy()
        part = (self.inner or DualCoordinate()).part_of(data, weight, 1, local.dtype)
        residuals = np.maximum(data.hinges(local), 0.0)
        U = np.zeros(data.size)
        for number in range(1, _SWEEPS + 1):
            reply = part.sweep(local, draw_seed(state.rng), state.rng, 1.0, keep_going)
            last = number == _SWEEPS or not keep_going()
            step = local - begin
            square = quadratic.dot(step, step)
            # By what visits added up: sums afresh are worth their time only near the end.
            dual = part.loss_sum - quadratic.dot(step, begin) - 0.5 * square
            if reply.gap > 2.0 * self.precision * max(dual, 0.0) and not last:
                continue
            # What visits added to `local` has drifted by now, and bounds are those of one point.
            U[:] = 0.0
            losses = part.sum_up(U)
            data.settle(U)
            local[:] = begin + U
            square = quadratic.dot(U, U)
            dual = losses - quadratic.dot(U, begin) - 0.5 * square
            primal = 0.5 * square + float(weight @ np.maximum(data.hinges(local), 0.0))
            if primal - dual <= self.precision * max(dual, 0.0) or last:
                break
        _check_step(state.step, square, primal - dual)
        state.absorb(data, U, 2.0 / (state.step + 1.0))
        return _Found(hinges, residuals, square, max(primal - dual, 0.0))


def _check_step(t: int, square: float, gap: float) -> None:
    """Refuse a step that left the numbers, before it is taken."""
    if not (math.isfinite(square) and math.isfinite(gap) and square <= LARGEST):
        raise InvalidData(
            f"step {t} has |u|^2 = {square:g} and a gap of {gap:g}: numbers became too large to "
            "compute with; give a larger lambda (schedule, factor), or scale the features"
        )


def _geometric(t: int, k: int, n: int, rate: float) -> float:
    return _exponential(-t * math.log(rate))


def _power(t: int, k: int, n: int, rate: float) -> float:
    return _exponential(rate * math.log(t))


def _exponential(x: float) -> float:
    return math.exp(x) if x < _LARGEST_EXPONENT else math.inf


_LARGEST_EXPONENT = 709.0
_SCHEDULES: dict[str, Callable[..., float]] = {
    "constant": lambda t, k, n, rate: 1.0 / k,
    "linear": lambda t, k, n, rate: t / n,
    "geometric": _geometric,
    "power": _power,
}
#: The least residual margin, where margins are bounded.
_LEAST = {"above": -math.inf, "both": 0.0}
_RATES = {"geometric": (0.0, 1.0), "power": (0.0, math.inf)}
