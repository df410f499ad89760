"""Costs of a hierarchy of classes equal the height of the lowest common ancestor."""

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering
from sklearn.preprocessing import normalize

import taut
from taut import LatentMulticlassSVM, MulticlassSVM
from taut.errors import InvalidData
from taut.structures import LatentMulticlass, Multiclass, cluster_tree, tree_cost

GROUPS = {"living": {"fish": ["ray", "trout"], "moss": []}, "made": ["car", "bus"]}
PARENTS = {
    "ray": "fish", "trout": "fish", "fish": "living", "moss": "living", "car": "made",
    "bus": "made",
}  # fmt: skip
NAMES = ["bus", "car", "moss", "ray", "trout"]
HEIGHTS = np.array(
    [[0, 1, 3, 3, 3], [1, 0, 3, 3, 3], [3, 3, 0, 2, 2], [3, 3, 2, 0, 1], [3, 3, 2, 1, 0]]
)


def digraph(parents, root="all"):
    """Edges from parents to children, below one root."""
    edges = [(parent, child) for child, parent in parents.items()]
    tops = dict.fromkeys(node for node in parents.values() if node not in parents)
    return nx.DiGraph([*edges, *((root, top) for top in tops)])


def undirected(parents, root="all"):
    graph = digraph(parents, root).to_undirected()
    graph.graph["root"] = root
    return graph


FORMS = {
    "named groups": GROUPS,
    "groups": [[["ray", "trout"], "moss"], ["car", "bus"]],
    "sets": {"living": [{"ray", "trout"}, "moss"], "made": {"car", "bus"}},
    "parents": PARENTS,
    "parents with a root": PARENTS | {"living": None, "made": None},
    "list of parents": [5, 5, 6, 7, 7, -1, -1, 6],
    "list of parents from the root": [None, 0, 0, 2, 1, 1, 2, 3, 3],
    "array of parents": np.array([5, 5, 6, 7, 7, 8, 8, 6, -1]),
    "directed graph": digraph(PARENTS),
    "undirected graph": undirected(PARENTS),
}


def ancestors(node, parents):
    """The node and all that is above it, up to a root of all."""
    line = [node]
    while line[-1] in parents:
        line.append(parents[line[-1]])
    return [*line, "root of all"]


def height_matrix(leaves, parents):
    """Heights of lowest common ancestors, by looking for them."""
    lines = {leaf: ancestors(leaf, parents) for leaf in leaves}

    def height(node):
        return max(line.index(node) for line in lines.values() if node in line)

    return np.array(
        [
            [height(next(node for node in lines[a] if node in lines[b])) for b in leaves]
            for a in leaves
        ]
    )


def nested(node, parents):
    """The tree below a node as a dict of groups."""
    return {child: nested(child, parents) for child in parents if parents[child] == node}


@st.composite
def trees(draw):
    """Parents of the nodes 1, 2, ..., which are below 0."""
    n = draw(st.integers(1, 12))
    return {i: draw(st.integers(0, i - 1)) for i in range(1, n + 1)}


@given(trees())
def test_costs_are_heights(parents):
    leaves = sorted(set(parents) - set(parents.values()))
    expected = height_matrix(leaves, parents)
    graph = nx.DiGraph([(parent, child) for child, parent in parents.items()])
    sides = graph.to_undirected()
    sides.graph["root"] = 0
    of_parents = [-1, *(parents[i] for i in range(1, len(parents) + 1))]
    for form in (parents, nested(0, parents), of_parents, np.array(of_parents), graph, sides):
        assert_array_equal(tree_cost(form, normalize=False), expected)
    assert_array_equal(Multiclass(len(leaves), of_parents).cost, expected)
    if len(leaves) > 1:
        assert_array_equal(tree_cost(parents), expected / expected.max())


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_a_hierarchy_give_one_matrix(form):
    assert_array_equal(tree_cost(FORMS[form], normalize=False), HEIGHTS)
    assert_array_equal(tree_cost(FORMS[form], NAMES), HEIGHTS / 3)
    for structure in (Multiclass, LatentMulticlass):
        assert_array_equal(structure(5, FORMS[form]).cost, HEIGHTS)


