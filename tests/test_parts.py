"""What parts of the blocks reply adds up, and how their arrays are named."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from taut import Checkpoint, Problem, solve
from taut.engines.naming import named, of_parts
from taut.engines.part import Reply
from taut.errors import InvalidContent, InvalidData
from taut.solvers import MultiSample
from taut.structures import Multiclass


def test_replies_add_up():
    whole, cached, cut = (
        Reply(1.0, 2.0, 3, True, True),
        Reply(0.5, 0.0, 0, True, False),
        Reply(2.0, 1.0, 1, False, True),
    )
    assert Reply.total([]) == (0, 0, 0, True, True)
    assert Reply.total([whole, whole]) == (2.0, 4.0, 6, True, True)
    assert Reply.total([whole, cached, cut]) == (3.5, 3.0, 4, False, False)
    assert [reply.complete for reply in (whole, cached, cut)] == [True, False, False]


def test_arrays_of_parts_are_read_as_they_were_named():
    parts = {10: {"gap": np.ones(2), "column.X": np.eye(2)}, 2: {"gap": np.zeros(1)}}
    found = of_parts(named(parts) | {"w": np.zeros(3)})
    assert list(found) == [2, 10]
    for number, own in parts.items():
        assert found[number].keys() == own.keys()
        for name, array in own.items():
            assert_array_equal(found[number][name], array)


@pytest.mark.parametrize(
    "name",
    ["segment.0.ids", "chunk.3.alpha", "resting.1.0.where", "part.x.gap", "part.-1.gap", "part.1"]
    + ["part.01.gap", "part.\u0661.gap", f"part.{'9' * 5000}.gap", ".", "part..gap"],
)
def test_other_names_with_dots_are_refused(name):
    """Of a state that was saved in another form nothing may be read as if it had no parts."""
    with pytest.raises(InvalidContent, match="is no array of a part"):
        of_parts({"w": np.zeros(1), name: np.zeros(1)})


def test_a_large_objective_is_resumed(rng, tmp_path):
    """Sums are as large as the objective, which no bound on counters concerns."""
    X, y = 1e-8 * rng.normal(size=(30, 3)), rng.integers(3, size=30)
    problem = Problem(Multiclass(3, bias=1e-8), X, y, C=1e14)
    options = {"tol": 1e-12, "random_state": 0}
    whole = solve(problem, max_iter=6, **options)
    path = tmp_path / "run"
    for max_iter in (3, 6):
        resumed = solve(problem, max_iter=max_iter, checkpoint=Checkpoint(path), **options)
    assert whole.certificate.dual > 2.0**48
    assert resumed.certificate.dual == whole.certificate.dual
    assert_array_equal(resumed.w, whole.w)


def test_an_order_that_there_is_not_is_refused():
    class Typo(MultiSample):
        order = "permutations"

    problem = Problem(Multiclass(3, bias=1.0), np.ones((3, 1)), np.arange(3))
    with pytest.raises(InvalidData, match="'permutations': give 'permutation', 'uniform' or 'gap'"):
        solve(problem, Typo())
