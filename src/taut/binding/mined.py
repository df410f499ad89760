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
from taut.compiled.jit import kernel
from taut.data.arrays import ranges
from taut.spaces.labels import products_of
from taut.storage.stored import Stored, check, require
from taut.structures._mined import LOSS, SQUARE, Mined, MinedData, pair_of
from taut.structures.scalar import Scalar

Arrays = dict[str, np.ndarray]
_ROUNDING = 1e-6  # relative, of losses and squares that are computed again


@dataclass(frozen=True, eq=False)
class MinedLabels(ABC):
    """Some labels; the j-th is one of block owner[j]."""

    owner: np.ndarray

    def __len__(self) -> int:
        return len(self.owner)

    @abstractmethod
    def mine(self, v: np.ndarray, n_jobs: int) -> tuple[np.ndarray, Self]:
        """The largest violation of each block at v, and the labels with it that are new here."""

    @abstractmethod
    def take(self, which: np.ndarray) -> Self:
        """The labels of these numbers, which rise."""

    @abstractmethod
    def joined(self, other: Self) -> Self:
        """These labels, then those."""

    @abstractmethod
    def examples(self) -> CompiledData:
        """Each label, of which there is one at least, as the only candidate of its own block."""

    @abstractmethod
    def arrays(self) -> Arrays:
        """Everything, as named arrays."""

    @abstractmethod
    def restored(self, arrays: Arrays) -> Self:
        """What `arrays` were taken of, with the same data."""


def nothing_mined(data: CompiledData | PythonData) -> MinedLabels:
    """No labels yet."""
    none, n = np.empty(0, dtype=np.int64), data.n_features
    if isinstance(data, PythonData):
        return _PlainLabels(none, data, np.empty(0), sp.csr_array((0, n)))
    pairs, points = np.empty(0, dtype=np.int32), np.empty((0, 2))
    return _CompiledLabels(none, data, np.zeros(1, dtype=np.int64), pairs, points)


@kernel
def _mark_known(order, starts, owner, offsets, pairs, known_offsets, known_pairs, out):
    """out[j] = whether label j is among the known ones of its block.

    Those of block i are order[starts[i]], ..., order[starts[i + 1] - 1].
    """
    for j in range(owner.shape[0]):
        found = pair_of(offsets, pairs, j)[1]
        out[j] = False
        for place in range(starts[owner[j]], starts[owner[j] + 1]):
            known = pair_of(known_offsets, known_pairs, order[place])[1]
            same = True
            for t in range(found.shape[0]):
                same &= known[t] == found[t]
            out[j] |= same


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


@dataclass(frozen=True, eq=False)
class _CompiledLabels(MinedLabels):
    """Labels after the truths of their blocks, one pair after the other, as in `MinedData`."""

    data: CompiledData
    offsets: np.ndarray
    pairs: np.ndarray
    points: np.ndarray

    def mine(self, v, n_jobs):
        hinges, labels = self.data.hardest(v, n_jobs)
        found = self._paired(np.flatnonzero(hinges > 0.0), labels)
        order = np.argsort(self.owner, kind="stable")
        starts = np.searchsorted(self.owner[order], np.arange(self.data.n_blocks + 1))
        known = np.empty(len(found), dtype=bool)
        _mark_known(
            order, starts, found.owner, found.offsets, found.pairs, self.offsets, self.pairs, known
        )
        return hinges, found.take(np.flatnonzero(~known))._measured()

    def _paired(self, owner: np.ndarray, labels: np.ndarray) -> _CompiledLabels:
        """The labels of some blocks, out of those of all, without loss and square."""
        blocks = self.data.blocks
        sizes = np.diff(blocks.offsets)[owner]
        offsets = np.append(0, np.cumsum(2 * sizes))
        where = ranges(blocks.offsets[owner], sizes)
        pairs = np.empty(offsets[-1], dtype=np.int32)
        pairs[ranges(offsets[:-1], sizes)] = blocks.truth[where]
        pairs[ranges(offsets[:-1] + sizes, sizes)] = labels[where]
        return replace(
            self, owner=owner, offsets=offsets, pairs=pairs, points=np.empty((len(owner), 2))
        )

    def _measured(self) -> _CompiledLabels:
        data, blocks = self.data, self.data.blocks
        # In the structure's own space: what a prior does to psi is not known here.
        room = data.product_room(np.float64, data.own_space, blocks.features.lifts)
        data.own_kernel(_measure)(
            blocks.data, self.owner, self.offsets, self.pairs, room, np.empty(2), self.points
        )
        return self

    def take(self, which):
        sizes = np.diff(self.offsets)[which]
        return replace(
            self,
            owner=self.owner[which],
            offsets=np.append(0, np.cumsum(sizes)),
            pairs=self.pairs[ranges(self.offsets[which], sizes)],
            points=self.points[which],
        )

    def joined(self, other):
        return replace(
            self,
            owner=np.append(self.owner, other.owner),
            offsets=np.append(self.offsets, self.offsets[-1] + other.offsets[1:]),
            pairs=np.append(self.pairs, other.pairs),
            points=np.vstack([self.points, other.points]),
        )

    def examples(self):
        blocks, structure = self.data.blocks, Mined(self.data.structure)
        data = MinedData(blocks.data, self.owner, self.offsets, self.pairs, self.points)
        return CompiledData(
            structure, structure.encode((blocks, data)), self.data.prior, self.data.room
        )

    def arrays(self):
        return {name: getattr(self, name) for name in ("owner", "offsets", "pairs", "points")}

    def restored(self, arrays):
        blocks = self.data.blocks
        check(arrays, {"owner": Stored("i8", (None,), 0, self.data.n_blocks - 1)})
        owner = arrays["owner"]
        n, sizes = len(owner), np.diff(blocks.offsets)[owner]
        offsets = np.append(0, np.cumsum(2 * sizes))
        check(
            arrays,
            {
                "offsets": Stored("i8", (n + 1,)),
                "pairs": Stored("i4", (offsets[-1],)),
                "points": Stored("f8", (n, 2)),
            },
        )
        require(arrays["offsets"] == offsets, "mined labels are of other sizes")
        given = replace(self, **{name: arrays[name] for name in self.arrays()})
        labels = given.pairs[ranges(offsets[:-1] + sizes, sizes)]
        truths = given.pairs[ranges(offsets[:-1], sizes)]
        require(truths == blocks.truth[ranges(blocks.offsets[owner], sizes)], "truths are others")
        if n:
            valid = self.data.structure.valid_labels(blocks, owner, labels)
            require(valid, "mined labels are none that their blocks can have")
        found = replace(given, points=np.empty((n, 2)))._measured()
        near = np.abs(found.points - given.points) <= _ROUNDING * (1.0 + np.abs(found.points))
        require(near, "mined labels have losses of others")
        return given


