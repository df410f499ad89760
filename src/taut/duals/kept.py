"""Planes kept with their psi, without the features of their blocks: visits ask no oracle."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np

from taut.binding.kernels import make_features
from taut.compiled.jit import helper, kernel
from taut.compiled.lanes import aligned_zeros
from taut.data.arrays import offsets_of
from taut.duals.base import Arrays, PlaneDual
from taut.duals.labelled import LabelledDual
from taut.duals.planes import LABEL_SIZE, N_PLANES, SLOT, TEXT, PlaneArrays, Planes
from taut.duals.python import PythonDual, packed_psi
from taut.storage.stored import Stored, check, check_near, require

_ROUNDING = 1e-6  # relative, of psi that are computed again
_TRIED = 8  # blocks without a small psi, after which no other is looked for one
_OF_DENSE = np.dtype(np.float64).itemsize  # bytes of a number of psi
_OF_SPARSE = _OF_DENSE + np.dtype(np.int32).itemsize

Vectors = list[tuple[np.ndarray, np.ndarray]]


class PsiArrays(NamedTuple):
    """The psi of all planes by their slots, each sparse, or dense where that is smaller.

    A dense one has as many numbers as w and no columns, any other fewer.
    """

    starts: np.ndarray  # of each psi among the values, and where the last one ends
    places: np.ndarray  # of its columns; -1 where it is dense
    values: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, sizes: np.ndarray, values: np.ndarray, columns: np.ndarray, full: int) -> PsiArrays:
        """Those of these sizes, one after the other, where w has `full` numbers."""
        dense = sizes == full
        places = np.where(dense, -1, offsets_of(np.where(dense, 0, sizes))[:-1])
        return cls(offsets_of(sizes), places, values, columns)

    @property
    def sizes(self) -> np.ndarray:
        """How many numbers each has."""
        return np.diff(self.starts)


@helper
def _column(psi, slot, t):
    """Where in w the t-th number of a psi belongs."""
    place = psi.places[slot]
    return np.int64(psi.columns[place + t]) if place >= 0 else t


@functools.cache
def _kept_pass(step):
    """The loop of visits that move by a step."""

    def kept_pass(
        order, weight, w, lower, stiffness, max_steps, planes, psi, violation, change, gap, sums
    ):
        """Visit blocks in order: violations of their planes at max(w, lower), and the step."""
        for position in range(order.shape[0]):
            i = order[position]
            count, start = planes.places[i, N_PLANES], planes.places[i, SLOT]
            violation[0] = 0.0
            worst = 0.0
            mean = 0.0
            for q in range(1, count):
                first = psi.starts[start + q]
                value = planes.loss[start + q]
                for t in range(psi.starts[start + q + 1] - first):
                    j = _column(psi, start + q, t)
                    at = max(w[j], lower[j]) if lower.shape[0] > 0 else w[j]
                    value -= psi.values[first + t] * at
                violation[q] = value
                mean += planes.coef[start + q] * value
                worst = max(worst, value)
            gap[i] = max(weight[i] * worst - mean, 0.0)
            sums[2] += gap[i]
            loss, length = step(planes, i, violation, stiffness, max_steps, change)
            sums[0] += loss
            sums[1] += length
            for q in range(1, count):
                if change[q] != 0.0:
                    _add(psi, start + q, change[q] / stiffness, w)

    return kernel(kept_pass)


@helper
def _add(psi, slot, factor, w):
    """W += factor psi."""
    first = psi.starts[slot]
    for t in range(psi.starts[slot + 1] - first):
        w[_column(psi, slot, t)] += factor * psi.values[first + t]


@kernel
def _add_all(psi, factors, U):
    for slot in range(factors.shape[0]):
        if factors[slot] != 0.0:
            _add(psi, slot, factors[slot], U)


class KeptDual(PlaneDual):
    """Planes of blocks whose features are gone, with their labels and their psi.

    No plane is added, so there is no room for more. `data` are any of the problem: what is known of
    w, not the blocks, is asked for. Steps are those of the form that the planes are from.
    """

    asks = False

    def __init__(
        self, data: Any, weight: np.ndarray, arrays: Arrays, step: Any, max_steps: int
    ) -> None:
        super().__init__(data, weight, 1, step, max_steps, None)
        self.planes = Planes.of(arrays)
        self.restore(arrays, np.ones(len(weight)))
        self.lower = getattr(data.quadratic, "lower", np.empty(0))

    @classmethod
    def of(
        cls, duals: Any, blocks: np.ndarray, most: np.ndarray, data: Any
    ) -> tuple[Self, np.ndarray] | None:
        """The planes with weight of those blocks whose psi take at most so many bytes each.

        Also returns which blocks these are, as positions among `blocks`; None if there are none.
        """
        planes, size = duals.planes.packed(blocks), data.size
        found: Vectors = []
        chosen: list[int] = []
        for k, vectors in enumerate(cls._vectors(duals, planes, blocks)):
            if k >= _TRIED and not chosen:
                return None
            own = [_smaller(where, values, size) for where, values in vectors]
            if sum(part.nbytes for pair in own for part in pair) <= most[k]:
                chosen.append(k)
                found += own
        if not chosen:
            return None
        kept = np.array(chosen)
        where, values = zip(*found, strict=True)
        arrays = duals.planes.packed(blocks[kept])._asdict() | {
            "kept_size": np.array([len(v) for v in values]),
            "kept_where": np.concatenate(where),
            "kept_value": np.concatenate(values),
        }
        return cls(data, duals.weight[blocks[kept]], arrays, duals.step, duals.max_steps), kept

    @staticmethod
    def _vectors(duals: Any, planes: PlaneArrays, blocks: np.ndarray) -> Iterator[Vectors]:
        """Non-zeros of the psi of each block's planes, in the space in which passes work."""
        data = duals.data
        add, space = data.kernel(make_features), data.space(np.float64)
        statistics, scales = data.statistics(np.float64), np.array([1.0, -1.0])
        psi = aligned_zeros(data.size, np.float64)
        nothing = np.empty(0, dtype=np.int64), np.empty(0)
        for k, i in enumerate(blocks.tolist()):
            vectors: Vectors = [nothing]
            count, size, text = planes.places[k, [N_PLANES, LABEL_SIZE, TEXT]]
            labels = planes.labels[text : text + count * size].reshape(count, size)
            for q in range(1, count):
                add(space, data.blocks.data, i, labels[[0, q]], scales, statistics, psi)
                where = np.flatnonzero(psi)
                vectors.append((where, psi[where]))
                psi[where] = 0.0
            yield vectors

    def visit_part(self, number, order, worker, stiffness, asks, gap, sums):
        count = int(self.planes.arrays.places[:, N_PLANES].max())
        _kept_pass(self.step)(
            order, self.weight, worker.w, self.lower, stiffness, self.max_steps,
            self.planes.arrays, self.psi, np.empty(count), np.empty(2 * count), gap, sums,
        )  # fmt: skip
        return order[:0]

    def add_vector(self, U):
        _add_all(self.psi, self.planes.arrays.coef, U)

    def arrays(self):
        psi = self.psi
        return super().arrays() | {
            "kept_size": psi.sizes, "kept_where": psi.columns, "kept_value": psi.values
        }  # fmt: skip

    def restore(self, arrays, factor):
        super().restore(arrays, factor)
        self.psi = PsiArrays.of(
            arrays["kept_size"], arrays["kept_value"], arrays["kept_where"], self.data.size
        )

    def check(self, arrays, weight):
        self.check_stored(arrays, weight, self.data.size)

    @classmethod
    def check_stored(cls, arrays: Arrays, weight: np.ndarray, size: int) -> None:
        """The same of arrays alone: that psi are those of their labels is not seen here."""
        check(arrays, {"places": Stored("i8", (len(weight), None)), "coef": Stored("f8", (None,))})
        require(arrays["places"].shape[1] > LABEL_SIZE, "places are incomplete")
        planes = Planes.check(arrays, weight, arrays["places"][:, LABEL_SIZE])
        slots = planes.slots()
        require(np.array_equal(slots, np.arange(len(arrays["coef"]))), "planes are not in order")
        check(arrays, {"kept_size": Stored("i8", slots.shape, 0, size)})
        sizes = arrays["kept_size"]
        check(
            arrays,
            {
                "kept_value": Stored("f8", (sizes.sum(),)),
                "kept_where": Stored("i4", (sizes[sizes < size].sum(),), 0, size - 1),
            },
        )
        truths = arrays["places"][:, SLOT]
        require(sizes[truths] == 0, "the truth has no psi of 0")
        require(arrays["loss"][truths] == 0.0, "truths have losses")

    def check_features(self, duals: Any) -> None:
        """Refuse labels, losses or psi that are none of these blocks; `duals` have features."""
        duals.check(self.planes.arrays._asdict(), self.weight)
        n, size = len(self.weight), self.data.size
        vectors = self._vectors(duals, self.planes.arrays, np.arange(n))
        for slot, (where, values) in enumerate(pair for own in vectors for pair in own):
            psi, kept, unit = np.zeros(size), np.zeros(size), np.zeros(slot + 1)
            unit[slot] = 1.0
            psi[where] = values
            _add_all(self.psi, unit, kept)
            check_near(kept, psi, _ROUNDING, "psi are those of other labels")

    @property
    def nbytes(self):
        return super().nbytes + sum(array.nbytes for array in self.psi)


