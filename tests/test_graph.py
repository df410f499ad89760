"""Graphs: every oracle against enumeration, junction trees, and what is refused."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

from cases import long_if
from reference import graph_features
from taut.compiled.jit import specialise
from taut.data.graphs import as_graphs
from taut.errors import InvalidData, InvalidType
from taut.inference.junction import eliminate, junction_trees
from taut.structures import Graph, Tree
from taut.structures._pairs import tie_table
from taut.structures.base import Operations

NO_BASE = np.empty(0)


def _ask(oracles):
    pull, argmax, expect = oracles.pull, oracles.argmax, oracles.expect

    def ask(space, data, i, w, work, forbidden, loss_weight, temperature, base, label, mean):
        """The best label and the mean, where the score of `forbidden`, if any, is lowered."""
        pull(space, i, w, work)
        if forbidden >= 0:
            work[forbidden] = -1e30
        best = argmax(data, i, work, loss_weight, label)
        return best, expect(data, i, work, temperature, loss_weight, base, mean)

    return ask


def _tell(oracles):
    pull, mean_of, normalise = oracles.pull, oracles.mean_of, oracles.normalise
    mean_loss, spread, push = oracles.mean_loss, oracles.spread, oracles.push

    def tell(space, data, i, w, work, statistics, labels, means, given, mean, out):
        """What is linear in `given`, the means of labels, and `mean` normalised."""
        pull(space, i, w, work)
        loss = mean_loss(data, i, given)
        spread(data, i, given, statistics)
        score = 0.0
        for p in range(statistics.shape[0]):
            score += statistics[p] * work[p]
            statistics[p] *= -2.0
        push(space, i, statistics, statistics.shape[0], 0.0, out)
        for q in range(labels.shape[0]):
            mean_of(data, i, labels[q], means[q])
        normalise(data, i, mean)
        return score, loss

    return tell


class Asked:
    """One graph with its oracles, and all its labels with their features and losses."""

    def __init__(self, structure, x, y):
        self.blocks = structure.encode([x], [y])
        self.features = self.blocks.features
        self.given = self.features.view(self.blocks.data), self.blocks.data
        self.oracles = Operations(*structure.oracles, *self.features.functions(structure))
        self.n_labels, dtype = structure.n_labels, self.features.dtype
        choices = list(itertools.product(range(self.n_labels), repeat=len(y)))
        self.labels = np.array(choices, dtype=np.int32)
        features, edges, *weights = x
        dense = features.toarray() if sp.issparse(features) else features
        graph = dense, edges, weights[0] if weights else np.ones((len(edges), 1))
        self.phi = np.array(
            [graph_features(graph, c, self.n_labels, structure.pairwise) for c in choices]
        )
        self.losses = (self.labels != y).sum(axis=1) / (len(y) if structure.normalize else 1)
        self.work = np.empty(self.blocks.work_size, dtype)
        self.means = np.full((len(choices), self.blocks.mean_size), 7.0, dtype)
        nothing = np.zeros(self.blocks.mean_size, dtype)
        zero = np.zeros(self.features.n_features, dtype)
        self.uniform = self.tell(zero, nothing, nothing.copy())[3]

    def ask(self, w, loss_weight=0.0, temperature=1.0, base=NO_BASE, forbidden=-1):
        """Best value, best label, soft value, mean."""
        label, mean = np.empty(len(self.labels[0]), np.int32), np.full_like(self.means[0], 7.0)
        ask = specialise(_ask, self.oracles)
        best, soft = ask(
            *self.given, 0, self.features.pad(w), self.work, forbidden, loss_weight, temperature,
            base.astype(w.dtype), label, mean,
        )  # fmt: skip
        return best, label, soft, mean

    def tell(self, w, given, mean):
        """Score, loss and -2 A of a mean, and another normalised."""
        w = self.features.pad(w)
        out, statistics = np.zeros_like(w), np.full(self.features.n_potentials, 7.0, w.dtype)
        tell = specialise(_tell, self.oracles)
        score, loss = tell(
            *self.given, 0, w, self.work, statistics, self.labels, self.means, given, mean, out
        )
        return score, loss, self.features.unpad(out), mean

    def row(self, label):
        return int(np.flatnonzero((self.labels == label).all(axis=1))[0])

    def check(self, w, loss_weight, temperature, base=NO_BASE, known=0.0, precision=1e-8):
        """Best and soft values, means and edges' features as by enumeration; the mean, log p."""
        best, label, soft, mean = self.ask(w, loss_weight, temperature, base)
        scores = self.phi @ w + loss_weight * self.losses
        slack = precision * (1.0 + np.abs(scores).max())
        assert abs(best - scores.max()) <= slack
        assert abs(scores[self.row(label)] - scores.max()) <= slack
        values = known + scores / temperature
        known = values - logsumexp(values)
        assert_allclose(soft, temperature * logsumexp(values), rtol=precision, atol=slack)
        p = np.exp(known)
        assert_allclose(mean, p @ self.means, atol=precision)
        score, loss, added, again = self.tell(w, mean, mean.copy())
        assert_allclose(again, mean, atol=1e-2 * precision)
        assert_allclose(score, p @ self.phi @ w, atol=slack)
        assert_allclose(loss, p @ self.losses, atol=slack)
        assert_allclose(added, -2.0 * p @ self.phi, atol=10 * precision * (1 + abs(self.phi).max()))
        return mean, known


