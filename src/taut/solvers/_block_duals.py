"""Dual variables of all blocks, in the three forms that structures allow, with their visits.

- `EnumeratedDual`: few labels and an exact block step; one weight per label.
- `PlaneDual`: a compiled oracle; the planes found so far, kept as labels.
- `PythonDual`: a plain-Python oracle; the planes found so far, kept as sparse psi.

A visit of block i improves its dual variables at the current w and moves w accordingly.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from numba.extending import overload

from taut._jit import kernel
from taut.planes import (
    PlaneArrays,
    Planes,
    append,
    corrective_steps,
    gram_of,
    labels_of,
    make_room,
)
from taut.problem import CompiledData, Problem, PythonData

Arrays = dict[str, np.ndarray]


class BlockDual(ABC):
    """Feasible dual variables of all blocks."""

    #: Whether visits without the oracle, over the planes already found, are possible.
    cached_visits: ClassVar[bool] = True

    def __init__(self, problem: Problem) -> None:
        self.weight = problem.block_weight
        self.data = problem.data

    @abstractmethod
    def visit(
        self,
        order: np.ndarray,
        w: np.ndarray,
        stiffness: float,
        exact: bool,
        gap: np.ndarray,
        sums: np.ndarray,
    ) -> None:
        """Visit blocks in `order`, updating w and `gap`, and adding to `sums` block by block.

        sums[0] is the summed loss, sums[1] the summed squared length of the blocks' moves of U.
        """

    @abstractmethod
    def vector(self) -> np.ndarray:
        """U = sum of a psi, from the dual variables."""

    @property
    @abstractmethod
    def loss_sum(self) -> float:
        """Sum of a loss, from the dual variables."""

    @abstractmethod
    def curvature(self) -> np.ndarray:
        """A typical |psi|^2 of each block among its dual variables in use; 0 where none is."""

    def revisitable(self) -> np.ndarray:
        """Blocks for which a visit without the oracle can gain something."""
        raise NotImplementedError

    @abstractmethod
    def arrays(self) -> Arrays:
        """The dual variables as named arrays."""

    @abstractmethod
    def restore(self, arrays: Arrays, factor: np.ndarray) -> None:
        """Take dual variables from `arrays`, block i's multiplied by factor[i]."""

    @abstractmethod
    def complete(self) -> None:
        """Give the truths what the dual variables lack of the blocks' weights."""


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
def _exact_vector(oracles, data, all_labels, offsets, truth, weight, alpha, U):
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
            self.weight, self.alpha, U,
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
        count = planes.count[i]
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
    for i in range(planes.count.shape[0]):
        count = planes.count[i]
        start = planes.slot[i]
        scales = np.empty(count)
        scales[0] = 0.0
        for q in range(1, count):
            scales[q] = -planes.coef[start + q]
            scales[0] += planes.coef[start + q]
        oracles.add_features(data, i, labels_of(planes, i)[:count], scales, U)


@kernel
def _plane_curvature(planes, out):
    for i in range(planes.count.shape[0]):
        gram = gram_of(planes, i)
        start = planes.slot[i]
        total = 0.0
        weight = 0.0
        for q in range(1, planes.count[i]):
            total += planes.coef[start + q] * gram[q, q]
            weight += planes.coef[start + q]
        out[i] = total / weight if weight > 0.0 else 0.0


class _WithPlanes(BlockDual):
    """What the two forms with planes share: only how planes are found and applied differs."""

    planes: Planes

    def __init__(self, problem: Problem, max_steps: int) -> None:
        super().__init__(problem)
        self.max_steps = max_steps

    @property
    def loss_sum(self):
        return self.planes.loss_sum

    def curvature(self):
        out = np.empty(self.data.n_blocks)
        _plane_curvature(self.planes.arrays, out)
        return out

    def revisitable(self):
        return (self.planes.arrays.count > 1) & (self.weight > 0.0)

    def arrays(self):
        return dict(self.planes.arrays._asdict())

    def restore(self, arrays, factor):
        self.planes.arrays = PlaneArrays(*(arrays[name].copy() for name in PlaneArrays._fields))
        self.planes.rescale(factor)

    def complete(self):
        self.planes.complete(self.weight)


