"""The best labels of structures whose labels are positions, without enumeration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taut.compiled.label_rows import copy, same
from taut.inference.m_best import Candidates, best_of_block, candidates
from taut.sampling._planes import led_by_argmax
from taut.sampling.base import BEST_LABELS, Sampler, missing


class SearchRoom(NamedTuple):
    """What labels are, the truths of all blocks, and room for one label more than is wanted."""

    n_labels: int
    label_stride: int
    truth: np.ndarray
    offsets: np.ndarray
    pool: Candidates
    found: np.ndarray
    values: np.ndarray


def _best_by_search(operations):
    search = best_of_block(operations)

    def sample(data, i, work, loss_weight, seed, room, found, values):
        """One label more is found than is wanted, because the truth gives way."""
        own = room.truth[room.offsets[i] : room.offsets[i + 1]]
        size, most = own.shape[0], min(values.shape[0] + 1, room.values.shape[0])
        best = room.found[: most * size].reshape((most, size))
        ranks = search(
            data, i, work, loss_weight, room.n_labels, room.label_stride, room.pool, best,
            room.values[:most],
        )  # fmt: skip
        count = 0
        for r in range(ranks):
            if count < values.shape[0] and (r == 0 or not same(best[r], own)):
                copy(best[r], found[count])
                values[count] = room.values[r]
                count += 1
        return count

    return sample


class MBest(Sampler):
    """The labels of highest score + loss, by argmax under constraints (Murty, Lawler).

    For compiled structures whose labels are positions (`Blocks.n_labels`), such as chains and
    graphs, where each label costs at most one argmax per position, and for plain ones with a method
    `m_best(x, w, truth, count)`. The truth of a compiled structure is among them only where it is
    the best.
    """

    name = "m_best"
    make = staticmethod(_best_by_search)

    def suited(self, data):
        """Itself, where there is what the search needs."""
        if not data.ranks_labels:
            raise missing(self, data, BEST_LABELS, 'sampler="top", "argmax" or your own function')
        return self

    def n_labels(self, data, wanted):
        """As many as are wanted, if there are."""
        return min(wanted, data.n_ranked)

    def room(self, data, count, dtype):
        """Room for the search."""
        blocks = data.blocks
        most = min(count + 1, data.n_ranked)
        return SearchRoom(
            blocks.n_labels,
            blocks.label_stride,
            blocks.truth,
            blocks.offsets,
            candidates(most, blocks.label_size, blocks.label_stride, dtype),
            np.empty(most * blocks.label_size, dtype=np.int32),
            np.empty(most),
        )

    def labels(self, data, i, w, count, rng):
        """What the structure finds."""
        labels = list(data.structure.m_best(data.X[i], w, data.truth[i], count))
        return led_by_argmax(data, i, w, labels, count, "m_best")
