"""The best of all labels, where a structure lists them."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from taut.compiled.heaps import exchange, heap, sink
from taut.compiled.jit import helper
from taut.compiled.label_rows import Listed, copy, listed_labels, same
from taut.sampling.base import ALL_LABELS, Sampler, missing
from taut.spaces.labels import score_of

_THE_TRUTH = -1


class ListedRoom(NamedTuple):
    """All labels, the truths of all blocks, and room for the places of the best labels."""

    listed: Listed
    truth: np.ndarray
    offsets: np.ndarray
    places: np.ndarray


def listed_room(data, count):
    """Room for the places of `count` labels."""
    blocks = data.blocks
    return ListedRoom(data.listed, blocks.truth, blocks.offsets, np.empty(count, dtype=np.int64))


def _best_listed(operations):
    score, loss = score_of(operations), operations.loss

    def sample(data, i, work, loss_weight, seed, room, found, values):
        """One scan: the best labels so far are a heap, and few labels enter it."""
        own = room.truth[room.offsets[i] : room.offsets[i + 1]]
        labels = listed_labels(room.listed, i)
        places, capacity, count = room.places, values.shape[0], 0
        for k in range(labels.shape[0]):
            label = labels[k]
            if same(label, own):
                continue
            value = score(data, i, work, label) + loss_weight * loss(data, i, label)
            if count < capacity:
                values[count] = value
                places[count] = k
                count += 1
                if count == capacity:
                    heap(values, places, count)
            elif value > values[0]:
                values[0] = value
                places[0] = k
                sink(values, places, 0, count)
        best = 0
        for r in range(1, count):
            best = r if values[r] > values[best] else best
        base = score(data, i, work, own)
        if count == 0 or base > values[best]:
            best = count if count < capacity else 0  # the lowest of a full heap gives way
            values[best], places[best] = base, _THE_TRUTH
            count = max(count, best + 1)
        exchange(values, places, 0, best)
        for r in range(count):
            if places[r] == _THE_TRUTH:
                copy(own, found[r])
            else:
                copy(labels[places[r]], found[r])
        return count

    return sample


@helper
def _put(label, value, place, found, values, best):
    """Write a label into a row; returns the row of the best."""
    copy(label, found[place])
    values[place] = value
    return place if value > values[best] else best


def _all_listed(operations):
    score, loss = score_of(operations), operations.loss

    def sample(data, i, work, loss_weight, seed, room, found, values):
        """One scan; where rows are too few, the best label has one nevertheless."""
        own = room.truth[room.offsets[i] : room.offsets[i + 1]]
        labels = listed_labels(room.listed, i)
        capacity, count, best = values.shape[0], 0, 0
        for k in range(labels.shape[0]):
            label = labels[k]
            if same(label, own):
                continue
            value = score(data, i, work, label) + loss_weight * loss(data, i, label)
            if count < capacity or value > values[best]:
                place = min(count, capacity - 1)
                best = _put(label, value, place, found, values, best)
                count = place + 1
        base = score(data, i, work, own)
        if count == 0 or base > values[best]:
            place = min(count, capacity - 1)
            best = _put(own, base, place, found, values, best)
            count = place + 1
        values[0], values[best] = values[best], values[0]
        for t in range(own.shape[0]):
            found[0, t], found[best, t] = found[best, t], found[0, t]
        return count

    return sample


class Top(Sampler):
    """The labels of highest score + loss, by enumeration; the best first, the others in no order.

    A compiled structure lists its labels in `all_labels`, a plain one in `labels(x)`. The truth is
    among them only where it is the best. A visit costs one score and one loss per label, and a
    place in a heap for those that are among the best so far.
    """

    name = "top"
    make = staticmethod(_best_listed)

    def suited(self, data):
        """Itself, where labels are listed."""
        if not data.lists_labels:
            raise missing(self, data, ALL_LABELS, 'sampler="m_best", "argmax" or your own function')
        return self

    def n_labels(self, data, wanted):
        """As many as are wanted, if there are."""
        return min(wanted, data.n_listed)

    def room(self, data, count, dtype):
        """The labels, and their places."""
        return listed_room(data, count)

    def labels(self, data, i, w, count, rng):
        """Exactly the best: all labels are tried."""
        pool = data.pool(i, (data.truth[i], *data.structure.labels(data.X[i])), w)
        ranked = list(zip(pool.violations.tolist(), pool.labels, strict=True))
        best = heapq.nlargest(count, ranked[1:], key=lambda pair: pair[0])
        if not best or best[0][0] < 0.0:
            best = [ranked[0], *best][:count]
        return [label for _value, label in best], 0.0


class AllLabels(Top):
    """All labels, the best first and the others in no order; the truth only where it is the best.

    A structure lists them as for `Top`. A visit costs one score and one loss per label.
    """

    name = "all"
    make = staticmethod(_all_listed)

    def n_labels(self, data, wanted):
        """All, however many are wanted."""
        return data.n_listed
