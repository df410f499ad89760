"""One weight per label, where labels are few and the block step is exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.binding import CompiledData
from taut.compiled.label_rows import Listed, listed_labels
from taut.compiled.lanes import prefetch
from taut.duals.base import BlockDual, looking_of
from taut.duals.support import LabelsInUse
from taut.duals.threads import exchange, pushing_of
from taut.spaces.labels import Lifted, Scatter, adding_of
from taut.storage.stored import Stored, check, check_totals

_AHEAD = 2  # visits between asking for a block's data and using them


def _exact_pass(operations):
    pull, exact_step, push_to = operations.pull, operations.exact_step, pushing_of(operations)
    ask_for_rows, ask_for, n_all = operations.ask, operations.prefetch, operations.n_all
    square, rise_of = operations.square, operations.rise

    def exact_pass(space, data, order, weight, worker, stiffness, work, change, alpha, gap, sums):
        """Visit blocks in order; the exact block step over all labels."""
        last = order.shape[0] - 1
        begin = 0
        while begin <= last:
            # Not asked in each visit: that took 2 % of those of a9a.
            exchange(worker, begin)
            end = min(begin + worker.interval, last + 1) if worker.interval > 0 else last + 1
            for position in range(begin, end):
                ahead = order[min(position + _AHEAD, last)]
                ask_for_rows(space, ahead)
                ask_for(data, ahead)
                prefetch(alpha, ahead * alpha.shape[1])
                i = order[position]
                pull(space, i, worker.w, work)
                rise = rise_of(space, i)
                gap[i], loss, length = exact_step(
                    data, i, work, square(space, i), weight[i], stiffness / rise, alpha[i], change
                )
                if length > 0.0:
                    size = n_all(space, i, change)
                    # The potentials are no longer needed.
                    push_to(space, i, change, size, -1.0 / stiffness, work, worker)
                sums[0] += loss
                sums[1] += rise * length
            begin = end

    return exact_pass


def _gaps(operations):
    look = looking_of(operations)

    def gaps(space, data, listed, offsets, truth, weight, alpha, w, work, label, out):
        """out[i] = the gap of block i."""
        for i in range(out.shape[0]):
            own, labels = truth[offsets[i] : offsets[i + 1]], listed_labels(listed, i)
            coef = alpha[i, : labels.shape[0]]
            out[i] = look(space, data, i, own, labels, coef, weight[i], w, work, label)

    return gaps


def _exact_sums(operations):
    add_labels, loss = adding_of(operations), operations.loss

    def exact_sums(space, data, listed, truth_place, alpha, statistics, change, U):
        """U += sum_ik alpha_ik (phi(truth) - phi(k)), unless it is empty; the summed loss.

        A truth that is no label has phi = 0.
        """
        total = 0.0
        for i in range(alpha.shape[0]):
            labels = listed_labels(listed, i)
            others = 0.0
            for k in range(labels.shape[0]):
                change[k] = -alpha[i, k] if k != truth_place[i] else 0.0
                others -= change[k]
                if change[k] != 0.0:
                    total -= change[k] * loss(data, i, labels[k])
            if others > 0.0 and U.shape[0] > 0:
                if truth_place[i] >= 0:
                    change[truth_place[i]] = others
                add_labels(space, data, i, labels, change[: labels.shape[0]], statistics, U)
        return total

    return exact_sums


def _largest_squares(operations):
    parts, lift, n_all = operations.parts, operations.lift, operations.n_all

    def largest_squares(data, listed, offsets, truth, room, row, out):
        """out[i] = the largest |psi|^2 of block i."""
        space, scratch, s, lifted = room
        for i in range(out.shape[0]):
            size = n_all(space, i, s)
            own, all_labels = truth[offsets[i] : offsets[i + 1]], listed_labels(listed, i)
            base = 0.0
            out[i] = 0.0
            for k in range(-1, all_labels.shape[0]):
                label = own if k < 0 else all_labels[k]
                parts(data, i, label, Scatter(s, s, size, 0, 1.0))
                end, factor = lift(space, i, s, size, scratch, lifted)
                square = parts(data, i, label, Lifted(lifted, s, end, factor))
                if k < 0:
                    base = square
                    for q in range(all_labels.shape[0]):
                        row[q] = parts(data, i, all_labels[q], Lifted(lifted, s, end, factor))
                else:
                    out[i] = max(out[i], base + square - 2.0 * row[k])
                parts(data, i, label, Scatter(s, s, size, 0, -1.0))

    return largest_squares


def find_truths(listed: Listed, blocks: Any) -> np.ndarray:
    """The row of each block's truth among its labels, or -1."""
    truth = blocks.truth.reshape(blocks.n_blocks, -1)
    if listed.step == 0 and truth.shape[1] == 1:
        order = np.argsort(listed.rows[:, 0])
        known = listed.rows[order, 0]
        place = np.minimum(np.searchsorted(known, truth[:, 0]), len(known) - 1)
        return np.where(known[place] == truth[:, 0], order[place], -1)
    found = np.full(len(truth), -1)
    for i, label in enumerate(truth):
        same = np.flatnonzero((listed.own(i) == label).all(axis=1))
        found[i] = same[0] if len(same) else -1
    return found


