"""A label per position of a sequence, scored by position and by neighbouring pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.rows import as_rows, inner_products
from taut.data.arrays import take_runs
from taut.inference import chain_means as means
from taut.inference.viterbi import max_plus
from taut.spaces.features import RowFeatures, worth_overlaps
from taut.spaces.labels import part
from taut.structures.base import Blocks, CompiledStructure, as_codes, as_stacked


class ChainData(NamedTuple):
    """What the oracles read."""

    offsets: np.ndarray
    truth: np.ndarray
    unit: np.ndarray  # the loss of one wrong label in each sequence
    n_labels: int
    stride: int
    boundary: int


class Chain(CompiledStructure):
    """Sequences of labels 0..K-1: a Viterbi oracle and the Hamming loss.

    w is laid out as node weights (d, K), transitions (K, K) with the previous label first, and with
    `boundary` the weights of the first and of the last label (2, K). Oracles see the rows of all
    three padded to one stride.

    Parameters
    ----------
    n_labels : int
        K, at least 2.
    normalize : bool, default=False
        Divide the Hamming loss by the length of the sequence.
    boundary : bool, default=False
        Add a weight for each first and each last label.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Chain
    >>> X, offsets = np.eye(2)[[0, 1, 0, 1]], np.array([0, 2, 4])
    >>> problem = Problem(Chain(2), (X, offsets), np.array([0, 1, 0, 1]), C=1.0)
    >>> solve(problem, tol=1e-4, random_state=0).certificate.status.name
    'CONVERGED'
    """

    allocates = False
    takes_checked = True

    def __init__(self, n_labels: int, normalize: bool = False, boundary: bool = False) -> None:
        self.n_labels = n_labels
        self.normalize = normalize
        self.boundary = boundary

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X is a stacked matrix and the offsets of its sequences; y the stacked label codes."""
        matrix, offsets = as_stacked(X)
        rows = as_rows(matrix, dense_above=0.7)
        places = np.column_stack([offsets[:-1], offsets[1:]])
        known = y is not None and worth_overlaps(rows[0].size, places)
        features = RowFeatures(
            matrix,
            rows,
            columns=self.n_labels,
            places=places,
            overlaps=inner_products(rows, places) if known else None,
            tail=(self.n_labels + 2 * self.boundary, self.n_labels),
        )
        return self._blocks(features, offsets, as_codes(y, matrix.shape[0], self.n_labels))

    def take(self, blocks, which):
        """Sequences and their labels."""
        rows, offsets = take_runs(blocks.offsets, which)
        features = blocks.features.compacted(which, blocks.offsets)
        return self._blocks(features, offsets, blocks.truth[rows])

    def _blocks(self, features: Any, offsets: np.ndarray, truth: np.ndarray) -> Blocks:
        lengths, stride = np.diff(offsets), features.stride
        data = ChainData(
            offsets=offsets,
            truth=truth,
            unit=1.0 / lengths if self.normalize else np.ones(len(lengths)),
            n_labels=self.n_labels,
            stride=stride,
            boundary=int(self.boundary),
        )
        n_pairs = self.n_labels * stride
        return Blocks(
            data=data,
            features=features,
            offsets=offsets,
            truth=data.truth,
            work_size=features.n_potentials + 2 * int(lengths.max()) * stride,
            n_labels=self.n_labels,
            label_stride=stride,
            mean_offsets=stride * offsets + n_pairs * (offsets - np.arange(len(offsets))),
        )

    def lengths(self, blocks):
        """Those of all positions, transitions and ends."""
        sizes = np.diff(blocks.offsets)
        return blocks.features.summed_lengths(blocks.offsets) + sizes + 1

    def decode(self, labels, offsets):
        """One array of label codes per sequence."""
        return np.split(labels, offsets[1:-1])

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """Viterbi; only best values go forward, the path is found again on the way back."""
        stride, n_labels = data.stride, data.n_labels
        first, length = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        T = length * stride
        ends = T + n_labels * stride
        # The best way to each label at each position, but its node.
        coming = ends + 2 * data.boundary * stride
        best = coming + length * stride  # and with it
        cost = work.dtype.type(loss_weight * data.unit[i])
        for t in range(length):
            here = t * stride
            if t == 0:
                for k in range(stride):
                    work[best + k] = work[k] + cost
            else:
                max_plus(work, best + here - stride, T, stride, n_labels, coming + here)
                for k in range(stride):
                    work[best + here + k] = work[coming + here + k] + work[here + k] + cost
            work[best + here + data.truth[first + t]] -= cost
            if data.boundary:
                means.add_ends(work, best + here, ends, stride, t, length)
        here = best + (length - 1) * stride
        last = 0
        for k in range(1, n_labels):
            if work[here + k] > work[here + last]:
                last = k
        label[length - 1] = last
        for t in range(length - 1, 0, -1):
            k = label[t]
            value = work[coming + t * stride + k]
            before = best + (t - 1) * stride
            j = 0
            # The same sum as on the way forward, so it is equal to the last digit.
            while j < n_labels - 1 and work[before + j] + work[T + j * stride + k] != value:
                j += 1
            label[t - 1] = j
        return work[here + last]

    expect = staticmethod(means.expect)
    normalise = staticmethod(means.normalise)
    mean_of = staticmethod(means.mean_of)
    mean_loss = staticmethod(means.mean_loss)
    spread = staticmethod(means.spread)

    @staticmethod
    def loss(data, i, label):
        """Hamming loss, times 1 / length when normalised."""
        first = data.offsets[i]
        wrong = 0
        for t in range(label.shape[0]):
            wrong += label[t] != data.truth[first + t]
        return wrong * data.unit[i]

    @staticmethod
    def parts(data, i, label, each):
        """Labels, neighbouring pairs and ends."""
        stride, length = data.stride, label.shape[0]
        T = length * stride
        nodes = part(each, label[0], 1.0)
        pairs = nodes - nodes  # zero, of the same type
        for t in range(1, length):
            nodes += part(each, t * stride + label[t], 1.0)
            pairs += part(each, T + label[t - 1] * stride + label[t], 1.0)
        if data.boundary:
            ends = T + data.n_labels * stride
            nodes += part(each, ends + label[0], 1.0)
            nodes += part(each, ends + stride + label[length - 1], 1.0)
        return nodes + pairs
