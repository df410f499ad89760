"""A label per position of a sequence, scored by position and by neighbouring pairs."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import kernel
from taut.compiled.lanes import load, store, stride_of, width, zeros
from taut.compiled.rows import (
    Rows,
    add_outer,
    as_rows,
    prefetch_rows,
    row_inner,
    row_times,
    summed_norms,
)
from taut.inference import chain_means as means
from taut.inference.viterbi import max_plus
from taut.spaces.scaling import act
from taut.spaces.touching import touch_rows
from taut.structures.base import Blocks, CompiledStructure, as_codes, as_stacked


@kernel
def _fill_overlaps(rows, offsets, starts, overlaps):
    """Inner products of all pairs of rows of each sequence."""
    for i in range(offsets.shape[0] - 1):
        first, length = offsets[i], offsets[i + 1] - offsets[i]
        for t in range(length):
            for u in range(t + 1):
                value = row_inner(rows, first + t, first + u)
                overlaps[starts[i] + t * length + u] = value
                overlaps[starts[i] + u * length + t] = value


class ChainData(NamedTuple):
    """What the oracles read; the transitions in w follow the rows of `n_nodes` node features."""

    rows: Rows
    offsets: np.ndarray
    truth: np.ndarray
    unit: np.ndarray  # the loss of one wrong label in each sequence
    overlaps: np.ndarray  # inner products of the rows of each sequence, from `starts`
    starts: np.ndarray
    n_labels: int
    stride: int
    n_nodes: int
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
        lengths = np.diff(offsets)
        rows = as_rows(matrix, dense_above=0.7)
        # Pairs of rows are worth their memory while they take no more than some times the data.
        starts = np.concatenate([[0], np.cumsum(lengths**2)])
        use_inner = y is not None and bool(starts[-1] <= 4 * rows[0].size)
        overlaps = np.empty(starts[-1] if use_inner else 0, dtype=matrix.dtype)
        if use_inner:
            _fill_overlaps(rows, offsets, starts, overlaps)
        n_pairs = self.n_labels * stride_of(self.n_labels, matrix.dtype)
        data = ChainData(
            rows=rows,
            offsets=offsets,
            truth=as_codes(y, matrix.shape[0], self.n_labels),
            unit=1.0 / lengths if self.normalize else np.ones(len(lengths)),
            overlaps=overlaps,
            starts=starts,
            n_labels=self.n_labels,
            stride=stride_of(self.n_labels, matrix.dtype),
            n_nodes=matrix.shape[1],
            boundary=int(self.boundary),
        )
        return Blocks(
            data=data,
            n_features=self.n_labels * (data.n_nodes + self.n_labels + 2 * self.boundary),
            offsets=offsets,
            truth=data.truth,
            work_size=(3 * int(lengths.max()) + self.n_labels) * data.stride,
            columns=self.n_labels,
            stride=data.stride,
            dtype=matrix.dtype.type,
            use_inner=use_inner,
            mean_reads=data.stride * rows[0].size // len(lengths),
            n_labels=self.n_labels,
            label_stride=data.stride,
            mean_offsets=data.stride * offsets + n_pairs * (offsets - np.arange(len(offsets))),
        )

    def lengths(self, blocks):
        """Those of all positions, transitions and ends."""
        sizes = np.diff(blocks.offsets)
        return summed_norms(blocks.data.rows, blocks.offsets) + sizes + 1

    def decode(self, labels, offsets):
        """One array of label codes per sequence."""
        return np.split(labels, offsets[1:-1])

    @staticmethod
    def prefetch(data, i):
        """The rows of the sequence."""
        prefetch_rows(data.rows, data.offsets[i], data.offsets[i + 1])

    @staticmethod
    def touch(data, i, action):
        """All labels' weights of the sequence's features, and what follows them in w."""
        touch_rows(data.rows, data.offsets[i], data.offsets[i + 1], data.stride, action)
        act(action, data.n_nodes * data.stride, action.v.shape[0])

    @staticmethod
    def pull(data, i, w, work):
        """The scores of all labels at all positions, boundary terms included, then transitions."""
        stride = data.stride
        first, length = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        for t in range(length):
            row_times(data.rows, first + t, w, stride, work, t * stride)
        pairs, T = length * stride, data.n_nodes * stride
        register = zeros(w, 1)
        for p in range(0, data.n_labels * stride, width(register)):
            store(load(register, w, T + p), work, pairs + p)
        if data.boundary:
            ends = w.shape[0] - 2 * stride
            for k in range(stride):
                work[k] += w[ends + k]
                work[(length - 1) * stride + k] += w[ends + stride + k]

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """Viterbi; only best values go forward, the path is found again on the way back."""
        stride, n_labels = data.stride, data.n_labels
        first, length = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        T = length * stride
        coming = T + n_labels * stride  # the best way to each label at each position, but its node
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
    mean_score = staticmethod(means.mean_score)
    mean_loss = staticmethod(means.mean_loss)
    add_mean = staticmethod(means.add_mean)
    mean_square = staticmethod(means.mean_square)

    @staticmethod
    def loss(data, i, label):
        """Hamming loss, times 1 / length when normalised."""
        first = data.offsets[i]
        wrong = 0
        for t in range(label.shape[0]):
            wrong += label[t] != data.truth[first + t]
        return wrong * data.unit[i]

    @staticmethod
    def score(data, i, work, label):
        """The scores of labels and of neighbouring pairs."""
        stride = data.stride
        T = label.shape[0] * stride
        nodes = work[label[0]]
        pairs = work.dtype.type(0.0)
        for t in range(1, label.shape[0]):
            nodes += work[t * stride + label[t]]
            pairs += work[T + label[t - 1] * stride + label[t]]
        return nodes + pairs

    @staticmethod
    def inner(data, i, a, b):
        """Overlaps of rows with equal labels, equal pairs of neighbours, equal ends."""
        start, length = data.starts[i], a.shape[0]
        total = 0.0
        for t in range(length):
            row = start + t * length
            for u in range(length):
                if a[t] == b[u]:
                    total += data.overlaps[row + u]
                    total += t > 0 and u > 0 and a[t - 1] == b[u - 1]
        if data.boundary:
            total += (a[0] == b[0]) + (a[length - 1] == b[length - 1])
        return total

    @staticmethod
    def add_features(data, i, labels, scales, w):
        """Each row is added once, for all labels at its position together."""
        stride, n_scales = data.stride, scales.shape[0]
        first, length = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        T = data.n_nodes * stride
        ends = w.shape[0] - 2 * stride
        total = 0.0
        largest = 0.0
        for q in range(n_scales):
            total += scales[q]
            largest = max(largest, abs(scales[q]))
        cancels = abs(total) <= 1e-15 * largest
        for t in range(length):
            equal = True
            for q in range(1, n_scales):
                equal &= labels[q, t] == labels[0, t]
            if not (equal and cancels):
                add_outer(data.rows, first + t, labels, t, scales, w, stride)
        for q in range(n_scales):
            for t in range(1, length):
                w[T + labels[q, t - 1] * stride + labels[q, t]] += scales[q]
            if data.boundary:
                w[ends + labels[q, 0]] += scales[q]
                w[ends + stride + labels[q, length - 1]] += scales[q]
