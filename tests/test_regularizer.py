"""Priors and sign constraints: the optimum, its conditions, what is refused."""

import functools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES, long_if
from reference import prior_primal, solve_prior_qp
from taut import Problem, Regularizer, Status, solve
from taut.errors import InvalidData
from taut.solvers import DualCoordinate, FrankWolfe, PartialLinearization
from taut.structures import Multiclass, Scalar
from test_solvers import assert_feasible, dual_point

# One structure for each form of the dual variables; the others for long tests.
FORMS = ["scalar-bias", "multiclass-cost-bias", "chain", "tags-plain"]
MORE = [
    "scalar-csr-bias",
    "multiclass-single",
    "multiclass-csr-cost-bias",
    "chain-csr-normalize-boundary",
    "tags-compiled",
    "tags-mapped",
]
KINDS = ["mean", "diagonal", "nonneg", "lower", "all", "full"]


def numbers(kind, n):
    """Mean, precision matrix, which weights are bounded, and by what, of a prior on n weights."""
    rng = np.random.default_rng(n)
    mean, diagonal, mask = rng.normal(size=n), rng.uniform(0.2, 5.0, n), rng.random(n) < 0.5
    A = rng.normal(size=(n, n))
    nothing, ones, nowhere = np.zeros(n), np.eye(n), np.zeros(n, dtype=bool)
    lower = rng.uniform(-0.3, 0.3, n)
    return {
        "mean": (mean, ones, nowhere, nothing),
        "diagonal": (nothing, np.diag(diagonal), nowhere, nothing),
        "nonneg": (nothing, ones, ~nowhere, nothing),
        "lower": (nothing, ones, ~nowhere, lower),
        "all": (mean, np.diag(diagonal), mask, lower),
        "full": (mean, A @ A.T / n + ones, nowhere, nothing),
    }[kind]


def regularizer(kind, n):
    mean, precision, mask, lower = numbers(kind, n)
    if kind != "full":
        precision = np.diag(precision)
    if kind == "nonneg":
        return Regularizer(mean, precision, nonneg=True)
    return Regularizer(mean, precision, lower=np.where(mask, lower, -np.inf))


def n_weights(name):
    return STRUCTURES[name].problem().n_features


def run(name, kind, solver=None, **options):
    prior = regularizer(kind, n_weights(name))
    problem = Problem(STRUCTURES[name].structure, *STRUCTURES[name].data(), regularizer=prior)
    return solve(problem, solver, **{"tol": 1e-8, "max_iter": 20_000, "random_state": 0} | options)


solved = functools.cache(run)


every = pytest.mark.parametrize("name", [*FORMS, *(long_if(True, name) for name in MORE)])
of_every_kind = pytest.mark.parametrize(
    ("name", "kind"),
    [
        long_if(name in MORE or (name in ("scalar-bias", "chain") and kind == "full"), name, kind)
        for name in FORMS + MORE
        for kind in KINDS
    ],
)


@of_every_kind
def test_is_the_optimum(name, kind):
    case, result = STRUCTURES[name], solved(name, kind)
    mean, precision, mask, lower = numbers(kind, len(result.w))
    ones = np.ones(case.n_blocks)
    best, w = solve_prior_qp(*case.reference, ones, mean, precision, mask, lower)
    assert result.certificate.status is Status.CONVERGED
    assert_allclose(result.certificate.primal, best, rtol=1e-6)
    own = prior_primal(result.w, *case.reference, ones, mean, precision)
    assert_allclose(own, result.certificate.primal, rtol=1e-9)
    assert result.certificate.dual <= best * (1.0 + 1e-9)
    assert (result.w[mask] >= lower[mask]).all()
    assert_allclose(result.w, w, atol=2e-3)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("multiclass-cost-bias", "all"),
        ("chain", "mean"),
        long_if(True, "chain", "all"),
        long_if(True, "chain", "full"),
    ],
)
@pytest.mark.parametrize(
    "solver", [PartialLinearization(0.1), FrankWolfe("pairwise")], ids=lambda solver: solver.name
)
def test_other_solvers_reach_it(name, kind, solver):
    case = STRUCTURES[name]
    certificate = run(name, kind, solver, tol=1e-3).certificate
    best = solve_prior_qp(*case.reference, np.ones(case.n_blocks), *numbers(kind, n_weights(name)))
    assert certificate.status is Status.CONVERGED
    assert_allclose(certificate.primal, best[0], rtol=1.1e-3)
    assert certificate.dual <= best[0] * (1.0 + 1e-9)


