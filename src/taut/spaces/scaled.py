"""A space seen through a prior: passes work on v = R w, structures see the potentials of w."""

from __future__ import annotations

import functools

from taut.compiled.jit import helper
from taut.spaces.linear import SpaceFunctions, through_weights
from taut.spaces.scaling import Adding, Reading


@functools.cache
def through_scaling(functions: SpaceFunctions, allocates: bool) -> SpaceFunctions:
    """What compiled code does in a `ScaledSpace`: for vectors v and psi there."""
    inside = SpaceFunctions(*(helper(function, allocates) for function in functions))
    own_ask, own_pull, own_push, own_touch = inside.ask, inside.pull, inside.push, inside.touch
    own_n_own, own_n_all, own_square = inside.n_own, inside.n_all, inside.square

    def ask(space, i):
        own_ask(space.inside, i)

    def pull(space, i, w, theta):
        own_touch(space.inside, i, Reading(space.scaling, w))
        own_pull(space.inside, i, space.scaling.weights, theta)

    def push(space, i, s, size, least, w):
        own_push(space.inside, i, s, size, least, space.scaling.sums)
        own_touch(space.inside, i, Adding(space.scaling, w))

    def square(space, i):
        return own_square(space.inside, i)

    def n_own(space, i, s):
        return own_n_own(space.inside, i, s)

    def n_all(space, i, s):
        return own_n_all(space.inside, i, s)

    def touch(space, i, action):
        own_touch(space.inside, i, action)

    return SpaceFunctions(
        ask, pull, push, through_weights(pull, push, allocates), square, n_own, n_all, touch
    )
