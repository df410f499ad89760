"""One merged plane for each block, kept as the mean statistics of all labels that went into it.

A visit takes some labels from a sampler, moves weight between them, the merged plane and the truth,
and merges what has weight: the memory of a block does not grow with its visits.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from taut.binding import CompiledData
from taut.compiled.jit import helper
from taut.compiled.lanes import aligned_zeros
from taut.duals.means import MeanDual, square_of
from taut.duals.plane_steps import sampled_steps
from taut.duals.planes import N_PLANES, PlaneArrays, gram_of, one_block
from taut.duals.threads import exchange, until_exchange
from taut.sampling import Sampler

_TRUTH, _MERGED, _FIRST = 0, 1, 2  # the planes of a visit: samples begin with the third
_NOTHING = 1e-13  # of a block's weight: a gap that rounding explains


class _Samples(NamedTuple):
    """Room for the labels of one visit and for the planes that they are."""

    room: tuple
    found: np.ndarray
    values: np.ndarray
    planes: PlaneArrays
    violation: np.ndarray
    change: np.ndarray


def _gram_rows(oracles):
    """A function that fills the Gram matrix of truth, merged plane and samples, all of phi."""
    pull, score, add_features = oracles.pull, oracles.score, oracles.add_features
    mean_of, mean_score, add_mean = oracles.mean_of, oracles.mean_score, oracles.add_mean
    inner, square = oracles.inner, square_of(oracles)

    def by_structure(data, i, own, found, count, mean, buffers, gram):
        """By inner products of labels, and those with the mean through lengths of differences."""
        delta = buffers.delta[: mean.shape[0]]
        length = square(data, i, mean, buffers)
        gram[_MERGED, _MERGED] = length
        for q in range(-1, count):
            label = own if q < 0 else found[q]
            place = _TRUTH if q < 0 else _FIRST + q
            gram[place, place] = inner(data, i, label, label)
            if q >= 0:
                gram[place, _TRUTH] = inner(data, i, label, own)
                gram[_TRUTH, place] = gram[place, _TRUTH]
            for r in range(q):
                gram[place, _FIRST + r] = inner(data, i, label, found[r])
                gram[_FIRST + r, place] = gram[place, _FIRST + r]
            mean_of(data, i, label, delta)
            for p in range(mean.shape[0]):
                delta[p] -= mean[p]
            apart = square(data, i, delta, buffers)
            gram[place, _MERGED] = 0.5 * (length + gram[place, place] - apart)
            gram[_MERGED, place] = gram[place, _MERGED]

    def by_scores(data, i, own, found, count, mean, buffers, gram):
        """Scores against features as weights; `scratch` is zero, up to rounding, in between."""
        space, work, scratch, sign = buffers.space, buffers.spare, buffers.scratch, buffers.sign
        add_mean(space, i, mean, 1.0, work, scratch)
        pull(space, i, scratch, work)
        gram[_MERGED, _MERGED] = mean_score(data, i, work, mean)
        add_mean(space, i, mean, -1.0, work, scratch)
        for q in range(-1, count):
            label = own if q < 0 else found[q]
            place = _TRUTH if q < 0 else _FIRST + q
            row = label.reshape((1, label.shape[0]))
            sign[0] = 1.0
            add_features(space, i, row, sign, scratch)
            pull(space, i, scratch, work)
            gram[place, place] = score(data, i, work, label)
            gram[place, _TRUTH] = score(data, i, work, own)
            gram[_TRUTH, place] = gram[place, _TRUTH]
            for r in range(q):
                gram[place, _FIRST + r] = score(data, i, work, found[r])
                gram[_FIRST + r, place] = gram[place, _FIRST + r]
            gram[place, _MERGED] = mean_score(data, i, work, mean)
            gram[_MERGED, place] = gram[place, _MERGED]
            sign[0] = -1.0
            add_features(space, i, row, sign, scratch)

    known = inner is not None and oracles.mean_square is not None
    return helper(by_structure if known else by_scores)


@functools.cache
def _merging_pass(make_sample):
    """What builds the loop of visits around a sampler."""

    def make(oracles):
        return _visits(oracles, helper(make_sample(oracles)))

    return make


def _visits(oracles, sample):
    pull, score, loss_of, ask_for = (
        oracles.pull, oracles.score, oracles.loss, oracles.prefetch,
    )  # fmt: skip
    mean_of, mean_score, mean_loss = oracles.mean_of, oracles.mean_score, oracles.mean_loss
    add_mean, gram_rows = oracles.add_mean, _gram_rows(oracles)

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
        mean_offsets, means, samples, buffers, gap, sums,
    ):  # fmt: skip
        """Visit blocks in order: samples, steps between all planes, and what is merged of them."""
        w, work = worker.w, buffers.work
        planes, violation, change = samples.planes, samples.violation, samples.change
        wanted, first_seed = samples.values.shape[0], np.int64(seed >> np.uint64(1))
        last = order.shape[0] - 1
        begin = 0
        while begin <= last:
            end = until_exchange(worker, begin, order.shape[0])
            for position in range(begin, end):
                ask_for(space, order[min(position + 1, last)])
                i = order[position]
                size = offsets[i + 1] - offsets[i]
                own = truth[offsets[i] : offsets[i + 1]]
                mean = means[mean_offsets[i] : mean_offsets[i + 1]]
                found = samples.found[: wanted * size].reshape((wanted, size))
                pull(space, i, w, work)
                base = score(data, i, work, own)
                count = sample(
                    data, i, work, 1.0, first_seed + i, samples.room, found, samples.values
                )
                planes.places[0, N_PLANES] = _FIRST + count
                planes.loss[_MERGED] = mean_loss(data, i, mean)
                planes.coef[_TRUTH] = 0.0
                planes.coef[_MERGED] = weight[i]
                violation[_TRUTH] = 0.0
                violation[_MERGED] = planes.loss[_MERGED] + mean_score(data, i, work, mean) - base
                for q in range(count):
                    planes.loss[_FIRST + q] = loss_of(data, i, found[q])
                    planes.coef[_FIRST + q] = 0.0
                    violation[_FIRST + q] = samples.values[q] - base
                gap[i] = weight[i] * (max(violation[_FIRST], 0.0) - violation[_MERGED])
                if gap[i] <= _NOTHING * weight[i]:
                    continue
                gram_rows(data, i, own, found, count, mean, buffers, gram_of(planes, 0))
                loss, length = sampled_steps(planes, 0, violation, stiffness, max_steps, change)
                sums[0] += loss
                sums[1] += length
                new = buffers.delta[: mean.shape[0]]
                merge_planes(
                    data, i, own, found, count, weight[i], planes.coef, mean, new,
                    buffers.truth[: mean.shape[0]],
                )  # fmt: skip
                for p in range(mean.shape[0]):
                    old = mean[p]
                    mean[p] = new[p]
                    new[p] -= old
                add_mean(space, i, new, -weight[i] / stiffness, work, w)
                if worker.own.shape[0] > 0:
                    add_mean(space, i, new, -weight[i] / stiffness, work, worker.own)
            exchange(worker)
            begin = end

    return visits


def _true_means(oracles):
    mean_of = oracles.mean_of

    def true_means(data, offsets, truth, mean_offsets, means):
        """All weight on the truths."""
        for i in range(offsets.shape[0] - 1):
            mean = means[mean_offsets[i] : mean_offsets[i + 1]]
            mean_of(data, i, truth[offsets[i] : offsets[i + 1]], mean)

    return true_means


class MergedDual(MeanDual):
    """A merged plane for each block, and labels that a sampler finds in each visit.

    Parameters
    ----------
    data, weight, n_jobs
        As for all dual variables.
    sampler : Sampler
    n_samples : int
        Labels of a visit, at most.
    """

    def __init__(
        self,
        data: CompiledData,
        weight: np.ndarray,
        n_jobs: int,
        sampler: Sampler,
        n_samples: int,
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
        self.samples = [self._samples(dtype) for _ in range(self.n_jobs)]

    def _samples(self, dtype: type) -> _Samples:
        room = _FIRST + self.wanted
        return _Samples(
            self.sampler.room(self.data, self.wanted, dtype),
            aligned_zeros(self.wanted * self.data.blocks.label_size, np.int32),
            aligned_zeros(self.wanted, np.float64),
            one_block(room),
            aligned_zeros(room, np.float64),
            aligned_zeros(2 * room, np.float64),
        )

    def visit_part(self, number, order, worker, stiffness, exact, gap, sums):
        blocks = self.data.blocks
        self.data.kernel(_merging_pass(self.sampler.make))(
            self.spaces[number], blocks.data, blocks.offsets, blocks.truth, order, self.weight,
            worker, stiffness, self.max_steps, self.seed, self.offsets, self.means,
            self.samples[number], self.buffers[number], gap, sums,
        )  # fmt: skip
        return order[:0]
