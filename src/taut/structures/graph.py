"""A label per node of a graph: one structure for each kind of inference."""

from __future__ import annotations

from taut.errors import InvalidData
from taut.structures.graph_cut import CutGraph
from taut.structures.graph_exact import ExactGraph
from taut.structures.graph_relaxed import RelaxedGraph


def Graph(  # noqa: N802
    n_labels: int,
    pairwise: str = "full",
    normalize: bool = False,
    inference: str = "exact",
    max_table: int = 2**20,
) -> ExactGraph | CutGraph | RelaxedGraph:
    """Graphs whose nodes have labels 0..K-1, scored by node and by edge, with the Hamming loss.

    The score of a labelling y is sum_t <w_node[y_t], x_t> plus, for each edge (u, v) with features
    f, sum_j f[j] w_pair[j, tie[y_u, y_v]], where `pairwise` says which weight a pair of labels has.
    w is laid out as node weights (K, d), then pair weights (d_e, G). Examples are as in
    `taut.data.graphs.as_graphs`.

    Parameters
    ----------
    n_labels : int
        K, at least 2.
    pairwise : {"full", "symmetric", "potts"}, default="full"
        A weight for each pair of labels in the order of the edge (G = K * K); for each pair in any
        order (G = K * (K + 1) / 2); or one for equal labels and none for different ones (G = 1).
    normalize : bool, default=False
        Divide the Hamming loss by the number of nodes.
    inference : {"exact", "cut", "relaxed"}, default="exact"
        Exact: by a junction tree, whose tables grow exponentially with the tree-width of a graph.
        A tree has 1, a cycle 2, a grid the length of its shorter side; the order of elimination,
        min-fill, may find somewhat more. Cut: two labels on graphs of any size whose neighbours
        attract each other, `CutGraph`. Relaxed: any labels on graphs of any size, by linear
        programs whose certificate is about themselves, `RelaxedGraph`.
    max_table : int, default=2**20
        How many entries the table of a clique may have, with exact inference.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Graph
    >>> square = [[0, 1], [1, 2], [2, 3], [3, 0]]
    >>> X = [(np.eye(4), square), (np.eye(4)[::-1], square)]
    >>> y = [np.array([0, 0, 1, 1]), np.array([1, 1, 0, 0])]
    >>> problem = Problem(Graph(2, pairwise="potts"), X, y)
    >>> solve(problem, tol=1e-4, random_state=0).certificate.status.name
    'CONVERGED'
    """
    match inference:
        case "exact":
            return ExactGraph(n_labels, pairwise, normalize, max_table)
        case "cut":
            return CutGraph(n_labels, pairwise, normalize)
        case "relaxed":
            return RelaxedGraph(n_labels, pairwise, normalize)
    raise InvalidData(f"inference = {inference!r}: give one of ['exact', 'cut', 'relaxed']")