def cycle(n):
    return [(v, (v + 1) % n) for v in range(n)]


def grid(n_rows, n_columns):
    nodes = np.arange(n_rows * n_columns).reshape(n_rows, n_columns)
    across = zip(nodes[:, :-1].ravel().tolist(), nodes[:, 1:].ravel().tolist(), strict=True)
    down = zip(nodes[:-1].ravel().tolist(), nodes[1:].ravel().tolist(), strict=True)
    return [*across, *down]


def complete(n):
    return list(itertools.combinations(range(n), 2))


@st.composite
def edges_of(draw, n):
    """Edges on n nodes: a tree, a forest, a cycle, a grid, all pairs or any, in any order."""
    tree = [(draw(st.integers(0, v - 1)), v) for v in range(1, n)]
    shapes = [tree, tree[::2], complete(n), draw(st.lists(st.sampled_from(complete(n))))]
    if n > 2:
        shapes.append(cycle(n))
    if n == 6:
        shapes.append(grid(2, 3))
    edges = draw(st.permutations(sorted({tuple(sorted(e)) for e in draw(st.sampled_from(shapes))})))
    names = draw(st.permutations(range(n)))
    flips = draw(st.lists(st.booleans(), min_size=len(edges), max_size=len(edges)))
    return [[names[e[flip]], names[e[not flip]]] for e, flip in zip(edges, flips, strict=True)]


@st.composite
def asked(draw):
    """A graph that can be enumerated, and a generator of random numbers."""
    n_labels = draw(st.integers(2, 4))
    n = draw(st.integers(2, {2: 6, 3: 5, 4: 4}[n_labels]))
    edges = draw(edges_of(n))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x = rng.normal(size=(n, 2)), edges
    if draw(st.booleans()):
        x = *x, rng.normal(size=(len(edges), draw(st.integers(1, 3))))
    structure = Graph(
        n_labels,
        draw(st.sampled_from(["full", "symmetric", "potts"])),
        normalize=draw(st.booleans()),
    )
    return Asked(structure, x, rng.integers(n_labels, size=n)), rng


@settings(max_examples=200, deadline=None)
@given(asked(), st.sampled_from([0.0, 1.0, 0.3]), st.sampled_from([1e-3, 0.1, 1.0, 30.0, 1e3]))
def test_oracles_equal_enumeration(problem, loss_weight, temperature):
    graph, rng = problem
    w, other = rng.normal(size=(2, graph.features.n_features)) * 10.0 ** rng.uniform(-2, 1)
    graph.check(w, loss_weight, temperature)
    base, known = graph.check(other, 0.0, 1.0 + np.abs(graph.phi @ other).max())
    graph.check(w, loss_weight, temperature, base, known)


