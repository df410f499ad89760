"""The planes of each block: labels found by oracles, with coefficients and a small Gram matrix.

Plane 0 of a block is its truth, whose psi and loss are zero; its coefficient is the part of the
block's weight that is not in use. Coefficients of a block are >= 0 and sum to its weight C_i, so a
dual step always moves weight from one plane to another: with the truth as one of the two it is the
single-variable step, otherwise the pair step of dual coordinate descent with shared slacks.

The Gram matrix may be that of phi or of psi = phi(truth) - phi: only differences of planes enter.
Planes that are moved one by one (`taut.duals.one_by_one`) have none, and are bare.

A block starts with room for a few planes. A full block first drops planes that have been without
weight for long enough, then moves to the end of the pools with twice the room; when a pool is
exhausted, compiled code returns to Python and `Planes.grow` copies what is alive into larger pools.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Self

import numpy as np

from taut.compiled.jit import helper, kernel, view
from taut.compiled.lanes import aligned_zeros, prefetch
from taut.data.arrays import ranges
from taut.storage.stored import Stored, check, check_totals, require

_FIRST_CAPACITY = 4

#: The columns of `PlaneArrays.places`; one more makes a row a cache line.
N_PLANES, CAPACITY, SLOT, SQUARE, TEXT, LABEL_SIZE, BARE = range(7)
_COLUMNS = 8
_LONGEST = 2**30  # count of a plane without weight
_MOST_CAPACITY, _LARGEST = 2**24, 2**48  # of a block, and of places that a file may name


class PlaneArrays(NamedTuple):
    """Storage of all blocks' planes, in the form that compiled code takes.

    A row of `places` belongs to a block: how many planes it has and for how many there is room;
    where its coefficients and losses begin, its Gram matrix, its labels; how long its labels are; 1
    where it has no Gram matrix, else 0.
    """

    places: np.ndarray
    coef: np.ndarray
    loss: np.ndarray
    gram: np.ndarray
    labels: np.ndarray
    idle: np.ndarray  # for how many counts in a row a plane has had no weight
    free: np.ndarray  # where the free parts of the pools begin, and where they end: shape (2, 3)


@view
def gram_of(planes, i):
    """Block i's Gram matrix, a view."""
    capacity = planes.places[i, CAPACITY]
    start = planes.places[i, SQUARE]
    return planes.gram[start : start + capacity * capacity].reshape((capacity, capacity))


@view
def labels_of(planes, i):
    """Block i's labels, a view of shape (capacity, label size)."""
    capacity = planes.places[i, CAPACITY]
    size = planes.places[i, LABEL_SIZE]
    start = planes.places[i, TEXT]
    return planes.labels[start : start + capacity * size].reshape((capacity, size))


@helper
def prefetch_places(planes, i):
    """Ask for what tells where block i's planes are."""
    prefetch(planes.places, _COLUMNS * i)


@helper
def prefetch_planes(planes, i):
    """Ask for block i's planes themselves."""
    prefetch(planes.coef, planes.places[i, SLOT])
    prefetch(planes.loss, planes.places[i, SLOT])
    prefetch(planes.labels, planes.places[i, TEXT])
    prefetch(planes.labels, planes.places[i, TEXT] + 16)
    size = 0 if planes.places[i, BARE] else planes.places[i, CAPACITY]
    for q in range(0, planes.places[i, N_PLANES] * size, 8):
        prefetch(planes.gram, planes.places[i, SQUARE] + q)


