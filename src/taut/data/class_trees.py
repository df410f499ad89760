"""Trees of classes, in the forms in which people have them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import count
from numbers import Integral, Real
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from taut.data.arrays import show
from taut.data.labels import sort_classes
from taut.errors import InvalidData

_FORMS = (
    "give a dict of groups, whose values are lists of classes or further groups, a dict or list of "
    "parents, or a networkx tree"
)


class ClassTree(NamedTuple):
    """The leaves of a tree, each with the nodes that lead to it.

    `lines` begin below the root, the lowest group that holds all leaves, and end with the leaf.
    Nodes are told apart by any keys. `labels` are the leaves' own, or None if they have none, as in
    a list of parents.
    """

    labels: tuple[Hashable, ...] | None
    lines: tuple[tuple[Hashable, ...], ...]

    def classes(self, names: Any = None) -> Any:
        """The labels, sorted like `classes_` of a classifier.

        Leaves without labels have `names`, or else their numbers among the leaves.
        """
        if self.labels is None:
            return np.arange(len(self.lines)) if names is None else names
        return sort_classes(np.fromiter(self.labels, dtype=object))[0]

    def heights(self, classes: Any = None) -> np.ndarray:
        """The height of the lowest common ancestor of each two classes, of all by default.

        The height of a group is the number of steps down to the deepest leaf in it.
        """
        lengths = np.array([len(line) for line in self.lines])
        heights = np.full((len(lengths), len(lengths)), float(lengths.max()))
        for depth, below in self._nodes():  # what is further down overwrites what is above it
            heights[np.ix_(below, below)] = lengths[below].max() - depth
        return self._of(heights, classes)

    def shared(self, classes: Any = None) -> np.ndarray:
        """The number of groups below the root that each two classes share, and are, themselves."""
        shared = np.zeros((len(self.lines), len(self.lines)))
        for _, below in self._nodes():
            shared[np.ix_(below, below)] += 1.0
        return self._of(shared, classes)

    def _nodes(self) -> Iterator[tuple[int, list[int]]]:
        """The depth of each node, 1 for those below the root, and its leaves; from the top."""
        below: dict[Hashable, tuple[int, list[int]]] = {}
        for i, line in enumerate(self.lines):
            for depth, node in enumerate(line, start=1):
                below.setdefault(node, (depth, []))[1].append(i)
        yield from sorted(below.values(), key=itemgetter(0))

    def _of(self, matrix: np.ndarray, classes: Any) -> np.ndarray:
        """The rows and columns of `classes`."""
        places = self._places(self.classes() if classes is None else classes)
        return matrix[np.ix_(places, places)]

    def _places(self, classes: Any) -> list[int]:
        """The leaves that `classes` are."""
        if self.labels is None:
            if len(classes) != len(self.lines):
                raise InvalidData(
                    f"the list of parents has {len(self.lines)} leaves, and there are "
                    f"{len(classes)} classes, which its leaves must be in order: give a dict of "
                    "parents, whose leaves have names"
                )
            return list(range(len(self.lines)))
        places = {label: i for i, label in enumerate(self.labels)}
        found = []
        for label in np.fromiter(classes, dtype=object):
            if label not in places:
                raise InvalidData(
                    f"class {show(label)} is not in the hierarchy, which has {len(places)} others: "
                    "add it, or leave it out of classes"
                )
            found.append(places[label])
        return found


def is_tree(given: Any) -> bool:
    """Whether what is given as a cost is a tree of classes: numbers in rows are a matrix."""
    if hasattr(given, "__array__"):
        return np.ndim(given) == 1 and _is_parent_list(given)
    if isinstance(given, list):
        return _is_parent_list(given) or not all(map(_is_numbers, given))
    return _is_graph(given) or _is_group(given) or _is_parent_list(given)


def as_tree(given: Any, name: str = "hierarchy") -> ClassTree:
    """Check a tree of classes, in one of the forms that `taut.structures.tree_cost` describes.

    Errors call it `name`. What is no tree, has no classes or names one twice is refused.

    Examples
    --------
    >>> as_tree([["ray", "trout"], "moss"]).labels
    ('ray', 'trout', 'moss')
    >>> as_tree([3, 3, 4, 4, -1]).heights()
    array([[0., 1., 2.],
           [1., 0., 2.],
           [2., 2., 0.]])
    """
    for belongs, read in _READERS:
        if belongs(given):
            labels, lines = read(given, name)
            break
    else:
        raise InvalidData(f"{name} = {show(given)} is no tree of classes: {_FORMS}")
    if not lines:
        raise InvalidData(f"{name} = {show(given)} has no classes: {_FORMS}")
    if labels is not None and len(set(labels)) < len(labels):
        twice = next(label for i, label in enumerate(labels) if label in labels[:i])
        raise InvalidData(f"class {show(twice)} is in the hierarchy twice: give it one place")
    return ClassTree(None if labels is None else tuple(labels), _below_root(lines))


def plain_tree(given: Any) -> Any:
    """The same tree of Python's own types: a graph becomes a dict of parents."""
    return _parents_of_graph(given, "cost") if _is_graph(given) else given


_Leaves = tuple[Sequence[Hashable] | None, Sequence[tuple[Hashable, ...]]]


def _is_graph(given: Any) -> bool:
    return hasattr(given, "edges") and hasattr(given, "is_directed")