@dataclass(frozen=True, eq=False)
class _PlainLabels(MinedLabels):
    """Labels as rows of psi, with their losses."""

    data: PythonData
    loss: np.ndarray
    psi: sp.csr_array

    def mine(self, v, n_jobs):
        data, w = self.data, self.data.prior.weights(v)
        known, hinges = set(self._keys()), np.empty(data.n_blocks)
        owner, losses, rows = [], [], []
        for i in range(data.n_blocks):
            label, error = data.worst_label(i, v)
            psi, loss = next(data.differences(i, [label]))
            violation = loss - psi @ w
            hinges[i] = max(violation + error, 0.0)
            if violation > 0.0:
                owner.append(i)
                losses.append(loss)
                rows.append(sp.csr_array(psi[None]))
        if not rows:
            return hinges, self.take(np.empty(0, dtype=np.int64))
        found = replace(
            self,
            owner=np.array(owner),
            loss=np.array(losses),
            psi=sp.vstack(rows, format="csr"),
        )
        new = [j for j, key in enumerate(found._keys()) if key not in known]
        return hinges, found.take(np.array(new, dtype=np.int64))

    def _keys(self) -> list[tuple[Any, ...]]:
        """What tells labels apart: labels that agree in all of it are one to any solver."""
        psi = self.psi
        parts = [slice(*psi.indptr[j : j + 2]) for j in range(len(self))]
        rows = [(psi.indices[part].tobytes(), psi.data[part].tobytes()) for part in parts]
        return list(zip(self.owner.tolist(), self.loss.tolist(), rows, strict=True))

    def take(self, which):
        return replace(self, owner=self.owner[which], loss=self.loss[which], psi=self.psi[which])

    def joined(self, other):
        return replace(
            self,
            owner=np.append(self.owner, other.owner),
            loss=np.append(self.loss, other.loss),
            psi=sp.vstack([self.psi, other.psi], format="csr"),
        )

    def examples(self):
        structure = Scalar()
        signs_and_margins = np.column_stack([np.ones(len(self)), self.loss])
        return CompiledData(
            structure, structure.encode(self.psi, signs_and_margins), self.data.prior
        )

    def arrays(self):
        psi = {f"psi_{name}": getattr(self.psi, name) for name in ("data", "indices", "indptr")}
        return {"owner": self.owner, "loss": self.loss} | psi

    def restored(self, arrays):
        n, last = len(arrays["owner"]), self.data.n_features - 1
        size = len(arrays["psi_data"])
        check(
            arrays,
            {
                "owner": Stored("i8", (n,), 0, self.data.n_blocks - 1),
                "loss": Stored("f8", (n,)),
                "psi_data": Stored("f8", (size,)),
                "psi_indices": Stored("i4 i8", (size,), 0, last),
                "psi_indptr": Stored("i4 i8", (n + 1,), 0, size),
            },
        )
        ends = arrays["psi_indptr"]
        require(
            ends[0] == 0 and ends[-1] == size and (np.diff(ends) >= 0).all(), "psi have no ends"
        )
        shape = len(arrays["owner"]), self.data.n_features
        parts = (arrays["psi_data"], arrays["psi_indices"], arrays["psi_indptr"])
        return replace(
            self,
            owner=arrays["owner"],
            loss=arrays["loss"],
            psi=sp.csr_array(parts, shape=shape),
        )
