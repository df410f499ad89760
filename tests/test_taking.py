"""Blocks that are taken by number are those that encoding their data gives."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from cases import SOME, STRUCTURES, TWINS, long_if
from taut import StreamedProblem
from taut.binding import bind
from taut.data import Stream
from taut.structures import Bags, LatentMulticlass, Multiclass, Scalar

PLAIN = ("n_blocks", "n_features", "size", "lifts")
FIELDS = ("offsets", "truth", "n_labels", "label_stride", "mean_offsets", "mean_size", "work_size")


def bags(structure, y):
    """Bags of three, one, two and four rows."""
    rng = np.random.default_rng(0)
    sizes = [3, 1, 2, 4]
    X = [rng.normal(size=(n, 3)) for n in sizes]

    def data(which):
        offsets = np.cumsum([0, *(sizes[i] for i in which)])
        return (np.vstack([X[i] for i in which]), offsets), y[which]

    return structure, data, 4


def of_case(case):
    return case.structure, case.data, case.n_blocks


CASES = {
    name: of_case(case)
    for name, case in STRUCTURES.items()
    if getattr(case.structure, "can_take", False)
} | {
    "bags": bags(Bags(bias=0.5), np.array([2, -1, 0, -1])),
    "frames": bags(LatentMulticlass(2, bias=0.5), np.array([[0, 1], [1, 0], [1, 1], [0, 3]])),
}


def taken_and_fresh(name):
    """Three blocks in another order, taken from all of them and encoded by themselves."""
    structure, data, n = CASES[name]
    which = np.array([2, 0, n - 1])
    return bind(structure, *data(np.arange(n))).take(which), bind(structure, *data(which))


def some_weights(bound):
    return bound.pad(np.random.default_rng(1).normal(size=bound.n_features))


@pytest.mark.parametrize("name", [long_if(name in TWINS, name) for name in CASES])
def test_taken_blocks_are_encoded_ones(name):
    taken, fresh = taken_and_fresh(name)
    for attribute in PLAIN:
        assert getattr(taken, attribute) == getattr(fresh, attribute)
    for field in FIELDS:
        assert_array_equal(getattr(taken.blocks, field), getattr(fresh.blocks, field))
    assert_allclose(taken.blocks.features.norms, fresh.blocks.features.norms, rtol=1e-12)
    w = some_weights(fresh)
    for found, expected in zip(taken.hardest(w), fresh.hardest(w), strict=True):
        assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("name", [long_if(name not in SOME, name) for name in CASES])
def test_planes_of_taken_blocks_are_those_of_encoded_ones(name):
    taken, fresh = taken_and_fresh(name)
    w = some_weights(fresh)
    psi, sums = np.zeros((2, len(w))), np.zeros((2, 2))
    for k, own in enumerate((taken, fresh)):
        own.add_worst(w, np.ones(3), 1, 0, 3, psi[k], sums[k])
    assert_allclose(psi[0], psi[1], rtol=1e-12, atol=1e-12)


class Doubled(Multiclass):
    """Has rows that its parent does not know of."""

    def encode(self, X, y=None):
        """All rows times two."""
        return super().encode(2.0 * X, y)


def test_an_encode_of_ones_own_is_asked_again():
    data = bind(Doubled(2), np.eye(3), np.array([0, 1, 0]))
    assert data.take(np.array([0])) is None


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_of_a_chunk_stay_those_of_its_blocks(form):
    """A copy takes no more memory than data that are encoded anew."""
    X = np.eye(4)[:, [0, 1, 2, 3, 0]] if form is sp.csr_array else np.ones((4, 5))
    problem = StreamedProblem(Scalar(), Stream([(form(X), np.array([1.0, -1.0, 1.0, 1.0]))]))
    bound = problem.bind(problem.source.head)
    copy = problem.take(bound, np.array([3, 1]))
    again = problem.bind(copy.chunk)
    for own, other in zip(copy.data.arrays(), again.data.arrays(), strict=True):
        assert_array_equal(own, other)
    rows, other_rows = copy.data.blocks.features.rows, again.data.blocks.features.rows
    assert all(np.shares_memory(a, b) for a, b in zip(rows, other_rows, strict=True) if a.size)
    assert not np.shares_memory(rows[0], bound.data.blocks.features.rows[0])
