"""Planes kept as labels, found by a compiled oracle."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taut.binding import CompiledData
from taut.compiled.jit import around, helper
from taut.compiled.label_rows import is_among
from taut.compiled.lanes import aligned_zeros, unit_of
from taut.data.arrays import offsets_of, ranges
from taut.duals.base import PlaneDual, looking_of, select
from taut.duals.one_by_one import KEPT, VisitRoom, begin, going_through, outcome
from taut.duals.planes import (
    CAPACITY,
    LABEL_SIZE,
    N_PLANES,
    SLOT,
    Planes,
    append,
    gram_of,
    labels_of,
    make_room,
    prefetch_places,
    prefetch_planes,
)
from taut.duals.support import LabelsInUse
from taut.duals.threads import exchange, moving_of
from taut.sampling import ARGMAX, Sampler
from taut.spaces.labels import Scatter, adding_of, known_score_of, products_of
from taut.spaces.sums import sums_of
from taut.storage.stored import check, check_near, require, vector

_DOUBT = 1e-6  # relative, by which an argmax below a known label must be wrong
_ROUNDING = 1e-9  # relative, of losses that are computed again
_LEAST = 1e-13  # of a block's weight: a plane with less is given up, so that planes stay few
_AHEAD = 2  # visits between asking for a block's planes and using them


def _by_gram(operations, step):
    """What moves a block's weight by a step that goes by the Gram matrix of its labels' phi."""
    products = products_of(operations)

    def by_gram(
        data, i, planes, known, count, violation, stiffness, max_steps, room, arena, change
    ):
        """Fill the rows of planes beyond those that are known, and take the step."""
        labels, gram, row = labels_of(planes, i), gram_of(planes, i), arena.row
        for added in range(known if known > 1 or known == count else 0, count):
            products(data, i, labels[added], labels[: added + 1], arena.products, row)
            for q in range(added + 1):
                gram[added, q] = row[q]
                gram[q, added] = row[q]
        return step(planes, i, violation, stiffness, max_steps, change)

    return helper(by_gram)


def _one_by_one(operations):
    """What moves it to one label after the other, by inner products with their sum."""
    parts, n_all, hold = operations.parts, operations.n_all, sums_of(operations).hold
    go_through = going_through(operations)

    def one_by_one(
        data, i, planes, known, count, violation, stiffness, max_steps, room, arena, change
    ):
        """New labels first, then those that have weight."""
        start, labels, statistics = planes.places[i, SLOT], labels_of(planes, i), arena.statistics
        coef = planes.coef[start : start + count]
        used, loss, violated, best = 0.0, 0.0, 0.0, 0
        size = n_all(room.sums.products.space, i, statistics)
        for p in range(size):
            statistics[p] = 0.0
        for q in range(1, count):
            if coef[q] > 0.0:
                used += coef[q]
                loss += coef[q] * planes.loss[start + q]
                violated += coef[q] * violation[q]
                parts(data, i, labels[q], Scatter(statistics, statistics, size, 0, -coef[q]))
            best = q if violation[q] > violation[best] or best == 0 else best
        change[0] = 0.0
        if best == 0:
            return 0.0, 0.0
        parts(data, i, labels[0], Scatter(statistics, statistics, size, 0, used))
        square, total = hold(i, statistics, size, room.sums), coef[0] + used
        begin(room.point, total, coef[0], 0.0, square, loss, violated)
        go_through(
            data, i, labels[0], labels, 1, known, count, best, violation, coef, stiffness, room,
            change,
        )  # fmt: skip
        kept, rest = room.point[KEPT], total
        for q in range(1, count):
            new = kept * coef[q] + change[q]
            new = new if new > _LEAST * total else 0.0
            change[q] = new - coef[q]
            change[0] -= change[q]
            coef[q] = new
            rest -= new
        coef[0] = rest if rest > _LEAST * total else 0.0
        return outcome(room.point)

    return helper(one_by_one)


def _plane_pass(operations, make_moves, make_sample):
    pull, move_weight = operations.pull, make_moves(operations)
    score, ALONE = known_score_of(operations), operations.single is not None
    sample = helper(make_sample(operations))
    ask_for, ask_for_rows = operations.prefetch, operations.ask
    loss_of, move = operations.loss, moving_of(operations)

    def plane_pass(
        space, data, offsets, truth, order, weight, worker, stiffness, asks, max_steps, seed,
        rule, planes, samples, room, arena, gap, sums, progress,
    ):  # fmt: skip
        """Visit blocks in order from progress[0]; stop before one whose planes lack room.

        A visit: violations of the stored planes; when `asks`, the best label, if it beats them,
        and others that the sampler finds; the step. `rule` says which labels are kept, and for how
        long: see `PlaneDual`. progress[0] is the next position, progress[1]
        one more than the last block whose best label was worse than a stored one.
        """
        w, work, values = worker.w, arena.work, arena.values
        margin, share, patience = rule
        wanted, first_seed = values.shape[0], np.int64(seed >> np.uint64(1))
        violation, change, row = arena.violation, arena.change, arena.row
        rounding = 100.0 * unit_of(w)
        while progress[0] < order.shape[0]:
            last = order.shape[0] - 1
            prefetch_places(planes, order[min(progress[0] + 2 * _AHEAD, last)])
            ahead = order[min(progress[0] + _AHEAD, last)]
            prefetch_planes(planes, ahead)
            ask_for_rows(space, ahead)
            ask_for(data, ahead)
            i = order[progress[0]]
            if asks and not make_room(planes, i, wanted, patience):
                break
            if 2 * planes.places[i, CAPACITY] > row.shape[0]:
                break
            size = offsets[i + 1] - offsets[i]
            own = truth[offsets[i] : offsets[i + 1]]
            labels = labels_of(planes, i)
            start = planes.places[i, SLOT]
            count = known = planes.places[i, N_PLANES]
            exchange(worker, progress[0])
            pulled = asks or not ALONE
            if pulled:
                pull(space, i, w, work)
            base = score(space, data, i, w, work, pulled, own)
            violation[0] = 0.0
            worst = 0.0
            mean = 0.0
            for q in range(1, count):
                value = planes.loss[start + q] - base
                value += score(space, data, i, w, work, pulled, labels[q])
                violation[q] = value
                mean += planes.coef[start + q] * value
                worst = max(worst, value)
            if asks:
                found = arena.found[: wanted * size].reshape((wanted, size))
                n_found = sample(data, i, work, 1.0, first_seed + i, samples, found, values)
                # A label that is stored already comes back with the same value up to rounding.
                bar = worst + margin + rounding * (1.0 + abs(worst))
                doubt = max(_DOUBT, 1e4 * rounding) * (1.0 + abs(worst) + abs(base))
                # Where threads share w, it may have moved since the stored planes were looked at.
                if worker.own.shape[0] == 0 and values[0] - base < worst - doubt:
                    progress[1] = i + 1
                worst = max(worst, values[0] - base)
                for f in range(n_found):
                    value = values[f] - base
                    if value > bar and not is_among(labels, count, found[f]):
                        new = append(planes, i, found[f], loss_of(data, i, found[f]))
                        violation[new] = value
                        count = new + 1
                    if f == 0:
                        bar *= share
                gap[i] = weight[i] * worst - mean
            sums[2] += weight[i] * worst - mean
            loss, length = move_weight(
                data, i, planes, known, count, violation, stiffness, max_steps, room, arena, change
            )
            sums[0] += loss
            sums[1] += length
            kept = select(labels, change, count, -1.0 / stiffness, arena.chosen, row)
            if kept > 0:
                picked = arena.chosen[: kept * size].reshape((kept, size))
                move(space, data, i, picked, row[:kept], arena.statistics, worker)
            progress[0] += 1

    return plane_pass


def _plane_vector(operations):
    add_labels = adding_of(operations)

    def plane_vector(space, data, planes, statistics, values, row, chosen, U):
        """U = sum_iq coef_iq psi_i(q): plane 0 is the truth, and its phi is in every psi."""
        for i in range(planes.places.shape[0]):
            count = planes.places[i, N_PLANES]
            start = planes.places[i, SLOT]
            labels = labels_of(planes, i)
            size = labels.shape[1]
            values[0] = 0.0
            for q in range(1, count):
                values[q] = planes.coef[start + q]
                values[0] -= values[q]
            kept = select(labels, values, count, -1.0, chosen, row)
            picked = chosen[: kept * size].reshape((kept, size))
            add_labels(space, data, i, picked, row[:kept], statistics, U)

    return plane_vector


def _plane_gaps(operations):
    look = looking_of(operations)

    def plane_gaps(space, data, offsets, truth, weight, planes, w, work, label, out):
        """out[i] = the gap of block i."""
        for i in range(out.shape[0]):
            own, labels = truth[offsets[i] : offsets[i + 1]], labels_of(planes, i)
            start = planes.places[i, SLOT]
            coef = planes.coef[start + 1 : start + planes.places[i, N_PLANES]]
            out[i] = look(space, data, i, own, labels[1:], coef, weight[i], w, work, label)

    return plane_gaps


def _plane_squares(operations):
    sums = sums_of(operations)
    start_sums, measure = sums.start, sums.measure

    def plane_squares(data, planes, room, out):
        """out[i] = the mean |psi|^2 of block i's planes, by their coefficients; 0 without any."""
        for i in range(out.shape[0]):
            start, labels = planes.places[i, SLOT], labels_of(planes, i)
            total, weight = 0.0, 0.0
            start_sums(data, i, labels[0], room.sums)
            for q in range(1, planes.places[i, N_PLANES]):
                if planes.coef[start + q] > 0.0:
                    _right, square = measure(data, i, labels[0], labels[q], room.sums)
                    total += planes.coef[start + q] * square
                    weight += planes.coef[start + q]
            out[i] = total / weight if weight > 0.0 else 0.0

    return plane_squares


