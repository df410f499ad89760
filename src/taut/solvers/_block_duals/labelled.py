"""Planes kept as labels, found by a compiled oracle."""

from __future__ import annotations

import numpy as np
from numba.extending import overload

from taut._jit import kernel
from taut.planes import Planes, append, corrective_steps, gram_of, labels_of, make_room
from taut.problem import CompiledData, Problem
from taut.solvers._block_duals.base import PlaneDual


def _gram_row(inner, oracles, data, i, truth, labels, new, work, scratch, row):
    """row[q] = <psi(new), psi(q)> for q <= new; `inner` holds the structure's own, or nothing."""
    raise TypeError("called from compiled functions only")


def _gram_row_by_inner(inner, oracles, data, i, truth, labels, new, work, scratch, row):
    for q in range(new + 1):
        row[q] = inner[0](data, i, labels[new], labels[q])


def _gram_row_by_scores(inner, oracles, data, i, truth, labels, new, work, scratch, row):
    """Scores against psi(new) as weights; `scratch` is zero, up to rounding, before and after."""
    pair = np.empty((2, truth.shape[0]), dtype=np.int32)
    for t in range(truth.shape[0]):
        pair[0, t] = truth[t]
        pair[1, t] = labels[new, t]
    oracles.add_features(data, i, pair, np.array([1.0, -1.0]), scratch)
    oracles.prepare(data, i, scratch, work)
    base = oracles.score(data, i, scratch, work, truth)
    for q in range(new + 1):
        row[q] = base - oracles.score(data, i, scratch, work, labels[q])
    oracles.add_features(data, i, pair, np.array([-1.0, 1.0]), scratch)


@overload(_gram_row, strict=False)
def _choose_gram_row(inner, *_):
    return _gram_row_by_inner if len(inner) else _gram_row_by_scores


@kernel
def _plane_pass(
    oracles, inner, data, offsets, truth, order, weight, w, stiffness, exact, max_steps, planes,
    work, spare, scratch, gap, sums, progress,
):  # fmt: skip
    """Visit blocks in order from progress[0]; stop before a block when the pools must grow.

    A visit: violations of the stored planes; the oracle's plane, when `exact` and when it beats
    them; corrective steps. progress[0] is the next position.
    """
    longest = 0
    for i in range(offsets.shape[0] - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    found = np.empty(longest, dtype=np.int32)
    most = 16
    violation = np.empty(most)
    change = np.empty(most)
    row = np.empty(most)
    while progress[0] < order.shape[0]:
        i = order[progress[0]]
        if exact and not make_room(planes, i):
            break
        if planes.capacity[i] >= most:  # the block has just moved to a larger room
            most = 2 * planes.capacity[i] + 1
            violation = np.empty(most)
            change = np.empty(most)
            row = np.empty(most)
        size = offsets[i + 1] - offsets[i]
        own = truth[offsets[i] : offsets[i + 1]]
        labels = labels_of(planes, i)
        start = planes.slot[i]
        count = planes.n_planes[i]
        oracles.prepare(data, i, w, work)
        base = oracles.score(data, i, w, work, own)
        violation[0] = 0.0
        worst = 0.0
        mean = 0.0
        for q in range(1, count):
            value = planes.loss[start + q] - base + oracles.score(data, i, w, work, labels[q])
            violation[q] = value
            mean += planes.coef[start + q] * value
            worst = max(worst, value)
        if exact:
            value = oracles.argmax(data, i, w, work, 1.0, found[:size]) - base
            # A label that is stored already comes back with the same value up to rounding.
            if value > worst + 1e-12 * (1.0 + abs(worst)):
                worst = value
                new = append(planes, i, found[:size], oracles.loss(data, i, found[:size]))
                violation[new] = value
                _gram_row(inner, oracles, data, i, own, labels, new, spare, scratch, row)
                gram = gram_of(planes, i)
                for q in range(new + 1):
                    gram[new, q] = row[q]
                    gram[q, new] = row[q]
                count = new + 1
            gap[i] = weight[i] * worst - mean
        loss, length = corrective_steps(planes, i, violation, stiffness, max_steps, change)
        sums[0] += loss
        sums[1] += length
        moved = False
        for q in range(count):
            moved |= change[q] != 0.0
            change[q] /= -stiffness
        if moved:
            oracles.add_features(data, i, labels[:count], change[:count], w)
        progress[0] += 1


@kernel
def _plane_vector(oracles, data, planes, U):
    """U = sum_iq coef_iq psi_i(q): plane 0 is the truth, and its phi is in every psi."""
    for i in range(planes.n_planes.shape[0]):
        count = planes.n_planes[i]
        start = planes.slot[i]
        scales = np.empty(count)
        scales[0] = 0.0
        for q in range(1, count):
            scales[q] = -planes.coef[start + q]
            scales[0] += planes.coef[start + q]
        oracles.add_features(data, i, labels_of(planes, i)[:count], scales, U)


class LabelledDual(PlaneDual):
    """Planes kept as labels; psi is rebuilt from the data."""

    data: CompiledData

    def __init__(self, problem: Problem, max_steps: int) -> None:
        super().__init__(problem, max_steps)
        blocks = self.data.blocks
        self.planes = Planes(self.weight, blocks.truth, blocks.offsets)
        inner = self.data.structure.oracle("inner", blocks.data)
        self.inner = (inner,) if inner is not None else ()
        self.work, self.spare = np.empty(blocks.work_size), np.empty(blocks.work_size)
        self.scratch = np.zeros(0 if self.inner else self.data.n_features)

    def visit(self, order, w, stiffness, exact, gap, sums):
        blocks, progress = self.data.blocks, np.zeros(1, dtype=np.int64)
        while True:
            _plane_pass(
                self.data.oracles, self.inner, blocks.data, blocks.offsets, blocks.truth, order,
                self.weight, w, stiffness, exact, self.max_steps, self.planes.arrays,
                self.work, self.spare, self.scratch, gap, sums, progress,
            )  # fmt: skip
            if progress[0] == len(order):
                return
            self.planes.grow()

    def vector(self):
        U = np.zeros(self.data.n_features)
        _plane_vector(self.data.oracles, self.data.blocks.data, self.planes.arrays, U)
        return U

    def arrays(self):
        # The scratch vector is zero only up to rounding, which an exact resumption must know.
        return super().arrays() | {"scratch": self.scratch}

    def restore(self, arrays, factor):
        super().restore(arrays, factor)
        self.scratch[:] = arrays["scratch"]
