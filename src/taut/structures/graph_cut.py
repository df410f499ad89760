"""Two labels on large graphs whose neighbours attract each other: minimum cuts.

With theta the scores of nodes and pairs, and y_t in {0, 1}, a pair's score is

    theta(y_u, y_v) = constant + linear in y_u and y_v - s/2 |y_u - y_v|,
    s = theta(0, 0) + theta(1, 1) - theta(0, 1) - theta(1, 0).

If no s is negative, the highest score is a constant minus the smallest cut of a graph with arcs of
capacity s/2 between neighbours, and arcs from the source and to the sink for what is linear.
"""

from __future__ import annotations

import math
import sys
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from taut.errors import InvalidData
from taut.structures._graph_terms import GraphExample, GraphTerms
from taut.structures.base import Structure

_ROUNDING = 1e-12  # relative to its terms: how far below 0 rounding may bring an s that is 0
_FLOWS = 2  # one after the other through what the last left
_MOST = 2**30 - 1  # units of an arc: what an arc has left, with its reverse, fits into 31 bits then


class CutGraph(Structure):
    """Two labels for the nodes of graphs, with exact inference by minimum cuts, however large.

    An example is (features, edges) or (features, edges, edge_features), its label an array of 0
    and 1. The score is sum_t <w_node[y_t], x_t> plus, for each edge (u, v), its features times the
    pair weights of (y_u, y_v). Neighbours must attract each other at every w that training meets:
    theta(0, 0) + theta(1, 1) >= theta(0, 1) + theta(1, 0). With `pairwise="potts"`, edge features
    that are not negative, and pair weights that are not (`taut.Regularizer`, `nonneg`), they do.

    w has the node weights (2, d), then the pair weights (d_e, n_pair_weights). Capacities are
    rounded to integers, and what that may cost is part of the certificate.

    Parameters
    ----------
    n_labels : int, default=2
        Cuts tell two labels apart: other numbers are refused.
    pairwise : {"potts", "symmetric", "full"}, default="potts"
        One weight for equal labels; one for each unordered pair of labels; one for each pair.
    normalize : bool, default=False
        Whether the loss is the share of wrong nodes instead of their number.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, Regularizer, solve
    >>> from taut.structures import CutGraph
    >>> path = np.array([[0, 1], [1, 2], [2, 3]])
    >>> X = [(np.array([[1.0], [0.5], [-0.2], [1.0]]), path), (-np.ones((4, 1)), path)]
    >>> y = [np.array([1, 1, 1, 1]), np.array([0, 0, 0, 0])]
    >>> attract = Regularizer(nonneg=[False, False, True])
    >>> result = solve(Problem(CutGraph(), X, y, C=10.0, regularizer=attract), random_state=0)
    >>> structure = CutGraph()
    >>> [structure.argmax(x, result.w).tolist() for x in structure.examples(X)]
    [[1, 1, 1, 1], [0, 0, 0, 0]]
    """

    def __init__(self, n_labels: int = 2, pairwise: str = "potts", normalize: bool = False) -> None:
        if n_labels != 2:
            raise InvalidData(
                f"n_labels = {n_labels!r}: cuts tell two labels apart; use other inference, such "
                "as taut.structures.RelaxedGraph"
            )
        self.n_labels = n_labels
        self.pairwise = pairwise
        self.normalize = normalize
        self.terms = GraphTerms(n_labels, pairwise, normalize)

    def examples(self, X: Any, y: Any = None) -> list[GraphExample]:
        """Graphs one by one, checked."""
        return self.terms.examples(X, y)

    def features(self, x: GraphExample, label: Any) -> np.ndarray:
        """Sums of the features of nodes by label, and of edges by pair weight."""
        return self.terms.features(x, *self.terms.indicators(x, label))

    def loss(self, truth: Any, label: Any) -> float:
        """How many nodes are wrong, or which share of them."""
        return self.terms.loss(truth, self.terms.one_hot(label))

    def argmax(self, x: GraphExample, w: np.ndarray, truth: Any = None) -> np.ndarray:
        """The labels of highest score, plus loss with a truth, but for the rounding."""
        return self.bounded_argmax(x, w, truth)[0]

    def bounded_argmax(
        self, x: GraphExample, w: np.ndarray, truth: Any = None
    ) -> tuple[np.ndarray, float]:
        """The labels of highest score, plus loss with a truth, and what rounding may have cost."""
        nodes, pairs = self.terms.scores(x, w, truth)
        attraction = pairs[:, 0, 0] + pairs[:, 1, 1] - pairs[:, 0, 1] - pairs[:, 1, 0]
        size = np.abs(pairs).sum(axis=(1, 2))
        repels = attraction < -_ROUNDING * size
        if repels.any():
            raise _not_submodular(x, int(np.argmax(repels)), pairs, self.pairwise)
        # Of both ends: what a pair's score gains when an end changes from 0 to 1, on average.
        tail_gain = 0.5 * (pairs[:, 1].sum(axis=1) - pairs[:, 0].sum(axis=1))
        head_gain = 0.5 * (pairs[:, :, 1].sum(axis=1) - pairs[:, :, 0].sum(axis=1))
        gain = nodes[:, 1] - nodes[:, 0]
        gain += np.bincount(x.edges[:, 0], tail_gain, len(gain))
        gain += np.bincount(x.edges[:, 1], head_gain, len(gain))
        cut = minimum_cut(gain, x.edges, np.maximum(0.5 * attraction, 0.0))
        ignored = 0.5 * float(np.maximum(-attraction, 0.0).sum())
        return cut.label, cut.error + ignored


