"""Bounds of models that others have trained: true, whatever the model, and tight where it is."""

import os

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR, NuSVC, OneClassSVM

import reference
import taut
from taut.certification import interior_point, scikit_learn
from taut.certification.report import Certification, MachineBounds, percent
from taut.errors import InvalidData, InvalidType
from taut.kernels import RBF, Linear, Polynomial

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(70, 3))
SIGNS = np.where(X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * RNG.normal(size=70) > 0.0, 1, -1)
CODES = (X[:, 0] > 0) * 1 + (X[:, 1] + 0.4 * RNG.normal(size=70) > 0.5)
NUMBERS = X @ [1.0, -2.0, 0.5] + 0.3 * RNG.normal(size=70)
WEIGHT = RNG.integers(0, 3, size=70).astype(float)
NAMES = np.array(["low", "middle", "high"])[CODES]
KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": 0.4}, RBF(0.4)),
    "linear": ({"kernel": "linear"}, Linear()),
    "poly": ({"kernel": "poly", "gamma": 0.3, "degree": 2, "coef0": 1.0}, Polynomial(2, 0.3, 1.0)),
}


def root(kernel, rows=X):
    """Columns whose inner products are the kernel."""
    return np.linalg.cholesky(kernel(rows) + 1e-11 * np.eye(len(rows)))


def with_bias(rows, bias=1.0):
    return np.hstack([rows, np.full((len(rows), 1), bias)])


def check(machine, optimum, tight=None):
    """The bounds enclose the optimum, nearly where the model is nearly optimal."""
    allowed = 1e-7 * optimum
    assert 0.0 <= machine.dual <= optimum + allowed
    assert optimum - allowed <= machine.best_primal <= machine.primal * (1.0 + 1e-12)
    assert machine.gap == max(machine.primal - machine.dual, 0.0) + machine.rounding
    assert machine.rounding <= 1e-9 * machine.primal
    if tight is not None:
        assert_allclose(machine.dual, optimum, rtol=tight)


def pairs(codes):
    """The rows of each two classes, and the signs that LIBSVM gives them."""
    for i in range(codes.max() + 1):
        for j in range(i + 1, codes.max() + 1):
            rows = np.flatnonzero((codes == i) | (codes == j))
            yield rows, np.where(codes[rows] == i, 1.0, -1.0)


# SVC and SVR


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("layout", ["dense", "sparse", "matrix", "function"])
def test_svc_of_two_classes(name, layout):
    settings, kernel = KERNELS[name]
    rows = {"sparse": sp.csr_matrix(X), "matrix": kernel(X)}.get(layout, X)
    if layout in ("matrix", "function"):
        settings = {"kernel": "precomputed" if layout == "matrix" else kernel}
    model = SVC(C=2.0, tol=1e-6, **settings).fit(rows, SIGNS)
    report = taut.certify(model, rows, SIGNS)
    optimum = reference.solve_svm(root(kernel), SIGNS, np.full(70, 2.0), free=True)
    check(report.machines[0], optimum, tight=1e-5)
    own = np.zeros(70)
    own[model.support_] = (sp.csr_array(model.dual_coef_)).toarray()[0]
    square = own @ kernel(X) @ own
    primal = reference.svm_primal(model.decision_function(rows), square, SIGNS, np.full(70, 2.0))
    assert_allclose(report.primal, primal, rtol=1e-10)
    assert report.machines[0].n == 70
    assert report.machines[0].name == "-1 or 1"
    assert report.message.endswith("of its optimum.")


