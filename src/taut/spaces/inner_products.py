"""Inner products of the features of a block's labels, whatever oracles there are for them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.lanes import aligned_zeros


class ProductRoom(NamedTuple):
    """Room for one thread, for w of one type; the weights in `space` are not bounded."""

    space: tuple
    data: tuple
    scratch: np.ndarray  # zero, up to rounding, in between; empty where there is `inner`
    work: np.ndarray
    sign: np.ndarray

    @classmethod
    def of(cls, space: tuple, blocks: Any, scratch: np.ndarray) -> ProductRoom:
        """Room for blocks in a space, and a vector of the type of w."""
        work = aligned_zeros(blocks.work_size, scratch.dtype)
        return cls(space, blocks.data, scratch, work, np.empty(1))


def inner_products(oracles: Any) -> Any:
    """A function that fills row[q] = <phi(label), phi(labels[q])>; `label` is one row."""
    pull, score, add_features = oracles.pull, oracles.score, oracles.add_features
    inner = oracles.inner

    def by_inner(i, label, labels, room, row):
        for q in range(labels.shape[0]):
            row[q] = inner(room.data, i, label[0], labels[q])

    def by_scores(i, label, labels, room, row):
        """Scores against phi(label) as weights."""
        space, data, scratch, work, sign = room
        sign[0] = 1.0
        add_features(space, i, label, sign, scratch)
        pull(space, i, scratch, work)
        for q in range(labels.shape[0]):
            row[q] = score(data, i, work, labels[q])
        sign[0] = -1.0
        add_features(space, i, label, sign, scratch)

    return helper(by_scores if inner is None else by_inner)
