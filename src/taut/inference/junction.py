"""Junction trees: which tables exact inference on a graph needs, and how they fit together.

Eliminating the nodes one by one, joining the neighbours of each, gives one clique per node v: v and
its neighbours at that time. The table of a clique has a row for each labelling of these neighbours
and a column for each label of v. The parent of a clique is that of the neighbour which is
eliminated first; it holds all neighbours. They are written with that one last, so the row of a
clique's table is a row of fewer digits in its parent and a column there.

All of this depends on the edges alone, and is worked out once for graphs that have the same ones.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from taut.data.arrays import offsets_of
from taut.data.graphs import Graphs
from taut.errors import InvalidData


class Junctions(NamedTuple):
    """Junction trees of all graphs; those of graphs with the same edges are one.

    The cliques of block i are the rows from ``first[i]`` on of what follows, in the order of
    elimination, as many as it has nodes. Row r of a clique is column r % K of those rows of its
    parent whose numbers are ``places[lifts + r // K] + places[spreads + s]``, s < n_spread.
    """

    first: np.ndarray
    nodes: np.ndarray  # the node of each clique
    tables: np.ndarray  # where its table begins among those of its graph
    n_rows: np.ndarray  # how many labellings the neighbours have
    parents: np.ndarray  # which clique of the same graph is its parent; -1 for none
    lifts: np.ndarray
    spreads: np.ndarray
    n_spread: np.ndarray
    places: np.ndarray
    near_starts: np.ndarray  # a clique's neighbours are near[near_starts : next], slowest first
    near: np.ndarray
    edge_starts: np.ndarray  # a clique's edges are edges[edge_starts : next]
    edges: np.ndarray  # number, what a step of the neighbour's label adds to the row, and whether
    # the edge begins with the clique's own node


class Clique(NamedTuple):
    """A node and the neighbours that it has when it is eliminated, the next of them last."""

    node: int
    near: tuple[int, ...]


def eliminate(n_nodes: int, edges: np.ndarray, most: int) -> list[Clique]:
    """The cliques of a junction tree, in an order that adds few edges (min-fill).

    Stops at the first clique of more than `most` nodes, which is then the last of the list.
    """
    near: list[set[int]] = [set() for _ in range(n_nodes)]
    for u, v in edges.tolist():
        near[u].add(v)
        near[v].add(u)

    def priority(v: int) -> tuple[int, int, int]:
        missing = sum(len(near[v]) - 1 - len(near[v] & near[u]) for u in near[v]) // 2
        return missing, len(near[v]), v

    # Where all have many neighbours there is no way out, and no need to count missing edges.
    least = min(range(n_nodes), key=lambda v: len(near[v]))
    if len(near[least]) >= most:
        return [Clique(least, tuple(near[least]))]
    current = [priority(v) for v in range(n_nodes)]
    heap = list(current)
    heapq.heapify(heap)
    found: list[tuple[int, set[int]]] = []
    position = [n_nodes] * n_nodes
    while heap:
        entry = heapq.heappop(heap)
        v = entry[2]
        if position[v] < n_nodes or entry != current[v]:
            continue
        position[v] = len(found)
        found.append((v, near[v]))
        if len(near[v]) >= most:
            break
        affected = set(near[v])
        for u in near[v]:
            near[u].discard(v)
            if entry[0]:
                affected |= near[u]
                near[u] |= near[v] - {u}
        for u in affected:
            current[u] = priority(u)
            heapq.heappush(heap, current[u])
    return [Clique(v, tuple(sorted(n, key=lambda u: -position[u]))) for v, n in found]


def _sums(steps: list[int], n_labels: int) -> np.ndarray:
    """What labels of some nodes add to a row, for all their labellings."""
    total = np.zeros(1, dtype=np.int64)
    for step in steps:
        total = (total[:, None] + step * np.arange(n_labels)).ravel()
    return total.astype(np.int32)


class _Builder:
    """Lists of the arrays of `Junctions`, clique by clique."""

    def __init__(self, n_labels: int) -> None:
        self.n_labels = n_labels
        self.rows: list[tuple[int, ...]] = []  # node, table, rows, parent, lift, spread, n_spread
        self.near: list[tuple[int, ...]] = []
        self.edges: list[list[tuple[int, int, int]]] = []
        self.places: list[np.ndarray] = [np.empty(0, dtype=np.int32)]
        self.n_places = 0
        self.known: dict[tuple[int, ...], tuple[int, int, int]] = {}

    def add(self, cliques: list[Clique], edges: np.ndarray) -> int:
        """Add the cliques of a graph; the summed size of their tables."""
        position = {clique.node: c for c, clique in enumerate(cliques)}
        steps = [
            {u: self.n_labels**k for k, u in enumerate(reversed(clique.near))} for clique in cliques
        ]
        joined: list[list[tuple[int, int, int]]] = [[] for _ in cliques]
        for e, (u, v) in enumerate(edges.tolist()):
            own = position[u] < position[v]
            c, other = (position[u], v) if own else (position[v], u)
            joined[c].append((e, steps[c][other], int(own)))
        size = 0
        for clique in cliques:
            n_rows = self.n_labels ** len(clique.near)
            up = (-1, 0, 0, 0)
            if clique.near:
                parent = position[clique.near[-1]]
                shared = [steps[parent][u] for u in clique.near[:-1]]
                up = (parent, *self._meet(shared, len(cliques[parent].near)))
            self.rows.append((clique.node, size, n_rows, *up))
            size += n_rows * self.n_labels
        self.near += [clique.near for clique in cliques]
        self.edges += joined
        return size

    def _meet(self, shared: list[int], n_near: int) -> tuple[int, int, int]:
        """Where a clique's rows are in a parent of some neighbours: lift, spread, n_spread."""
        key = (n_near, *shared)
        if key not in self.known:
            others = [self.n_labels**k for k in range(n_near)]
            lift = _sums(shared, self.n_labels)
            spread = _sums([step for step in others if step not in shared], self.n_labels)
            self.known[key] = self.n_places, self.n_places + len(lift), len(spread)
            self.places += [lift, spread]
            self.n_places += len(lift) + len(spread)
        return self.known[key]

    def junctions(self, first: np.ndarray) -> Junctions:
        nodes, tables, n_rows, parents, lifts, spreads, n_spread = np.array(self.rows).T.copy()
        edges = [edge for joined in self.edges for edge in joined]
        return Junctions(
            first=first,
            nodes=nodes,
            tables=tables,
            n_rows=n_rows,
            parents=parents,
            lifts=lifts,
            spreads=spreads,
            n_spread=n_spread,
            places=np.concatenate(self.places),
            near_starts=offsets_of([len(near) for near in self.near]),
            near=np.array([u for near in self.near for u in near], dtype=np.int64),
            edge_starts=offsets_of([len(joined) for joined in self.edges]),
            edges=np.array(edges, dtype=np.int64).reshape(-1, 3),
        )


def junction_trees(graphs: Graphs, n_labels: int, max_table: int) -> tuple[Junctions, np.ndarray]:
    """Junction trees of all graphs, and the summed size of each graph's tables.

    A table of more than `max_table` entries is refused.
    """
    most = 0
    while n_labels ** (most + 1) <= max_table:
        most += 1
    builder = _Builder(n_labels)
    known: dict[tuple[int, bytes], tuple[int, int]] = {}
    found = []
    for i, n_nodes in enumerate(np.diff(graphs.offsets).tolist()):
        edges = graphs.edges[graphs.edge_offsets[i] : graphs.edge_offsets[i + 1]]
        key = (n_nodes, edges.tobytes())
        if key not in known:
            cliques = eliminate(n_nodes, edges, most)
            size = 1 + len(cliques[-1].near)
            if size > most:
                raise InvalidData(
                    f"X[{i}] has cycles that need a table for {size} nodes together (tree-width "
                    f"{size - 1} by min-fill), of {n_labels}**{size} = {n_labels**size} entries, "
                    f"more than max_table = {max_table}; give inference='cut' or 'relaxed', fewer "
                    "labels, or a larger max_table"
                )
            known[key] = len(builder.rows), builder.add(cliques, edges)
        found.append(known[key])
    first, sizes = np.array(found, dtype=np.int64).T.copy()
    return builder.junctions(first), sizes