@pytest.mark.parametrize("max_iter", [1, 2, 5, 20, 100, -1])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_svc_that_has_not_converged(max_iter, C):
    model = SVC(C=C, gamma=0.4, max_iter=max_iter).fit(X, SIGNS)
    machine = taut.certify(model, X, SIGNS).machines[0]
    optimum = reference.solve_svm(root(RBF(0.4)), SIGNS, np.full(70, C), free=True)
    check(machine, optimum, tight=1e-2 if max_iter == -1 else None)
    assert machine.dual > 0.0
    if max_iter < 20 and max_iter > 0:
        assert machine.relative_gap > 0.1


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"low": 0.5, "high": 4.0}])
def test_svc_of_three_classes_is_one_machine_per_pair(weighted, class_weight):
    weight = WEIGHT if weighted else None
    model = SVC(C=2.0, gamma=0.4, tol=1e-6, class_weight=class_weight).fit(X, NAMES, weight)
    report = taut.certify(model, X, NAMES, weight)
    codes = np.searchsorted(model.classes_, NAMES)
    shares = len(codes) / (3.0 * np.bincount(codes))
    factors = {None: np.ones(3), "balanced": shares}.get(
        class_weight if not isinstance(class_weight, dict) else "", np.array([4.0, 0.5, 1.0])
    )
    costs = 2.0 * factors[codes] * (WEIGHT if weighted else 1.0)
    model.set_params(decision_function_shape="ovo")
    scores = model.decision_function(X)
    names = ["high or low", "high or middle", "low or middle"]
    assert [machine.name for machine in report.machines] == names
    assert_allclose(report.primal, sum(machine.primal for machine in report.machines), rtol=1e-14)
    for k, (rows, signs) in enumerate(pairs(codes)):
        features = root(RBF(0.4), X[rows])
        optimum = reference.solve_svm(features, signs, costs[rows], free=True)
        machine = report.machines[k]
        check(machine, optimum, tight=1e-5)
        hinges = reference.svm_primal(scores[rows, k], 0.0, signs, costs[rows])
        alone = SVC(C=1.0, gamma=0.4, tol=1e-6).fit(X[rows], -signs, costs[rows])
        paid = np.flatnonzero(costs[rows] > 0.0)[alone.support_]
        own = alone.dual_coef_[0]
        square = own @ RBF(0.4)(X[rows][paid]) @ own
        assert_allclose(machine.primal, 0.5 * square + hinges, rtol=1e-4)
    assert f"all {len(names)} machines" in report.message


def test_rows_without_weight_do_not_move_the_others():
    weight = np.where(np.arange(70) < 20, 0.0, 1.5)
    for kernel, rows in (("rbf", X), ("precomputed", RBF(0.4)(X))):
        model = SVC(kernel=kernel, gamma=0.4, tol=1e-6).fit(rows, SIGNS, weight)
        machine = taut.certify(model, rows, SIGNS, weight).machines[0]
        optimum = reference.solve_svm(root(RBF(0.4)), SIGNS, weight, free=True)
        check(machine, optimum, tight=1e-5)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("max_iter", [3, -1])
def test_svr(name, max_iter):
    settings, kernel = KERNELS[name]
    model = SVR(C=3.0, epsilon=0.2, tol=1e-6, max_iter=max_iter, **settings)
    model.fit(X, NUMBERS, WEIGHT)
    report = taut.certify(model, X, NUMBERS, WEIGHT)
    optimum = reference.solve_svm(root(kernel), NUMBERS, 3.0 * WEIGHT, epsilon=0.2, free=True)
    check(report.machines[0], optimum, tight=1e-5 if max_iter < 0 else None)
    own, paid = model.dual_coef_[0], np.flatnonzero(WEIGHT)[model.support_]
    square = own @ kernel(X)[np.ix_(paid, paid)] @ own
    primal = reference.svm_primal(model.predict(X), square, NUMBERS, 3.0 * WEIGHT, epsilon=0.2)
    assert_allclose(report.primal, primal, rtol=1e-10)


def test_scikit_learn_intelex():
    one_dal = pytest.importorskip("sklearnex.svm")
    weight = WEIGHT + 0.5 * (WEIGHT == 0.0)
    for y, w in ((SIGNS, None), (CODES, None), (CODES, weight), (SIGNS, WEIGHT)):
        model = one_dal.SVC(C=2.0, gamma=0.4).fit(X, y, w)
        report = taut.certify(model, X, y, w)
        costs = 2.0 * (np.ones(70) if w is None else w)
        codes = np.unique(y, return_inverse=True)[1]
        for machine, (rows, signs) in zip(report.machines, pairs(codes), strict=True):
            features = root(RBF(0.4), X[rows])
            optimum = reference.solve_svm(features, signs, costs[rows], free=True)
            check(machine, optimum, tight=1e-2)
    model = one_dal.SVR(C=3.0, epsilon=0.2, gamma=0.4).fit(X, NUMBERS)
    optimum = reference.solve_svm(root(RBF(0.4)), NUMBERS, np.full(70, 3.0), epsilon=0.2, free=True)
    check(taut.certify(model, X, NUMBERS).machines[0], optimum, tight=1e-2)


