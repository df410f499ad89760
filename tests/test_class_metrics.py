"""Measures of classes in a tree: cases by hand, and sets of ancestors written a second time."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import cross_val_score

from taut import LatentMulticlassSVM, MulticlassSVM
from taut.errors import InvalidData
from taut.metrics import hierarchical_f1, level_accuracy, mean_cost

TREE = {"living": {"fish": ["ray", "trout"], "moss": []}, "made": ["car", "bus"]}
NAMES = ["bus", "car", "moss", "ray", "trout"]
Y = ["ray", "ray", "moss", "car"]
PREDICTED = ["ray", "trout", "trout", "moss"]  # lowest common ancestors at 0, 1, 2, 3
WEIGHT = [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("metric", "plain", "weighted"),
    [
        (mean_cost, 6 / 4, (0 + 2 + 6 + 12) / 10),
        (lambda *a, **k: level_accuracy(*a, height=0, **k), 1 / 4, 1 / 10),
        (lambda *a, **k: level_accuracy(*a, height=1, **k), 2 / 4, 3 / 10),
        (lambda *a, **k: level_accuracy(*a, height=2.0, **k), 3 / 4, 6 / 10),
        (lambda *a, **k: level_accuracy(*a, height=3, **k), 1.0, 1.0),
        # Shared groups 3, 2, 1, 0; sizes 3 + 3, 3 + 3, 2 + 3, 2 + 2.
        (hierarchical_f1, 2 * 6 / 21, 2 * (3 + 4 + 3) / (6 + 12 + 15 + 16)),
    ],
)
def test_by_hand(metric, plain, weighted):
    assert metric(Y, PREDICTED, TREE) == pytest.approx(plain)
    assert metric(np.array(Y), np.array(PREDICTED), TREE, sample_weight=WEIGHT) == pytest.approx(
        weighted
    )
    # The same tree without names, below a root of its own; further down, and in any order.
    parents = [7, 7, 6, 8, 8, -1, 5, 5, 6]
    assert metric(Y, PREDICTED, parents, classes=NAMES) == pytest.approx(plain)
    codes = [[NAMES.index(label) for label in labels] for labels in (Y, PREDICTED)]
    assert metric(*codes, parents) == pytest.approx(plain)
    swapped = [8, 6, 7, 7, 8, -1, 5, 5, 6]
    order = ["ray", "moss", "car", "bus", "trout"]
    assert metric(Y, PREDICTED, swapped, classes=np.array(order)) == pytest.approx(plain)


def test_costs_of_a_matrix(tmp_path):
    cost = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 4.0], [5.0, 6.0, 0.0]])
    assert mean_cost([0, 1, 2], [1, 1, 0], cost) == 2.0
    # Classes need not be sorted.
    assert mean_cost([7, 3, 5], [3, 3, 7], cost, classes=[7, 3, 5]) == 2.0
    assert mean_cost(np.array([7, 3, 5]), np.array([3, 3, 7]), cost, classes=[7, 3, 5]) == 2.0
    np.savetxt(tmp_path / "cost.csv", cost, delimiter=",")
    assert mean_cost(list("abc"), list("bba"), tmp_path / "cost.csv", classes="abc") == 2.0


@st.composite
def answers(draw):
    """Parents of the nodes 1, 2, ... below 0, and pairs of leaves with weights."""
    n = draw(st.integers(2, 12))
    parents = {i: draw(st.integers(0, i - 1)) for i in range(1, n + 1)}
    leaf = st.sampled_from(sorted(set(parents) - set(parents.values())))
    pairs = draw(st.lists(st.tuples(leaf, leaf, st.integers(1, 5)), min_size=1))
    return parents, *zip(*pairs, strict=True)


def lines(parents):
    """The set of each leaf and all groups above it, without those that all leaves are in."""
    found = {}
    for leaf in set(parents) - set(parents.values()):
        line = [leaf]
        while line[-1] in parents:
            line.append(parents[line[-1]])
        found[leaf] = line
    everywhere = set.intersection(*map(set, found.values()))
    return {
        leaf: [node for node in line if node == leaf or node not in everywhere]
        for leaf, line in found.items()
    }


@given(answers())
def test_f1_is_that_of_sets_of_ancestors(drawn):
    parents, y, predicted, weight = drawn
    sets = {leaf: set(line) for leaf, line in lines(parents).items()}
    pairs = list(zip(y, predicted, weight, strict=True))
    shared = sum(w * len(sets[a] & sets[b]) for a, b, w in pairs)
    precision = shared / sum(w * len(sets[b]) for _, b, w in pairs)
    recall = shared / sum(w * len(sets[a]) for a, _, w in pairs)
    expected = 2 * precision * recall / (precision + recall) if shared else 0.0
    graph = nx.DiGraph([(parent, child) for child, parent in parents.items()])
    for tree in (parents, graph):
        found = hierarchical_f1(y, predicted, tree, sample_weight=weight)
        assert found == pytest.approx(expected)


@given(answers(), st.integers(0, 5))
def test_levels_are_those_of_the_largest_groups_up_to_a_height(drawn, height):
    parents, y, predicted, weight = drawn
    above = {leaf: [*line, "root"] for leaf, line in lines(parents).items()}

    def height_of(node):
        return max(line.index(node) for line in above.values() if node in line)

    def group(leaf):
        return [node for node in above[leaf] if height_of(node) <= height][-1]

    right = [group(a) == group(b) for a, b in zip(y, predicted, strict=True)]
    found = level_accuracy(y, predicted, parents, height, sample_weight=weight)
    assert found == pytest.approx(np.average(right, weights=weight))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mean_cost(["ray"], ["dog"], TREE), r"predicted\[0\] = 'dog' is none of the class"),
        (lambda: mean_cost([0, 3], [0, 1], 1 - np.eye(3)), r"y\[1\] = 3 is none of the classes 0"),
        (lambda: mean_cost([0], [0], None), r"cost has shape \(1,\), the 1 classes need \(1, 1\)"),
        (lambda: mean_cost([0], [0], np.ones((2, 3))), r"cost has shape \(2, 3\)"),
        (lambda: mean_cost(["a"], ["b"], 1 - np.eye(2), classes="abc"), r"cost has shape \(2, 2\)"),
        (lambda: mean_cost(Y, Y[:2], TREE), r"y has 4 labels, predicted has 2: give an answer"),
        (lambda: hierarchical_f1([], [], TREE), r"y has 0 labels, predicted has 0: .*at least one"),
        (lambda: hierarchical_f1([0], [0], np.eye(2)), r"is no tree of classes: give a dict"),
        (lambda: hierarchical_f1(Y, Y, [2, 2, -1], classes=NAMES), r"has 2 leaves, and there are"),
        (lambda: level_accuracy(Y, Y, TREE, -1), r"height = -1: give a number >= 0"),
        (lambda: level_accuracy(Y, Y, TREE, "fish"), r"height = 'fish': give a number >= 0"),
        (lambda: level_accuracy(Y, Y, TREE, 1, sample_weight=[0] * 4), "zero everywhere"),
    ],
)
def test_what_cannot_be_compared_is_refused(call, words):
    with pytest.raises(InvalidData, match=words):
        call()


X = np.random.default_rng(0).normal(size=(20, 3))
LABELS = np.array(["trout", "bus", "ray", "moss", "car"] * 4)


@pytest.mark.parametrize("estimator", [MulticlassSVM, LatentMulticlassSVM])
def test_scores_of_classifiers_are_these(estimator):
    model = estimator(C=0.1, cost=TREE, random_state=0).fit(X, LABELS)
    predicted, weight = model.predict(X), np.arange(20)
    scores = {
        metric: model.score(X, LABELS, weight, metric=metric)
        for metric in ("accuracy", "cost", "hierarchical_f1")
    }
    assert scores == {
        "accuracy": np.average(predicted == LABELS, weights=weight),
        "cost": -mean_cost(LABELS, predicted, TREE, sample_weight=weight),
        "hierarchical_f1": hierarchical_f1(LABELS, predicted, TREE, sample_weight=weight),
    }
    assert model.score(X, LABELS) == np.mean(predicted == LABELS)


def test_without_costs_the_cost_is_the_share_of_mistakes():
    model = MulticlassSVM(C=0.1, random_state=0).fit(X, LABELS)
    assert model.score(X, LABELS, metric="cost") == pytest.approx(model.score(X, LABELS) - 1)


def test_scores_choose_models():
    def negative_cost(model, X, y):
        return model.score(X, y, metric="cost")

    model = MulticlassSVM(C=0.1, cost=TREE, random_state=0)
    scores = cross_val_score(model, X, LABELS, cv=2, scoring=negative_cost, error_score="raise")
    assert (scores < 0.0).all()


@pytest.mark.parametrize("cost", [None, 1 - np.eye(5)])
def test_metrics_that_cannot_be_had_are_refused(cost):
    model = MulticlassSVM(cost=cost, random_state=0).fit(X, LABELS)
    with pytest.raises(InvalidData, match=r"'hierarchical_f1' needs a tree of classes, and the"):
        model.score(X, LABELS, metric="hierarchical_f1")
    with pytest.raises(InvalidData, match=r"metric = 'f1': give one of \['accuracy', 'cost', 'h"):
        model.score(X, LABELS, metric="f1")
