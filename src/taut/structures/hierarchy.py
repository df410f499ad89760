"""Costs of confusing classes that a tree says something about, and such trees from data."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.cluster.hierarchy import cut_tree, linkage

from taut.data.arrays import as_matrix
from taut.data.class_trees import as_tree
from taut.data.labels import as_labels, class_index
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData


def tree_cost(hierarchy: Any, classes: Any = None, *, normalize: bool = True) -> np.ndarray:
    """Cost matrix of a hierarchy of classes: the height of the lowest common ancestor.

    The height of a group is the number of steps down to the deepest class in it. Classes of one
    small group cost less to confuse than classes that only the whole tree has in common.

    Parameters
    ----------
    hierarchy : dict, list, set, array or networkx graph
        Classes are what has nothing below it. One of

        - nested groups: a dict from names of groups to what is in them, or a list or set of classes
          and further groups; a name with an empty list is a class itself, and tuples are labels,
          not groups;
        - parents: a dict of the parent of each class and of each group but the topmost;
        - a list of parents: entry k is the number of node k's parent, -1 or None where there is
          none. It names no classes: these are the leaves in the order of their numbers;
        - a networkx tree: a `DiGraph` with edges from parents to children, or a `Graph` whose
          attribute `graph.graph["root"]` is its root.
    classes : sequence, optional
        Classes in the order of rows and columns, such as `np.unique(y)`; not all need be there. By
        default all, sorted like `classes_` of a classifier. A list of parents has as many leaves.
    normalize : bool, default=True
        Divide by the largest cost between any classes of the hierarchy.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        Symmetric, with a zero diagonal.

    Raises
    ------
    InvalidData
        The hierarchy is no tree, names a class twice, or lacks one of `classes`.

    Examples
    --------
    >>> from taut.structures import tree_cost
    >>> tree_cost({"fish": ["ray", "trout"], "flowers": ["poppy", "rose"]})
    array([[0. , 1. , 0.5, 1. ],
           [1. , 0. , 1. , 0.5],
           [0.5, 1. , 0. , 1. ],
           [1. , 0.5, 1. , 0. ]])
    >>> tree_cost({"ray": "fish", "trout": "fish", "rose": "flower"}, ["rose", "ray", "trout"])
    array([[0. , 1. , 1. ],
           [1. , 0. , 0.5],
           [1. , 0.5, 0. ]])
    >>> tree_cost([3, 3, 4, 4, -1], normalize=False)  # 0 and 1 are below 3; 2 and 3 below the root
    array([[0., 1., 2.],
           [1., 0., 2.],
           [2., 2., 0.]])
    """
    tree = as_tree(hierarchy)
    cost, largest = tree.heights(classes), tree.heights().max()
    return cost / largest if normalize and largest > 0.0 else cost


def cluster_tree(
    X: Any, y: Any, n_groups: int, *, sample_weight: Any = None
) -> dict[str, list[Any]]:
    """Group classes whose rows look alike: a tree of two levels from data.

    The classes' mean rows, scaled to length 1, are merged by Ward's rule until `n_groups` are left.
    That looks at the inner products of means only, so X may be sparse and have many features.

    Parameters
    ----------
    X : array-like or sparse of shape (n, n_features)
    y : array-like of shape (n,)
        Labels of any hashable type.
    n_groups : int
        Between 1 and the number of classes.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    dict of str to list
        Groups of classes, as `tree_cost` and the parameter `cost` of classifiers take them.

    Raises
    ------
    InvalidData
        There are fewer classes than groups, or the data are not usable.

    Examples
    --------
    >>> from taut.structures import cluster_tree
    >>> X = [[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]]
    >>> cluster_tree(X, ["ray", "trout", "poppy", "rose"], 2)
    {'group 0': ['poppy', 'rose'], 'group 1': ['ray', 'trout']}
    """
    matrix = as_matrix(X)
    n = matrix.shape[0]
    classes, codes = class_index(as_labels(y, n))
    weight = check_sample_weight(sample_weight, n)
    wanted: Any = n_groups
    if not isinstance(wanted, Integral) or not 1 <= int(wanted) <= len(classes):
        raise InvalidData(f"n_groups = {wanted!r}: give a number from 1 to {len(classes)} classes")
    sums = sp.csr_array((weight, (codes, np.arange(n))), shape=(len(classes), n)) @ matrix
    merged = cut_tree(linkage(_directions(sums), "ward"), int(wanted))[:, 0]
    groups: dict[int, list[Any]] = {}  # by their first classes
    for label, group in zip(classes.tolist(), merged.tolist(), strict=True):
        groups.setdefault(group, []).append(label)
    return {f"group {i}": members for i, members in enumerate(groups.values())}


def _directions(rows: Any) -> np.ndarray:
    """Points that lie to each other as the rows do at length 1, with a coordinate per row."""
    products = rows @ rows.T
    products = np.asarray(products.todense() if sp.issparse(products) else products, np.float64)
    lengths = np.sqrt(np.diagonal(products))
    scale = np.divide(1.0, lengths, out=np.zeros(len(lengths)), where=lengths > 0.0)
    values, vectors = np.linalg.eigh(products * np.outer(scale, scale))
    return vectors * np.sqrt(np.maximum(values, 0.0))
