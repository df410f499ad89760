"""Checks of single parameters: what was given, and what to give instead."""

import os
from collections.abc import Collection
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from taut.errors import InvalidData, InvalidType


def check_number(name: str, value: Any) -> None:
    """Refuse what cannot be compared with a number; whether it is in range is for others to say."""
    if not isinstance(value, Real) or value != value:
        raise InvalidType(f"{name} = {value!r}: give a number")


def check_positive(name: str, value: Any) -> float:
    """A finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InvalidType(f"{name} = {value!r}: give a positive number")
    if not (np.isfinite(value) and value > 0.0):
        raise InvalidData(f"{name} = {value}: give a finite number above 0")
    return float(value)


def as_share(name: str, value: Any) -> float:
    """A number from 0 to 1."""
    check_number(name, value)
    if not 0.0 <= value <= 1.0:
        raise InvalidData(f"{name} = {float(value):g}: give a number from 0 to 1")
    return float(value)


def check_flag(name: str, value: Any) -> None:
    """Refuse what is neither True nor False, nor 1 or 0."""
    if not isinstance(value, bool | np.bool_ | Integral) or value not in (0, 1):
        raise InvalidType(f"{name} = {value!r}: give True or False")


def check_choice(name: str, value: Any, choices: Collection[str]) -> None:
    """Refuse what is none of the words that a parameter may be."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidData(f"{name} = {value!r}: give one of {choices}")


def as_path(name: str, value: Any) -> Path:
    """A path as such; numbers, which the system takes for open files, are refused."""
    if not isinstance(value, str | os.PathLike):
        raise InvalidType(
            f"{name} = {value!r}: give the path of a file, as text or as a path object"
        )
    return Path(value)
