"""A space seen through a prior: passes work on v = R w, structures see the potentials of w."""

from __future__ import annotations

import functools

from taut.compiled.jit import helper
from taut.spaces.labels import PUSHES, SINGLES, push_single, single_potential, touch_single
from taut.spaces.linear import SpaceFunctions, through_weights
from taut.spaces.scaling import Adding, Reading, ScaledSpace, UnscaledSpace


@functools.cache
def through_scaling(functions: SpaceFunctions, allocates: bool) -> SpaceFunctions:
    """What compiled code does in a `ScaledSpace`: for vectors v and psi there."""
    inside = SpaceFunctions(*(f and helper(f, allocates) for f in functions))
    own_pull, own_push, own_touch, own_spill = inside.pull, inside.push, inside.touch, inside.spill

    def pull(space, i, w, theta):
        own_touch(space.inside, i, Reading(space.scaling, w))
        own_pull(space.inside, i, space.scaling.weights, theta)

    def push(space, i, s, size, least, w):
        own_push(space.inside, i, s, size, least, space.scaling.sums)
        own_touch(space.inside, i, Adding(space.scaling, w))

    def spill(space, s, size, w, scale):
        return own_spill(space.inside, s, size, space.scaling.sums, scale)

    def rise(space, i):
        return space.rises[i]

    return SpaceFunctions(
        _of_block(inside.ask), pull, push, through_weights(pull, push, allocates),
        _of_block(inside.square), _of_statistics(inside.n_own), _of_statistics(inside.n_all),
        None, spill, rise, functions.single and _single,
    )  # fmt: skip


def _single(space, i, index, w):
    """A potential of block i alone, of the weights that it reads."""
    touch_single(space.inside, i, index, Reading(space.scaling, w))
    return single_potential(space.inside, i, index, space.scaling.weights)


def _push_single(space, i, index, amount, w):
    """Add the features of a potential, through the weights that it reads."""
    push_single(space.inside, i, index, amount, space.scaling.sums)
    touch_single(space.inside, i, index, Adding(space.scaling, w))


SINGLES[ScaledSpace] = _single
PUSHES[ScaledSpace] = _push_single


def _single_unscaled(space, i, index, w):
    """A potential of block i alone, of weights as they are."""
    return single_potential(space.inside, i, index, w)


def _push_single_unscaled(space, i, index, amount, w):
    """Add the features of a potential to weights as they are."""
    push_single(space.inside, i, index, amount, w)


SINGLES[UnscaledSpace] = _single_unscaled
PUSHES[UnscaledSpace] = _push_single_unscaled


def _of_block(function):
    """The same function of a block."""

    def call(space, i):
        return function(space.inside, i)

    return call


def _of_statistics(function):
    """The same function of a block's statistics."""

    def call(space, i, s):
        return function(space.inside, i, s)

    return call
