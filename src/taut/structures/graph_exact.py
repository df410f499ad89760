"""A label per node of a graph, scored by node and by edge: exact inference."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.rows import as_rows, inner_products
from taut.data.arrays import offsets_of
from taut.data.graphs import Graphs, as_graphs
from taut.inference.cliques import condition, condition_again, join, maximise, row_of
from taut.inference.junction import Junctions, junction_trees
from taut.spaces.features import RowFeatures, worth_overlaps
from taut.spaces.labels import part
from taut.structures._pairs import as_node_codes, tie_table
from taut.structures.base import Blocks, CompiledStructure


class GraphData(NamedTuple):
    """What the oracles read."""

    offsets: np.ndarray
    truth: np.ndarray
    unit: np.ndarray  # the loss of one wrong label in each graph
    edges: np.ndarray
    edge_offsets: np.ndarray
    slots: np.ndarray  # which score of an edge a pair has; [1] with the second node first
    trees: Junctions
    n_labels: int
    stride: int  # from the scores of a node to those of the next
    n_weights: int  # scores of an edge; the next, a padding, is 0 and for pairs without weight
    edge_stride: int  # from the scores of an edge to those of the next: 0 where all have the same
    tables_at: int  # where the tables of a junction tree begin, after the potentials


@helper
def _fill(data, i, work, loss_weight, tables, at):
    """Write the scores of each node and of the edges to its neighbours into its clique's table."""
    trees, n_labels, stride = data.trees, data.n_labels, data.stride
    node, n_nodes = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
    cost = loss_weight * data.unit[i]
    pairs = n_nodes * stride
    for clique in range(trees.first[i], trees.first[i] + n_nodes):
        v = trees.nodes[clique]
        start = at + trees.tables[clique]
        end = start + trees.n_rows[clique] * n_labels
        for row in range(start, end, n_labels):
            for k in range(n_labels):
                tables[row + k] = work[v * stride + k] + cost * (data.truth[node + v] != k)
        for p in range(trees.edge_starts[clique], trees.edge_starts[clique + 1]):
            scores = pairs + trees.edges[p, 0] * data.edge_stride
            row = start
            while row < end:
                # The neighbour's label is a digit of the row: counted, as divisions are slow.
                for other in range(n_labels):
                    slots = data.slots[trees.edges[p, 2], other]
                    for _ in range(trees.edges[p, 1]):
                        for k in range(n_labels):
                            tables[row + k] += work[scores + slots[k]]
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
        offsets, edge_offsets = graphs.offsets, graphs.edge_offsets
        n_nodes, n_edge_features = np.diff(offsets), graphs.edge_matrix.shape[1]
        rows, places = as_rows(graphs.matrix), np.column_stack([offsets[:-1], offsets[1:]])
        edge_places = np.column_stack([edge_offsets[:-1], edge_offsets[1:]])
        # Edges that have the constant 1 alone see the pair weights as they are.
        alike = n_edge_features == 1 and bool((graphs.edge_matrix == 1.0).all())
        size = rows[0].size + graphs.edge_matrix.size
        known = y is not None and worth_overlaps(size, places, edge_places)
        features = RowFeatures(
            graphs.matrix,
            rows,
            columns=self.n_labels,
            places=places,
            overlaps=inner_products(rows, places) if known else None,
            tail=(n_edge_features, self.n_weights),
            tail_rows=None if alike else (graphs.edge_matrix, edge_places),
            order="F",
        )
        slots = np.where(self.tie < 0, self.n_weights, self.tie)
        data = GraphData(
            offsets=offsets,
            truth=as_node_codes(y, offsets, self.n_labels),
            unit=1.0 / n_nodes if self.normalize else np.ones(len(n_nodes)),
            edges=graphs.edges,
            edge_offsets=edge_offsets,
            slots=np.stack([slots, slots.T]),
            trees=trees,
            n_labels=self.n_labels,
            stride=features.stride,
            n_weights=self.n_weights,
            edge_stride=0 if alike else features.tail_stride,
            tables_at=features.n_potentials,
        )
        return Blocks(
            data=data,
            features=features,
            offsets=offsets,
            truth=data.truth,
            work_size=features.n_potentials + int(sizes.max()),
            n_labels=self.n_labels,
            label_stride=features.stride,
            mean_offsets=offsets_of(n_nodes * features.stride + sizes),
        )

    def _trees(self, graphs: Graphs) -> tuple[Junctions, np.ndarray]:
        return junction_trees(graphs, self.n_labels, self.max_table)

    def lengths(self, blocks):
        """Those of all nodes and edges."""
        edges = np.diff(blocks.data.edge_offsets) * (blocks.data.edge_stride == 0)
        return blocks.features.summed_lengths(blocks.offsets) + edges

    def decode(self, labels, offsets):
        """One array of label codes per graph."""
        return np.split(labels, offsets[1:-1])

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """Max-sum up the junction tree, and the best labels on the way back."""
        _fill(data, i, work, loss_weight, work, data.tables_at)
        first = data.trees.first[i]
        return maximise(data.trees, first, data.n_labels, work, data.tables_at, label)

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
            total += part(each, t * data.stride + label[t], 1.0)
        at = label.shape[0] * data.stride
        for e in range(data.edge_offsets[i], data.edge_offsets[i + 1]):
            slot = data.slots[0, label[data.edges[e, 0]], label[data.edges[e, 1]]]
            if slot < data.n_weights:
                total += part(each, at + slot, 1.0)
            at += data.edge_stride
        return total

    @staticmethod
    def expect(data, i, work, temperature, loss_weight, base, mean):
        """Sum-product up and down the junction tree, in logarithms on the way up."""
        first, n_labels = data.trees.first[i], data.n_labels
        n_nodes = data.offsets[i + 1] - data.offsets[i]
        at = n_nodes * data.stride
        _fill(data, i, work, loss_weight, mean, at)
        value = condition(data.trees, first, n_nodes, n_labels, mean, at, temperature, base)
        join(data.trees, first, n_nodes, n_labels, mean, data.stride)
        return value

    @staticmethod
    def normalise(data, i, mean):
        """The distribution whose conditional probabilities of nodes are those of the tables."""
        first, n_labels = data.trees.first[i], data.n_labels
        n_nodes = data.offsets[i + 1] - data.offsets[i]
        condition_again(data.trees, first, n_nodes, n_labels, mean, n_nodes * data.stride)
        join(data.trees, first, n_nodes, n_labels, mean, data.stride)

    @staticmethod
    def mean_of(data, i, label, mean):
        """One for the labels of each node and of each clique."""
        trees, n_labels = data.trees, data.n_labels
        for j in range(mean.shape[0]):
            mean[j] = 0.0
        at = label.shape[0] * data.stride
        for clique in range(trees.first[i], trees.first[i] + label.shape[0]):
            v = trees.nodes[clique]
            mean[v * data.stride + label[v]] = 1.0
            row = row_of(trees, clique, n_labels, label)
            mean[at + trees.tables[clique] + row * n_labels + label[v]] = 1.0

    @staticmethod
    def mean_loss(data, i, mean):
        """The expected number or share of wrong labels."""
        first = data.offsets[i]
        total = 0.0
        for t in range(data.offsets[i + 1] - first):
            for k in range(data.n_labels):
                total += mean[t * data.stride + k] * (k != data.truth[first + t])
        return total * data.unit[i]

    @staticmethod
    def spread(data, i, mean, statistics):
        """The marginals of nodes, and of edges by their scores."""
        trees, n_labels = data.trees, data.n_labels
        n_nodes = data.offsets[i + 1] - data.offsets[i]
        pairs = n_nodes * data.stride
        for p in range(statistics.shape[0]):
            statistics[p] = mean[p] if p < pairs else 0.0
        for clique in range(trees.first[i], trees.first[i] + n_nodes):
            for p in range(trees.edge_starts[clique], trees.edge_starts[clique + 1]):
                at = pairs + trees.edges[p, 0] * data.edge_stride
                row = pairs + trees.tables[clique]
                end = row + trees.n_rows[clique] * n_labels
                while row < end:
                    for other in range(n_labels):
                        slots = data.slots[trees.edges[p, 2], other]
                        for _ in range(trees.edges[p, 1]):
                            for k in range(n_labels):
                                if slots[k] < data.n_weights:
                                    statistics[at + slots[k]] += mean[row + k]
                            row += n_labels
