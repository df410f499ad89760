"""Any labels on large graphs: the linear relaxation over the local polytope.

A label is a point of the local polytope: marginals of each node's labels and of each edge's pairs
of labels that agree with each other,

    sum_k nodes[t, k] = 1, sum_l pairs[e, k, l] = nodes[u, k], sum_k pairs[e, k, l] = nodes[v, l],

all >= 0. Its integral points are the labellings; on trees all vertices are integral. Multipliers a
and b of the last two equations move scores between nodes and pairs without changing any sum, so

    sum_t max_k [theta_t(k) + sum of its a and b] + sum_e max_kl [theta_e(k, l) - a_e(k) - b_e(l)]

is an upper bound on all scores, whatever a and b are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from taut.errors import TautError
from taut.structures._graph_terms import GraphExample, GraphTerms
from taut.structures.base import Structure

_INTEGRAL = 1e-6  # how far from 0 and 1 a marginal may be that counts as integral
_TOLERANCE = 1e-10  # of HiGHS, the least that it takes; the largest score is 1 there


class Marginals(NamedTuple):
    """A relaxed label: marginals of nodes, shape (n, K), and of edges, shape (m, K, K)."""

    nodes: np.ndarray
    pairs: np.ndarray


class RelaxedExample(NamedTuple):
    """A graph, and the equations of its local polytope, one matrix for all graphs alike."""

    graph: GraphExample
    equations: sp.csr_array


class RelaxedGraph(Structure):
    """Labels for the nodes of graphs of any size, with inference relaxed to linear programs.

    An example is (features, edges) or (features, edges, edge_features), its true label an integer
    array. The score is sum_t <w_node[y_t], x_t> plus, for each edge (u, v), its features times the
    pair weights of (y_u, y_v). Training maximises over the local polytope, whose points may be
    fractional (`Marginals`). Their hinges are never smaller than those of integral labels, hence
    the certified primal bounds the objective of integral labels too; the dual bounds the relaxed
    objective alone. On trees both are the same. A prediction is the rounded optimum of the
    relaxation, and the best labelling whenever that is integral.

    w has the node weights (n_labels, d), then the pair weights (d_e, n_pair_weights). The error of
    HiGHS, which solves the programs, is part of the certificate.

    Parameters
    ----------
    n_labels : int
        K, at least 2.
    pairwise : {"full", "symmetric", "potts"}, default="full"
        One weight for each pair of labels; one for each unordered pair; one for equal labels.
    normalize : bool, default=False
        Whether the loss is the share of wrong nodes instead of their number.

    Examples
    --------
    Three nodes, each of which wants to differ from the others: with two labels they cannot.

    >>> import numpy as np
    >>> from taut.structures import RelaxedGraph
    >>> structure = RelaxedGraph(2, pairwise="potts")
    >>> triangle = np.zeros((3, 1)), np.array([[0, 1], [1, 2], [0, 2]])
    >>> x = structure.examples([triangle])[0]
    >>> label, error = structure.bounded_argmax(x, np.array([0.0, 0.0, -1.0]))
    >>> label.nodes
    array([[0.5, 0.5],
           [0.5, 0.5],
           [0.5, 0.5]])
    >>> structure.is_integral(label)
    False
    """

    certifies = (
        "the problem with labels relaxed to the local polytope, whose objective is nowhere below "
        "that of integral labels"
    )
    #: Predictions are rounded.
    scores_predict = False

    def __init__(self, n_labels: int, pairwise: str = "full", normalize: bool = False) -> None:
        self.n_labels = n_labels
        self.pairwise = pairwise
        self.normalize = normalize
        self.terms = GraphTerms(n_labels, pairwise, normalize)

    def examples(self, X: Any, y: Any = None) -> list[RelaxedExample]:
        """Graphs one by one, checked, with their polytopes."""
        made: dict[tuple[int, bytes], sp.csr_array] = {}
        examples = []
        for graph in self.terms.examples(X, y):
            key = graph.features.shape[0], graph.edges.tobytes()
            if key not in made:
                made[key] = _equations(key[0], graph.edges, self.n_labels)
            examples.append(RelaxedExample(graph, made[key]))
        return examples

    def features(self, x: RelaxedExample, label: Any) -> np.ndarray:
        """Sums of the features of nodes by label, and of edges by pair weight, as expected."""
        return self.terms.features(x.graph, *self._marginals(x, label))

    def loss(self, truth: Any, label: Any) -> float:
        """How many nodes are wrong, or which share, as expected; the truth is an integer array."""
        relaxed = isinstance(label, Marginals)
        return self.terms.loss(truth, label.nodes if relaxed else self.terms.one_hot(label))

    def argmax(self, x: RelaxedExample, w: np.ndarray, truth: Any = None) -> Any:
        """Marginals of highest score + loss; without a truth the prediction, an integer array."""
        label, _ = self.bounded_argmax(x, w, truth)
        return self.decode(label) if truth is None else label

    def bounded_argmax(
        self, x: RelaxedExample, w: np.ndarray, truth: Any = None
    ) -> tuple[Marginals, float]:
        """Marginals of highest score, plus loss with a truth, and how far they may be from it."""
        nodes, pairs = self.terms.scores(x.graph, w, truth)
        found, multipliers = _solve(x, nodes, pairs)
        label = _feasible(x.graph.edges, *found)
        bound = _bound(x.graph.edges, nodes, pairs, *multipliers)
        value = float((nodes * label.nodes).sum() + (pairs * label.pairs).sum())
        return label, max(bound - value, 0.0)

    def decode(self, label: Marginals) -> np.ndarray:
        """The most probable label of each node."""
        return label.nodes.argmax(axis=1)

    def is_integral(self, label: Marginals) -> bool:
        """Whether marginals are a labelling, so that `decode` only names it."""
        return bool((label.nodes.max(axis=1) >= 1.0 - _INTEGRAL).all())

    def _marginals(self, x: RelaxedExample, label: Any) -> Marginals:
        if isinstance(label, Marginals):
            return label
        return Marginals(*self.terms.indicators(x.graph, label))


def _equations(n: int, edges: np.ndarray, K: int) -> sp.csr_array:
    """The equations of the local polytope: sums of nodes, then tails of edges, then heads."""
    m, ones = len(edges), np.ones((1, K))
    here = sp.eye_array(K)
    ends = [sp.csr_array((np.ones(m), (np.arange(m), end)), shape=(m, n)) for end in edges.T]
    tails = [-sp.kron(ends[0], here), sp.kron(sp.eye_array(m), sp.kron(here, ones))]
    heads = [-sp.kron(ends[1], here), sp.kron(sp.eye_array(m), sp.kron(ones, here))]
    sums = [sp.kron(sp.eye_array(n), ones), None]
    return sp.csr_array(sp.block_array([sums, tails, heads], format="csr"))


def _solve(x: RelaxedExample, nodes: np.ndarray, pairs: np.ndarray) -> tuple[Marginals, np.ndarray]:
    """The best point by HiGHS, feasible within its tolerance, and the multipliers of both ends."""
    (n, K), m = nodes.shape, len(pairs)
    scores = np.concatenate([nodes.ravel(), pairs.ravel()])
    scale = np.abs(scores).max() or 1.0
    solution = linprog(
        -scores / scale,
        A_eq=x.equations,
        b_eq=np.repeat([1.0, 0.0], [n, 2 * m * K]),
        method="highs",
        options={
            "presolve": False,  # takes longer than it saves
            "primal_feasibility_tolerance": _TOLERANCE,
            "dual_feasibility_tolerance": _TOLERANCE,
        },
    )
    if solution.x is None or solution.eqlin.marginals is None:
        raise TautError(
            f"HiGHS did not solve the relaxation of graph {x.graph.number}, whose scores are up to "
            f"{scale:.3g}: {solution.message}; scale the features"
        )
    of_nodes, of_pairs = np.split(solution.x, [n * K])
    multipliers = -scale * solution.eqlin.marginals[n:]
    return (
        Marginals(of_nodes.reshape(n, K), of_pairs.reshape(m, K, K)),
        multipliers.reshape(2, m, K),
    )


def _feasible(edges: np.ndarray, nodes: np.ndarray, pairs: np.ndarray) -> Marginals:
    """Marginals near those given that are in the local polytope up to the rounding of sums."""
    nodes = np.maximum(nodes, 0.0)
    nodes /= nodes.sum(axis=1, keepdims=True)
    tails, heads = nodes[edges.T]
    pairs = np.maximum(pairs, 0.0)
    pairs *= _shrinking(tails, pairs.sum(axis=2))[:, :, None]
    pairs *= _shrinking(heads, pairs.sum(axis=1))[:, None, :]
    # What is missing of the sums is >= 0 now, and the same in all of both directions.
    rows = np.maximum(tails - pairs.sum(axis=2), 0.0)
    columns = np.maximum(heads - pairs.sum(axis=1), 0.0)
    missing = rows.sum(axis=1, keepdims=True)
    shares = np.divide(rows, missing, out=np.zeros_like(rows), where=missing > 0.0)
    pairs += shares[:, :, None] * columns[:, None, :]
    return Marginals(nodes, pairs)


def _shrinking(target: np.ndarray, given: np.ndarray) -> np.ndarray:
    """Factors that bring sums down to their targets, and leave them where they are below."""
    return np.divide(target, given, out=np.ones_like(given), where=given > target)


def _bound(
    edges: np.ndarray, nodes: np.ndarray, pairs: np.ndarray, tails: np.ndarray, heads: np.ndarray
) -> float:
    """An upper bound on the score of all marginals, by multipliers of shape (m, K) for each end."""
    moved = nodes.copy()
    np.add.at(moved, edges[:, 0], tails)
    np.add.at(moved, edges[:, 1], heads)
    left = pairs - tails[:, :, None] - heads[:, None, :]
    return float(moved.max(axis=1).sum() + left.max(axis=(1, 2)).sum())
