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


@view
def pair_of(offsets, pairs, j):
    """The truth and candidate j, a view of two rows."""
    size = (offsets[j + 1] - offsets[j]) // 2
    return pairs[offsets[j] : offsets[j + 1]].reshape((2, size))


class Mined(CompiledStructure):
    """Blocks of one candidate each: label 1, with phi = -psi; label 0 is the truth with phi = 0.

    Parameters
    ----------
    structure : CompiledStructure
        Whose labels the candidates are.
    """

    def __init__(self, structure: CompiledStructure) -> None:
        self.structure = structure
        self.allocates = structure.allocates  # type: ignore[misc]
        self.signed_losses = structure.signed_losses  # type: ignore[misc]

    @property
    def oracles(self) -> Oracles:
        """The oracles, built around those of the structure."""
        return _mined(self.structure.oracles, self.structure.allocates)

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X is a pair of the structure's own blocks and `MinedData` of them."""
        blocks, data = X
        n = len(data.owner)
        return dataclasses.replace(
            blocks,
            data=data,
            offsets=np.arange(n + 1),
            truth=np.zeros(n, dtype=np.int32),
            work_size=blocks.work_size + 1,  # for <w, psi>
            use_inner=True,
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
    own_prefetch, own_pull, own_score = inside.prefetch, inside.pull, inside.score
    own_add_features, own_touch = inside.add_features, inside.touch

    def prefetch(data, j):
        own_prefetch(data.inside, data.owner[j])

    def pull(data, j, w, work):
        """The last number of `work` is <w, psi>."""
        i, last = data.owner[j], work.shape[0] - 1
        pair = pair_of(data.offsets, data.pairs, j)
        own_pull(data.inside, i, w, work[:last])
        right = own_score(data.inside, i, work[:last], pair[0])
        work[last] = right - own_score(data.inside, i, work[:last], pair[1])

    def argmax(data, j, work, loss_weight, label):
        """The candidate when it violates, else the truth."""
        violation = loss_weight * data.points[j, LOSS] - work[work.shape[0] - 1]
        label[0] = 1 if violation > 0.0 else 0
        return max(violation, 0.0)

    def loss(data, j, label):
        return data.points[j, LOSS] * label[0]

    def score(data, j, work, label):
        return -work[work.shape[0] - 1] * label[0]

    def add_features(data, j, labels, scales, w):
        """The candidate, then the truth; the first scale is changed on the way and put back."""
        total = 0.0
        for q in range(scales.shape[0]):
            total += scales[q] * labels[q, 0]
        pair, given = pair_of(data.offsets, data.pairs, j), scales[0]
        scales[0] = total
        own_add_features(data.inside, data.owner[j], pair[1:], scales[:1], w)
        scales[0] = -total
        own_add_features(data.inside, data.owner[j], pair[:1], scales[:1], w)
        scales[0] = given

    def add_change(data, j, change, factor, work, w):
        """Both at once: structures add only what differs. `work` has room for the scales."""
        work[0] = -factor * change[0]
        work[1] = factor * change[0]
        pair = pair_of(data.offsets, data.pairs, j)
        own_add_features(data.inside, data.owner[j], pair, work[:2], w)

    def touch(data, j, action):
        own_touch(data.inside, data.owner[j], action)

    def inner(data, j, a, b):
        return data.points[j, SQUARE] * a[0] * b[0]

    def exact_step(data, j, work, weight, stiffness, alpha, change):
        points, margin = data.points, work[work.shape[0] - 1]
        return step_of_one(
            points[j, LOSS], margin, points[j, SQUARE], weight, stiffness, alpha, change
        )

    return Oracles(
        prefetch, pull, argmax, loss, score, add_features, touch,
        inner=inner, exact_step=exact_step, add_change=add_change,
    )  # fmt: skip