def _not_submodular(x: GraphExample, e: int, pairs: np.ndarray, pairwise: str) -> InvalidData:
    (equal0, mixed01), (mixed10, equal1) = pairs[e]
    u, v = x.edges[e]
    return InvalidData(
        f"edge {e} of graph {x.number}, ({u}, {v}), repels: equal labels score {equal0:.6g} and "
        f"{equal1:.6g} there, less together than the {mixed01:.6g} and {mixed10:.6g} of different "
        f"ones, and no cut tells the best labels (pairwise={pairwise!r}). Use pairwise='potts', "
        "edge features that are not negative, and pair weights that are not: GraphSVM sees to that "
        "by itself; elsewhere give taut.Regularizer(nonneg=mask), or nonneg=mask to an estimator, "
        "where mask is True for the weights after those of the nodes. Or use inference='relaxed', "
        "taut.structures.RelaxedGraph"
    )


class Cut(NamedTuple):
    """Which side each node is on, and how far the best value may lie above that of these sides."""

    label: np.ndarray
    error: float


def minimum_cut(gain: np.ndarray, edges: np.ndarray, weight: np.ndarray) -> Cut:
    """Maximise sum_t gain_t y_t - sum_e weight_e |y_u - y_v| over y in {0, 1}^n, weight >= 0.

    SciPy's flows are of 32-bit integers, so capacities are rounded down to multiples of a unit. The
    flow is feasible for the true capacities too, hence no cut is smaller than its value, and the
    error of a cut is what its arcs have left. No more flow than that is missing, so that a second
    flow through what is left has a unit as much smaller.
    """
    n = len(gain)
    source, sink = n, n + 1
    # Source side: label 0. An arc from the source is cut by label 1, one to the sink by label 0.
    from_source, to_sink = np.maximum(-gain, 0.0), np.maximum(gain, 0.0)
    largest = min(from_source.sum(), to_sink.sum())  # flow that there can be
    if largest == 0.0:
        return Cut(np.full(n, int(to_sink.sum() > 0.0)), 0.0)
    arcs = _arcs(edges, weight, from_source, to_sink)
    tails = np.repeat(np.arange(n + 2), np.diff(arcs.indptr))
    for _ in range(_FLOWS):
        unit = _unit(largest)
        units = np.floor(np.minimum(arcs.data, _MOST * unit) / unit).astype(np.int32)
        flow = maximum_flow(_with(arcs, units), source, sink).flow.data
        arcs.data -= unit * flow
        unused = _with(arcs, units - flow).copy()
        unused.eliminate_zeros()  # which changes the pattern in place
        label = np.ones(n + 2, dtype=np.int64)
        label[breadth_first_order(unused, source, return_predecessors=False)] = 0
        is_cut = (label[tails] == 0) & (label[arcs.indices] == 1)
        error = float(arcs.data[is_cut].sum())
        if error == 0.0:
            break
        largest = error
    return Cut(label[:n], error)


def _arcs(
    edges: np.ndarray, weight: np.ndarray, from_source: np.ndarray, to_sink: np.ndarray
) -> sp.csr_array:
    """Capacities of all arcs, the source and the sink being the last two nodes.

    Reverse arcs are there even where they have no capacity: flows then have the same pattern.
    """
    n = len(from_source)
    (u, v), inside, source, sink = edges.T, np.arange(n), np.full(n, n), np.full(n, n + 1)
    tails = np.concatenate([u, v, source, inside, inside, sink])
    heads = np.concatenate([v, u, inside, source, sink, inside])
    nothing = np.zeros(n)
    capacity = np.concatenate([weight, weight, from_source, nothing, to_sink, nothing])
    return sp.csr_array((capacity, (tails, heads)), shape=(n + 2, n + 2))


def _with(arcs: sp.csr_array, data: np.ndarray) -> sp.csr_array:
    """Other numbers on the same arcs."""
    return sp.csr_array((data, arcs.indices, arcs.indptr), shape=arcs.shape, copy=False)


def _unit(largest: float) -> float:
    """What a unit of flow stands for where no flow exceeds `largest`.

    A power of two, which divides without rounding, such that `largest` is less than half of _MOST
    units: an arc that is clipped there is in no smallest cut.
    """
    return max(math.ldexp(1.0, math.frexp(largest)[1] - 29), sys.float_info.min)
