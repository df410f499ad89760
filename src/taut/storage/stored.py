"""What comes from a file must be before it is used: types, shapes, ranges, feasible dual variables.

Compiled code has no bounds checks, and a certificate is as true as the dual variables are feasible.
Each form of state therefore declares what its arrays must be, and one function compares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from taut.errors import InvalidContent

_ROUNDING = 1e-9  # relative, of sums of dual variables
_LARGEST_COUNT = 2**53  # up to here the same as floats
#: Numbers of any input beyond this are refused: products of two of them with a weight, summed up,
#: stay finite.
LARGEST = 1e100
_LARGEST_SINGLE = 1e15  # the same where sums are those of single precision

Types = dict[str, Callable[[Any], bool]]
_TYPES: Types = {
    # bool is a subclass of int.
    "int": lambda value: isinstance(value, Integral) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, Real) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
    "None": lambda value: value is None,
}
#: As users give parameters: 0 for False, 1 for 1.0.
LOOSE_TYPES: Types = _TYPES | dict.fromkeys(
    ("int", "float", "bool"), lambda value: isinstance(value, Real)
)


class Stored(NamedTuple):
    """What an array must be: its type, its shape, the range of its values.

    A length of None may be any. Several types are given one after the other, as in "f4 f8". Values
    are finite unless `infinite`, and never NaN.
    """

    dtype: str
    shape: tuple[int | None, ...]
    low: float = -math.inf
    high: float = math.inf
    infinite: bool = False


def vector(size: int) -> Stored:
    """Weights or the like, in single or double precision."""
    return Stored("f4 f8", (size,))


def check(arrays: Mapping[str, np.ndarray], expected: Mapping[str, Stored]) -> None:
    """Refuse arrays that are missing, or of another type, shape or range than expected."""
    for name, form in expected.items():
        if name not in arrays:
            raise InvalidContent(f"{name} is missing")
        array = arrays[name]
        if array.dtype not in [np.dtype(dtype) for dtype in form.dtype.split()]:
            raise InvalidContent(f"{name} has dtype {array.dtype} instead of {form.dtype}")
        shape = array.shape
        if len(shape) != len(form.shape) or any(
            wanted not in (None, given) for given, wanted in zip(shape, form.shape)
        ):
            raise InvalidContent(f"{name} has shape {shape} instead of {form.shape}")
        if array.dtype.kind == "f" and not form.infinite and not np.isfinite(array).all():
            raise InvalidContent(f"{name} has values that are not finite")
        # So written that NaN is refused too.
        if array.size and not (array.min() >= form.low and array.max() <= form.high):
            raise InvalidContent(f"{name} has values outside {form.low}..{form.high}")


def require(truth: Any, fault: str) -> None:
    """Refuse what is not as it must be."""
    if not np.all(truth):
        raise InvalidContent(fault)


def check_near(stored: Any, again: Any, rounding: float, fault: str) -> None:
    """Refuse numbers that differ from those computed again by more than rounding.

    `rounding` is relative to the largest of both: where all are zero, nothing may differ.
    """
    size = max(float(np.abs(values).max(initial=0.0)) for values in (stored, again))
    require(np.abs(np.subtract(stored, again)) <= rounding * size, fault)


def largest(dtype: np.dtype) -> float:
    """The largest number of this type to compute with."""
    return _LARGEST_SINGLE if dtype == np.float32 else LARGEST


def check_size(name: str, array: np.ndarray) -> None:
    """Refuse numbers that are not finite, or so large that squares and their sums are not."""
    size = max(-float(array.min()), float(array.max())) if array.size else 0.0
    limit = largest(array.dtype)
    require(size <= limit, f"{name} has values that are not finite, or larger than {limit:g}")


def check_totals(total: np.ndarray, weight: np.ndarray, whole: Any = True) -> None:
    """Refuse dual variables whose sums are not the blocks' weights, or at most these.

    `whole` says of which blocks the sum is the weight.
    """
    rounding = _ROUNDING * weight
    require(total <= weight + rounding, "dual variables exceed the weights of their blocks")
    require((total >= weight - rounding) | ~np.asarray(whole), "dual variables are missing")


def number(text: Any, kind: type, name: str, low: float = -math.inf) -> Any:
    """A number, or True or False, from its text."""
    if not isinstance(text, str):
        raise InvalidContent(f"{name} = {text!r:.50}: it must be text")
    if kind is bool:
        require(text in ("True", "False"), f"{name} = {text!r:.50}: it must be True or False")
        return text == "True"
    try:
        value = kind(text)
    except ValueError:
        raise InvalidContent(f"{name} = {text!r:.50} is not a number") from None
    high = _LARGEST_COUNT if kind is int else math.inf
    require(low <= value <= high, f"{name} = {text:.50} is out of range")
    return value


def check_types(cls: Any, values: Mapping[str, Any], types: Types = _TYPES) -> None:
    """Refuse values that are not of the types that a dataclass declares for its fields.

    `types` has the simple ones; where there are others, nothing is looked at. Numbers are not NaN.
    """
    known = {each.name: each for each in fields(cls)}
    for name, value in values.items():
        require(name in known, f"{cls.__name__} has no {name!r:.50}")
        words = [word.strip() for word in str(known[name].type).split("|")]
        if any(word not in types for word in words):
            continue
        fits = any(types[word](value) for word in words)
        require(
            fits and value == value,
            f"{cls.__name__}.{name} = {value!r:.50}: it must be {known[name].type}",
        )


def restore_generator(rng: np.random.Generator, state: Any) -> None:
    """Let a generator go on from a state that was stored."""
    before = rng.bit_generator.state
    try:
        rng.bit_generator.state = state
        rng.bit_generator.state = rng.bit_generator.state
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        rng.bit_generator.state = before
        raise InvalidContent(f"the random state is invalid ({error!r:.100})") from error
