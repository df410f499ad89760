"""The planes of each block: labels found by oracles, with coefficients and a small Gram matrix.

Plane 0 of a block is its truth, whose psi and loss are zero; its coefficient is the part of the
block's weight that is not in use. Coefficients of a block are >= 0 and sum to its weight C_i, so a
dual step always moves weight from one plane to another: with the truth as one of the two it is the
single-variable step, otherwise the pair step of dual coordinate descent with shared slacks.

The Gram matrix may be that of phi or of psi = phi(truth) - phi: only differences of planes enter.

A block starts with room for a few planes. A full block first drops planes without weight, then
moves to the end of the pools with twice the room; when a pool is exhausted, compiled code returns
to Python and `Planes.grow` copies what is alive into larger pools.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taut._jit import helper, kernel, view
from taut._lanes import prefetch

_FIRST_CAPACITY = 4


class PlaneArrays(NamedTuple):
    """Storage of all blocks' planes, in the form that compiled code takes.

    Block i has `n_planes[i]` planes in room for `capacity[i]`; its coefficients and losses start at
    `slot[i]`, its Gram matrix at `square[i]`, its labels at `text[i]`.
    """

    n_planes: np.ndarray
    capacity: np.ndarray
    slot: np.ndarray
    square: np.ndarray
    text: np.ndarray
    label_size: np.ndarray
    coef: np.ndarray
    loss: np.ndarray
    gram: np.ndarray
    labels: np.ndarray
    used: np.ndarray  # where the free parts of the pools begin: slots, gram, labels
    limit: np.ndarray  # and where they end


@view
def gram_of(planes, i):
    """Block i's Gram matrix, a view."""
    room = planes.capacity[i]
    start = planes.square[i]
    return planes.gram[start : start + room * room].reshape((room, room))


@view
def labels_of(planes, i):
    """Block i's labels, a view of shape (capacity, label size)."""
    room = planes.capacity[i]
    size = planes.label_size[i]
    start = planes.text[i]
    return planes.labels[start : start + room * size].reshape((room, size))


@helper
def prefetch_places(planes, i):
    """Ask for what tells where block i's planes are."""
    prefetch(planes.n_planes, i)
    prefetch(planes.capacity, i)
    prefetch(planes.slot, i)
    prefetch(planes.square, i)
    prefetch(planes.text, i)
    prefetch(planes.label_size, i)


@helper
def prefetch_planes(planes, i):
    """Ask for block i's planes themselves."""
    prefetch(planes.coef, planes.slot[i])
    prefetch(planes.loss, planes.slot[i])
    prefetch(planes.labels, planes.text[i])
    prefetch(planes.labels, planes.text[i] + 16)
    for q in range(0, planes.n_planes[i] * planes.capacity[i], 8):
        prefetch(planes.gram, planes.square[i] + q)


@helper
def _drop_idle(planes, i):
    """Forget block i's planes without weight, except the truth."""
    start = planes.slot[i]
    gram = gram_of(planes, i)
    labels = labels_of(planes, i)
    count = planes.n_planes[i]
    q = 1
    while q < count:
        if planes.coef[start + q] > 0.0:
            q += 1
            continue
        count -= 1
        planes.coef[start + q] = planes.coef[start + count]
        planes.loss[start + q] = planes.loss[start + count]
        for t in range(labels.shape[1]):
            labels[q, t] = labels[count, t]
        for r in range(count):
            gram[q, r] = gram[count, r]
            gram[r, q] = gram[count, r]
        gram[q, q] = gram[count, count]
    planes.n_planes[i] = count


@helper
def _copy_block(source, i, target, slot, square, text, room):
    """Write block i of `source` into `target` at the given places, with the given room."""
    start = source.slot[i]
    old_gram = gram_of(source, i)
    old_labels = labels_of(source, i)
    target.slot[i] = slot
    target.square[i] = square
    target.text[i] = text
    target.capacity[i] = room
    gram = gram_of(target, i)
    labels = labels_of(target, i)
    for q in range(source.n_planes[i]):
        target.coef[slot + q] = source.coef[start + q]
        target.loss[slot + q] = source.loss[start + q]
        for r in range(source.n_planes[i]):
            gram[q, r] = old_gram[q, r]
        for t in range(labels.shape[1]):
            labels[q, t] = old_labels[q, t]