@helper
def _drop_idle(planes, i, patience):
    """Forget block i's planes that have been without weight for so long, except the truth."""
    start, square, text = planes.places[i, SLOT], planes.places[i, SQUARE], planes.places[i, TEXT]
    capacity, size = planes.places[i, CAPACITY], planes.places[i, LABEL_SIZE]
    gram, labels = planes.gram, planes.labels  # flat: views of rows take long to compile
    count = planes.places[i, N_PLANES]
    q = 1
    while q < count:
        if planes.coef[start + q] > 0.0 or planes.idle[start + q] < patience:
            q += 1
            continue
        count -= 1
        planes.coef[start + q] = planes.coef[start + count]
        planes.idle[start + q] = planes.idle[start + count]
        planes.loss[start + q] = planes.loss[start + count]
        for t in range(size):
            labels[text + q * size + t] = labels[text + count * size + t]
        if planes.places[i, BARE]:
            continue
        last = square + count * capacity
        for r in range(count):
            gram[square + q * capacity + r] = gram[last + r]
            gram[square + r * capacity + q] = gram[last + r]
        gram[square + q * capacity + q] = gram[last + count]
    planes.places[i, N_PLANES] = count


@helper
def _move_block(planes, i, slot, square, text, capacity):
    """Write block i's planes to other places of the pools, with another capacity."""
    places = planes.places
    count, size, old_capacity = places[i, N_PLANES], places[i, LABEL_SIZE], places[i, CAPACITY]
    old_slot, old_square, old_text = places[i, SLOT], places[i, SQUARE], places[i, TEXT]
    for q in range(count):
        planes.coef[slot + q] = planes.coef[old_slot + q]
        planes.loss[slot + q] = planes.loss[old_slot + q]
        planes.idle[slot + q] = planes.idle[old_slot + q]
        for r in range(0 if places[i, BARE] else count):
            planes.gram[square + q * capacity + r] = planes.gram[old_square + q * old_capacity + r]
    for t in range(count * size):
        planes.labels[text + t] = planes.labels[old_text + t]
    places[i, SLOT], places[i, SQUARE], places[i, TEXT] = slot, square, text
    places[i, CAPACITY] = capacity


@kernel
def make_room(planes, i, wanted, patience):
    """Ensure that block i can take so many more planes; False when the pools must grow first.

    Planes that have been without weight for `patience` counts make room for others.
    """
    if planes.places[i, N_PLANES] + wanted <= planes.places[i, CAPACITY]:
        return True
    _drop_idle(planes, i, patience)
    if planes.places[i, N_PLANES] + wanted <= planes.places[i, CAPACITY]:
        return True
    capacity = 2 * planes.places[i, CAPACITY]
    while capacity < planes.places[i, N_PLANES] + wanted:
        capacity *= 2
    free = planes.free
    slot, square, text = free[0, 0], free[0, 1], free[0, 2]
    size = planes.places[i, LABEL_SIZE]
    row = 0 if planes.places[i, BARE] else capacity
    ends = (slot + capacity, square + capacity * row, text + capacity * size)
    if ends[0] > free[1, 0] or ends[1] > free[1, 1] or ends[2] > free[1, 2]:
        return False
    _move_block(planes, i, slot, square, text, capacity)
    free[0, 0], free[0, 1], free[0, 2] = ends
    return True


@kernel
def _drop_all(planes, patience):
    for i in range(planes.places.shape[0]):
        _drop_idle(planes, i, patience)


@kernel
def append(planes, i, label, loss):
    """Add a plane without weight to block i, which has room; the caller fills its Gram row."""
    q = planes.places[i, N_PLANES]
    planes.coef[planes.places[i, SLOT] + q] = 0.0
    planes.loss[planes.places[i, SLOT] + q] = loss
    planes.idle[planes.places[i, SLOT] + q] = 0
    labels = labels_of(planes, i)
    for t in range(label.shape[0]):
        labels[q, t] = label[t]
    planes.places[i, N_PLANES] = q + 1
    return q


def _needs(places: np.ndarray, capacity: np.ndarray | None = None) -> np.ndarray:
    """What each block takes of the three pools, or would take with other capacity: shape (n, 3)."""
    capacity = places[:, CAPACITY] if capacity is None else capacity
    rows = np.where(places[:, BARE], 0, capacity)
    return np.column_stack([capacity, capacity * rows, capacity * places[:, LABEL_SIZE]])


