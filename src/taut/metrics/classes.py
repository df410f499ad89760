"""Measures of single labels: by costs, and by a tree of classes."""

from __future__ import annotations

import os
from numbers import Real
from typing import Any

import numpy as np

from taut.data.class_trees import as_tree, is_tree
from taut.data.costs import check_cost, load_cost
from taut.data.labels import as_labels
from taut.data.targets import number_labels
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData


def mean_cost(
    y: Any, predicted: Any, cost: Any, *, classes: Any = None, sample_weight: Any = None
) -> float:
    """Mean cost of answers.

    Parameters
    ----------
    y, predicted : array-like of shape (n,)
        Labels of any hashable type.
    cost : matrix, tree or path
        What the parameter `cost` of `taut.MulticlassSVM` takes: cost[truth, answer], a tree, whose
        cost is the height of the lowest common ancestor, or the path of a CSV file.
    classes : sequence, optional
        The labels of the rows of a matrix, or of the leaves of a list of parents, in order; 0, 1,
        ... by default. A tree that names its leaves needs none.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        0 where all answers are right.

    Raises
    ------
    InvalidData
        A label is none of the classes, or `cost` is none.

    Examples
    --------
    >>> from taut.metrics import mean_cost
    >>> tree = {"fish": ["ray", "trout"], "flowers": ["poppy", "rose"]}
    >>> mean_cost(["ray", "ray", "rose", "rose"], ["ray", "trout", "rose", "trout"], tree)
    0.75
    """
    if is_tree(cost):
        tree = as_tree(cost, "cost")
        named = tree.classes(classes)
        costs = tree.heights(named)
    else:
        given = load_cost(cost, classes) if isinstance(cost, str | os.PathLike) else cost
        costs = check_cost(given, None if classes is None else len(classes))
        named = np.arange(len(costs)) if classes is None else classes
    truth, answers, weight = _coded(y, predicted, named, sample_weight)
    return float(np.average(costs[truth, answers], weights=weight))


def level_accuracy(
    y: Any, predicted: Any, tree: Any, height: float, *, classes: Any = None,
    sample_weight: Any = None,
) -> float:  # fmt: skip
    """Share of answers that are right at a level of a tree of classes.

    An answer is right if it is in the same group of this height as the truth. Where a branch has no
    group of just this height, its largest lower one counts.

    Parameters
    ----------
    y, predicted : array-like of shape (n,)
    tree : dict, list, set, array or networkx graph
        As for `taut.structures.tree_cost`.
    height : float
        0 for the classes themselves, 1 for the groups in which nothing but classes is, and so on up
        to the height of the tree, at which all answers are right.
    classes : sequence, optional
        The labels of the leaves of a list of parents, in order; 0, 1, ... by default.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from taut.metrics import level_accuracy
    >>> tree = {"fish": ["ray", "trout"], "flowers": ["poppy", "rose"]}
    >>> y, predicted = ["ray", "ray", "rose", "rose"], ["ray", "trout", "rose", "trout"]
    >>> level_accuracy(y, predicted, tree, 0), level_accuracy(y, predicted, tree, 1)
    (0.5, 0.75)
    """
    level: Any = height
    if not isinstance(level, Real) or not float(level) >= 0.0:
        raise InvalidData(f"height = {level!r}: give a number >= 0, 0 for the classes themselves")
    checked = as_tree(tree, "tree")
    named = checked.classes(classes)
    truth, answers, weight = _coded(y, predicted, named, sample_weight)
    # Heights rise on the way up: two classes share a group of at most this height if the lowest
    # that they share is one.
    right = checked.heights(named)[truth, answers] <= float(level)
    return float(np.average(right, weights=weight))


def hierarchical_f1(
    y: Any, predicted: Any, tree: Any, *, classes: Any = None, sample_weight: Any = None
) -> float:
    """F1 of the groups that answers are in (Kiritchenko, Matwin and Famili 2005).

    A class stands for itself and all groups above it but the root, which is the lowest group that
    has all classes in it. F1 is 2 shared / (true + predicted), each counted over all answers
    together: the harmonic mean of hierarchical precision and recall.

    Parameters
    ----------
    y, predicted : array-like of shape (n,)
    tree : dict, list, set, array or networkx graph
        As for `taut.structures.tree_cost`.
    classes : sequence, optional
        The labels of the leaves of a list of parents, in order; 0, 1, ... by default.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from taut.metrics import hierarchical_f1
    >>> tree = {"fish": ["ray", "trout"], "flowers": ["poppy", "rose"]}
    >>> hierarchical_f1(["ray", "ray", "rose", "rose"], ["ray", "trout", "rose", "trout"], tree)
    0.625
    """
    checked = as_tree(tree, "tree")
    named = checked.classes(classes)
    truth, answers, weight = _coded(y, predicted, named, sample_weight)
    shared = checked.shared(named)
    sizes = np.diagonal(shared)
    total = weight @ (sizes[truth] + sizes[answers])
    return float(2.0 * (weight @ shared[truth, answers]) / total)


def _coded(
    y: Any, predicted: Any, classes: Any, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truths and answers by class, and their weights."""
    n = len(y)
    if n == 0 or len(predicted) != n:
        raise InvalidData(
            f"y has {n} labels, predicted has {len(predicted)}: give an answer to each, and at "
            "least one"
        )
    plain = classes.tolist() if isinstance(classes, np.ndarray) else classes
    named = np.fromiter(plain, dtype=object)  # in any order, which sorted numbers are not
    truth, answers = (
        number_labels(as_labels(labels, n, name), named, name)
        for labels, name in ((y, "y"), (predicted, "predicted"))
    )
    return truth, answers, check_sample_weight(sample_weight, n, unit="label")
