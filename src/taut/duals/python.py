"""Planes kept as sparse psi, found by an oracle in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from taut.binding import PythonData
from taut.duals.base import PlaneDual
from taut.duals.one_by_one import LEAST, REST, begin, go_through_plain, outcome
from taut.duals.planes import N_PLANES, SLOT, Planes, append, make_room
from taut.sampling import ARGMAX, Sampler
from taut.storage.stored import Stored, check, require

_LEAST = 1e-13  # of a block's weight: a plane with less is given up


def sampled_planes(
    data: PythonData,
    i: int,
    v: np.ndarray,
    sampler: Sampler,
    count: int,
    rng: np.random.Generator,
) -> tuple[list[tuple[np.ndarray, float]], float]:
    """psi and loss of labels that a sampler finds, the argmax first, and an error.

    The error is how far the largest violation may at most lie above that of the first.
    """
    labels, error = sampler.labels(data, i, data.weights(i, v), count, rng)
    return list(data.planes(i, labels)), data.checked(i, error)


class PythonDual(PlaneDual):
    """Planes kept as the non-zeros of psi; a plane's label is its number in `psi`."""

    data: PythonData

    def __init__(
        self,
        data: PythonData,
        weight: np.ndarray,
        n_jobs: int,
        step: Callable | None,
        max_steps: int = 1,
        sampler: Sampler = ARGMAX,
        n_samples: int = 1,
        oracle_steps: int | None = None,
    ) -> None:
        # Python runs one thread at a time.
        super().__init__(data, weight, 1, step, max_steps, oracle_steps)
        self.sampler = sampler
        self.wanted = sampler.n_labels(data, n_samples)
        n = data.n_blocks
        nothing = (np.empty(0, dtype=np.int64), np.empty(0))
        truths = np.zeros(n, dtype=np.int32)
        self.planes = Planes(self.weight, truths, np.arange(n + 1), bare=step is None)
        self.psi: dict[int, tuple[np.ndarray, np.ndarray]] = {0: nothing}
        data.hold(self)

    def places_in_use(self) -> Iterator[np.ndarray]:
        """Where the psi of planes are not zero."""
        return (self.psi[k][0] for k in set(self.planes.numbers().tolist()))

    def visit_part(self, number, order, worker, stiffness, asks, gap, sums):
        for i in order:
            sums += self._visit(i, worker.w, stiffness, asks, gap)
        if len(self.psi) > 2 * self.planes.arrays.places[:, N_PLANES].sum():
            live = set(self.planes.numbers().tolist())
            self.psi = {number: psi for number, psi in self.psi.items() if number in live}
        return order[:0]

    def _visit(self, i, w, stiffness, asks, gap):
        while asks and not make_room(self.planes.arrays, i, self.wanted, self.patience):
            self.planes.grow(wanted=self.wanted)
        planes = self.planes.arrays
        start = planes.places[i, SLOT]
        stored, point = self._stored(i), self.data.point(w)
        violation = [loss - values @ point[where] for (where, values), loss in stored]
        mean, worst = planes.coef[start : start + len(stored)] @ violation, max(violation)
        seen = self.weight[i] * worst - mean
        if asks:
            found, values, highest = self._ask(i, w, worst)
            gap[i] = seen = self.weight[i] * highest - mean
            bar = worst + self.margin + 1e-12 * (1.0 + abs(worst))
            for f, ((psi, loss), value) in enumerate(zip(found, values, strict=True)):
                if value > (bar if f == 0 else self.share * bar):
                    violation.append(value)
                    stored.append((self._append(i, psi, loss), loss))
            self.data.release(np.flatnonzero(psi) for psi, _loss in found)
        change = np.empty(2 * len(violation))
        max_steps = self.oracle_steps if asks else self.max_steps
        assert self.step is not None
        moves = self.step(planes, i, np.array(violation), stiffness, max_steps, change)
        for ((where, values), _loss), amount in zip(stored, change[: len(stored)], strict=True):
            if amount:
                w[where] += amount / stiffness * values
        return *moves, seen

    def _ask(self, i, w, worst):
        """Labels of a sample: psi and loss, violations, and the highest that there may be.

        `worst` is the highest of known labels, which the argmax must not fall below.
        """
        rng, point = np.random.default_rng(int(self.seed) // 2 + int(i)), self.data.point(w)
        found, error = sampled_planes(self.data, i, w, self.sampler, self.wanted, rng)
        values = [loss - psi @ point for psi, loss in found]
        if values[0] + error < worst:
            size = np.abs(found[0][0]) @ np.abs(point)
            self.data.witness.check_best(i, values[0] + error, size, worst)
        return found, values, max(values[0] + error, worst)

    def _stored(self, i):
        """Sparse psi and loss of each plane of block i."""
        planes = self.planes.arrays
        count, start = planes.places[i, [N_PLANES, SLOT]]
        numbers = self.planes.labels(i)[:, 0]
        losses = planes.loss[start : start + count]
        return [(self.psi[int(k)], loss) for k, loss in zip(numbers, losses, strict=True)]

    def _store(self, i, psi, loss):
        """Store a plane of block i, and return its number there."""
        where, number = np.flatnonzero(psi), max(self.psi) + 1
        self.psi[number] = (where, psi[where])
        return append(self.planes.arrays, i, np.array([number], dtype=np.int32), loss)

    def _append(self, i, psi, loss):
        """The same with its Gram row; its sparse psi."""
        new = self._store(i, psi, loss)
        beside = self.data.covector(psi)
        row = [values @ beside[columns] for (columns, values), _loss in self._stored(i)]
        gram = self.planes.gram(i)
        gram[new, : new + 1] = gram[: new + 1, new] = row
        return self._stored(i)[new][0]

    def add_vector(self, U):
        for i in range(self.data.n_blocks):
            start = self.planes.arrays.places[i, SLOT]
            for q, ((where, values), _loss) in enumerate(self._stored(i)):
                U[where] += self.planes.arrays.coef[start + q] * values

    def arrays(self):
        return super().arrays() | packed_psi(self.psi)

    def check(self, arrays, weight):
        # Labels may be any objects, which no file could hold: that psi and loss belong to one of
        # them cannot be seen here, only that the bounds they give do not contradict the primal.
        sizes = np.ones(len(weight), dtype=np.int64)
        planes = Planes.check(arrays, weight, sizes, self.step is None)
        check(
            arrays,
            {
                "psi_number": Stored("i4", (None,), 0),
                "psi_size": Stored("i8", arrays["psi_number"].shape, 0, self.data.size),
                "psi_where": Stored("i8", (arrays["psi_size"].sum(),), 0, self.data.size - 1),
                "psi_value": Stored("f8", arrays["psi_where"].shape),
            },
        )
        known, sizes = arrays["psi_number"], arrays["psi_size"]
        require(len(np.unique(known)) == len(known), "psi are numbered twice")
        require((known == 0).sum() == 1 and sizes[known == 0] == 0, "the truth has no psi of 0")
        _, number, place = planes.live_labels()
        labels = planes.arrays.labels[place]
        require(np.isin(labels, known), "planes have no psi")
        require((labels == 0) == (number == 0), "the first plane of a block is not its truth")
        require(planes.arrays.loss[planes.slots()][number == 0] == 0.0, "truths have losses")

    def restore(self, arrays, factor):
        super().restore(arrays, factor)
        self.psi = _unpacked(arrays)

    def _named(self, planes):
        arrays = super()._named(planes)
        # Beyond the planes that are there, labels are those of planes that were dropped.
        numbers = [k for k in np.unique(arrays["labels"]).tolist() if k in self.psi]
        return arrays | packed_psi({0: self.psi[0]} | {k: self.psi[k] for k in numbers})

    def put(self, blocks, arrays):
        # The truth has the number 0 everywhere; all other numbers are new here.
        shift = max(self.psi)
        labels = np.where(arrays["labels"] > 0, arrays["labels"] + shift, 0).astype(np.int32)
        super().put(blocks, arrays | {"labels": labels})
        self.psi |= {k + shift: psi for k, psi in _unpacked(arrays).items() if k > 0}

    @property
    def nbytes(self):
        return super().nbytes + sum(where.nbytes + v.nbytes for where, v in self.psi.values())


class MergedPythonDual(PythonDual):
    """One plane for each block beside its truth, which all labels of a visit are merged into."""

    def __init__(
        self, data: PythonData, weight: np.ndarray, sampler: Sampler, n_samples: int
    ) -> None:
        super().__init__(data, weight, 1, None, sampler=sampler, n_samples=n_samples)
        self.room = np.zeros(LEAST + 1)

    def _visit(self, i, w, stiffness, asks, gap):
        planes, point = self.planes.arrays, self.data.point(w)
        start, stored = planes.places[i, SLOT], self._stored(i)
        rest, used = planes.coef[start], planes.coef[start + 1 : start + len(stored)].sum()
        (where, values), loss = stored[-1]
        old = np.zeros(self.data.size)
        old[where] = values
        merged = loss - old @ point
        found, values, highest = self._ask(i, w, max(merged if used > 0.0 else 0.0, 0.0))
        gap[i] = seen = self.weight[i] * highest - used * merged
        psi, losses = (np.array(parts) for parts in zip(*found, strict=True))
        old *= used
        square, total = float(old @ self.data.covector(old)), rest + used
        begin(self.room, total, rest, used, square, used * loss, used * merged)
        v, weights = go_through_plain(
            self.data, self.room, old, psi, losses, np.array(values), stiffness
        )
        self.data.release(np.flatnonzero(row) for row in psi)
        moves = outcome(self.room)
        w += (v - old) / stiffness
        # What labels like the truth got is the truth's.
        like = (losses == 0.0) & ~psi.any(axis=1)
        self._merge(i, v, used * loss + moves[0], self.room[REST] + weights[like].sum())
        return *moves, seen

    def _merge(self, i, v, loss, rest):
        """Let block i have the truth with a weight, and one plane of all else: v, and its loss."""
        planes, total = self.planes.arrays, self.weight[i]
        used = total - rest if total - rest > _LEAST * total else 0.0
        start = planes.places[i, SLOT]
        planes.places[i, N_PLANES] = 1
        planes.coef[start] = total - used
        if used > 0.0:
            self._store(i, v / used, loss / used)
            planes.coef[start + 1] = used

    def curvature(self):
        """|psi|^2 of the planes."""
        out = np.zeros(self.data.n_blocks)
        for i in range(self.data.n_blocks):
            for (where, values), _loss in self._stored(i)[1:]:
                psi = np.zeros(self.data.size)
                psi[where] = values
                out[i] = psi @ self.data.covector(psi)
        return out


SparseVectors = dict[int, tuple[np.ndarray, np.ndarray]]


def packed_psi(psi: SparseVectors) -> dict[str, np.ndarray]:
    """Numbered sparse vectors as a few arrays."""
    where, values = zip(*psi.values(), strict=True)
    return {
        "psi_number": np.array(list(psi), dtype=np.int32),
        "psi_size": np.array([len(v) for v in values]),
        "psi_where": np.concatenate(where),
        "psi_value": np.concatenate(values),
    }


def _unpacked(arrays: dict[str, np.ndarray]) -> SparseVectors:
    """The inverse of `packed_psi`."""
    ends = np.cumsum(arrays["psi_size"])[:-1]
    pairs = zip(
        np.split(arrays["psi_where"], ends), np.split(arrays["psi_value"], ends), strict=True
    )
    return dict(zip(arrays["psi_number"].tolist(), pairs, strict=True))
