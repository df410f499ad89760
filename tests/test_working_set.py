"""Working sets: which labels join and leave them, what follows a mini-batch, and when it ends."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES
from reference import multiclass_blocks, solve_qp
from taut import MulticlassSVM, Problem, Status, solve
from taut.duals.planes import N_PLANES
from taut.errors import InvalidData, MissingOracle
from taut.kernels import RBF
from taut.solvers import NSlack, OneSlack, PassEvent, WorkingSet
from taut.spaces.kernel import through_kernel
from taut.structures import Multiclass
from test_solvers import assert_optimal, run

FORMS = ["multiclass-cost-bias", "tags-plain"]


@pytest.fixture(params=FORMS)
def case(request):
    return STRUCTURES[request.param]


def begun(problem, solver, passes=0):
    state = solver.init(problem, np.random.default_rng(0))
    for _ in range(passes):
        solver.pass_(problem, state, 1.0, lambda: True)
    return state


def counts(state):
    """Labels of each block, the truth among them."""
    return state.duals.planes.arrays.places[:, N_PLANES].copy()


# Which labels join


def test_a_label_joins_if_it_exceeds_the_slack_by_more_than_eps(case):
    problem = case.problem()
    largest = problem.data.hinges(np.zeros(problem.data.size))
    eps = float(np.median(largest))
    state = begun(problem, WorkingSet(batch=None, eps=eps), 1)
    assert_array_equal(counts(state) > 1, largest > eps)


def test_slacks_count_what_has_joined(case):
    """At the optimum over all labels none lies above its slack, so nothing joins again."""
    problem, solver = case.problem(), WorkingSet(batch=None, eps=1e-6, check_every=0)
    state = begun(problem, solver, 300)
    before = counts(state)
    report = solver.pass_(problem, state, 1.0, lambda: True)
    assert_array_equal(counts(state), before)
    assert report.event is PassEvent.SETTLED


@pytest.mark.parametrize("n_planes", [1, 3])
def test_several_labels_join_at_a_visit(n_planes):
    case = STRUCTURES["multiclass-cost-bias"]
    state = begun(case.problem(0.1), WorkingSet(batch=None, n_planes=n_planes), 1)
    assert counts(state).max() == 1 + n_planes


def test_diverse_labels_need_a_list():
    with pytest.raises(MissingOracle, match='sampler="diverse" needs a method labels'):
        solve(STRUCTURES["tags-plain"].problem(), WorkingSet(n_planes=2), max_iter=1)


def test_a_batch_asks_at_one_w(case, monkeypatch):
    problem, solver = case.problem(), WorkingSet(batch=4)
    state, seen = begun(problem, solver), []
    visit = state.part.visit

    def watched(blocks, sweep, w, stiffness):
        before = w.copy()
        visit(blocks, sweep, w, stiffness)
        seen.append((sweep.asks_oracle, len(blocks), np.array_equal(before, w)))

    monkeypatch.setattr(state.part, "visit", watched)
    solver.pass_(problem, state, 1.0, lambda: True)
    asked = [(size, still) for asks, size, still in seen if asks]
    sizes = [len(part) for part in np.split(np.arange(case.n_blocks), range(4, case.n_blocks, 4))]
    assert asked == [(size, True) for size in sizes]
    assert any(not still for asks, _size, still in seen if not asks)


# Which leave


def test_labels_leave_that_had_no_weight_for_long(case):
    problem, solver = case.problem(30.0), WorkingSet(batch=2, check_every=4, patience=3)
    state, looks = begun(problem, solver), 0
    tidy = solver._tidy

    def watched(state):
        nonlocal looks
        tidy(state)
        if state.batches % 4 == 0:
            looks += 1
            planes = state.duals.planes
            _blocks, number, _place = planes.live_labels()
            assert (planes.arrays.idle[planes.slots()][number > 0] < 3).all()

    solver._tidy = watched
    for _ in range(12):
        solver.pass_(problem, state, 1.0, lambda: True)
    assert looks > 3
    kept = begun(problem, WorkingSet(batch=2, check_every=0, patience=1), 12)
    assert counts(state).sum() < counts(kept).sum()


def test_nothing_leaves_before_its_time(case):
    """Not even where a block has no room for another: it gets more."""
    problem = case.problem(30.0)
    solver = WorkingSet(batch=1, check_every=10**9, patience=10**6)
    state, most = begun(problem, solver), 0
    for _ in range(20):
        solver.pass_(problem, state, 1.0, lambda: True)
        assert counts(state).sum() >= most
        most = counts(state).sum()


# What follows a mini-batch


@pytest.mark.parametrize("order", ["permutation", "uniform", "gap"])
@pytest.mark.parametrize("update", ["solve", "closed_form"])
def test_all_ways_lead_to_the_optimum(case, update, order):
    result = run(case.problem(), WorkingSet(batch=3, update=update, order=order), tol=1e-6)
    assert_optimal(case, result, np.ones(case.n_blocks), rtol=2e-6)


def test_closed_form_moves_the_blocks_of_the_batch_alone(case):
    problem = case.problem()
    solver = WorkingSet(batch=3, update="closed_form")
    state, batches = begun(problem, solver), []
    visit = state.part.visit
    state.part.visit = lambda blocks, *rest: (batches.append(set(blocks)), visit(blocks, *rest))
    solver.pass_(problem, state, 1.0, lambda: True)
    assert all(asked == moved for asked, moved in zip(batches[::2], batches[1::2], strict=True))


def test_n_slacks_are_a_special_case(case):
    solver = WorkingSet(batch=3, eps=0.0, check_every=0, patience=0)
    ours, theirs = (run(case.problem(), s) for s in (solver, NSlack(batch=3)))
    assert_array_equal(ours.w, theirs.w)


# When it ends


@pytest.mark.parametrize("order", ["permutation", "uniform", "gap"])
@pytest.mark.parametrize("update", ["solve", "closed_form"])
def test_a_pass_at_one_w_without_a_violation_ends_the_run(case, update, order):
    eps, n = 0.05, case.n_blocks
    solver = WorkingSet(batch=2, update=update, order=order, eps=eps)
    result = run(case.problem(), solver)
    certificate = result.certificate
    assert certificate.status is Status.SETTLED
    assert 0.0 <= certificate.gap <= eps * n * (1.0 + 1e-9)
    assert certificate.oracle_calls >= 2 * n


def test_a_moving_pass_does_not_end_it(case):
    problem, solver = case.problem(), WorkingSet(batch=1)
    state = begun(problem, solver)
    assert solver.pass_(problem, state, 1.0, lambda: True).event is PassEvent.COMPLETE


def test_an_interrupted_pass_does_not_end_it(case):
    problem, solver = case.problem(blocks=np.arange(100) % 6), WorkingSet(batch=7, eps=1e9)
    state = begun(problem, solver)
    assert solver.pass_(problem, state, 1.0, lambda: False).event is PassEvent.INCOMPLETE
    assert solver.pass_(problem, state, 1.0, lambda: True).event is PassEvent.SETTLED


# Other spaces, and settings


def test_works_through_a_kernel():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(40, 3)), rng.integers(3, size=40)
    space = through_kernel(RBF(0.7), dtype=np.float64)
    problem = Problem(Multiclass(3, bias=1.0), X, y, C=2.0, space=space)
    result = solve(problem, WorkingSet(batch=5), tol=1e-6, max_iter=2000, random_state=0)
    assert result.certificate.status is Status.CONVERGED
    values, vectors = np.linalg.eigh(RBF(0.7)(X) + 1.0)
    psi, losses = multiclass_blocks(vectors * np.sqrt(np.maximum(values, 0.0)), y, 3)
    best = solve_qp(psi, losses, np.full(40, 2.0))[0]
    assert_allclose(result.certificate.primal, best, rtol=2e-6)


@pytest.mark.parametrize("solver", [WorkingSet(), OneSlack()])
def test_estimators_make_room_for_the_whole_matrix(solver):
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(1040, 3)), rng.integers(2, size=1040)
    model = MulticlassSVM(kernel="rbf", C=0.01, tol=0.1, solver=solver, random_state=0).fit(X, y)
    assert model.certificate_.status is Status.CONVERGED
    with pytest.raises(InvalidData, match="`cache` of an estimator or `whole`"):
        model.set_params(cache=4 * 1039**2).fit(X, y)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch": 0}, "batch = 0: it must be at least 1"),
        ({"n_planes": 0}, "n_planes = 0"),
        ({"update": "newton"}, "update = 'newton': give 'solve' or 'closed_form'"),
        ({"eps": -1.0}, "eps = -1.0: give a finite number"),
        ({"eps": "small"}, "eps = 'small'"),
        ({"eps": np.nan}, "eps = nan"),
        ({"order": "random"}, "order = 'random'"),
        ({"patience": -1}, "patience = -1"),
        ({"precision": 0.0}, "precision = 0.0 must be positive"),
        ({"max_sweeps": 0}, "max_sweeps = 0"),
    ],
)
def test_wrong_settings(settings, words):
    with pytest.raises(InvalidData, match=words):
        WorkingSet(**settings)