@kernel
def make_room(planes, i):
    """Ensure that block i can take one more plane; False when the pools must grow first."""
    if planes.n_planes[i] < planes.capacity[i]:
        return True
    _drop_idle(planes, i)
    if planes.n_planes[i] < planes.capacity[i]:
        return True
    room = 2 * planes.capacity[i]
    slot, square, text = planes.used[0], planes.used[1], planes.used[2]
    ends = (slot + room, square + room * room, text + room * planes.label_size[i])
    if ends[0] > planes.limit[0] or ends[1] > planes.limit[1] or ends[2] > planes.limit[2]:
        return False
    _copy_block(planes, i, planes, slot, square, text, room)
    planes.used[0], planes.used[1], planes.used[2] = ends
    return True


@kernel
def append(planes, i, label, loss):
    """Add a plane without weight to block i, which has room; the caller fills its Gram row."""
    q = planes.n_planes[i]
    planes.coef[planes.slot[i] + q] = 0.0
    planes.loss[planes.slot[i] + q] = loss
    labels = labels_of(planes, i)
    for t in range(label.shape[0]):
        labels[q, t] = label[t]
    planes.n_planes[i] = q + 1
    return q


@kernel
def corrective_steps(planes, i, violation, stiffness, max_steps, change):
    """Move weight between block i's planes, up to `max_steps` pairs, each step exact.

    The pair is the most violated plane and the least violated one that has weight. `violation` is
    kept current through the Gram matrix; `change` receives the change of each coefficient.
    Returns the change of the summed loss, and |sum_q change[q] psi(q)|^2.
    """
    count = planes.n_planes[i]
    start = planes.slot[i]
    coef = planes.coef[start : start + count]
    gram = gram_of(planes, i)
    for q in range(count):
        change[q] = 0.0
    first_difference = 0.0
    for step in range(max_steps):
        up = 0
        down = -1
        for q in range(count):
            if violation[q] > violation[up]:
                up = q
            if coef[q] > 0.0 and (down < 0 or violation[q] < violation[down]):
                down = q
        difference = violation[up] - violation[down]
        if step == 0:
            first_difference = difference
        # Later pairs of a visit are worth their cost only while they are not tiny beside the first.
        if difference <= 1e-3 * first_difference or difference <= 1e-14:
            break
        curvature = gram[up, up] + gram[down, down] - 2.0 * gram[up, down]
        amount = coef[down]
        if difference * stiffness < amount * curvature:
            amount = difference * stiffness / curvature
            coef[down] -= amount
        else:
            coef[down] = 0.0
        coef[up] += amount
        change[down] -= amount
        change[up] += amount
        for q in range(count):
            violation[q] -= amount * (gram[q, up] - gram[q, down]) / stiffness
    loss_change = 0.0
    length = 0.0
    for q in range(count):
        if change[q] != 0.0:
            loss_change += change[q] * planes.loss[start + q]
            for r in range(count):
                length += change[q] * change[r] * gram[q, r]
    return loss_change, length


def _ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """All positions starts[i], ..., starts[i] + sizes[i] - 1, one range after the other."""
    ends = np.cumsum(sizes)
    return np.arange(ends[-1]) + np.repeat(starts - ends + sizes, sizes)


