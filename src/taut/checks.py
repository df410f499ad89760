"""Checks of single parameters: what was given, and what to give instead."""

import os
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from taut.errors import InvalidType

__all__ = ["as_path", "check_flag", "check_number"]


def check_number(name: str, value: Any) -> None:
    """Refuse what cannot be compared with a number; whether it is in range is for others to say.

    Examples
    --------
    >>> check_number("C", "1")
    Traceback (most recent call last):
        ...
    taut.errors.InvalidType: C = '1': give a number
    """
    if not isinstance(value, Real) or value != value:
        raise InvalidType(f"{name} = {value!r}: give a number")


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False, nor 1 or 0.

    Examples
    --------
    >>> check_flag("fit_intercept", "no")
    Traceback (most recent call last):
        ...
    taut.errors.InvalidType: fit_intercept = 'no': give True or False
    """
    if not isinstance(value, bool | np.bool_ | Integral) or value not in (0, 1):
        raise InvalidType(f"{name} = {value!r}: give True or False")


def as_path(name: str, value: Any) -> Path:
    """A path as such; numbers, which the system takes for open files, are refused.

    Examples
    --------
    >>> as_path("path", 3)
    Traceback (most recent call last):
        ...
    taut.errors.InvalidType: path = 3: give the path of a file, as text or as a path object
    """
    if not isinstance(value, str | os.PathLike):
        raise InvalidType(
            f"{name} = {value!r}: give the path of a file, as text or as a path object"
        )
    return Path(value)
