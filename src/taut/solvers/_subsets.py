"""Solvers that take one small subset of the examples after the other.

All examples of a subset are looked at, at one w, and then w moves. A pass has as many examples as
there are.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from taut.checks import check_choice
from taut.compiled.lanes import aligned_zeros
from taut.engines.turns import KeepGoing, draw_seed
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers._subset_state import SubsetState
from taut.solvers.base import PassReport, Solver

_SECONDS = 1.0  # of steps without a report

State = TypeVar("State", bound=SubsetState)


class Subsets(Solver[State], Generic[State]):
    """What solvers share that step by subsets."""

    takes: ClassVar[tuple[str, ...]] = ("whole", "rows")

    #: How many examples, or their share of all.
    subset: int | float = 50
    #: All examples in random order, a subset after the other ("permuted"); in the order in which
    #: they are ("window"); each subset drawn anew, without replacement ("uniform"); or with odds
    #: proportional to the largest violations, which looks at all examples ("residual").
    order: str = "permuted"

    def check_subsets(self) -> None:
        """Refuse settings that no subsets go by."""
        check_choice("order", self.order, ("permuted", "window", "uniform", "residual"))
        check_subset(self.subset)

    def check(self, problem: Problem) -> None:
        """Refuse priors as well: steps know of none."""
        super().check(problem)
        if not problem.data.prior.trivial or problem.data.prior.mean.any():
            raise InvalidData(
                f"{self.name} has no prior and no sign constraints, nor other bounds that a "
                "structure may need: its steps know of none; leave them out, or use "
                "solver='dual_coordinate'"
            )

    def pass_(
        self, problem: Problem, state: State, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """As many examples as there are, a subset after the other."""
        with turns_of(problem):
            return self._pass(problem, state, keep_going)

    def _pass(self, problem: Problem, state: State, keep_going: KeepGoing) -> PassReport:
        weighted = np.flatnonzero(problem.block_weight > 0.0)
        if state.done == 0:
            state.seed = int(draw_seed(state.rng))
        began = time.perf_counter()
        hinges, calls = 0.0, 0
        for chosen in self._chosen(problem, state, weighted):
            state.step += 1
            state.seen += len(chosen)
            hinges += self.step(problem, state, chosen, len(weighted), keep_going)
            calls += len(chosen)
            if not keep_going() or time.perf_counter() - began > _SECONDS:
                break
        over = state.done >= len(weighted)
        if over:
            state.done = 0
        mean = hinges / max(float(problem.sample_weight[weighted].mean()) * calls, 1e-300)
        primal = problem.quadratic.value(state.w) + mean * float(problem.block_weight.sum())
        return self.report(problem, state, primal, calls, over)

    @abstractmethod
    def step(
        self,
        problem: Problem,
        state: State,
        chosen: np.ndarray,
        n: int,
        keep_going: KeepGoing,
    ) -> float:
        """Look at some of n examples, and move w; return their summed hinges.

        These are at the w before, each times the example's weight.
        """

    @abstractmethod
    def report(
        self, problem: Problem, state: State, primal: float, calls: int, over: bool
    ) -> PassReport:
        """What a pass came to, or a part of one; `primal` is what its hinges tell."""

    def _chosen(self, problem: Problem, state: State, weighted: np.ndarray) -> Iterator[np.ndarray]:
        """The subsets of this pass that are still to come."""
        n, k = len(weighted), size_of(self.subset, len(weighted))
        order = weighted
        if self.order == "permuted":
            order = np.random.default_rng(state.seed).permutation(weighted)
        while state.done < n:
            rng = np.random.default_rng([state.seed, state.done])
            size = min(k, n - state.done)
            if self.order in ("permuted", "window"):
                chosen = order[state.done : state.done + size]
            elif self.order == "uniform":
                chosen = rng.choice(weighted, size, replace=False)
            else:
                hinges = problem.data.hinges(state.w, problem.n_jobs)[weighted]
                chosen = weighted[drawn_by(hinges, size, rng)]
            state.done += size
            yield np.sort(chosen)


def turns_of(problem: Problem) -> AbstractContextManager:
    """What two solves at once take turns by, where the matrix of a kernel is one for both."""
    features = getattr(getattr(problem.data, "blocks", None), "features", None)
    return getattr(features, "turns", nullcontext())


def is_count(value: Any) -> bool:
    """Whether something is a whole number from 1 on; True and False are none."""
    return type(value) is not bool and isinstance(value, int | np.integer) and bool(value >= 1)


def check_subset(subset: int | float) -> None:
    """Refuse what is neither a number of examples nor a share of them."""
    share = isinstance(subset, float | np.floating) and 0.0 < subset <= 1.0
    if not is_count(subset) and not share:
        raise InvalidData(
            f"subset = {subset!r}: give a number of examples, or a share between 0 and 1"
        )


def size_of(subset: int | float, n: int) -> int:
    """How many of n examples a subset has."""
    if isinstance(subset, int | np.integer):
        return min(int(subset), n)
    return max(round(subset * n), 1)


def drawn_by(hinges: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Places drawn with odds proportional to positive hinges, without replacement.

    Where too few are positive, these, and any others.
    """
    odds = np.maximum(hinges, 0.0)
    violating = np.flatnonzero(odds)
    if len(violating) <= size:
        others = np.flatnonzero(odds <= 0.0)
        return np.concatenate([violating, rng.choice(others, size - len(violating), replace=False)])
    return rng.choice(len(odds), size, replace=False, p=odds / odds.sum())


def worst_planes(
    problem: Problem, w: np.ndarray, chosen: np.ndarray, weight: np.ndarray, psi: np.ndarray
) -> tuple[float, float]:
    """Add the worst planes at w of some examples to psi, times their weights.

    Returns their summed losses and hinges, with the same weights.
    """
    part: Any = problem.some(chosen)
    local = problem.data.local(part, w)
    own, sums = aligned_zeros(len(local), local.dtype), np.zeros(2)
    part.add_worst(local, weight, 1, 0, len(chosen), own, sums)
    problem.data.absorb(part, own, psi)
    return float(sums[0]), float(sums[1])
