"""Costs of confusing classes that a tree says something about."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from taut.data.labels import sort_classes
from taut.errors import InvalidData

_FORMS = (
    "give a dict of groups, whose values are lists of classes or further groups, or a dict of the "
    "parent of each class and group"
)


def tree_cost(
    hierarchy: Mapping[Any, Any] | list[Any] | set[Any],
    classes: Sequence[Any] | np.ndarray | None = None,
    *,
    normalize: bool = True,
) -> np.ndarray:
    """Cost matrix of a hierarchy of classes: the height of the lowest common ancestor.

    The height of a group is the number of steps down to the deepest class in it. Classes of one
    small group cost less to confuse than classes that only the whole tree has in common.

    Parameters
    ----------
    hierarchy : dict or list
        Nested groups: a dict from names of groups to what is in them, or a list or set of classes
        and further groups; a name with an empty list is a class itself. Or the parent of each class
        and of each group but the topmost, as a dict. Classes are what has nothing below it; tuples
        are labels, not groups.
    classes : sequence, optional
        Classes in the order of rows and columns, such as `np.unique(y)`; not all need be there. By
        default all, sorted like `classes_` of a classifier.
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
    """
    if isinstance(hierarchy, Mapping) and hierarchy and not any(map(_is_group, hierarchy.values())):
        hierarchy = _groups_of_parents(hierarchy)
    if not _is_group(hierarchy):
        raise InvalidData(f"hierarchy = {hierarchy!r} is no tree of classes: {_FORMS}")
    leaves = list(_leaves(hierarchy, ()))
    if not leaves:
        raise InvalidData(f"hierarchy = {hierarchy!r} has no classes: {_FORMS}")
    labels, paths = zip(*leaves, strict=True)
    places = {label: i for i, label in enumerate(labels)}
    if len(places) < len(labels):
        twice = next(label for i, label in enumerate(labels) if places[label] != i)
        raise InvalidData(f"class {twice!r} is in the hierarchy twice: give it one place")
    cost = _heights(paths)
    if normalize and cost.any():
        cost /= cost.max()
    if classes is None:
        classes = sort_classes(np.fromiter(labels, dtype=object))[0]
    order = [_place(label, places) for label in np.fromiter(classes, dtype=object)]
    return cost[np.ix_(order, order)]


def _is_group(node: Any) -> bool:
    return isinstance(node, Mapping | list | set)


def _leaves(group: Any, path: tuple[int, ...]) -> Iterator[tuple[Hashable, tuple[int, ...]]]:
    """Classes, each with the positions that lead to it."""
    members = group
    if isinstance(group, Mapping):
        for name, inside in group.items():
            if not _is_group(inside):
                raise InvalidData(f"hierarchy[{name!r}] = {inside!r} is no group: {_FORMS}")
        members = [inside or name for name, inside in group.items()]
    for position, member in enumerate(members):
        if _is_group(member):
            yield from _leaves(member, (*path, position))
        else:
            yield member, (*path, position)


def _groups_of_parents(parents: Mapping[Any, Any]) -> dict[Any, Any]:
    """The same tree as nested groups."""
    children: dict[Any, list[Any]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    reached = []

    def inside(node: Any) -> dict[Any, Any]:
        reached.append(node)
        return {child: inside(child) for child in children.get(node, [])}

    groups = {node: inside(node) for node in children if node not in parents}
    lost = set(parents).difference(reached)
    if lost:
        raise InvalidData(
            f"the parents of {next(iter(lost))!r} lead back to itself: leave the parent of the "
            "topmost group out"
        )
    return groups


def _heights(paths: Sequence[tuple[int, ...]]) -> np.ndarray:
    """The height of the lowest common ancestor of each two paths."""
    below: dict[tuple[int, ...], list[int]] = {}
    for i, path in enumerate(paths):
        for depth in range(len(path) + 1):
            below.setdefault(path[:depth], []).append(i)
    cost = np.zeros((len(paths), len(paths)))
    for node in sorted(below, key=len):  # what is further down overwrites what is above it
        members = below[node]
        cost[np.ix_(members, members)] = max(len(paths[i]) for i in members) - len(node)
    return cost


def _place(label: Any, places: dict[Any, int]) -> int:
    if label not in places:
        raise InvalidData(
            f"class {label!r} is not in the hierarchy, which has {len(places)} others: add it, or "
            "leave it out of classes"
        )
    return places[label]
