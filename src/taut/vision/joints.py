"""Joints as users give them: where they are, what they are called, and how they hold together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from taut.console.notices import warn
from taut.data.arrays import as_numbers
from taut.errors import InvalidData

_ROOT = -1


class Skeleton(NamedTuple):
    """Joints by name, the tree that they form, and which change places in a mirrored image."""

    names: tuple[str, ...]
    parents: np.ndarray  # (n_joints,), int64: the parent of each, -1 of the root; empty if unknown
    swaps: np.ndarray  # (n_joints,), int64: which joint each is in the mirrored image

    @property
    def limbs(self) -> np.ndarray:
        """Parent and child of each edge of the tree, shape (n_joints - 1, 2)."""
        return limbs_of(self.parents)


def limbs_of(parents: np.ndarray) -> np.ndarray:
    """Parent and child of each edge of a tree, shape (n - 1, 2)."""
    children = np.flatnonzero(parents >= 0)
    return np.stack([parents[children], children], axis=1)


class FoundJoints(NamedTuple):
    """Objects that were found, with their joints, in one image or one in each of some images."""

    joints: np.ndarray  # (n, n_joints, 2), float64: x and y in pixels
    visible: np.ndarray  # (n, n_joints), bool
    scores: np.ndarray  # (n,), float64


def read_joints(joints: Any, visible: Any = None) -> tuple[np.ndarray, np.ndarray]:
    """Joints and which of them are visible, checked.

    Parameters
    ----------
    joints : array-like of shape (n_objects, n_joints, 2)
        x and y in pixels from the upper left corner of the image.
    visible : array-like of bool, shape (n_objects, n_joints), optional
        By default those whose numbers are finite.

    Returns
    -------
    joints : ndarray of shape (n_objects, n_joints, 2)
        0 where a joint is not visible.
    visible : ndarray of bool, shape (n_objects, n_joints)

    Raises
    ------
    InvalidData
        Shapes do not fit, or a visible joint has no finite place.

    Examples
    --------
    >>> from taut.vision import read_joints
    >>> joints, visible = read_joints([[[4, 5], [float("nan"), 0]]])
    >>> joints.tolist(), visible.tolist()
    ([[[4.0, 5.0], [0.0, 0.0]]], [[True, False]])
    """
    places = np.array(as_numbers(joints, "joints"), dtype=np.float64)
    if places.ndim != 3 or places.shape[2] != 2 or 0 in places.shape:
        raise InvalidData(
            f"joints has shape {places.shape}: give x and y of each joint, (n_objects, n_joints, 2)"
        )
    known = np.isfinite(places).all(axis=2)
    seen = as_visible(known if visible is None else visible, known.shape)
    if (seen & ~known).any():
        n, p = np.argwhere(seen & ~known)[0].tolist()
        raise InvalidData(
            f"joint {p} of object {n} is visible and at {places[n, p].tolist()}: give finite "
            "numbers, or say that it is not visible"
        )
    places[~seen] = 0.0
    return places, seen


def as_visible(visible: Any, shape: tuple[int, ...], name: str = "visible") -> np.ndarray:
    """What says which joints are visible as an array of bool."""
    given = np.asarray(visible)
    if given.shape != shape or given.dtype.kind not in "biuf" or not np.isin(given, (0, 1)).all():
        raise InvalidData(
            f"{name} has shape {given.shape} and type {given.dtype}: give True or False, or 1 or 0,"
            f" for each joint, {shape}"
        )
    return given.astype(bool)


def as_limbs(limbs: Any, n_joints: int, name: str = "limbs") -> np.ndarray:
    """Pairs of joints, checked; shape (n_limbs, 2), int64."""
    ends = np.asarray(limbs)
    if not ends.size:
        return np.empty((0, 2), dtype=np.int64)
    if ends.ndim != 2 or ends.shape[1] != 2 or ends.dtype.kind not in "iu":
        raise InvalidData(
            f"{name} has shape {ends.shape} and type {ends.dtype}: give the numbers of two joints "
            "for each"
        )
    if not 0 <= ends.min() <= ends.max() < n_joints:
        raise InvalidData(
            f"{name} has joints {ends.min()} to {ends.max()}, and there are {n_joints}: give the "
            "numbers of two joints for each"
        )
    return ends.astype(np.int64)


def within_images(places: np.ndarray, seen: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Which visible joints lie in their images; others are taken for invisible, with a warning.

    Parameters
    ----------
    places, seen
        As `read_joints` returns them.
    sizes : ndarray of shape (n_objects, 2)
        Width and height of the image of each object.
    """
    outside = seen & ((places < 0.0) | (places > sizes[:, None, :])).any(axis=2)
    if outside.any():
        n, p = np.argwhere(outside)[0].tolist()
        x, y = places[n, p].round(1).tolist()
        warn(
            f"visible joints that lie outside their image and are taken for invisible: "
            f"{int(outside.sum())}; the first is joint {p} of object {n}, at ({x}, {y}) in an image"
            f" of {sizes[n, 0]:g} x {sizes[n, 1]:g} pixels",
            UserWarning,
        )
    return seen & ~outside


