"""The regulariser and its conjugate: Fenchel and Young, and what a moving centre does to them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_allclose

from taut.spaces.quadratic import BoundedQuadratic, Quadratic

N = 4
NUMBERS = st.floats(-100.0, 100.0, width=32).map(float)
VECTORS = arrays(np.float64, N, elements=NUMBERS)
STRENGTHS = st.floats(0.0, 50.0, width=32).map(float)
BOUNDS = st.lists(st.booleans(), min_size=N, max_size=N).map(
    lambda mask: np.where(mask, 0.0, -1e30)
)
laws = settings(max_examples=60, deadline=None)


@st.composite
def quadratics(draw):
    """Some g with the shift and the bounds that it has."""
    if draw(st.booleans()):
        return Quadratic(), np.zeros(N), np.full(N, -1e30)
    shift, lower = draw(VECTORS), draw(BOUNDS)
    return BoundedQuadratic(shift, lower), shift, lower


def g(w, shift):
    return 0.5 * float((w - shift) @ (w - shift))


def conjugate(U, shift, lower):
    """max_w <U, w> - g(w), coordinate by coordinate."""
    u = np.maximum(shift + U, lower)
    return float(U @ u) - g(u, shift)


def close(a, b, *, scale):
    assert_allclose(a, b, atol=1e-9 * (1.0 + scale))


def size(*vectors):
    return sum(float(v @ v) for v in vectors)


@laws
@given(quadratics(), VECTORS, VECTORS)
def test_fenchel_and_young(made, v, U):
    quadratic, shift, lower = made
    w = np.maximum(v, lower)
    scale = size(w, U, shift)
    close(quadratic.value(v), g(w, shift), scale=scale)
    close(quadratic.conjugate(U), conjugate(U, shift, lower), scale=scale)
    assert quadratic.value(v) + quadratic.conjugate(U) >= U @ w - 1e-9 * (1.0 + scale)


@laws
@given(quadratics(), VECTORS, VECTORS)
def test_equality_where_v_is_placed_without_a_centre(made, z, U):
    quadratic, shift, lower = made
    v = np.zeros(N)
    quadratic.place(v, z, 0.0, U)
    w = np.maximum(v, lower)
    close(quadratic.value(v) + quadratic.conjugate(U), U @ w, scale=size(U, shift))


@laws
@given(quadratics(), VECTORS, VECTORS, VECTORS, STRENGTHS)
def test_surveys_are_what_they_say(made, U, z, before, kappa):
    """U is found again from where it was placed, with its conjugate, excess and move."""
    quadratic, shift, lower = made
    v, found = np.zeros(N), before.copy()
    quadratic.place(v, z, kappa, U)
    conjugated, excess, moved = quadratic.survey(v, z, kappa, found)
    scale = (1.0 + kappa) ** 2 * size(U, z, shift, before)
    close(found, U, scale=scale)
    w = np.maximum(v, lower)
    close(conjugated, conjugate(U, shift, lower), scale=scale)
    close(excess, g(w, shift) + conjugate(U, shift, lower) - U @ w, scale=scale)
    assert excess >= 0.0
    close(moved, size(U - before), scale=scale)


@laws
@given(quadratics(), VECTORS, VECTORS, STRENGTHS, STRENGTHS)
def test_moving_the_centre_keeps_the_dual_vector(made, U, z, old, new):
    quadratic, shift, lower = made
    v, centre = np.zeros(N), z.copy()
    quadratic.place(v, centre, old, U)
    w = np.maximum(v, lower)
    quadratic.move(v, centre, old, new)
    scale = (1.0 + old + new) ** 2 * size(U, z, shift)
    close(centre, w, scale=scale)
    found = np.zeros(N)
    quadratic.survey(v, centre, new, found)
    close(found, U, scale=scale)


@pytest.mark.parametrize("bounded", [False, True])
def test_the_conjugate_is_the_maximum(bounded, rng):
    """No w among many has more than g* says."""
    shift = rng.normal(size=N) if bounded else np.zeros(N)
    lower = np.array([0.0, -1e30, 0.0, -1e30]) if bounded else np.full(N, -1e30)
    quadratic = BoundedQuadratic(shift, lower) if bounded else Quadratic()
    U = rng.normal(size=N)
    trials = np.maximum(3.0 * rng.normal(size=(20_000, N)), lower)
    values = trials @ U - 0.5 * ((trials - shift) ** 2).sum(axis=1)
    assert values.max() <= quadratic.conjugate(U)
    assert values.max() >= quadratic.conjugate(U) - 0.1


@laws
@given(quadratics(), VECTORS, STRENGTHS)
def test_multiples_of_the_dual_vector(made, v, factor):
    quadratic, shift, lower = made
    U, again = np.empty(N), v.copy()
    quadratic.dual_vector(v, factor, U)
    assert_allclose(U, factor * (v - shift))
    scale = size(U, v, shift)
    value, slope = quadratic.along(v, factor)
    close(value, conjugate(U, shift, lower), scale=scale)
    close(slope, (v - shift) @ np.maximum(shift + U, lower), scale=scale)
    quadratic.rescale(again, factor)
    close(again, shift + U, scale=scale)
