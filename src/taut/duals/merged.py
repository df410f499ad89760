"""One merged plane for each block, kept as the mean statistics of all labels that went into it.

A visit takes some labels from a sampler, moves weight between them, the merged plane and the truth,
and merges what has weight: the memory of a block does not grow with its visits.
"""

from __future__ import annotations

import numpy as np

from taut.binding import CompiledData
from taut.compiled.jit import around, helper
from taut.duals.means import MeanDual, score_of_means
from taut.duals.plane_steps import sampled_steps
from taut.duals.planes import N_PLANES, gram_of, one_block
from taut.duals.threads import exchange, pushing_of
from taut.sampling import Sampler
from taut.spaces.labels import Lifted, products_of, score_of

_TRUTH, _MERGED, _FIRST = 0, 1, 2  # the planes of a visit: samples begin with the third
_NOTHING = 1e-13  # of a block's weight: a gap that rounding explains


def _gram_rows(operations):
    """A function that fills the Gram matrix of truth, merged plane and samples, all of phi."""
    parts, lift, products = operations.parts, operations.lift, products_of(operations)
    n_all, spread = operations.n_all, operations.spread

    def gram_rows(data, i, own, found, count, mean, arena, gram):
        """The merged plane is lifted once for all labels, then each label for those before it."""
        space, scratch = arena.products.space, arena.products.scratch
        statistics, lifted, row = arena.statistics, arena.scaled, arena.row
        size = n_all(space, i, statistics)
        spread(data, i, mean, statistics)
        end, factor = lift(space, i, statistics, size, scratch, lifted)
        square = 0.0
        for p in range(size):
            square += statistics[p] * (lifted[p] if p < end else factor * statistics[p])
        gram[_MERGED, _MERGED] = square
        each = Lifted(lifted, statistics, end, factor)
        for q in range(-1, count):
            label = own if q < 0 else found[q]
            place = _TRUTH if q < 0 else _FIRST + q
            gram[place, _MERGED] = parts(data, i, label, each)
            gram[_MERGED, place] = gram[place, _MERGED]
            products(data, i, label, own.reshape((1, own.shape[0])), arena.products, row)
            gram[place, _TRUTH] = row[0]
            gram[_TRUTH, place] = row[0]
            if q >= 0:
                products(data, i, label, found[: q + 1], arena.products, row)
                for r in range(q + 1):
                    gram[place, _FIRST + r] = row[r]
                    gram[_FIRST + r, place] = row[r]

    return helper(gram_rows)


def _merging_pass(operations, make_sample):
    sample = helper(make_sample(operations))
    pull, score, loss_of = operations.pull, score_of(operations), operations.loss
    ask_for_rows, ask_for = operations.ask, operations.prefetch
    mean_of, mean_loss, spread = operations.mean_of, operations.mean_loss, operations.spread
    score_mean, push_to = score_of_means(operations), pushing_of(operations)
    gram_rows = _gram_rows(operations)

    def merge(data, i, own, found, count, weight, coef, mean, new, part):
        """New = the mean of all planes by their coefficients."""
        for p in range(mean.shape[0]):
            new[p] = coef[_MERGED] / weight * mean[p]
        for q in range(-1, count):
            share = coef[_TRUTH if q < 0 else _FIRST + q] / weight
            if share > 0.0:
                mean_of(data, i, own if q < 0 else found[q], part)
                for p in range(mean.shape[0]):
                    new[p] += share * part[p]

    merge_planes = helper(merge)

    def visits(
        space, data, offsets, truth, order, weight, worker, stiffness, max_steps, seed,
        mean_offsets, means, room, planes, arena, gap, sums,
    ):  # fmt: skip
        """Visit blocks in order: samples, steps between all planes, and what is merged of them."""
        w, work, values = worker.w, arena.work, arena.values
        violation, change = arena.violation, arena.change
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
            count = sample(data, i, work, 1.0, first_seed + i, room, found, values)
            planes.places[0, N_PLANES] = _FIRST + count
            planes.loss[_MERGED] = mean_loss(data, i, mean)
            planes.coef[_TRUTH] = 0.0
            planes.coef[_MERGED] = weight[i]
            violation[_TRUTH] = 0.0
            merged_score, n_all = score_mean(space, data, i, mean, arena)
            violation[_MERGED] = planes.loss[_MERGED] + merged_score - base
            for q in range(count):
                planes.loss[_FIRST + q] = loss_of(data, i, found[q])
                planes.coef[_FIRST + q] = 0.0
                violation[_FIRST + q] = values[q] - base
            gap[i] = weight[i] * (max(violation[_FIRST], 0.0) - violation[_MERGED])
            if gap[i] <= _NOTHING * weight[i]:
                continue
            gram_rows(data, i, own, found, count, mean, arena, gram_of(planes, 0))
            loss, length = sampled_steps(planes, 0, violation, stiffness, max_steps, change)
            sums[0] += loss
            sums[1] += length
            new = arena.mean[: mean.shape[0]]
            merge_planes(
                data, i, own, found, count, weight[i], planes.coef, mean, new,
                arena.own_mean[: mean.shape[0]],
            )  # fmt: skip
            for p in range(mean.shape[0]):
                old = mean[p]
                mean[p] = new[p]
                new[p] -= old
            spread(data, i, new, arena.statistics)
            push_to(
                space, i, arena.statistics, n_all, -weight[i] / stiffness, arena.scaled,
                worker,
            )  # fmt: skip

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
        # Not by what these blocks have: the same blocks in other parts are to make the same steps.
        self.max_steps = _FIRST + n_samples
        super().__init__(data, weight, n_jobs)
        blocks = data.blocks
        data.kernel(_true_means)(
            blocks.data, blocks.offsets, blocks.truth, self.offsets, self.means
        )

    def allocate(self, dtype):
        super().allocate(dtype)
        self.rooms = [self.sampler.room(self.data, self.wanted, dtype) for _ in self.arenas]
        self.planes = [one_block(_FIRST + self.wanted) for _ in self.arenas]

    def _arena(self, dtype, number):
        return self.data.arena(dtype, number, self.wanted, _FIRST + self.wanted)

    def visit_part(self, number, order, worker, stiffness, asks, gap, sums):
        blocks = self.data.blocks
        self.data.kernel(around(_merging_pass, self.sampler.make))(
            self.spaces[number], blocks.data, blocks.offsets, blocks.truth, order, self.weight,
            worker, stiffness, self.max_steps, self.seed, self.offsets, self.means,
            self.rooms[number], self.planes[number], self.arenas[number], gap, sums,
        )  # fmt: skip
        return order[:0]