def joint_boxes(places: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The box around the visible joints of each object, shape (n, 4); zeros where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.joints import joint_boxes
    >>> joint_boxes(np.array([[[4, 5], [10, 2]]]), np.array([[True, True]]))
    array([[ 4.,  2., 10.,  5.]])
    """
    low = np.where(seen[:, :, None], places, np.inf).min(axis=1)
    high = np.where(seen[:, :, None], places, -np.inf).max(axis=1)
    edges = np.hstack([low, high])
    edges[~seen.any(axis=1)] = 0.0
    return edges


def skeleton_of(n_joints: int, names: Any = None, tree: Any = None, swaps: Any = None) -> Skeleton:
    """Names, tree and swaps of joints, checked.

    Parameters
    ----------
    n_joints : int
    names : sequence of str, optional
        One for each joint; their numbers by default.
    tree : sequence of pairs, or of numbers, optional
        Pairs of joints, by name or number, that are held together: the joint that is in most of
        them is the root. Or the number of each joint's parent, and -1 for the root. It may be
        left open.
    swaps : sequence of pairs, optional
        Joints, by name or number, that change places in a mirrored image, such as the wrists.

    Returns
    -------
    Skeleton

    Raises
    ------
    InvalidData
        There is no joint of a name, a joint has two partners, or the tree has a cycle or does not
        join all joints; the message names them.

    Examples
    --------
    >>> from taut.vision import skeleton_of
    >>> names = ["left hand", "neck", "right hand"]
    >>> skeleton = skeleton_of(
    ...     3, names, [("neck", "left hand"), ("neck", "right hand")], [("left hand", "right hand")]
    ... )
    >>> skeleton.parents, skeleton.swaps
    (array([ 1, -1,  1]), array([2, 1, 0]))
    """
    called = _as_names(names, n_joints)
    parents = np.empty(0, dtype=np.int64)
    if tree is not None:
        given = _listed("tree", tree)
        if all(np.ndim(item) == 0 and not isinstance(item, str) for item in given):
            parents = _by_parents(given, called)
        else:
            parents = _by_edges(_as_pairs("tree", given, called), called)
    order = np.arange(n_joints)
    for a, b in _as_pairs("swaps", _listed("swaps", () if swaps is None else swaps), called):
        for joint in (a, b):
            if order[joint] != joint:
                raise InvalidData(
                    f"swaps has joint {called[joint]!r} twice: a joint changes places with one "
                    "other at most"
                )
        order[a], order[b] = b, a
    return Skeleton(called, parents, order)


def _as_names(names: Any, n_joints: int) -> tuple[str, ...]:
    if names is None:
        return tuple(map(str, range(n_joints)))
    if isinstance(names, str) or not all(isinstance(name, str) for name in _listed("names", names)):
        raise InvalidData(f"names = {names!r:.100}: give a list of text, one for each joint")
    if len(names) != n_joints or len(set(names)) != n_joints:
        raise InvalidData(
            f"names has {len(names)} names, {len(set(names))} of them different, and joints has "
            f"{n_joints} joints: give each joint a name of its own"
        )
    return tuple(map(str, names))


def _listed(what: str, given: Any) -> list[Any]:
    if not isinstance(given, Iterable):
        raise InvalidData(f"{what} = {given!r}: give a list")
    return list(given)


def _as_pairs(what: str, pairs: Sequence[Any], names: tuple[str, ...]) -> list[tuple[int, int]]:
    """Pairs of different joints, as numbers."""
    found = []
    for pair in pairs:
        if isinstance(pair, str) or np.shape(pair) != (2,):
            raise InvalidData(f"{what} has {pair!r:.100}: give pairs of joints, by name or number")
        a, b = (_number(what, joint, names) for joint in pair)
        if a == b:
            raise InvalidData(f"{what} pairs joint {names[a]!r} with itself: give two joints")
        found.append((a, b))
    return found


def _number(what: str, joint: Any, names: tuple[str, ...]) -> int:
    if isinstance(joint, str) and joint in names:
        return names.index(joint)
    if isinstance(joint, int | np.integer) and 0 <= joint < len(names):
        return int(joint)
    raise InvalidData(
        f"{what} has joint {joint!r}, which there is not: joints are {', '.join(names)}, or 0 to "
        f"{len(names) - 1}"
    )


def _by_parents(given: Sequence[Any], names: tuple[str, ...]) -> np.ndarray:
    if len(given) != len(names):
        raise InvalidData(
            f"tree has parents of {len(given)} joints, and there are {len(names)}: give one for "
            "each joint, -1 for the root"
        )
    roots = [p for p, parent in enumerate(given) if parent == _ROOT]
    if len(roots) != 1:
        raise InvalidData(
            f"tree has {len(roots)} roots, {[names[p] for p in roots]}: give -1 for one joint, and "
            "a parent for each other"
        )
    edges = _as_pairs(
        "tree", [(parent, p) for p, parent in enumerate(given) if parent != _ROOT], names
    )
    return _rooted(edges, roots[0], names)


def _by_edges(edges: list[tuple[int, int]], names: tuple[str, ...]) -> np.ndarray:
    degrees = np.bincount(np.ravel(edges).astype(np.int64), minlength=len(names))
    return _rooted(edges, int(degrees.argmax()), names)


def _rooted(edges: list[tuple[int, int]], root: int, names: tuple[str, ...]) -> np.ndarray:
    """The parent of each joint; each edge must join something new to what is joined."""
    parents = np.full(len(names), _ROOT)
    group = np.arange(len(names))
    for a, b in edges:
        if group[a] == group[b]:
            raise InvalidData(
                f"tree has a cycle, which {names[a]!r} and {names[b]!r} close: leave out one of "
                "its edges"
            )
        group[group == group[b]] = group[a]
    apart = [names[p] for p in np.flatnonzero(group != group[root])]
    if apart:
        raise InvalidData(
            f"tree does not reach {', '.join(apart)} from {names[root]!r}: join them to others by "
            "further edges"
        )
    reached, left = {root}, list(edges)
    while left:
        rest = []
        for a, b in left:
            if b in reached:
                a, b = b, a
            if a in reached:
                parents[b] = a
                reached.add(b)
            else:
                rest.append((a, b))
        left = rest
    return parents
