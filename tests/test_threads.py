"""Several threads: whatever they do at the same time, the dual point is feasible and the gap true.

The problems are so large that threads are worth their while, and so small that all labels can be
enumerated.
"""

import dataclasses
import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cases
from reference import dual, graph_features, primal
from taut import Problem, Status, solve
from taut.duals import BlockDual, EnumeratedDual, base
from taut.duals.planes import CAPACITY, LABEL_SIZE, N_PLANES, SLOT, SQUARE, TEXT, Planes
from taut.engines import turns
from taut.solvers import DualCoordinate
from taut.structures import Chain
from test_solvers import assert_feasible, dual_point

N_BLOCKS = 600
TOL = 1e-5


def many(case, spread=0.5):
    """Blocks like those of a small case, but each of its own."""
    rng = np.random.default_rng(0)
    pick = np.arange(N_BLOCKS) % case.n_blocks
    xs = [case.xs[i] + spread * rng.normal(size=np.shape(case.xs[i])) for i in pick]
    return dataclasses.replace(
        case, xs=xs, ys=[case.ys[i] for i in pick], labels=lambda i: case.labels(pick[i])
    )


# Both ways of keeping dual variables, and both of making a Gram matrix.
CASES = {
    "scalar": many(cases.scalar(bias=0.5)),
    "regression": many(cases.regression(bias=0.5)),
    "multiclass": many(cases.multiclass()),
    "chain": many(cases.chain()),
    "pairwise": many(cases.pairwise()),
    "tags": many(cases.tags()),
}
INTERVALS = {"w is shared": 0, "news are exchanged": 4}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@pytest.fixture(params=INTERVALS)
def news_interval(request, monkeypatch):
    monkeypatch.setattr(BlockDual, "news_interval", INTERVALS[request.param])
    return INTERVALS[request.param]


@pytest.fixture(autouse=True)
def whole_passes(monkeypatch):
    """How long a visit takes, while others use the machine, does not decide about threads."""
    monkeypatch.setattr(turns, "_SECONDS_BETWEEN_QUESTIONS", 1e9)


@pytest.fixture
def threads(monkeypatch):
    """How many threads worked together, each time that there was more than one."""
    seen, together = [], base.together

    def spy(w, n_threads, interval):
        seen.append(n_threads)
        return together(w, n_threads, interval)

    monkeypatch.setattr(base, "together", spy)
    return seen


def run(case, n_jobs, solver=None, C=0.1, **options):
    problem = Problem(case.structure, *case.data(), C=C, n_jobs=n_jobs)
    return solve(problem, solver, **{"tol": TOL, "max_iter": 2000, "random_state": 0} | options)


@functools.cache
def alone(name):
    return run(CASES[name], 1)


def assert_true(case, result, C=0.1):
    """The certificate says what enumeration says about w and about the dual point."""
    weights, certificate = np.full(case.n_blocks, C), result.certificate
    alphas = dual_point(case, result.state)
    assert_feasible(case, alphas, weights)
    assert_allclose(primal(result.w, *case.reference, weights), certificate.primal, rtol=1e-10)
    value = dual(alphas, *case.reference)
    # The certificate keeps the best dual of all that were verified.
    slack = 1e-10 * (1.0 + abs(value))
    assert value <= certificate.dual + slack
    assert certificate.dual - value <= certificate.gap + slack


def assert_same_optimum(result, other):
    """Both intervals hold the optimum."""
    ours, others = result.certificate, other.certificate
    assert max(ours.dual, others.dual) <= min(ours.primal, others.primal) * (1.0 + 1e-12)


def assert_planes_apart(state):
    """No two blocks have storage in common, and none lies outside its pool."""
    room = state["places"][:, CAPACITY]
    assert (state["places"][:, N_PLANES] <= room).all()
    for start, size, pool in (
        (state["places"][:, SLOT], room, "coef"),
        (state["places"][:, SQUARE], room**2, "gram"),
        (state["places"][:, TEXT], room * state["places"][:, LABEL_SIZE], "labels"),
    ):
        order = np.argsort(start)
        ends = (start + size)[order]
        assert start.min() >= 0
        assert ends[-1] <= len(state[pool])
        assert (ends[:-1] <= start[order][1:]).all()


@pytest.mark.parametrize("n_jobs", [2, 3])
@pytest.mark.parametrize("name", CASES)
def test_threads_find_the_optimum(name, n_jobs, news_interval, threads):
    result = run(CASES[name], n_jobs)
    assert set(threads) == {n_jobs}
    assert result.certificate.status is Status.CONVERGED
    assert result.certificate.relative_gap <= TOL
    assert_true(CASES[name], result)
    assert_same_optimum(result, alone(name))
    if "places" in result.state:
        assert_planes_apart(result.state)


def test_threads_keep_w_and_the_dual_point_together(case, news_interval, threads):
    """After any pass w is the sum of all moves, though threads may have overwritten each other."""
    solver = DualCoordinate(recentring=0.0, shrink=0.0)
    problem = Problem(case.structure, *case.data(), C=0.1, n_jobs=2)
    state = solver.init(problem, np.random.default_rng(0))
    for _ in range(6):
        solver.pass_(problem, state, 1.0, lambda: True)
        loss_sum, w = state.loss_sum, state.w.copy()
        U = np.empty(len(w))
        state.dual_vector(U)
        assert_allclose(w, U, atol=1e-9)
        assert_allclose(loss_sum, state.loss_sum, rtol=1e-9)
    assert len(threads) >= 6


