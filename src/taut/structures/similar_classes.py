"""One of K classes per block, of which some are alike: what one learns, others learn with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.compiled.rows import as_rows
from taut.data.arrays import as_matrix
from taut.data.costs import as_cost
from taut.errors import InvalidData
from taut.kernels.labels import ClassSimilarity
from taut.spaces.features import RowFeatures
from taut.spaces.labels import part
from taut.structures.base import Blocks, CompiledStructure, as_codes


class SimilarClasses(CompiledStructure):
    """Classes 0..K-1 with the joint kernel k(x, x') M[y, y'].

    With M = L L', phi(x, y) = (x, bias) (outer) L[y], and the score of class y is
    sum_r L[y, r] <w_r, (x, bias)>. So M = identity gives `Multiclass`, and linear rows an ordinary
    linear problem. With `space=through_kernel(kernel)` of `taut.Problem`, rows are compared by a
    kernel.

    Parameters
    ----------
    n_classes : int
        K, at least 2.
    similarity : array of shape (K, K) or tree, optional
        M, positive semidefinite, or a tree: see `taut.kernels.ClassSimilarity`. The identity by
        default.
    label_map : array of shape (K, r), optional
        L instead of M, such as `VonMisesLabels(kappa).map(angles)` of `taut.kernels`.
    cost, bias
        As of `Multiclass`.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import SimilarClasses
    >>> X, y = np.array([[1.0, 0.2], [0.1, 1.0], [1.0, 1.0]]), np.array([0, 1, 2])
    >>> structure = SimilarClasses(3, [[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> result = solve(Problem(structure, X, y, C=1.0), tol=1e-3, random_state=0)
    >>> result.certificate.relative_gap <= 1e-3
    True
    """

    allocates = False
    takes_checked = True

    def __init__(
        self,
        n_classes: int,
        similarity: Any = None,
        label_map: Any = None,
        cost: Any = None,
        bias: float = 0.0,
    ) -> None:
        self.n_classes = n_classes
        self.label_map = _label_map(n_classes, similarity, label_map)
        self.cost = as_cost(cost, n_classes)
        self.bias = bias

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Rows X with class codes y."""
        X = as_matrix(X)
        rows = as_rows(X, dense_above=0.7)
        features = RowFeatures(X, rows, columns=self.label_map.shape[1], bias=self.bias)
        return self._blocks(features, as_codes(y, X.shape[0], self.n_classes))

    def take(self, blocks, which):
        """Rows and their classes."""
        return self._blocks(blocks.features.compacted(which), blocks.truth[which])

    def _blocks(self, features: Any, truth: np.ndarray) -> Blocks:
        return Blocks(
            (truth, self.cost, self.label_map), features, np.arange(len(truth) + 1), truth
        )

    def decode(self, labels, offsets):
        """Class codes."""
        return labels

    def lengths(self, blocks):
        """|(x, bias)| |L[y]| of the longest L[y]."""
        longest = float(np.sqrt((self.label_map**2).sum(axis=1).max()))
        return longest * np.sqrt(blocks.features.norms)

    @property
    def all_labels(self):
        """Every class."""
        return np.arange(self.n_classes, dtype=np.int32)[:, None]

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """The class of highest score plus weighted cost."""
        truth, costs, label_map = data
        label[0] = 0
        highest = -np.inf
        for k in range(label_map.shape[0]):
            value = loss_weight * costs[truth[i], k]
            for r in range(label_map.shape[1]):
                value += label_map[k, r] * work[r]
            if value > highest:
                highest = value
                label[0] = k
        return highest

    @staticmethod
    def loss(data, i, label):
        """The cost of the class."""
        return data[1][data[0][i], label[0]]

    @staticmethod
    def parts(data, i, label, each):
        """All columns, each as often as the map says."""
        label_map = data[2]
        total = 0.0
        for r in range(label_map.shape[1]):
            total += part(each, r, label_map[label[0], r])
        return total


def _label_map(n_classes: int, similarity: Any, label_map: Any) -> np.ndarray:
    """L, from whichever of the two is given."""
    if similarity is not None and label_map is not None:
        raise InvalidData("similarity and label_map are both given: give one of them")
    if label_map is None:
        own = ClassSimilarity(np.eye(n_classes) if similarity is None else similarity)
        found = own.map
    else:
        found = np.array(label_map, dtype=np.float64)
        if found.ndim != 2 or not np.isfinite(found).all():
            raise InvalidData(
                f"label_map has shape {found.shape}, or numbers that are not finite: give a row "
                "of numbers for each class"
            )
    if len(found) != n_classes:
        raise InvalidData(
            f"similarity or label_map is of {len(found)} classes, and there are {n_classes}: give "
            "a row for each class"
        )
    return np.ascontiguousarray(found)
