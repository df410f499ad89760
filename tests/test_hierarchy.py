"""Costs of a hierarchy of classes equal the height of the lowest common ancestor."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from taut import MulticlassSVM
from taut.errors import InvalidData
from taut.structures import tree_cost

GROUPS = {"living": {"fish": ["ray", "trout"], "moss": []}, "made": ["car", "bus"]}


def ancestors(node, parents):
    """The node and all that is above it, up to a root of all."""
    line = [node]
    while line[-1] in parents:
        line.append(parents[line[-1]])
    return [*line, "root of all"]


@given(st.data())
def test_costs_are_heights(data):
    n = data.draw(st.integers(1, 12))
    parents = {i: data.draw(st.integers(0, i - 1)) for i in range(1, n + 1)}
    leaves = sorted(set(parents) - set(parents.values()))
    lines = {leaf: ancestors(leaf, parents) for leaf in leaves}

    def height(node):
        return max(line.index(node) for line in lines.values() if node in line)

    expected = [
        [height(next(node for node in lines[a] if node in lines[b])) for b in leaves]
        for a in leaves
    ]
    assert_array_equal(tree_cost(parents, normalize=False), expected)
    if len(leaves) > 1:
        assert_array_equal(tree_cost(parents), np.array(expected) / np.max(expected))


def test_forms_of_a_hierarchy_give_one_matrix():
    parents = {
        "ray": "fish", "trout": "fish", "fish": "living", "moss": "living",
        "car": "made", "bus": "made",
    }  # fmt: skip
    cost = tree_cost(GROUPS)  # bus, car, moss, ray, trout
    assert_array_equal(
        3 * cost,
        [[0, 1, 3, 3, 3], [1, 0, 3, 3, 3], [3, 3, 0, 2, 2], [3, 3, 2, 0, 1], [3, 3, 2, 1, 0]],
    )
    assert_array_equal(tree_cost(parents), cost)
    assert_array_equal(
        tree_cost({"living": [{"ray", "trout"}, "moss"], "made": {"car", "bus"}}), cost
    )
    assert_array_equal(tree_cost([[["ray", "trout"], "moss"], ["car", "bus"]]), cost)


def test_some_classes_in_an_order_of_ones_own():
    cost = tree_cost(GROUPS, ["trout", "bus", "ray"])
    assert_array_equal(3 * cost, [[0, 3, 1], [3, 0, 3], [1, 3, 0]])
    assert_array_equal(3 * tree_cost(GROUPS, np.array(["ray", "moss"])), [[0, 2], [2, 0]])
    assert_array_equal(tree_cost({"all": [(0, 1), (0, 2)]}, [(0, 2), (0, 1)]), 1 - np.eye(2))


def test_classes_are_in_the_order_of_a_classifier():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 3)), np.array(["trout", "bus", "ray", "moss", "car"] * 4)
    model = MulticlassSVM(cost=tree_cost(GROUPS), random_state=0).fit(X, y)
    assert_array_equal(tree_cost(GROUPS, model.classes_), model.cost)
    W, value = np.vstack([model.coef_.T, model.intercept_]), 0.0
    for x, label in zip(X, y, strict=True):
        k = list(model.classes_).index(label)
        scores = np.append(x, 1.0) @ W
        value += (scores - scores[k] + model.cost[k]).max()
    assert np.isclose(model.certificate_.primal, 0.5 * (W * W).sum() + value)


@pytest.mark.parametrize(
    ("hierarchy", "classes", "words"),
    [
        (GROUPS, ["ray", "dog"], r"class 'dog' is not in the hierarchy, which has 5 others: add"),
        ({"a": ["x", "y"], "b": ["x"]}, None, r"class 'x' is in the hierarchy twice: give it one"),
        ({"a": ["x"], "b": "y"}, None, r"hierarchy\['b'\] = 'y' is no group: give a dict of"),
        ({"a": "b", "b": "a"}, None, r"the parents of '[ab]' lead back to itself: leave"),
        ("abc", None, r"hierarchy = 'abc' is no tree of classes: give a dict of groups"),
        ({}, None, r"hierarchy = \{\} has no classes"),
    ],
)
def test_what_is_no_tree_is_refused(hierarchy, classes, words):
    with pytest.raises(InvalidData, match=words):
        tree_cost(hierarchy, classes)
