"""Functional descent: each step is the problem that it says, and nothing is claimed beyond that."""

import copy
import itertools
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import reference
from cases import STRUCTURES
from subset_runs import SIGNS, X, kernelised, passes
from taut import Problem, Regularizer, solve
from taut.binding.row_problem import RowProblem, row_problem
from taut.errors import InvalidData, InvalidType
from taut.kernels import RBF, Function, Linear
from taut.solvers import DualCoordinate, FunctionalDescent, SampledCuts
from taut.solvers._subsets import drawn_by
from taut.spaces.few_rows import FewRows
from taut.spaces.kernel import through_kernel
from taut.spaces.kernel_rows import WorkingMatrix
from taut.spaces.support_budget import SupportBudget
from taut.structures import Scalar
from taut.training.loop import Run

CASES = {name: STRUCTURES[name] for name in ("scalar-bias", "multiclass-cost-bias", "chain")}
LEAST = {"none": (-np.inf, np.inf), "above": (-np.inf, 1.0), "both": (0.0, 1.0)}


def residuals(losses, psi, w, bounds):
    """Losses of the problem in u, as the definition has them."""
    least, most = LEAST[bounds]
    return [
        np.clip(own - rows @ w, least, most * own.max() if most < np.inf else most)
        for own, rows in zip(losses, psi, strict=True)
    ]


