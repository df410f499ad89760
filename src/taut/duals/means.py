"""What all dual variables that are means of label statistics share: storage, sums, lengths."""

from __future__ import annotations

import numpy as np

from taut.binding import Arena, CompiledData
from taut.compiled.jit import helper
from taut.compiled.lanes import aligned_zeros
from taut.data.arrays import ranges
from taut.duals.base import BlockDual
from taut.spaces.labels import square_of
from taut.storage.stored import Stored, check

_SLACK = 1e-5  # that rounding in single precision may leave between a probability and its bounds


def score_of_means(operations):
    """A function that writes the statistics of a mean, and returns its score and their number."""
    spread, n_all = operations.spread, operations.n_all

    def score(space, data, i, mean, arena):
        statistics = arena.statistics
        spread(data, i, mean, statistics)
        size = n_all(space, i, statistics)
        total = 0.0
        for p in range(size):
            total += statistics[p] * arena.work[p]
        return total, size

    return helper(score)


def _sums(operations):
    normalise, mean_of, mean_loss = operations.normalise, operations.mean_of, operations.mean_loss
    spread, push, n_all = operations.spread, operations.push, operations.n_all

    def sums(space, data, offsets, truth, weight, mean_offsets, means, arena, U):
        """U += sum of weight A (s(truth) - mean), of means made exact; the summed loss."""
        total = 0.0
        statistics = arena.statistics
        for i in range(offsets.shape[0] - 1):
            size = mean_offsets[i + 1] - mean_offsets[i]
            mean, own = arena.mean[:size], arena.own_mean[:size]
            for p in range(size):
                mean[p] = means[mean_offsets[i] + p]
            normalise(data, i, mean)
            total += weight[i] * mean_loss(data, i, mean)
            if U.shape[0] > 0 and weight[i] > 0.0:
                mean_of(data, i, truth[offsets[i] : offsets[i + 1]], own)
                for p in range(size):
                    mean[p] = weight[i] * (own[p] - mean[p])
                spread(data, i, mean, statistics)
                push(space, i, statistics, n_all(space, i, statistics), 0.0, U)
        return total

    return sums


def _curvatures(operations):
    pull, argmax, mean_of = operations.pull, operations.argmax, operations.mean_of
    spread, n_all, square = operations.spread, operations.n_all, square_of(operations)

    def curvatures(space, data, offsets, truth, w, label, mean_offsets, arena, out):
        """out[i] = |psi|^2 of the label of highest loss; w is zero."""
        statistics = arena.statistics
        for i in range(out.shape[0]):
            size = mean_offsets[i + 1] - mean_offsets[i]
            worst, own = arena.mean[:size], arena.own_mean[:size]
            found = label[: offsets[i + 1] - offsets[i]]
            pull(space, i, w, arena.work)
            argmax(data, i, arena.work, 1.0, found)
            mean_of(data, i, found, worst)
            mean_of(data, i, truth[offsets[i] : offsets[i + 1]], own)
            for p in range(size):
                worst[p] -= own[p]
            spread(data, i, worst, statistics)
            out[i] = square(
                arena.products, i, statistics, n_all(space, i, statistics)
            )  # fmt: skip

    return curvatures


class MeanDual(BlockDual):
    """A mean for each block: what its distribution over labels amounts to, times its weight."""

    cached_visits = False
    data: CompiledData

    def __init__(self, data: CompiledData, weight: np.ndarray, n_jobs: int) -> None:
        super().__init__(data, weight, n_jobs)
        assert data.blocks.mean_offsets is not None
        self.offsets = data.blocks.mean_offsets
        self.means = aligned_zeros(self.offsets[-1], data.dtype)
        self.allocate(data.dtype)

    def allocate(self, dtype):
        self.spaces = [self.data.space(dtype, number=k) for k in range(self.n_jobs)]
        self.arenas = [self._arena(dtype, k) for k in range(self.n_jobs)]
        if self.means.dtype != dtype:
            means = aligned_zeros(len(self.means), dtype)
            means[:] = self.means
            self.means = means

    def _arena(self, dtype: type, number: int) -> Arena:
        return self.data.arena(dtype, number)

    def sum_up(self, U):
        blocks = self.data.blocks
        return float(
            self.data.kernel(_sums)(
                self.data.space(U.dtype), blocks.data, blocks.offsets, blocks.truth, self.weight,
                self.offsets, self.means, self.data.arena(np.float64), U,
            )
        )  # fmt: skip

    def curvature(self):
        blocks, out = self.data.blocks, np.empty(self.data.n_blocks)
        dtype = self.means.dtype
        self.data.kernel(_curvatures)(
            self.spaces[0], blocks.data, blocks.offsets, blocks.truth,
            aligned_zeros(self.data.size, dtype), np.empty(blocks.label_size, dtype=np.int32),
            self.offsets, self.arenas[0], out,
        )  # fmt: skip
        return out

    def arrays(self):
        # The scratch vector is zero only up to rounding, which an exact resumption must know.
        return {"mean": self.means, "scratch": self.arenas[0].products.scratch}

    def check(self, arrays, weight):
        # `normalise` makes a mean of any such numbers, so that sums need not be looked at.
        check(arrays, {"mean": Stored("f4 f8", self.means.shape, -_SLACK, 1.0 + _SLACK)})
        if "scratch" in arrays:
            check(arrays, {"scratch": Stored("f4 f8", (None,))})

    def restore(self, arrays, factor):
        self.means[:] = arrays["mean"]  # of weight 1, whatever the blocks' weights are
        if len(arrays["scratch"]) == len(self.arenas[0].products.scratch):
            self.arenas[0].products.scratch[:] = arrays["scratch"]

    def complete(self):
        """Nothing is lacking: means are of weight 1."""

    def used(self):
        return self.weight  # a mean is of weight 1, and tells shares, not amounts

    def take(self, blocks):
        return {"mean": self.means[ranges(self.offsets[blocks], self._sizes(blocks))]}

    def put(self, blocks, arrays):
        self.means[ranges(self.offsets[blocks], self._sizes(blocks))] = arrays["mean"]

    def _sizes(self, blocks: np.ndarray) -> np.ndarray:
        return self.offsets[blocks + 1] - self.offsets[blocks]

    @property
    def nbytes(self):
        return self.means.nbytes
