"""Labels at random beside the argmax."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from taut.binding import PythonData
from taut.compiled.jit import helper
from taut.compiled.label_rows import copy, is_among, listed_labels, same
from taut.compiled.xorshift import below, scrambled, stepped
from taut.sampling.base import ALL_LABELS, EITHER, missing
from taut.sampling.listed import Top
from taut.sampling.m_best import MBest
from taut.spaces.labels import score_of
from taut.structures.abilities import bounded_argmax


class PositionRoom(NamedTuple):
    """How many labels a position has, the truths of all blocks, and room for a label."""

    n_labels: int
    truth: np.ndarray
    offsets: np.ndarray
    label: np.ndarray


def _draw_listed(operations):
    argmax, score, loss = operations.argmax, score_of(operations), operations.loss

    def sample(data, i, work, loss_weight, seed, room, found, values):
        """One scan: label number t of those that may be drawn takes a place with odds 1 / t."""
        own = room.truth[room.offsets[i] : room.offsets[i + 1]]
        values[0] = argmax(data, i, work, loss_weight, found[0])
        wanted, seen, state = values.shape[0] - 1, 0, scrambled(seed)
        labels = listed_labels(room.listed, i)
        for k in range(labels.shape[0]):
            label = labels[k]
            if wanted == 0 or same(label, own) or same(label, found[0]):
                continue
            state = stepped(state)
            place = seen if seen < wanted else below(state, seen + 1)
            if place < wanted:
                room.places[place] = k
            seen += 1
        count = 1 + min(seen, wanted)
        for q in range(1, count):
            copy(labels[room.places[q - 1]], found[q])
            values[q] = score(data, i, work, found[q]) + loss_weight * loss(data, i, found[q])
        return count

    return sample


@helper
def _next_label(label, n_labels):
    """The label that comes next when all are in order; the last is followed by the first."""
    t = 0
    while t < label.shape[0] and label[t] == n_labels - 1:
        label[t] = 0
        t += 1
    if t < label.shape[0]:
        label[t] += 1


def _draw_positions(operations):
    argmax, score, loss = operations.argmax, score_of(operations), operations.loss

    def sample(data, i, work, loss_weight, seed, room, found, values):
        """A label that is there already gives way to the next one in order that is not."""
        own = room.truth[room.offsets[i] : room.offsets[i + 1]]
        values[0] = argmax(data, i, work, loss_weight, found[0])
        label, state = room.label[: own.shape[0]], scrambled(seed)
        for count in range(1, values.shape[0]):
            for t in range(label.shape[0]):
                state = stepped(state)
                label[t] = below(state, room.n_labels)
            tries = 0
            while tries <= count + 1 and (same(label, own) or is_among(found, count, label)):
                _next_label(label, room.n_labels)
                tries += 1
            if tries > count + 1:  # there are no others
                return count
            copy(label, found[count])
            values[count] = score(data, i, work, label) + loss_weight * loss(data, i, label)
        return values.shape[0]

    return sample


class Random(Top):
    """The argmax, and other labels at random, none of them the truth.

    Labels that are listed, as `Top` needs them, are drawn with equal odds. Where they are
    positions, as `MBest` needs them, so is the label of each position.
    """

    name = "random"
    make = staticmethod(_draw_listed)

    def suited(self, data):
        """The form for labels that are listed, or for positions."""
        if data.lists_labels:
            return self
        if data.has_positions:
            return _AtPositions()
        raise missing(self, data, _NEEDS, 'sampler="argmax" or your own function')

    def labels(self, data, i, w, count, rng):
        """Drawn among all labels."""
        best, error = bounded_argmax(data.structure, data.X[i], w, data.truth[i])
        every = list(data.structure.labels(data.X[i]))
        shuffled = (every[k] for k in rng.permutation(len(every)))
        drawn = data.distinct(i, itertools.chain([best], shuffled))
        return [label for label, _psi, _loss in itertools.islice(drawn, count)], error


class _AtPositions(Random):
    """A label drawn for each position."""

    make = staticmethod(_draw_positions)

    def n_labels(self, data, wanted):
        """As many as are wanted, if there are."""
        return MBest().n_labels(data, wanted)

    def room(self, data, count, dtype):
        """Room for a label."""
        blocks = data.blocks
        label = np.empty(blocks.label_size, dtype=np.int32)
        return PositionRoom(blocks.n_labels, blocks.truth, blocks.offsets, label)


_NEEDS = EITHER | {PythonData: ALL_LABELS[PythonData]}
