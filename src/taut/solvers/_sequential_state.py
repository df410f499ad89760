"""The state of solvers that keep the sum of their visits (`taut.solvers._sequential`)."""

from __future__ import annotations

import math
from collections.abc import Generator
from typing import NamedTuple

import numpy as np

from taut.binding import Data
from taut.compiled.jit import kernel
from taut.compiled.lanes import aligned_zeros
from taut.engines.base import DualState
from taut.engines.turns import Pace
from taut.errors import InvalidData
from taut.problem import Problem
from taut.solvers._visitors import LOSS, Visitor
from taut.storage.stored import Stored, check, require

_ROUNDING = 1e-9
_COUNTS = ("visits", "first", "passes", "group", "seed", "number", "done")

PartData = tuple[Data, np.ndarray]


@kernel
def _subtract(vector, other, factor):
    for j in range(vector.shape[0]):
        vector[j] -= factor * other[j]


class Turn(NamedTuple):
    """The blocks of a part that are to be visited, in order."""

    visitor: Visitor
    order: np.ndarray
    weight: np.ndarray


class SequentialState(DualState):
    """The sum of all visits, through w, and where in the data the next one is."""

    follows = False

    def __init__(self, problem: Problem, w: np.ndarray, rng: np.random.Generator) -> None:
        self.problem = problem
        self.w = w
        self.rng = rng
        # The sum of all moves of S, each times the number of visits before it.
        self.late = aligned_zeros(len(w), np.float64)
        self.average = aligned_zeros(len(w), np.float64)
        self.averaging = True
        self.scratch = np.zeros(0)
        # L; C_i times the hinges as seen in this pass; how many of its visits moved w.
        self.sums = np.zeros(3)
        self.scale = 1.0  # s: w is what the prior has and this times S
        self.share = 0.0  # sigma, of the dual point that was last appraised
        self.dual = 0.0
        self.n = 0  # blocks with weight; 0 while it is not known
        self.radius = math.inf  # of S in the scale of w
        self.visits = self.first = 0  # so far, and before this pass
        # How often each block may have been visited: passes begun, and 1 where none comes again.
        self.passes = 0
        self.group = 0  # the count of visits up to which s stands still
        # Of the order of this pass; parts that it is through with; visits in the part at hand.
        self.seed = self.number = self.done = 0
        self.ended = True  # whether a pass is to begin
        self.turn: Turn | None = None
        self.reader: Generator[PartData] | None = None
        self.pace = Pace()

    # What the loop asks for

    @property
    def loss_sum(self) -> float:
        """sigma L."""
        return float(self.share * self.sums[LOSS])

    @property
    def outcome(self):
        """The average of w, if there is one: the hinges that visits saw are those of its points."""
        return self.average if self.visits and self.averaging else self.w

    def dual_vector(self, U):
        """sigma S."""
        self.problem.quadratic.dual_vector(self.w, self.share / self.scale, U)

    def dual_value(self, conjugate):
        """D, as it was last appraised."""
        return self.dual

    def curvature(self):
        """Not known, and of no use: there is no centre."""
        return 0.0

    def close(self):
        """Stop reading. A part that does not come again is kept until it is through."""
        reader, self.reader = self.reader, None
        if reader is not None:
            reader.close()
        if not self.problem.goes_on:
            self.turn = None

    # The dual point

    def appraise(self) -> None:
        """The best sigma that keeps the dual point feasible, and its dual value."""
        limit = 1.0 / (self.scale * max(self.passes, 1))  # of sigma / s, which multiplies w
        loss = self.scale * self.sums[LOSS]
        factor, self.dual = self.problem.quadratic.highest_along(self.w, loss, limit)
        self.share = factor * self.scale

    def shrink(self, factor: float) -> None:
        """Multiply the weights of all visits so far."""
        self.problem.quadratic.rescale(self.w, factor)
        self.late *= factor
        self.sums[LOSS] *= factor

    def rescale(self, scale: float) -> None:
        """Let w have another scale."""
        if scale != self.scale:
            self.problem.quadratic.rescale(self.w, scale / self.scale)
            self.scale = scale

    def averaged(self, factor: float) -> np.ndarray:
        """shift + factor times the sum of S after each visit; in memory that is used again."""
        self.average[:] = self.w
        self.problem.quadratic.rescale(self.average, factor * self.visits / self.scale)
        _subtract(self.average, self.late, factor)
        return self.average

    # Saving

    def arrays(self):
        """Everything, as named arrays."""
        return {
            "w": self.w,
            "late": self.late,
            "scratch": self.scratch,
            "sums": self.sums,
            "scales": np.array([self.scale, self.share, self.dual, self.problem.C]),
            "counts": np.array([self.ended, *(getattr(self, name) for name in _COUNTS)]),
        }

    def restore(self, arrays):
        """Go on exactly where `arrays` were taken."""
        self._check(arrays)
        for name in ("w", "late", "sums"):
            getattr(self, name)[:] = arrays[name]
        if len(arrays["scratch"]) == len(self.scratch):
            self.scratch[:] = arrays["scratch"]
        self.scale, self.share, self.dual, _ = arrays["scales"].tolist()
        ended, *counts = arrays["counts"].tolist()
        self.ended = bool(ended)
        for name, count in zip(_COUNTS, counts, strict=True):
            setattr(self, name, count)

    def _check(self, arrays):
        """Refuse what no visits can have left: each gives its block at most C_i in a pass."""
        size = Stored("f8", self.w.shape)
        check(
            arrays,
            {
                "w": size,
                "late": size,
                "scratch": Stored("f8", (None,)),
                "sums": Stored("f8", (3,), 0.0),
                "scales": Stored("f8", (4,)),
                "counts": Stored("i8", (1 + len(_COUNTS),), 0),
            },
        )
        scale, share, _, C = arrays["scales"].tolist()
        ended, *rest = arrays["counts"].tolist()
        counts = dict(zip(_COUNTS, rest))
        visits, group, passes = (counts[name] for name in ("visits", "group", "passes"))
        require(ended in (0, 1) and counts["first"] <= visits, "visits are miscounted")
        require(C > 0.0 and scale > 0.0, "scales are not positive")
        require(0.0 <= share * max(passes, 1) <= 1.0 + _ROUNDING, "the dual point is infeasible")
        n = self.n or self.problem.n_blocks
        require(self.problem.repeatable is False or visits <= passes * n, "passes are miscounted")
        fades = self.n and group
        faded = fades and scale == self.n / group
        require(scale == 1.0 or faded, "the scale does not follow from the visits")

    def hot_start(self, arrays, same_weights):
        """All visits of another solve of the same blocks, with weights in the same proportions."""
        if "counts" not in arrays or "late" not in arrays:
            raise InvalidData(
                "the start was made by a solver that keeps dual variables of its blocks: start "
                "from a solve with a solver of this kind, or from nothing (warm_start=False)"
            )
        self.restore(arrays)  # first: it refuses arrays that are none
        C = float(arrays["scales"][3])
        same_proportions = self.problem.with_factor(C).weight_digest
        if arrays["weight_digest"].tobytes() != same_proportions:
            raise InvalidData(
                "the start has sample weights in other proportions, and it is not known what each "
                "block has got: start from a solve with the same sample weights and any C, or from "
                "nothing (warm_start=False)"
            )
        self.group = self.visits  # another rule for s may hold from here on
        if not same_weights:
            self.shrink(self.problem.C / C)
        self.appraise()
