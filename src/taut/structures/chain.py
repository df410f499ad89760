"""A label per position of a sequence, scored by position and by neighbouring pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut._jit import helper
from taut._lanes import load, maximum, shift, store, zeros
from taut._linalg import add_column, as_rows, row_times, strides
from taut.data.arrays import as_matrix
from taut.errors import InvalidData
from taut.structures.base import Blocks, CompiledStructure, as_codes


@helper
def _max_plus_strip(before, at, w, T, stride, n_labels, zero, out, to):
    """A strip of out[k] = max_j before[j] + T[j, k], kept in registers while j runs."""
    best = shift(load(zero, w, T), before[at])
    for j in range(1, n_labels):
        best = maximum(best, shift(load(zero, w, T + j * stride), before[at + j]))
    store(best, out, to)


@helper
def _max_plus(work, before, w, T, stride, n_labels, to):
    """work[to + k] = max_j work[before + j] + T[j, k], where T begins at w[T]."""
    k = 0
    while k + 16 <= stride:
        _max_plus_strip(work, before, w, T + k, stride, n_labels, zeros(w, 16), work, to + k)
        k += 16
    if stride - k == 8:
        _max_plus_strip(work, before, w, T + k, stride, n_labels, zeros(w, 8), work, to + k)
    elif stride - k == 4:
        _max_plus_strip(work, before, w, T + k, stride, n_labels, zeros(w, 4), work, to + k)


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

    def __init__(self, n_labels: int, normalize: bool = False, boundary: bool = False) -> None:
        self.n_labels = n_labels
        self.normalize = normalize
        self.boundary = boundary

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X is a stacked matrix and the offsets of its sequences; y the stacked label codes."""
        matrix, offsets = as_matrix(X[0]), np.asarray(X[1], dtype=np.int64)
        if offsets[0] != 0 or offsets[-1] != matrix.shape[0] or (np.diff(offsets) < 1).any():
            raise InvalidData(
                f"offsets run from {offsets[0]} to {offsets[-1]}, X has {matrix.shape[0]} rows: "
                "they must begin with 0, rise, and end with the number of rows"
            )
        truth = as_codes(y, matrix.shape[0], self.n_labels)
        lengths = np.diff(offsets)
        unit = 1.0 / lengths if self.normalize else np.ones(len(lengths))
        stride, width = strides(self.n_labels), matrix.shape[1]
        rows = as_rows(matrix, dense_above=0.7)
        return Blocks(
            data=(rows, offsets, truth, self.n_labels, stride, width, unit, int(self.boundary)),
            n_features=self.n_labels * (width + self.n_labels + 2 * self.boundary),
            offsets=offsets,
            truth=truth,
            work_size=3 * int(lengths.max()) * stride,
            columns=self.n_labels,
            stride=stride,
            dtype=matrix.dtype.type,
        )

    def decode(self, labels, offsets):
        """One array of label codes per sequence."""
        return np.split(labels, offsets[1:-1])

    @staticmethod
    def prepare(data, i, w, work):
        """The scores of all labels at all positions, boundary terms included."""
        rows, offsets, _truth, _n_labels, stride, _width, _unit, has_boundary = data
        first, length = offsets[i], offsets[i + 1] - offsets[i]
        for t in range(length):
            row_times(rows, first + t, w, stride, work, t * stride)
        if has_boundary:
            ends = w.shape[0] - 2 * stride
            for k in range(stride):
                work[k] += w[ends + k]
                work[(length - 1) * stride + k] += w[ends + stride + k]

    @staticmethod
    def argmax(data, i, w, work, loss_weight, label):
        """Viterbi; only best values go forward, the path is found again on the way back."""
        _rows, offsets, truth, n_labels, stride, width, unit, _boundary = data
        first, length = offsets[i], offsets[i + 1] - offsets[i]
        coming = length * stride  # the best way to each label at each position, without its node
        best = 2 * length * stride  # and with it
        T = width * stride
        cost = w.dtype.type(loss_weight * unit[i])
        for t in range(length):
            here = t * stride
            if t == 0:
                for k in range(stride):
                    work[best + k] = work[k] + cost
            else:
                _max_plus(work, best + here - stride, w, T, stride, n_labels, coming + here)
                for k in range(stride):
                    work[best + here + k] = work[coming + here + k] + work[here + k] + cost
            work[best + here + truth[first + t]] -= cost
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
            while j < n_labels - 1 and work[before + j] + w[T + j * stride + k] != value:
                j += 1
            label[t - 1] = j
        return work[here + last]

    @staticmethod
    def loss(data, i, label):
        """Hamming loss, times 1 / length when normalised."""
        offsets, truth, unit = data[1], data[2], data[6]
        first, length = offsets[i], offsets[i + 1] - offsets[i]
        wrong = 0
        for t in range(length):
            wrong += label[t] != truth[first + t]
        return wrong * unit[i]

    @staticmethod
    def score(data, i, w, work, label):
        """Node scores as prepared plus transitions."""
        _rows, _offsets, _truth, _n_labels, stride, width, _unit, _boundary = data
        T = width * stride
        nodes = work[label[0]]
        pairs = w.dtype.type(0.0)
        for t in range(1, label.shape[0]):
            nodes += work[t * stride + label[t]]
            pairs += w[T + label[t - 1] * stride + label[t]]
        return nodes + pairs

    @staticmethod
    def add_features(data, i, labels, scales, w):
        """Labels that share a position's label are summed first: each row is added once."""
        rows, offsets, _truth, _n_labels, stride, width, _unit, has_boundary = data
        first, length = offsets[i], offsets[i + 1] - offsets[i]
        n_scales = scales.shape[0]
        T = width * stride
        ends = w.shape[0] - 2 * stride
        largest = 0.0
        for q in range(n_scales):
            largest = max(largest, abs(scales[q]))
        for t in range(length):
            for q in range(n_scales):
                k = labels[q, t]
                seen = False
                for r in range(q):
                    seen |= labels[r, t] == k
                if seen:
                    continue
                share = scales[q]
                for r in range(q + 1, n_scales):
                    share += scales[r] if labels[r, t] == k else 0.0
                if abs(share) <= 1e-15 * largest:  # cancelled up to rounding
                    continue
                add_column(rows, first + t, share, w, stride, k)
                if has_boundary:
                    w[ends + k] += share * (t == 0)
                    w[ends + stride + k] += share * (t == length - 1)
        for q in range(n_scales):
            if scales[q] != 0.0:
                for t in range(1, length):
                    w[T + labels[q, t - 1] * stride + labels[q, t]] += scales[q]
