"""One weight per label, where labels are few and the block step is exact."""

from __future__ import annotations

import numpy as np

from taut._jit import kernel
from taut.problem import CompiledData, Problem
from taut.solvers._block_duals.base import BlockDual


@kernel
def _exact_pass(
    oracles, exact_step, data, all_labels, order, weight, w, stiffness, work, alpha, gap, sums
):
    """Visit blocks in order; the exact block step over all labels."""
    n_labels = all_labels.shape[0]
    change = np.empty(n_labels)
    for i in order:
        oracles.prepare(data, i, w, work)
        gap[i], loss, length = exact_step(data, i, work, weight[i], stiffness, alpha[i], change)
        moved = False
        for k in range(n_labels):
            change[k] /= -stiffness
            moved |= change[k] != 0.0
        if moved:
            oracles.add_features(data, i, all_labels, change, w)
            sums[0] += loss
            sums[1] += length


@kernel
def _exact_vector(oracles, data, all_labels, offsets, truth, alpha, U):
    """U = sum_i (sum of block i's weights) phi(truth) - sum_k alpha_ik phi(k)."""
    one = np.empty(1)
    scales = np.empty(alpha.shape[1])
    for i in range(alpha.shape[0]):
        one[0] = 0.0
        for k in range(alpha.shape[1]):
            one[0] += alpha[i, k]
            scales[k] = -alpha[i, k]
        label = truth[offsets[i] : offsets[i + 1]].reshape((1, -1))
        oracles.add_features(data, i, label, one, U)
        oracles.add_features(data, i, all_labels, scales, U)


@kernel
def _largest_inner(inner, data, all_labels, out):
    for i in range(out.shape[0]):
        out[i] = 0.0
        for k in range(all_labels.shape[0]):
            out[i] = max(out[i], inner(data, i, all_labels[k], all_labels[k]))


@kernel
def _exact_loss(oracles, data, all_labels, alpha):
    total = 0.0
    for i in range(alpha.shape[0]):
        for k in range(alpha.shape[1]):
            if alpha[i, k] != 0.0:
                total += alpha[i, k] * oracles.loss(data, i, all_labels[k])
    return total


class EnumeratedDual(BlockDual):
    """One weight per label: alpha of shape (n_blocks, n_labels)."""

    cached_visits = False
    data: CompiledData

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        blocks, structure = self.data.blocks, self.data.structure
        self.exact_step = structure.oracle("exact_step", blocks.data)
        self.inner = structure.oracle("inner", blocks.data)
        self.all_labels = structure.all_labels
        self.work = np.empty(blocks.work_size)
        self.alpha = np.zeros((problem.n_blocks, len(self.all_labels)))
        # All weight on the truth, where it is one of the labels: U = 0.
        truth = blocks.truth.reshape(problem.n_blocks, 1, -1)
        self.is_truth = (self.all_labels[None] == truth).all(axis=2).nonzero()
        self.alpha[self.is_truth] = self.weight[self.is_truth[0]]

    def visit(self, order, w, stiffness, exact, gap, sums):
        _exact_pass(
            self.data.oracles, self.exact_step, self.data.blocks.data, self.all_labels, order,
            self.weight, w, stiffness, self.work, self.alpha, gap, sums,
        )  # fmt: skip

    def vector(self):
        blocks, U = self.data.blocks, np.zeros(self.data.n_features)
        _exact_vector(
            self.data.oracles, blocks.data, self.all_labels, blocks.offsets, blocks.truth,
            self.alpha, U,
        )  # fmt: skip
        return U

    @property
    def loss_sum(self):
        return float(
            _exact_loss(self.data.oracles, self.data.blocks.data, self.all_labels, self.alpha)
        )

    def curvature(self):
        out = np.empty(self.data.n_blocks)
        _largest_inner(self.inner, self.data.blocks.data, self.all_labels, out)
        return out

    def arrays(self):
        return {"alpha": self.alpha}

    def restore(self, arrays, factor):
        self.alpha[:] = arrays["alpha"] * factor[:, None]

    def complete(self):
        lacking = np.maximum(self.weight - self.alpha.sum(axis=1), 0.0)
        self.alpha[self.is_truth] += lacking[self.is_truth[0]]