# LinearSVC, LinearSVR and stochastic gradient descent


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("max_iter", [1, 10_000])
@pytest.mark.parametrize("bias", [None, 1.0, 10.0])
def test_linear_svc(loss, max_iter, bias):
    settings = {"fit_intercept": False} if bias is None else {"intercept_scaling": bias}
    model = LinearSVC(C=2.0, loss=loss, max_iter=max_iter, tol=1e-7, dual=True, random_state=0)
    model.set_params(**settings).fit(X, SIGNS, WEIGHT)
    report = taut.certify(model, X, SIGNS, WEIGHT, tol=1e-6)
    rows, power = X if bias is None else with_bias(X, bias), 1 + (loss == "squared_hinge")
    optimum = reference.solve_svm(rows, SIGNS, 2.0 * WEIGHT, power=power)
    check(report.machines[0], optimum, tight=1e-5)
    tail = 0.0 if bias is None else float(model.intercept_[0]) / bias
    square = float(model.coef_[0] @ model.coef_[0]) + tail**2
    primal = reference.svm_primal(
        model.decision_function(X), square, SIGNS, 2.0 * WEIGHT, power=power
    )
    assert_allclose(report.primal, primal, rtol=1e-12)
    if power == 2 and max_iter > 1 and bias != 10.0:
        assert report.machines[0].note == "slopes of the losses at w"


@pytest.mark.parametrize("kind", [LinearSVC, SGDClassifier])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 3.0, 2: 0.5}])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_against_the_rest(kind, class_weight, weighted):
    weight = WEIGHT if weighted else None
    ones = np.ones(70) if weight is None else weight
    free = kind is SGDClassifier
    model = kind(class_weight=class_weight, random_state=0)
    model.set_params(**({"alpha": 0.01, "max_iter": 20} if free else {"C": 2.0}))
    model.fit(X, CODES, sample_weight=weight)
    report = taut.certify(model, sp.csr_array(X), CODES, weight, tol=1e-4)
    # LinearSVC balances classes by weights, gradient descent by rows, as it did itself until 1.6.
    by_rows = free or not scikit_learn._COUNTS_WEIGHTS
    counts = np.bincount(CODES, weights=None if by_rows else ones, minlength=3)
    factors = {None: np.ones(3), "balanced": counts.sum() / (3.0 * counts)}.get(
        class_weight if not isinstance(class_weight, dict) else "", np.array([3.0, 1.0, 0.5])
    )
    scale, C = (0.01, 1.0 / (0.01 * 70)) if free else (1.0, 2.0)
    for k, machine in enumerate(report.machines):
        signs = np.where(k == CODES, 1.0, -1.0)
        costs = C * ones * np.where(k == CODES, factors[k], 1.0)
        rows, power = (X, 1) if free else (with_bias(X), 2)
        optimum = scale * reference.solve_svm(rows, signs, costs, power=power, free=free)
        check(machine, optimum, tight=2e-3)
        square = model.coef_[k] @ model.coef_[k] + (0.0 if free else model.intercept_[k] ** 2)
        scores = model.decision_function(X)[:, k]
        primal = scale * reference.svm_primal(scores, square, signs, costs, power=power)
        assert_allclose(machine.primal, primal, rtol=1e-12)
    assert [machine.name for machine in report.machines] == ["0 or not", "1 or not", "2 or not"]


@pytest.mark.parametrize("y", [SIGNS, CODES], ids=["two", "three"])
def test_crammer_and_singer(y):
    model = LinearSVC(C=0.5, multi_class="crammer_singer", class_weight={1: 2.0}, tol=1e-8)
    model.fit(X, y, WEIGHT)
    report = taut.certify(model, X, y, WEIGHT, tol=1e-5)
    codes = np.unique(y, return_inverse=True)[1]
    psi, losses = reference.multiclass_blocks(X, codes, codes.max() + 1, bias=1.0)
    optimum = reference.solve_qp(psi, losses, 0.5 * WEIGHT * np.where(y == 1, 2.0, 1.0))[0]
    check(report.machines[0], optimum, tight=1e-4)
    assert report.relative_gap < 1e-3


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("kind", [LinearSVR, SGDRegressor])
def test_linear_regression(kind, loss):
    free, power = kind is SGDRegressor, 1 + loss.startswith("squared")
    settings = {"alpha": 0.01} if free else {"C": 2.0}
    model = kind(loss=loss, epsilon=0.1, max_iter=50, random_state=0, **settings)
    model.fit(X, NUMBERS, sample_weight=WEIGHT)
    report = taut.certify(model, X, NUMBERS, WEIGHT, tol=1e-4)
    scale, C = (0.01, 1.0 / (0.01 * 70)) if free else (1.0, 2.0)
    rows = X if free else with_bias(X)
    optimum = scale * reference.solve_svm(
        rows, NUMBERS, C * WEIGHT, epsilon=0.1, power=power, free=free
    )
    check(report.machines[0], optimum, tight=1e-3)
    square = model.coef_ @ model.coef_ + (0.0 if free else float(model.intercept_[0]) ** 2)
    primal = scale * reference.svm_primal(
        model.predict(X), square, NUMBERS, C * WEIGHT, epsilon=0.1, power=power
    )
    assert_allclose(report.primal, primal, rtol=1e-12)


