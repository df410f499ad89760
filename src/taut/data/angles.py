"""Angles in radians: what is one, how far two are apart, and grids of them."""

from __future__ import annotations

import reprlib
from typing import Any

import numpy as np

from taut.errors import InvalidData


def as_angles(labels: Any, name: str, advice: str = "give finite numbers") -> np.ndarray:
    """Finite numbers of at most a full turn, or InvalidData."""
    try:
        angles = np.asarray(labels, np.float64)
    except (TypeError, ValueError):
        angles = np.full(1, np.nan)
    if angles.ndim != 1 or not np.isfinite(angles).all():
        raise InvalidData(
            f"{name} got {reprlib.repr(labels)}, which are no angles in radians: {advice}"
        )
    largest = np.abs(angles).max(initial=0.0)
    if largest > 2.0 * np.pi * (1.0 + 1e-6):  # probably degrees
        raise InvalidData(
            f"{name} got the angle {largest:g}, more than a full turn in radians: convert "
            "degrees by numpy.deg2rad, or take angles modulo 2 pi"
        )
    return angles


def grid_of(n: int) -> np.ndarray:
    """N equally spaced angles of the circle, from 0 on."""
    return 2.0 * np.pi * np.arange(n) / n


def nearest_angles(angles: np.ndarray, n: int) -> np.ndarray:
    """Which of `grid_of(n)` is nearest to each angle."""
    return np.floor(np.asarray(angles) * n / (2.0 * np.pi) + 0.5).astype(np.int64) % n


def turns(angles: Any, others: Any) -> np.ndarray:
    """How far angles are apart on the circle, from 0 to pi; arrays as numpy broadcasts them.

    Examples
    --------
    >>> from taut.data.angles import turns
    >>> turns(0.1, 6.2).round(3)
    np.float64(0.183)
    """
    apart = np.abs(np.subtract(angles, others)) % (2.0 * np.pi)
    return np.minimum(apart, 2.0 * np.pi - apart)
