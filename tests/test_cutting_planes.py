"""Cutting planes: what a plane is, the QPs over them, and all that a solver must go along with."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES, long_if
from own_structures import Tags
from reference import primal, solve_prior_qp, solve_qp
from taut import (
    Checkpoint,
    MulticlassSVM,
    Problem,
    Regularizer,
    Status,
    StreamedProblem,
    solve,
)
from taut.data import Stream
from taut.errors import InvalidData
from taut.solvers import NSlack, OneSlack, WorkingSet
from taut.solvers.baselines import one_slack
from taut.solvers.baselines._cuts import Cuts
from taut.solvers.baselines._simplex_qp import best_weights
from taut.spaces.quadratic import Quadratic
from taut.structures import Multiclass, Scalar
from test_online_cache import in_memory, part_of, stream
from test_regularizer import n_weights, numbers
from test_regularizer import run as run_with_prior
from test_solve import Snapshot
from test_solvers import assert_feasible, assert_optimal, cut_points, run

#: Dense psi, sparse psi, plain Python.
FORMS = ["scalar-bias", "chain", "tags-plain"]
SOLVERS = {
    "one-slack": OneSlack(),
    "n-slack": NSlack(),
    "working-set": WorkingSet(batch=3, check_every=3, patience=2),
}


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture(params=SOLVERS)
def solver(request):
    return SOLVERS[request.param]


def after(problem, passes, solver=None):
    """The state after some passes."""
    solver = solver or OneSlack()
    state = solver.init(problem, np.random.default_rng(0))
    for _ in range(passes):
        solver.pass_(problem, state, 1.0, lambda: True)
    return state


def dense(vector, size):
    psi = np.zeros(size)
    psi[vector.where] = vector.values
    return psi


# The planes of OneSlack


def test_planes_lie_below_the_hinges_and_touch_them_where_they_were_found(form, rng):
    case, weight = STRUCTURES[form], rng.uniform(0.1, 3.0, STRUCTURES[form].n_blocks)
    problem = case.problem(1.0, weight)
    state, solver, found = after(problem, 0), OneSlack(), []
    for _ in range(5):
        found.append(state.w.copy())
        solver.pass_(problem, state, 1.0, lambda: True)

    def hinges(v):
        w = problem.data.unpad(v)
        return primal(w, *case.reference, weight) - 0.5 * w @ w

    for j, v in enumerate(found):
        assert_allclose(state.cuts.violations(v)[j], hinges(v), rtol=1e-12)
        for other in (*found, problem.data.pad(rng.normal(size=problem.n_features))):
            assert (state.cuts.violations(other) <= hinges(other) + 1e-12).all()


def test_gram_matrix_is_that_of_the_planes(form):
    state = after(STRUCTURES[form].problem(), 6, OneSlack(patience=2))
    psi = np.array([dense(vector, len(state.w)) for vector in state.cuts.psi])
    assert_allclose(state.cuts.gram, psi @ psi.T, rtol=1e-12, atol=1e-12)
    U = np.zeros(len(state.w))
    state.dual_vector(U)
    assert_allclose(state.w, U)
    assert_allclose(U, state.cuts.coef @ psi)


def test_planes_are_kept_sparse_where_that_is_smaller():
    cuts = Cuts(Quadratic())
    for psi in (np.eye(10)[3], np.arange(10.0), np.zeros(10)):
        cuts.add(psi, 1.0)
    assert [len(vector.values) for vector in cuts.psi] == [1, 10, 0]
    again = Cuts(Quadratic())
    again.restore(cuts.arrays())
    for vector, other in zip(cuts.psi, again.psi, strict=True):
        assert_array_equal(dense(vector, 10), dense(other, 10))


def test_planes_without_weight_are_dropped(form):
    case, ones = STRUCTURES[form], np.ones(STRUCTURES[form].n_blocks)
    few, all_ = (run(case.problem(), OneSlack(patience=p)) for p in (1, 10**6))
    assert_optimal(case, few, ones)
    assert len(all_.state["coef"]) == all_.certificate.passes
    assert len(few.state["coef"]) < len(all_.state["coef"])
    assert (few.state["coef"] > 0.0).all()


def test_bounds_never_fall_apart_and_the_lowest_primal_is_certified(form):
    result = run(STRUCTURES[form].problem(3.0), OneSlack())
    assert (np.diff(result.history["dual"]) >= -1e-13).all()
    assert (np.diff(result.history["primal"]) <= 1e-13).all()
    assert_allclose(result.history["primal"][-1], result.certificate.primal, rtol=1e-13)


def test_an_interrupted_pass_adds_no_plane(form):
    problem, solver = STRUCTURES[form].problem(blocks=np.arange(100) % 6), OneSlack()
    state = after(problem, 0)
    report = solver.pass_(problem, state, 1.0, lambda: False)
    assert (report.event.complete, report.oracle_calls) == (False, 64)
    assert (report.gap, report.candidate, state.cuts.psi) == (np.inf, None, [])
    assert_array_equal(state.w, 0.0)
    report = solver.pass_(problem, state, 1.0, lambda: True)
    assert (report.event.complete, report.oracle_calls, len(state.cuts.psi)) == (True, 100, 1)


@pytest.mark.parametrize(("batch", "calls"), [(None, 64), (2, 2)])
def test_an_interrupted_pass_leaves_the_dual_point_feasible(form, batch, calls):
    problem, solver = STRUCTURES[form].problem(blocks=np.arange(100) % 6), NSlack(batch=batch)
    state = after(problem, 0, solver)
    report = solver.pass_(problem, state, 1.0, lambda: False)
    assert (report.event.complete, report.oracle_calls) == (False, calls)
    U = np.zeros(len(state.w))
    state.dual_vector(U)
    assert_allclose(state.w, U, atol=1e-12)
    assert (state.part.duals.used() <= 1.0 + 1e-12).all()


class Careless(Tags):
    """Never sure that its label is the best one."""

    def bounded_argmax(self, x, w, truth=None):
        return self.argmax(x, w, truth), 0.01


def test_errors_of_oracles_are_in_the_primal(solver):
    case = STRUCTURES["tags-plain"]
    exact = run(case.problem(), solver).certificate
    result = solve(Problem(Careless(3), *case.data()), solver, tol=1e-6, max_iter=200)
    assert result.certificate.primal >= exact.primal + 0.01 * case.n_blocks - 1e-6
    assert_allclose(result.certificate.dual, exact.dual, rtol=1e-3)
    assert_allclose(result.history["primal"][-1], result.certificate.primal, rtol=1e-2)


# The QP


@st.composite
def quadratics(draw):
    """A Gram matrix, often singular, and a linear term, of several magnitudes."""
    seed, n, rank = draw(st.tuples(*(st.integers(0, 999), st.integers(1, 12), st.integers(0, 12))))
    rng, scale = np.random.default_rng(seed), 10.0 ** draw(st.integers(-2, 2))
    psi = rng.normal(size=(n, rank)) * 10.0 ** draw(st.integers(-2, 2))
    return psi @ psi.T, scale * rng.normal(size=n)


@given(quadratics(), st.integers(0, 999), st.booleans())
@settings(max_examples=100, deadline=None)
def test_weights_of_planes_are_feasible_and_best(quadratic, seed, begun):
    gram, linear = quadratic
    start = begun * np.random.default_rng(seed).dirichlet(np.ones(len(linear) + 1))[:-1]
    b = best_weights(gram, linear, start)
    assert (b >= 0.0).all()
    assert b.sum() <= 1.0 + 1e-15

    def value(b):
        return linear @ b - 0.5 * b @ gram @ b

    assert value(b) >= value(start) - 1e-13 * abs(value(start))
    slope = linear - gram @ b
    gap = max(slope.max(), 0.0) - b @ slope
    rounding = 1e-14 * (np.abs(linear).max() + (np.abs(gram) @ b).max())
    assert gap <= 1e-10 * value(b) + rounding


def like_each_other(rng, n):
    """Planes as they are found near an optimum."""
    share = np.geomspace(1.0, 1e-5, n)
    psi = rng.normal(size=40) + share[:, None] * rng.normal(size=(n, 40))
    return psi, 1.0 + share * rng.normal(size=n)


PLANES = {
    "any": lambda rng, n: (rng.normal(size=(n, 60)), rng.uniform(0.0, 2.0, n)),
    "more than dimensions": lambda rng, n: (rng.normal(size=(n, 3)), rng.uniform(-1.0, 2.0, n)),
    "each twice": lambda rng, n: (
        np.repeat(rng.normal(size=(n, 8)), 2, axis=0),
        np.repeat(rng.uniform(0.0, 2.0, n), 2),
    ),
    "collinear": lambda rng, n: (
        np.outer(rng.uniform(0.5, 2.0, n), rng.normal(size=5)),
        rng.uniform(0.0, 2.0, n),
    ),
    "like each other": like_each_other,
    "without psi": lambda rng, n: (np.zeros((n, 2)), rng.uniform(-1.0, 1.0, n)),
}


@pytest.mark.parametrize("C", [1e-8, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("n", [1, 2, 50])
@pytest.mark.parametrize("planes", PLANES)
def test_weights_of_planes_are_those_of_an_independent_qp(planes, n, C, rng):
    psi, losses = PLANES[planes](rng, n)
    best = solve_qp([psi], [losses], np.array([C]))[0]
    gram, linear = C**2 * psi @ psi.T, C * losses
    for start in (np.zeros(len(losses)), rng.dirichlet(np.ones(len(losses)))):
        b = best_weights(gram, linear, start)
        assert_allclose(linear @ b - 0.5 * b @ gram @ b, best, rtol=1e-8)


def test_weights_go_on_from_the_last_ones(rng):
    """As planes come one by one, the answer is that of all at once."""
    psi, losses = like_each_other(rng, 100)
    gram, b = psi @ psi.T, np.empty(0)
    for n in range(1, 101):
        b = best_weights(gram[:n, :n], losses[:n], np.append(b, 0.0))
        slope = losses[:n] - gram[:n, :n] @ b
        assert max(slope.max(), 0.0) - b @ slope <= 1e-12 * (losses[:n] @ b)
    assert_allclose(b @ psi, best_weights(gram, losses, np.zeros(100)) @ psi, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("size", [1e308, np.inf])
def test_numbers_that_overflow_change_no_weights(size):
    start = np.array([0.25, 0.5])
    b = best_weights(np.full((2, 2), size), np.array([1.0, 1e308]), start)
    assert (b >= 0.0).all()
    assert b.sum() <= 1.0
    assert_array_equal(best_weights(np.full((2, 2), np.nan), np.ones(2), start), start)


@pytest.mark.parametrize("answer", [np.zeros_like, lambda coef: np.full_like(coef, np.nan)])
def test_a_qp_that_is_not_solved_does_no_harm(form, answer, monkeypatch):
    case, solved = STRUCTURES[form], one_slack.best_weights
    wrong = iter([False, True] * 10)

    def sometimes(gram, linear, coef):
        return answer(coef) if next(wrong) else solved(gram, linear, coef)

    monkeypatch.setattr(one_slack, "best_weights", sometimes)
    result = solve(case.problem(), OneSlack(), max_iter=8)
    assert (np.diff(result.history["dual"]) >= -1e-13).all()
    assert_feasible(case, cut_points(case, result.state), np.ones(case.n_blocks))


# Weights, priors, starts


def test_qps_that_gain_nothing_are_not_repeated(monkeypatch):
    """At such scales rounding lets each gain a little; 50 of them made passes slow."""
    solved, calls = one_slack.best_weights, []

    def counted(*arguments):
        calls.append(arguments)
        return solved(*arguments)

    monkeypatch.setattr(one_slack, "best_weights", counted)
    X = 1e46 * np.random.default_rng(0).normal(size=(6, 2))
    problem = Problem(Multiclass(3), X, np.arange(6) % 3)
    certificate = solve(problem, OneSlack(), max_iter=40, tol=1e-6, random_state=0).certificate
    assert certificate.passes == 40
    assert len(calls) <= 2 * certificate.passes


@pytest.mark.parametrize("weights", ["uneven", "some are zero"])
def test_weights_of_blocks(form, solver, weights, rng):
    case = STRUCTURES[form]
    weight = {
        "uneven": rng.uniform(0.1, 3.0, size=case.n_blocks),
        "some are zero": 1.0 * (np.arange(case.n_blocks) % 3 > 0),
    }[weights]
    result = run(case.problem(2.0, weight), solver)
    assert_optimal(case, result, 2.0 * weight)


@pytest.mark.parametrize("C", [1e-6, 30.0])
def test_small_and_large_weights(form, solver, C):
    case = STRUCTURES[form]
    result = run(case.problem(C), solver, tol=1e-6)
    assert_optimal(case, result, np.full(case.n_blocks, C), rtol=2e-6)


@pytest.mark.parametrize(
    ("form", "kind"),
    [long_if(kind == "full", "chain", kind) for kind in ("mean", "all", "full")]
    + [("tags-plain", kind) for kind in ("mean", "diagonal", "nonneg", "all", "full")],
    indirect=["form"],
)
def test_priors_and_bounds(form, solver, kind):
    case = STRUCTURES[form]
    result = run_with_prior(form, kind, solver)
    best = solve_prior_qp(*case.reference, np.ones(case.n_blocks), *numbers(kind, n_weights(form)))
    assert result.certificate.status is Status.CONVERGED
    assert_allclose(result.certificate.primal, best[0], rtol=1e-6)
    assert result.certificate.dual <= best[0] * (1.0 + 1e-9)


@pytest.mark.parametrize("k", [2, 7])
def test_killed_and_resumed_is_uninterrupted(form, solver, k, tmp_path):
    problem = STRUCTURES[form].problem(3.0)
    snapshot = Snapshot(tmp_path / "run.taut", k)
    whole = run(
        problem, solver, callbacks=[snapshot], checkpoint=Checkpoint(snapshot.path, seconds=0.0)
    )
    resumed = run(problem, solver, checkpoint=snapshot.copy, random_state=99)
    assert_array_equal(resumed.w, whole.w)
    assert_array_equal(resumed.history["dual"], whole.history["dual"])
    assert_array_equal(resumed.history["primal"], whole.history["primal"])


def test_own_result_is_converged_at_once(form, solver):
    result = run(STRUCTURES[form].problem(), solver)
    again = run(STRUCTURES[form].problem(), solver, start=result.state)
    assert again.certificate.passes <= 2
    assert again.certificate.dual >= result.certificate.dual * (1.0 - 1e-7)


@pytest.mark.parametrize("form", ["multiclass-bias"])
def test_start_from_a_solve_without_passes(form):
    """The first was interrupted before a pass was over; the third had nothing left to do."""
    problem = STRUCTURES[form].problem()
    result = run(problem, OneSlack(), time_limit=1e-9)
    for _ in range(3):
        result = run(problem, OneSlack(), start=result.state)
    assert result.certificate.status is Status.CONVERGED


@pytest.mark.parametrize("C", [0.9, 1.1])
def test_start_from_another_factor(form, solver, C):
    case = STRUCTURES[form]
    fresh = run(case.problem(C), solver, tol=1e-3)
    start = run(case.problem(), solver)
    result = run(case.problem(C), solver, tol=1e-3, start=start.state)
    assert result.certificate.passes < fresh.certificate.passes
    assert_optimal(case, result, np.full(case.n_blocks, C), rtol=1e-3)


def test_start_from_other_weights_is_a_lower_bound(form, rng):
    case = STRUCTURES[form]
    weight = rng.uniform(0.5, 2.0, size=case.n_blocks)
    first = run(case.problem(), OneSlack())
    problem = case.problem(1.0, weight)
    state = after(problem, 0)
    state.hot_start(first.state, same_weights=False)
    U = np.zeros(len(state.w))
    state.dual_vector(U)
    result = run(problem, OneSlack(), start=first.state)
    assert_optimal(case, result, weight)
    assert 0.0 < problem.dual(state.loss_sum, U) <= result.certificate.primal


def test_start_from_blocks_without_weight(form):
    case = STRUCTURES[form]
    even = 1.0 * (np.arange(case.n_blocks) % 2 == 0)
    first = run(case.problem(1.0, even), OneSlack())
    ones = np.ones(case.n_blocks)
    assert_optimal(case, run(case.problem(), OneSlack(), start=first.state), ones)
    both = run(case.problem(), OneSlack(), start=first.state)
    assert_optimal(case, run(case.problem(1.0, even), OneSlack(), start=both.state), even)


def test_nothing_to_learn_leaves_no_planes():
    """All margins are kept by the prior."""
    prior = Regularizer(mean=np.full(2, 5.0))
    problem = Problem(Scalar(), np.eye(2), np.ones(2), regularizer=prior)
    for start in (None, run(problem, OneSlack(patience=1)).state):
        result = run(problem, OneSlack(patience=1), start=start)
        assert (result.certificate.primal, result.certificate.dual) == (0.0, 0.0)
        assert len(result.state["coef"]) == 0


def test_start_from_another_solver_is_refused(solver):
    case = STRUCTURES["chain"]
    other = NSlack() if solver.name == "one_slack" else OneSlack()
    start = run(case.problem(), other).state
    with pytest.raises(
        InvalidData, match=r"the start (was made by another solver|has no .*places)"
    ):
        run(case.problem(), solver, start=start)


# Data that are read part by part


@pytest.mark.parametrize("form", ["chain", "tags-plain"], indirect=True)
def test_streams_give_what_memory_gives(form):
    case = STRUCTURES[form]
    result = run(StreamedProblem(case.structure, stream(case)), OneSlack())
    other = run(case.problem(blocks=np.arange(40) % case.n_blocks), OneSlack())
    assert_allclose(result.certificate.primal, in_memory(form).certificate.primal, rtol=2e-7)
    assert result.certificate.passes == other.certificate.passes
    assert_allclose(result.w, other.w, rtol=1e-6, atol=1e-8)


def test_a_pass_reads_the_data_once():
    case, readings = STRUCTURES["chain"], []

    def parts():
        readings.append(1)
        return iter([part_of(case, [0, 1, 2]), part_of(case, [3, 4, 5])])

    problem = StreamedProblem(case.structure, Stream(parts, kind="sequences"))
    before = len(readings)
    after(problem, 3)
    assert len(readings) == before + 3


def test_an_interrupt_is_heard_between_parts():
    case, answers = STRUCTURES["chain"], iter([True, False, False])
    problem = StreamedProblem(case.structure, stream(case))
    state = after(problem, 0)
    report = OneSlack().pass_(problem, state, 1.0, lambda: next(answers))
    assert (report.event.complete, report.oracle_calls, len(state.cuts.psi)) == (False, 7, 0)


def test_start_of_a_stream_from_another_factor():
    case = STRUCTURES["chain"]
    source = stream(case)
    first = run(StreamedProblem(case.structure, source), OneSlack())
    problem = StreamedProblem(case.structure, source, C=2.0)
    result = run(problem, OneSlack(), start=first.state)
    assert_allclose(
        result.certificate.primal, in_memory("chain", C=2.0).certificate.primal, rtol=2e-7
    )


def test_start_of_a_stream_with_other_sample_weights_is_refused():
    case = STRUCTURES["chain"]
    first = run(StreamedProblem(case.structure, stream(case)), OneSlack())
    problem = StreamedProblem(case.structure, stream(case), recoding=b"others")
    with pytest.raises(InvalidData, match="other sample weights"):
        run(problem, OneSlack(), start=first.state)


def test_data_that_can_be_read_only_once_are_refused():
    case = STRUCTURES["chain"]
    problem = StreamedProblem(case.structure, stream(case, once=True))
    with pytest.raises(InvalidData, match="one_slack goes over the data again and again"):
        run(problem, OneSlack())


# The rest


@pytest.mark.parametrize("form", ["multiclass-single", "chain"], indirect=True)
def test_threads_find_the_same(form, solver):
    case = STRUCTURES[form]
    X, y = case.data(np.arange(200) % case.n_blocks)
    one, two = (run(Problem(case.structure, X, y, n_jobs=n), solver, tol=1e-6) for n in (1, 2))
    assert_allclose(two.certificate.primal, one.certificate.primal, rtol=2e-6)
    assert two.certificate.status is Status.CONVERGED


def test_the_oracle_adds_labels_and_moves_nothing(form):
    problem = STRUCTURES[form].problem()
    state = after(problem, 1, NSlack())
    w, n = state.w.copy(), problem.n_blocks
    places = state.part.duals.planes.arrays.places[:, 0].copy()
    state.part.duals.visit(np.arange(n), state.w, 1.0, True, state.part.gap, np.zeros(3))
    assert_array_equal(state.w, w)
    assert (state.part.duals.planes.arrays.places[:, 0] >= places).all()


@pytest.mark.parametrize("batch", [None, 1, 2])
def test_batches_never_let_the_dual_fall(form, batch):
    case = STRUCTURES[form]
    result = run(case.problem(3.0), NSlack(batch=batch))
    duals = result.history["dual"]
    assert (np.diff(duals) >= -1e-12 * np.abs(duals[1:])).all()
    assert_optimal(case, result, np.full(case.n_blocks, 3.0))


def test_qps_of_more_precision_need_fewer_calls_of_the_oracle():
    problem = STRUCTURES["chain"].problem(10.0, blocks=np.arange(60) % 6)
    rough, fine = (solve(problem, NSlack(precision=p), tol=1e-3, random_state=0) for p in (1, 0.01))
    assert fine.certificate.oracle_calls < rough.certificate.oracle_calls


def test_estimators_know_the_names(rng):
    X, y = rng.normal(size=(30, 2)), np.arange(30) % 3
    values = [
        MulticlassSVM(solver=name, random_state=0, tol=1e-4).fit(X, y).certificate_.primal
        for name in ("one_slack", "n_slack", "dual_coordinate")
    ]
    assert_allclose(values[:2], values[2], rtol=2e-4)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (OneSlack, {"patience": 0}, r"patience = 0: it must be at least 1"),
        (NSlack, {"batch": 0}, r"batch = 0: it must be at least 1, or None for all"),
        (NSlack, {"precision": 0.0}, r"precision = 0.0 must be positive"),
        (NSlack, {"max_sweeps": 0}, r"max_sweeps = 0 at least 1"),
    ],
)
def test_bad_options_are_refused(kind, options, message):
    with pytest.raises(InvalidData, match=message):
        kind(**options)
