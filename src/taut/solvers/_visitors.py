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
from taut.duals.base import gram_filling_of, select
from taut.duals.enumerated import find_truths
from taut.duals.planes import N_PLANES, gram_of, one_block
from taut.duals.python import sampled_planes
from taut.sampling import Sampler
from taut.spaces.labels import adding_of, score_of

_AHEAD = 2  # visits between asking for a block's data and using them

#: What visits add up: a loss, C_i times the hinge as seen, and how many moved w.
LOSS, HINGE, STEPS = range(3)


class Step(NamedTuple):
    """How weight moves away from the truth: a function of the form of `taut.duals.plane_steps`.

    It sees one block whose plane 0, the truth, has all weight, and the others in the order of the
    sampler. `uses_gram` tells whether it needs their Gram matrix.
    """

    move: Callable
    uses_gram: bool = True
    max_steps: int = 1


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


@kernel
def _begin(planes, count, weight):
    """All weight on the truth."""
    planes.places[0, N_PLANES] = count
    for q in range(count):
        planes.coef[q] = 0.0
    planes.coef[0] = weight


def _sampled_visits(operations, make_sample, step, uses_gram):
    USES_GRAM, fill_gram = uses_gram, gram_filling_of(operations)
    sample = helper(make_sample(operations))
    ask_for_rows, ask_for = operations.ask, operations.prefetch
    pull, score = operations.pull, score_of(operations)
    loss_of, add_labels = operations.loss, adding_of(operations)

    def visits(
        space, data, offsets, truth, order, weight, progress, room, max_steps, planes, arena
    ):
        """Visit blocks in order."""
        w, late, sums, scale, before, seed = progress
        work, violation, change, row = arena.work, arena.violation, arena.change, arena.row
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
            count = 1 + sample(data, i, work, 1.0, own_seed, room, labels[1:], arena.values)
            violation[0] = 0.0
            worst = 0.0
            for q in range(1, count):
                violation[q] = arena.values[q - 1] - base
                worst = max(worst, violation[q])
            if worst <= 0.0:
                continue
            sums[HINGE] += weight[i] * worst
            for q in range(1, count):
                planes.loss[q] = loss_of(data, i, labels[q])
            _begin(planes, count, weight[i])
            if USES_GRAM:  # a constant: it is not compiled where the step does not look at it
                fill_gram(data, i, labels, 0, count, gram_of(planes, 0), arena)
            loss, _length = step(planes, 0, violation, 1.0 / scale, max_steps, change)
            sums[LOSS] += loss
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

    `scratch` is a vector of the size of w for Gram matrices where inner products of rows are not
    known, zero up to rounding in between, and else empty.
    """

    def __init__(
        self, data: CompiledData, sampler: Sampler, wanted: int, step: Step, scratch: np.ndarray
    ) -> None:
        count = sampler.n_labels(data, wanted)
        most = 1 + count
        self.data = data
        self.step = step
        self.space = data.space(np.float64)
        self.room = sampler.room(data, count, np.float64)
        self.planes = one_block(most)
        self.arena = data.arena(np.float64, 0, count, most, scratch)
        make = around(_sampled_visits, sampler.make, step.move, step.uses_gram)
        self.kernel = data.kernel(make)

    def visit(self, order, weight, progress):
        blocks = self.data.blocks
        self.kernel(
            self.space, blocks.data, blocks.offsets, blocks.truth, order, weight, progress,
            self.room, self.step.max_steps, self.planes, self.arena,
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
        step: Step,
        rng: np.random.Generator,
    ) -> None:
        self.data = data
        self.sampler = sampler
        self.count = sampler.n_labels(data, wanted)
        self.step = step
        self.rng = rng
        self.planes = one_block(1 + self.count)

    def visit(self, order, weight, progress):
        w, late, sums, scale, before, _seed = progress
        for number, i in enumerate(order, start=before):
            psi, losses, error = self._planes_of(i, w)
            violation = np.append(0.0, losses - psi @ self.data.point(w))
            worst = violation.max()
            sums[HINGE] += weight[i] * max(violation[1] + error, worst)
            if worst <= 0.0:
                continue
            loss, move = self._move(psi, losses, violation, weight[i], scale)
            sums[LOSS] += loss
            if move is not None:
                sums[STEPS] += 1.0
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
    ) -> tuple[float, np.ndarray | None]:
        """The loss and the sum of psi that the step has; None where no weight moves."""
        count, planes = len(violation), self.planes
        _begin(planes, count, weight)
        planes.loss[1:count] = losses
        if self.step.uses_gram:
            gram = planes.gram.reshape(len(planes.coef), -1)
            gram[1:count, 1:count] = psi @ psi.T
        change = np.zeros(2 * count)
        loss, _ = self.step.move(planes, 0, violation, 1.0 / scale, self.step.max_steps, change)
        move = change[1:count] @ psi if change[1:count].any() else None
        return loss, move
