"""Weights of blocks, checked before any work is done."""

from typing import Any

import numpy as np

from taut.data.arrays import as_numbers, check_finite
from taut.errors import InvalidData


def check_sample_weight(
    sample_weight: Any, n: int, name: str = "sample_weight", unit: str = "row of X"
) -> np.ndarray:
    """Check weights of n blocks: finite, not negative, not all zero.

    None stands for 1, a number for that number everywhere. Errors call them `name`, and what has a
    weight `unit`.

    Examples
    --------
    >>> check_sample_weight(2, 3)
    array([2., 2., 2.])
    """
    if sample_weight is None:
        return np.ones(n)
    weight = as_weights(sample_weight, n, name, unit)
    if not weight.any():
        raise InvalidData(f"{name} is zero everywhere; give at least one {unit} a positive weight")
    return weight


def as_weights(
    sample_weight: Any, n: int, name: str = "sample_weight", unit: str = "row of X"
) -> np.ndarray:
    """As `check_sample_weight`, for weights that may all be zero, such as those of a part."""
    return _not_negative(sample_weight, n, name, unit, "weight")


def _not_negative(values: Any, n: int, name: str, unit: str, what: str) -> np.ndarray:
    """As `per_block`, without negative numbers."""
    numbers = per_block(values, n, name, unit, what)
    if n and numbers.min() < 0.0:
        i = int(np.argmax(numbers < 0.0))
        raise InvalidData(f"{name}[{i}] = {numbers[i]} is negative; pass {what}s >= 0")
    return numbers


def per_block(values: Any, n: int, name: str, unit: str, what: str) -> np.ndarray:
    """Finite numbers, one per block or one for all, as float64 of shape (n,).

    A copy: what the caller does to the values while they are in use changes nothing.
    """
    numbers = as_numbers(values, name).astype(np.float64)
    if numbers.ndim == 0:
        numbers = np.full(n, numbers)
    if numbers.shape != (n,):
        raise InvalidData(
            f"{name} has shape {numbers.shape}, expected {(n,)}; pass one {what} per {unit}"
        )
    check_finite(numbers, name)
    return numbers


def check_margin(margin: Any, n: int) -> np.ndarray:
    """Margins of n rows: finite numbers >= 0, one for each or one for all."""
    return _not_negative(margin, n, "margin", "row", "margin")