class EnumeratedDual(BlockDual):
    """One weight per label: alpha of shape (n_blocks, n_labels)."""

    averages = True
    cached_visits = False
    data: CompiledData

    def __init__(self, data: CompiledData, weight: np.ndarray, n_jobs: int) -> None:
        super().__init__(data, weight, n_jobs)
        self.listed = data.listed
        self.allocate(data.dtype)
        self.alpha = np.zeros((data.n_blocks, self.listed.most))
        self.truth_place = find_truths(self.listed, data.blocks)
        self._give_truths(self.weight)

    def look(self, w, gap):
        blocks, arena = self.data.blocks, self.arenas[0]
        self.data.kernel(_gaps)(
            self.spaces[0], blocks.data, self.listed, blocks.offsets, blocks.truth, self.weight,
            self.alpha, w, arena.work, arena.found, gap,
        )  # fmt: skip

    def _give_truths(self, amount: np.ndarray) -> None:
        """Add to the weights of the truths, where they are among the labels: U stays."""
        among = np.flatnonzero(self.truth_place >= 0)
        self.alpha[among, self.truth_place[among]] += amount[among]

    def allocate(self, dtype):
        self.spaces = [self.data.space(dtype, number=k) for k in range(self.n_jobs)]
        most = self.data.blocks.features.n_potentials
        self.arenas = [self.data.arena(dtype, k, n_planes=most) for k in range(self.n_jobs)]

    def visit_part(self, number, order, worker, stiffness, asks, gap, sums):
        arena = self.arenas[number]
        self.data.kernel(_exact_pass)(
            self.spaces[number], self.data.blocks.data, order, self.weight, worker, stiffness,
            arena.work, arena.change, self.alpha, gap, sums,
        )  # fmt: skip
        return order[:0]

    def sum_up(self, U):
        return float(
            self.data.kernel(_exact_sums)(
                self.data.space(U.dtype), self.data.blocks.data, self.listed, self.truth_place,
                self.alpha, self.data.statistics(U.dtype), np.empty(self.listed.most), U,
            )
        )  # fmt: skip

    def curvature(self):
        data, blocks, out = self.data, self.data.blocks, np.empty(self.data.n_blocks)
        room = data.product_room(np.float64, data.own_space, blocks.features.lifts)
        data.own_kernel(_largest_squares)(
            blocks.data, self.listed, blocks.offsets, blocks.truth, room,
            np.empty(self.listed.most), out,
        )  # fmt: skip
        return out if self.data.prior.trivial else out * self.data.rises

    def arrays(self):
        return {"alpha": self.alpha}

    def check(self, arrays, weight):
        check(arrays, {"alpha": Stored("f8", self.alpha.shape, 0.0)})
        check_totals(arrays["alpha"].sum(axis=1), weight, whole=self.truth_place >= 0)

    def restore(self, arrays, factor):
        self.alpha[:] = arrays["alpha"] * factor[:, None]

    def complete(self):
        self._give_truths(np.maximum(self.weight - self.alpha.sum(axis=1), 0.0))

    def used(self):
        among = np.flatnonzero(self.truth_place >= 0)
        total = self.alpha.sum(axis=1)
        total[among] = 0.0
        for k in range(self.alpha.shape[1]):
            others = among[self.truth_place[among] != k]
            total[others] += self.alpha[others, k]
        return total

    def labels_in_use(self):
        others = self.alpha > 0.0
        among = np.flatnonzero(self.truth_place >= 0)
        others[among, self.truth_place[among]] = False
        block, k = np.nonzero(others)
        labels = self.listed.rows[self.listed.starts[self.listed.step * block] + k]
        offsets = labels.shape[1] * np.arange(len(block) + 1)
        return LabelsInUse(block, self.alpha[block, k], offsets, labels.ravel())

    def take(self, blocks):
        return {"alpha": self.alpha[blocks]}

    def put(self, blocks, arrays):
        self.alpha[blocks] = arrays["alpha"]

    def approach(self, other, share):
        self.alpha += share * (other.alpha - self.alpha)

    @property
    def nbytes(self):
        return self.alpha.nbytes