def test_some_classes_in_an_order_of_ones_own():
    cost = tree_cost(GROUPS, ["trout", "bus", "ray"])
    assert_array_equal(3 * cost, [[0, 3, 1], [3, 0, 3], [1, 3, 0]])
    assert_array_equal(3 * tree_cost(GROUPS, np.array(["ray", "moss"])), [[0, 2], [2, 0]])
    assert_array_equal(tree_cost({"all": [(0, 1), (0, 2)]}, [(0, 2), (0, 1)]), 1 - np.eye(2))


def test_leaves_in_a_list_of_parents_are_the_classes_in_order():
    parents = [-1, 0, 0, 1, 1]  # the leaves are 2, 3 and 4
    assert_array_equal(tree_cost(parents, ["a", "b", "c"], normalize=False)[0], [0, 2, 2])
    X, y = np.eye(3), np.array(["b", "a", "c"])
    model = MulticlassSVM(cost=parents, random_state=0).fit(X, y)
    assert_array_equal(model.cost_, [[0, 2, 2], [2, 0, 1], [2, 1, 0]])


def test_rows_of_numbers_are_a_matrix():
    assert_array_equal(Multiclass(2, [[0, 2], [3, 0]]).cost, [[0, 2], [3, 0]])
    assert_array_equal(Multiclass(2, ((0, 2), (3, 0))).cost, [[0, 2], [3, 0]])
    assert_array_equal(tree_cost([[0, 1], [2, 3]], normalize=False)[0], [0, 1, 2, 2])
    assert_array_equal(Multiclass(4, {"a": [0, 1], "b": [2, 3]}).cost[0], [0, 1, 2, 2])


ROWS = np.random.default_rng(0).normal(size=(20, 3))
LABELS = np.array(["trout", "bus", "ray", "moss", "car"] * 4)


def test_classes_are_in_the_order_of_a_classifier():
    model = MulticlassSVM(cost=tree_cost(GROUPS), random_state=0).fit(ROWS, LABELS)
    assert_array_equal(tree_cost(GROUPS, model.classes_), model.cost)
    W, value = np.vstack([model.coef_.T, model.intercept_]), 0.0
    for x, label in zip(ROWS, LABELS, strict=True):
        k = list(model.classes_).index(label)
        scores = np.append(x, 1.0) @ W
        value += (scores - scores[k] + model.cost[k]).max()
    assert np.isclose(model.certificate_.primal, 0.5 * (W * W).sum() + value)


@pytest.fixture(scope="module")
def by_matrix():
    return MulticlassSVM(cost=HEIGHTS, random_state=0).fit(ROWS, LABELS)


@pytest.mark.parametrize("form", FORMS)
def test_a_fit_is_that_of_the_matrix(form, by_matrix, tmp_path):
    model = clone(MulticlassSVM(cost=FORMS[form], random_state=0))
    model.fit(ROWS, LABELS)
    assert_array_equal(model.cost_, HEIGHTS)
    assert_array_equal(model.coef_, by_matrix.coef_)
    model.save(tmp_path / "m")
    again = taut.load(tmp_path / "m")
    assert_array_equal(again.cost_, HEIGHTS)
    for metric in ("accuracy", "cost", "hierarchical_f1"):
        found = again.score(ROWS, LABELS, metric=metric)
        assert found == model.score(ROWS, LABELS, metric=metric)
    assert_array_equal(again.fit(ROWS, LABELS).coef_, by_matrix.coef_)


