"""A label per node of a graph, scored by node and by edge: exact inference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.rows import Rows, add_row, as_rows, prefetch_rows, row_dot, summed_norms
from taut.data.arrays import offsets_of
from taut.data.graphs import Graphs, as_graphs
from taut.inference.cliques import condition, condition_again, join, maximise, row_of
from taut.inference.junction import Junctions, junction_trees
from taut.spaces.features import OwnFeatures
from taut.spaces.parts import part
from taut.structures._pairs import as_node_codes, tie_table
from taut.structures.base import Blocks, CompiledStructure


class GraphData(NamedTuple):
    """What the oracles read; the pair weights in w follow those of the nodes."""

    rows: Rows
    offsets: np.ndarray
    truth: np.ndarray
    unit: np.ndarray  # the loss of one wrong label in each graph
    edges: np.ndarray
    edge_offsets: np.ndarray
    edge_matrix: np.ndarray
    slots: (
        np.ndarray
    )  # which of n_ties scores of an edge a pair has; [1] with the second node first
    trees: Junctions
    n_labels: int
    n_columns: int
    n_ties: int  # scores of an edge: one per weight, and the last, 0, for pairs without weight


@helper
def _fill(data, i, work, loss_weight, tables, at):
    """Write the scores of each node and of the edges to its neighbours into its clique's table."""
    trees, n_labels, n_ties = data.trees, data.n_labels, data.n_ties
    node, n_nodes = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
    cost = loss_weight * data.unit[i]
    pairs = n_nodes * n_labels
    for clique in range(trees.first[i], trees.first[i] + n_nodes):
        v = trees.nodes[clique]
        row = at + trees.tables[clique]
        for r in range(trees.n_rows[clique]):
            for k in range(n_labels):
                tables[row + k] = work[v * n_labels + k] + cost * (data.truth[node + v] != k)
            for p in range(trees.edge_starts[clique], trees.edge_starts[clique + 1]):
                scores = pairs + trees.edges[p, 0] * n_ties
                slots = data.slots[trees.edges[p, 2], r // trees.edges[p, 1] % n_labels]
                for k in range(n_labels):
                    tables[row + k] += work[scores + slots[k]]
            row += n_labels


@helper
def _gather(data, i, mean, clique, p, sums, at):
    """sums[at + g] = how much of a clique's table falls to score g of its edge p."""
    trees, n_labels = data.trees, data.n_labels
    for g in range(data.n_ties):
        sums[at + g] = 0.0
    row = (data.offsets[i + 1] - data.offsets[i]) * n_labels + trees.tables[clique]
    for r in range(trees.n_rows[clique]):
        slots = data.slots[trees.edges[p, 2], r // trees.edges[p, 1] % n_labels]
        for k in range(n_labels):
            sums[at + slots[k]] += mean[row + k]
        row += n_labels


class ExactGraph(CompiledStructure):
    """Graphs whose nodes have labels 0..K-1: exact inference by a junction tree.

    `taut.structures.Graph` makes one; see there.
    """

    allocates = False
    takes_examples = True

    def __init__(
        self,
        n_labels: int,
        pairwise: str = "full",
        normalize: bool = False,
        max_table: int = 2**20,
    ) -> None:
        self.n_labels = n_labels
        self.pairwise = pairwise
        self.normalize = normalize
        self.max_table = max_table
        self.tie, self.n_weights = tie_table(n_labels, pairwise)

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X as `as_graphs` takes it; y label codes, one array per graph or stacked."""
        graphs = as_graphs(X)
        trees, sizes = self._trees(graphs)
        n_nodes, n_edges = np.diff(graphs.offsets), np.diff(graphs.edge_offsets)
        rows = as_rows(graphs.matrix)
        slots = np.where(self.tie < 0, self.n_weights, self.tie)
        data = GraphData(
            rows=rows,
            offsets=graphs.offsets,
            truth=as_node_codes(y, graphs.offsets, self.n_labels),
            unit=1.0 / n_nodes if self.normalize else np.ones(len(n_nodes)),
            edges=graphs.edges,
            edge_offsets=graphs.edge_offsets,
            edge_matrix=graphs.edge_matrix,
            slots=np.stack([slots, slots.T]),
            trees=trees,
            n_labels=self.n_labels,
            n_columns=graphs.matrix.shape[1],
            n_ties=self.n_weights + 1,
        )
        n_pairs = graphs.edge_matrix.shape[1] * self.n_weights
        scores = n_nodes * self.n_labels + n_edges * data.n_ties
        features = OwnFeatures(
            self.n_labels * data.n_columns + n_pairs,
            int(scores.max()),
            graphs.matrix.dtype.type,
            reads=self.n_labels * rows[0].size // len(n_nodes) + n_pairs,
        )
        return Blocks(
            data=data,
            features=features,
            offsets=graphs.offsets,
            truth=data.truth,
            work_size=int((scores + sizes).max()),
            n_labels=self.n_labels,
            label_stride=self.n_labels,
            mean_offsets=offsets_of(n_nodes * self.n_labels + sizes),
        )

    def _trees(self, graphs: Graphs) -> tuple[Junctions, np.ndarray]:
        return junction_trees(graphs, self.n_labels, self.max_table)

    def lengths(self, blocks):
        """Those of all nodes and edges."""
        data = blocks.data
        graphs = np.repeat(np.arange(blocks.n_blocks), np.diff(data.edge_offsets))
        edges = np.bincount(graphs, np.linalg.norm(data.edge_matrix, axis=1), blocks.n_blocks)
        return summed_norms(data.rows, data.offsets) + edges

    def decode(self, labels, offsets):
        """One array of label codes per graph."""
        return np.split(labels, offsets[1:-1])

    @staticmethod
    def prefetch(data, i):
        """The rows of the graph."""
        prefetch_rows(data.rows, data.offsets[i], data.offsets[i + 1])

    @staticmethod
    def pull(data, i, w, work):
        """The scores of all labels of all nodes, then those of all ties of all edges."""
        d, n_labels, n_ties = data.n_columns, data.n_labels, data.n_ties
        at = 0
        for t in range(data.offsets[i], data.offsets[i + 1]):
            for k in range(n_labels):
                work[at + k] = row_dot(data.rows, t, w[k * d : (k + 1) * d])
            at += n_labels
        pairs = n_labels * d
        for e in range(data.edge_offsets[i], data.edge_offsets[i + 1]):
            for g in range(n_ties - 1):
                score = 0.0
                for f in range(data.edge_matrix.shape[1]):
                    score += data.edge_matrix[e, f] * w[pairs + f * (n_ties - 1) + g]
                work[at + g] = score
            work[at + n_ties - 1] = 0.0
            at += n_ties

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """Max-sum up the junction tree, and the best labels on the way back."""
        n_edges = data.edge_offsets[i + 1] - data.edge_offsets[i]
        at = label.shape[0] * data.n_labels + n_edges * data.n_ties
        _fill(data, i, work, loss_weight, work, at)
        return maximise(data.trees, data.trees.first[i], data.n_labels, work, at, label)

    @staticmethod
    def loss(data, i, label):
        """Hamming loss, divided by the number of nodes when normalised."""
        first = data.offsets[i]
        wrong = 0
        for t in range(label.shape[0]):
            wrong += label[t] != data.truth[first + t]
        return wrong * data.unit[i]

    @staticmethod
    def parts(data, i, label, each):
        """Nodes and edges."""
        total = 0.0
        for t in range(label.shape[0]):
            total += part(each, t * data.n_labels + label[t], 1.0)
        at = label.shape[0] * data.n_labels
        for e in range(data.edge_offsets[i], data.edge_offsets[i + 1]):
            u, v = data.edges[e, 0], data.edges[e, 1]
            total += part(each, at + data.slots[0, label[u], label[v]], 1.0)
            at += data.n_ties
        return total

    @staticmethod
    def push(data, i, statistics, w):
        """Label by label of the nodes, tie by tie of the edges."""
        d, n_labels, n_weights = data.n_columns, data.n_labels, data.n_ties - 1
        at = 0
        for t in range(data.offsets[i], data.offsets[i + 1]):
            for k in range(n_labels):
                if statistics[at + k] != 0.0:
                    add_row(data.rows, t, statistics[at + k], w[k * d : (k + 1) * d])
            at += n_labels
        pairs = n_labels * d
        for e in range(data.edge_offsets[i], data.edge_offsets[i + 1]):
            for f in range(data.edge_matrix.shape[1]):
                for g in range(n_weights):
                    change = data.edge_matrix[e, f] * statistics[at + g]
                    w[pairs + f * n_weights + g] += change
            at += data.n_ties

    @staticmethod
    def expect(data, i, work, temperature, loss_weight, base, mean):
        """Sum-product up and down the junction tree, in logarithms on the way up."""
        first, n_labels = data.trees.first[i], data.n_labels
        n_nodes = data.offsets[i + 1] - data.offsets[i]
        at = n_nodes * n_labels
        _fill(data, i, work, loss_weight, mean, at)
        value = condition(data.trees, first, n_nodes, n_labels, mean, at, temperature, base)
        join(data.trees, first, n_nodes, n_labels, mean)
        return value

    @staticmethod
    def normalise(data, i, mean):
        """The distribution whose conditional probabilities of nodes are those of the tables."""
        first, n_labels = data.trees.first[i], data.n_labels
        n_nodes = data.offsets[i + 1] - data.offsets[i]
        condition_again(data.trees, first, n_nodes, n_labels, mean, n_nodes * n_labels)
        join(data.trees, first, n_nodes, n_labels, mean)

    @staticmethod
    def mean_of(data, i, label, mean):
        """One for the labels of each node and of each clique."""
        trees, n_labels = data.trees, data.n_labels
        for j in range(mean.shape[0]):
            mean[j] = 0.0
        at = label.shape[0] * n_labels
        for clique in range(trees.first[i], trees.first[i] + label.shape[0]):
            v = trees.nodes[clique]
            mean[v * n_labels + label[v]] = 1.0
            row = row_of(trees, clique, n_labels, label)
            mean[at + trees.tables[clique] + row * n_labels + label[v]] = 1.0

    @staticmethod
    def mean_loss(data, i, mean):
        """The expected number or share of wrong labels."""
        first = data.offsets[i]
        total = 0.0
        for t in range(data.offsets[i + 1] - first):
            for k in range(data.n_labels):
                total += mean[t * data.n_labels + k] * (k != data.truth[first + t])
        return total * data.unit[i]

    @staticmethod
    def spread(data, i, mean, statistics):
        """The marginals of nodes, and of edges by their scores."""
        trees, n_ties = data.trees, data.n_ties
        n_nodes = data.offsets[i + 1] - data.offsets[i]
        pairs = n_nodes * data.n_labels
        for p in range(statistics.shape[0]):
            statistics[p] = mean[p] if p < pairs else 0.0
        for clique in range(trees.first[i], trees.first[i] + n_nodes):
            for p in range(trees.edge_starts[clique], trees.edge_starts[clique + 1]):
                at = pairs + trees.edges[p, 0] * n_ties
                _gather(data, i, mean, clique, p, statistics, at)
