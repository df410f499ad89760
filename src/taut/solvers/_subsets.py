"""Solvers that take one small subset of the examples after the other.

All examples of a subset are looked at, at one w, and then w moves. A pass has as many examples as
there are.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
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
                f"{self.name} has no prior and no sign constraints: its steps know of none; leave "
                "them out, or use solver='dual_coordinate'"
            )

    def pass_(
        self, problem: Problem, state: State, stiffness: float, keep_going: KeepGoing
    ) -> PassReport:
        """As many examples as there are, a subset after the other."""
        weighted = np.flatnonzero(problem.block_weight > 0.0)
        if state.done == 0:
            state.seed = int(draw_seed(state.rng))
        began = time.perf_counter()
        hinges, calls = 0.0, 0
        for chosen in self._chosen(problem, state, weighted):
            state.step += 1
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
        """Look at some of n examples, move w, and count them; return their summed hinges.

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


def check_subset(subset: int | float) -> None:
    """Refuse what is neither a number of examples nor a share of them."""
    whole = isinstance(subset, int | np.integer) and subset >= 1
    if not whole and not 0.0 < subset <= 1.0:
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