def _pools(places: np.ndarray, spare: np.ndarray) -> PlaneArrays:
    """Empty pools for blocks side by side, entered into `places`, and something to spare."""
    needs = _needs(places)
    ends = np.cumsum(needs, axis=0)
    places[:, [SLOT, SQUARE, TEXT]] = ends - needs
    slots, squares, texts = ends[-1] + spare
    return PlaneArrays(
        places=places,
        coef=np.zeros(slots),
        loss=np.zeros(slots),
        gram=np.zeros(squares),
        labels=np.zeros(texts, dtype=np.int32),
        idle=np.zeros(slots, dtype=np.int32),
        free=np.array([ends[-1], ends[-1] + spare]),
    )


#: The columns of places that say where in a pool a block begins, and the arrays of that pool.
_POOLS = ((SLOT, ("coef", "loss", "idle")), (SQUARE, ("gram",)), (TEXT, ("labels",)))


def _no_places(n: int) -> np.ndarray:
    return aligned_zeros(n * _COLUMNS, np.int64).reshape(n, _COLUMNS)


def _assemble(
    n: int,
    parts: list[tuple[np.ndarray, PlaneArrays, np.ndarray]],
    spare: np.ndarray | None = None,
) -> PlaneArrays:
    """Planes of n blocks, side by side: blocks `where` are those numbered `blocks` of `arrays`."""
    places = _no_places(n)
    for where, arrays, blocks in parts:
        places[where] = arrays.places[blocks]
    new = _pools(places, np.zeros(3, dtype=np.int64) if spare is None else spare)
    for where, arrays, blocks in parts:
        for (column, names), need in zip(_POOLS, _needs(places[where]).T, strict=True):
            source = ranges(arrays.places[blocks, column], need)
            target = ranges(places[where, column], need)
            for name in names:
                getattr(new, name)[target] = getattr(arrays, name)[source]
    return new