class NumberedKeptDual(KeptDual):
    """The same of planes whose labels are numbers of psi, which they cannot do without."""

    @staticmethod
    def _vectors(duals, planes, blocks):
        ends = np.cumsum(planes.places[:, N_PLANES])[:-1]
        for numbers in np.split(planes.labels, ends):
            yield [duals.psi[number] for number in numbers.tolist()]

    @classmethod
    def check_stored(cls, arrays, weight, size):
        """The same, and that each psi has a number of its own, the truth's 0."""
        super().check_stored(arrays, weight, size)
        places, labels = arrays["places"], arrays["labels"]
        require(places[:, LABEL_SIZE] == 1, "planes have labels of other sizes")
        together = len(labels) == len(arrays["coef"]) and (places[:, TEXT] == places[:, SLOT]).all()
        require(together, "labels are not in order")
        others = np.delete(labels, places[:, SLOT])
        require(len(np.unique(others)) == len(others), "psi are numbered twice")
        require(others > 0, "the first plane of a block is not its truth")
        require(labels[places[:, SLOT]] == 0, "truths have a psi")

    def check_features(self, duals):
        """Nothing: labels may be any objects, which no file could hold."""

    def _named(self, planes):
        psi, numbers = self.psi, self.planes.numbers().tolist()
        slots = {number: slot for slot, number in enumerate(numbers)}
        vectors = {0: (np.empty(0, dtype=np.int64), np.empty(0))}
        for number in planes.labels[planes.labels > 0].tolist():
            slot = slots[number]
            values = psi.values[psi.starts[slot] : psi.starts[slot + 1]]
            place = psi.places[slot]
            if place < 0:
                where = np.flatnonzero(values)
                vectors[number] = where, values[where]
            else:
                vectors[number] = psi.columns[place : place + len(values)].astype(np.int64), values
        return super()._named(planes) | packed_psi(vectors)


def _smaller(where: np.ndarray, values: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values of a vector of a size; all of its numbers where that takes less."""
    if _OF_DENSE * size > _OF_SPARSE * len(values):
        return where.astype(np.int32), values
    dense = np.zeros(size)
    dense[where] = values
    return np.empty(0, dtype=np.int32), dense


#: By the form that planes have with the features of their blocks, that without.
KEPT_FORMS: dict[type, type[KeptDual]] = {LabelledDual: KeptDual, PythonDual: NumberedKeptDual}