@of_every_kind
def test_conditions_of_the_optimum(name, kind):
    """Gradients vanish, or push against a bound that is met; only worst labels have weight."""
    case, result = STRUCTURES[name], solved(name, kind)
    psi, losses = case.reference
    mean, precision, mask, lower = numbers(kind, len(result.w))
    alphas = dual_point_unscaled(case, result, mean, precision)
    push = precision @ (result.w - mean) - sum(a @ p for a, p in zip(alphas, psi, strict=True))
    assert_allclose(push[~mask], 0.0, atol=5e-3)
    assert (push[mask] >= -5e-3).all()
    assert_allclose(push * (result.w - lower) * mask, 0.0, atol=5e-3)
    for alpha, p, loss in zip(alphas, psi, losses, strict=True):
        violation = loss - p @ result.w
        hinge = max(violation.max(), 0.0)
        assert_allclose(alpha @ (hinge - violation), 0.0, atol=5e-3)


def dual_point_unscaled(case, result, mean, precision):
    """Dual variables of all labels; stored psi of plain structures are scaled ones."""
    if "psi_number" not in result.state:
        alphas = dual_point(case, result.state)
        assert_feasible(case, alphas, np.ones(case.n_blocks))
        return alphas
    root = np.linalg.cholesky(precision).T
    scaled = [np.linalg.solve(root.T, p.T).T for p in case.reference[0]]
    changed = type("Scaled", (), {"reference": (scaled, case.reference[1])})()
    changed.n_blocks = case.n_blocks
    return dual_point(changed, result.state)


@of_every_kind
def test_dual_never_falls_without_a_centre(name, kind):
    case = STRUCTURES[name]
    prior = regularizer(kind, case.problem().n_features)
    problem = Problem(case.structure, *case.data(), regularizer=prior)
    duals = solve(
        problem, DualCoordinate(recentring=0.0), tol=1e-5, max_iter=300, random_state=0
    ).history["dual"]
    slack = 1e-6 if name == "multiclass-single" else 1e-12
    assert (np.diff(duals) >= -slack * (1.0 + np.abs(duals[1:]))).all()


def test_steps_between_planes_know_the_precision():
    """Inner products of classes are those of the scaled space, or steps would be too long."""
    case, prior = STRUCTURES["multiclass-bias"], Regularizer(precision=0.05)
    problem = Problem(case.structure, *case.data(), regularizer=prior)
    solver = FrankWolfe("pairwise", recentring=0.0)
    result = solve(problem, solver, tol=1e-3, max_iter=500, random_state=0)
    assert result.certificate.status is Status.CONVERGED
    assert (np.diff(result.history["dual"]) >= -1e-12).all()


@every
def test_plain_prior_changes_nothing(name):
    case = STRUCTURES[name]
    n = case.problem().n_features
    prior = Regularizer(np.zeros(n), np.ones(n), np.zeros(n, dtype=bool))
    plain = solve(case.problem(), random_state=0)
    same = solve(Problem(case.structure, *case.data(), regularizer=prior), random_state=0)
    assert_array_equal(plain.w, same.w)


