"""Bags of rows: positive because of one of them, negative because of all of them."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.compiled.jit import helper
from taut.compiled.rows import (
    Rows,
    add_row,
    as_rows,
    prefetch_rows,
    row_dot,
    row_inner,
    squared_norms,
)
from taut.data.arrays import Checked, Matrix, as_matrix
from taut.errors import InvalidData
from taut.spaces.scaling import act
from taut.spaces.touching import touch_rows
from taut.structures.base import Blocks, CompiledStructure, as_stacked

STARTS = ("mean", "first", "random")


class BagData(NamedTuple):
    """What the oracles read."""

    rows: Rows
    offsets: np.ndarray
    chosen: np.ndarray  # the instance that makes a bag positive; -1 for a negative bag
    norms: np.ndarray
    bias: float


@helper
def _score(data, row, w):
    if data.bias != 0.0:
        return row_dot(data.rows, row, w) + data.bias * w[w.shape[0] - 1]
    return row_dot(data.rows, row, w)


class Bags(CompiledStructure):
    """Two classes of bags of instances, by the instance of highest score (MI-SVM).

    Label 0, negative, has phi = 0; label z + 1, positive because of instance z, has
    phi = (x_z, bias). A negative bag's candidates are all its instances, with one slack for all; a
    positive bag has one candidate, label 0, against the instance z that it is given. All losses
    are 1. Which instance that is, is latent: `complete` finds the one of highest score.

    Parameters
    ----------
    bias : float, default=0.0
        Value of a constant feature appended to each row; 0 appends none.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Bags
    >>> X, offsets = np.array([[2.0], [-1.0], [-1.0], [-0.5]]), np.array([0, 2, 4])
    >>> problem = Problem(Bags(), (X, offsets), np.array([0, -1]), C=1.0)
    >>> solve(problem, tol=1e-8, random_state=0).w.round(3)
    array([0.5])
    """

    allocates = False
    takes_checked = True

    def __init__(self, bias: float = 0.0) -> None:
        self.bias = bias

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X is a stacked matrix and the offsets of its bags.

        y[i] is the instance that makes bag i positive, counted from 0 in each bag, or -1.
        """
        matrix, offsets = as_stacked(X)
        rows, lengths = as_rows(matrix, dense_above=0.2), np.diff(offsets)
        chosen = _as_chosen(y, lengths)
        data = BagData(
            rows, offsets, chosen, squared_norms(rows) + self.bias**2, bias=float(self.bias)
        )
        return Blocks(
            data=data,
            n_features=matrix.shape[1] + (self.bias != 0.0),
            offsets=np.arange(len(lengths) + 1),
            truth=(chosen + 1).astype(np.int32),
            work_size=int(lengths.max()),
            dtype=matrix.dtype.type,
            mean_reads=rows[0].size // len(lengths),
        )

    def valid_labels(self, blocks, owner, labels):
        """Either class; the instance is the given one in a positive bag, any in a negative one."""
        chosen, lengths = blocks.data.chosen[owner], np.diff(blocks.data.offsets)[owner]
        in_negative = (labels >= 0) & (labels <= lengths)
        return np.where(chosen >= 0, (labels == 0) | (labels == chosen + 1), in_negative)

    def lengths(self, blocks):
        """|(x, bias)| of the longest instance."""
        return np.sqrt(np.maximum.reduceat(blocks.data.norms, blocks.data.offsets[:-1]))

    def decode(self, labels, offsets):
        """The instance that makes each bag positive, -1 for a negative one."""
        return labels - 1

    @staticmethod
    def prefetch(data, i):
        """The rows of the bag."""
        prefetch_rows(data.rows, data.offsets[i], data.offsets[i + 1])

    @staticmethod
    def touch(data, i, action):
        """The features of the bag's rows, and the bias."""
        touch_rows(data.rows, data.offsets[i], data.offsets[i + 1], 1, action)
        if data.bias != 0.0:
            act(action, action.v.shape[0] - 1, action.v.shape[0])

    @staticmethod
    def pull(data, i, w, work):
        """work[z] = the score of instance z; of the given one only in a positive bag."""
        first = data.offsets[i]
        if data.chosen[i] >= 0:
            work[data.chosen[i]] = _score(data, first + data.chosen[i], w)
        else:
            for z in range(data.offsets[i + 1] - first):
                work[z] = _score(data, first + z, w)

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """A negative bag: its best instance, if it beats the truth; a positive one: the other."""
        given = data.chosen[i]
        if given >= 0:
            label[0] = 0 if loss_weight > work[given] else given + 1
            return max(loss_weight, work[given])
        best = 0
        for z in range(1, data.offsets[i + 1] - data.offsets[i]):
            best = z if work[z] > work[best] else best
        value = work[best] + loss_weight
        label[0] = best + 1 if value > 0.0 else 0
        return max(value, 0.0)

    @staticmethod
    def loss(data, i, label):
        """1 for the other class."""
        return 1.0 * ((label[0] > 0) != (data.chosen[i] >= 0))

    @staticmethod
    def score(data, i, work, label):
        """The instance's score."""
        return work[label[0] - 1] if label[0] > 0 else 0.0

    @staticmethod
    def add_features(data, i, labels, scales, w):
        """Add (x_z, bias) for each instance."""
        for q in range(scales.shape[0]):
            if labels[q, 0] > 0:
                add_row(data.rows, data.offsets[i] + labels[q, 0] - 1, scales[q], w)
                if data.bias != 0.0:
                    w[w.shape[0] - 1] += scales[q] * data.bias

    @staticmethod
    def inner(data, i, a, b):
        """<(x_a, bias), (x_b, bias)>; 0 with label 0."""
        if a[0] == 0 or b[0] == 0:
            return 0.0
        first = data.offsets[i] - 1
        if a[0] == b[0]:
            return data.norms[first + a[0]]
        return row_inner(data.rows, first + a[0], first + b[0]) + data.bias * data.bias

    @staticmethod
    def complete(data, i, w, work, label):
        """The instance of highest score of a positive bag."""
        if label[0] > 0:
            first = data.offsets[i]
            best = 0
            highest = _score(data, first, w)
            for z in range(1, data.offsets[i + 1] - first):
                value = _score(data, first + z, w)
                if value > highest:
                    best = z
                    highest = value
            label[0] = best + 1


