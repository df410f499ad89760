"""Graphs by cuts and by relaxation: never better than enumeration, and as near as they say."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose, assert_array_equal

from cases import tags
from own_structures import Tags
from reference import graph_blocks, primal, solve_prior_qp, solve_qp, solve_relaxed_graph_qp
from taut import GraphSVM, Problem, Regularizer, StructuredSVM, check_structure, solve
from taut.errors import InvalidData
from taut.structures import CutGraph, Graph, Multiclass, RelaxedGraph
from taut.structures.graph_exact import ExactGraph

TRIANGLE = [(0, 1), (1, 2), (2, 0)]


def grid(height, width):
    """The edges of a grid."""
    nodes = np.arange(height * width).reshape(height, width)
    across = np.stack([nodes[:, :-1].ravel(), nodes[:, 1:].ravel()], axis=1)
    down = np.stack([nodes[:-1].ravel(), nodes[1:].ravel()], axis=1)
    return np.concatenate([across, down])


NUMBERS = st.floats(-10.0, 10.0, allow_subnormal=False)


@st.composite
def graphs(draw, n_labels, n_nodes, pairwise, tree=False, attract=False):
    """A graph with edge features, its true labels and weights."""
    n, d, d_e = draw(n_nodes), 2, draw(st.integers(1, 2))
    if tree:
        edges = [(draw(st.integers(0, v - 1)), v) for v in range(1, n)]
    else:
        pairs = list(itertools.combinations(range(n), 2))
        edges = draw(st.lists(st.sampled_from(pairs), unique=True)) if pairs else []
    turned = draw(arrays(bool, len(edges)))
    edges = [(v, u) if turn else (u, v) for (u, v), turn in zip(edges, turned, strict=True)]
    positive = st.floats(0.0, 10.0, allow_subnormal=False)
    x = draw(arrays(float, (n, d), elements=NUMBERS))
    f = draw(arrays(float, (len(edges), d_e), elements=positive if attract else NUMBERS))
    n_ties = {"full": n_labels**2, "symmetric": n_labels * (n_labels + 1) // 2, "potts": 1}
    w_node = draw(arrays(float, n_labels * d, elements=NUMBERS))
    w_pair = draw(arrays(float, d_e * n_ties[pairwise], elements=positive if attract else NUMBERS))
    y = draw(arrays(np.int64, n, elements=st.integers(0, n_labels - 1)))
    return (x, np.array(edges, dtype=int).reshape(-1, 2), f), y, np.append(w_node, w_pair)


def enumerated(graph, y, w, n_labels, pairwise):
    """Loss - <w, psi>, and without the loss, of all labels; the size of the terms in these."""
    psi, losses = graph_blocks([graph], [y], n_labels, pairwise)
    size = 1.0 + np.abs(w) @ np.abs(psi[0]).max(axis=0) + losses[0].max()
    return losses[0] - psi[0] @ w, -psi[0] @ w, size


def value(structure, x, w, label, y):
    """Loss - <w, psi> of a label."""
    psi = structure.features(x, y) - structure.features(x, label)
    return structure.loss(y, label) - w @ psi


# Cuts


@settings(max_examples=200, deadline=None)
@given(graphs(2, st.integers(1, 6), "potts", attract=True))
def test_cuts_are_the_best_labels(drawn):
    graph, y, w = drawn
    structure = CutGraph()
    x = structure.examples([graph], [y])[0]
    with_loss, without, size = enumerated(graph, y, w, 2, "potts")
    label, error = structure.bounded_argmax(x, w, y)
    found = value(structure, x, w, label, y)
    assert 0.0 <= error <= 1e-12 * (size + np.abs(graph[0]).sum() * np.abs(w).max())
    assert found <= with_loss.max() + 1e-12 * size
    assert with_loss.max() <= found + error + 1e-12 * size
    prediction = structure.argmax(x, w)
    score = value(structure, x, w, prediction, y) - structure.loss(y, prediction)
    assert without.max() <= score + error + 1e-11 * size


@pytest.mark.parametrize("pairwise", ["full", "symmetric"])
@pytest.mark.parametrize("normalize", [False, True])
def test_cuts_with_all_pair_weights(pairwise, normalize, rng):
    structure = CutGraph(pairwise=pairwise, normalize=normalize)
    found = 0
    for _ in range(60):
        graph = rng.normal(size=(4, 2)), np.array([*TRIANGLE, (3, 1)]), rng.uniform(size=(4, 1))
        y = rng.integers(2, size=4)
        x = structure.examples([graph], [y])[0]
        w = rng.normal(size=len(structure.features(x, y)))
        psi, losses = graph_blocks([graph], [y], 2, pairwise, normalize)
        table = w[4:] if pairwise == "full" else w[[4, 5, 5, 6]]
        if table[0] + table[3] < table[1] + table[2]:
            with pytest.raises(InvalidData, match="repels"):
                structure.argmax(x, w, y)
            continue
        found += 1
        label, error = structure.bounded_argmax(x, w, y)
        assert error < 1e-12
        assert_allclose(value(structure, x, w, label, y), (losses[0] - psi[0] @ w).max())
    assert found > 10


def test_large_cuts_agree_with_exact_inference(rng):
    X = [(rng.normal(size=(48, 2)), grid(4, 12), rng.uniform(size=(80, 1))) for _ in range(3)]
    y = [rng.integers(2, size=48) for _ in X]
    problems = [
        Problem(Graph(2, "potts", inference=inference), X, y)
        for inference in ("cut", "relaxed", "exact")
    ]
    for strength in (0.1, 1.0, 10.0):
        w = np.append(rng.normal(size=4), strength)
        cut, relaxed, exact = (problem.primal(w) for problem in problems)
        assert_allclose([cut, relaxed], exact, rtol=1e-11)


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e9, 1e200])
def test_cuts_of_any_scale(scale, rng):
    structure = CutGraph()
    x = structure.examples([(rng.normal(size=(30, 2)), grid(5, 6))])[0]
    w = np.array([1.0, 0.0, 0.0, 1.0, 0.3])
    label, error = structure.bounded_argmax(x, scale * w)
    assert error <= 1e-13 * scale
    assert 0 < label.sum() < 30
    assert_array_equal(label, structure.argmax(x, w))


def test_an_edge_that_repels_is_named():
    X = [(np.ones((2, 1)), [[0, 1]]), (np.ones((3, 1)), [[0, 1], [2, 1]], [[1.0], [-2.0]])]
    X[0] = (*X[0], [[1.0]])
    structure = CutGraph()
    w = np.array([0.0, 0.0, 1.0])
    graphs = structure.examples(X)
    structure.argmax(graphs[0], w)
    with pytest.raises(
        InvalidData,
        match=r"edge 1 of graph 1, \(2, 1\), repels: equal labels score -2 and -2 .* the 0 and 0 "
        r".*pairwise='potts'.*nonneg=mask",
    ):
        structure.argmax(graphs[1], w)


def cut_problem(rng, n=6):
    X = [
        (rng.normal(size=(4, 2)), np.array([*TRIANGLE, (1, 3)]), rng.uniform(size=(4, 2)))
        for _ in range(n)
    ]
    return X, [rng.integers(2, size=4) for _ in X]


def test_training_by_cuts_reaches_the_optimum(rng):
    X, y = cut_problem(rng)
    nonneg = np.arange(6) >= 4
    psi, losses = graph_blocks(X, y, 2, "potts")
    weights = np.full(len(X), 0.5)
    best, _ = solve_prior_qp(psi, losses, weights, np.zeros(6), np.eye(6), nonneg)
    problem = Problem(CutGraph(), X, y, C=0.5, regularizer=Regularizer(nonneg=nonneg))
    result = solve(problem, tol=1e-7, random_state=0)
    certificate = result.certificate
    assert certificate.dual <= best * (1.0 + 1e-8)
    assert primal(result.w, psi, losses, weights) <= certificate.primal * (1.0 + 1e-12)
    assert_allclose(certificate.primal, best, rtol=2e-7)
    assert certificate.of == "the objective"
    assert "The bounds" not in certificate.message
    exact = Problem(Graph(2, "potts"), X, y, C=0.5).primal(result.w)
    assert_allclose(exact, certificate.primal, rtol=1e-12)


def test_training_without_attraction_says_what_to_do(rng):
    X, y = cut_problem(rng)
    y = [np.array([0, 1, 0, 0]) for _ in y]
    with pytest.raises(InvalidData, match=r"repels.*taut\.Regularizer\(nonneg=mask\)"):
        StructuredSVM(CutGraph(), C=10.0, random_state=0).fit(X, y)
    model = StructuredSVM(CutGraph(), C=10.0, nonneg=np.arange(6) >= 4, random_state=0).fit(X, y)
    assert {len(label) for label in model.predict(X)} == {4}
    assert model.certificate_.relative_gap <= 1e-3


# Relaxation


def assert_in_polytope(label, edges):
    assert min(label.nodes.min(), label.pairs.min(initial=0.0)) >= 0.0
    tails, heads = label.nodes[np.asarray(edges).T]
    assert_allclose(label.nodes.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    assert_allclose(label.pairs.sum(axis=2), tails, rtol=0, atol=1e-12)
    assert_allclose(label.pairs.sum(axis=1), heads, rtol=0, atol=1e-12)


@pytest.mark.parametrize("pairwise", ["full", "symmetric", "potts"])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_labels_are_above_the_relaxation(pairwise, data):
    graph, y, w = data.draw(graphs(3, st.integers(1, 4), pairwise))
    structure = RelaxedGraph(3, pairwise)
    x = structure.examples([graph], [y])[0]
    with_loss, without, size = enumerated(graph, y, w, 3, pairwise)
    label, error = structure.bounded_argmax(x, w, y)
    size += np.abs(w).max() * sum(np.abs(part).sum() for part in graph[::2])
    assert_in_polytope(label, graph[1])
    found = value(structure, x, w, label, y)
    assert error <= 1e-8 * size
    assert with_loss.max() <= found + error + 1e-12 * size
    if structure.is_integral(label):
        assert_allclose(found, with_loss.max(), rtol=0, atol=1e-6 * size)
    label, error = structure.bounded_argmax(x, w)
    assert without.max() <= value(structure, x, w, label, y) - structure.loss(y, label) + (
        error + 1e-12 * size
    )


@settings(max_examples=60, deadline=None)
@given(drawn=graphs(3, st.integers(1, 5), "full", tree=True))
def test_on_trees_the_relaxation_is_exact(drawn):
    graph, y, w = drawn
    structure = RelaxedGraph(3)
    x = structure.examples([graph], [y])[0]
    with_loss, _without, size = enumerated(graph, y, w, 3, "full")
    size += np.abs(w).max() * sum(np.abs(part).sum() for part in graph[::2])
    label, error = structure.bounded_argmax(x, w, y)
    assert error <= 1e-8 * size
    assert_allclose(value(structure, x, w, label, y), with_loss.max(), rtol=0, atol=1e-8 * size)


def test_a_frustrated_cycle_has_fractional_labels():
    structure = RelaxedGraph(2, "potts")
    x = structure.examples([(np.eye(3), TRIANGLE)])[0]
    w = np.append(np.zeros(6), -1.0)
    label, error = structure.bounded_argmax(x, w)
    assert_allclose(label.nodes, 0.5)
    assert not structure.is_integral(label)
    assert_allclose(w @ structure.features(x, label) + error, 0.0, atol=1e-12)
    w[3] = 10.0  # the first node wants label 1
    label, _ = structure.bounded_argmax(x, w)
    assert structure.decode(label)[0] == structure.argmax(x, w)[0] == 1
    w[-1] = 1.0
    label, _ = structure.bounded_argmax(x, w)
    assert structure.is_integral(label)
    assert_array_equal(structure.argmax(x, w), [1, 1, 1])


def relaxed_problem(rng):
    edges = np.array([*TRIANGLE, (1, 3), (0, 3)])
    X = [(rng.normal(size=(4, 2)), edges, rng.uniform(0.5, 1.5, size=(5, 1))) for _ in range(4)]
    return X, [np.array([0, 1, 2, i % 2]) for i in range(4)]


@pytest.mark.parametrize(("pairwise", "above"), [("symmetric", 0.01), ("potts", 0.0)])
def test_training_by_relaxation_reaches_its_optimum(pairwise, above, rng):
    X, y = relaxed_problem(rng)
    weights = np.full(len(X), 10.0)
    best = solve_relaxed_graph_qp(X, y, 3, pairwise, weights)
    psi, losses = graph_blocks(X, y, 3, pairwise)
    integral, _ = solve_qp(psi, losses, weights)
    result = solve(Problem(RelaxedGraph(3, pairwise), X, y, C=10.0), tol=1e-4, random_state=0)
    certificate = result.certificate
    assert certificate.relative_gap <= 1e-4
    assert certificate.dual <= best * (1.0 + 1e-8)
    assert certificate.primal >= best * (1.0 - 1e-8)
    assert integral <= best * (1.0 - above + 1e-8)
    assert primal(result.w, psi, losses, weights) <= certificate.primal * (1.0 + 1e-12)
    assert certificate.of == RelaxedGraph.certifies
    assert certificate.message.endswith(f"The bounds are those of {RelaxedGraph.certifies}.")


def test_the_relaxed_primal_is_nowhere_below_the_integral_one(rng):
    X, y = relaxed_problem(rng)
    problem = Problem(RelaxedGraph(3, "symmetric"), X, y)
    psi, losses = graph_blocks(X, y, 3, "symmetric")
    dual = solve(problem, tol=1e-3, random_state=0).certificate.dual
    differences = []
    for scale in np.geomspace(0.1, 10.0, 20):
        w = scale * rng.normal(size=problem.n_features)
        relaxed, integral = problem.primal(w), primal(w, psi, losses, np.ones(len(X)))
        assert relaxed >= max(integral * (1.0 - 1e-12), dual)
        differences.append(relaxed - integral)
    assert max(differences) > 0.1


def test_relaxed_models_predict_integers(rng):
    X, y = relaxed_problem(rng)
    model = StructuredSVM(RelaxedGraph(3, normalize=True), random_state=0).fit(X, y)
    wrong = [np.mean(a != b) for a, b in zip(model.predict(X), y, strict=True)]
    assert_allclose(model.score(X, y), -np.mean(wrong))
    assert "relaxed" in model.certificate_.of


def test_alike_graphs_share_their_polytope(rng):
    X = [(rng.normal(size=(n, 2)), TRIANGLE) for n in (3, 4, 3)]
    first, second, third = RelaxedGraph(2).examples(X)
    assert first.equations is third.equations
    assert first.equations.shape[0] < second.equations.shape[0]


# Both


def labels(n_labels):
    def all_labels(x):
        n = len(getattr(x, "graph", x).features)
        return np.array(list(itertools.product(range(n_labels), repeat=n)))

    return all_labels


def test_relaxed_graphs_keep_the_laws(rng):
    X, y = relaxed_problem(rng)
    check_structure(RelaxedGraph(3), X, y, candidates=labels(3))


def test_cut_graphs_keep_the_laws(rng):
    # Without edges no weights repel.
    X = [(rng.normal(size=(3, 2)), []) for _ in range(3)]
    check_structure(CutGraph(), X, [rng.integers(2, size=3) for _ in X], candidates=labels(2))


@pytest.mark.parametrize("inference", ["cut", "relaxed"])
def test_graph_estimators_take_other_inference(inference, rng):
    X, y = cut_problem(rng)
    names = [np.array(["sea", "sky"])[codes] for codes in y]
    settings = {"C": 0.5, "tol": 1e-6, "nonneg": np.arange(6) >= 4, "random_state": 0}
    model = GraphSVM(pairwise="potts", inference=inference, **settings).fit(X, names)
    plain = StructuredSVM(Graph(2, "potts", inference=inference), **settings).fit(X, y)
    assert_allclose(model.certificate_.primal, plain.certificate_.primal, rtol=2e-6)
    assert model.certificate_.of == plain.structure.certifies
    for found, expected in zip(model.predict(X), plain.predict(X), strict=True):
        assert_array_equal(found, np.array(["sea", "sky"])[expected])


# The door


def test_the_door_gives_the_structure_that_was_asked_for():
    made = [Graph(2, "potts", True, inference) for inference in ("exact", "cut", "relaxed")]
    assert [type(structure) for structure in made] == [ExactGraph, CutGraph, RelaxedGraph]
    assert {(s.n_labels, s.pairwise, s.normalize) for s in made} == {(2, "potts", True)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"n_labels": 2, "inference": "guess"},
            r"inference = 'guess': give one of \['exact', 'cut'",
        ),
        ({"n_labels": 3, "inference": "cut"}, r"n_labels = 3: cuts tell two labels apart; use"),
        ({"n_labels": 1, "inference": "relaxed"}, "n_labels = 1: a node has one of"),
        ({"n_labels": 2, "inference": "cut", "pairwise": "some"}, "pairwise = 'some': give one"),
    ],
)
def test_what_the_door_refuses(arguments, message):
    with pytest.raises(InvalidData, match=message):
        Graph(**arguments)


@pytest.mark.parametrize("structure", [CutGraph(), RelaxedGraph(2)])
@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([(np.ones((2, 1)), [[0, 2]])], [[0, 1]], "edge 0 of X"),
        ([(np.ones((2, 1)), [[0, 1]])], [[0, 2]], "is no label of 0..1"),
        ([(np.ones((2, 1)), [[0, 1]])], [[0, 1, 1]], "y"),
    ],
)
def test_wrong_graphs_are_refused(structure, X, y, message):
    with pytest.raises(InvalidData, match=message):
        Problem(structure, X, y)


@pytest.mark.parametrize("inference", ["cut", "relaxed"])
def test_sparse_features_are_the_same(inference, rng):
    X, y = cut_problem(rng)
    sparse = [(sp.csr_array(x), *edges) for x, *edges in X]
    structure = Graph(2, "potts", inference=inference)
    w = np.append(rng.normal(size=4), [0.5, 0.2])
    expected = Problem(structure, X, y).primal(w)
    assert_allclose(Problem(structure, sparse, y).primal(w), expected, rtol=1e-12)
    for x, label in zip(structure.examples(sparse), y, strict=True):
        assert structure.features(x, label).shape == (6,)


def test_weights_of_other_graphs_are_refused():
    structure = CutGraph()
    x = structure.examples([(np.ones((2, 3)), [[0, 1]])])[0]
    with pytest.raises(InvalidData, match=r"w has 5 weights, graph 0 with 3 .* needs 7"):
        structure.argmax(x, np.zeros(5))


# Oracles that state their error


class SecondBest(Tags):
    """Finds the second best label, and says by how much it is not the best."""

    def bounded_argmax(self, x, w, truth=None):
        def value(label):
            return w @ self.features(x, label) + (self.loss(truth, label) if truth else 0.0)

        *_, second, best = sorted(self.subsets, key=value)
        return second, value(best) - value(second)


def test_the_error_of_an_oracle_is_part_of_the_primal(rng):
    rough, exact = (tags(structure).problem() for structure in (SecondBest, Tags))
    for scale in (0.1, 1.0, 10.0):
        w = scale * rng.normal(size=exact.n_features)
        assert_allclose(rough.primal(w), exact.primal(w), rtol=1e-12)
    result = solve(rough, max_iter=30, random_state=0)
    optimum = solve(exact, tol=1e-8, random_state=0).certificate
    assert_allclose(exact.primal(result.w), result.certificate.primal, rtol=1e-12)
    assert result.certificate.dual <= optimum.primal <= result.certificate.primal


def test_an_oracle_within_its_error_keeps_the_laws():
    case = tags(SecondBest)
    check_structure(case.structure, *case.data(), candidates=lambda x: case.structure.subsets)


class Unsure(Tags):
    def bounded_argmax(self, x, w, truth=None):
        return self.argmax(x, w, truth), np.nan


def test_an_error_that_is_none_is_refused():
    with pytest.raises(InvalidData, match=r"bounded_argmax of example 0 returns the error nan"):
        tags(Unsure).problem().primal(np.zeros(9))


class Bound(Multiclass):
    certifies = "a bound on the objective"


def test_a_compiled_structure_says_what_it_certifies():
    X = np.array([[1.0, 2.0], [2.0, -1.0]])  # full: zeros would be left out, and CSR compiled
    certificate = solve(Problem(Bound(2, bias=1.0), X, np.array([0, 1]))).certificate
    assert certificate.of == "a bound on the objective"
    assert certificate.message.endswith(
        "tol=0.001. The bounds are those of a bound on the objective."
    )
