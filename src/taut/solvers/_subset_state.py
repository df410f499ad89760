"""Where a solver stands that takes one subset of the examples after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taut.compiled.lanes import aligned_copy, aligned_zeros
from taut.engines.base import DualState
from taut.problem import Problem
from taut.storage.stored import Stored, check


class BestDual:
    """The highest feasible dual point so far, by its summed losses and its dual vector."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.value = self.loss = 0.0  # of a = 0
        self.U = aligned_zeros(problem.data.size, np.float64)

    def offer(self, value: float, loss: float, write: Callable[[np.ndarray], object]) -> None:
        """Take a point of this value if it is higher; `write` writes its dual vector."""
        if value > self.value:
            self.value, self.loss = value, loss
            write(self.U)

    def vector(self, U: np.ndarray) -> None:
        """The dual vector, with all that bounds are read off."""
        U[:] = self.U
        self.problem.data.settle(U)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything, as named arrays."""
        return {"best_dual": np.array([self.value, self.loss]), "best_U": self.U}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Have what `arrays` say."""
        check(
            arrays,
            {"best_dual": Stored("f8", (2,), 0.0), "best_U": Stored("f8", self.U.shape)},
        )
        self.value, self.loss = arrays["best_dual"].tolist()
        self.U[:] = arrays["best_U"]


class SubsetState(DualState):
    """A point that steps move by rules of their own, and its average."""

    follows = False
    #: Attributes that are whole numbers, and saved.
    counts: tuple[str, ...] = ("step", "seen", "done", "seed")

    def __init__(self, problem: Problem, rng: np.random.Generator, averaging: bool) -> None:
        self.problem = problem
        self.rng = rng
        self.w = aligned_zeros(problem.data.size, np.float64)
        self.average = aligned_zeros(len(self.w), np.float64) if averaging else None
        self.step = self.seen = 0
        # `seed` makes the order of this pass; `done` counts its examples that are done.
        self.seed = self.done = 0

    def take_average(self, share: float) -> None:
        """Have w after this step in the average, with this share of it."""
        if self.average is not None:
            self.average += share * (self.w - self.average)

    @property
    def points(self) -> tuple[np.ndarray, ...]:
        """W, and the average if there is one."""
        return (self.w,) if self.average is None else (self.w, self.average)

    @property
    def outcome(self):
        """The average, if there is one."""
        return self.w if self.average is None else self.average

    @property
    def loss_sum(self):
        """Of the only dual point that is known to be feasible, a = 0."""
        return 0.0

    def dual_value(self, conjugate):
        """0, which no objective is below."""
        return 0.0

    def dual_vector(self, U):
        """That of a = 0."""
        U[:] = 0.0

    def curvature(self):
        """Not known, and of no use: there is no centre."""
        return 0.0

    def arrays(self):
        """Everything, as named arrays."""
        counts = np.array([getattr(self, name) for name in self.counts], dtype=np.int64)
        average = {} if self.average is None else {"average": self.average}
        return {"w": self.w, "counts": counts} | average

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        point = Stored("f8", self.w.shape)
        check(arrays, {"w": point, "counts": Stored("i8", (len(self.counts),), 0)})
        self.w[:] = arrays["w"]
        if self.average is not None:
            check(arrays, {"average": point})
            self.average = aligned_copy(arrays["average"])
        for name, count in zip(self.counts, arrays["counts"].tolist(), strict=True):
            setattr(self, name, count)