def test_few_blocks_are_left_to_one_thread(threads):
    case = CASES["multiclass"]
    blocks = range(2 * base._WORTHWHILE - 1)
    solve(Problem(case.structure, *case.data(blocks), n_jobs=2), tol=1e-3, random_state=0)
    assert not threads


def test_no_block_is_visited_by_two_threads_at_once(monkeypatch):
    """Of few blocks that matter, draws by the gap take each many times in a pass."""
    visit_part, together = EnumeratedDual.visit_part, []

    def spy(self, number, order, *arguments):
        together[-1].append(set(order.tolist()))
        return visit_part(self, number, order, *arguments)

    def in_turn(run, numbers):
        together.append([])
        return [run(number) for number in numbers]

    monkeypatch.setattr(EnumeratedDual, "visit_part", spy)
    monkeypatch.setattr(base, "in_threads", in_turn)
    case, weight = CASES["multiclass"], np.where(np.arange(N_BLOCKS) < 3, 1.0, 1e-6)
    problem = Problem(case.structure, *case.data(), sample_weight=weight, n_jobs=2)
    solve(problem, DualCoordinate(order="gap", shrink=0.0), max_iter=5, random_state=0)
    assert max(len(parts) for parts in together) == 2
    for parts in together:
        assert len(set().union(*parts)) == sum(len(part) for part in parts)


@pytest.fixture
def growths(monkeypatch):
    """Into how many shares the pools grew, each time."""
    seen, grow = [], Planes.grow

    def spy(self, n_shares=1, wanted=1):
        seen.append(n_shares)
        grow(self, n_shares, wanted)

    monkeypatch.setattr(Planes, "grow", spy)
    return seen


def long_chains():
    """Planes in plenty: many labelings, none with a reason."""
    rng = np.random.default_rng(5)
    lengths = rng.integers(2, 7, size=300)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return (rng.normal(size=(offsets[-1], 20)), offsets), rng.integers(4, size=offsets[-1])


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_pools_grow_while_threads_run(n_jobs, news_interval, threads, growths):
    """Each thread takes space from a share of its own; what a block holds stays with it."""
    X, y = long_chains()
    problem = Problem(Chain(4), X, y, C=100.0, n_jobs=n_jobs)
    result = solve(problem, tol=1e-3, max_iter=400, random_state=0)
    assert threads
    assert len(growths) > 2
    assert set(growths) == {n_jobs}
    state = result.state
    assert state["places"][:, CAPACITY].max() >= 16
    assert_planes_apart(state)
    one_thread = Problem(Chain(4), X, y, C=100.0)
    assert_same_optimum(result, solve(one_thread, tol=1e-3, max_iter=400, random_state=0))
    for i in range(problem.n_blocks):
        start, count, size = state["places"][i, [SLOT, N_PLANES, LABEL_SIZE]]
        coef = state["coef"][start : start + count]
        assert coef.min() >= 0.0
        assert_allclose(coef.sum(), 100.0, rtol=1e-12)
        labels = state["labels"][state["places"][i, TEXT] :][: count * size].reshape(count, size)
        truth = y[X[1][i] : X[1][i + 1]]
        assert_array_equal(labels[0], truth)
        assert len(np.unique(labels, axis=0)) == count
        assert_array_equal(state["loss"][start : start + count], (labels != truth).sum(axis=1))
        room = state["places"][i, CAPACITY]
        gram = state["gram"][state["places"][i, SQUARE] :][: room**2].reshape(room, room)
        if count > 1:
            edges = np.column_stack([np.arange(size - 1), np.arange(1, size)])
            graph = X[0][X[1][i] : X[1][i + 1]], edges, np.ones((size - 1, 1))
            phi = np.array([graph_features(graph, tuple(label), 4, "full") for label in labels])
            assert_allclose(gram[:count, :count], phi @ phi.T, atol=1e-9)


def test_a_start_may_come_from_other_numbers_of_threads(case, threads):
    for first, second in ((1, 2), (2, 1), (3, 2)):
        rough = run(case, first, tol=1e-2)
        result = run(case, second, start=rough.state)
        assert result.certificate.status is Status.CONVERGED
        assert result.certificate.dual >= rough.certificate.dual * (1.0 - 1e-6)
        assert_true(case, result)
        again = run(case, second, C=0.2, start=result.state)
        assert again.certificate.status is Status.CONVERGED
        assert_true(case, again, C=0.2)
    assert {2, 3} == set(threads)


def test_a_run_may_be_resumed_with_other_numbers_of_threads(case, tmp_path, threads):
    for first, second in ((1, 2), (2, 1), (2, 3)):
        path = tmp_path / f"{first}-{second}.taut"
        stopped = run(case, first, max_iter=2, checkpoint=path)
        assert stopped.certificate.status is Status.MAX_ITER
        result = run(case, second, checkpoint=path)
        assert result.certificate.status is Status.CONVERGED
        assert result.certificate.passes > 2
        assert_true(case, result)
        assert_same_optimum(result, stopped)
        finished = run(case, second, checkpoint=path)
        assert finished.certificate.passes == result.certificate.passes
    assert {2, 3} == set(threads)
