"""What all dual variables that are means of label statistics share: storage, sums, lengths."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taut.binding import CompiledData
from taut.compiled.jit import helper
from taut.compiled.lanes import aligned_zeros
from taut.data.arrays import ranges
from taut.duals.base import BlockDual
from taut.storage.stored import Stored, check

_SLACK = 1e-5  # that rounding in single precision may leave between a probability and its bounds


class MeanBuffers(NamedTuple):
    """Room for one visit; compiled code makes no arrays.

    `space` is for lengths of moves: what the oracles see there is not bounded.
    """

    space: tuple
    work: np.ndarray
    spare: np.ndarray
    scratch: np.ndarray
    delta: np.ndarray
    truth: np.ndarray
    none: np.ndarray
    sign: np.ndarray


def square_of(oracles):
    """A function that returns |A delta|^2."""
    pull, mean_score, add_mean = oracles.pull, oracles.mean_score, oracles.add_mean
    mean_square = oracles.mean_square

    def by_structure(data, i, delta, buffers):
        return mean_square(data, i, buffers.spare, delta)

    def by_scores(data, i, delta, buffers):
        """Scores against A delta as weights; `scratch` is zero, up to rounding, in between."""
        add_mean(buffers.space, i, delta, 1.0, buffers.spare, buffers.scratch)
        pull(buffers.space, i, buffers.scratch, buffers.spare)
        square = mean_score(data, i, buffers.spare, delta)
        add_mean(buffers.space, i, delta, -1.0, buffers.spare, buffers.scratch)
        return square

    return helper(by_scores if mean_square is None else by_structure)


def _sums(oracles):
    normalise, mean_of = oracles.normalise, oracles.mean_of
    mean_loss, add_mean = oracles.mean_loss, oracles.add_mean

    def sums(space, data, offsets, truth, weight, mean_offsets, means, buffers, U):
        """U += sum of weight A (s(truth) - mean), of means made exact; the summed loss."""
        total = 0.0
        for i in range(offsets.shape[0] - 1):
            size = mean_offsets[i + 1] - mean_offsets[i]
            mean, own = buffers.delta[:size], buffers.truth[:size]
            for p in range(size):
                mean[p] = means[mean_offsets[i] + p]
            normalise(data, i, mean)
            total += weight[i] * mean_loss(data, i, mean)
            if U.shape[0] > 0 and weight[i] > 0.0:
                mean_of(data, i, truth[offsets[i] : offsets[i + 1]], own)
                for p in range(size):
                    mean[p] -= own[p]
                add_mean(space, i, mean, -weight[i], buffers.work, U)
        return total

    return sums


def _curvatures(oracles):
    pull, argmax, mean_of = oracles.pull, oracles.argmax, oracles.mean_of
    square = square_of(oracles)

    def curvatures(space, data, offsets, truth, w, label, mean_offsets, buffers, out):
        """out[i] = |psi|^2 of the label of highest loss; w is zero."""
        for i in range(out.shape[0]):
            size = mean_offsets[i + 1] - mean_offsets[i]
            worst, own = buffers.delta[:size], buffers.truth[:size]
            found = label[: offsets[i + 1] - offsets[i]]
            pull(space, i, w, buffers.work)
            argmax(data, i, buffers.work, 1.0, found)
            mean_of(data, i, found, worst)
            mean_of(data, i, truth[offsets[i] : offsets[i + 1]], own)
            for p in range(size):
                worst[p] -= own[p]
            out[i] = square(data, i, worst, buffers)

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
        self.buffers = [self._buffers(dtype, k) for k in range(self.n_jobs)]
        if self.means.dtype != dtype:
            means = aligned_zeros(len(self.means), dtype)
            means[:] = self.means
            self.means = means

    def _buffers(self, dtype: type, number: int) -> MeanBuffers:
        blocks, oracles = self.data.blocks, self.data.oracles
        by_scores = oracles.mean_square is None or oracles.inner is None
        return MeanBuffers(
            space=self.data.space(dtype, bounds=False, number=number),
            work=aligned_zeros(blocks.work_size, dtype),
            spare=aligned_zeros(blocks.work_size, dtype),
            scratch=aligned_zeros(self.data.size if by_scores else 0, dtype),
            delta=aligned_zeros(blocks.mean_size, dtype),
            truth=aligned_zeros(blocks.mean_size, dtype),
            none=aligned_zeros(0, dtype),
            sign=np.ones(1),
        )

    def add_vector(self, U):
        self.sum_up(U)

    @property
    def loss_sum(self):
        return self.sum_up(np.empty(0))

    def sum_up(self, U):
        blocks = self.data.blocks
        return float(
            self.data.kernel(_sums)(
                self.data.space(U.dtype), blocks.data, blocks.offsets, blocks.truth, self.weight,
                self.offsets, self.means, self._buffers(np.float64, 0), U,
            )
        )  # fmt: skip

    def curvature(self):
        blocks, out = self.data.blocks, np.empty(self.data.n_blocks)
        dtype = self.means.dtype
        self.data.kernel(_curvatures)(
            self.spaces[0], blocks.data, blocks.offsets, blocks.truth,
            aligned_zeros(self.data.size, dtype), np.empty(blocks.label_size, dtype=np.int32),
            self.offsets, self.buffers[0], out,
        )  # fmt: skip
        return out

    def arrays(self):
        # The scratch vector is zero only up to rounding, which an exact resumption must know.
        return {"mean": self.means, "scratch": self.buffers[0].scratch}

    def check(self, arrays, weight):
        # `normalise` makes a mean of any such numbers, so that sums need not be looked at.
        check(arrays, {"mean": Stored("f4 f8", self.means.shape, -_SLACK, 1.0 + _SLACK)})
        if "scratch" in arrays:
            check(arrays, {"scratch": Stored("f4 f8", (None,))})

    def restore(self, arrays, factor):
        self.means[:] = arrays["mean"]  # of weight 1, whatever the blocks' weights are
        if len(arrays["scratch"]) == len(self.buffers[0].scratch):
            self.buffers[0].scratch[:] = arrays["scratch"]

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
