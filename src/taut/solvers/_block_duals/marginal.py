"""Means of label statistics: each block's distribution over labels, by its marginals."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from taut._jit import helper
from taut._lanes import aligned_zeros
from taut.binding import CompiledData
from taut.planes import ranges
from taut.solvers._block_duals.base import BlockDual
from taut.solvers._block_duals.threads import exchange, until_exchange

_FIRST = 1e-3  # share of the uniform distribution in the first mean, the rest being the truth
_LONGEST = 1.0 - 2.0**-52  # a whole step would leave a face of the polytope for good
_NOTHING = 1e-15  # a gain per unit of weight that rounding explains


class _Buffers(NamedTuple):
    """Room for one visit; compiled code makes no arrays.

    `data` is for lengths of moves: what the oracles see there is not bounded.
    """

    data: tuple
    work: np.ndarray
    spare: np.ndarray
    scratch: np.ndarray
    delta: np.ndarray
    truth: np.ndarray
    none: np.ndarray


def _square_of(oracles):
    """A function that returns |A delta|^2."""
    prepare, mean_score, add_mean = oracles.prepare, oracles.mean_score, oracles.add_mean
    mean_square = oracles.mean_square

    def by_structure(data, i, delta, buffers):
        return mean_square(data, i, buffers.spare, delta)

    def by_scores(data, i, delta, buffers):
        """Scores against A delta as weights; `scratch` is zero, up to rounding, in between."""
        add_mean(buffers.data, i, delta, 1.0, buffers.spare, buffers.scratch)
        prepare(buffers.data, i, buffers.scratch, buffers.spare)
        square = mean_score(buffers.data, i, buffers.scratch, buffers.spare, delta)
        add_mean(buffers.data, i, delta, -1.0, buffers.spare, buffers.scratch)
        return square

    return helper(by_scores if mean_square is None else by_structure)


def _visits(oracles):
    prepare, add_mean = oracles.prepare, oracles.add_mean
    mean_score, mean_loss = oracles.mean_score, oracles.mean_loss
    ask_for, expect, square_of = oracles.prefetch, oracles.expect, _square_of(oracles)

    def visits(
        data, order, weight, worker, stiffness, temperature, exact, offsets, means, buffers, gap,
        sums,
    ):  # fmt: skip
        """Visit blocks in order: a step from the present mean towards that of the oracle.

        The step is exact, or whole where `exact` is False.
        """
        w, work = worker.w, buffers.work
        last = order.shape[0] - 1
        begin = 0
        while begin <= last:
            end = until_exchange(worker, begin, order.shape[0])
            for position in range(begin, end):
                ask_for(data, order[min(position + 1, last)])
                i = order[position]
                mean = means[offsets[i] : offsets[i + 1]]
                delta = buffers.delta[: mean.shape[0]]
                prepare(data, i, w, work)
                expect(data, i, w, work, temperature, 1.0, mean, delta)
                for p in range(mean.shape[0]):
                    delta[p] -= mean[p]
                loss = mean_loss(data, i, delta)
                gain = mean_score(data, i, w, work, delta) + loss
                gap[i] = weight[i] * max(gain, 0.0)
                square = square_of(data, i, delta, buffers)
                step = _LONGEST
                # Moves that rounding hides are made whole: labels grow from next to nothing so.
                if exact and stiffness * max(gain, _NOTHING) < step * weight[i] * square:
                    step = stiffness * max(gain, 0.0) / (weight[i] * square)
                for p in range(mean.shape[0]):
                    mean[p] += step * delta[p]
                move = step * weight[i]
                add_mean(data, i, delta, move / -stiffness, work, w)
                if worker.own.shape[0] > 0:
                    add_mean(data, i, delta, move / -stiffness, work, worker.own)
                sums[0] += move * loss
                sums[1] += move * move * square
            exchange(worker)
            begin = end

    return visits


def _first_means(oracles):
    prepare, expect, mean_of = oracles.prepare, oracles.expect, oracles.mean_of

    def first_means(data, offsets, truth, w, share, mean_offsets, buffers, means):
        """All but a small share on the truth, and that share on all labels alike; w is zero."""
        for i in range(offsets.shape[0] - 1):
            mean = means[mean_offsets[i] : mean_offsets[i + 1]]
            delta = buffers.delta[: mean.shape[0]]
            prepare(data, i, w, buffers.work)
            expect(data, i, w, buffers.work, 1.0, 0.0, buffers.none, mean)
            mean_of(data, i, truth[offsets[i] : offsets[i + 1]], delta)
            for p in range(mean.shape[0]):
                mean[p] += (1.0 - share) * (delta[p] - mean[p])

    return first_means


def _vector(oracles):
    normalise, mean_of = oracles.normalise, oracles.mean_of
    mean_loss, add_mean = oracles.mean_loss, oracles.add_mean

    def vector(data, offsets, truth, weight, mean_offsets, means, buffers, U):
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
                add_mean(data, i, mean, -weight[i], buffers.work, U)
        return total

    return vector


def _curvatures(oracles):
    prepare, argmax, mean_of = oracles.prepare, oracles.argmax, oracles.mean_of
    square_of = _square_of(oracles)

    def curvatures(data, offsets, truth, w, label, mean_offsets, buffers, out):
        """out[i] = |psi|^2 of the label of highest loss; w is zero."""
        for i in range(out.shape[0]):
            size = mean_offsets[i + 1] - mean_offsets[i]
            worst, own = buffers.delta[:size], buffers.truth[:size]
            found = label[: offsets[i + 1] - offsets[i]]
            prepare(data, i, w, buffers.work)
            argmax(data, i, w, buffers.work, 1.0, found)
            mean_of(data, i, found, worst)
            mean_of(data, i, truth[offsets[i] : offsets[i + 1]], own)
            for p in range(size):
                worst[p] -= own[p]
            out[i] = square_of(data, i, worst, buffers)

    return curvatures


class MarginalDual(BlockDual):
    """A mean for each block: what its distribution over labels amounts to, times its weight.

    Parameters
    ----------
    data, weight, n_jobs
        As for all dual variables.
    temperature : float
        Of the entropy that is linearised around.
    exact : bool
        Whether steps are exact; whole ones otherwise.
    """

    cached_visits = False
    at_zero = False
    data: CompiledData

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
        assert data.blocks.mean_offsets is not None
        self.offsets = data.blocks.mean_offsets
        self.means = aligned_zeros(self.offsets[-1], data.dtype)
        self.allocate(data.dtype)
        blocks = data.blocks
        data.kernel(_first_means)(
            self.local_data[0], blocks.offsets, blocks.truth, aligned_zeros(data.size, data.dtype),
            _FIRST, self.offsets, self.buffers[0], self.means,
        )  # fmt: skip

    def allocate(self, dtype):
        self.local_data = [self.data.local_data(dtype, number=k) for k in range(self.n_jobs)]
        self.buffers = [self._buffers(dtype, k) for k in range(self.n_jobs)]
        if self.means.dtype != dtype:
            means = aligned_zeros(len(self.means), dtype)
            means[:] = self.means
            self.means = means

    def _buffers(self, dtype: type, number: int) -> _Buffers:
        blocks, by_scores = self.data.blocks, self.data.oracles.mean_square is None
        return _Buffers(
            data=self.data.local_data(dtype, bounds=False, number=number),
            work=aligned_zeros(blocks.work_size, dtype),
            spare=aligned_zeros(blocks.work_size, dtype),
            scratch=aligned_zeros(self.data.size if by_scores else 0, dtype),
            delta=aligned_zeros(blocks.mean_size, dtype),
            truth=aligned_zeros(blocks.mean_size, dtype),
            none=aligned_zeros(0, dtype),
        )

    def visit_part(self, number, order, worker, stiffness, exact, gap, sums):
        self.data.kernel(_visits)(
            self.local_data[number], order, self.weight, worker, stiffness, self.temperature,
            self.exact, self.offsets, self.means, self.buffers[number], gap, sums,
        )  # fmt: skip
        return order[:0]

    def add_vector(self, U):
        self.sum_up(U)

    @property
    def loss_sum(self):
        return self.sum_up(np.empty(0))

    def sum_up(self, U):
        blocks = self.data.blocks
        return float(
            self.data.kernel(_vector)(
                self.data.local_data(U.dtype), blocks.offsets, blocks.truth, self.weight,
                self.offsets, self.means, self._buffers(np.float64, 0), U,
            )
        )  # fmt: skip

    def curvature(self):
        blocks, out = self.data.blocks, np.empty(self.data.n_blocks)
        dtype = self.means.dtype
        self.data.kernel(_curvatures)(
            self.local_data[0], blocks.offsets, blocks.truth, aligned_zeros(self.data.size, dtype),
            np.empty(blocks.label_size, dtype=np.int32), self.offsets, self.buffers[0], out,
        )  # fmt: skip
        return out

    def arrays(self):
        # The scratch vector is zero only up to rounding, which an exact resumption must know.
        return {"mean": self.means, "scratch": self.buffers[0].scratch}

    def restore(self, arrays, factor):
        self.means[:] = arrays["mean"]  # of weight 1, whatever the blocks' weights are
        if len(arrays["scratch"]) == len(self.buffers[0].scratch):
            self.buffers[0].scratch[:] = arrays["scratch"]

    def complete(self):
        """Nothing is lacking: means are of weight 1."""

    def used(self):
        return self.weight  # no label ever has nothing

    def take(self, blocks):
        return {"mean": self.means[ranges(self.offsets[blocks], self._sizes(blocks))]}

    def put(self, blocks, arrays):
        self.means[ranges(self.offsets[blocks], self._sizes(blocks))] = arrays["mean"]

    def _sizes(self, blocks: np.ndarray) -> np.ndarray:
        return self.offsets[blocks + 1] - self.offsets[blocks]

    @property
    def nbytes(self):
        return self.means.nbytes


@functools.cache
def _directions(hard):
    """What builds the loop that collects directions: towards one label, or towards a mean."""

    def make(oracles):
        return _collect(oracles, _hard(oracles) if hard else _soft(oracles))

    return make


def _soft(oracles):
    expect = oracles.expect

    def toward(data, i, w, work, temperature, mean, found, out):
        expect(data, i, w, work, temperature, 1.0, mean, out)

    return helper(toward)


def _hard(oracles):
    argmax, mean_of = oracles.argmax, oracles.mean_of

    def toward(data, i, w, work, temperature, mean, found, out):
        argmax(data, i, w, work, 1.0, found)
        mean_of(data, i, found, out)

    return helper(toward)


def _collect(oracles, toward):
    prepare, add_mean = oracles.prepare, oracles.add_mean
    mean_score, mean_loss = oracles.mean_score, oracles.mean_loss

    def collect(
        data, offsets, order, weight, w, temperature, mean_offsets, means, deltas, work, label,
        gap, move, slopes,
    ):  # fmt: skip
        """Where all blocks would go; what that adds to U, to the dual's slope and to its loss."""
        for i in order:
            mean = means[mean_offsets[i] : mean_offsets[i + 1]]
            delta = deltas[mean_offsets[i] : mean_offsets[i + 1]]
            prepare(data, i, w, work)
            toward(data, i, w, work, temperature, mean, label[: offsets[i + 1] - offsets[i]], delta)
            for p in range(mean.shape[0]):
                delta[p] -= mean[p]
            loss = mean_loss(data, i, delta)
            gain = mean_score(data, i, w, work, delta) + loss
            gap[i] = weight[i] * max(gain, 0.0)
            slopes[0] += weight[i] * gain
            slopes[1] += weight[i] * loss
            add_mean(data, i, delta, -weight[i], work, move)

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

    def visit_part(self, number, order, worker, stiffness, exact, gap, sums):
        blocks = self.data.blocks
        self.data.kernel(_directions(self.temperature == 0.0))(
            self.local_data[0], blocks.offsets, order, self.weight, worker.w, self.temperature,
            self.offsets, self.means, self.deltas, self.buffers[0].work,
            np.empty(blocks.label_size, dtype=np.int32), gap, self.move, self.slopes,
        )  # fmt: skip
        return order[:0]

    def finish(self, w, stiffness, sums):
        (slope, loss), square = self.slopes, float(self.move @ self.move)
        step = _LONGEST if self.temperature > 0.0 else 1.0
        if self.exact and stiffness * slope < step * square:
            step = max(stiffness * slope / square, 0.0)
        self.means += self.means.dtype.type(step) * self.deltas
        w += w.dtype.type(step / stiffness) * self.move
        sums += step * loss, step**2 * square
        self.move[:] = 0.0
        self.slopes[:] = 0.0
