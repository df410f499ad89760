"""Pegasos by mini-batches, sampled cuts and LaSVM: their updates, their bounds, going on."""

import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import subset_runs
from cases import STRUCTURES
from reference import solve_qp
from subset_runs import RNG, SIGNS, WEIGHT, X, passes
from taut import BinarySVM, Problem, Regularizer, solve
from taut.engines import turns
from taut.errors import InvalidData
from taut.kernels import RBF, ClassSimilarity, Linear, PairProduct
from taut.solvers import (
    DualCoordinate,
    FunctionalDescent,
    LaSVM,
    MiniBatchPegasos,
    OneSlack,
    SampledCuts,
)
from taut.solvers.base import PassEvent
from taut.solvers.baselines import la_svm
from taut.solvers.baselines.la_svm import ProcessState
from taut.spaces.kernel import through_kernel
from taut.structures import JointKernel, Multiclass, Scalar
from taut.training.loop import Run

NAMES = ("multiclass-cost-bias", "tags-plain")  # compiled and plain
SOLVERS = {
    "pegasos": MiniBatchPegasos(subset=7),
    "pegasos-uniform": MiniBatchPegasos(subset=7, order="uniform", averaging=False),
    "cuts": SampledCuts(subset=7),
    "la-svm": LaSVM(candidates=5),
}


def kernelised(**settings):
    return subset_runs.kernelised(weight=WEIGHT, **settings)


def optimum(C=1.0):
    """The optimum of the kernel problem, by an independent QP."""
    factors = np.linalg.cholesky(RBF(0.5)(X) + 1e-12 * np.eye(90))
    psi = [np.vstack([np.zeros(90), sign * row]) for sign, row in zip(SIGNS, factors)]
    return solve_qp(psi, [np.array([0.0, 1.0])] * 90, C * WEIGHT)[0]


@pytest.mark.parametrize("name", NAMES)
def test_pegasos_takes_the_steps_of_its_definition(name):
    case = STRUCTURES[name]
    psi, losses = case.reference
    n, k, C, decay = len(psi), 3, 0.7, 2.0
    weight = np.linspace(0.5, 1.5, n)
    w = average = np.zeros(psi[0].shape[1])
    t = 0
    for _ in range(2):
        for first in range(0, n, k):
            t += 1
            added = np.zeros_like(w)
            for i in range(first, min(first + k, n)):
                violations = losses[i] - psi[i] @ w
                worst = violations.argmax()
                if violations[worst] > 0:
                    added += C * weight[i] * psi[i][worst]
            w = (1 - 1 / t) * w + n / (k * t) * added
            average = average + (decay + 1) / (t + decay) * (w - average)
    problem = case.problem(C=C, sample_weight=weight)
    solver = MiniBatchPegasos(subset=k, order="window", decay=decay)
    state = passes(problem, solver, 2).state
    assert_allclose(problem.data.user_weights(state.w), w, atol=1e-9)
    assert_allclose(problem.data.user_weights(state.average), average, atol=1e-9)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_bounds_enclose_the_optimum_after_each_pass(solver, C):
    best = optimum(C)
    for count in (1, 2, 5, 30):
        result = solve(kernelised(C=C), SOLVERS[solver], tol=0.0, max_iter=count, random_state=0)
        found = result.certificate
        assert 0.0 < found.dual <= best * (1 + 1e-6)
        assert found.primal >= best * (1 - 1e-6)
        assert_allclose(kernelised(C=C).primal(result.w), found.primal, rtol=1e-6)
    assert found.primal <= 1.5 * best


