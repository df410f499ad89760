"""One of K classes per block, with any cost matrix (Crammer and Singer)."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.compiled.jit import kernel
from taut.compiled.rows import as_rows
from taut.data.arrays import as_matrix
from taut.data.costs import as_cost
from taut.inference.means import least_of
from taut.spaces.features import RowFeatures
from taut.spaces.labels import part
from taut.structures.base import Blocks, CompiledStructure, as_codes

_NOTHING = 1e-13  # of a block's weight: a gap that rounding explains


@kernel
def project_on_simplex(point, total):
    """Replace `point` by its Euclidean projection onto {point >= 0, sum point = total}.

    Michelot's iteration: drop what lies below the threshold until nothing does. The number of kept
    entries falls in each round, so there are at most as many rounds as entries. Entries are taken
    relative to the largest: beside large ones `total` would be lost in rounding, and with it the
    feasibility on which certificates rest.
    """
    size = point.shape[0]
    largest = point[0]
    for k in range(1, size):
        largest = max(largest, point[k])
    for k in range(size):
        point[k] -= largest
    threshold = -total
    kept = size + 1.0
    while True:
        above = 0.0
        count = 0.0
        for k in range(size):  # without branches: which entries are kept is hard to predict
            above += point[k] if point[k] > threshold else 0.0
            count += 1.0 if point[k] > threshold else 0.0
        if count == 0 or count >= kept:  # rounding alone could let the number rise again
            break
        kept = count
        threshold = (above - total) / count
    for k in range(size):
        point[k] = max(point[k] - threshold, 0.0)


class Multiclass(CompiledStructure):
    """Classes 0..K-1 with phi(x, k) = (x, bias) in column k of a (features, K) matrix.

    Parameters
    ----------
    n_classes : int
        K, at least 2.
    cost : array of shape (K, K), tree or path, optional
        cost[truth, label] >= 0 with a zero diagonal; 0/1 by default. Or a tree in a form that
        `tree_cost` takes: the cost is the height of the lowest common ancestor, and classes are
        the K leaves in the order of `tree_cost`. Or the path of a CSV file, see `load_cost`.
    bias : float, default=0.0
        Value of a constant feature appended to each row; 0 appends none.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Multiclass
    >>> X = 2.0 * np.eye(3) - 1.0
    >>> problem = Problem(Multiclass(3), X, np.array([0, 1, 2]), C=1.0)
    >>> result = solve(problem, tol=1e-6, random_state=0)
    >>> result.w.reshape(3, 3).round(3)
    array([[ 0.333, -0.167, -0.167],
           [-0.167,  0.333, -0.167],
           [-0.167, -0.167,  0.333]])
    """

    allocates = False
    takes_checked = True

    def __init__(self, n_classes: int, cost: Any = None, bias: float = 0.0) -> None:
        self.n_classes = n_classes
        self.cost = as_cost(cost, n_classes)
        self.bias = bias

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Rows X with class codes y."""
        X = as_matrix(X)
        rows = as_rows(X, dense_above=0.7)
        features = RowFeatures(X, rows, columns=self.n_classes, bias=self.bias)
        return self._blocks(features, as_codes(y, X.shape[0], self.n_classes))

    def take(self, blocks, which):
        """Rows and their classes."""
        return self._blocks(blocks.features.compacted(which), blocks.truth[which])

    def _blocks(self, features: Any, truth: np.ndarray) -> Blocks:
        n = len(truth)
        return Blocks(
            data=(truth, self.cost),
            features=features,
            offsets=np.arange(n + 1),
            truth=truth,
            n_labels=self.n_classes,
            label_stride=features.stride,
            mean_offsets=features.stride * np.arange(n + 1),
        )

    def decode(self, labels, offsets):
        """Class codes."""
        return labels

    def lengths(self, blocks):
        """|(x, bias)|."""
        return np.sqrt(blocks.features.norms)

    def slack(self, blocks, potentials):
        """Half of what the score of the truth has beyond that of any other class and its cost."""
        truth, cost = blocks.data
        rows = np.arange(len(truth))
        rivals = potentials + cost[truth].T
        rivals[truth, rows] = -np.inf
        return 0.5 * (potentials[truth, rows] - rivals.max(axis=0))

    @property
    def all_labels(self):
        """Every class, the truth included: its weight is what remains of C_i."""
        return np.arange(self.n_classes, dtype=np.int32)[:, None]

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """The class of highest score plus weighted cost."""
        cost = data[1][data[0][i]]
        best = 0
        highest = work[0] + loss_weight * cost[0]
        for k in range(1, cost.shape[0]):  # without branches: which class wins is hard to predict
            value = work[k] + loss_weight * cost[k]
            best = k if value > highest else best
            highest = max(value, highest)
        label[0] = best
        return highest

    @staticmethod
    def loss(data, i, label):
        """The cost of the class."""
        return data[1][data[0][i], label[0]]

    @staticmethod
    def parts(data, i, label, each):
        """The class's column."""
        return part(each, label[0], 1.0)

    @staticmethod
    def expect(data, i, work, temperature, loss_weight, base, mean):
        """The classes' probabilities."""
        cost = data[1][data[0][i]]
        n_classes = cost.shape[0]
        highest = work[0] + loss_weight * cost[0]
        for k in range(1, n_classes):
            highest = max(highest, work[k] + loss_weight * cost[k])
        least = least_of(mean)
        total = 0.0
        for k in range(n_classes):
            mean[k] = np.exp((work[k] + loss_weight * cost[k] - highest) / temperature)
            if base.shape[0] > 0:
                mean[k] *= max(base[k], least)
            total += mean[k]
        for k in range(n_classes):
            mean[k] /= total
        for k in range(n_classes, mean.shape[0]):
            mean[k] = 0.0
        return highest + temperature * np.log(total)

    @staticmethod
    def normalise(data, i, mean):
        """Probabilities that sum to 1."""
        n_classes = data[1].shape[0]
        total = 0.0
        for k in range(n_classes):
            total += mean[k]
        for k in range(n_classes):
            mean[k] = mean[k] / total if total > 0.0 else 1.0 / n_classes

    @staticmethod
    def mean_of(data, i, label, mean):
        """1 for the class."""
        for k in range(mean.shape[0]):
            mean[k] = 1.0 if k == label[0] else 0.0

    @staticmethod
    def mean_loss(data, i, mean):
        """The classes' costs by their probabilities."""
        cost = data[1][data[0][i]]
        total = 0.0
        for k in range(cost.shape[0]):
            total += mean[k] * cost[k]
        return total

    @staticmethod
    def spread(data, i, mean, statistics):
        """A mean has a number for each class, as potentials do."""
        for k in range(mean.shape[0]):
            statistics[k] = mean[k]

    @staticmethod
    def exact_step(data, i, work, square, weight, stiffness, alpha, statistics):
        """All K weights at once: a projection on the simplex, because psi's differ in one column.

        Moving alpha by change, with sum zero, moves w by -(x, bias) (outer) change / stiffness, so
        the dual gains <violation, change> - |x|^2 |change|^2 / (2 stiffness).
        """
        truth, costs = data
        n_classes = costs.shape[0]
        change = statistics[:n_classes]  # the padding stays zero
        cost = costs[truth[i]]
        base = work[truth[i]]
        hinge = 0.0
        mean = 0.0
        for k in range(n_classes):
            change[k] = work[k] - base + cost[k]
            mean += alpha[k] * change[k]
            hinge = max(hinge, change[k])
        gap = weight * hinge - mean
        if gap <= _NOTHING * weight:
            for k in range(n_classes):
                change[k] = 0.0
            return gap, 0.0, 0.0
        if square > 0.0:
            rate = stiffness / square
            for k in range(n_classes):
                change[k] = alpha[k] + rate * change[k]
            project_on_simplex(change, weight)
        else:  # psi = 0: the dual is linear in alpha
            argbest = np.argmax(change)
            for k in range(n_classes):
                change[k] = weight if k == argbest else 0.0
        loss_change = 0.0
        length = 0.0
        for k in range(n_classes):
            new = change[k]
            change[k] = new - alpha[k]
            alpha[k] = new
            loss_change += change[k] * cost[k]
            length += change[k] ** 2
        return gap, loss_change, length * square
