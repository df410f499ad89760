"""Labels in a space: scores, features and inner products, all by walks over their parts.

With phi(x_i, label) = A_i s(label), a structure says once which of the block's potentials a label
is made of, and how often: for each it adds `part(each, index, amount)` to a sum, which it returns.
What that does is chosen by the type of `each` when the caller is compiled. The functions below
build what loops around `Operations` do by such walks: the oracles of a structure and the functions
of a space together. Loops share what is built of the same functions: it is compiled once.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from taut.compiled.jit import helper
from taut.compiled.lanes import aligned_zeros, unit_of
from taut.compiled.linking import CHOSEN

_ALL = 2**31  # more than there are potentials: none goes to a tail
_ROUNDING = 8.0  # units in the last place of the largest scale that may be left where scales cancel


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


class Alone(NamedTuple):
    """As `Gather`, of potentials that are not there: each is computed by itself, from w."""

    space: tuple
    block: int
    w: np.ndarray


class Cleared(NamedTuple):
    """The walk sets the statistics of a label to 0."""

    statistics: np.ndarray


class Flushed(NamedTuple):
    """The walk adds features of statistics above `least` to w one by one, and sets these to 0."""

    space: tuple
    block: int
    statistics: np.ndarray
    least: float
    w: np.ndarray


class Onto(NamedTuple):
    """The walk adds scale times the features of each part to w, in spaces that have `Alone`."""

    space: tuple
    block: int
    w: np.ndarray
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


def _alone(each, index, amount):
    return single_potential(each.space, each.block, index, each.w) * each.w.dtype.type(amount)


def _cleared(each, index, amount):
    each.statistics[index] = 0.0
    return 0.0


def _flushed(each, index, amount):
    sum_of_amounts = each.statistics[index]
    each.statistics[index] = 0.0
    if abs(sum_of_amounts) > each.least:
        push_single(each.space, each.block, index, sum_of_amounts, each.w)
    return 0.0


def _onto(each, index, amount):
    push_single(each.space, each.block, index, each.scale * amount, each.w)
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
    Alone: _alone,
    Cleared: _cleared,
    Flushed: _flushed,
    Onto: _onto,
    Times: _times,
    Checked: _checked,
    Extent: _extent,
}


#: What computes a potential alone, `SpaceFunctions.single`, by the type of the space.
SINGLES: dict[type, Any] = {}

#: What adds the features of such a potential to w, by the type of the space.
PUSHES: dict[type, Any] = {}

#: What acts on the weights that such a potential reads, by the type of the space.
TOUCHES: dict[type, Any] = {}


def single_potential(space: Any, i: int, index: int, w: np.ndarray) -> float:
    """A potential of block i alone, in spaces that are among `SINGLES`."""
    raise TypeError("potentials are computed by compiled functions, not by Python")


@overload(single_potential, strict=False, jit_options=CHOSEN)
def _choose_single(space, i, index, w):
    return SINGLES[space.instance_class]


def touch_single(space: Any, i: int, index: int, action: Any) -> None:
    """Act on the weights that a potential of block i alone reads."""
    raise TypeError("weights are acted on by compiled functions, not by Python")


@overload(touch_single, strict=False, jit_options=CHOSEN)
def _choose_touch(space, i, index, action):
    return TOUCHES[space.instance_class]


def push_single(space: Any, i: int, index: int, amount: float, w: np.ndarray) -> None:
    """Add `amount` times the features of a potential to w, in spaces among `PUSHES`."""
    raise TypeError("features are added by compiled functions, not by Python")


@overload(push_single, strict=False, jit_options=CHOSEN)
def _choose_push(space, i, index, amount, w):
    return PUSHES[space.instance_class]


def part(each: Any, index: int, amount: float) -> float:
    """One part of a label: the number of its potential, and how often the label has it."""
    raise TypeError("parts of labels are walked over by compiled functions, not by Python")


@overload(part, strict=False, jit_options=CHOSEN | {"fastmath": {"contract", "nsz"}})
def _choose(each, index, amount):
    return _WALKS[each.instance_class]


def score_of(operations: Any) -> Any:
    """A function that returns <w, phi(label)>, from the potentials."""
    return _score(operations.parts)


@functools.cache
def _score(parts):
    def score(data, i, potentials, label):
        return parts(data, i, label, Gather(potentials))

    return helper(score)


def known_score_of(operations: Any) -> Any:
    """The same of a label that is known, for which not all potentials need to be there.

    Where they are not `pulled`, those of the label are computed one by one.
    """
    return _known_score(operations.parts, operations.single is not None)


@functools.cache
def _known_score(parts, has_single):
    ALONE = has_single

    def known_score(space, data, i, w, potentials, pulled, label):
        if ALONE and not pulled:
            return parts(data, i, label, Alone(space, i, w))
        return parts(data, i, label, Gather(potentials))

    return helper(known_score)


def adding_of(operations: Any) -> Any:
    """A function that adds sum_q scales[q] phi(labels[q]) to w; `statistics` is room for one."""
    if operations.single is not None:
        return _adding_alone(operations.parts)
    return _adding(operations.parts, operations.push, operations.n_own, operations.spill)


@functools.cache
def _adding(parts, push, n_own, spill):
    def add_labels(space, data, i, labels, scales, statistics, w):
        size = n_own(space, i, statistics)
        for p in range(size):
            statistics[p] = 0.0
        largest = 0.0
        for q in range(scales.shape[0]):
            if scales[q] != 0.0:
                parts(data, i, labels[q], spill(space, statistics, size, w, scales[q]))
                largest = max(largest, abs(scales[q]))
        least = _ROUNDING * unit_of(w) * largest
        push(space, i, statistics, size, least, w)

    return helper(add_labels)


@functools.cache
def _adding_alone(parts):
    """By the potentials of the labels: blocks have thousands of others."""

    def add_labels(space, data, i, labels, scales, statistics, w):
        largest = 0.0
        for q in range(scales.shape[0]):
            parts(data, i, labels[q], Cleared(statistics))
            largest = max(largest, abs(scales[q]))
        for q in range(scales.shape[0]):
            if scales[q] != 0.0:
                scale = scales[q]
                parts(data, i, labels[q], Scatter(statistics, statistics, _ALL, 0, scale))
        least = _ROUNDING * unit_of(w) * largest
        for q in range(scales.shape[0]):
            parts(data, i, labels[q], Flushed(space, i, statistics, least, w))

    return helper(add_labels)


class ProductRoom(NamedTuple):
    """Room for one thread, for w of one type; the weights in `space` are not bounded."""

    space: tuple
    scratch: np.ndarray  # zero, up to rounding, in between; empty where rows' products are known
    statistics: np.ndarray  # zero, up to rounding, in between
    lifted: np.ndarray

    @classmethod
    def of(cls, space: tuple, features: Any, scratch: np.ndarray) -> ProductRoom:
        """Room for blocks in a space, and a vector of the type of w."""
        size = features.n_potentials
        return cls(
            space, scratch, aligned_zeros(size, scratch.dtype), aligned_zeros(size, scratch.dtype)
        )


def products_of(operations: Any) -> Any:
    """A function that fills row[q] = <phi(label), phi(labels[q])>."""
    if operations.single is not None:
        return _products_alone(operations.parts)
    return _products(operations.parts, operations.lift, operations.n_all)


@functools.cache
def _products_alone(parts):
    def products(data, i, label, labels, room, row):
        space, scratch, statistics, _lifted = room
        parts(data, i, label, Cleared(statistics))
        parts(data, i, label, Scatter(statistics, statistics, _ALL, 0, 1.0))
        parts(data, i, label, Flushed(space, i, statistics, 0.0, scratch))
        for q in range(labels.shape[0]):
            row[q] = parts(data, i, labels[q], Alone(space, i, scratch))
        for j in range(scratch.shape[0]):
            scratch[j] = 0.0

    return helper(products)


@functools.cache
def _products(parts, lift, n_all):
    def products(data, i, label, labels, room, row):
        space, scratch, statistics, lifted = room
        size = n_all(space, i, statistics)
        parts(data, i, label, Scatter(statistics, statistics, size, 0, 1.0))
        end, factor = lift(space, i, statistics, size, scratch, lifted)
        for q in range(labels.shape[0]):
            row[q] = parts(data, i, labels[q], Lifted(lifted, statistics, end, factor))
        parts(data, i, label, Scatter(statistics, statistics, size, 0, -1.0))

    return helper(products)


def square_of(operations: Any) -> Any:
    """A function that returns |A_i s|^2 of statistics."""
    return _square(operations.lift)


@functools.cache
def _square(lift):
    def square(room, i, statistics, size):
        space, scratch, _zero, lifted = room
        end, factor = lift(space, i, statistics, size, scratch, lifted)
        total = 0.0
        for p in range(end):
            total += statistics[p] * lifted[p]
        rest = 0.0
        for p in range(end, size):
            rest += statistics[p] * statistics[p]
        return total + factor * rest

    return helper(square)
