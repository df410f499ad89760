"""Measures of where joints are: of bodies, hands, or other objects that have named points."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taut.checks import check_number
from taut.data.arrays import as_numbers, show
from taut.errors import InvalidData
from taut.vision.joints import as_limbs, as_visible, joint_boxes, read_joints


class RightShares(NamedTuple):
    """The share that is right: of all that count, and of each joint or limb."""

    mean: float  # of all that count, over all objects
    each: np.ndarray  # of each joint or limb, NaN of one that counts in no object
    counts: np.ndarray  # in how many objects each counts


def pck(
    found: ArrayLike,
    joints: ArrayLike,
    visible: ArrayLike | None = None,
    share: float = 0.2,
    *,
    between: tuple[int, int] | None = None,
    lengths: ArrayLike | None = None,
) -> RightShares:
    """Share of joints that are found near enough: the percentage of correct keypoints.

    A joint is right within `share` of a reference length of its object. Joints that are not visible
    in the truth do not count.

    Parameters
    ----------
    found : array-like of shape (n, n_joints, 2)
        Where joints were found. NaN is nowhere, and wrong.
    joints : array-like of shape (n, n_joints, 2)
        Where they are.
    visible : array-like of bool, shape (n, n_joints), optional
        Which of them are visible; by default those that are not NaN.
    share : float, default=0.2
        Of the reference length.
    between : pair of int, optional
        The reference length is the distance between these two joints, such as a shoulder and the
        opposite hip, and objects without them do not count. By default it is the larger side of the
        box around the visible joints.
    lengths : array-like of shape (n,), optional
        Reference lengths of your own, such as those of heads.

    Returns
    -------
    RightShares

    Raises
    ------
    InvalidData
        Shapes do not fit each other, or no joint counts.

    Examples
    --------
    >>> from taut.metrics import pck
    >>> joints = [[[0, 0], [0, 10], [0, 20]], [[0, 0], [10, 0], [40, 0]]]
    >>> found = [[[0, 1], [0, 15], [0, 21]], [[0, 0], [10, 7], [49, 0]]]
    >>> result = pck(found, joints)
    >>> round(result.mean, 3), result.each.tolist()
    (0.667, [1.0, 0.5, 0.5])
    """
    places, seen = read_joints(joints, visible)
    off = _distances(found, places)
    limit = _check_share("share", share) * _references(places, seen, between, lengths)
    return _shares(off <= limit[:, None], seen & (limit > 0.0)[:, None], "joint")


def pcp(
    found: ArrayLike,
    joints: ArrayLike,
    limbs: ArrayLike,
    visible: ArrayLike | None = None,
    share: float = 0.5,
) -> RightShares:
    """Share of limbs both of whose ends are found near enough: the percentage of correct parts.

    An end is right within `share` of the length of the limb, in the truth. Limbs with an end that
    is not visible in the truth do not count, nor do those without a length.

    Parameters
    ----------
    found, joints, visible
        As for `pck`.
    limbs : array-like of int, shape (n_limbs, 2)
        The two joints of each limb.
    share : float, default=0.5

    Returns
    -------
    RightShares
        Of each limb.

    Examples
    --------
    >>> from taut.metrics import pcp
    >>> joints = [[[0, 0], [0, 10], [0, 20]]]
    >>> pcp([[[0, 4], [0, 14], [0, 26]]], joints, [[0, 1], [1, 2]]).each.tolist()
    [1.0, 0.0]
    """
    places, seen = read_joints(joints, visible)
    ends = as_limbs(limbs, places.shape[1])
    off = _distances(found, places)[:, ends]
    length = np.linalg.norm(places[:, ends[:, 0]] - places[:, ends[:, 1]], axis=2)
    right = (off <= _check_share("share", share) * length[:, :, None]).all(axis=2)
    return _shares(right, seen[:, ends].all(axis=2) & (length > 0.0), "limb")


def visibility_accuracy(found: ArrayLike, visible: ArrayLike) -> RightShares:
    """Share of joints of which it was found whether they are visible.

    Parameters
    ----------
    found : array-like of bool, shape (n, n_joints)
        Which joints were found visible.
    visible : array-like of bool, shape (n, n_joints)
        Which are.

    Returns
    -------
    RightShares

    Examples
    --------
    >>> from taut.metrics import visibility_accuracy
    >>> visibility_accuracy([[True, True], [True, False]], [[True, False], [True, False]]).mean
    0.75
    """
    truth = np.asarray(visible)
    if truth.ndim != 2:
        raise InvalidData(
            f"visible has shape {truth.shape}: give True or False for each joint of each object"
        )
    answers = as_visible(found, truth.shape, "found")
    return _shares(answers == as_visible(truth, truth.shape), np.ones(truth.shape, bool), "joint")


def _distances(found: Any, places: np.ndarray) -> np.ndarray:
    """How far joints were found from where they are; infinite of those that were not found."""
    answers = np.asarray(as_numbers(found, "found"), dtype=np.float64)
    if answers.shape != places.shape:
        raise InvalidData(
            f"found has shape {answers.shape}, joints has {places.shape}: give both the same joints"
        )
    off = np.linalg.norm(answers - places, axis=2)
    return np.where(np.isnan(off), np.inf, off)


def _references(places: np.ndarray, seen: np.ndarray, between: Any, lengths: Any) -> np.ndarray:
    """The reference length of each object, 0 where it has none."""
    if between is not None and lengths is not None:
        raise InvalidData("between and lengths are both given: give one of them")
    if lengths is not None:
        given = np.asarray(as_numbers(lengths, "lengths"), dtype=np.float64)
        if given.shape != (len(places),) or not (np.isfinite(given) & (given > 0.0)).all():
            raise InvalidData(
                f"lengths has shape {given.shape}: give a number above 0 for each of the "
                f"{len(places)} objects"
            )
        return given
    if between is not None:
        a, b = as_limbs([between], places.shape[1], "between")[0]
        apart = np.linalg.norm(places[:, a] - places[:, b], axis=1)
        return np.where(seen[:, a] & seen[:, b], apart, 0.0)
    edges = joint_boxes(places, seen)
    return (edges[:, 2:] - edges[:, :2]).max(axis=1)


def _shares(right: np.ndarray, counted: np.ndarray, what: str) -> RightShares:
    counts = counted.sum(axis=0)
    if not counts.any():
        raise InvalidData(
            f"no {what} counts: give objects with a {what} that is visible, and of which the "
            "reference length is known"
        )
    hits = (right & counted).sum(axis=0)
    each = np.divide(hits, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return RightShares(float(hits.sum() / counts.sum()), each, counts)


def _check_share(name: str, value: Any) -> float:
    check_number(name, value)
    if not 0.0 < value < np.inf:
        raise InvalidData(f"{name} = {show(value)}: give a share of a length, above 0")
    return float(value)
