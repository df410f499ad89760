"""Objects of parts: where their joints are, which parts hold together, and how parts may look.

Joints of n objects are arrays of shape (n, n_parts, 2), columns x and y in pixels, with an array of
bool of shape (n, n_parts) that says which of them are seen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree

from taut.checks import check_number
from taut.data.arrays import as_numbers
from taut.errors import InvalidData
from taut.vision.joints import read_joints

_ROUNDS = 10  # of sizes and usual distances in turn
_LEAST = 0.01  # variance of the logarithm of a distance: below, none counts for more
_TINY = 1e-12  # what is added to costs: a sparse matrix takes 0 for no edge


class JointPose(NamedTuple):
    """Where the parts of the object in an image are."""

    joints: np.ndarray  # (n_parts, 2), float64: x and y in pixels; any where a joint is not seen
    visible: np.ndarray  # (n_parts,), bool
    aspects: np.ndarray  # (n_parts,), int: the number of each part's aspect
    size: float  # of the object in pixels, in the measure that `sizes_of` or you choose


class Aspects(NamedTuple):
    """Clusters of where parts are, relative to their parents."""

    centres: list[np.ndarray]  # of each part, (n_aspects, 2), in sizes of the object
    numbers: np.ndarray  # (n, n_parts), int: the cluster of each joint

    @property
    def counts(self) -> np.ndarray:
        """How many aspects each part has."""
        return np.array([len(own) for own in self.centres])


def check_parents(parents: ArrayLike) -> np.ndarray:
    """The parent of each part, -1 of the root, if they are a tree; the numbers as int64.

    Raises
    ------
    InvalidData
        There is no root, or more than one, or a cycle.

    Examples
    --------
    >>> from taut.vision.poses import check_parents
    >>> check_parents([1, -1, 1])
    array([ 1, -1,  1])
    """
    given = np.asarray(parents)
    if given.ndim != 1 or given.dtype.kind not in "iu" or not len(given):
        raise InvalidData(f"parents = {parents!r}: give the number of each part's parent, and -1")
    above = given.astype(np.int64)
    roots = np.flatnonzero(above == -1)
    if len(roots) != 1:
        raise InvalidData(
            f"parents has {len(roots)} roots, parts {roots.tolist()}: give -1 to one part, and "
            "each other part its parent"
        )
    if (above < -1).any() or (above >= len(above)).any():
        raise InvalidData(f"parents has numbers of no part: parts are 0 to {len(above) - 1}")
    reached = roots
    while True:
        grown = np.union1d(reached, np.flatnonzero(np.isin(above, reached)))
        if len(grown) == len(reached):
            break
        reached = grown
    rest = np.setdiff1d(np.arange(len(above)), reached)
    if len(rest):
        raise InvalidData(
            f"parents has a cycle among parts {rest.tolist()}: none of them comes from the root "
            f"{roots[0]}; give a tree"
        )
    return above


def sizes_of(joints: ArrayLike, visible: ArrayLike) -> np.ndarray:
    """How large each object is in pixels, by the distances between its joints.

    Distances are compared with the usual ones of the same two joints, so that an object of which
    few joints are seen, or that is bent, has about the size that it has otherwise. Those that vary
    little count most. The unit is the mean of the usual distances.

    Parameters
    ----------
    joints : array-like of shape (n, n_parts, 2)
    visible : array-like of bool, shape (n, n_parts)

    Returns
    -------
    ndarray of shape (n,)
        The median of the others where no two joints are seen apart.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.poses import sizes_of
    >>> joints = np.array([[[0, 0], [0, 2], [0, 4]], [[0, 0], [0, 4], [0, 8]]])
    >>> sizes_of(joints, [[True] * 3, [True, True, False]])
    array([2.66..., 5.33...])
    """
    places, seen = read_joints(joints, visible)
    a, b = np.triu_indices(places.shape[1], 1)
    apart = np.linalg.norm(places[:, a] - places[:, b], axis=2)
    known = seen[:, a] & seen[:, b] & (apart > 0.0)
    if not known.any():
        raise InvalidData("no object has two visible joints in different places: give sizes")
    logs = np.ma.array(np.log(np.where(known, apart, 1.0)), mask=~known)
    sizes = np.ma.mean(logs, axis=1)
    for _ in range(_ROUNDS):
        usual = np.ma.mean(logs - sizes[:, None], axis=0)
        deviations = logs - usual[None, :]
        spread = np.ma.var(deviations - sizes[:, None], axis=0)
        sizes = np.ma.average(deviations, axis=1, weights=1.0 / (spread.filled(0.0) + _LEAST))
    unit = np.exp(usual.compressed()).mean()
    return np.exp(sizes.filled(np.ma.median(sizes))) * unit


def tree_of(
    joints: ArrayLike, visible: ArrayLike, sizes: ArrayLike | None = None, root: int | None = None
) -> np.ndarray:
    """The tree whose edges keep their length and direction best, over training objects.

    A minimum spanning tree, where an edge costs the variance of where the one joint is relative to
    the other, in sizes of the object.

    Parameters
    ----------
    joints : array-like of shape (n, n_parts, 2)
    visible : array-like of bool, shape (n, n_parts)
    sizes : array-like of shape (n,), optional
        Of the objects in pixels; those of `sizes_of` by default.
    root : int, optional
        The part with most edges by default.

    Returns
    -------
    ndarray of int64, shape (n_parts,)
        The parent of each part, -1 of the root.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.poses import tree_of
    >>> rng = np.random.default_rng(0)
    >>> steps = [[0, 0], [0, 5], [0, 5]] + rng.normal(size=(50, 3, 2))
    >>> tree_of(np.cumsum(steps, axis=1), np.ones((50, 3), dtype=bool))
    array([ 1, -1,  1])
    """
    places, seen = read_joints(joints, visible)
    scaled = places / _sizes(sizes, places, seen)[:, None, None]
    n_parts = places.shape[1]
    cost = np.zeros((n_parts, n_parts))
    for p, q in zip(*np.triu_indices(n_parts, 1), strict=True):
        both = seen[:, p] & seen[:, q]
        if not both.any():
            continue  # without an edge
        cost[p, q] = (scaled[both, p] - scaled[both, q]).var(axis=0).sum() + _TINY
    edges = minimum_spanning_tree(csr_array(cost))
    if edges.nnz != n_parts - 1:
        raise InvalidData(
            "some parts are never visible together with others, so that no tree of all parts can "
            "be found: leave out parts that are hardly ever visible, or give the tree"
        )
    degrees = np.bincount(np.concatenate(edges.nonzero()), minlength=n_parts)
    if root is not None and root not in range(n_parts):
        raise InvalidData(f"root = {root!r}: give the number of a part, 0 to {n_parts - 1}")
    top = int(degrees.argmax()) if root is None else root
    above = breadth_first_order(edges, top, directed=False)[1].astype(np.int64)
    above[top] = -1
    return above


def aspects_of(
    joints: ArrayLike,
    visible: ArrayLike,
    parents: ArrayLike,
    count: int,
    sizes: ArrayLike | None = None,
    random_state: int = 0,
) -> Aspects:
    """How each part may look: clusters of where it is relative to its parent.

    The root is seen relative to the mean of its visible children. A joint whose relative place is
    not known has the most frequent aspect of its part.

    Parameters
    ----------
    joints : array-like of shape (n, n_parts, 2)
    visible : array-like of bool, shape (n, n_parts)
    parents : array-like of int, shape (n_parts,)
        As of `tree_of`.
    count : int
        Aspects of a part, at most: there are no more than different places.
    sizes : array-like of shape (n,), optional
        Of the objects in pixels; those of `sizes_of` by default.
    random_state : int, default=0

    Returns
    -------
    Aspects
        Clusters and their centres, those that are highest in the image first.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.poses import aspects_of
    >>> joints = np.array([[[0, 0], [2, 0]], [[0, 0], [-2, 0]], [[5, 5], [7, 5]]])
    >>> found = aspects_of(joints, np.ones((3, 2), dtype=bool), [-1, 0], count=2)
    >>> found.numbers[:, 1], found.centres[1]
    (array([1, 0, 1]), array([[-1.,  0.],
           [ 1.,  0.]]))
    """
    from sklearn.cluster import KMeans  # which takes long to import

    places, seen = read_joints(joints, visible)
    above = check_parents(parents)
    if len(above) != places.shape[1]:
        raise InvalidData(f"parents has {len(above)} parts, joints have {places.shape[1]}")
    check_number("count", count)
    if count < 1:
        raise InvalidData(f"count = {count}: give at least 1 aspect for each part")
    scaled = places / _sizes(sizes, places, seen)[:, None, None]
    numbers = np.zeros(seen.shape, dtype=np.int64)
    centres = []
    for p in range(len(above)):
        relative, known = _relative(scaled, seen, above, p)
        if not known.any():
            centres.append(np.zeros((1, 2)))
            continue
        n_different = len(np.unique(relative[known], axis=0))
        means = KMeans(min(count, n_different), n_init=5, random_state=random_state)
        own = means.fit_predict(relative[known])
        order = np.lexsort(means.cluster_centers_.T)
        renumbered = np.argsort(order)[own]
        numbers[:, p] = np.bincount(renumbered).argmax()
        numbers[known, p] = renumbered
        centres.append(means.cluster_centers_[order])
    return Aspects(centres, numbers)


def checked_pose(given: JointPose, counts: np.ndarray, i: int) -> JointPose:
    """The pose of image i, whose parts have so many aspects, checked; 0 for what is not seen."""
    joints, seen = read_joints(np.asarray(given.joints)[None], np.asarray(given.visible)[None])
    aspects, visible = np.asarray(given.aspects), seen[0]
    if visible.shape != counts.shape or aspects.shape != counts.shape:
        raise InvalidData(
            f"the pose of image {i} has {len(visible)} joints and aspects of shape "
            f"{aspects.shape}: give one of each to all {len(counts)} parts"
        )
    wrong = visible & ((aspects < 0) | (aspects >= counts))
    if aspects.dtype.kind not in "iu" or wrong.any():
        p = int(np.argmax(wrong))
        raise InvalidData(
            f"aspect {aspects[p]} of part {p} in image {i}: give a whole number from 0 to "
            f"{counts[p] - 1}"
        )
    size = float(given.size)
    if visible.any() and not (np.isfinite(size) and size > 0.0):
        raise InvalidData(f"the size of the object in image {i} is {size}: give pixels above 0")
    return JointPose(joints[0], visible, np.where(visible, aspects, 0).astype(np.int64), size)


def mirrored_joints(
    joints: ArrayLike, visible: ArrayLike, widths: ArrayLike, swaps: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """The joints of mirrored images, where left parts are what right ones were.

    Parameters
    ----------
    joints : array-like of shape (n, n_parts, 2)
    visible : array-like of bool, shape (n, n_parts)
    widths : array-like of shape (n,)
        Of the images in pixels.
    swaps : array-like of int, shape (n_parts,)
        Which part each is in the mirrored image: the left elbow for the right one, and itself for
        the neck.

    Returns
    -------
    joints, visible

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.poses import mirrored_joints
    >>> left_and_right = np.array([[[10, 5], [40, 6]]])
    >>> mirrored_joints(left_and_right, [[True, False]], [100], [1, 0])[0]
    array([[[100.,   0.],
            [ 90.,   5.]]])
    """
    places, seen = read_joints(joints, visible)
    order, own = np.asarray(swaps), np.arange(seen.shape[1])
    if not np.array_equal(np.sort(order, axis=None), own) or (order[order] != own).any():
        raise InvalidData(
            f"swaps = {order.tolist()}: give for each part the one that it changes places with, or "
            "itself"
        )
    across = np.asarray(as_numbers(widths, "widths"), dtype=np.float64)
    if across.shape != places.shape[:1]:
        raise InvalidData(f"widths has shape {across.shape}: give one to each of {len(places)}")
    places[:, :, 0] = across[:, None] - places[:, :, 0]
    return places[:, order], seen[:, order]


def _sizes(sizes: ArrayLike | None, places: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """The sizes that are given, checked, or those of the joints."""
    if sizes is None:
        return sizes_of(places, seen)
    given = np.asarray(as_numbers(sizes, "sizes"), dtype=np.float64)
    if given.shape != places.shape[:1] or not (np.isfinite(given) & (given > 0.0)).all():
        raise InvalidData(f"sizes have shape {given.shape}: give {len(places)} numbers above 0")
    return given


def _relative(
    scaled: np.ndarray, seen: np.ndarray, above: np.ndarray, p: int
) -> tuple[np.ndarray, np.ndarray]:
    """Where a part is relative to its parent, or to its children; and of which objects."""
    others = np.flatnonzero(above == p) if above[p] < 0 else above[[p]]
    weights = seen[:, others].astype(np.float64)
    totals = weights.sum(axis=1)
    means = np.einsum("no,nox->nx", weights, scaled[:, others]) / np.maximum(totals, 1.0)[:, None]
    return scaled[:, p] - means, seen[:, p] & (totals > 0.0)