@pytest.mark.parametrize(
    ("name", "bounds", "inner"),
    [
        *itertools.product(
            ("scalar-bias", "multiclass-cost-bias"), ("none", "above", "both"), (None,)
        ),
        ("scalar-csr-bias", "above", None),
        ("multiclass-csr-cost-bias", "above", None),
        ("multiclass-cost-bias", "above", DualCoordinate()),
        ("chain", "none", None),
        ("tags-plain", "none", None),
    ],
)
def test_two_steps_are_two_quadratic_programs(name, bounds, inner):
    """Whose examples have weights; those without any are left out."""
    case = STRUCTURES[name]
    given = np.ones(case.n_blocks)
    if name != "tags-plain":  # whose problems take more sweeps then than there are at most
        given = np.linspace(0.4, 1.6, case.n_blocks)
        given[1] = 0.0
    kept = np.flatnonzero(given)
    psi, losses = ([values[i] for i in kept] for values in case.reference)
    problem, half = case.problem(sample_weight=given), -(-len(psi) // 2)
    solver = FunctionalDescent(
        subset=half, order="window", bounds=bounds, precision=1e-9, averaging=False, factor=0.7,
        inner=inner,
    )  # fmt: skip
    run, w = passes(problem, solver), np.zeros(psi[0].shape[1])
    for step, own in zip(run.state.steps, (slice(0, half), slice(half, None)), strict=True):
        some, k, weight = psi[own], len(psi[own]), given[kept[own]]
        rho = residuals(losses[own], some, w, bounds)
        hinges = np.array([max((r - p @ w).max(), 0.0) for r, p in zip(losses[own], some)])
        assert_allclose(step.hinge, weight @ hinges / k, rtol=1e-5, atol=1e-7)
        if hinges.min() > 1e-4 or not hinges.any():  # otherwise rounding decides
            assert_allclose(step.with_loss, weight @ (hinges > 0) / weight.sum())
        best, u = reference.solve_qp(some, rho, weight / 0.7)  # 1 / (lambda k), lambda = 0.7 / k
        w = w + u
        assert_allclose(step.square, u @ u, rtol=5e-4, atol=1e-8)
        assert step.gap <= 1e-9 * max(best, 1e-9) + 1e-12
    assert_allclose(problem.data.user_weights(run.state.w), w, atol=1e-4)


@pytest.mark.parametrize("bounds", ["none", "above", "both"])
@pytest.mark.parametrize("schedule", ["constant", "linear", "power", "geometric"])
def test_steps_are_as_short_as_theorem_3_says(schedule, bounds):
    rate = {"power": 2.5, "geometric": 0.9}.get(schedule)
    weight = np.linspace(0.0, 2.0, 90)
    space = through_kernel(RBF(0.5), whole=0)
    weighted = Problem(Scalar(), X, SIGNS, sample_weight=weight, space=space)
    for problem in (CASES["multiclass-cost-bias"].problem(), weighted):
        solver = FunctionalDescent(
            subset=7, schedule=schedule, rate=rate, bounds=bounds, precision=0.05
        )
        steps = passes(problem, solver, 3).state.steps
        assert len(steps) == 3 * -(-np.count_nonzero(problem.block_weight) // 7)
        for step in steps:
            assert step.square <= (step.residual / step.rate + step.gap) * (1 + 1e-9)
            assert step.gap >= 0.0
            assert step.residual <= step.hinge * (1 + 1e-9)


def test_rows_with_two_or_more_classes_are_solved_on_their_matrix():
    """And no others: inner products of psi are those of rows, by class."""
    for name, case in STRUCTURES.items():
        data, blocks = case.problem().data, np.arange(case.n_blocks)
        found = row_problem(data, blocks) if data.bounds_residuals else None
        rows = name.split("-")[0] in ("scalar", "multiclass") and "slack" not in name
        assert (found is not None) == rows, name
        if found is None:
            continue
        K, (psi, _losses) = found.rows.gram(), case.reference
        for i, j in itertools.product(blocks[:4], repeat=2):
            there = psi[i] @ psi[j].T
            ours = np.zeros_like(there)
            for a, b in itertools.product(range(len(psi[i])), range(len(psi[j]))):
                if found.columns == 1:
                    ours[a, b] = K[i, j] * found.signs[i] * found.signs[j]
                else:
                    one, other = np.zeros((2, found.columns))
                    for row, t, y in ((one, found.truth[i], a), (other, found.truth[j], b)):
                        row[t] += 1.0
                        row[y] -= 1.0
                    ours[a, b] = K[i, j] * (one @ other)
            assert_allclose(ours, there, rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("by_features", [False, True])
@pytest.mark.parametrize("columns", [1, 4])
def test_problems_of_rows_are_solved_to_their_precision(columns, by_features):
    """With a row of length 0, one without weight, and losses of both signs."""
    k, rng = 16, np.random.default_rng(1)
    rows, weight = rng.normal(size=(k, 3)), rng.uniform(0.5, 5.0, k)
    rows[2], weight[5] = 0.0, 0.0

    class Rows(FewRows):
        def gram(self):
            return rows @ rows.T

        def factor(self):
            return rows if by_features else None

        def add(self, coefficients, targets):
            pytest.fail("a step on few rows reads them, and adds them elsewhere")

    signs, truth = rng.choice([-1.0, 1.0], k), np.full(k, -1)
    losses = rng.normal(0.5, 1.0, (k, columns))
    if columns == 1:
        psi = [np.vstack([np.zeros(3), sign * row]) for sign, row in zip(signs, rows)]
        all_losses = np.hstack([np.zeros((k, 1)), losses])
    else:
        signs, truth = np.ones(k), rng.integers(0, columns, k)
        losses[np.arange(k), truth] = 0.0
        psi = [np.kron(np.eye(columns)[t] - np.eye(columns), x) for t, x in zip(truth, rows)]
        all_losses = losses
    best, w = reference.solve_qp(psi, list(all_losses), weight)
    problem = RowProblem(Rows(), truth, signs, columns)
    for precision in (0.1, 1e-8):
        found = problem.solve(losses, weight, precision, np.uint64(1), lambda: True)
        u = (found.coefficients.T @ rows).ravel()
        assert_allclose(found.square, u @ u, rtol=1e-9)
        primal = reference.primal(u, psi, list(all_losses), weight)
        assert best * (1 - 1e-9) <= primal <= best + found.gap + 1e-9
        assert found.gap <= precision * best
    assert_allclose(u, w, atol=1e-3)
    stopped = problem.solve(losses, weight, 1e-12, np.uint64(1), lambda: False)
    assert stopped.gap >= 0.0


def test_the_average_counts_the_t_th_step_as_t_does():
    for name in ("scalar-bias", "chain"):
        case, points = CASES[name], []
        problem = case.problem()
        solver = FunctionalDescent(subset=2, order="window")
        run = Run(problem, solver, 1e-3, np.random.default_rng(0))
        for _ in range(3):
            solver.pass_(problem, run.state, 1.0, lambda: False)  # a step, and no more
            points.append(run.state.w.copy())
        taken = len(points)
        weights = np.arange(1, taken + 1)[:, None]
        assert run.state.step == taken
        assert_allclose(
            run.state.average, (weights * points).sum(axis=0) / weights.sum(), atol=1e-12
        )


def test_schedules_are_what_they_say():
    def rates(**settings):
        return [FunctionalDescent(subset=5, **settings).rate_of(t, 5, 40) for t in (1, 2, 8)]

    assert_allclose(rates(), [0.2, 0.2, 0.2])
    assert_allclose(rates(factor=10.0), [2.0, 2.0, 2.0])
    assert_allclose(rates(schedule="linear"), [1 / 40, 2 / 40, 8 / 40])
    assert_allclose(rates(schedule="linear", n_total=80), [1 / 80, 2 / 80, 8 / 80])
    assert_allclose(rates(schedule="geometric", rate=0.5), [2.0, 4.0, 256.0])
    assert_allclose(rates(schedule="power", rate=3.0), [1.0, 8.0, 512.0])
    assert_allclose(rates(schedule=lambda t: 0.1 * t), [0.1, 0.2, 0.8])


@pytest.mark.parametrize("order", ["permuted", "window", "uniform", "residual"])
def test_a_pass_has_as_many_examples_as_there_are(order):
    run = passes(kernelised(RBF(0.5)), FunctionalDescent(subset=20, order=order), 2)
    assert [step.seen for step in run.state.steps] == [20, 40, 60, 80, 90, 110, 130, 150, 170, 180]
    rates = [step.rate for step in run.state.steps]
    assert_allclose(rates, [1 / 20, 1 / 20, 1 / 20, 1 / 20, 1 / 10] * 2)


def test_odds_by_residual_leave_out_what_has_none():
    problem = kernelised(RBF(0.5))
    solver = FunctionalDescent(subset=10, order="residual", averaging=False)
    run = passes(problem, solver, 3)
    hinges = problem.data.hinges(run.state.w)
    subset = next(solver._chosen(problem, run.state, np.arange(90)))
    violating = np.count_nonzero(hinges > 0)
    assert np.count_nonzero(hinges[subset] > 0) == min(violating, 10)
    assert len(set(subset.tolist())) == 10


def test_odds_are_those_of_bounded_residual_margins():
    """Also where an example is far on the wrong side: no step mends more than its loss."""
    for name in ("scalar-bias", "multiclass-cost-bias"):
        case = CASES[name]
        psi, losses = case.reference
        problem = case.problem()
        state = FunctionalDescent().init(problem, np.random.default_rng(0))
        state.w[:] = np.random.default_rng(1).normal(size=len(state.w)) * 5.0
        w = problem.data.user_weights(state.w)
        for bounds in LEAST:
            found = FunctionalDescent(bounds=bounds).violations(problem, state)
            expected = [max(r.max(), 0.0) for r in residuals(losses, psi, w, bounds)]
            assert_allclose(np.maximum(found, 0.0), expected, rtol=1e-5, atol=1e-6)


def test_odds_are_proportional_to_hinges():
    hinges, rng = np.array([0.0, 1.0, -3.0, 2.0, 5.0]), np.random.default_rng(0)
    counts = np.zeros(5)
    for _ in range(4000):
        counts[drawn_by(hinges, 1, rng)] += 1
    expected = 4000 * np.maximum(hinges, 0.0) / 8.0
    assert (np.abs(counts - expected) <= 4.5 * np.sqrt(expected) + 1e-9).all()


def test_the_estimate_of_a_pass_is_the_objective_as_its_steps_saw_it():
    weight = np.linspace(0.5, 2.0, 90)
    space = through_kernel(RBF(0.5), whole=0)
    problem = Problem(Scalar(), X, SIGNS, C=3.0, sample_weight=weight, space=space)
    solver = FunctionalDescent(subset=90)
    run = Run(problem, solver, 1e-3, np.random.default_rng(0))
    report = solver.pass_(problem, run.state, 1.0, lambda: True)
    # All hinges are 1 at w = 0, where the only step looks.
    expected = problem.quadratic.value(run.state.w) + 3.0 * weight.sum()
    assert_allclose(report.gap, expected, rtol=1e-9)


def test_it_ends_by_itself_and_says_what_it_is_for():
    result = solve(kernelised(RBF(0.5)), FunctionalDescent(subset=15), random_state=0)
    assert result.certificate.passes == 2
    assert result.certificate.status.name == "SETTLED"
    assert "does not minimise this objective" in result.certificate.message
    assert "or solver='dual_coordinate'" in result.certificate.message
    longer = solve(kernelised(RBF(0.5)), FunctionalDescent(subset=15, epochs=3), random_state=0)
    assert longer.certificate.passes == 3
    short = solve(kernelised(RBF(0.5)), FunctionalDescent(subset=15), max_iter=1, random_state=0)
    assert "raise max_iter" not in short.certificate.message
    late = solve(kernelised(RBF(0.5)), FunctionalDescent(), time_limit=1e-9, random_state=0)
    assert "Stopped by time_limit after 0 passes and 0.0 s: raise time_limit" in str(
        late.certificate.message
    )
    with pytest.raises(InvalidData, match="a solver that keeps no dual variables"):
        solve(kernelised(RBF(0.5)), DualCoordinate(), start=result.state)


@pytest.mark.parametrize("solver", [FunctionalDescent(subset=10), SampledCuts(subset=10)])
def test_two_solves_at_once_share_a_matrix(solver, monkeypatch):
    """One after the other: what one is filling is nothing for the other to read."""
    fill, problem, failures = WorkingMatrix._fill, kernelised(RBF(0.5)), []

    def slowly(*arguments):
        if not problem.data.blocks.features.turns.locked():
            failures.append("a matrix is filled, and others may come in")
        time.sleep(0.002)
        fill(*arguments)

    monkeypatch.setattr(WorkingMatrix, "_fill", slowly)

    def run(seed):
        try:
            w = passes(problem, solver, 2, seed).state.w
            settled = w.copy()
            problem.data.settle(settled)
            assert_allclose(w, settled, atol=1e-3 * np.abs(settled).max())
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in (0, 1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    features, K = problem.data.blocks.features, RBF(0.5)(X)
    members, matrix = features.matrix.members, features.matrix._matrix
    n = len(members)
    assert_allclose(matrix[:n, :n], K[np.ix_(members, members)], atol=1e-5)
    slots = features.cache.slots(np.arange(90))
    held = np.flatnonzero(slots >= 0)
    assert_allclose(features.cache.gram[slots[held]], K[held], atol=1e-5)


@pytest.mark.parametrize("whole", [0, 1000])
def test_inner_products_as_a_kernel_take_the_steps_of_linear_features(whole):
    for name in CASES:
        case, solver = CASES[name], FunctionalDescent(subset=6, precision=1e-3)
        linear = case.problem()
        through = Problem(
            case.structure, *case.data(),
            space=through_kernel(Linear(), dtype=np.float64, whole=whole),
        )  # fmt: skip
        first, second = passes(linear, solver, 2), passes(through, solver, 2)
        assert_allclose(
            [step.square for step in second.state.steps],
            [step.square for step in first.state.steps], rtol=1e-6, atol=1e-12,
        )  # fmt: skip
        assert_allclose(
            through.data.hinges(second.state.w), linear.data.hinges(first.state.w), atol=1e-6
        )


def test_nothing_is_claimed_but_the_primal():
    problem = kernelised(RBF(0.5), C=3.0)
    result = solve(problem, FunctionalDescent(subset=15), max_iter=2, random_state=0)
    K = RBF(0.5)(X)
    primals = 0.5 * result.w @ K @ result.w + 3.0 * np.maximum(1 - SIGNS * (K @ result.w), 0).sum()
    assert_allclose(result.certificate.primal, primals, rtol=1e-6)
    assert result.certificate.dual == 0.0
    assert result.certificate.relative_gap >= 1.0


@pytest.mark.parametrize("settings", [{}, {"averaging": False}, {"order": "residual"}])
@pytest.mark.parametrize("kernel", [None, RBF(0.5)])
def test_killed_and_resumed_is_uninterrupted(kernel, settings):
    """In the middle of a pass; to the last digit, but for values of kernels in other batches."""
    resumed_is_uninterrupted(kernel, FunctionalDescent(subset=8, epochs=4, **settings))


@pytest.mark.parametrize("kernel", [None, RBF(0.5)])
def test_a_file_resumes_as_well(kernel, tmp_path):
    solver, options = FunctionalDescent(subset=8, epochs=4), {"random_state": 0}

    def problem():
        return Problem(Scalar(), X, SIGNS, space=kernel and through_kernel(kernel, whole=0))

    whole = solve(problem(), solver, max_iter=4, **options)
    solve(problem(), solver, max_iter=2, checkpoint=tmp_path / "run", **options)
    resumed = solve(problem(), solver, max_iter=4, checkpoint=tmp_path / "run", **options)
    assert_allclose(resumed.w, whole.w, atol=1e-6)
    assert resumed.certificate.oracle_calls >= whole.certificate.oracle_calls


def test_a_budget_resumes_as_well():
    resumed_is_uninterrupted(RBF(0.5), FunctionalDescent(subset=8, epochs=4, budget=20))


def resumed_is_uninterrupted(kernel, solver):
    def run():
        space = kernel and through_kernel(kernel, whole=0)
        return Run(Problem(Scalar(), X, SIGNS, space=space), solver, 1e-3, np.random.default_rng(0))

    def go(run, count):
        for _ in range(count):
            solver.pass_(run.problem, run.state, 1.0, lambda: False)  # a step, and no more

    whole, resumed = run(), run()
    go(whole, 17)
    assert whole.state.done > 0
    resumed.state.restore(copy.deepcopy(whole.state.arrays()))
    resumed.rng.bit_generator.state = whole.rng.bit_generator.state
    for one in (whole, resumed):
        go(one, 25)
    for ours, theirs in zip(resumed.state.steps, whole.state.steps, strict=True):
        if kernel is None:
            assert ours == theirs
        else:
            assert ours[:2] == theirs[:2]
            assert_allclose(ours[2:7], theirs[2:7], rtol=1e-2, atol=1e-6)  # single precision
    if kernel is None:
        assert_array_equal(resumed.state.w, whole.state.w)


def test_evaluations_are_the_values_that_a_kernel_was_asked_for():
    count = 0

    def counted(A, B):
        nonlocal count
        count += len(A) * len(B)
        return A @ B.T

    problem = kernelised(Function(counted, definite=True))
    before = count
    run = passes(problem, FunctionalDescent(subset=9))
    first, saved = run.state.steps[-1].evaluations, run.state.arrays()
    assert first == count - before > 0
    # Those of another solve are its own, also where rows are computed in float64 by then, and
    # those of a run that was taken up again go on.
    again = passes(problem, FunctionalDescent(subset=9), seed=1)
    assert again.state.steps[-1].evaluations == count - before - first
    problem.data.blocks.features.widen()
    assert problem.data.evaluations == count - before
    taken_up = FunctionalDescent(subset=9).init(problem, np.random.default_rng(0))
    taken_up.restore(saved)
    assert taken_up.evaluations + problem.data.evaluations == first


@pytest.mark.parametrize("averaging", [True, False])
@pytest.mark.parametrize("overflow", ["merge", "remove"])
def test_a_budget_holds_after_each_step(overflow, averaging):
    solver = FunctionalDescent(subset=15, budget=12, overflow=overflow, averaging=averaging)
    run = passes(kernelised(RBF(0.5)), solver, 3)
    assert max(step.n_support for step in run.state.steps) == 12
    shares = run.problem.data.blocks.features.shares
    support = np.vstack([shares(point)[1] for point in run.state.points]).any(axis=0)
    assert np.count_nonzero(support) == 12
    # Potentials are those of the coefficients that are left, of all that is saved.
    for point in [*run.state.points[:1], run.state.arrays().get("average", run.state.w)]:
        settled = point.copy()
        run.problem.data.settle(settled)
        assert_allclose(settled, point, atol=1e-4)
    if overflow == "merge":
        run.problem.data.settle(run.state.outcome)
        assert np.mean(problem_labels(run) != SIGNS) < 0.2


def problem_labels(run):
    potentials = run.problem.data.blocks.features.shares(run.state.outcome)[0][0]
    return np.where(potentials > 0, 1.0, -1.0)


def test_merging_rows_that_are_the_same_changes_nothing():
    rows = np.vstack([X[:30], X[:30]])
    problem = Problem(
        Scalar(), rows, np.tile(SIGNS[:30], 2), space=through_kernel(RBF(0.5), whole=0)
    )
    features = problem.data.blocks.features
    coefficients = np.concatenate([np.linspace(1.0, 2.0, 30), np.full(30, 0.1)])
    w = problem.scaled(coefficients)
    before = features.shares(w)[0].copy()
    SupportBudget(features, 30, merges=True).shrink(w)
    assert features.n_support(w) == 30
    assert_allclose(features.shares(w)[0], before, rtol=1e-3, atol=1e-3)


def test_blocks_without_weight_are_never_drawn():
    weight = np.where(np.arange(90) < 40, 1.0, 0.0)
    problem = Problem(
        Scalar(), X, SIGNS, sample_weight=weight, space=through_kernel(RBF(0.5), whole=0)
    )
    run = passes(problem, FunctionalDescent(subset=15, order="uniform"), 2)
    assert run.state.steps[-1].seen == 80
    assert not run.problem.data.blocks.features.shares(run.state.w)[1][0, 40:].any()


def test_bounds_need_labels_one_by_one():
    for name in ("tags-plain", "chain"):
        with pytest.raises(InvalidData, match="needs all labels of an example"):
            passes(STRUCTURES[name].problem(), FunctionalDescent(bounds="above"))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 90), st.sampled_from(["above", "both"]))
def test_any_subset_and_seed_obey_theorem_3(seed, subset, bounds):
    run = passes(kernelised(RBF(0.5)), FunctionalDescent(subset=subset, bounds=bounds), 1, seed)
    for step in run.state.steps:
        assert step.square <= (step.residual / step.rate + step.gap) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"subset": 0}, "subset = 0: give a number of examples, or a share between 0 and 1"),
        ({"subset": 1.5}, "subset = 1"),
        ({"schedule": "fast"}, "schedule = 'fast'"),
        ({"schedule": "geometric"}, "with rate = None: give a rate between 0 and 1"),
        ({"schedule": "power", "rate": -1.0}, "give a rate between 0 and inf"),
        ({"factor": 0.0}, "factor = 0"),
        ({"precision": 1.0}, "precision = 1"),
        ({"order": "gap"}, "order = 'gap'"),
        ({"bounds": "below"}, "bounds = 'below'"),
        ({"budget": 0}, "budget = 0"),
        ({"overflow": "drop"}, "overflow = 'drop'"),
        ({"subset": True}, "subset = True"),
        ({"subset": "all"}, "subset = 'all'"),
        ({"budget": True}, "budget = True"),
        ({"factor": "x"}, "factor = 'x': give a number"),
        ({"factor": np.inf}, "factor = inf"),
        ({"precision": 0}, "precision = 0: give a number between 0 and 1"),
        ({"averaging": 2}, "averaging = 2"),
        ({"n_total": -3}, "n_total = -3"),
        ({"epochs": 0}, "epochs = 0"),
        ({"epochs": 1.5}, "epochs = 1.5"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InvalidData, match=message):
        FunctionalDescent(**settings)


