"""The m best labels are those of enumeration, ties and blocks with few labels included."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES, chain, names
from taut import Regularizer
from taut.binding import CompiledData
from taut.errors import MissingOracle

BY_POSITION = {
    name: case
    for name, case in STRUCTURES.items()
    if name.startswith(("multiclass", "chain")) and "slack" not in name
}


# Rows are read by `prepare` alone: other ways of storing them, and numbers, are long tests.
WITH_LONG = names(
    BY_POSITION, long=[name for name in BY_POSITION if "csr" in name or "single" in name]
)


@pytest.fixture(params=WITH_LONG)
def case(request):
    return BY_POSITION[request.param]


def check(case, data, w, m, n_jobs=1):
    """Compare with all labels, sorted; scores are relative to the best."""
    labels, scores = data.m_best(w.astype(data.dtype), m, n_jobs)
    rtol = 1e-12 if data.dtype is np.float64 else 1e-5
    offsets, (psi, _losses) = data.blocks.offsets, case.reference
    for i in range(data.n_blocks):
        rows, leads = case.labels(i), -psi[i] @ w
        count = min(m, len(rows))
        found = labels[:count, offsets[i] : offsets[i + 1]]
        places = [int(np.flatnonzero((rows == label).all(axis=1))[0]) for label in found]
        atol = rtol * max(1.0, np.abs(leads).max())
        best = np.sort(leads)[::-1][:count]
        assert len(set(places)) == count
        assert_allclose(leads[places], best, rtol=0.0, atol=atol)
        assert_allclose(scores[i, :count] - scores[i, 0], best - best[0], rtol=0.0, atol=atol)
        assert (scores[i, count:] == -np.inf).all()
        assert (labels[count:, offsets[i] : offsets[i + 1]] == -1).all()
    return labels, scores


@pytest.mark.parametrize("m", [1, 2, 5, 1000])
def test_the_best_equal_enumeration(case, m, rng):
    data, n = case.problem().data, case.reference[0][0].shape[1]
    for scale in (0.01, 1.0, 100.0):
        w = scale * rng.normal(size=n)
        labels, _scores = check(case, data, w, m)
        assert_array_equal(labels[0], data.labels(w.astype(data.dtype)))


@pytest.mark.parametrize("m", [3, 1000])
def test_ties_are_all_found(case, m, rng):
    data, n = case.problem().data, case.reference[0][0].shape[1]
    check(case, data, np.zeros(n), m)
    check(case, data, rng.integers(2, size=n).astype(np.float64), m)


def test_rows_are_as_many_as_a_block_has_labels():
    case = chain()
    data = case.problem().data
    w = np.ones(data.n_features)
    assert data.m_best(w, 10**6)[0].shape == (3**4, 14)
    assert data.m_best(w, 7)[1].shape == (6, 7)


def test_threads_change_nothing(rng):
    case = chain()
    data = case.problem().data
    w = rng.normal(size=data.n_features)
    for one, three in zip(data.m_best(w, 5), data.m_best(w, 5, n_jobs=3), strict=True):
        assert_array_equal(one, three)


def test_weights_are_seen_through_a_prior(rng):
    case, w = chain(), rng.normal(size=15)
    scale = rng.uniform(0.5, 2.0, size=15)
    problem = case.problem()
    scaled = CompiledData(problem.structure, problem.data.blocks, Regularizer(precision=scale**2))
    for plain, seen in zip(problem.data.m_best(w, 5), scaled.m_best(scale * w, 5), strict=True):
        assert_allclose(seen, plain, rtol=1e-12)


@pytest.mark.parametrize("name", ["scalar", "multiclass-slack-bias", "tags-compiled"])
def test_labels_of_another_kind_are_refused(name):
    data = STRUCTURES[name].problem().data
    with pytest.raises(MissingOracle, match=r"has no scores of single labels, .*: set n_labels"):
        data.m_best(np.zeros(data.n_features), 2)
