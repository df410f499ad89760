"""Blocks that lose large features and keep small psi: the same optimum, sooner, within memory."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cases import long_if
from taut import Checkpoint, Problem, Regularizer, Status, StreamedProblem, solve
from taut.data import Stream
from taut.duals import KeptDual
from taut.errors import InvalidContent
from taut.solvers import DualCoordinate, OnlineCache
from taut.structures import Bags
from test_online_cache import (
    Audit,
    Audited,
    FewOfMany,
    assert_same_run,
    assert_same_totals,
    assert_same_totals_of_parts,
    snapshots,
    state_of,
    totals,
)

N, SIZE = 48, 6  # blocks, and those of a chunk
run = functools.partial(solve, tol=1e-3, max_iter=3000, random_state=0)
pytestmark = pytest.mark.filterwarnings("ignore::taut.errors.CacheOverflow")


def windows(size=200, d=10):
    """Bags of many rows, of which every second has one that makes it positive."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(N, size, d))
    y = np.where(np.arange(N) % 2, rng.integers(size, size=N), -1)
    X[y >= 0, y[y >= 0], :3] += 2.0
    return Bags(bias=1.0), list(X), y, "sequences"


def tags(d=2000):
    """Long rows of which the first three numbers are features."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(N, d))
    y = (X[:, :2] + rng.normal(size=(N, 2)) > 0).astype(int)
    return FewOfMany(2), list(X), [tuple(bits) for bits in y.tolist()], "examples"


KINDS = {"windows": windows, "tags": tags}
C = 0.2


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def in_memory(kind, C=C, regularizer=None):
    structure, X, y, form = KINDS[kind]()
    if form == "sequences":
        X = np.vstack(X), np.cumsum([0, *map(len, X)])
    return Problem(structure, X, y, C, regularizer=regularizer)


def streamed(kind, C=C, regularizer=None, once=False):
    structure, X, y, form = KINDS[kind]()
    parts = [(X[k : k + SIZE], y[k : k + SIZE]) for k in range(0, N, SIZE)]
    source = Stream(iter(parts) if once else parts, kind=form)
    return StreamedProblem(structure, source, C, regularizer=regularizer)


def small(problem, solver=OnlineCache, extra=200_000):
    """A solver with room for the features of some blocks."""
    return solver(OnlineCache.least_memory(problem) + extra)


def some_bare(kind):
    """A state after one pass with blocks of all three kinds."""
    problem = streamed(kind)
    state = state_of(run(problem, small(problem), tol=1e-12, max_iter=1))
    assert state.n_kept > 0
    assert state.n_bare > SIZE
    return state


def assert_is_optimum(problem, result):
    best = run(problem, DualCoordinate(), tol=1e-7).certificate
    assert result.certificate.status is Status.CONVERGED
    assert (result.history["dual"] <= best.primal * (1.0 + 1e-9)).all()
    assert best.dual <= result.certificate.primal
    assert_allclose(problem.primal(result.w), result.certificate.primal, rtol=1e-9)


def prior_of(problem):
    n, rng = problem.n_features, np.random.default_rng(0)
    return Regularizer(0.3 * rng.normal(size=n), rng.uniform(0.5, 2.0, n), rng.random(n) < 0.5)


@pytest.mark.parametrize(
    ("kind", "with_prior"),
    [
        ("windows", False),
        ("tags", False),
        ("tags", True),
        long_if(True, "windows", True),
    ],
)
def test_the_optimum_within_memory(kind, with_prior):
    """At all times sums are those of labels beside their data, and memory holds."""
    prior = prior_of(in_memory(kind)) if with_prior else None
    problem = streamed(kind, regularizer=prior)
    solver = small(problem, Audited)
    solver.audit = Audit(solver, every=4)
    result = run(problem, solver, callbacks=[solver.audit])
    assert solver.audit.bare > SIZE
    assert solver.audit.checked > 5
    assert_is_optimum(in_memory(kind, regularizer=prior), result)


def test_blocks_without_features_are_visited(kind, monkeypatch):
    """So one reading leaves a smaller gap than where blocks rest."""
    gaps, visited, visit = [], [], KeptDual.visit_part

    def counted(self, number, order, *others):
        visited.append(len(order))
        return visit(self, number, order, *others)

    monkeypatch.setattr(KeptDual, "visit_part", counted)
    for keeps in (True, False):
        if not keeps:
            monkeypatch.setattr("taut.engines.cache.bare_of", lambda *arguments: None)
            visited.clear()
        problem = streamed(kind)
        result = run(problem, small(problem, extra=100_000), tol=1e-12, max_iter=1)
        assert (sum(visited) > N) == keeps
        assert (state_of(result).n_bare > 0) == keeps
        gaps.append(result.certificate.gap)
    assert gaps[0] < 0.7 * gaps[1]


def test_small_blocks_rest():
    """Their psi would take about as much as their features."""
    structure, X, y, form = windows(size=4)
    parts = [(X[k : k + SIZE], y[k : k + SIZE]) for k in range(0, N, SIZE)]
    problem = StreamedProblem(structure, Stream(parts, kind=form), C)
    state = state_of(run(problem, small(problem, extra=2000), tol=1e-12, max_iter=1))
    assert state.n_bare == 0
    assert state.resting.n_blocks > 0


def test_each_loss_keeps_the_dual_point(kind):
    """Features go first, then psi; all comes back when the chunks are read."""
    state = some_bare(kind)
    before = totals(state)
    state.rest(10**9)
    assert state.n_kept == 0
    assert_same_totals(state, before)
    assert_same_totals_of_parts(state)
    state.rest(1)
    n_bare, n_resting = state.n_bare, state.resting.n_blocks
    assert min(n_bare, n_resting) > 0
    assert_same_totals(state, before)
    assert_same_totals_of_parts(state)
    state.rest(10**9)
    assert (state.n_bare, state.resting.n_blocks) == (0, n_bare + n_resting)
    assert_same_totals(state, before)
    assert_same_totals_of_parts(state)
    state = some_bare(kind)
    for bound in state.problem.bound_chunks():
        state.keep(bound, state.waken(bound), 0.0)
        assert_same_totals(state, before)
    assert (state.n_bare, state.resting.n_blocks) == (0, 0)


@pytest.mark.parametrize("once", [False, True])
def test_resumed_is_uninterrupted(kind, once, tmp_path, monkeypatch):
    if once and kind == "tags":
        pytest.skip("examples of any kind are not saved")
    monkeypatch.setattr("taut.solvers.online_cache._SECONDS", 1e9)
    checkpoint, keep, copies = snapshots(tmp_path)

    def few(**options):
        problem = streamed(kind, once=once)
        return run(problem, small(problem), tol=1e-9, max_iter=1 if once else 2, **options)

    whole = few(checkpoint=checkpoint, callbacks=[keep])
    assert state_of(whole).n_bare > 0
    for k in (len(copies) // 2, len(copies) - 1):
        assert_same_run(few(checkpoint=Checkpoint(copies[k], seconds=1e9)), whole)


@pytest.mark.parametrize("factor", [0.1, 1.0, 3.0])
def test_a_start_with_bare_blocks(kind, factor):
    problem = streamed(kind)
    first = run(problem, small(problem), tol=1e-9, max_iter=2)
    assert state_of(first).n_bare > 0
    other = StreamedProblem(problem.structure, problem.source, factor * C)
    result = run(other, OnlineCache("50MB"), start=first.state)
    assert_is_optimum(in_memory(kind, factor * C), result)
    if factor == 1.0:
        assert result.history["dual"][0] >= first.certificate.dual * (1.0 - 1e-9)


def changed(state, name, change):
    """A state in which one array of the first bare blocks is another."""
    number = next(k.split(".")[1] for k in state if k.endswith("kept_size"))
    arrays = dict(state)
    full = f"part.{number}.{name}"
    arrays[full] = arrays[full].copy()
    change(arrays[full])
    return arrays


def negate(array):
    array *= -1


def clear(array):
    array[:] = 0


def swap(array):
    array[:] = array[::-1].copy()


def raise_all(array):
    array += 1


def beyond(array):
    array[-1] = 10**6


FAULTS = {
    "windows": [("kept_value", negate), ("kept_value", swap), ("labels", raise_all)],
    "tags": [("labels", raise_all)],
}
FAULTS_OF_ALL = [
    ("kept_size", raise_all),
    ("kept_size", beyond),
    ("coef", negate),
    ("loss", raise_all),
    ("where", beyond),
    ("chunk", raise_all),
    ("weight", raise_all),
]


def test_what_cannot_be_is_refused(kind):
    problem = streamed(kind)
    state = state_of(run(problem, small(problem), tol=1e-9, max_iter=1)).arrays()
    fresh = small(problem).init(problem, np.random.default_rng(0))
    fresh.restore(state)
    for name, change in [*FAULTS[kind], *FAULTS_OF_ALL]:
        with pytest.raises(InvalidContent):
            fresh.restore(changed(state, name, change))


def test_psi_of_small_features_are_compared_by_their_size():
    """With features of 1e-7 all psi are small, and none of them is zero."""
    _, X, y, form = windows()
    parts = [(1e-7 * np.array(X[k : k + SIZE]), y[k : k + SIZE]) for k in range(0, N, SIZE)]
    source = Stream([(list(rows), truths) for rows, truths in parts], kind=form)
    problem = StreamedProblem(Bags(bias=1e-7), source, 1e14 * C)
    state = state_of(run(problem, small(problem), tol=1e-9, max_iter=1)).arrays()
    fresh = small(problem).init(problem, np.random.default_rng(0))
    fresh.restore(state)
    with pytest.raises(InvalidContent, match="psi are those of other labels"):
        fresh.restore(changed(state, "kept_value", clear))
