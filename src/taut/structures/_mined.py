"""One candidate per block, as in `scalar`, but a label of another structure's block.

Several candidates may belong to the same block of that structure. Each has a slack of its own: what
training on them solves is a binary problem, with psi as the example and the loss as its margin.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper, view
from taut.spaces.labels import Gather, Scatter, Times
from taut.spaces.linear import OwnMap
from taut.structures.base import Blocks, CompiledStructure, Oracles
from taut.structures.scalar import step_of_one

#: The columns of `MinedData.points`.
LOSS, SQUARE = range(2)


class MinedData(NamedTuple):
    """What the oracles read: the data of the structure, and the candidates.

    Candidate j belongs to block owner[j] of the structure. From offsets[j] on, `pairs` has that
    block's truth and then the candidate; a row of `points` is its loss and |psi|^2.
    """

    inside: tuple
    owner: np.ndarray
    offsets: np.ndarray
    pairs: np.ndarray
    points: np.ndarray
    candidate: np.ndarray = np.ones(1, dtype=np.int32)  # the label of all of them


@view
def pair_of(offsets, pairs, j):
    """The truth and candidate j, a view of two rows."""
    size = (offsets[j + 1] - offsets[j]) // 2
    return pairs[offsets[j] : offsets[j + 1]].reshape((2, size))


class Mined(CompiledStructure):
    """Blocks of one candidate each: label 1, with phi = -psi; label 0 is the truth with phi = 0.

    The candidates are labels of another structure.
    """

    def __init__(self, structure: CompiledStructure) -> None:
        self.structure = structure
        self.allocates = structure.allocates  # type: ignore[misc]
        self.signed_losses = structure.signed_losses  # type: ignore[misc]

    @property
    def oracles(self) -> Oracles:
        """The oracles, built around those of the structure."""
        return _mined(self.structure.oracles, self.structure.allocates)

    @property
    def own_map(self) -> OwnMap | None:
        """That of the structure, for the blocks that candidates belong to."""
        own = self.structure.own_map
        return own and _of_owners(own, self.structure.allocates)

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X is a pair of the structure's own blocks and `MinedData` of them."""
        blocks, data = X
        n = len(data.owner)
        return dataclasses.replace(
            blocks,
            data=data,
            features=blocks.features.take(data.owner),
            offsets=np.arange(n + 1),
            truth=np.zeros(n, dtype=np.int32),
            n_labels=0,
            label_stride=0,
            mean_offsets=None,
        )

    def decode(self, labels, offsets):
        """Whether the candidate is preferred to the truth."""
        return labels

    @property
    def all_labels(self) -> np.ndarray:
        """The candidate alone: the truth's weight is what remains of the block's."""
        return np.ones((1, 1), dtype=np.int32)


@functools.cache
def _mined(oracles: Oracles, allocates: bool) -> Oracles:
    """Oracles of candidates; cached, because kernels are found by them."""
    inside: Any = Oracles._make(oracle and helper(oracle, allocates) for oracle in oracles)
    own_prefetch, own_parts = inside.prefetch, inside.parts

    def prefetch(data, j):
        own_prefetch(data.inside, data.owner[j])

    def parts(data, j, label, each):
        """What the candidate has more than the truth."""
        pair, i = pair_of(data.offsets, data.pairs, j), data.owner[j]
        if label[0] == 0:
            return 0.0
        own = own_parts(data.inside, i, pair[1], Times(each, 1.0))
        return own + own_parts(data.inside, i, pair[0], Times(each, -1.0))

    walk = helper(parts, allocates)

    def argmax(data, j, work, loss_weight, label):
        """The candidate when it violates, else the truth."""
        label[0] = 1
        violation = loss_weight * data.points[j, LOSS] + walk(data, j, label, Gather(work))
        label[0] = 1 if violation > 0.0 else 0
        return max(violation, 0.0)

    def loss(data, j, label):
        return data.points[j, LOSS] * label[0]

    def exact_step(data, j, work, square, weight, stiffness, alpha, statistics):
        """The one variable, exactly."""
        label = data.candidate
        score = -walk(data, j, label, Gather(work))
        change, gap, loss_change, length = step_of_one(
            data.points[j, LOSS], score, data.points[j, SQUARE], weight, stiffness, alpha
        )
        size = statistics.shape[0]
        for p in range(size):
            statistics[p] = 0.0
        if change != 0.0:
            walk(data, j, label, Scatter(statistics, statistics, size, 0, change))
        return gap, loss_change, length

    return Oracles(argmax, loss, parts, prefetch, exact_step=exact_step)


@functools.cache
def _of_owners(own: OwnMap, allocates: bool) -> OwnMap:
    """What reads and adds to w, for data that hold those of the structure."""
    own_pull, own_push = helper(own.pull, allocates), helper(own.push, allocates)

    def pull(data, j, w, work):
        own_pull(data.inside, data.owner[j], w, work)

    def push(data, j, statistics, w):
        own_push(data.inside, data.owner[j], statistics, w)

    return OwnMap(pull, push)