def test_gradient_descent_without_an_intercept():
    model = SGDClassifier(fit_intercept=False, alpha=0.01, random_state=0).fit(X, SIGNS)
    machine = taut.certify(model, X, SIGNS, tol=1e-6).machines[0]
    costs = np.full(70, 1.0 / (0.01 * 70))
    check(machine, 0.01 * reference.solve_svm(X, SIGNS, costs), tight=1e-5)


def test_how_sharp_a_bound_is_sought(monkeypatch):
    model = LinearSVC(loss="hinge", C=10.0, max_iter=5, random_state=0).fit(X, SIGNS)
    rough = taut.certify(model, X, SIGNS, max_iter=1).machines[0]
    sharp = taut.certify(model, X, SIGNS, tol=1e-7, max_iter=10_000).machines[0]
    assert "1 pass; not sharp" in rough.note
    assert rough.dual < sharp.dual <= sharp.best_primal <= rough.primal
    assert (sharp.best_primal - sharp.dual) <= 2e-7 * sharp.best_primal
    monkeypatch.setattr(interior_point, "_MOST_COLUMNS", 0)
    ascended = taut.certify(model, X, SIGNS, tol=1e-5, max_iter=10_000).machines[0]
    assert "interior point" in sharp.note
    assert "dual ascent" in ascended.note
    assert_allclose(ascended.dual, sharp.dual, rtol=2e-5)
    quick = taut.certify(model, X, SIGNS, tol=0.0, time_limit=1e-9).machines[0]
    assert "not sharp" in quick.note


def test_columns_of_very_different_scales():
    rows = X * [1e4, 1.0, 1e-3] + [1e5, 0.0, 0.0]
    unscaled = {"C": 10.0, "max_iter": 50, "random_state": 0}
    for model, y, power in (
        (LinearSVC(loss="hinge", **unscaled), SIGNS, 1),
        (LinearSVC(dual=True, **unscaled), SIGNS, 2),
        (LinearSVR(**unscaled), 100.0 * NUMBERS, 1),
        (LinearSVR(loss="squared_epsilon_insensitive", **unscaled), NUMBERS, 2),
    ):
        machine = taut.certify(model.fit(rows, y), rows, y).machines[0]
        epsilon = None if y is SIGNS else 0.0
        assert machine.relative_gap > 0.01
        assert machine.best_primal - machine.dual <= 1e-3 * machine.best_primal
        assert 0.0 < machine.dual <= machine.best_primal <= machine.primal
        last = taut.certify(model, rows, y, tol=0.0).machines[0]  # as long as numbers allow
        assert last.dual <= machine.best_primal
        assert machine.dual <= last.best_primal
        w = np.append(model.coef_, model.intercept_)
        scores = with_bias(rows) @ w
        C = np.full(70, 10.0)
        primal = reference.svm_primal(scores, w @ w, y, C, epsilon=epsilon, power=power)
        assert_allclose(machine.primal, primal, rtol=1e-9)


# Random problems