@settings(max_examples=100, deadline=None)
@given(asked())
def test_any_numbers_become_the_mean_of_a_distribution(problem):
    graph, rng = problem
    nothing = np.zeros(graph.features.n_features)
    assert_allclose(graph.uniform, graph.means.mean(axis=0), atol=1e-14)
    for mean in (
        rng.uniform(size=graph.blocks.mean_size),
        rng.uniform(size=graph.blocks.mean_size) * rng.integers(2, size=graph.blocks.mean_size),
        graph.means[rng.integers(len(graph.labels))].copy(),
        rng.dirichlet(np.full(len(graph.labels), 0.1)) @ graph.means,
    ):
        is_mean = abs(mean[: graph.n_labels].sum() - 1.0) < 1e-12
        found = graph.tell(nothing, mean, mean.copy())[3]
        if is_mean:
            assert_allclose(found, mean, atol=1e-12)
        # The distribution that it is the mean of, as a base without scores.
        _, _, soft, again = graph.ask(nothing, base=found)
        assert_allclose(again, found, atol=1e-12)
        assert abs(soft) < 1e-12


@settings(max_examples=50, deadline=None)
@given(asked())
def test_lowered_scores_forbid_a_label(problem):
    graph, rng = problem
    w = rng.normal(size=graph.features.n_features)
    t, k = rng.integers(graph.labels.shape[1]), rng.integers(graph.n_labels)
    allowed = graph.labels[:, t] != k
    scores = graph.phi @ w
    forbidden = t * graph.blocks.label_stride + k
    graph.ask(w)
    unaries = graph.work[: graph.labels.shape[1] * graph.blocks.label_stride].copy()
    best, label, _, mean = graph.ask(w, forbidden=forbidden)
    assert_allclose(best, scores[allowed].max(), atol=1e-10)
    assert_allclose(scores[graph.row(label)], scores[allowed].max(), atol=1e-10)
    p = np.exp(scores[allowed] - logsumexp(scores[allowed]))
    assert_allclose(mean, p @ graph.means[allowed], atol=1e-10)
    unaries[forbidden] = -1e30
    assert_array_equal(graph.work[: len(unaries)], unaries)


@pytest.mark.parametrize(
    ("kind", "precision"), [long_if(True, np.float32, 1e-4), (sp.csr_array, 1e-8)]
)
def test_single_precision_and_sparse_features(kind, precision, rng):
    x = kind(rng.normal(size=(5, 3)) * (rng.random((5, 3)) < 0.7))
    edges = [[0, 1], [1, 2], [2, 3], [3, 0], [4, 0]]
    graph = Asked(Graph(3), (x, edges, rng.normal(size=(5, 2))), rng.integers(3, size=5))
    for temperature in (0.1, 1.0, 10.0):
        w = rng.normal(size=graph.features.n_features).astype(graph.features.dtype)
        base, known = graph.check(w, 1.0, 10.0, precision=precision)
        graph.check(w, 1.0, temperature, base, known, precision)


def test_zeros_of_a_base_count_as_tiny_numbers():
    graph = Asked(Graph(2), (np.eye(2), [[0, 1]]), np.zeros(2, dtype=int))
    w = np.zeros(graph.features.n_features)
    # A single label is as good as certain, until scores are worth more than the floor.
    mean = graph.ask(w, base=graph.means[0])[3]
    assert_allclose(mean, graph.means[0], atol=1e-200)
    w[2:4] = 2000.0
    mean = graph.ask(w, base=graph.means[0])[3]
    assert_allclose(mean, graph.means[3], atol=1e-200)


