"""What plain-Python structures of graphs share: examples, and terms of nodes and pairs.

Scores and joint features are linear in a labelling written as indicators, or as marginals: of each
node's labels, shape (n, K), and of each edge's pairs of labels, shape (m, K, K).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import Matrix
from taut.data.graphs import as_graphs
from taut.errors import InvalidData
from taut.structures._pairs import as_node_codes, tie_table


class GraphExample(NamedTuple):
    """One graph: its number among the examples, and its arrays as float64 and integers."""

    number: int
    features: Matrix
    edges: np.ndarray
    edge_features: np.ndarray


class GraphTerms:
    """The terms of a labelling; see `taut.structures._pairs` for the layout of w."""

    def __init__(self, n_labels: int, pairwise: str, normalize: bool) -> None:
        self.n_labels = n_labels
        self.normalize = normalize
        tie, self.n_ties = tie_table(n_labels, pairwise)
        tied = np.flatnonzero(tie.ravel() >= 0)
        ones = np.ones(len(tied))
        #: Row (k, l), column g: whether labels k and l have the pair weight g.
        self.tied = sp.csr_array((ones, (tied, tie.ravel()[tied])), shape=(tie.size, self.n_ties))

    def examples(self, X: Any, y: Any = None) -> list[GraphExample]:
        """Graphs one by one, checked, and their labels too."""
        graphs = as_graphs(X)
        as_node_codes(y, graphs.offsets, self.n_labels)
        nodes, edges = graphs.offsets, graphs.edge_offsets
        return [
            GraphExample(
                i,
                graphs.matrix[nodes[i] : nodes[i + 1]].astype(np.float64),
                graphs.edges[edges[i] : edges[i + 1]],
                graphs.edge_matrix[edges[i] : edges[i + 1]],
            )
            for i in range(len(nodes) - 1)
        ]

    def one_hot(self, label: Any) -> np.ndarray:
        """Labels of nodes in integers as marginals."""
        return np.eye(self.n_labels)[np.asarray(label)]

    def indicators(self, x: GraphExample, label: Any) -> tuple[np.ndarray, np.ndarray]:
        """A labelling in integers as marginals."""
        nodes = self.one_hot(label)
        tails, heads = nodes[x.edges.T]
        return nodes, tails[:, :, None] * heads[:, None, :]

    def scores(
        self, x: GraphExample, w: np.ndarray, truth: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The score of each label of each node, plus its loss, and of each pair of each edge."""
        (n, d), (m, d_e), K = x.features.shape, x.edge_features.shape, self.n_labels
        if len(w) != K * d + d_e * self.n_ties:
            raise InvalidData(
                f"w has {len(w)} weights, graph {x.number} with {d} features of nodes and {d_e} of "
                f"edges needs {K * d + d_e * self.n_ties}: give the features that fit saw"
            )
        nodes = x.features @ w[: K * d].reshape(K, d).T
        if truth is not None:
            nodes += self._unit(n)
            nodes[np.arange(n), truth] -= self._unit(n)
        pairs = x.edge_features @ w[K * d :].reshape(d_e, self.n_ties) @ self.tied.T
        return nodes, pairs.reshape(m, K, K)

    def features(self, x: GraphExample, nodes: np.ndarray, pairs: np.ndarray) -> np.ndarray:
        """phi of marginals."""
        by_tie = pairs.reshape(len(pairs), self.n_labels**2) @ self.tied
        parts = nodes.T @ x.features, x.edge_features.T @ by_tie
        return np.concatenate([part.ravel() for part in parts])

    def loss(self, truth: Any, nodes: np.ndarray) -> float:
        """Expected Hamming loss of marginals, or its mean."""
        right = nodes[np.arange(len(nodes)), truth]
        return self._unit(len(nodes)) * float((1.0 - right).sum())

    def _unit(self, n: int) -> float:
        """What one wrong node of n costs."""
        return 1.0 / n if self.normalize else 1.0
