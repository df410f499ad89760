"""A label per position of a sequence, scored by position and by neighbouring pairs."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut._jit import kernel
from taut._linalg import Rows, add_outer, as_rows, row_times
from taut.data.arrays import as_matrix
from taut.errors import InvalidData
from taut.structures.base import Blocks, CompiledStructure, as_codes


@kernel
def _transitions(data, w):
    """The (K, K) transition weights inside w, previous label first."""
    n_labels = data[3]
    start = data[4] * n_labels
    return w[start : start + n_labels * n_labels].reshape((n_labels, n_labels))


@kernel
def _end_weights(data, w):
    """The (2, K) weights of the first and of the last label, at the end of w."""
    n_labels = data[3]
    return w[w.shape[0] - 2 * n_labels :].reshape((2, n_labels))


class Chain(CompiledStructure):
    """Sequences of labels 0..K-1: a Viterbi oracle and the Hamming loss.

    w is laid out as node weights (d, K), transitions (K, K) with the previous label first, and with
    `boundary` the weights of the first and of the last label (2, K).

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

    def __init__(self, n_labels: int, normalize: bool = False, boundary: bool = False) -> None:
        self.n_labels = n_labels
        self.normalize = normalize
        self.boundary = boundary

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X is a stacked matrix and the offsets of its sequences; y the stacked label codes."""
        matrix, offsets = as_matrix(X[0]), np.asarray(X[1], dtype=np.int64)
        rows: Rows = as_rows(matrix)
        if offsets[0] != 0 or offsets[-1] != matrix.shape[0] or (np.diff(offsets) < 1).any():
            raise InvalidData(
                f"offsets run from {offsets[0]} to {offsets[-1]}, X has {matrix.shape[0]} rows: "
                "they must begin with 0, rise, and end with the number of rows"
            )
        truth = as_codes(y, matrix.shape[0], self.n_labels)
        lengths = np.diff(offsets)
        unit = 1.0 / lengths if self.normalize else np.ones(len(lengths))
        width = matrix.shape[1]
        n_features = self.n_labels * (width + self.n_labels + 2 * self.boundary)
        return Blocks(
            data=(rows, offsets, truth, self.n_labels, width, unit, int(self.boundary)),
            n_features=n_features,
            offsets=offsets,
            truth=truth,
            work_size=2 * int(lengths.max()) * self.n_labels,
        )

    def decode(self, labels, offsets):
        """One array of label codes per sequence."""
        return np.split(labels, offsets[1:-1])

    @staticmethod
    def prepare(data, i, w, work):
        """The scores of all labels at all positions, boundary terms included."""
        rows, offsets, _truth, n_labels, width, _unit, has_boundary = data
        first, length = offsets[i], offsets[i + 1] - offsets[i]
        nodes = work[: length * n_labels].reshape((length, n_labels))
        W = w[: width * n_labels].reshape((width, n_labels))
        for t in range(length):
            for k in range(n_labels):
                nodes[t, k] = 0.0
            row_times(rows, first + t, W, nodes[t])
        if has_boundary:
            ends = _end_weights(data, w)
            for k in range(n_labels):
                nodes[0, k] += ends[0, k]
                nodes[length - 1, k] += ends[1, k]

    @staticmethod
    def argmax(data, i, w, work, loss_weight, label):
        """Viterbi; only best values go forward, the path is found again on the way back."""
        _rows, offsets, truth, n_labels, _width, unit, _boundary = data
        first, length = offsets[i], offsets[i + 1] - offsets[i]
        size = length * n_labels
        nodes = work[:size].reshape((length, n_labels))
        best = work[size : 2 * size].reshape((length, n_labels))
        T = _transitions(data, w)
        cost = loss_weight * unit[i]
        for t in range(length):
            here = best[t]
            if t == 0:
                for k in range(n_labels):
                    here[k] = nodes[0, k] + cost
            else:
                before = best[t - 1]
                for k in range(n_labels):
                    here[k] = before[0] + T[0, k]
                for j in range(1, n_labels):
                    value = before[j]
                    for k in range(n_labels):
                        candidate = value + T[j, k]
                        here[k] = candidate if candidate > here[k] else here[k]
                for k in range(n_labels):
                    here[k] += nodes[t, k] + cost
            here[truth[first + t]] -= cost
        last = 0
        for k in range(1, n_labels):
            if best[length - 1, k] > best[length - 1, last]:
                last = k
        label[length - 1] = last
        for t in range(length - 1, 0, -1):
            k = label[t]
            back = 0
            for j in range(1, n_labels):
                if best[t - 1, j] + T[j, k] > best[t - 1, back] + T[back, k]:
                    back = j
            label[t - 1] = back
        return best[length - 1, last]

    @staticmethod
    def loss(data, i, label):
        """Hamming loss, times 1 / length when normalised."""
        _rows, offsets, truth, _n_labels, _width, unit, _boundary = data
        first, length = offsets[i], offsets[i + 1] - offsets[i]
        wrong = 0
        for t in range(length):
            wrong += label[t] != truth[first + t]
        return wrong * unit[i]

    @staticmethod
    def score(data, i, w, work, label):
        """Node scores as prepared plus transitions."""
        _rows, offsets, _truth, n_labels, _width, _unit, _boundary = data
        length = offsets[i + 1] - offsets[i]
        T = _transitions(data, w)
        total = work[label[0]]
        for t in range(1, length):
            total += work[t * n_labels + label[t]] + T[label[t - 1], label[t]]
        return total

    @staticmethod
    def add_features(data, i, labels, scales, w):
        """Labels that share a position's label are summed first: each row is added once."""
        rows, offsets, _truth, n_labels, width, _unit, has_boundary = data
        first, length = offsets[i], offsets[i + 1] - offsets[i]
        W = w[: width * n_labels].reshape((width, n_labels))
        T = _transitions(data, w)
        share = np.empty(n_labels)
        for k in range(n_labels):
            share[k] = 0.0
        columns = np.empty(n_labels, dtype=np.int32)
        values = np.empty(n_labels)
        largest = 0.0
        for q in range(scales.shape[0]):
            largest = max(largest, abs(scales[q]))
        for t in range(length):
            for q in range(scales.shape[0]):
                share[labels[q, t]] += scales[q]
            count = 0
            for q in range(scales.shape[0]):
                k = labels[q, t]
                if abs(share[k]) <= 1e-15 * largest:  # cancelled up to rounding
                    share[k] = 0.0
                else:
                    columns[count] = k
                    values[count] = share[k]
                    share[k] = 0.0
                    count += 1
            if count > 0:
                add_outer(rows, first + t, columns[:count], values[:count], W)
            if has_boundary and (t == 0 or t == length - 1):
                ends = _end_weights(data, w)
                for c in range(count):
                    ends[0, columns[c]] += values[c] * (t == 0)
                    ends[1, columns[c]] += values[c] * (t == length - 1)
        for q in range(scales.shape[0]):
            if scales[q] != 0.0:
                for t in range(1, length):
                    T[labels[q, t - 1], labels[q, t]] += scales[q]