@pytest.mark.parametrize("C", [0.01, 0.1])
def test_blocks_that_are_drawn_more_often_make_no_bound_too_high(C):
    """By residuals wrong labels are drawn again and again: no block may get more than C_i."""
    rng = np.random.default_rng(3)
    signs = np.where(rng.random(90) < 0.3, -SIGNS, SIGNS)
    factors = np.linalg.cholesky(RBF(0.5)(X) + 1e-12 * np.eye(90))
    psi = [np.vstack([np.zeros(90), sign * row]) for sign, row in zip(signs, factors)]
    best = solve_qp(psi, [np.array([0.0, 1.0])] * 90, np.full(90, C))[0]
    problem = Problem(Scalar(), X, signs, C=C, space=through_kernel(RBF(0.5), whole=0))
    for count in (1, 3, 10):
        solver = MiniBatchPegasos(subset=7, order="residual")
        found = solve(problem, solver, tol=0.0, max_iter=count, random_state=0).certificate
        assert 0.0 < found.dual <= best * (1 + 1e-6)


@pytest.mark.parametrize("solver", ["pegasos", "cuts"])
def test_lower_bounds_do_not_fall(solver):
    run = passes(kernelised(C=10.0), SOLVERS[solver], 0)
    duals = []
    for _ in range(25):
        while not run.solver.pass_(run.problem, run.state, 1.0, lambda: True).event.over:
            pass
        U = np.zeros_like(run.state.w)
        run.state.dual_vector(U)
        duals.append(run.problem.dual(run.state.loss_sum, U))
        assert_allclose(run.state.dual_value(0.0), duals[-1], rtol=1e-5)
    assert (np.diff(duals) >= -1e-5 * duals[-1]).all()
    other = run.solver.init(run.problem, np.random.default_rng(0))
    other.restore(run.state.arrays())
    assert other.dual_value(0.0) == run.state.dual_value(0.0)


def test_la_svm_knows_rows_without_length():
    rows = X.copy()
    rows[[5, 9]] = 0.0
    space = through_kernel(Linear(), whole=0)
    problem = Problem(Scalar(), rows, SIGNS, C=0.5, sample_weight=WEIGHT, space=space)
    psi = [np.vstack([np.zeros(3), sign * row]) for sign, row in zip(SIGNS, rows)]
    best = solve_qp(psi, [np.array([0.0, 1.0])] * 90, 0.5 * WEIGHT)[0]
    found = solve(problem, LaSVM(precision=1e-6), tol=1e-4, random_state=0).certificate
    assert found.status.name == "CONVERGED"
    assert_allclose([found.primal, found.dual], best, rtol=2e-4)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("solver", ["pegasos", "cuts"])
def test_bounds_enclose_optima_of_structures(name, solver):
    case = STRUCTURES[name]
    psi, losses = case.reference
    best, _w = solve_qp(psi, losses, np.ones(len(psi)))
    for count in (1, 40):
        found = solve(
            case.problem(), SOLVERS[solver], tol=0.0, max_iter=count, random_state=0
        ).certificate
        assert 0.0 < found.dual <= best * (1 + 1e-6)
        assert found.primal >= best * (1 - 1e-6)


@pytest.mark.parametrize("solver", ["pegasos", "cuts"])
def test_inner_products_as_a_kernel_take_the_steps_of_linear_features(solver):
    linear = Problem(Scalar(), X, SIGNS, C=2.0)
    for whole in (0, 1000):
        space = through_kernel(Linear(), dtype=np.float64, whole=whole)
        through = Problem(Scalar(), X, SIGNS, C=2.0, space=space)
        first, second = (passes(p, SOLVERS[solver], 6) for p in (linear, through))
        assert_allclose(
            through.data.hinges(second.state.w), linear.data.hinges(first.state.w), atol=1e-6
        )
        assert_allclose(second.state.loss_sum, first.state.loss_sum, rtol=1e-6)


@pytest.mark.parametrize("solver", SOLVERS)
def test_killed_and_resumed_is_uninterrupted(solver, tmp_path):
    options = {"random_state": 0, "tol": 0.0}
    whole = solve(kernelised(), SOLVERS[solver], max_iter=4, **options)
    solve(kernelised(), SOLVERS[solver], max_iter=2, checkpoint=tmp_path / "run", **options)
    resumed = solve(
        kernelised(), SOLVERS[solver], max_iter=4, checkpoint=tmp_path / "run", **options
    )
    # Potentials that bounds were read off are those of float64.
    assert_allclose(resumed.w, whole.w, atol=2e-3 * np.abs(whole.w).max())
    assert_allclose(resumed.certificate.dual, whole.certificate.dual, rtol=1e-3)


