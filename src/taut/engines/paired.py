"""Working sets of blocks that have one row and one candidate each, as in binary classification.

A round looks at all blocks, takes those that gain most and those between their bounds, and moves
pairs of their dual variables on the matrix of their rows (`taut.duals.pair_steps`). Then it brings
the potentials of all rows up to date by the rows that moved.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.duals.pair_steps import pair_steps_in
from taut.engines.naming import Arrays
from taut.engines.part import Ascent, Reply
from taut.engines.turns import KeepGoing
from taut.engines.working import RowSets
from taut.problem import Problem
from taut.spaces.kernel_rows import WorkingMatrix
from taut.storage.stored import Stored, check

_FIRST = 512  # blocks that are added to the first working set
_MOST = 1536  # to any, or
_SHARE = 0.1  # of all blocks, whichever is more
_FREE = 8192  # blocks between their bounds that are in each
_LOCAL = 0.1  # of a working set's gap, at which it is left
_GOAL = 0.3  # of the gap that is wanted of all blocks, at which any working set is left
_CHANCE = 0.4  # of the objective: while the gap is larger, blocks are drawn at random
_NEGLIGIBLE = 0.02  # of the mean gap that is wanted: blocks with less are satisfied
_ROUNDING = 1e-6  # of a block's weight, or of the largest dual variable, that counts as a bound
_STEPS = 100  # for each block of a working set, at most
_TURN = 2000  # steps between two questions whether to go on


class PairedSets(RowSets):
    """Dual variables of all blocks, and pair steps among those that matter most."""

    first_centre = 1.0

    def __init__(self, problem: Problem, ascent: Ascent, rng: np.random.Generator) -> None:
        super().__init__(problem, ascent, rng)
        duals: Any = self.part.duals
        signed: Any = duals.data.signed_rows
        self.signs: np.ndarray = signed[0]
        self.losses: np.ndarray = signed[1]
        self.alpha = duals.alpha[:, 0]
        # Rows have length 1 where steps are made; one without features cannot move w.
        lengths = np.sqrt(self.features.norms)
        self.lengths = np.where(lengths > 0.0, lengths, 1.0)
        self.movable = (lengths > 0.0) & (problem.block_weight > 0.0)
        self.matrix = self._new_matrix()
        most = max(_MOST, int(_SHARE * problem.n_blocks))
        self.most = min(most, self.matrix.most // 2, problem.n_blocks)
        self.n_added = min(_FIRST, self.most)
        still = np.flatnonzero((lengths == 0.0) & (self.losses > 0.0))
        self.alpha[still] = problem.block_weight[still]

    def _new_matrix(self) -> WorkingMatrix:
        return self.features.working_matrix(1.0 / self.lengths)

    def _look_and_move(self, keep_going: KeepGoing) -> Reply:
        potentials, coefficients, _tail = self.features.shares(self.w)
        weight, f, b = self.problem.block_weight, potentials[0], coefficients[0]
        self.part.loss_sum = float(self.alpha @ self.losses)
        r = self.signs * self.losses - f
        violation = self.signs * r
        hinge = weight * np.maximum(violation, 0.0)
        gap = np.maximum(hinge - self.alpha * violation, 0.0)
        total = float(gap.sum())
        primal = 0.5 * float(b @ f) + float(hinge.sum())
        goal, calls = self.tol * primal, len(r)
        if total <= goal:
            certain = (self.alpha == 0.0) & (-violation > self.features.cache.drift)
            self.features.vouch(self.w, certain)
            return Reply(total, 0.0, calls, True, True)
        if primal - total < self.dual:  # under a centre it may fall, but not for long
            self.weaken()
        self.dual = primal - total
        early = total > _CHANCE * primal
        members, matrix = self.matrix.hold(self._chosen(r, gap, goal, early))
        enough = max(_LOCAL * float(gap[members].sum()), _GOAL * goal)
        # While w still swings, a centre only delays it.
        new = self._moved(members, matrix, r, 0.0 if early else self.centre, enough, keep_going)
        change = new - self.alpha[members]
        moved = np.flatnonzero(change)
        rows, amounts = members[moved], (self.signs[members] * change)[moved]
        self.alpha[members] = new
        self.part.loss_sum = float(self.alpha @ self.losses)
        # The same numbers that the dual variables are summed up to, so that bounds need one point.
        b[members] = self.signs[members] * new
        # Those at their bound seldom move again.
        between = new[moved] < weight[rows]
        self.features.cache.add(rows, amounts[None], potentials, between)
        self.n_added = min(2 * self.n_added, self.most)
        return Reply(total, 0.0, calls, True, False)

    def _chosen(self, r: np.ndarray, gap: np.ndarray, goal: float, early: bool) -> np.ndarray:
        """The blocks of the next working set."""
        weight = self.problem.block_weight
        violated = np.flatnonzero(self.movable & (gap > _NEGLIGIBLE * goal / len(gap)))
        up = np.where(self.signs > 0.0, weight - self.alpha, self.alpha)
        step = np.clip(r / self.lengths**2, up - weight, up)
        gain = step * (r - 0.5 * self.lengths**2 * step)
        free = np.flatnonzero(self.movable & (self.alpha > 0.0) & (self.alpha < weight))
        if early:  # the worst ones would draw w to themselves alone
            n = min(self.n_added, len(violated))
            added = self.rng.choice(violated, n, replace=False)
        else:
            added = np.concatenate(
                [_largest(side, gain, self.n_added // 2)
                 for side in (violated[r[violated] > 0.0], violated[r[violated] < 0.0])]
            )  # fmt: skip
        most = min(_FREE, self.matrix.most - len(added))
        return np.union1d(added, _largest(free, gain, most))

    def _moved(
        self,
        members: np.ndarray,
        matrix: np.ndarray,
        r: np.ndarray,
        strength: float,
        enough: float,
        keep_going: KeepGoing,
    ) -> np.ndarray:
        """The dual variables of a working set after pair steps."""
        dtype, weight = matrix.dtype, self.problem.block_weight[members]
        signs, lengths, alpha = self.signs[members], self.lengths[members], self.alpha[members]
        stiffness = 1.0 + strength
        forward = (lengths / stiffness * (weight - alpha)).astype(dtype)
        back = (lengths / stiffness * alpha).astype(dtype)
        up, down = np.where(signs > 0.0, forward, back), np.where(signs > 0.0, back, forward)
        own = (r[members] / lengths).astype(dtype)
        centre, moves, sign = own.copy(), np.zeros(len(members), dtype), signs.astype(dtype)
        steps = pair_steps_in(dtype.str)
        limit, done, left = _STEPS * len(members), 0, np.inf
        while done < limit and left > enough and keep_going():
            left, count = steps(matrix, own, centre, up, down, moves, sign, strength, enough, _TURN)
            done += count
        if left > enough:  # a centre that is too strong, and moves too often, need not converge
            self.weaken()
        new = np.clip(alpha + stiffness * signs * moves / lengths, 0.0, weight)
        # Of separable data no dual variable is anywhere near its weight.
        new[new < _ROUNDING * np.minimum(weight, new.max(initial=0.0))] = 0.0
        return np.where(new > (1.0 - _ROUNDING) * weight, weight, new)

    def wake(self) -> None:
        """All blocks are looked at in each pass."""

    def widen(self):
        """And the matrix of working sets."""
        super().widen()
        self.matrix = self._new_matrix()

    def arrays(self) -> Arrays:
        """Everything, as named arrays."""
        own = {"n_added": np.array([self.n_added]), "members": self.matrix.members}
        return super().arrays() | own

    def restore(self, arrays: Arrays) -> None:
        """Go on exactly where `arrays` were taken."""
        n = self.problem.n_blocks
        check(
            arrays,
            {
                "n_added": Stored("i8", (1,), 1, n),
                "members": Stored("i8", arrays["members"].shape, 0, n - 1),
            },
        )
        super().restore(arrays)
        self.n_added = int(arrays["n_added"][0])
        if arrays["members"].size:
            self.matrix.hold(arrays["members"].ravel())


def _largest(which: np.ndarray, key: np.ndarray, n: int) -> np.ndarray:
    """Those of `which` with the largest keys, at most n."""
    if len(which) <= n:
        return which
    return which[np.argpartition(-key[which], n)[:n]]
