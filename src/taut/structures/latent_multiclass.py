"""One of K classes per bag of rows, because of one of them, which is latent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.lanes import exponential, load, store, width, zeros
from taut.compiled.rows import as_rows
from taut.data.arrays import offsets_of
from taut.data.costs import as_cost
from taut.errors import InvalidData
from taut.inference.means import least_of
from taut.spaces.features import RowFeatures
from taut.spaces.labels import part
from taut.structures.base import Blocks, CompiledStructure, as_codes, as_stacked

_NEVER = -1e4  # a logarithm: no number's


class FrameData(NamedTuple):
    """What the oracles read."""

    offsets: np.ndarray
    truth: np.ndarray  # the class of each bag
    cost: np.ndarray
    n_classes: int
    stride: int


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
    >>> X, offsets = np.array([[1.0, 1.0], [2.0, -1.0], [-1.0, 2.0], [1.0, 1.0]]), [0, 2, 4]
    >>> y = np.array([[0, 1], [1, 0]])
    >>> problem = Problem(LatentMulticlass(2, bias=1.0), (X, offsets), y, C=1.0)
    >>> solve(problem, tol=1e-8, random_state=0).w[:4].reshape(2, 2).round(2)
    array([[ 0.2, -0.4],
           [-0.4,  0.2]])
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
        features = RowFeatures(
            matrix,
            rows,
            columns=self.n_classes,
            bias=self.bias,
            places=np.column_stack([offsets[:-1], offsets[1:]]),
        )
        return self._blocks(features, offsets, truth)

    def take(self, blocks, which):
        """Bags with all their frames."""
        features = blocks.features.compacted(which, blocks.data.offsets)
        offsets = offsets_of(np.diff(blocks.data.offsets)[which])
        return self._blocks(features, offsets, blocks.truth.reshape(-1, 2)[which])

    def _blocks(self, features: Any, offsets: np.ndarray, truth: np.ndarray) -> Blocks:
        data = FrameData(
            offsets=offsets,
            truth=np.ascontiguousarray(truth[:, 0]),
            cost=self.cost,
            n_classes=self.n_classes,
            stride=features.stride,
        )
        return Blocks(
            data=data,
            features=features,
            offsets=2 * np.arange(len(offsets)),
            truth=truth.ravel(),
            mean_offsets=data.stride * offsets,
        )

    def valid_labels(self, blocks, owner, labels):
        """A class, and a frame of the bag."""
        k, z = labels.reshape(-1, 2).T
        lengths = np.diff(blocks.data.offsets)[owner]
        return (k >= 0) & (k < self.n_classes) & (z >= 0) & (z < lengths)

    def lengths(self, blocks):
        """|(x, bias)| of the longest frame."""
        return np.sqrt(np.maximum.reduceat(blocks.features.norms, blocks.data.offsets[:-1]))

    def decode(self, labels, offsets):
        """A row of class and frame for each bag."""
        return labels.reshape(-1, 2)

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
    def parts(data, i, label, each):
        """The class's column of the frame."""
        return part(each, label[1] * data.stride + label[0], 1.0)

    @staticmethod
    def complete(data, i, work, label):
        """The frame of highest score for the truth's class."""
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
    def mean_loss(data, i, mean):
        """The classes' costs, by their probabilities."""
        cost = data.cost[data.truth[i]]
        total = 0.0
        for first in range(0, mean.shape[0], data.stride):
            for k in range(data.n_classes):
                total += mean[first + k] * cost[k]
        return total

    @staticmethod
    def spread(data, i, mean, statistics):
        """A mean has a number for each frame and class, as potentials do."""
        for place in range(mean.shape[0]):
            statistics[place] = mean[place]


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