@pytest.mark.parametrize("columns", [0, 1000])
@pytest.mark.parametrize("seed", range(12))
def test_no_bound_is_ever_above_the_optimum(seed, columns, monkeypatch):
    monkeypatch.setattr(interior_point, "_MOST_COLUMNS", columns)  # none: by ascent alone
    rng = np.random.default_rng([7, seed])
    n, d = int(rng.integers(6, 40)), int(rng.integers(1, 5))
    rows = np.round(rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1, 1), 2)
    rows[rng.random((n, d)) < 0.3] = 0.0
    signs = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    signs[:2] = -1.0, 1.0
    numbers = 10.0 ** rng.uniform(-1, 1) * rng.normal(size=n)
    weight = rng.choice([0.0, 0.3, 1.0, 5.0], size=n)
    weight[:2] = 1.0
    C, iterations = 10.0 ** rng.uniform(-2, 2), int(rng.integers(1, 40))
    epsilon, gamma = float(rng.choice([0.0, 0.1, 1.0])), 10.0 ** rng.uniform(-1, 1)
    given = sp.csr_array(rows) if rng.random() < 0.5 else rows
    kernel = root(RBF(gamma), rows)
    bias, scale = with_bias(rows), 1.0 / (n * C)
    shared = {"max_iter": iterations}
    descent = {"alpha": scale, "random_state": 0, "tol": None, **shared}
    cases = [
        (SVC(C=C, gamma=gamma, **shared), signs, kernel, {"free": True}, 1.0),
        (SVR(C=C, gamma=gamma, epsilon=epsilon, **shared), numbers, kernel, {"free": True}, 1.0),
        (LinearSVC(C=C, random_state=0, **shared), signs, bias, {"power": 2}, 1.0),
        (LinearSVC(C=C, loss="hinge", random_state=0, **shared), signs, bias, {}, 1.0),
        (LinearSVR(C=C, epsilon=epsilon, random_state=0, **shared), numbers, bias, {}, 1.0),
        (SGDClassifier(**descent), signs, rows, {"free": True}, scale),
        (SGDClassifier(loss="squared_hinge", **descent), signs, rows,
         {"free": True, "power": 2}, scale),
        (SGDRegressor(loss="epsilon_insensitive", epsilon=epsilon, **descent), numbers, rows,
         {"free": True}, scale),
    ]  # fmt: skip
    for model, y, features, options, factor in cases:
        fitted_to = sp.csr_matrix(given) if sp.issparse(given) else given
        try:
            model.fit(fitted_to, y, sample_weight=weight)
        except ValueError:  # gradient descent says that it has diverged
            continue
        report = taut.certify(model, given, y, weight, max_iter=int(rng.integers(1, 100)))
        own = options if y is signs else {**options, "epsilon": epsilon}
        optimum = factor * reference.solve_svm(features, y, C * weight, **own)
        machine = report.machines[0]
        assert machine.dual <= optimum * (1 + 1e-7) + 1e-12, (model, report)
        assert machine.primal + machine.rounding >= optimum * (1 - 1e-7) - 1e-12, (model, report)


# No bound


