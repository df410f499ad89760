"""Blocks of a kernel problem in working sets: some at a time, with the matrix of their rows.

Visits move w by rows of the kernel matrix, which cost as much as the data are many. So a round
looks at all blocks by potentials that are kept up to date, takes those with the largest gaps into a
part of its own, whose matrix is small, sweeps over it until its gap is small, and then brings the
potentials of all rows up to date by the rows that moved. `taut.engines.paired` has what blocks of
one row and one candidate have instead of sweeps.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from taut.engines.naming import Arrays
from taut.engines.part import Ascent, Part, Reply
from taut.engines.serial import Serial
from taut.engines.turns import KeepGoing, draw_seed
from taut.problem import Problem
from taut.spaces.kernel import KernelFeatures
from taut.storage.stored import Stored, check

_FIRST = 512  # blocks of the first working set
_MOST = 4096  # of any
_SWEEPS = 60  # over a working set, at most
_LOCAL = 0.1  # of a working set's gap, at which it is left
_NEAR = 3.0  # times the gap that is wanted: a working set that would be left there is the last
_GOAL = 0.5  # of the gap that is wanted of all blocks, at which any working set is left
_CHANCE = 0.4  # of the objective: while the gap is larger, blocks are drawn at random
_NEGLIGIBLE = 0.02  # of the mean gap that is wanted: blocks with less are satisfied
_WEAKEST = 0.1  # strength of the moving centre, below which it is switched off


class RowSets(Serial):
    """Dual variables of all blocks of a kernel problem, and rounds on those that matter most."""

    part: Any
    steady = True  # the centre moves within working sets
    first_centre: ClassVar[float]  # its strength there

    def __init__(self, problem: Problem, ascent: Ascent, rng: np.random.Generator) -> None:
        super().__init__(problem, ascent, rng)
        super().widen()  # sums of terms as large as C cancel
        self.features: KernelFeatures = self.part.duals.data.blocks.features
        self.centre = self.first_centre
        self.dual = -np.inf  # of the last round

    def sweep(self, stiffness: float, keep_going: KeepGoing) -> Reply:
        """A look at all blocks, and a round unless they are good enough."""
        with self.features.turns:
            return self._look_and_move(keep_going)

    @abstractmethod
    def _look_and_move(self, keep_going: KeepGoing) -> Reply:
        """The same, while nobody else has the matrix."""

    def weaken(self) -> None:
        """Halve the strength of the centre, until it is switched off."""
        self.centre = self.centre / 2.0 if self.centre > _WEAKEST else 0.0

    @property
    def precise(self) -> bool:
        """Whether rows have the precision of points."""
        return self.features.rows is self.features.exact_rows

    def widen(self):
        """Points are of float64 already; rows and working sets are then, too."""
        self.features.widen()

    def arrays(self) -> Arrays:
        """Everything, as named arrays."""
        return super().arrays() | {"steadying": np.array([self.centre, self.dual])}

    def restore(self, arrays: Arrays) -> None:
        """Go on exactly where `arrays` were taken."""
        check(arrays, {"steadying": Stored("f8", (2,), infinite=True)})
        super().restore(arrays)
        # Nobody knows what stored potentials went through.
        self.features.cache.drifts = np.full(1, np.inf)
        self.centre, self.dual = arrays["steadying"].tolist()


class WorkingSets(RowSets):
    """Dual variables of all blocks, and sweeps over those that matter most."""

    first_centre = 2.0

    def __init__(self, problem: Problem, ascent: Ascent, rng: np.random.Generator) -> None:
        super().__init__(problem, ascent, rng)
        self.n_working = min(_FIRST, problem.n_blocks)
        self.weighted = np.flatnonzero(problem.block_weight > 0.0)

    def _look_and_move(self, keep_going: KeepGoing) -> Reply:
        gap = np.empty(self.problem.n_blocks)
        self.part.duals.look(self.w, gap)
        gap = np.maximum(gap, 0.0)
        total = float(gap[self.weighted].sum())
        dual = self.part.loss_sum - self.problem.quadratic.conjugate(self.w)
        primal, calls = dual + total, len(self.weighted)
        goal = self.tol * primal
        if total <= goal:
            self._vouch()
            return Reply(total, 0.0, calls, True, True)
        if dual < self.dual:  # under a centre it may fall, but not for long
            self.weaken()
        self.dual = dual
        early = total > _CHANCE * primal
        chosen = self.features.at_hand(self._chosen(gap, goal, early))
        enough = _LOCAL * float(gap[chosen].sum())
        if enough < _NEAR * goal:
            enough = _GOAL * goal
        # While w still swings, a centre only delays it.
        self._round(chosen, enough, 0.0 if early else self.centre, keep_going)
        self.n_working = min(2 * self.n_working, _MOST, self.problem.n_blocks)
        return Reply(total, 0.0, calls, True, False)

    def _vouch(self) -> None:
        """Tell which potentials need not be computed afresh where the structure knows."""
        potentials, coefficients, _tail = self.features.shares(self.w)
        slack = self.part.duals.data.slack(potentials)
        if slack is not None:
            unused = ~coefficients.any(axis=0)
            self.features.vouch(self.w, unused & (slack > self.features.cache.drift))

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
        sizes = np.diff(self.features.places[violated]).ravel()
        if sizes.sum() > self.features.most_rows:
            # As many as there is memory for, at least one; chance has chosen, or the gap decides.
            order = np.arange(len(violated)) if by_chance else np.argsort(-gap[violated])
            fits = np.cumsum(sizes[order]) <= self.features.most_rows
            violated = violated[order[: max(int(fits.sum()), 1)]]
        return np.sort(violated)

    def _round(
        self, chosen: np.ndarray, enough: float, strength: float, keep_going: KeepGoing
    ) -> None:
        """Sweep over some blocks, and move w."""
        part, features, w = self._working_part(chosen)
        everything, before = np.arange(len(chosen)), part.loss_sum
        quadratic, centre = features.quadratic(None), w.copy()
        averages = strength > 0.0 and part.duals.averages
        mean = _Mean(self._part_of(part.duals.data, chosen)) if averages else None
        for _ in range(_SWEEPS):
            reply = part.sweep(w, draw_seed(self.rng), self.rng, 1.0 + strength, keep_going)
            point = w + strength * (w - centre)  # of the dual variables
            if reply.gap <= enough or not keep_going():
                break
            if mean is not None and mean.gap_with(part, point) <= enough:
                part, point = mean.part, mean.point
                break
            quadratic.move(w, centre, strength, strength)
        self.part.put(chosen, part.take(everything))
        U = np.zeros(features.size)
        part.duals.sum_up(U)
        self.part.loss_sum += part.duals.loss_sum - before
        self.features.shares(self.w)[2][:] = features.shares(point)[2]
        # The same numbers that all dual variables are summed up to: bounds then need one point.
        self.features.set_coefficients(features.members, features.shares(U)[1], self.w)

    def _working_part(self, chosen: np.ndarray) -> tuple[Part, KernelFeatures, np.ndarray]:
        """Some blocks with their dual variables, and w as they see it, without coefficients."""
        data: Any = self.problem.some(chosen)
        features: KernelFeatures = data.blocks.features
        part = self._part_of(data, chosen)
        part.put(np.arange(len(chosen)), self.part.take(chosen))
        part.loss_sum = part.duals.loss_sum
        return part, features, self.features.local(features, self.w)

    def _part_of(self, data: Any, chosen: np.ndarray) -> Part:
        # One thread: visits of a small matrix are too short to share. Rows are computed by all.
        dtype = np.dtype(data.blocks.features.dtype)
        return self.ascent.part_of(data, self.problem.block_weight[chosen], 1, dtype)

    def arrays(self) -> Arrays:
        """Everything, as named arrays."""
        own = {"n_working": np.array([self.n_working]), "members": self.features.matrix.members}
        return super().arrays() | own

    def restore(self, arrays: Arrays) -> None:
        """Go on exactly where `arrays` were taken."""
        check(
            arrays,
            {
                "n_working": Stored("i8", (1,), 1, self.problem.n_blocks),
                "members": Stored("i8", arrays["members"].shape, 0, self.features.n_rows - 1),
            },
        )
        super().restore(arrays)
        self.n_working = int(arrays["n_working"][0])
        if arrays["members"].size:
            self.features.matrix.hold(arrays["members"].ravel())


class _Mean:
    """The mean of the points after each sweep, of which the k-th counts as k^2 does.

    Under a moving centre points swing around the optimum, and their mean is nearer to it.
    """

    def __init__(self, part: Part) -> None:
        self.part = part
        self.point = np.zeros(0)
        self._number = 0
        self._gap = np.empty(len(part.gap))

    def gap_with(self, part: Part, point: np.ndarray) -> float:
        """The gap of the mean, with what one more sweep left."""
        self._number += 1
        share = 3.0 / (self._number + 2.0)
        self.part.duals.approach(part.duals, share)
        if self._number == 1:
            self.point = point.copy()
        else:
            self.point += share * (point - self.point)
        self.part.duals.look(self.point, self._gap)
        return float(self._gap.sum())