@pytest.mark.parametrize("form", ["named groups", "parents", "directed graph"])
def test_a_tree_may_have_more_classes_than_the_data(form):
    model = MulticlassSVM(cost=FORMS[form], random_state=0).fit(np.eye(3), ["ray", "bus", "moss"])
    assert_array_equal(model.cost_, [[0, 3, 3], [3, 0, 2], [3, 2, 0]])
    # What was not there to be learned still has a cost, and groups.
    assert_array_equal(model.predict(np.eye(3)), ["ray", "bus", "moss"])
    assert model.score(np.eye(3), ["trout", "car", "moss"], metric="cost") == -2 / 3


def test_numbers_as_leaves_in_any_order():
    tree = {"odd": [7, 3, 5], "even": [2, 4]}
    model = MulticlassSVM(cost=tree, random_state=0).fit(np.eye(4), [4.0, 7.0, 3.0, 2.0])
    assert_array_equal(model.cost_[0], [0, 2, 1, 2])


def test_trees_in_partial_fit_and_latent_classes(tmp_path):
    model = MulticlassSVM(cost=GROUPS, random_state=0)
    assert_array_equal(model.partial_fit(ROWS, LABELS, classes=NAMES).cost_, HEIGHTS)
    settings = {"C": 0.1, "max_rounds": 2, "round_tol": 1.0, "random_state": 0}
    bags = [ROWS[i : i + 2] for i in range(0, 20, 2)]
    model = LatentMulticlassSVM(cost=digraph(PARENTS), **settings).fit(bags, LABELS[:10])
    assert_array_equal(model.cost_, HEIGHTS)
    same = LatentMulticlassSVM(cost=HEIGHTS, **settings).fit(bags, LABELS[:10])
    assert_array_equal(model.coef_, same.coef_)
    model.save(tmp_path / "m")
    again = taut.load(tmp_path / "m")
    assert again.cost == PARENTS | {"living": "all", "made": "all"}
    assert again.score(bags, LABELS[:10], metric="cost") == same.score(
        bags, LABELS[:10], metric="cost"
    )


def with_edge(graph, *edge):
    graph.add_edge(*edge)
    return graph


@pytest.mark.parametrize(
    ("hierarchy", "classes", "words"),
    [
        (GROUPS, ["ray", "dog"], r"class 'dog' is not in the hierarchy, which has 5 others: add"),
        ({"a": ["x", "y"], "b": ["x"]}, None, r"class 'x' is in the hierarchy twice: give it one"),
        ({"a": ["x"], "b": "y"}, None, r"hierarchy\['b'\] = 'y' is no group: give a dict of"),
        ({"a": "b", "b": "a"}, None, r"the parents of '[ab]' lead back to itself: leave"),
        ({"x": "a", "a": "b", "b": "a"}, None, r"the parents of '[ab]' lead back to itself"),
        ({"x": np.zeros(2)}, None, r"hierarchy has the node .* of type ndarray, which is not hash"),
        ([[np.zeros(2)]], None, r"hierarchy has the node .* of type ndarray, which is not hash"),
        ("abc", None, r"hierarchy = 'abc' is no tree of classes: give a dict of groups"),
        ({}, None, r"hierarchy = \{\} has no classes"),
        ([2, 2, 0], None, r"the parents of [02] lead back to itself"),
        ([3, 3, -1], None, r"hierarchy\[0\] = 3 is no node of the 3 in the list of parents"),
        ([2, 2, -2], None, r"hierarchy\[2\] = -2 is no node of the 3 in the list of parents"),
        ([2, 2, -1], ["a"], r"has 2 leaves, and there are 1 classes.*give a dict of parents"),
        (np.array([0.5, 1.0]), None, r"is no tree of classes"),
        (nx.DiGraph([("a", "x"), ("b", "x")]), None, r"node 'x' has the parents 'a' and 'b'"),
        (nx.DiGraph([("a", "x"), ("b", "y")]), None, r"nothing is above 'a' and 'b': give a tree"),
        (nx.DiGraph([("a", "b"), ("b", "a")]), None, r"the parents of '[ab]' lead back"),
        (digraph(PARENTS).to_undirected(), None, r"with the root None: name one of its nodes as"),
        (with_edge(undirected(PARENTS), "ray", "bus"), None, r"with a cycle through"),
        (with_edge(undirected(PARENTS), "x", "y"), None, r"nothing is above 'all' and 'x'"),
        (nx.DiGraph(), None, r"has no classes"),
    ],
)
def test_what_is_no_tree_is_refused(hierarchy, classes, words):
    with pytest.raises(InvalidData, match=words):
        tree_cost(hierarchy, classes)


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (GROUPS, r"cost is a tree of 5 classes, and there are 4: give tree_cost\(tree, classes"),
        ([5, 5, 6, 7, 7, -1, -1, 6], r"cost is a tree of 5 classes, and there are 4"),
        ([[0, 1], [2, 3]], r"shape \(2, 2\), the 4 classes .*is a dict of groups"),
        ([[0, 1], [2, 3, 4]], r"cost is no matrix of numbers .*is a dict of groups"),
        ({"a": [0, 1], "b": "c"}, r"cost\['b'\] = 'c' is no group"),
        ([3, 3, 9, -1], r"cost\[2\] = 9 is no node"),
        (3.0, r"cost has shape \(\)?.*, the 4 classes need \(4, 4\)"),
    ],
)
def test_what_is_no_cost_is_refused(cost, words):
    with pytest.raises(InvalidData, match=words):
        Multiclass(4, cost)