def _is_group(given: Any) -> bool:
    return isinstance(given, Mapping | list | set)


def _is_parent_dict(given: Any) -> bool:
    return isinstance(given, Mapping) and bool(given) and not any(map(_is_group, given.values()))


def _is_parent_list(given: Any) -> bool:
    return (
        (isinstance(given, list | tuple) or np.ndim(given) == 1)
        and len(given) > 0
        and all(parent is None or _is_whole(parent) for parent in given)
    )


def _is_whole(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _is_numbers(given: Any) -> bool:
    """Whether this is a number, or a row of numbers."""
    if isinstance(given, list | tuple | np.ndarray):
        return all(isinstance(value, Real) for value in given)
    return isinstance(given, Real)


def _below_root(lines: Sequence[tuple[Hashable, ...]]) -> tuple[tuple[Hashable, ...], ...]:
    """Lines without the nodes at their beginning that all of them share."""
    first, shortest = lines[0], min(map(len, lines))
    shared = 0
    while shared < shortest - 1 and all(line[shared] == first[shared] for line in lines):
        shared += 1
    return tuple(line[shared:] for line in lines)


def _read_groups(groups: Any, name: str) -> _Leaves:
    leaves = list(_leaves(groups, (), count(), name))
    return [label for label, _ in leaves], [line for _, line in leaves]


def _leaves(
    group: Any, line: tuple[int, ...], numbers: Iterator[int], name: str
) -> Iterator[tuple[Hashable, tuple[int, ...]]]:
    members = group
    if isinstance(group, Mapping):
        for key, inside in group.items():
            if not _is_group(inside):
                raise InvalidData(f"{name}[{key!r}] = {inside!r} is no group: {_FORMS}")
        members = [inside or key for key, inside in group.items()]
    for member in members:
        here = (*line, next(numbers))
        if _is_group(member):
            yield from _leaves(member, here, numbers, name)
        else:
            yield _hashable(member, name), here


def _read_parents(parents: Mapping[Any, Any], name: str) -> _Leaves:
    groups = {_hashable(parent, name) for parent in parents.values()}
    leaves = [node for node in parents if node not in groups]
    lines, reached = [], set()
    for leaf in leaves:
        line = [leaf]
        while (above := parents.get(line[-1])) is not None and len(line) <= len(parents):
            line.append(above)
        if above is not None:  # a line of more nodes than there are
            raise _leads_back(line[-1])
        reached.update(line)
        lines.append(tuple(reversed(line)))
    for node in parents:
        if node not in reached:
            raise _leads_back(node)
    return leaves, lines


def _read_parent_list(given: Any, name: str) -> _Leaves:
    parents: dict[int, int | None] = {}
    for node, parent in enumerate(given):
        if parent is not None and not -1 <= parent < len(given):
            raise InvalidData(
                f"{name}[{node}] = {show(parent)} is no node of the {len(given)} in the list of "
                "parents: give its parent's number, or -1 where there is none"
            )
        parents[node] = None if parent is None or parent == -1 else int(parent)
    return None, _read_parents(parents, name)[1]


def _read_graph(graph: Any, name: str) -> _Leaves:
    return _read_parents(_parents_of_graph(graph, name), name)


def _parents_of_graph(graph: Any, name: str) -> dict[Any, Any]:
    """The parent of each node but the root."""
    parents: dict[Any, Any] = {}
    for parent, child in graph.edges() if graph.is_directed() else _downwards(graph, name):
        if child in parents:
            raise InvalidData(
                f"{name} is a graph whose node {child!r} has the parents {parents[child]!r} and "
                f"{parent!r}: give a tree, with edges from parents to children"
            )
        parents[child] = parent
    tops = [node for node in graph.nodes() if node not in parents]
    if len(tops) > 1:
        raise InvalidData(
            f"{name} is a graph in which nothing is above {tops[0]!r} and {tops[1]!r}: give a tree "
            "with one root"
        )
    return parents


def _downwards(graph: Any, name: str) -> Iterator[tuple[Any, Any]]:
    """The edges of an undirected graph, each once, away from its root."""
    root = graph.graph.get("root")
    if root is None or root not in graph:
        raise InvalidData(
            f"{name} is an undirected graph with the root {root!r}: name one of its nodes as "
            "graph.graph['root'], or give a DiGraph"
        )
    seen, coming = {root}, [(None, root)]
    for above, node in coming:
        for other in graph.neighbors(node):
            if other in seen and other != above:
                raise InvalidData(
                    f"{name} is a graph with a cycle through {node!r} and {other!r}: give a tree"
                )
            if other not in seen:
                seen.add(other)
                coming.append((node, other))
                yield node, other


def _hashable(node: Any, name: str) -> Hashable:
    if not isinstance(node, Hashable):
        raise InvalidData(
            f"{name} has the node {node!r} of type {type(node).__name__}, which is not hashable: "
            f"{_FORMS}"
        )
    return node


def _leads_back(node: Any) -> InvalidData:
    return InvalidData(
        f"the parents of {node!r} lead back to itself: leave the parent of the topmost group out"
    )


_READERS: tuple[tuple[Callable[[Any], bool], Callable[[Any, str], _Leaves]], ...] = (
    (_is_graph, _read_graph),
    (_is_parent_dict, _read_parents),
    (_is_parent_list, _read_parent_list),
    (_is_group, _read_groups),
)
