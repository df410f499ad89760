"""Visits that begin with all of a block's weight on the truth, and keep nothing of the block.

A visit of block i finds labels at w, moves weight a_j >= 0, sum_j a_j <= C_i, from the truth to
them, and adds to w, in the scale that w has, and to a second vector by which w is averaged:

    w += scale sum_j a_j psi_i(y_j),        late += t sum_j a_j psi_i(y_j),

where t is the number of visits before this one. Three forms: labels that a sampler finds, of
compiled structures and of plain ones, and all labels where the step over them is exact.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from taut.binding import CompiledData, PythonData
from taut.compiled.jit import around, helper, kernel
from taut.compiled.xorshift import scrambled
from taut.duals.base import select
from taut.duals.enumerated import find_truths
from taut.duals.one_by_one import LEAST, VisitRoom, begin, go_through_plain, going_through, outcome
from taut.duals.python import sampled_planes
from taut.sampling import Sampler
from taut.spaces.labels import adding_of, score_of

_AHEAD = 2  # visits between asking for a block's data and using them

#: What visits add up: a loss, C_i times the hinge as seen, and how many moved w.
LOSS, HINGE, STEPS = range(3)


#: Whether the first label of a visit gets all of the block's weight, by its violation and its loss:
#: a compiled function. Without one, weight goes to labels one by one, by exact steps.
Rule = Callable[[float, float], bool] | None


class Progress(NamedTuple):
    """What visits change, and what they depend on beside it."""

    w: np.ndarray
    late: np.ndarray
    sums: np.ndarray  # LOSS, HINGE and STEPS
    scale: float  # what w is of the summed moves
    visits: int  # how many there were before
    seed: np.uint64


class Visitor(ABC):
    """What visits the blocks of some data."""

    @abstractmethod
    def visit(self, order: np.ndarray, weight: np.ndarray, progress: Progress) -> None:
        """Visit blocks in `order`; `weight` are the C_i of all."""


@kernel
def mixed(seed, number):
    """Another seed for each number; never 0, from which xorshift does not move."""
    return scrambled(seed + np.uint64(number) * np.uint64(0x9E3779B97F4A7C15))


def _all_or_nothing(operations, rule):
    loss_of = operations.loss

    def all_or_nothing(data, i, labels, count, violation, weight, stiffness, room, arena, change):
        """All weight to the first label, if the rule says so."""
        loss = loss_of(data, i, labels[1])
        for q in range(count):
            change[q] = 0.0
        if rule(violation[1], loss):
            change[1], change[0] = weight, -weight
        return change[1] * loss

    return helper(all_or_nothing)


def _one_by_one(operations):
    go_through = going_through(operations)

    def one_by_one(data, i, labels, count, violation, weight, stiffness, room, arena, change):
        """Exact steps to one label after the other."""
        begin(room.point, weight, weight, 0.0, 0.0, 0.0, 0.0)
        go_through(
            data, i, labels[0], labels, 1, 1, count, 1, violation, arena.row, stiffness, room,
            change,
        )  # fmt: skip
        for q in range(1, count):
            change[0] -= change[q]
        return outcome(room.point)[0]

    return helper(one_by_one)


def _sampled_visits(operations, make_sample, make_moves):
    sample, move_weight = helper(make_sample(operations)), make_moves(operations)
    ask_for_rows, ask_for = operations.ask, operations.prefetch
    pull, score, add_labels = operations.pull, score_of(operations), adding_of(operations)

    def visits(space, data, offsets, truth, order, weight, progress, samples, room, arena, row):
        """Visit blocks in order."""
        w, late, sums, scale, before, seed = progress
        work, violation, change = arena.work, arena.violation, arena.change
        most = violation.shape[0]
        last = order.shape[0] - 1
        for position in range(order.shape[0]):
            ahead = order[min(position + _AHEAD, last)]
            ask_for_rows(space, ahead)
            ask_for(data, ahead)
            i = order[position]
            size = offsets[i + 1] - offsets[i]
            labels = arena.found[: most * size].reshape((most, size))
            for t in range(size):
                labels[0, t] = truth[offsets[i] + t]
            pull(space, i, w, work)
            base = score(data, i, work, labels[0])
            own_seed = np.int64(mixed(seed, before + position) >> np.uint64(1))
            count = 1 + sample(data, i, work, 1.0, own_seed, samples, labels[1:], arena.values)
            violation[0] = 0.0
            worst = 0.0
            for q in range(1, count):
                violation[q] = arena.values[q - 1] - base
                worst = max(worst, violation[q])
            if worst <= 0.0:
                continue
            sums[HINGE] += weight[i] * worst
            sums[LOSS] += move_weight(
                data, i, labels, count, violation, weight[i], 1.0 / scale, room, arena, change
            )
            kept = select(labels, change, count, -scale, arena.chosen, row)
            if kept > 0:
                sums[STEPS] += 1.0
                picked = arena.chosen[: kept * size].reshape((kept, size))
                add_labels(space, data, i, picked, row[:kept], arena.statistics, w)
                for q in range(kept):
                    row[q] *= (before + position) / scale
                add_labels(space, data, i, picked, row[:kept], arena.statistics, late)

    return visits


class SampledVisitor(Visitor):
    """Labels that a sampler finds, of a compiled structure.

    `scratch` is a vector of the size of w for inner products where those of rows are not known,
    zero up to rounding in between, and else empty.
    """

    def __init__(
        self, data: CompiledData, sampler: Sampler, wanted: int, rule: Rule, scratch: np.ndarray
    ) -> None:
        count = sampler.n_labels(data, wanted)
        most = 1 + count
        self.data = data
        self.space = data.space(np.float64)
        self.samples = sampler.room(data, count, np.float64)
        self.arena = data.arena(np.float64, 0, count, most, scratch)
        self.row = np.empty(most)
        self.room = () if rule else VisitRoom.of(data, self.arena.products, most)
        moves = around(_all_or_nothing, rule) if rule else _one_by_one
        self.kernel = data.kernel(around(_sampled_visits, sampler.make, moves))

    def visit(self, order, weight, progress):
        blocks = self.data.blocks
        self.kernel(
            self.space, blocks.data, blocks.offsets, blocks.truth, order, weight, progress,
            self.samples, self.room, self.arena, self.row,
        )  # fmt: skip


def _exact_visits(operations):
    ask_for_rows, ask_for = operations.ask, operations.prefetch
    pull, push = operations.pull, operations.push
    exact_step, n_all, square = operations.exact_step, operations.n_all, operations.square
    rise = operations.rise

    def visits(space, data, truth_place, order, weight, progress, work, alpha, change):
        """Visit blocks in order; the exact step over all labels."""
        w, late, sums, scale, before, _seed = progress
        last = order.shape[0] - 1
        for position in range(order.shape[0]):
            ahead = order[min(position + _AHEAD, last)]
            ask_for_rows(space, ahead)
            ask_for(data, ahead)
            i = order[position]
            pull(space, i, w, work)
            for k in range(alpha.shape[0]):
                alpha[k] = 0.0
            if truth_place[i] >= 0:
                alpha[truth_place[i]] = weight[i]
            curvature = scale * rise(space, i)
            gap, loss, length = exact_step(
                data, i, work, square(space, i), weight[i], 1.0 / curvature, alpha, change
            )
            sums[HINGE] += gap
            sums[LOSS] += loss
            if length > 0.0:
                sums[STEPS] += 1.0
                size = n_all(space, i, change)
                for p in range(size):
                    change[p] *= -scale
                push(space, i, change, size, 0.0, w)
                for p in range(size):
                    change[p] *= (before + position) / scale
                push(space, i, change, size, 0.0, late)

    return visits


class ExactVisitor(Visitor):
    """All labels of a compiled structure that has `exact_step`."""

    def __init__(self, data: CompiledData) -> None:
        blocks, listed = data.blocks, data.listed
        self.space, self.blocks = data.space(np.float64), blocks
        self.truth_place = find_truths(listed, blocks)
        arena = data.arena(np.float64, n_planes=listed.most)
        self.room = arena.work, arena.row, arena.statistics
        self.kernel = data.kernel(_exact_visits)

    def visit(self, order, weight, progress):
        self.kernel(
            self.space, self.blocks.data, self.truth_place, order, weight, progress, *self.room
        )


class PythonVisitor(Visitor):
    """Labels that a sampler finds, of a plain structure."""

    def __init__(
        self,
        data: PythonData,
        sampler: Sampler,
        wanted: int,
        rule: Rule,
        rng: np.random.Generator,
    ) -> None:
        self.data = data
        self.sampler = sampler
        self.count = sampler.n_labels(data, wanted)
        self.rule = rule
        self.rng = rng
        self.room = np.zeros(LEAST + 1)

    def visit(self, order, weight, progress):
        w, late, sums, scale, before, _seed = progress
        for number, i in enumerate(order, start=before):
            psi, losses, error = self._planes_of(i, w)
            violation = losses - psi @ self.data.point(w)
            worst = max(violation.max(), 0.0)
            sums[HINGE] += weight[i] * max(violation[0] + error, worst)
            if worst <= 0.0:
                continue
            loss, weights = self._move(psi, losses, violation, weight[i], scale)
            sums[LOSS] += loss
            if weights.any():
                sums[STEPS] += 1.0
                move = weights @ psi
                w += scale * move
                late += number * move

    def _planes_of(self, i: int, w: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """psi and losses of block i's labels at w, and by how much the first may miss the best."""
        planes, error = sampled_planes(self.data, i, w, self.sampler, self.count, self.rng)
        psi, losses = zip(*planes, strict=True)
        return np.array(psi), np.array(losses), error

    def _move(
        self,
        psi: np.ndarray,
        losses: np.ndarray,
        violation: np.ndarray,
        weight: float,
        scale: float,
    ) -> tuple[float, np.ndarray]:
        """The summed loss and the weights that labels get."""
        if self.rule:
            weights = np.zeros(len(losses))
            weights[0] = weight * self.rule(violation[0], losses[0])
            return float(weights @ losses), weights
        begin(self.room, weight, weight, 0.0, 0.0, 0.0, 0.0)
        nothing = np.zeros(self.data.size)
        _, weights = go_through_plain(
            self.data, self.room, nothing, psi, losses, violation, 1.0 / scale
        )
        return outcome(self.room)[0], weights