def _as_chosen(y: Any, lengths: np.ndarray) -> np.ndarray:
    """Instances of bags of these lengths, or -1, as int64; -1 when there is no y."""
    if y is None:
        return np.full(len(lengths), -1)
    chosen = np.asarray(y)
    if chosen.shape != lengths.shape or chosen.dtype.kind not in "iu":
        raise InvalidData(
            f"y has shape {chosen.shape} and dtype {chosen.dtype}, X has {len(lengths)} bags: give "
            "each an instance, or -1"
        )
    wrong = (chosen < -1) | (chosen >= lengths)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InvalidData(
            f"y[{i}] = {chosen[i]} is no instance of bag {i}, which has {lengths[i]}: count them "
            "from 0 in each bag, and give -1 to negative bags"
        )
    return chosen.astype(np.int64)


def first_bags(
    matrix: Matrix, offsets: np.ndarray, positive: np.ndarray, start: str, seed: int
) -> tuple[tuple[Checked, np.ndarray], np.ndarray]:
    """Bags, and an instance for each positive one to begin with; -1 for the others.

    With "mean", positive bags have the mean of their instances as one more instance. Its score is
    at most the highest, so that the problem with it bounds the latent objective like any other.
    """
    lengths = np.diff(offsets)
    first = np.where(positive, 0, -1)
    if start == "random":
        drawn = _drawn(matrix, offsets, seed)
        return (Checked(matrix), offsets), np.where(positive, drawn, -1)
    averaged = np.flatnonzero(positive & (lengths > 1))
    if start == "first" or len(averaged) == 0:
        return (Checked(matrix), offsets), first
    bags, n_rows = np.repeat(np.arange(len(lengths)), lengths), int(offsets[-1])
    shares = sp.csr_array((1.0 / lengths[bags], (bags, np.arange(n_rows))), dtype=matrix.dtype)
    rows = sp.vstack([sp.eye_array(n_rows, dtype=matrix.dtype), shares[averaged]], format="csr")
    # Stable: the mean is the last of its bag.
    longer = rows[np.argsort(np.concatenate([bags, averaged]), kind="stable")] @ matrix
    if sp.issparse(longer):
        longer.sort_indices()
    first[averaged] = lengths[averaged]
    ends = np.cumsum(lengths + np.isin(np.arange(len(lengths)), averaged))
    return (Checked(as_matrix(longer)), np.concatenate([[0], ends])), first


def _drawn(matrix: Matrix, offsets: np.ndarray, seed: int) -> np.ndarray:
    """An instance of each bag by what is in it and the seed, whatever bags are beside it."""
    X: Any = matrix
    values, edges = [X], offsets
    if sp.issparse(X):
        values, edges = [X.data, X.indices], X.indptr[offsets]
    drawn = np.zeros(len(offsets) - 1, dtype=np.int64)
    for k, (start, stop) in enumerate(pairwise(edges.tolist())):
        digest = hashlib.blake2b(str(seed).encode(), digest_size=8)
        for array in values:
            digest.update(np.ascontiguousarray(array[start:stop]).tobytes())
        drawn[k] = int.from_bytes(digest.digest()) % int(offsets[k + 1] - offsets[k])
    return drawn


def best_instances(scores: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The instance of highest score of each bag, counted from 0 in it, and its score."""
    starts = offsets[:-1]
    highest = np.maximum.reduceat(scores, starts)
    hits = np.flatnonzero(scores == np.repeat(highest, np.diff(offsets)))
    return hits[np.searchsorted(hits, starts)] - starts, highest
