"""One of K classes per bag of rows, because of one of them, which is latent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.lanes import exponential, load, store, stride_of, width, zeros
from taut.compiled.rows import (
    Rows,
    add_full_outer,
    add_outer,
    as_rows,
    prefetch_rows,
    row_inner,
    row_times,
    squared_norms,
)
from taut.data.costs import as_cost
from taut.errors import InvalidData
from taut.inference.means import least_of
from taut.spaces.scaling import act
from taut.spaces.touching import touch_rows
from taut.structures.base import Blocks, CompiledStructure, as_codes, as_stacked

_NEVER = -1e4  # a logarithm: no number's


class FrameData(NamedTuple):
    """What the oracles read."""

    rows: Rows
    offsets: np.ndarray
    truth: np.ndarray  # the class of each bag
    cost: np.ndarray
    norms: np.ndarray
    bias: float
    n_classes: int
    stride: int


@helper
def _score_frames(data, i, w, work):
    """work[z * stride + k] = the score of class k by frame z."""
    stride = data.stride
    first, length = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
    for z in range(length):
        row_times(data.rows, first + z, w, stride, work, z * stride)
    if data.bias != 0.0:
        last = w.shape[0] - stride
        for z in range(length):
            for k in range(stride):
                work[z * stride + k] += data.bias * w[last + k]


class LatentMulticlass(CompiledStructure):
    """Classes 0..K-1 of bags of rows, called frames, by the frame of highest score.

    A label is a class k and a frame z, with phi(x, (k, z)) = (x_z, bias) in column k of a
    (features, K) matrix. The loss is that of the class, whatever the frame. The frame of the truth
    is latent: `complete` finds the one of highest score for its class.

    Parameters
    ----------
    n_classes : int
        K, at least 2.
    cost : array of shape (K, K), tree or path, optional
        cost[truth, class] >= 0 with a zero diagonal; 0/1 by default. Or a tree or the path of a
        file, as for `Multiclass`.
    bias : float, default=0.0
        Value of a constant feature appended to each row; 0 appends none.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import LatentMulticlass
    >>> X, offsets = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0], [0.0, 0.0]]), np.array([0, 2, 4])
    >>> problem = Problem(LatentMulticlass(2), (X, offsets), np.array([[0, 1], [1, 0]]), C=1.0)
    >>> abs(solve(problem, tol=1e-8, random_state=0).w.reshape(2, 2).round(2))
    array([[0.5, 0. ],
           [0. , 0.5]])
    """

    allocates = False
    takes_checked = True

    def __init__(self, n_classes: int, cost: Any = None, bias: float = 0.0) -> None:
        self.n_classes = n_classes
        self.cost = as_cost(cost, n_classes)
        self.bias = bias

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X is a stacked matrix and the offsets of its bags.

        y has a row for each bag: its class, and a frame counted from 0 in the bag.
        """
        matrix, offsets = as_stacked(X)
        rows, lengths = as_rows(matrix, dense_above=0.7), np.diff(offsets)
        truth = _as_pairs(y, lengths, self.n_classes)
        data = FrameData(
            rows=rows,
            offsets=offsets,
            truth=np.ascontiguousarray(truth[:, 0]),
            cost=self.cost,
            norms=squared_norms(rows) + self.bias**2,
            bias=float(self.bias),
            n_classes=self.n_classes,
            stride=stride_of(self.n_classes, matrix.dtype),
        )
        return Blocks(
            data=data,
            n_features=(matrix.shape[1] + (self.bias != 0.0)) * self.n_classes,
            offsets=2 * np.arange(len(lengths) + 1),
            truth=truth.ravel(),
            work_size=int(lengths.max()) * data.stride,
            columns=self.n_classes,
            stride=data.stride,
            dtype=matrix.dtype.type,
            mean_reads=data.stride * rows[0].size // len(lengths),
            mean_offsets=data.stride * offsets,
        )

    def valid_labels(self, blocks, owner, labels):
        """A class, and a frame of the bag."""
        k, z = labels.reshape(-1, 2).T
        lengths = np.diff(blocks.data.offsets)[owner]
        return (k >= 0) & (k < self.n_classes) & (z >= 0) & (z < lengths)

    def lengths(self, blocks):
        """|(x, bias)| of the longest frame."""
        return np.sqrt(np.maximum.reduceat(blocks.data.norms, blocks.data.offsets[:-1]))

    def decode(self, labels, offsets):
        """A row of class and frame for each bag."""
        return labels.reshape(-1, 2)

    @staticmethod
    def prefetch(data, i):
        """The rows of the bag."""
        prefetch_rows(data.rows, data.offsets[i], data.offsets[i + 1])

    @staticmethod
    def touch(data, i, action):
        """All classes' weights of the bag's features and of the bias."""
        touch_rows(data.rows, data.offsets[i], data.offsets[i + 1], data.stride, action)
        if data.bias != 0.0:
            act(action, action.v.shape[0] - data.stride, action.v.shape[0])

    @staticmethod
    def pull(data, i, w, work):
        """The scores of all classes by all frames."""
        _score_frames(data, i, w, work)

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """The class and frame of highest score plus weighted cost."""
        cost = data.cost[data.truth[i]]
        best = 0
        highest = work[0] + loss_weight * cost[0]
        for z in range(data.offsets[i + 1] - data.offsets[i]):
            for k in range(data.n_classes):  # without branches: who wins is hard to predict
                place = z * data.stride + k
                value = work[place] + loss_weight * cost[k]
                best = place if value > highest else best
                highest = max(value, highest)
        label[0] = best % data.stride
        label[1] = best // data.stride
        return highest

    @staticmethod
    def loss(data, i, label):
        """The cost of the class."""
        return data.cost[data.truth[i], label[0]]

    @staticmethod
    def score(data, i, work, label):
        """The score of the class by the frame."""
        return work[label[1] * data.stride + label[0]]

    @staticmethod
    def add_features(data, i, labels, scales, w):
        """Columns of the weight matrix += scale (x_z, bias)."""
        last = w.shape[0] - data.stride
        for q in range(scales.shape[0]):
            row = data.offsets[i] + labels[q, 1]
            add_outer(data.rows, row, labels[q : q + 1], 0, scales[q : q + 1], w, data.stride)
            if data.bias != 0.0:
                w[last + labels[q, 0]] += scales[q] * data.bias

    @staticmethod
    def inner(data, i, a, b):
        """<(x_a, bias), (x_b, bias)> for two frames of one class."""
        first = data.offsets[i]
        if a[0] != b[0]:
            return 0.0
        if a[1] == b[1]:
            return data.norms[first + a[1]]
        return row_inner(data.rows, first + a[1], first + b[1]) + data.bias * data.bias

    @staticmethod
    def complete(data, i, w, work, label):
        """The frame of highest score for the truth's class."""
        _score_frames(data, i, w, work)
        best = label[0]
        for z in range(1, data.offsets[i + 1] - data.offsets[i]):
            place = z * data.stride + label[0]
            best = place if work[place] > work[best] else best
        label[1] = best // data.stride

    @staticmethod
    def expect(data, i, work, temperature, loss_weight, base, mean):
        """The probability of class k by frame z is mean[z * stride + k]; the padding is zero."""
        stride, cost = data.stride, data.cost[data.truth[i]]
        highest = work[0] + loss_weight * cost[0]
        for first in range(0, mean.shape[0], stride):
            for k in range(data.n_classes):
                highest = max(highest, work[first + k] + loss_weight * cost[k])
        for first in range(0, mean.shape[0], stride):
            for k in range(data.n_classes):
                value = work[first + k] + loss_weight * cost[k]
                mean[first + k] = (value - highest) / temperature
            for k in range(data.n_classes, stride):
                mean[first + k] = _NEVER
        zero = zeros(mean, 1)
        for place in range(0, mean.shape[0], width(zero)):
            store(exponential(load(zero, mean, place)), mean, place)
        if base.shape[0] > 0:
            least = least_of(mean)
            for place in range(mean.shape[0]):
                mean[place] *= max(base[place], least)
        total = 0.0
        for place in range(mean.shape[0]):
            total += mean[place]
        for place in range(mean.shape[0]):
            mean[place] /= total
        return highest + temperature * np.log(total)

    @staticmethod
    def normalise(data, i, mean):
        """Probabilities that sum to 1 over all classes and frames."""
        total = 0.0
        for place in range(mean.shape[0]):
            total += mean[place]
        for place in range(mean.shape[0]):
            mean[place] /= total

    @staticmethod
    def mean_of(data, i, label, mean):
        """1 for the class by the frame."""
        for place in range(mean.shape[0]):
            mean[place] = 0.0
        mean[label[1] * data.stride + label[0]] = 1.0

    @staticmethod
    def mean_score(data, i, work, mean):
        """The scores by their probabilities."""
        total = 0.0
        for place in range(mean.shape[0]):
            total += mean[place] * work[place]
        return total

    @staticmethod
    def mean_loss(data, i, mean):
        """The classes' costs, by their probabilities."""
        cost = data.cost[data.truth[i]]
        total = 0.0
        for first in range(0, mean.shape[0], data.stride):
            for k in range(data.n_classes):
                total += mean[first + k] * cost[k]
        return total

    @staticmethod
    def add_mean(data, i, mean, factor, work, w):
        """Columns of the weight matrix += factor mean (x_z, bias), frame by frame."""
        first, stride = data.offsets[i], data.stride
        last = w.shape[0] - stride
        for z in range(data.offsets[i + 1] - first):
            for k in range(stride):
                work[k] = factor * mean[z * stride + k]
            add_full_outer(data.rows, first + z, work, w, stride)
            if data.bias != 0.0:
                for k in range(stride):
                    w[last + k] += work[k] * data.bias


def _as_pairs(y: Any, lengths: np.ndarray, n_classes: int) -> np.ndarray:
    """Class and frame of bags of these lengths as int32; zeros when there is no y."""
    n = len(lengths)
    if y is None:
        return np.zeros((n, 2), dtype=np.int32)
    pairs = np.asarray(y)
    if pairs.shape != (n, 2) or pairs.dtype.kind not in "iu":
        raise InvalidData(
            f"y has shape {pairs.shape} and dtype {pairs.dtype}, X has {n} bags: give a class and "
            f"a frame to each, integers of shape ({n}, 2)"
        )
    classes, frames = as_codes(pairs[:, 0], n, n_classes), pairs[:, 1]
    wrong = (frames < 0) | (frames >= lengths)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise InvalidData(
            f"y[{i}, 1] = {frames[i]} is no frame of bag {i}, which has {lengths[i]}: count them "
            "from 0 in each bag"
        )
    return np.column_stack([classes, frames]).astype(np.int32)