@pytest.mark.parametrize(
    ("n_nodes", "edges", "width"),
    [
        (1, [], 0),
        (5, [], 0),
        (30, [(v, v + 1) for v in range(29)], 1),
        (30, [(v // 3, v) for v in range(1, 30)], 1),
        (9, cycle(9), 2),
        (24, grid(3, 8), 3),
        (6, complete(6), 5),
    ],
)
def test_cliques_are_small_and_hang_together(n_nodes, edges, width):
    cliques = eliminate(n_nodes, np.array(edges, dtype=np.int32).reshape(-1, 2), 10)
    assert max(len(clique.near) for clique in cliques) == width
    position = {clique.node: c for c, clique in enumerate(cliques)}
    assert sorted(position) == list(range(n_nodes))
    for c, clique in enumerate(cliques):
        assert all(position[u] > c for u in clique.near)
        if clique.near:
            parent = cliques[min(position[u] for u in clique.near)]
            assert parent.node == clique.near[-1]
            assert {*clique.near} <= {parent.node, *parent.near}
    for u, v in edges:
        first = cliques[min(position[u], position[v])]
        assert {u, v} <= {first.node, *first.near}


def test_graphs_with_the_same_edges_share_a_junction_tree(rng):
    square, path = cycle(4), [(0, 1), (1, 2), (2, 3)]
    graphs = as_graphs([(rng.normal(size=(4, 2)), e) for e in (square, path, square, square)])
    trees, sizes = junction_trees(graphs, 3, 2**20)
    assert_array_equal(trees.first, [0, 4, 0, 0])
    assert len(trees.nodes) == 8
    assert_array_equal(sizes, [27 + 27 + 9 + 3, 9 + 9 + 9 + 3, 66, 66])


def test_labels_are_stacked_or_one_array_per_graph():
    X = [(np.eye(2), [[0, 1]]), (np.eye(2)[:1], [])]
    for y in ([0, 1, 1], np.array([0, 1, 1]), [[0, 1], [1]], [np.array([0, 1]), np.array([1])]):
        blocks = Tree(2).encode(X, y)
        assert_array_equal(blocks.truth, [0, 1, 1])
        assert_array_equal(blocks.offsets, [0, 2, 3])
    found = Tree(2).decode(blocks.truth, blocks.offsets)
    assert [labels.tolist() for labels in found] == [[0, 1], [1]]
    assert_array_equal(Tree(2).encode(X).truth, [0, 0, 0])


def test_ties():
    assert_array_equal(tie_table(3, "full")[0], [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
    assert_array_equal(tie_table(3, "symmetric")[0], [[0, 1, 2], [1, 3, 4], [2, 4, 5]])
    assert_array_equal(tie_table(3, "potts")[0], np.eye(3) - 1)
    assert [tie_table(3, pairwise)[1] for pairwise in ("full", "symmetric", "potts")] == [9, 6, 1]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Graph(2, "ising"), r"pairwise = 'ising': give one of \['full', 'potts', 'symm"),
        (lambda: Graph(1), r"n_labels = 1: a node has one of at least 2 labels"),
        (lambda: Graph(2, inference="guess"), r"inference = 'guess': give one of \['exact'"),
        (
            lambda: Tree(2).encode([(np.eye(4), []), (np.eye(4), [[0, 1], [2, 1], [2, 0]])]),
            r"X\[1\] is no tree or forest: edge 2, \(2, 0\), closes a cycle; drop it, or use",
        ),
        (
            lambda: Graph(3, max_table=26).encode([(np.eye(4), []), (np.eye(4), cycle(4))]),
            r"X\[1\] has cycles that need a table for 3 nodes together \(tree-width 2 by min-fill"
            r"\), of 3\*\*3 = 27 entries, more than max_table = 26; give inference='cut' or",
        ),
        (
            lambda: Graph(2).encode([(np.ones((400, 1)), complete(400))]),
            r"X\[0\] has cycles that need a table for 400 nodes .* a larger max_table",
        ),
        (
            lambda: Tree(2).encode([(np.eye(2), [[0, 1]])], [[0, 2]]),
            r"y\[1\] = 2 is no label of 0\.\.1: number the labels from 0",
        ),
        (
            lambda: Tree(2).encode([(np.eye(2), [[0, 1]])], [["a", "b"]]),
            r"y has shape \(2,\) and dtype object, X has 2 rows: give one integer to each",
        ),
        (
            lambda: Tree(2).encode([(np.eye(2), [[0, 1]])], [[0]]),
            r"y\[0\] has 1 labels, X\[0\] has 2 rows; pass one label per row",
        ),
    ],
)
def test_what_graphs_refuse(make, message):
    with pytest.raises(InvalidData, match=message):
        make()


ONE = np.ones((3, 2))
PATH = [[0, 1], [1, 2]]


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        ("graph", InvalidType, r"X is of type str; give a list of graphs, each \(features, edges"),
        ([], InvalidData, r"X has no graphs; pass at least one"),
        ((ONE, PATH), InvalidType, r"X\[0\] is of type ndarray; give a list of graphs, each"),
        ([(ONE,)], InvalidData, r"X\[0\] has 1 parts; give \(features, edges\) or"),
        (
            [(ONE, PATH), (ONE, PATH, [[1.0], [1.0]])],
            InvalidData,
            r"X\[1\] has edge features, X\[0\] has no edge features; give them to all graphs or",
        ),
        ([(ONE, PATH), (ONE[:0], [])], InvalidData, r"X\[1\] has zero length; drop it and its"),
        ([(ONE, PATH), (ONE[0], [])], InvalidData, r"X\[1\] has shape \(2,\), expected"),
        (
            [(ONE, PATH), (ONE[:, :1], [])],
            InvalidData,
            r"X\[1\] has 1 features, X\[0\] has 2; g",
        ),
        ([(ONE, PATH), (sp.csr_array(ONE), [])], InvalidData, r"X\[1\] is sparse, X\[0\] is dense"),
        (
            [(ONE, PATH), (np.nan * ONE, [])],
            InvalidData,
            r"X contains NaN at sequence 1, row 0",
        ),
        ([(ONE, [[0, 1], [2]])], InvalidData, r"the edges of X\[0\] are ragged: .* give two node"),
        (
            [(ONE, PATH), (ONE, [[0.0, 1.0]])],
            InvalidData,
            r"the edges of X\[1\] have shape \(1, 2\) and dtype float64; give integers of shape",
        ),
        ([(ONE, [0, 1])], InvalidData, r"the edges of X\[0\] have shape \(2,\) and dtype int64; g"),
        (
            [(ONE, PATH), (ONE, [[0, 1], [1, 3]])],
            InvalidData,
            r"edge 1 of X\[1\], \(1, 3\), leaves the nodes 0\.\.2; number the nodes of each graph",
        ),
        ([(ONE, [[-1, 0]])], InvalidData, r"edge 0 of X\[0\], \(-1, 0\), leaves the nodes 0\.\.2"),
        (
            [(ONE, PATH), (ONE, [[0, 1], [2, 2]])],
            InvalidData,
            r"edge 1 of X\[1\], \(2, 2\), joins a node with itself; drop it, or make it a feature",
        ),
        (
            [(ONE, PATH), (ONE, [*PATH, [1, 0]])],
            InvalidData,
            r"edge 2 of X\[1\], \(1, 0\), joins the same nodes as edge 0, \(0, 1\); give each pair",
        ),
        (
            [(ONE, PATH, [[1.0], [2.0]]), (ONE, PATH, [1.0, 2.0])],
            InvalidData,
            r"edge_features of X\[1\] has shape \(2,\), expected \(2, n_edge_features\) with at",
        ),
        (
            [(ONE, [], [])],
            InvalidData,
            r"X has edge features and no edges, .* give arrays",
        ),
        ([(ONE, PATH, [[1.0]])], InvalidData, r"edge_features of X\[0\] has shape \(1, 1\), expec"),
        (
            [(ONE, PATH, [[1.0], ["a"]])],
            InvalidData,
            r"edge_features of X\[0\].* cannot be read",
        ),
        (
            [(ONE, PATH, [[1.0], [np.nan]])],
            InvalidData,
            r"edge_features of X\[0\] contains NaN at row 1, column 0; drop or impute",
        ),
        (
            [(ONE, PATH, sp.csr_array([[1.0], [2.0]]))],
            InvalidType,
            r"edge_features of X\[0\] is sparse; give a dense array, e\.g\. by \.toarray\(\)",
        ),
        (
            [(ONE, [], []), (ONE, PATH, [[1.0], [2.0]]), (ONE, PATH, np.ones((2, 2)))],
            InvalidData,
            r"the edges of X\[2\] have 2 features, those of X\[1\] have 1; give all edges the same",
        ),
    ],
)
def test_what_is_no_graph(X, error, message):
    with pytest.raises(error, match=message):
        as_graphs(X)


def test_graphs_are_stacked():
    graphs = as_graphs(
        [(ONE, PATH, [[1, 2], [3, 4]]), (ONE[:1], [], []), (2 * ONE, [[2, 0]], [[5, 6]])]
    )
    assert_array_equal(graphs.matrix, np.vstack([ONE, ONE[:1], 2 * ONE]))
    assert_array_equal(graphs.offsets, [0, 3, 4, 7])
    assert_array_equal(graphs.edges, [*PATH, [2, 0]])
    assert graphs.edges.dtype == np.int32
    assert_array_equal(graphs.edge_offsets, [0, 2, 2, 3])
    assert_array_equal(graphs.edge_matrix, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    assert as_graphs(graphs) is graphs
    alone = as_graphs([(ONE, [], []), (ONE, np.empty((0, 2), dtype=int), np.empty((0, 3)))])
    assert alone.edges.shape == (0, 2)
    assert alone.edge_matrix.shape == (0, 3)
