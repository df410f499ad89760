"""Means of label statistics: each block's distribution over labels, by its marginals."""

from __future__ import annotations

import numpy as np

from taut.binding import CompiledData
from taut.compiled.jit import around, helper
from taut.compiled.lanes import aligned_zeros
from taut.duals.means import MeanDual, score_of_means
from taut.duals.threads import exchange, pushing_of
from taut.spaces.labels import square_of

_FIRST = 1e-3  # share of the uniform distribution in the first mean, the rest being the truth
_LONGEST = 1.0 - 2.0**-52  # a whole step would leave a face of the polytope for good
_NOTHING = 1e-15  # a gain per unit of weight that rounding explains


def _visits(operations):
    pull, expect, mean_loss = operations.pull, operations.expect, operations.mean_loss
    ask_for_rows, ask_for, square = operations.ask, operations.prefetch, square_of(operations)
    score, push_to = score_of_means(operations), pushing_of(operations)

    def visits(
        space, data, order, weight, worker, stiffness, temperature, exact, offsets, means, arena,
        gap, sums,
    ):  # fmt: skip
        """Visit blocks in order: a step from the present mean towards that of the oracle.

        The step is exact, or whole where `exact` is False.
        """
        w, work = worker.w, arena.work
        last = order.shape[0] - 1
        for position in range(order.shape[0]):
            exchange(worker, position)
            ahead = order[min(position + 1, last)]
            ask_for_rows(space, ahead)
            ask_for(data, ahead)
            i = order[position]
            mean = means[offsets[i] : offsets[i + 1]]
            delta = arena.mean[: mean.shape[0]]
            pull(space, i, w, work)
            expect(data, i, work, temperature, 1.0, mean, delta)
            for p in range(mean.shape[0]):
                delta[p] -= mean[p]
            loss = mean_loss(data, i, delta)
            gain, size = score(space, data, i, delta, arena)
            gain += loss
            gap[i] = weight[i] * max(gain, 0.0)
            length = square(arena.products, i, arena.statistics, size)
            step = _LONGEST
            # Moves that rounding hides are made whole: labels grow from next to nothing so.
            if exact and stiffness * max(gain, _NOTHING) < step * weight[i] * length:
                step = stiffness * max(gain, 0.0) / (weight[i] * length)
            for p in range(mean.shape[0]):
                mean[p] += step * delta[p]
            move = step * weight[i]
            push_to(space, i, arena.statistics, size, move / -stiffness, arena.scaled, worker)
            sums[0] += move * loss
            sums[1] += move * move * length

    return visits


def _first_means(operations):
    pull, expect, mean_of = operations.pull, operations.expect, operations.mean_of

    def first_means(space, data, offsets, truth, w, share, mean_offsets, arena, means):
        """All but a small share on the truth, and that share on all labels alike; w is zero."""
        for i in range(offsets.shape[0] - 1):
            mean = means[mean_offsets[i] : mean_offsets[i + 1]]
            delta = arena.mean[: mean.shape[0]]
            pull(space, i, w, arena.work)
            expect(data, i, arena.work, 1.0, 0.0, arena.mean[:0], mean)
            mean_of(data, i, truth[offsets[i] : offsets[i + 1]], delta)
            for p in range(mean.shape[0]):
                mean[p] += (1.0 - share) * (delta[p] - mean[p])

    return first_means


class MarginalDual(MeanDual):
    """A mean that no label is ever quite out of, moved towards that of the oracle.

    The temperature is that of the entropy that is linearised around. Steps are exact, or whole.
    """

    at_zero = False

    def __init__(
        self,
        data: CompiledData,
        weight: np.ndarray,
        n_jobs: int,
        temperature: float,
        exact: bool = True,
    ) -> None:
        super().__init__(data, weight, n_jobs)
        self.temperature = temperature
        self.exact = exact
        blocks = data.blocks
        data.kernel(_first_means)(
            self.spaces[0], blocks.data, blocks.offsets, blocks.truth,
            aligned_zeros(data.size, data.dtype), _FIRST, self.offsets, self.arenas[0], self.means,
        )  # fmt: skip

    def visit_part(self, number, order, worker, stiffness, asks, gap, sums):
        self.data.kernel(_visits)(
            self.spaces[number], self.data.blocks.data, order, self.weight, worker, stiffness,
            self.temperature, self.exact, self.offsets, self.means, self.arenas[number], gap, sums,
        )  # fmt: skip
        return order[:0]


def _soft(operations):
    expect = operations.expect

    def toward(data, i, work, temperature, mean, found, out):
        expect(data, i, work, temperature, 1.0, mean, out)

    return helper(toward)


def _hard(operations):
    argmax, mean_of = operations.argmax, operations.mean_of

    def toward(data, i, work, temperature, mean, found, out):
        argmax(data, i, work, 1.0, found)
        mean_of(data, i, found, out)

    return helper(toward)


def _directions(operations, make_toward):
    toward = make_toward(operations)
    pull, push, mean_loss = operations.pull, operations.push, operations.mean_loss
    score = score_of_means(operations)

    def collect(
        space, data, offsets, order, weight, w, temperature, mean_offsets, means, deltas, arena,
        label, gap, move, slopes,
    ):  # fmt: skip
        """Where all blocks would go; what that adds to U, to the dual's slope and to its loss."""
        work, statistics = arena.work, arena.statistics
        for i in order:
            mean = means[mean_offsets[i] : mean_offsets[i + 1]]
            delta = deltas[mean_offsets[i] : mean_offsets[i + 1]]
            pull(space, i, w, work)
            toward(data, i, work, temperature, mean, label[: offsets[i + 1] - offsets[i]], delta)
            for p in range(mean.shape[0]):
                delta[p] -= mean[p]
            loss = mean_loss(data, i, delta)
            gain, size = score(space, data, i, delta, arena)
            gain += loss
            gap[i] = weight[i] * max(gain, 0.0)
            slopes[0] += weight[i] * gain
            slopes[1] += weight[i] * loss
            for p in range(size):
                statistics[p] *= -weight[i]
            push(space, i, statistics, size, 0.0, move)

    return collect


class BatchMarginalDual(MarginalDual):
    """The same for all blocks together: one step, exact along their common direction.

    Visits only collect, into vectors of which there is one: n_jobs is 1.
    """

    def allocate(self, dtype):
        super().allocate(dtype)
        self.deltas = aligned_zeros(len(self.means), dtype)
        self.move = aligned_zeros(self.data.size, dtype)
        self.slopes = np.zeros(2)

    def visit_part(self, number, order, worker, stiffness, asks, gap, sums):
        blocks = self.data.blocks
        self.data.kernel(around(_directions, _soft if self.temperature > 0.0 else _hard))(
            self.spaces[0], blocks.data, blocks.offsets, order, self.weight, worker.w,
            self.temperature, self.offsets, self.means, self.deltas, self.arenas[0],
            np.empty(blocks.label_size, dtype=np.int32), gap, self.move, self.slopes,
        )  # fmt: skip
        return order[:0]

    def finish(self, w, stiffness, sums):
        (slope, loss), square = self.slopes, self.data.quadratic.dot(self.move, self.move)
        step = _LONGEST if self.temperature > 0.0 else 1.0
        if self.exact and stiffness * slope < step * square:
            step = max(stiffness * slope / square, 0.0)
        self.means += self.means.dtype.type(step) * self.deltas
        w += w.dtype.type(step / stiffness) * self.move
        sums[:2] += step * loss, step**2 * square
        self.move[:] = 0.0
        self.slopes[:] = 0.0