class Planes:
    """Planes of n blocks, each beginning with its truth alone.

    Parameters
    ----------
    weight : ndarray of shape (n,)
        The blocks' weights C_i.
    truth, offsets : ndarray
        The true labels one after the other, and where each begins.
    """

    def __init__(self, weight: np.ndarray, truth: np.ndarray, offsets: np.ndarray) -> None:
        n = len(weight)
        room = _FIRST_CAPACITY
        size = np.diff(offsets).astype(np.int64)
        text = room * offsets[:-1].astype(np.int64)
        self.arrays = PlaneArrays(
            n_planes=np.ones(n, dtype=np.int64),
            capacity=np.full(n, room, dtype=np.int64),
            slot=room * np.arange(n, dtype=np.int64),
            square=room * room * np.arange(n, dtype=np.int64),
            text=text,
            label_size=size,
            coef=np.zeros(n * room),
            loss=np.zeros(n * room),
            gram=np.zeros(n * room * room),
            labels=np.zeros(room * int(offsets[-1]), dtype=np.int32),
            used=np.array([n * room, n * room * room, room * int(offsets[-1])], dtype=np.int64),
            limit=np.array([n * room, n * room * room, room * int(offsets[-1])], dtype=np.int64),
        )
        self.arrays.coef[self.arrays.slot] = weight
        self.arrays.labels[_ranges(text, size)] = truth

    def grow(self, n_shares: int = 1) -> None:
        """Move everything into pools half as large again as what is in use.

        Each of `n_shares` parts of what is free then has room for any block's next doubling.
        """
        old = self.arrays
        live = np.array(
            [
                old.capacity.sum(),
                (old.capacity**2).sum(),
                (old.capacity * old.label_size).sum(),
            ]
        )
        # One block's next doubling must fit, whatever its size.
        largest = np.array(
            [
                2 * old.capacity.max(),
                4 * (old.capacity**2).max(),
                2 * (old.capacity * old.label_size).max(),
            ]
        )
        slots, squares, texts = live + live // 2 + n_shares * largest
        room = old.capacity
        slot, square, text = (
            np.cumsum(size) - size for size in (room, room**2, room * old.label_size)
        )
        new = PlaneArrays(
            n_planes=old.n_planes,
            capacity=room,
            slot=slot,
            square=square,
            text=text,
            label_size=old.label_size,
            coef=np.zeros(slots),
            loss=np.zeros(slots),
            gram=np.zeros(squares),
            labels=np.zeros(texts, dtype=np.int32),
            used=live,
            limit=np.array([slots, squares, texts]),
        )
        for start, size, names in (
            ("slot", room, ("coef", "loss")),
            ("square", room**2, ("gram",)),
            ("text", room * old.label_size, ("labels",)),
        ):
            places = _ranges(getattr(old, start), size)
            for name in names:
                getattr(new, name)[: len(places)] = getattr(old, name)[places]
        self.arrays = new

    def shares(self, n: int) -> list[PlaneArrays]:
        """The same planes n times, each with a part of its own of what is free in the pools.

        With more than one, nothing is free any more in `arrays` itself, until it grows.
        """
        if n == 1:
            return [self.arrays]
        begin, end = self.arrays.used.copy(), self.arrays.limit
        self.arrays.used[:] = end
        edges = [begin + (end - begin) * k // n for k in range(n + 1)]
        return [self.arrays._replace(used=edges[k].copy(), limit=edges[k + 1]) for k in range(n)]

    def rescale(self, factor: np.ndarray) -> None:
        """Multiply block i's coefficients by factor[i]."""
        blocks, places = self._live()
        self.arrays.coef[places] *= factor[blocks]

    def complete(self, weight: np.ndarray) -> None:
        """Give the truths what the coefficients lack of the blocks' weights."""
        blocks, places = self._live()
        sums = np.bincount(blocks, self.arrays.coef[places], minlength=len(weight))
        self.arrays.coef[self.arrays.slot] += np.maximum(weight - sums, 0.0)

    def _live(self) -> tuple[np.ndarray, np.ndarray]:
        """Block and slot of each plane."""
        count = self.arrays.n_planes
        return np.repeat(np.arange(len(count)), count), _ranges(self.arrays.slot, count)

    def mean_squares(self) -> np.ndarray:
        """The mean |psi|^2 of each block's planes, by their coefficients; 0 without any."""
        arrays, n = self.arrays, len(self.arrays.slot)
        blocks, places = self._live()
        q, room = places - arrays.slot[blocks], arrays.capacity[blocks]
        start = arrays.square[blocks]
        gram = arrays.gram
        square = gram[start + q * (room + 1)] + gram[start] - 2.0 * gram[start + q * room]
        coef = np.where(q > 0, arrays.coef[places], 0.0)
        total, weight = np.bincount(blocks, coef * square, n), np.bincount(blocks, coef, n)
        return total / np.where(weight > 0.0, weight, 1.0)

    def gram(self, i: int) -> np.ndarray:
        """Block i's Gram matrix, a view."""
        room, start = self.arrays.capacity[i], self.arrays.square[i]
        return self.arrays.gram[start : start + room**2].reshape(room, room)

    def labels(self, i: int) -> np.ndarray:
        """The labels of block i's planes, a view."""
        count, size = self.arrays.n_planes[i], self.arrays.label_size[i]
        start = self.arrays.text[i]
        return self.arrays.labels[start : start + count * size].reshape(count, size)

    def numbers(self) -> np.ndarray:
        """The labels of all planes, where a label is a single number."""
        blocks, places = self._live()
        within = places - self.arrays.slot[blocks]
        return self.arrays.labels[self.arrays.text[blocks] + within]

    @property
    def loss_sum(self) -> float:
        """The dual's linear term: sum of coefficient times loss."""
        _blocks, places = self._live()
        return float(self.arrays.coef[places] @ self.arrays.loss[places])

    @property
    def nbytes(self) -> int:
        """Memory that the planes take."""
        return sum(array.nbytes for array in self.arrays)
