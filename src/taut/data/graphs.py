"""Graphs whose nodes have features and labels, stacked into a few arrays and checked."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import Matrix, as_numbers, as_sequences, check_finite, offsets_of
from taut.errors import InvalidData, InvalidType

_FORM = "(features, edges) or (features, edges, edge_features)"


class Graphs(NamedTuple):
    """Nodes and edges of all graphs one after the other.

    Graph i has the nodes ``offsets[i]:offsets[i + 1]``, whose features are rows of `matrix`, and
    the edges ``edge_offsets[i]:edge_offsets[i + 1]``, whose features are rows of `edge_matrix`.
    `edges`, of int32, are the two nodes of each, counted from 0 in their graph.
    """

    matrix: Matrix
    offsets: np.ndarray
    edges: np.ndarray
    edge_offsets: np.ndarray
    edge_matrix: np.ndarray


def as_graphs(X: Any, name: str = "X") -> Graphs:
    """Stack graphs, (features, edges) or (features, edges, edge_features), into a few arrays.

    `features` are an (n_nodes, d) array or sparse matrix, all dense or all sparse; `edges` an
    (n_edges, 2) array of node numbers from 0, each pair of nodes at most once; `edge_features` an
    (n_edges, d_e) array, which may be an empty list for a graph without edges beside others that
    have some. Without edge features each edge has the constant feature 1. `Graphs` are taken as
    they are. Edges that join a node with itself or two nodes twice are refused, and so are edge
    features that are there for some of the graphs only.

    Examples
    --------
    >>> graphs = as_graphs([([[1.0], [2.0], [3.0]], [[0, 1], [1, 2]]), ([[4.0]], [])])
    >>> graphs.offsets, graphs.edge_offsets, graphs.edges.tolist()
    (array([0, 3, 4]), array([0, 2, 2]), [[0, 1], [1, 2]])
    """
    if isinstance(X, Graphs):
        return X
    examples = _examples(X, name)
    matrix, offsets = as_sequences([example[0] for example in examples], name=name)
    parts = [_as_edges(example[1], f"{name}[{i}]") for i, example in enumerate(examples)]
    edges, edge_offsets = np.concatenate(parts), offsets_of([len(part) for part in parts])
    _check_edges(edges, edge_offsets, offsets, name)
    if len(examples[0]) == 2:
        edge_matrix = np.ones((len(edges), 1))
    else:
        edge_matrix = _stack_edge_features(examples, edge_offsets, name)
    return Graphs(matrix, offsets, edges.astype(np.int32), edge_offsets, edge_matrix)


def _examples(X: Any, name: str) -> Sequence[Any]:
    """The examples as a sequence of tuples, either all with edge features or none."""
    if not isinstance(X, list | tuple | np.ndarray):
        raise InvalidType(
            f"{name} is of type {type(X).__name__}; give a list of graphs, each {_FORM}"
        )
    if len(X) == 0:
        raise InvalidData(f"{name} has no graphs; pass at least one")
    for i, example in enumerate(X):
        if not isinstance(example, list | tuple):
            raise InvalidType(
                f"{name}[{i}] is of type {type(example).__name__}; give a list of graphs, each "
                f"{_FORM}"
            )
        if len(example) not in (2, 3):
            raise InvalidData(f"{name}[{i}] has {len(example)} parts; give {_FORM}")
        if len(example) != len(X[0]):
            has = ["no edge features", "edge features"]
            raise InvalidData(
                f"{name}[{i}] has {has[len(example) - 2]}, {name}[0] has {has[len(X[0]) - 2]}; "
                "give them to all graphs or to none"
            )
    return list(X)


def _as_edges(edges: Any, name: str) -> np.ndarray:
    try:
        pairs = np.asarray(edges)
    except ValueError as error:
        raise InvalidData(
            f"the edges of {name} are ragged: {error}; give two node numbers to each"
        ) from error
    if pairs.size == 0 and pairs.shape[:1] == (0,):
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise InvalidData(
            f"the edges of {name} have shape {pairs.shape} and dtype {pairs.dtype}; give integers "
            "of shape (n_edges, 2), the numbers of the two nodes of each edge"
        )
    return pairs.astype(np.int64)


def _check_edges(
    edges: np.ndarray, edge_offsets: np.ndarray, offsets: np.ndarray, name: str
) -> None:
    """Nodes that are there, no edge from a node to itself, none twice."""
    graph = np.repeat(np.arange(len(offsets) - 1), np.diff(edge_offsets))
    n_nodes = np.diff(offsets)[graph]

    def place(e: int) -> str:
        return f"edge {e - edge_offsets[graph[e]]} of {name}[{graph[e]}], {_pair(edges[e])},"

    outside = ((edges < 0) | (edges >= n_nodes[:, None])).any(axis=1)
    if outside.any():
        e = int(np.argmax(outside))
        raise InvalidData(
            f"{place(e)} leaves the nodes 0..{n_nodes[e] - 1}; number the nodes of each graph "
            "from 0, in the order of its features"
        )
    loops = edges[:, 0] == edges[:, 1]
    if loops.any():
        raise InvalidData(
            f"{place(int(np.argmax(loops)))} joins a node with itself; drop it, or make it a "
            "feature of the node"
        )
    low, high = (offsets[graph] + end for end in (edges.min(axis=1), edges.max(axis=1)))
    keys = low * offsets[-1] + high
    order = np.argsort(keys, kind="stable")
    again = np.flatnonzero(np.diff(keys[order]) == 0)
    if len(again):
        at = int(again[np.argmin(order[again + 1])])
        earlier, e = order[at], order[at + 1]
        raise InvalidData(
            f"{place(e)} joins the same nodes as edge {earlier - edge_offsets[graph[e]]}, "
            f"{_pair(edges[earlier])}; give each pair of nodes one edge, and add up the features"
        )


def _pair(edge: np.ndarray) -> str:
    return f"({edge[0]}, {edge[1]})"


def _stack_edge_features(
    examples: Sequence[Any], edge_offsets: np.ndarray, name: str
) -> np.ndarray:
    parts = []
    for i, (example, n_edges) in enumerate(zip(examples, np.diff(edge_offsets), strict=True)):
        part = _as_edge_features(example[2], n_edges, f"edge_features of {name}[{i}]")
        # A graph without edges may leave open how many features an edge has.
        if part.ndim == 2:
            parts.append((i, part))
    if not parts:
        raise InvalidData(
            f"{name} has edge features and no edges, so their number is not known; give arrays of "
            "shape (0, n_edge_features)"
        )
    first, width = parts[0][0], parts[0][1].shape[1]
    for i, part in parts:
        if part.shape[1] != width:
            raise InvalidData(
                f"the edges of {name}[{i}] have {part.shape[1]} features, those of {name}[{first}] "
                f"have {width}; give all edges the same features"
            )
    return np.concatenate([part for _, part in parts])


def _as_edge_features(features: Any, n_edges: int, name: str) -> np.ndarray:
    if sp.issparse(features):
        raise InvalidType(f"{name} is sparse; give a dense array, e.g. by .toarray()")
    part = np.asarray(as_numbers(features, name), dtype=np.float64)
    if n_edges == 0 and part.shape == (0,):
        return part
    if part.ndim != 2 or part.shape[0] != n_edges or part.shape[1] == 0:
        raise InvalidData(
            f"{name} has shape {part.shape}, expected ({n_edges}, n_edge_features) with at least "
            "one feature; give a row to each edge"
        )
    check_finite(part, name)
    return part
