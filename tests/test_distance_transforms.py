"""Distance transforms equal brute force, and take as many steps as there are places."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from taut.errors import InvalidData
from taut.inference.distance_transforms import (
    LineRoom,
    Spring,
    distance_transform,
    transform_grid,
)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    rows=st.integers(1, 7),
    columns=st.integers(1, 7),
    scale=st.sampled_from([1e-6, 1.0, 1e4]),
)
def test_each_place_reaches_the_best_of_all(seed, rows, columns, scale):
    rng = np.random.default_rng(seed)
    values = scale * np.round(rng.normal(size=(rows, columns)), 1)  # some are equal
    bend, slope, shift = rng.uniform(0.01, 3.0, 2), rng.normal(size=2), 3.0 * rng.normal(size=2)
    best, places = distance_transform(values, bend, slope, shift)
    r, q = np.indices(values.shape)
    for y in range(rows):
        for x in range(columns):
            dx, dy = q - x - shift[0], r - y - shift[1]
            stretched = values - bend[0] * dx**2 - slope[0] * dx - bend[1] * dy**2 - slope[1] * dy
            assert_allclose(best[y, x], stretched.max(), atol=1e-9 * (1.0 + scale))
            assert_allclose(
                stretched[tuple(places[y, x])], stretched.max(), atol=1e-9 * scale + 1e-9
            )


@pytest.mark.parametrize("kind", ["random", "flat", "rising", "peaks"])
def test_the_steps_are_linear_in_the_places(kind):
    for side in (8, 32, 128):
        rng = np.random.default_rng(side)
        grid = {
            "random": rng.normal(size=(side, side)),
            "flat": np.zeros((side, side)),
            "rising": np.add.outer(np.arange(side) ** 2.0, np.arange(side) ** 2.0),
            "peaks": 1e6 * (rng.random((side, side)) < 0.1),
        }[kind]
        size = side * side
        room = LineRoom.of(side, size)
        spring = Spring(0.1, 0.3, 0.7)
        crossings = transform_grid(
            grid.ravel(), grid.shape, spring, spring, room, np.empty(size), np.empty(size, np.int32)
        )
        assert size <= crossings <= 4 * size  # fewer than 2 for each place and direction


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[1.0]], 0.0), "bend = 0.0: parabolas must be bent"),
        (([[1.0]], [1.0, -1.0]), "bend = "),
        (([1.0], 1.0), r"values have shape \(1,\)"),
        (([[np.inf]], 1.0), "finite numbers in rows and columns"),
    ],
)
def test_what_has_no_transform_is_refused(arguments, message):
    with pytest.raises(InvalidData, match=message):
        distance_transform(*arguments)
