"""Blocks of a kernel problem in working sets: some at a time, with the matrix of their rows.

Visits move w by rows of the kernel matrix, which cost as much as the data are many. So a round
looks at all blocks by potentials that are kept up to date, takes those with the largest gaps into a
part of its own, whose matrix is small, sweeps over it until its gap is small, and then brings the
potentials of all rows up to date by the rows that moved. `taut.engines.paired` has what blocks of
one row and one candidate have instead of sweeps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.compiled.lanes import aligned_zeros
from taut.engines.naming import Arrays
from taut.engines.part import Ascent, Part, Reply
from taut.engines.serial import Serial
from taut.engines.turns import KeepGoing, draw_seed
from taut.errors import InvalidData
from taut.problem import Problem
from taut.spaces.kernel import KernelFeatures
from taut.storage.stored import Stored, check

_FIRST = 512  # blocks of the first working set
_MOST = 2048  # of any
_SWEEPS = 60  # over a working set, at most
_LOCAL = 0.1  # of a working set's gap, at which it is left
_GOAL = 0.3  # of the gap that is wanted of all blocks, at which any working set is left
_CHANCE = 0.4  # of the objective: while the gap is larger, blocks are drawn at random
_NEGLIGIBLE = 0.02  # of the mean gap that is wanted: blocks with less are satisfied
_LEAST = 0.2  # of the gap that is wanted, that blocks are given if the centre takes more


class WorkingSets(Serial):
    """Dual variables of all blocks, and sweeps over those that matter most."""

    part: Any

    def __init__(self, problem: Problem, ascent: Ascent, rng: np.random.Generator) -> None:
        super().__init__(problem, ascent, rng)
        self.features: KernelFeatures = self.part.duals.data.blocks.features
        super().widen()  # sums of terms as large as C cancel
        self.n_working = min(_FIRST, problem.n_blocks)
        self.weighted = np.flatnonzero(problem.block_weight > 0.0)

    def sweep(self, stiffness: float, keep_going: KeepGoing) -> Reply:
        """A look at all blocks, and a round unless they are good enough."""
        gap = np.empty(self.problem.n_blocks)
        self.part.duals.look(self.w, gap)
        gap = np.maximum(gap, 0.0)
        total = float(gap[self.weighted].sum())
        primal = self.primal or total  # nothing is known of it before the first pass
        goal = max(self.tol * primal - self.excess, _LEAST * self.tol * primal)
        calls = len(self.weighted)
        if total <= goal:
            return Reply(total, 0.0, calls, True, True)
        chosen = self._chosen(gap, goal, total > _CHANCE * primal)
        enough = max(_LOCAL * float(gap[chosen].sum()), _GOAL * goal)
        movement = self._round(chosen, enough, stiffness, keep_going)
        self.n_working = min(2 * self.n_working, _MOST, self.problem.n_blocks)
        return Reply(total, movement, calls, True, False)

    def _chosen(self, gap: np.ndarray, goal: float, by_chance: bool) -> np.ndarray:
        """The blocks of the next working set.

        Where w is still far from the optimum, the worst ones would draw it to themselves alone.
        """
        own = gap[self.weighted]
        violated = self.weighted[own > _NEGLIGIBLE * goal / len(own)]
        if len(violated) > self.n_working:
            if by_chance:
                violated = self.rng.choice(violated, self.n_working, replace=False)
            else:
                worst = np.argpartition(-gap[violated], self.n_working)
                violated = violated[worst[: self.n_working]]
        return np.sort(violated)

    def _round(
        self, chosen: np.ndarray, enough: float, stiffness: float, keep_going: KeepGoing
    ) -> float:
        """Sweep over some blocks, and move w; return the summed squared lengths of moves."""
        part, features, w = self._working_part(chosen)
        everything, before, movement = np.arange(len(chosen)), part.loss_sum, 0.0
        for _ in range(_SWEEPS):
            reply = part.sweep(w, draw_seed(self.rng), self.rng, stiffness, keep_going)
            movement += reply.movement
            if reply.gap <= enough or not keep_going():
                break
        self.part.put(chosen, part.take(everything))
        self.part.loss_sum += part.duals.loss_sum - before
        _potentials, moves, tail = features.shares(w)
        potentials, coefficients, own_tail = self.features.shares(self.w)
        moved = np.flatnonzero(moves.any(axis=0))
        rows, amounts = features.members[moved], moves[:, moved].astype(np.float64)
        np.add.at(coefficients.T, rows, amounts.T)
        own_tail[:] = tail
        self.features.cache.add(rows, amounts, potentials, np.ones(len(rows), dtype=bool))
        return movement

    def _working_part(self, chosen: np.ndarray) -> tuple[Part, KernelFeatures, np.ndarray]:
        """Some blocks with their dual variables, and w as they see it, without coefficients."""
        data: Any = self.problem.data.take(chosen)
        if data is None:
            raise InvalidData(
                f"{type(self.problem.structure).__name__} cannot take some of its blocks, as "
                "working sets of a kernel do: write `take`, or give through_kernel `whole`, at "
                f"least {self.features.n_rows}, to have the whole matrix"
            )
        features: KernelFeatures = data.blocks.features
        part = self.ascent.part_of(
            data, self.problem.block_weight[chosen], self.problem.n_jobs, np.dtype(features.dtype)
        )
        part.put(np.arange(len(chosen)), self.part.take(chosen))
        part.loss_sum = part.duals.loss_sum
        w = aligned_zeros(features.size, features.dtype)
        potentials, _moves, tail = features.shares(w)
        all_potentials, _coefficients, own_tail = self.features.shares(self.w)
        potentials[:] = all_potentials[:, features.members]
        tail[:] = own_tail
        return part, features, w

    def widen(self):
        """Points are of float64 already; working sets are then, too."""
        self.features.widen()

    def arrays(self) -> Arrays:
        """Everything, as named arrays."""
        return super().arrays() | {"n_working": np.array([self.n_working])}

    def restore(self, arrays: Arrays) -> None:
        """Go on exactly where `arrays` were taken."""
        check(arrays, {"n_working": Stored("i8", (1,), 1, self.problem.n_blocks)})
        super().restore(arrays)
        self.n_working = int(arrays["n_working"][0])