class Planes:
    """Planes of blocks, each beginning with its truth alone.

    `weight` are the blocks' C_i; the truths are one after the other, each beginning at its offset.
    Those that are `bare` have no Gram matrices.
    """

    def __init__(
        self, weight: np.ndarray, truth: np.ndarray, offsets: np.ndarray, bare: bool = False
    ) -> None:
        n, capacity = len(weight), _FIRST_CAPACITY
        sizes = np.diff(offsets).astype(np.int64)
        places = _no_places(n)
        places[:, N_PLANES], places[:, CAPACITY], places[:, LABEL_SIZE] = 1, capacity, sizes
        places[:, BARE] = bare
        self.arrays = _pools(places, np.zeros(3, dtype=np.int64))
        self.arrays.coef[places[:, SLOT]] = weight
        self.arrays.labels[ranges(places[:, TEXT], sizes)] = truth

    @classmethod
    def of(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Planes in named arrays, which are neither looked at nor copied."""
        planes = cls.__new__(cls)
        planes.arrays = PlaneArrays(*(arrays[name] for name in PlaneArrays._fields))
        return planes

    def grow(self, n_shares: int = 1, wanted: int = 1) -> None:
        """Move everything into pools half as large again as what is in use.

        Each of `n_shares` parts of what is free then has room for any block that wants to take so
        many more planes.
        """
        places = self.arrays.places
        capacity = 2 * places[:, CAPACITY]
        while (capacity < places[:, N_PLANES] + wanted).any():
            capacity = np.where(capacity < places[:, N_PLANES] + wanted, 2 * capacity, capacity)
        doubled = _needs(places, capacity).max(axis=0)
        spare = _needs(places).sum(axis=0) // 2 + n_shares * doubled
        everything = np.arange(len(places))
        self.arrays = _assemble(len(places), [(everything, self.arrays, everything)], spare)

    @staticmethod
    def check(
        arrays: dict[str, np.ndarray], weight: np.ndarray, sizes: np.ndarray, bare: bool = False
    ) -> Planes:
        """Planes of blocks of these weights and sizes of labels, unless the arrays are none.

        They have Gram matrices unless they are `bare`. Each block has room of its own within the
        pools, and coefficients >= 0 that sum to its weight. Labels and losses are not looked at.
        """
        n = len(weight)
        numbers = Stored("f8", (None,))
        check(
            arrays,
            {
                "places": Stored("i8", (n, _COLUMNS), 0, _LARGEST),
                "coef": numbers,
                "loss": Stored("f8", arrays["coef"].shape),
                "gram": numbers,
                "labels": Stored("i4", (None,)),
                "idle": Stored("i4", arrays["coef"].shape, 0),
                "free": Stored("i8", (2, 3), 0, _LARGEST),
            },
        )
        planes = Planes.of(arrays)
        places, free = planes.arrays.places, planes.arrays.free
        count, capacity = places[:, N_PLANES], places[:, CAPACITY]
        counted = (count >= 1) & (count <= capacity) & (capacity <= _MOST_CAPACITY)
        require(counted, "planes are miscounted")
        require(places[:, LABEL_SIZE] == sizes, "planes have labels of other sizes")
        fault = f"planes {'have' if bare else 'lack'} Gram matrices"
        require(places[:, BARE] == bare, fault)
        lengths = [len(getattr(planes.arrays, names[0])) for _, names in _POOLS]
        require((free[0] <= free[1]) & (free[1] <= lengths), "pools have no such free space")
        for (column, _), need, end in zip(_POOLS, _needs(places).T, free[0], strict=True):
            start = places[:, column]
            order = np.argsort(start, kind="stable")
            ends = (start + need)[order]
            require(ends <= np.append(start[order][1:], end), "planes overlap")
        blocks, slots = planes._live()
        coef = planes.arrays.coef[slots]
        require(coef >= 0.0, "dual variables are negative")
        check_totals(np.bincount(blocks, coef, minlength=n), weight)
        return planes

    def take(self, blocks: np.ndarray) -> PlaneArrays:
        """The planes of some blocks, in pools of their own."""
        return _assemble(len(blocks), [(np.arange(len(blocks)), self.arrays, blocks)])

    def packed(self, blocks: np.ndarray) -> PlaneArrays:
        """The truths and the planes with weight of some blocks, without room for more."""
        old, own = self.arrays, self.arrays.places[blocks]
        owner = np.repeat(np.arange(len(blocks)), own[:, N_PLANES])
        slots = ranges(own[:, SLOT], own[:, N_PLANES])
        q = slots - own[owner, SLOT]
        kept = (q == 0) | (old.coef[slots] > 0.0)
        owner, slots, q = owner[kept], slots[kept], q[kept]
        count = np.bincount(owner, minlength=len(blocks))
        places = _no_places(len(blocks))
        places[:, N_PLANES], places[:, CAPACITY] = count, count
        places[:, [LABEL_SIZE, BARE]] = own[:, [LABEL_SIZE, BARE]]
        new = _pools(places, np.zeros(3, dtype=np.int64))
        new.coef[:], new.loss[:], new.idle[:] = old.coef[slots], old.loss[slots], old.idle[slots]
        size = own[owner, LABEL_SIZE]
        new.labels[:] = old.labels[ranges(own[owner, TEXT] + q * size, size)]
        # Of each row of a Gram matrix the columns of the planes that are kept.
        count[own[:, BARE] > 0] = 0
        rows = np.repeat(own[owner, SQUARE] + q * own[owner, CAPACITY], count[owner])
        new.gram[:] = old.gram[rows + q[ranges(places[owner, SLOT], count[owner])]]
        return new

    def put(self, blocks: np.ndarray, arrays: PlaneArrays) -> None:
        """Let some blocks have the planes that `take` returned."""
        n = len(self.arrays.places)
        others = np.delete(np.arange(n), blocks)
        new = np.arange(len(blocks))
        self.arrays = _assemble(n, [(others, self.arrays, others), (blocks, arrays, new)])

    def used(self) -> np.ndarray:
        """How much of each block's weight is on something else than the truth."""
        blocks, places = self._live()
        others = places != self.arrays.places[blocks, SLOT]
        weight = np.where(others, self.arrays.coef[places], 0.0)
        return np.bincount(blocks, weight, minlength=len(self.arrays.places))

    def shares(self, n: int) -> list[PlaneArrays]:
        """The same planes n times, each with a part of its own of what is free in the pools.

        With more than one, nothing is free any more in `arrays` itself, until it grows.
        """
        if n == 1:
            return [self.arrays]
        begin, end = self.arrays.free.copy()
        self.arrays.free[0] = end
        edges = [begin + (end - begin) * k // n for k in range(n + 1)]
        return [self.arrays._replace(free=np.array(edges[k : k + 2])) for k in range(n)]

    def count_idle(self) -> None:
        """Count for how long planes have had no weight."""
        coef, idle = self.arrays.coef, self.arrays.idle
        np.add(idle, 1, out=idle, where=idle < _LONGEST)
        idle[coef > 0.0] = 0

    def drop_idle(self, patience: int) -> None:
        """Forget planes, but truths, that have had no weight for so many counts."""
        _drop_all(self.arrays, patience)

    def rescale(self, factor: np.ndarray) -> None:
        """Multiply block i's coefficients by factor[i]."""
        blocks, places = self._live()
        self.arrays.coef[places] *= factor[blocks]

    def complete(self, weight: np.ndarray) -> None:
        """Give the truths what the coefficients lack of the blocks' weights."""
        blocks, places = self._live()
        sums = np.bincount(blocks, self.arrays.coef[places], minlength=len(weight))
        self.arrays.coef[self.arrays.places[:, SLOT]] += np.maximum(weight - sums, 0.0)

    def slots(self) -> np.ndarray:
        """The places of the coefficients and losses of all planes."""
        return self._live()[1]

    def live_labels(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Block, number within it, and place of the first integer of each plane's label."""
        blocks, slots = self._live()
        places = self.arrays.places[blocks]
        number = slots - places[:, SLOT]
        return blocks, number, places[:, TEXT] + number * places[:, LABEL_SIZE]

    def _live(self) -> tuple[np.ndarray, np.ndarray]:
        """Block and slot of each plane."""
        places = self.arrays.places
        count = places[:, N_PLANES]
        return np.repeat(np.arange(len(count)), count), ranges(places[:, SLOT], count)

    def mean_squares(self) -> np.ndarray:
        """The mean |psi|^2 of each block's planes, by their coefficients; 0 without any."""
        arrays, n = self.arrays, len(self.arrays.places)
        blocks, places = self._live()
        q, capacity = places - arrays.places[blocks, SLOT], arrays.places[blocks, CAPACITY]
        start = arrays.places[blocks, SQUARE]
        gram = arrays.gram
        square = gram[start + q * (capacity + 1)] + gram[start] - 2.0 * gram[start + q * capacity]
        coef = np.where(q > 0, arrays.coef[places], 0.0)
        total, weight = np.bincount(blocks, coef * square, n), np.bincount(blocks, coef, n)
        return total / np.where(weight > 0.0, weight, 1.0)

    def gram(self, i: int) -> np.ndarray:
        """Block i's Gram matrix, a view."""
        _, capacity, _, start, *_ = self.arrays.places[i]
        return self.arrays.gram[start : start + capacity**2].reshape(capacity, capacity)

    def labels(self, i: int) -> np.ndarray:
        """The labels of block i's planes, a view."""
        count, _, _, _, start, size, *_ = self.arrays.places[i]
        return self.arrays.labels[start : start + count * size].reshape(count, size)

    def numbers(self) -> np.ndarray:
        """The labels of all planes, where a label is a single number."""
        blocks, places = self._live()
        within = places - self.arrays.places[blocks, SLOT]
        return self.arrays.labels[self.arrays.places[blocks, TEXT] + within]

    @property
    def loss_sum(self) -> float:
        """The dual's linear term: sum of coefficient times loss."""
        _blocks, places = self._live()
        return float(self.arrays.coef[places] @ self.arrays.loss[places])

    @property
    def nbytes(self) -> int:
        """Memory that the planes take."""
        return sum(array.nbytes for array in self.arrays)
