"""The difference of the scores of two labels of an example, and what it is the sum of."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import Matrix
from taut.duals.support import LabelsInUse
from taut.explanations.report import ExampleTable, FeatureTable
from taut.spaces.expansion import KernelExpansion
from taut.spaces.regularizer import Prior


class Difference(NamedTuple):
    """Statistics of the answer less those of the runner-up.

    Attributes
    ----------
    X : matrix of shape (length, n_features)
        The rows of the example.
    nodes : ndarray of shape (length, columns)
    tail : ndarray
        Of the weights that all examples share.
    bias : float
        The value of the constant feature; 0 without one.
    """

    X: Matrix
    nodes: np.ndarray
    tail: np.ndarray
    bias: float

    def psi(self) -> np.ndarray:
        """As features, in the layout of w."""
        weights = self.X.T.astype(np.float64) @ self.nodes
        parts = [np.asarray(weights).ravel(), self.tail]
        if self.bias:
            parts.insert(1, self.bias * self.nodes.sum(axis=0))
        return np.concatenate(parts)

    def features(self, coef: np.ndarray, names: np.ndarray | None) -> FeatureTable:
        """What each feature adds; `coef` has a row for each column of the nodes."""
        parts = []
        for t in np.flatnonzero(self.nodes.any(axis=1)):
            given: Any = self.X[[t]]
            row = (given.toarray() if sp.issparse(given) else given)[0]
            j = np.flatnonzero(row)
            weight = self.nodes[t] @ coef[:, j]
            parts.append(np.array([np.full(len(j), t), j, row[j], weight, row[j] * weight]))
        t, j, value, weight, product = np.concatenate([np.empty((5, 0)), *parts], axis=1)
        order = np.argsort(-np.abs(product), kind="stable")
        feature = j[order].astype(np.int64)
        known = np.array([f"x{k}" for k in feature]) if names is None else names[feature]
        return FeatureTable(
            t[order].astype(np.int64), feature, known, value[order], weight[order], product[order]
        )


def largest_first(numbers: np.ndarray, contribution: np.ndarray) -> ExampleTable:
    """Those that are not 0."""
    order = np.argsort(-np.abs(contribution), kind="stable")
    order = order[contribution[order] != 0.0]
    return ExampleTable(numbers[order], contribution[order])


def by_examples(
    psi: np.ndarray, prior: Prior, X: Matrix, bias: float, offsets: np.ndarray,
    statistics: sp.csr_array, tails: tuple[np.ndarray, np.ndarray, np.ndarray], in_use: LabelsInUse,
) -> tuple[ExampleTable, float]:  # fmt: skip
    """What training examples add to <w, psi>, and what the prior mean does.

    `statistics` are those of U at the rows of X. `tails` are blocks, places in the tail, and
    amounts of those there. Weights of dual variables are m + P^-1 U with the prior's precision P.
    """
    lifted = prior.covariance(psi)
    columns = statistics.shape[1]
    n_nodes = (X.shape[1] + bool(bias)) * columns
    nodes: Any = lifted[:n_nodes].reshape(-1, columns)
    tail = lifted[n_nodes:]
    rows = np.unique(in_rows(in_use, offsets))
    scores = np.asarray(X[rows].astype(np.float64) @ nodes[: X.shape[1]])
    if bias:
        scores = scores + bias * nodes[-1]
    by_row = np.zeros(X.shape[0])
    by_row[rows] = np.asarray(statistics[rows].multiply(scores).sum(axis=1)).ravel()
    found = np.add.reduceat(by_row, offsets[:-1])
    blocks, places, amounts = tails
    found += np.bincount(blocks, amounts * tail[places], len(found))
    return largest_first(np.arange(len(found)), found), float(prior.mean @ psi)


def in_rows(in_use: LabelsInUse, offsets: np.ndarray) -> np.ndarray:
    """The rows of blocks with labels in use."""
    used = np.zeros(len(offsets) - 1, dtype=bool)
    used[in_use.block] = True
    return np.flatnonzero(np.repeat(used, np.diff(offsets)))


def by_support_rows(
    difference: Difference, expansion: KernelExpansion, constant: float
) -> ExampleTable:
    """What support rows add: their kernel values with the example times their coefficients."""
    coefficients, support = expansion.point.coefficients, expansion.point.support
    if len(support) == 0:
        return ExampleTable(support, np.empty(0))
    products = difference.nodes @ coefficients.T
    values = expansion.values(difference.X) + constant
    return largest_first(support, (values * products).sum(axis=0))
