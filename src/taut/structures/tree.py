"""A label per node of a tree or forest."""

from __future__ import annotations

import numpy as np

from taut.data.graphs import Graphs
from taut.errors import InvalidData
from taut.inference.junction import Junctions
from taut.structures.graph_exact import ExactGraph


class Tree(ExactGraph):
    """Trees and forests whose nodes have labels 0..K-1.

    As `Graph`, with an error for a graph that has a cycle.

    Parameters
    ----------
    n_labels : int
        K, at least 2.
    pairwise : {"full", "symmetric", "potts"}, default="full"
        Which weights pairs of labels have.
    normalize : bool, default=False
        Divide the Hamming loss by the number of nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Tree
    >>> X = [(np.eye(3), [[0, 1], [0, 2]]), (np.eye(3)[:2], [[0, 1]])]
    >>> y = [np.array([0, 1, 1]), np.array([0, 1])]
    >>> solve(Problem(Tree(2), X, y), tol=1e-4, random_state=0).certificate.status.name
    'CONVERGED'
    """

    def __init__(self, n_labels: int, pairwise: str = "full", normalize: bool = False) -> None:
        super().__init__(n_labels, pairwise, normalize, max_table=n_labels**2)

    def _trees(self, graphs: Graphs) -> tuple[Junctions, np.ndarray]:
        _check_forests(graphs)
        return super()._trees(graphs)


def _check_forests(graphs: Graphs) -> None:
    """Refuse a graph with a cycle."""
    root = np.arange(graphs.offsets[-1]).tolist()

    def find(v: int) -> int:
        while root[v] != v:
            root[v] = v = root[root[v]]
        return v

    for i, first in enumerate(graphs.offsets[:-1].tolist()):
        start, end = graphs.edge_offsets[i : i + 2].tolist()
        for e, (u, v) in enumerate(graphs.edges[start:end].tolist()):
            a, b = find(first + u), find(first + v)
            if a == b:
                raise InvalidData(
                    f"X[{i}] is no tree or forest: edge {e}, ({u}, {v}), closes a cycle; drop it, "
                    "or use a graph instead of a tree"
                )
            root[a] = b
