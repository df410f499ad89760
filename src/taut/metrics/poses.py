"""Measures of poses: angles of objects, and boxes with them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from taut.data.angles import as_angles, turns
from taut.data.arrays import as_numbers
from taut.errors import InvalidData
from taut.vision.boxes import FoundPoses, paired_overlaps


def angle_errors(found: ArrayLike, truths: ArrayLike) -> np.ndarray:
    """How far each angle is from the true one on the circle, in radians from 0 to pi.

    Parameters
    ----------
    found, truths : array-like of shape (n,)
        Angles in radians.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    InvalidData
        Angles are not finite, or more than a full turn, or there are more of the one than of the
        other.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import angle_errors
    >>> np.rad2deg(angle_errors(np.deg2rad([350.0, 90.0]), np.deg2rad([10.0, 45.0]))).round(6)
    array([20., 45.])
    """
    own, wanted = as_angles(found, "angle_errors"), as_angles(truths, "angle_errors")
    if own.shape != wanted.shape:
        raise InvalidData(f"{len(own)} angles were found and {len(wanted)} are true: give as many")
    return turns(own, wanted)


def pose_losses(found: FoundPoses, edges: ArrayLike, angles: ArrayLike) -> np.ndarray:
    """What `taut.PoseSVM` counts: (1 - overlap) / 2 + d / (2 pi), with the angle d from the truth.

    Parameters
    ----------
    found : FoundPoses
    edges : array-like of shape (n, 4)
        The true boxes: left, top, right, bottom.
    angles : array-like of shape (n,)
        The true angles in radians.

    Returns
    -------
    ndarray of shape (n,)
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.metrics import pose_losses
    >>> from taut.vision import FoundPoses
    >>> found = FoundPoses(np.array([[0.0, 0.0, 10.0, 5.0]]), np.array([np.pi]), np.zeros(1))
    >>> pose_losses(found, [[0.0, 0.0, 10.0, 10.0]], [0.0])
    array([0.75])
    """
    turned = angle_errors(found.angles, angles)
    wanted = np.asarray(as_numbers(edges, "boxes"), dtype=np.float64)
    if wanted.shape != np.shape(found.edges):
        raise InvalidData(
            f"boxes have shape {wanted.shape}, and those that were found {np.shape(found.edges)}: "
            "give left, top, right and bottom of one box for each image"
        )
    common = paired_overlaps(found.edges, wanted)
    return 0.5 * (1.0 - common) + turned / (2.0 * np.pi)