@pytest.mark.parametrize("name", ["scalar-bias", "multiclass-cost-bias", "chain"])
def test_an_infinite_lambda_is_a_step_of_nothing(name):
    solver, problem = FunctionalDescent(subset=2, schedule="geometric", rate=1e-200), None
    problem = CASES[name].problem()
    run = passes(problem, solver, 1)
    steps, w = run.state.steps, run.state.w.copy()
    assert [step.rate for step in steps[1:]] == [np.inf] * (len(steps) - 1)
    assert all(step.square == step.gap == 0.0 for step in steps[1:])
    assert np.isfinite(w).all()
    other = solver.init(problem, np.random.default_rng(0))
    other.restore(run.state.arrays())
    assert other.steps == steps


@pytest.mark.parametrize("name", ["scalar-bias", "multiclass-cost-bias", "chain"])
def test_steps_that_leave_the_numbers_are_refused(name):
    solver, case = FunctionalDescent(subset=4, factor=1e-300, bounds="none"), CASES[name]
    problem = case.problem(sample_weight=np.full(case.n_blocks, 1e20))
    with pytest.raises(InvalidData, match="too large to compute with"):
        passes(problem, solver)


def test_schedules_that_are_no_numbers_are_refused():
    with pytest.raises(InvalidType, match="the schedule returns 'a' for step 1"):
        FunctionalDescent(schedule=lambda t: "a").rate_of(1, 5, 40)


def test_what_it_has_no_use_for_is_refused():
    linear = Problem(Scalar(), X, SIGNS)
    with pytest.raises(InvalidData, match="linear models have none"):
        passes(linear, FunctionalDescent(budget=5))
    with pytest.raises(InvalidData, match="no prior and no sign"):
        passes(
            Problem(Scalar(), X, SIGNS, regularizer=Regularizer(nonneg=True)), FunctionalDescent()
        )
    with pytest.raises(InvalidData, match="lambda = -1"):
        passes(linear, FunctionalDescent(schedule=lambda t: -1.0))