@every
def test_threads_and_hot_starts(name):
    """More threads, a checkpoint's state and other weights meet the same optimum."""
    case = STRUCTURES[name]
    prior = regularizer("all", case.problem().n_features)
    blocks = np.arange(200) % case.n_blocks
    best = None
    for n_jobs in (1, 2):
        X, y = case.data(blocks)
        problem = Problem(case.structure, X, y, n_jobs=n_jobs, regularizer=prior)
        result = solve(problem, tol=1e-6, random_state=0, max_iter=5000)
        best = best or result.certificate.primal
        assert_allclose(result.certificate.primal, best, rtol=2e-6)
        again = solve(problem, tol=1e-6, start=result.state, random_state=0)
        assert again.certificate.passes <= 3


def test_other_priors_are_other_problems():
    case = STRUCTURES["chain"]
    start = solved("chain", "mean").state
    with pytest.raises(InvalidData, match="it was made with another prior"):
        solve(case.problem(), start=start)


def test_many_labels_go_through_planes(rng):
    """Beyond some number of labels, curvatures of all of them would take too long."""
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 40
    precision = rng.uniform(0.1, 10.0, 120)
    prior = Regularizer(precision=precision)
    result = solve(Problem(Multiclass(40), X, y, regularizer=prior), tol=1e-6, random_state=0)
    assert "alpha" not in result.state
    # Precisions that all classes share are a scaling of the features.
    shared = np.repeat(rng.uniform(0.1, 10.0, 3), 40)
    one = solve(Problem(Multiclass(40), X, y, regularizer=Regularizer(precision=shared)), tol=1e-6)
    scaled = solve(Problem(Multiclass(40), X / np.sqrt(shared[::40]), y), tol=1e-6)
    assert_allclose(one.certificate.primal, scaled.certificate.primal, rtol=2e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mean": np.ones(3)}, r"prior_mean has shape \(3,\), the problem has 2 weights"),
        ({"mean": [np.nan, 0.0]}, r"prior_mean contains NaN"),
        ({"precision": [1.0, 0.0]}, r"prior_precision\[1\] = 0\.0: it must be positive"),
        ({"precision": -1.0}, r"prior_precision\[0\] = -1\.0"),
        ({"precision": np.ones((2, 3))}, r"prior_precision has shape \(2, 3\)"),
        ({"precision": [[1.0, 2.0], [0.0, 1.0]]}, r"prior_precision is not symmetric"),
        ({"precision": [[1.0, 2.0], [2.0, 1.0]]}, r"prior_precision is not positive definite"),
        ({"precision": np.eye(2), "nonneg": True}, r"full matrix and nonneg is set"),
        ({"nonneg": [1, 0]}, r"nonneg has dtype int64 and shape \(2,\): give True, False"),
        ({"nonneg": [True]}, r"nonneg has dtype bool and shape \(1,\)"),
        ({"lower": [0.1]}, r"lower has shape \(1,\): give one number, or one for each of the 2"),
        ({"lower": [-np.inf, np.inf]}, r"lower\[1\] = inf: give a finite number"),
        ({"lower": np.nan}, r"lower\[0\] = nan"),
        ({"precision": np.eye(2), "lower": 0.1}, r"full matrix and lower is set"),
    ],
)
def test_what_is_no_prior_is_refused(options, message):
    with pytest.raises(InvalidData, match=message):
        Problem(Scalar(), np.eye(2), np.array([1.0, -1.0]), regularizer=Regularizer(**options))


def test_constant_priors_take_no_memory():
    prior = Regularizer(precision=2.0, nonneg=True).check(1000)
    for array in (prior.mean, prior.lower, prior.scale):
        assert array.shape == (1000,)
        assert array.strides == (0,)
    full = Regularizer(np.zeros(4), np.full(4, 2.0), np.ones(4, dtype=bool)).check(4)
    few = Regularizer(precision=2.0, nonneg=True).check(4)
    for name in ("mean", "lower", "scale"):
        assert np.array_equal(getattr(few, name), getattr(full, name))
