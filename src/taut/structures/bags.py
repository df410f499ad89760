"""Bags of rows: positive because of one of them, negative because of all of them."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.compiled.rows import as_rows
from taut.data.arrays import Checked, Matrix, as_matrix, offsets_of
from taut.errors import InvalidData
from taut.spaces.features import RowFeatures
from taut.spaces.labels import part
from taut.structures.base import Blocks, CompiledStructure, as_stacked

STARTS = ("mean", "first", "random")


class BagData(NamedTuple):
    """What the oracles read."""

    lengths: np.ndarray
    chosen: np.ndarray  # the instance that makes a bag positive; -1 for a negative bag


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
    >>> problem = Problem(Bags(bias=1.0), (X, offsets), np.array([0, -1]), C=1.0)
    >>> solve(problem, tol=1e-8, random_state=0).w.round(3)
    array([ 0.8, -0.6])
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
        # A positive bag has one instance in training, and its potential is the only one.
        first = offsets[:-1] + np.maximum(chosen, 0)
        last = np.where(chosen >= 0, first + 1, offsets[1:])
        places = np.column_stack([first, last])
        return self._blocks(
            RowFeatures(matrix, rows, bias=self.bias, places=places), lengths, chosen
        )

    def take(self, blocks, which):
        """Bags, with all their instances."""
        lengths, chosen = blocks.data
        features = blocks.features.compacted(which, offsets_of(lengths))
        return self._blocks(features, lengths[which], chosen[which])

    def _blocks(self, features: Any, lengths: np.ndarray, chosen: np.ndarray) -> Blocks:
        return Blocks(
            data=BagData(lengths, chosen),
            features=features,
            offsets=np.arange(len(lengths) + 1),
            truth=(chosen + 1).astype(np.int32),
        )

    def valid_labels(self, blocks, owner, labels):
        """Either class; the instance is the given one in a positive bag, any in a negative one."""
        chosen, lengths = blocks.data.chosen[owner], blocks.data.lengths[owner]
        in_negative = (labels >= 0) & (labels <= lengths)
        return np.where(chosen >= 0, (labels == 0) | (labels == chosen + 1), in_negative)

    def lengths(self, blocks):
        """|(x, bias)| of the longest instance."""
        starts = np.cumsum(blocks.data.lengths) - blocks.data.lengths
        return np.sqrt(np.maximum.reduceat(blocks.features.norms, starts))

    def decode(self, labels, offsets):
        """The instance that makes each bag positive, -1 for a negative one."""
        return labels - 1

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """A negative bag: its best instance, if it beats the truth; a positive one: the other."""
        given = data.chosen[i]
        if given >= 0:
            label[0] = 0 if loss_weight > work[0] else given + 1
            return max(loss_weight, work[0])
        best = 0
        for z in range(1, data.lengths[i]):
            best = z if work[z] > work[best] else best
        value = work[best] + loss_weight
        label[0] = best + 1 if value > 0.0 else 0
        return max(value, 0.0)

    @staticmethod
    def loss(data, i, label):
        """1 for the other class."""
        return 1.0 * ((label[0] > 0) != (data.chosen[i] >= 0))

    @staticmethod
    def parts(data, i, label, each):
        """The instance; nothing for label 0."""
        if label[0] == 0:
            return 0.0
        return part(each, label[0] - 1 if data.chosen[i] < 0 else 0, 1.0)

    @staticmethod
    def complete(data, i, work, label):
        """The instance of highest score of a positive bag."""
        if label[0] > 0:
            best = 0
            for z in range(1, data.lengths[i]):
                best = z if work[z] > work[best] else best
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