def test_classes_that_a_tree_lacks_are_refused():
    with pytest.raises(InvalidData, match=r"class 'dog' is not in the hierarchy, which has 5"):
        MulticlassSVM(cost=GROUPS).fit(np.eye(2), ["dog", "ray"])
    with pytest.raises(InvalidData, match=r"has 2 leaves, and there are 3 classes"):
        MulticlassSVM(cost=[2, 2, -1]).fit(np.eye(3), ["a", "b", "c"])


def centres(n_classes, n_features, rng):
    """Rows around centres of their classes, which are around the directions of three groups."""
    directions = 3.0 * np.eye(3, n_features)
    codes = np.repeat(np.arange(n_classes), 5)
    rows = directions[codes % 3] + rng.uniform(size=(n_classes, n_features))[codes]
    return rows + 0.1 * rng.uniform(size=rows.shape), codes


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_classes_that_look_alike_are_grouped(form):
    X, codes = centres(9, 20, np.random.default_rng(0))
    names = np.array([f"class {k}" for k in range(9)])
    groups = cluster_tree(form(X), names[codes], 3)
    assert groups == {f"group {g}": names[g::3].tolist() for g in range(3)}
    assert_array_equal(tree_cost(groups, names, normalize=False)[0], [0, 2, 2, 1, 2, 2, 1, 2, 2])
    assert len(MulticlassSVM(cost=cluster_tree(X, codes, 3)).fit(X, codes).cost_) == 9


@pytest.mark.parametrize("n_groups", [1, 2, 4, 7, 8])
def test_groups_are_those_of_ward(n_groups):
    rng = np.random.default_rng(n_groups)
    X, y, weight = rng.normal(size=(40, 5)), np.arange(40) % 8, rng.uniform(size=40)
    means = normalize([np.average(X[y == k], axis=0, weights=weight[y == k]) for k in range(8)])
    expected = AgglomerativeClustering(n_groups).fit_predict(means)
    found = cluster_tree(X, y, n_groups, sample_weight=weight)
    assert len(found) == n_groups
    for members in found.values():
        assert_array_equal(np.flatnonzero(expected == expected[members[0]]), members)


@pytest.mark.parametrize("n_groups", [0, 3, 1.5])
def test_numbers_of_groups_are_checked(n_groups):
    with pytest.raises(InvalidData, match=rf"n_groups = {n_groups}: give a number from 1 to 2"):
        cluster_tree(np.eye(2), ["a", "b"], n_groups)