def test_planes_of_all_violated_examples_are_those_of_one_slack():
    case = STRUCTURES["multiclass-cost-bias"]
    points = []
    for solver in (OneSlack(), SampledCuts(subset=1.0)):
        problem = case.problem(C=3.0)
        state = solver.init(problem, np.random.default_rng(0))
        for _ in range(8):
            solver.pass_(problem, state, 1.0, lambda: True)
        points.append(state)
    whole, sampled = points
    assert_allclose(sampled.w, whole.w, atol=1e-9)
    assert_allclose(sampled.lowest, whole.lowest)


def test_planes_of_samples_are_right_on_average():
    """At w = 0 all examples are violated, so that the first plane is the mean of all samples."""
    case = STRUCTURES["multiclass-cost-bias"]
    planes = []
    for seed in range(400):
        problem = case.problem()
        state = SampledCuts(subset=2).init(problem, np.random.default_rng(seed))
        SampledCuts(subset=2).pass_(problem, state, 1.0, lambda: True)
        U = np.zeros_like(state.w)
        state.cuts.sum_up(np.ones(1), U)
        planes.append(U)
    whole = OneSlack().init(case.problem(), RNG)
    OneSlack().pass_(case.problem(), whole, 1.0, lambda: True)
    U = np.zeros_like(whole.w)
    whole.cuts.sum_up(np.ones(1), U)
    spread = np.std(planes, axis=0) / np.sqrt(len(planes))
    assert (np.abs(np.mean(planes, axis=0) - U) <= 4.5 * spread + 1e-9).all()


@pytest.mark.parametrize("cache", ["500MB", 90 * 4 * 20])
@pytest.mark.parametrize("candidates", [1, 50])
def test_la_svm_finds_the_optimum(candidates, cache):
    small = cache != "500MB"
    solver = LaSVM(candidates=candidates, precision=1e-7)
    problem = kernelised(C=5.0, cache=cache)
    with pytest.warns(match="the cache holds") if small else np.errstate():
        found = solve(problem, solver, tol=1e-6, random_state=0).certificate
    assert found.status.name == "CONVERGED"
    assert_allclose(found.primal, optimum(5.0), rtol=1e-5)


def test_la_svm_keeps_a_set_of_rows_that_matter():
    problem = kernelised(C=5.0)
    state = passes(problem, LaSVM(precision=1e-3), 2).state
    members = state.members[: state.counters[3]]
    assert_array_equal(np.sort(members), np.flatnonzero(state.inside))
    violation = 1.0 - SIGNS * problem.data.blocks.features.shares(state.w)[0][0]
    alpha, weight = state.alpha, problem.block_weight
    up = np.where(alpha < weight, violation, 0.0)[members]
    down = np.where(alpha > 0.0, -violation, 0.0)[members]
    assert max(up.max(), down.max()) <= 1e-3
    assert (alpha[~state.inside] == 0.0).all()
    assert ((alpha[members] > 0.0) | (violation[members] > 0.0)).all()


def stretched(size=1000.0):
    """Rows whose finishing takes more steps than anybody waits for."""
    space = through_kernel(Linear(), whole=0)
    return Problem(Scalar(), X * [1.0, size, 1.0], SIGNS, sample_weight=WEIGHT, space=space)


def test_finishing_ends_whatever_the_features_are():
    problem = stretched()
    state = passes(problem, LaSVM(), 1).state
    assert state.counters[5] == 50 * 90
    assert state.counters[0] == 90
    exact = passes(kernelised(C=5.0), LaSVM(precision=1e-15), 20).state
    assert exact.counters[5] == 0  # violations are rounding by then


