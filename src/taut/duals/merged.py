"""One merged plane for each block, kept as the mean statistics of all labels that went into it.

A visit takes some labels from a sampler, moves weight to one after the other, and merges what has
weight: the memory of a block does not grow with its visits. The truth is part of the plane.
"""

from __future__ import annotations

import numpy as np

from taut.binding import CompiledData
from taut.compiled.jit import around, helper
from taut.duals.means import MeanDual, score_of_means
from taut.duals.one_by_one import KEPT, REST, TOTAL, VisitRoom, begin, going_through, outcome
from taut.duals.threads import exchange, pushing_of
from taut.sampling import Sampler
from taut.spaces.labels import Scatter, score_of
from taut.spaces.sums import sums_of

_NOTHING = 1e-13  # of a block's weight: a gap that rounding explains


def _merging_pass(operations, make_sample):
    sample = helper(make_sample(operations))
    pull, score, parts = operations.pull, score_of(operations), operations.parts
    ask_for_rows, ask_for = operations.ask, operations.prefetch
    mean_of, mean_loss, spread = operations.mean_of, operations.mean_loss, operations.spread
    score_mean, push_to = score_of_means(operations), pushing_of(operations)
    hold, go_through = sums_of(operations).hold, going_through(operations)

    def merge(data, i, own, found, count, weights, point, mean, new, part):
        """Change the mean to that of what is kept of it, of the truth and of labels."""
        for p in range(mean.shape[0]):
            new[p] = (point[KEPT] - 1.0) * mean[p]
        for q in range(-1, count):
            share = (point[REST] if q < 0 else weights[q]) / point[TOTAL]
            if share > 0.0:
                mean_of(data, i, own if q < 0 else found[q], part)
                for p in range(mean.shape[0]):
                    new[p] += share * part[p]
        for p in range(mean.shape[0]):
            mean[p] += new[p]

    merge_labels = helper(merge)

    def visits(
        space, data, offsets, truth, order, weight, worker, stiffness, seed, mean_offsets, means,
        samples, visit, arena, gap, sums,
    ):  # fmt: skip
        """Visit blocks in order: samples, steps to each of them, and what is merged of them."""
        w, work, values, violation = worker.w, arena.work, arena.values, arena.violation
        statistics, change, point = arena.statistics, arena.change, visit.point
        wanted, first_seed = values.shape[0], np.int64(seed >> np.uint64(1))
        last = order.shape[0] - 1
        for position in range(order.shape[0]):
            exchange(worker, position)
            ahead = order[min(position + 1, last)]
            ask_for_rows(space, ahead)
            ask_for(data, ahead)
            i = order[position]
            size = offsets[i + 1] - offsets[i]
            own = truth[offsets[i] : offsets[i + 1]]
            mean = means[mean_offsets[i] : mean_offsets[i + 1]]
            found = arena.found[: wanted * size].reshape((wanted, size))
            pull(space, i, w, work)
            base = score(data, i, work, own)
            count = sample(data, i, work, 1.0, first_seed + i, samples, found, values)
            loss = mean_loss(data, i, mean)
            merged, n_all = score_mean(space, data, i, mean, arena)
            merged += loss - base
            gap[i] = weight[i] * (max(values[0] - base, 0.0) - merged)
            if gap[i] <= _NOTHING * weight[i]:
                continue
            for q in range(count):
                violation[q] = values[q] - base
            for p in range(n_all):
                statistics[p] *= -weight[i]
            parts(data, i, own, Scatter(statistics, statistics, n_all, 0, weight[i]))
            square = hold(i, statistics, n_all, visit.sums)
            all_of = weight[i]
            begin(point, all_of, 0.0, all_of, square, all_of * loss, all_of * merged)
            go_through(
                data, i, own, found, 0, 0, count, 0, violation, arena.row, stiffness, visit, change
            )
            loss, length = outcome(point)
            sums[0] += loss
            sums[1] += length
            new = arena.mean[: mean.shape[0]]
            merge_labels(
                data, i, own, found, count, change, point, mean, new,
                arena.own_mean[: mean.shape[0]],
            )  # fmt: skip
            spread(data, i, new, statistics)
            push_to(space, i, statistics, n_all, -all_of / stiffness, arena.scaled, worker)

    return visits


def _true_means(operations):
    mean_of = operations.mean_of

    def true_means(data, offsets, truth, mean_offsets, means):
        """All weight on the truths."""
        for i in range(offsets.shape[0] - 1):
            mean = means[mean_offsets[i] : mean_offsets[i + 1]]
            mean_of(data, i, truth[offsets[i] : offsets[i + 1]], mean)

    return true_means


class MergedDual(MeanDual):
    """A merged plane for each block, and at most `n_samples` labels of a sampler in each visit."""

    def __init__(
        self, data: CompiledData, weight: np.ndarray, n_jobs: int, sampler: Sampler, n_samples: int
    ) -> None:
        self.sampler = sampler
        self.wanted = sampler.n_labels(data, n_samples)
        super().__init__(data, weight, n_jobs)
        blocks = data.blocks
        data.kernel(_true_means)(
            blocks.data, blocks.offsets, blocks.truth, self.offsets, self.means
        )

    def allocate(self, dtype):
        super().allocate(dtype)
        self.samples = [self.sampler.room(self.data, self.wanted, dtype) for _ in self.arenas]
        self.visits = [VisitRoom.of(self.data, a.products, self.wanted) for a in self.arenas]

    def _arena(self, dtype, number):
        return self.data.arena(dtype, number, self.wanted, self.wanted)

    def visit_part(self, number, order, worker, stiffness, asks, gap, sums):
        blocks = self.data.blocks
        self.data.kernel(around(_merging_pass, self.sampler.make))(
            self.spaces[number], blocks.data, blocks.offsets, blocks.truth, order, self.weight,
            worker, stiffness, self.seed, self.offsets, self.means, self.samples[number],
            self.visits[number], self.arenas[number], gap, sums,
        )  # fmt: skip
        return order[:0]