def reason(model, y=SIGNS, rows=X, **options):
    report = taut.certify(model.fit(rows, y), rows, y, **options)
    assert report.machines == ()
    assert report.dual == -np.inf
    assert report.gap == report.relative_gap == np.inf
    assert np.isnan(report.primal)
    assert str(report) == f"{report.model}\n{report.message}"
    assert report.to_dict()["dual"] is None
    return report.message


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (SVC(kernel="sigmoid", gamma=1.0, coef0=1.0), "kernel sigmoid is not positive definite"),
        (SVC(kernel=lambda A, B: -(A @ B.T)), "is not positive definite"),
        (SVC(kernel=lambda A, B: A @ B.T + A[:, :1]), "is not symmetric"),
        (SVC(kernel="poly", coef0=-9.0), "is not positive definite"),
        (NuSVC(), "nu in place of C"),
        (OneClassSVM(), "nu in place of C"),
        (LogisticRegression(), "its loss is logistic"),
        (LinearSVC(penalty="l1"), "its penalty is 'l1'"),
        (SGDClassifier(penalty="elasticnet"), "its penalty is 'elasticnet'"),
        (SGDClassifier(loss="log_loss"), "its loss is 'log_loss'"),
        (SGDClassifier(early_stopping=True), "holds out rows at random"),
        (SGDRegressor(), "its loss is 'squared_error'"),
        (SGDClassifier(alpha=0.0, learning_rate="constant", eta0=0.1), "leaves no penalty"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_no_bound_can_be_had(model, why):
    message = reason(model)
    assert message.startswith("No bound can be had because ")
    assert why in message


def test_a_matrix_that_is_no_kernel_has_no_bound():
    K = RBF(0.4)(X)
    assert "smallest eigenvalue" in reason(SVC(kernel="precomputed"), rows=K - 0.5 * np.eye(70))
    skew = K.copy()
    skew[0, 1] += 0.1
    model = SVC(kernel="precomputed").fit(skew, SIGNS)
    assert "not symmetric" in taut.certify(model, skew, SIGNS).message


def test_columns_far_apart_whose_kernel_values_are_rounded():
    near, kernel = RNG.normal(size=(40, 2)), RBF(1.0) + 1e-9 * RBF(1e-3)
    rows, y = near + 3e7 * (np.arange(40)[:, None] % 2), SIGNS[:40]
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    K = np.exp(-squares) + 1e-9 * np.exp(-1e-3 * squares)
    columns = np.linalg.cholesky(K + 1e-14 * np.eye(40))
    optimum = reference.solve_svm(columns, y, np.full(40, 2.0), free=True)
    machine = taut.certify(SVC(kernel=kernel, C=2.0).fit(rows, y), rows, y).machines[0]
    assert machine.dual <= optimum * (1.0 + 1e-9)


def test_weights_that_have_diverged_have_no_bound():
    model = LinearSVC().fit(X, SIGNS)
    model.coef_ = model.coef_ * np.nan
    assert "its training failed" in taut.certify(model, X, SIGNS).message
    model.coef_ = np.full((1, 3), 1e200)
    assert "too large a number" in taut.certify(model, X, SIGNS).message
    model = SVC().fit(X, SIGNS)
    model._intercept_ = model._intercept_ + np.inf
    model.intercept_ = -model._intercept_
    assert "its training failed" in taut.certify(model, X, SIGNS).message


def test_latent_variables_have_no_bound():
    model = taut.LatentSVM()
    model.coef_ = np.zeros((1, 3))  # as if it were fitted
    assert "its objective is not convex" in taut.certify(model, X, SIGNS).message


def test_kernels_that_are_tested_on_some_rows_alone():
    rows = RNG.normal(size=(1100, 1))
    y = np.where(rows[:, 0] > 0.0, 1, -1)
    model = SVC(kernel=lambda A, B: A @ B.T + 1.0, C=0.01).fit(rows, y)
    report = taut.certify(model, rows, y)
    assert report.message.endswith("positive definite, which was tested on 1000 of 1100 rows.")
    assert report.relative_gap < 0.01

    def hidden(A, B):  # indefinite on a few rows that are not looked at
        both = np.outer(A[:, 0] > 2.9, B[:, 0] > 2.9)
        return np.where(both, -50.0, A @ B.T + 1.0)

    model = SVC(kernel=hidden, C=0.01).fit(rows, y)
    report = taut.certify(model, rows, y)
    assert not report.reason or "not positive definite" in report.message


# What is given wrongly


def test_other_data_than_those_of_the_training():
    model = SVC(gamma=0.4, C=2.0).fit(X, SIGNS)
    others = [
        (X[:-1], SIGNS[:-1], "X has 69 rows"),
        (X[:, :2], SIGNS, "X has 2 columns"),
        (X[::-1], SIGNS, "is not the support vector"),
        (X + 1e-9, SIGNS, "is not the support vector"),
        (X, -SIGNS, "sign of another label"),
        (X, SIGNS[:-1], "69 labels"),
        (X, np.where(SIGNS > 0, 2, -1), "is no class of the model"),
        (X, np.ones(70, dtype=int), "y has no row of class"),
        (np.where(X[3, 1] == X, np.nan, X), SIGNS, "NaN"),
        (X, None, "y"),
    ]
    for rows, y, message in others:
        with pytest.raises((InvalidData, InvalidType), match=message):
            taut.certify(model, rows, y)
    with pytest.raises(InvalidData, match="more than its weight"):
        taut.certify(model, X, SIGNS, np.full(70, 0.1))
    with pytest.raises(InvalidData, match="sample_weight"):
        taut.certify(model, X, SIGNS, -np.ones(70))
    regression = SVR(gamma=0.4).fit(X, NUMBERS)
    with pytest.raises(InvalidData, match="NaN"):
        taut.certify(regression, X, np.where(NUMBERS > 0, np.nan, NUMBERS))


def test_other_data_of_a_linear_model_have_other_bounds_that_are_true():
    model = LinearSVC(C=2.0).fit(X, SIGNS)
    for rows, y in ((X[:40], SIGNS[:40]), (X[::-1], SIGNS), (X, -SIGNS)):
        machine = taut.certify(model, rows, y).machines[0]
        optimum = reference.solve_svm(with_bias(rows), y, np.full(len(y), 2.0), power=2)
        check(machine, optimum)
    with pytest.raises(InvalidData, match="2 columns"):
        taut.certify(model, X[:, :2], SIGNS)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model.fit(frame, SIGNS)
    assert taut.certify(model, frame, SIGNS).relative_gap < 1e-3
    with pytest.raises(InvalidData, match="in this order"):
        taut.certify(model, frame[["b", "a", "c"]], SIGNS)
    model.set_params(fit_intercept=False)
    with pytest.raises(InvalidData, match="is said to be without"):
        taut.certify(model, frame, SIGNS)


def test_what_certify_does_not_take():
    model = LinearSVC().fit(X, SIGNS)
    pipeline = make_pipeline(StandardScaler(), LinearSVC()).fit(X, SIGNS)
    search = GridSearchCV(LinearSVC(), {"C": [1.0, 2.0]}, cv=2).fit(X, SIGNS)
    several = OneVsRestClassifier(LinearSVC()).fit(X, CODES)
    for other, message in (
        (pipeline, "give the last step"),
        (search, "give its best_estimator_"),
        (several, "give each of its estimators_"),
        (LinearSVC, "give a fitted model"),
        (3, "which certify cannot read. It reads fitted SVC"),
    ):
        with pytest.raises(InvalidType, match=message):
            taut.certify(other, X, SIGNS)
    assert taut.certify(pipeline[-1], pipeline[:-1].transform(X), SIGNS).relative_gap < 1e-3
    with pytest.raises(NotFittedError):
        taut.certify(LinearSVC(), X, SIGNS)
    for options, message in (
        ({"C": 1.0}, "this model has its own"),
        ({"lengths": [70]}, "this model has its own"),
        ({"tol": -1.0}, "tol"),
        ({"tol": np.nan}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"time_limit": 0.0}, "time_limit"),
    ):
        with pytest.raises(InvalidData, match=message):
            taut.certify(model, X, SIGNS, **options)