def _plane_losses(operations):
    loss_of = operations.loss

    def plane_losses(data, planes, out):
        """The loss of each plane, by its label; 0 of the first, the truth."""
        for i in range(planes.places.shape[0]):
            start = planes.places[i, SLOT]
            labels = labels_of(planes, i)
            for q in range(1, planes.places[i, N_PLANES]):
                out[start + q] = loss_of(data, i, labels[q])

    return plane_losses


class LabelledDual(PlaneDual):
    """Planes kept as labels; psi is rebuilt from the data."""

    data: CompiledData

    def __init__(
        self,
        data: CompiledData,
        weight: np.ndarray,
        n_jobs: int,
        step: Callable | None = None,
        max_steps: int = 1,
        sampler: Sampler = ARGMAX,
        n_samples: int = 1,
        oracle_steps: int | None = None,
    ) -> None:
        super().__init__(data, weight, n_jobs, step, max_steps, oracle_steps)
        self.sampler = sampler
        self.wanted = sampler.n_labels(data, n_samples)
        blocks = self.data.blocks
        self.planes = Planes(self.weight, blocks.truth, blocks.offsets, bare=step is None)
        self.moves = _one_by_one if step is None else around(_by_gram, step)
        self.allocate(data.dtype)

    def allocate(self, dtype):
        size = 0 if self.data.lifts else self.data.size
        self.scratch = [aligned_zeros(size, dtype) for _ in range(self.n_jobs)]
        self.spaces = [self.data.space(dtype, number=k) for k in range(self.n_jobs)]
        self.samples = [self.sampler.room(self.data, self.wanted, dtype) for _ in self.scratch]
        self._share()

    def _share(self) -> None:
        """Give each worker what it works in, and its part of the free space for planes."""
        self._make_arenas()
        self.shares = self.planes.shares(self.n_jobs)

    def _make_arenas(self) -> None:
        most = 4 * int(self.planes.arrays.places[:, CAPACITY].max())
        self.arenas = [
            self.data.arena(scratch.dtype, k, self.wanted, most, scratch)
            for k, scratch in enumerate(self.scratch)
        ]
        self.rooms = [
            VisitRoom.of(self.data, arena.products, most) if self.step is None else ()
            for arena in self.arenas
        ]

    def visit_part(self, number, order, worker, stiffness, asks, gap, sums):
        blocks, progress = self.data.blocks, aligned_zeros(2, np.int64)
        max_steps = self.oracle_steps if asks else self.max_steps
        self.data.kernel(around(_plane_pass, self.moves, self.sampler.make))(
            self.spaces[number], blocks.data, blocks.offsets, blocks.truth, order, self.weight,
            worker, stiffness, asks, max_steps, self.seed,
            (self.margin, self.share, self.patience), self.shares[number],
            self.samples[number], self.rooms[number], self.arenas[number], gap, sums, progress,
        )  # fmt: skip
        if progress[1]:
            self.data.doubt_argmax(progress[1] - 1)
        return order[progress[0] :]

    def look(self, w, gap):
        blocks, arena = self.data.blocks, self.arenas[0]
        self.data.kernel(_plane_gaps)(
            self.spaces[0], blocks.data, blocks.offsets, blocks.truth, self.weight,
            self.planes.arrays, w, arena.work, arena.found, gap,
        )  # fmt: skip

    def curvature(self):
        if self.step is not None:
            return super().curvature()
        out = np.empty(self.data.n_blocks)
        self.data.kernel(_plane_squares)(
            self.data.blocks.data, self.planes.arrays, self.rooms[0], out
        )
        return out

    def make_space(self):
        if 2 * self.planes.arrays.places[:, CAPACITY].max() > len(self.arenas[0].row):
            self._make_arenas()
        else:
            self.planes.grow(self.n_jobs, self.wanted)
            self.shares = self.planes.shares(self.n_jobs)

    def add_vector(self, U):
        arena = self.arenas[0]
        self.data.kernel(_plane_vector)(
            self.data.space(U.dtype), self.data.blocks.data, self.planes.arrays,
            self.data.statistics(U.dtype), arena.change, arena.row, arena.chosen, U,
        )  # fmt: skip

    def labels_in_use(self):
        arrays = self.planes.arrays
        block, number, place = self.planes.live_labels()
        coef = arrays.coef[self.planes.slots()]
        kept = (number > 0) & (coef > 0.0)
        block, place = block[kept], place[kept]
        sizes = arrays.places[block, LABEL_SIZE]
        return LabelsInUse(
            block, coef[kept], offsets_of(sizes), arrays.labels[ranges(place, sizes)]
        )

    @property
    def loss_sum(self):
        self.data.check_losses(self.planes.arrays.loss)
        return super().loss_sum

    def arrays(self):
        # The scratch vector is zero only up to rounding, which an exact resumption must know.
        return super().arrays() | {"scratch": self.scratch[0]}

    def check(self, arrays, weight):
        blocks, structure = self.data.blocks, self.data.structure
        sizes = np.diff(blocks.offsets)
        planes = Planes.check(arrays, weight, sizes, self.step is None)
        owner, number, place = planes.live_labels()
        labels = planes.arrays.labels[ranges(place, sizes[owner])]
        first = np.repeat(number == 0, sizes[owner])
        require(labels[first] == blocks.truth, "planes begin with labels that are not the truths")
        others = owner[number > 0]
        if len(others):
            valid = structure.valid_labels(blocks, others, labels[~first])
            require(valid, "planes have labels that their blocks cannot have")
        loss, slots = np.zeros(len(planes.arrays.coef)), planes.slots()
        self.data.kernel(_plane_losses)(blocks.data, planes.arrays, loss)
        fault = "planes have losses of other labels"
        check_near(planes.arrays.loss[slots], loss[slots], _ROUNDING, fault)
        if "scratch" in arrays:
            check(arrays, {"scratch": vector(len(self.scratch[0]))})

    def restore(self, arrays, factor):
        super().restore(arrays, factor)
        self.scratch[0][:] = arrays["scratch"]
        self._share()

    def put(self, blocks, arrays):
        super().put(blocks, arrays)
        self._share()

    @property
    def nbytes(self):
        return super().nbytes + sum(scratch.nbytes for scratch in self.scratch)