class PlaneDual(_WithPlanes):
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


class PythonDual(_WithPlanes):
    """Planes kept as the non-zeros of psi; a plane's label is its number in `psi`."""

    data: PythonData

    def __init__(self, problem: Problem, max_steps: int) -> None:
        super().__init__(problem, max_steps)
        n = problem.n_blocks
        nothing = (np.empty(0, dtype=np.int64), np.empty(0))
        self.planes = Planes(self.weight, np.zeros(n, dtype=np.int32), np.arange(n + 1))
        self.psi: dict[int, tuple[np.ndarray, np.ndarray]] = {0: nothing}

    def visit(self, order, w, stiffness, exact, gap, sums):
        for i in order:
            sums += self._visit(i, w, stiffness, exact, gap)
        if len(self.psi) > 2 * self.planes.arrays.count.sum():
            live = set(self.planes.numbers().tolist())
            self.psi = {number: psi for number, psi in self.psi.items() if number in live}

    def _visit(self, i, w, stiffness, exact, gap):
        while exact and not make_room(self.planes.arrays, i):
            self.planes.grow()
        planes = self.planes.arrays
        start = planes.slot[i]
        stored = self._stored(i)
        violation = [loss - values @ w[where] for (where, values), loss in stored]
        if exact:
            psi, loss = self.data.worst(i, w)
            value, worst = loss - psi @ w, max(violation)
            mean = planes.coef[start : start + len(stored)] @ violation
            gap[i] = self.weight[i] * max(value, worst) - mean
            if value > worst + 1e-12 * (1.0 + abs(worst)):
                violation.append(value)
                stored.append((self._append(i, psi, loss), loss))
        change = np.empty(len(violation))
        sums = corrective_steps(planes, i, np.array(violation), stiffness, self.max_steps, change)
        for ((where, values), _loss), amount in zip(stored, change, strict=True):
            if amount:
                w[where] += amount / stiffness * values
        return sums

    def _stored(self, i):
        """Sparse psi and loss of each plane of block i."""
        planes = self.planes.arrays
        count, start = planes.count[i], planes.slot[i]
        numbers = labels_of(planes, i)[:count, 0]
        losses = planes.loss[start : start + count]
        return [(self.psi[int(k)], loss) for k, loss in zip(numbers, losses, strict=True)]

    def _append(self, i, psi, loss):
        """Store a plane of block i and its Gram row."""
        planes = self.planes.arrays
        where = np.flatnonzero(psi)
        number = max(self.psi) + 1
        self.psi[number] = sparse = (where, psi[where])
        new = append(planes, i, np.array([number], dtype=np.int32), loss)
        row = [values @ psi[columns] for (columns, values), _loss in self._stored(i)]
        gram = gram_of(planes, i)
        gram[new, : new + 1] = gram[: new + 1, new] = row
        return sparse

    def vector(self):
        U = np.zeros(self.data.n_features)
        for i in range(self.data.n_blocks):
            start = self.planes.arrays.slot[i]
            for q, ((where, values), _loss) in enumerate(self._stored(i)):
                U[where] += self.planes.arrays.coef[start + q] * values
        return U

    def arrays(self):
        numbers = np.array(list(self.psi), dtype=np.int32)
        where, values = zip(*self.psi.values(), strict=True)
        return super().arrays() | {
            "psi_number": numbers,
            "psi_size": np.array([len(v) for v in values]),
            "psi_where": np.concatenate(where),
            "psi_value": np.concatenate(values),
        }

    def restore(self, arrays, factor):
        super().restore(arrays, factor)
        ends = np.cumsum(arrays["psi_size"])[:-1]
        pairs = zip(
            np.split(arrays["psi_where"], ends), np.split(arrays["psi_value"], ends), strict=True
        )
        self.psi = dict(zip(arrays["psi_number"].tolist(), pairs, strict=True))
