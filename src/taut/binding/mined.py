"""Labels mined from blocks, and the binary examples that they are.

A mined label of block i is an example of its own, whose psi is to score at least its loss. For
compiled structures labels are all that is kept; those of plain Python are any objects, which no
file could hold, and their psi are kept instead.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from taut.binding.compiled import CompiledData
from taut.binding.plain import PythonData
from taut.data.arrays import offsets_of, ranges
from taut.spaces.labels import products_of
from taut.storage.stored import Stored, check, require
from taut.structures._mined import LOSS, SQUARE, Mined, MinedData, pair_of
from taut.structures.scalar import Scalar

Arrays = dict[str, np.ndarray]
_ROUNDING = 1e-6  # relative, of losses and squares that are computed again
_TIED = 1e-9  # by which a label must violate more than all known ones of its block to be another


@dataclass(frozen=True, eq=False)
class MinedLabels(ABC):
    """Some labels; the j-th is one of block owner[j], kept in row j."""

    data: Any
    owner: np.ndarray
    points: np.ndarray  # the losses, and what else is known of each label
    rows: sp.csr_array

    def __len__(self) -> int:
        return len(self.owner)

    def mine(
        self, v: np.ndarray, n_jobs: int, violation: np.ndarray
    ) -> tuple[np.ndarray, Self, np.ndarray]:
        """The largest violation of each block at v, and the labels that violate most, with theirs.

        They are those that violate more than all that are known, whose violations are given.
        """
        known = np.zeros(self.data.n_blocks)
        np.maximum.at(known, self.owner, violation)
        return self._hardest(v, n_jobs, known + _TIED * (1.0 + known))

    @abstractmethod
    def _hardest(
        self, v: np.ndarray, n_jobs: int, above: np.ndarray
    ) -> tuple[np.ndarray, Self, np.ndarray]:
        """The same where labels must violate more than a number for each block."""

    def take(self, which: np.ndarray) -> Self:
        """The labels of these numbers, which rise."""
        return replace(
            self, owner=self.owner[which], points=self.points[which], rows=self.rows[which]
        )

    def joined(self, other: Self) -> Self:
        """These labels, then those."""
        return replace(
            self,
            owner=np.append(self.owner, other.owner),
            points=np.concatenate([self.points, other.points]),
            rows=sp.vstack([self.rows, other.rows], format="csr"),
        )

    @abstractmethod
    def examples(self) -> CompiledData:
        """Each label, of which there is one at least, as the only candidate of its own block."""

    def arrays(self) -> Arrays:
        """Everything, as named arrays."""
        rows = {f"row_{name}": getattr(self.rows, name) for name in ("data", "indices", "indptr")}
        return {"owner": self.owner, "points": self.points} | rows

    def restored(self, arrays: Arrays) -> Self:
        """What `arrays` were taken of, with the same data."""
        n, width = len(arrays["owner"]), self.rows.shape[1]
        size, kind = len(arrays["row_data"]), f"{self.rows.dtype.kind}{self.rows.dtype.itemsize}"
        check(
            arrays,
            {
                "owner": Stored("i8", (n,), 0, self.data.n_blocks - 1),
                "points": Stored("f8", (n, *self.points.shape[1:])),
                "row_data": Stored(kind, (size,)),
                "row_indices": Stored("i4 i8", (size,), 0, width - 1),
                "row_indptr": Stored("i4 i8", (n + 1,), 0, size),
            },
        )
        ends = arrays["row_indptr"]
        ordered = ends[0] == 0 and ends[-1] == size and (np.diff(ends) >= 0).all()
        require(ordered, "mined labels have no ends")
        rows = sp.csr_array((arrays["row_data"], arrays["row_indices"], ends), shape=(n, width))
        given = replace(self, owner=arrays["owner"], points=arrays["points"], rows=rows)
        if n:
            given._check()
        return given

    def _check(self) -> None:
        """Refuse labels that are none of these blocks, as far as that can be seen."""


def nothing_mined(data: CompiledData | PythonData) -> MinedLabels:
    """No labels yet."""
    none = np.empty(0, dtype=np.int64)
    if isinstance(data, PythonData):
        return _PlainLabels(data, none, np.empty(0), sp.csr_array((0, data.n_features)))
    rows = sp.csr_array((0, 2 * data.blocks.label_size), dtype=np.int32)
    return _CompiledLabels(data, none, np.empty((0, 2)), rows)


def _measure(operations):
    products, loss = products_of(operations), operations.loss

    def measure(data, owner, offsets, pairs, room, row, points):
        """Loss and |psi|^2 of each label."""
        for j in range(owner.shape[0]):
            i = owner[j]
            pair = pair_of(offsets, pairs, j)
            products(data, i, pair[0], pair, room, row)
            square = row[0] - 2.0 * row[1]
            products(data, i, pair[1], pair[1:], room, row)
            points[j, LOSS] = loss(data, i, pair[1])
            points[j, SQUARE] = max(square + row[0], 0.0)

    return measure


class _CompiledLabels(MinedLabels):
    """Rows are truths and labels, as in `MinedData`; points are losses and |psi|^2."""

    data: CompiledData

    def _hardest(self, v, n_jobs, above):
        blocks = self.data.blocks
        hinges, labels = self.data.hardest(v, n_jobs)
        owner = np.flatnonzero(hinges > above)
        sizes = np.diff(blocks.offsets)[owner]
        offsets = offsets_of(2 * sizes)
        where = ranges(blocks.offsets[owner], sizes)
        pairs = np.empty(offsets[-1], dtype=np.int32)
        pairs[ranges(offsets[:-1], sizes)] = blocks.truth[where]
        pairs[ranges(offsets[:-1] + sizes, sizes)] = labels[where]
        columns = ranges(np.zeros_like(sizes), 2 * sizes)
        shape = len(owner), self.rows.shape[1]
        rows = sp.csr_array((pairs, columns, offsets), shape=shape)
        found = replace(self, owner=owner, rows=rows)
        return hinges, replace(found, points=found._measured()), hinges[owner]

    @property
    def _offsets(self) -> np.ndarray:
        return self.rows.indptr.astype(np.int64)

    def _measured(self) -> np.ndarray:
        data, blocks, points = self.data, self.data.blocks, np.empty((len(self), 2))
        # In the structure's own space: what a prior does to psi is not known here.
        room = data.product_room(np.float64, data.own_space, blocks.features.lifts)
        data.own_kernel(_measure)(
            blocks.data, self.owner, self._offsets, self.rows.data, room, np.empty(2), points
        )
        return points

    def examples(self):
        blocks, structure = self.data.blocks, Mined(self.data.structure)
        data = MinedData(blocks.data, self.owner, self._offsets, self.rows.data, self.points)
        return CompiledData(
            structure, structure.encode((blocks, data)), self.data.prior, self.data.room
        )

    def _check(self):
        blocks, starts = self.data.blocks, self._offsets
        sizes = np.diff(blocks.offsets)[self.owner]
        require(np.diff(starts) == 2 * sizes, "mined labels are of other sizes")
        truths = self.rows.data[ranges(starts[:-1], sizes)]
        labels = self.rows.data[ranges(starts[:-1] + sizes, sizes)]
        own = blocks.truth[ranges(blocks.offsets[self.owner], sizes)]
        require(truths == own, "truths are others")
        valid = self.data.structure.valid_labels(blocks, self.owner, labels)
        require(valid, "mined labels are none that their blocks can have")
        points = self._measured()
        near = np.abs(points - self.points) <= _ROUNDING * (1.0 + np.abs(points))
        require(near, "mined labels have losses of others")


class _PlainLabels(MinedLabels):
    """Rows are psi; points are losses."""

    data: PythonData

    def _hardest(self, v, n_jobs, above):
        data, w, hinges = self.data, self.data.prior.weights(v), np.empty(self.data.n_blocks)
        owner, losses, rows, values = [], [], [self.rows[:0]], []
        for i in range(data.n_blocks):
            label, error = data.worst_label(i, v)
            psi, loss = next(data.differences(i, [label]))
            violation = loss - psi @ w
            hinges[i] = max(violation + error, 0.0)
            if violation > above[i]:
                owner.append(i)
                losses.append(loss)
                rows.append(sp.csr_array(psi[None]))
                values.append(violation)
        found = replace(
            self,
            owner=np.array(owner, dtype=np.int64),
            points=np.array(losses),
            rows=sp.vstack(rows, format="csr"),
        )
        return hinges, found, np.array(values)

    def examples(self):
        structure = Scalar()
        signs_and_margins = np.column_stack([np.ones(len(self)), self.points])
        return CompiledData(
            structure, structure.encode(self.rows, signs_and_margins), self.data.prior
        )
