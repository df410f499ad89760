"""The M best labels of blocks whose labels are positions, by argmax under constraints.

Labels that have not been found form disjoint parts (Murty 1968, Lawler 1972): those that begin as a
found label does up to some position, and have there none of the labels that found ones of this
beginning have. The best label of each part is a candidate, and the best candidate the next label;
it divides its own part. A part is imposed on `argmax` by the scores of single labels, so one loop
serves all structures (`Blocks.n_labels`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.spaces.labels import score_of

_FORBIDDEN = -1e30  # not infinite: compiled code may assume that no number is


class Candidates(NamedTuple):
    """Room for one thread: the best labels of parts, and the scores of single labels."""

    labels: np.ndarray  # a row more than there are candidates: what argmax has found
    values: np.ndarray
    starts: np.ndarray  # where the labels of a part need no longer begin as a found label does
    scores: np.ndarray


def candidates(m: int, label_size: int, label_stride: int, dtype: Any) -> Candidates:
    """Room for the candidates of the m best labels, and for weights of this type."""
    return Candidates(
        np.empty((m + 1, label_size), dtype=np.int32),
        np.empty(m),
        np.empty(m, dtype=np.int64),
        np.empty(label_size * label_stride, dtype=dtype),
    )


@helper
def _place(pool, count, capacity, value):
    """Where a candidate goes: that of the lowest value gives way; -1 if it is the lowest itself."""
    if count < capacity:
        return count
    lowest = 0
    for c in range(1, count):
        if pool.values[c] < pool.values[lowest]:
            lowest = c
    return lowest if value > pool.values[lowest] else -1


@helper
def _put(pool, c, value, start, label):
    """Write candidate c."""
    pool.values[c] = value
    pool.starts[c] = start
    for t in range(label.shape[0]):
        pool.labels[c, t] = label[t]


@helper
def _forbid_found(work, here, found, rank, t):
    """Forbid the labels at position t of all found labels that begin as the last one does."""
    for r in range(rank):
        u = 0
        while u < t and found[r, u] == found[rank - 1, u]:
            u += 1
        if u == t:
            work[here + found[r, t]] = _FORBIDDEN


@helper
def _fix(work, here, n_labels, scores, k):
    """Forbid all labels at a position but k."""
    for other in range(n_labels):
        work[here + other] = _FORBIDDEN
    work[here + k] = scores[here + k]


@helper
def _is_allowed(work, stride, label):
    """Whether no label at any position is forbidden: a part may be empty."""
    allowed = True
    for t in range(label.shape[0]):
        allowed &= work[t * stride + label[t]] > 0.5 * _FORBIDDEN
    return allowed


def best_of_block(operations):
    """The search in one block, around the oracles."""
    argmax, score, loss = operations.argmax, score_of(operations), operations.loss

    def best(data, i, work, loss_weight, n_labels, stride, pool, found, values):
        """Write the labels of highest score + loss_weight * loss into the rows of `found`.

        `values` gets what they are worth, best first; returns how many there are, at most
        len(values). `work` has the potentials, which are at the end what they were.
        """
        m, size = found.shape
        label = pool.labels[m, :size]
        for p in range(size * stride):
            pool.scores[p] = work[p]
        argmax(data, i, work, loss_weight, label)
        value = score(data, i, work, label) + loss_weight * loss(data, i, label)
        _put(pool, 0, value, 0, label)
        count = 1
        rank = 0
        while count > 0:
            top = 0
            for c in range(1, count):
                top = c if pool.values[c] > pool.values[top] else top
            start = pool.starts[top]
            values[rank] = pool.values[top]
            for t in range(size):
                found[rank, t] = pool.labels[top, t]
            rank += 1
            count -= 1
            _put(pool, top, pool.values[count], pool.starts[count], pool.labels[count, :size])
            if rank == m:
                break
            for t in range(size):
                here = t * stride
                if t >= start:
                    _forbid_found(work, here, found, rank, t)
                    argmax(data, i, work, loss_weight, label)
                    if _is_allowed(work, stride, label):
                        # The label's own scores are as they were.
                        value = score(data, i, work, label) + loss_weight * loss(data, i, label)
                        c = _place(pool, count, m - rank, value)
                        if c >= 0:
                            _put(pool, c, value, t, label)
                            count = max(count, c + 1)
                _fix(work, here, n_labels, pool.scores, found[rank - 1, t])
            for p in range(size * stride):
                work[p] = pool.scores[p]
        return rank

    return helper(best)


def best_labels(operations):
    """A loop over blocks around the oracles."""
    pull, search = operations.pull, best_of_block(operations)

    def best(space, data, offsets, w, work, first, last, n_labels, stride, pool, found, values):
        """Write the labels of block i into the first rows of found[:, offsets[i]:offsets[i + 1]].

        values[i] gets their scores. Rows that the block has no labels for stay as they are.
        """
        for i in range(first, last):
            pull(space, i, w, work)
            own = found[:, offsets[i] : offsets[i + 1]]
            search(data, i, work, 0.0, n_labels, stride, pool, own, values[i])

    return best
