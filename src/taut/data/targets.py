"""Numbers to be predicted, checked before any work is done."""

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from taut.data.arrays import as_numbers, check_finite
from taut.errors import InvalidData

__all__ = ["as_targets"]


def as_targets(y: Any, n: int, name: str = "y") -> np.ndarray:
    """The numbers of n rows as float64.

    Examples
    --------
    >>> as_targets([1, 2.5], 2)
    array([1. , 2.5])
    >>> as_targets([1, float("inf")], 2)
    Traceback (most recent call last):
        ...
    taut.errors.InvalidData: y contains infinity or a value too large for float64 at row 1; drop,
    clip or rescale such rows
    """
    targets = as_numbers(y, name).astype(np.float64, copy=False)
    if targets.ndim != 1:
        try:
            targets = column_or_1d(targets, warn=True)
        except ValueError as error:
            raise InvalidData(f"{name}: {error}; pass one number per row") from error
    if len(targets) != n:
        raise InvalidData(f"X has {n} rows, {name} has {len(targets)} numbers: give one to each")
    check_finite(targets, name)
    return targets
