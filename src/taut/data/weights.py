"""Weights of blocks, checked before any work is done."""

from typing import Any

import numpy as np

from taut.data.arrays import as_numbers, check_finite
from taut.errors import InvalidData

__all__ = ["check_sample_weight"]


def check_sample_weight(
    sample_weight: Any, n: int, name: str = "sample_weight", unit: str = "row of X"
) -> np.ndarray:
    """Check weights of blocks.

    Parameters
    ----------
    sample_weight : None, number or array-like of shape (n,)
        None stands for 1; a number for that number everywhere.
    n : int
    name, unit : str
        What errors call it, and what has a weight.

    Returns
    -------
    ndarray of float64, shape (n,)

    Raises
    ------
    InvalidData
        The shape differs, a weight is NaN, infinite or negative, or all are zero.

    Examples
    --------
    >>> check_sample_weight(2, 3)
    array([2., 2., 2.])
    """
    if sample_weight is None:
        return np.ones(n)
    weight = as_numbers(sample_weight, name).astype(np.float64, copy=False)
    if weight.ndim == 0:
        weight = np.full(n, weight)
    if weight.shape != (n,):
        raise InvalidData(
            f"{name} has shape {weight.shape}, expected {(n,)}; pass one weight per {unit}"
        )
    check_finite(weight, name)
    if n and weight.min() < 0:
        i = int(np.argmax(weight < 0))
        raise InvalidData(f"{name}[{i}] = {weight[i]} is negative; pass weights >= 0")
    if not weight.any():
        raise InvalidData(f"{name} is zero everywhere; give at least one {unit} a positive weight")
    return weight