def test_finishing_ends_where_a_step_changes_nothing(monkeypatch):
    monkeypatch.setattr(LaSVM, "precision", 1e-300)
    monkeypatch.setattr(ProcessState, "rounding", 0.0)
    rows = np.vstack([np.eye(3)] * 3)[:8]
    problem = Problem(
        Scalar(), rows * 0.3, np.resize([1.0, -1.0, 1.0], 8), C=1e3,
        space=through_kernel(Linear(), whole=0),
    )  # fmt: skip
    assert passes(problem, LaSVM(precision=1e-300), 1).state.counters[5] < 50 * 8


def test_finishing_in_parts_is_the_one_in_one(monkeypatch):
    """Left when it is time for a report, saved there, and taken up again."""
    monkeypatch.setattr(la_svm, "_MOVED", 90 * 100)
    whole = passes(stretched(), LaSVM(), 2).state
    monkeypatch.setattr(turns, "_SECONDS_BETWEEN_REPORTS", 0.0)
    first = passes(stretched(), LaSVM(), 0)
    while first.state.counters[5] <= 200:
        first.solver.pass_(first.problem, first.state, 1.0, lambda: True)
    run, events = passes(stretched(), LaSVM(), 0), []
    run.state.restore(first.state.arrays())
    run.state.rng = first.state.rng
    while sum(event.over for event in events) < 2:
        events.append(run.solver.pass_(run.problem, run.state, 1.0, lambda: True).event)
    assert events.count(PassEvent.PART) > 20
    assert_allclose(run.state.alpha, whole.alpha, rtol=1e-3)  # potentials are made afresh


def test_many_candidates_are_no_more_than_all_rows(monkeypatch):
    asked = []

    def keep_going():
        asked.append(1)
        return True

    monkeypatch.setattr(la_svm, "_DRAWN", 900)
    problem, states = kernelised(), []
    for candidates in (90, 10**9):
        solver = LaSVM(candidates=candidates)
        state = passes(problem, solver, 0).state
        solver.pass_(problem, state, 1.0, keep_going)
        states.append(state)
    assert_array_equal(states[0].alpha, states[1].alpha)
    assert len(asked) >= 2 * 9  # after each ten picks


def test_la_svm_without_finishing_does_not_lower_the_dual():
    problem, solver = kernelised(C=5.0), LaSVM(finishing=False, candidates=1)
    run = Run(problem, solver, 1e-3, np.random.default_rng(0))
    duals = []
    for _ in range(4):
        solver.pass_(problem, run.state, 1.0, lambda: True)
        U = np.zeros_like(run.state.w)
        run.state.dual_vector(U)
        duals.append(problem.dual(run.state.loss_sum, U))
    assert (np.diff(duals) >= -1e-9).all()
    assert duals[0] > 0.0


def test_rows_without_weight_or_length_never_move():
    weight = np.where(np.arange(90) < 40, 1.0, 0.0)
    for solver in SOLVERS.values():
        rows = X.copy()
        rows[5] = 0.0
        space = through_kernel(Linear(), whole=0)
        problem = Problem(Scalar(), rows, SIGNS, sample_weight=weight, space=space)
        state = passes(problem, solver, 3).state
        assert not problem.data.blocks.features.shares(state.w)[1][0, 40:].any()
        assert np.isfinite(state.w).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MiniBatchPegasos(subset=0), "subset = 0: give a number of examples"),
        (lambda: MiniBatchPegasos(order="gap"), "order = 'gap'"),
        (lambda: MiniBatchPegasos(averaging=2), "averaging = 2"),
        (lambda: MiniBatchPegasos(decay=-1.0), "decay = -1"),
        (lambda: SampledCuts(subset=2.0), "subset = 2.0"),
        (lambda: SampledCuts(patience=0), "patience = 0"),
        (lambda: MiniBatchPegasos(decay="a"), "decay = 'a': give a number"),
        (lambda: LaSVM(candidates=0), "candidates = 0: give a whole number from 1 on"),
        (lambda: LaSVM(candidates=2.5), "candidates = 2.5"),
        (lambda: LaSVM(candidates=True), "candidates = True"),
        (lambda: LaSVM(candidates="a"), "candidates = 'a'"),
        (lambda: LaSVM(precision=0.0), "precision = 0.0: give a number between 0 and 1"),
        (lambda: LaSVM(precision=True), "precision = True"),
        (lambda: LaSVM(finishing="no"), "finishing = 'no'"),
    ],
)
def test_settings_are_checked(make, message):
    with pytest.raises(InvalidData, match=message):
        make()


