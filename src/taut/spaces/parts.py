"""Parts of labels: one walk over them gives scores, or statistics.

With phi(x_i, label) = A_i s(label), a structure says once which of the block's potentials a label
is made of, and how often: for each it adds `part(each, index, amount)` to a sum, which it returns.
What that does is chosen by the type of `each` when the caller is compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from taut.compiled.linking import CHOSEN

COMPILED_ONLY = "parts of labels are walked over by compiled functions, not by Python"


class Gather(NamedTuple):
    """The walk returns <potentials, s(label)>, a score."""

    potentials: np.ndarray


class Lifted(NamedTuple):
    """The same where potentials from number `size` on are statistics times a factor."""

    potentials: np.ndarray
    statistics: np.ndarray
    size: int
    factor: float


class Scatter(NamedTuple):
    """The walk adds scale s(label) to statistics, and from number `size` on straight to `tail`."""

    statistics: np.ndarray
    tail: np.ndarray
    size: int
    shift: int
    scale: float


class Times(NamedTuple):
    """Any of these, with all amounts multiplied by a factor."""

    each: Any
    factor: float


class Checked(NamedTuple):
    """As `Gather`, of what may be no label of the block: NaN for potentials that are not there."""

    potentials: np.ndarray


class Extent(NamedTuple):
    """The walk widens the range from reached[0] to reached[1] to the potentials that it names."""

    reached: np.ndarray


def _gather(each, index, amount):
    return each.potentials[index] * each.potentials.dtype.type(amount)


def _lifted(each, index, amount):
    if index < each.size:
        return each.potentials[index] * amount
    return each.factor * each.statistics[index] * amount


def _scatter(each, index, amount):
    change = each.statistics.dtype.type(each.scale * amount)
    if index < each.size:
        each.statistics[index] += change
    else:
        each.tail[index + each.shift] += change
    return 0.0


def _times(each, index, amount):
    return part(each.each, index, amount * each.factor)


def _checked(each, index, amount):
    if index < 0 or index >= each.potentials.shape[0]:
        return np.nan
    return each.potentials[index] * amount


def _extent(each, index, amount):
    each.reached[0] = min(each.reached[0], index)
    each.reached[1] = max(each.reached[1], index)
    return 0.0


_WALKS = {
    Gather: _gather,
    Lifted: _lifted,
    Scatter: _scatter,
    Times: _times,
    Checked: _checked,
    Extent: _extent,
}


def part(each: Any, index: int, amount: float) -> float:
    """One part of a label: the number of its potential, and how often the label has it."""
    raise TypeError(COMPILED_ONLY)


@overload(part, strict=False, jit_options=CHOSEN | {"fastmath": {"contract", "nsz"}})
def _choose(each, index, amount):
    return _WALKS[each.instance_class]