def test_classes_derived_from_theirs_are_read():
    class Own(LinearSVC):
        pass

    assert taut.certify(Own().fit(X, SIGNS), X, SIGNS).model == "Own"


# What is printed


def test_sentences():
    def message(primal, dual, *more):
        first = MachineBounds("a", 10, primal, primal, dual)
        return Certification("M", (first, *more)).message

    assert message(1.0, 1.0) == message(0.0, 0.0) == "This model is at its optimum."
    assert message(1.011, 1.0) == "This model is within 1.1 % of its optimum."
    assert message(1.0111, 1.0) == "This model is within 1.2 % of its optimum."
    assert message(2.234, 1.0) == "This model is within 130 % of its optimum."
    assert message(20.2, 1.0) == "The objective of this model is at most 21 times its optimum."
    assert "nothing is proved" in message(1.0, 0.0)
    assert "too near to 0" in message(1e10, 5e-324)
    both = message(1.0, 0.9, MachineBounds("b", 5, 2.0, 2.0, 1.0, "", "If so."))
    assert both.endswith(
        "all 2 machines taken together; the largest relative gap is 0.5, of b. If so."
    )
    assert percent(1e-9) == "1e-07 %"


def test_tables():
    report = taut.certify(LinearSVC().fit(X, CODES), X, CODES)
    lines = str(report).splitlines()
    assert len(lines) == 7
    assert lines[0].startswith("LinearSVC: 1/2 |w|^2")
    assert lines[-2].split()[:2] == ["total", "210"]
    assert repr(report) == f"Certification of LinearSVC: {report.message}"
    values = report.to_dict()
    assert values["dual"] == report.dual
    assert len(values["machines"]) == 3


def test_paths_are_names_of_files(tmp_path):
    with pytest.raises(taut.errors.InvalidFile, match="is not there"):
        taut.certify(tmp_path / "none", X, SIGNS, C=1.0)
    with pytest.raises(taut.errors.InvalidFile, match="is not there"):
        taut.certify(os.fspath(tmp_path / "none"), X, SIGNS, C=1.0)