def test_what_they_have_no_use_for_is_refused():
    linear = Problem(Scalar(), X, SIGNS)
    with pytest.raises(InvalidData, match="la_svm steps along rows of a kernel matrix: give a"):
        solve(linear, LaSVM())
    classes = Problem(Multiclass(3), X, RNG.integers(0, 3, 90), space=through_kernel(RBF(0.5)))
    with pytest.raises(InvalidData, match="la_svm is for two classes"):
        solve(classes, LaSVM())
    positive = Problem(Scalar(), X, SIGNS, regularizer=Regularizer(nonneg=True))
    with pytest.raises(InvalidData, match="mini_batch_pegasos has no prior and no sign"):
        solve(positive, MiniBatchPegasos())
    pairs = JointKernel(PairProduct(RBF(0.5), ClassSimilarity(np.eye(2))), [0, 1])
    for solver in (MiniBatchPegasos(), SampledCuts()):
        with pytest.raises(InvalidData, match="points of JointKernel are numbers of pairs"):
            solve(Problem(pairs, X, (SIGNS > 0).astype(int)), solver)
    start = solve(linear, MiniBatchPegasos(), max_iter=1).state
    hot = solve(linear, max_iter=1).state
    for solver in (MiniBatchPegasos(), SampledCuts()):
        for given in (start, hot):
            with pytest.raises(InvalidData, match="keeps no dual variables to start from"):
                solve(linear, solver, start=given)
        cold = solve(linear, solver, max_iter=1).state
        with pytest.raises(InvalidData, match="a solver that keeps no dual variables"):
            solve(linear, DualCoordinate(), start=cold)


@pytest.mark.parametrize("solver", [FunctionalDescent(), MiniBatchPegasos(), SampledCuts()])
def test_what_cannot_start_from_another_fit_says_so_at_once(solver):
    model = BinarySVM(solver=solver, warm_start=True, kernel=RBF(0.5))
    with pytest.raises(InvalidData, match=r"warm_start = True: .*with warm_start=False"):
        model.fit(X, SIGNS)
    assert not hasattr(model, "certificate_")

    def press(record):
        signal.raise_signal(signal.SIGINT)

    found = solve(kernelised(), solver, tol=0.0, callbacks=[press], random_state=0).certificate
    assert found.status.name == "INTERRUPTED"
    assert f"{solver.name} keeps no dual variables to start from" in found.message
    assert "warm_start=True" not in found.message


def test_shares_are_of_the_examples_that_have_weight():
    weight = np.where(np.arange(90) < 40, 1.0, 0.0)
    problem = Problem(Scalar(), X, SIGNS, sample_weight=weight)
    state = passes(problem, SampledCuts(subset=0.25), 1).state
    assert [len(drawn) for drawn in state.drawn] == [10]


def test_a_dual_point_may_be_longer_than_w():
    """Where no example has got as much as it may, w is not the best multiple of itself."""
    problem = kernelised(C=0.01)
    state = passes(problem, MiniBatchPegasos(subset=90), 1).state
    shorter = problem.quadratic.highest_along(state.w, state.losses, 1.0)[1]
    state.step *= 2  # as if it had taken half of the steps that it may
    state.best.value = 0.0
    state.appraise()
    assert state.best.value > 1.5 * shorter
