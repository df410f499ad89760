"""Bounds of taut's own models: of the data that are given, whatever certificate a model carries."""

import copy
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.base import clone

import reference
import taut
from cases import long_if
from estimator_cases import CASES, CODES, NUMBERS, SIGNS, X
from own_structures import Tags
from taut.data import Stream
from taut.errors import InvalidData
from taut.kernels import RBF, ClassSimilarity, Linear, PairProduct
from taut.structures import JointKernel

pytestmark = pytest.mark.filterwarnings("ignore::taut.errors.NotConverged")

RNG = np.random.default_rng(0)
WEIGHT = RNG.choice([0.0, 0.5, 1.0, 3.0], size=60)
CONVEX = {name: case for name, case in CASES.items() if name not in ("bags", "frames", "latent")}


def made(name, **parameters):
    """A fresh model and its data."""
    estimator, x, y = CASES[name]
    return clone(estimator).set_params(random_state=0, C=2.0, **parameters), x, y


def only(report):
    (machine,) = report.machines
    return machine


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize(
    "name", [long_if(name in ("tree", "graph", "structured"), name) for name in CONVEX]
)
def test_every_estimator(name, kernel, tmp_path):
    model, x, y = made(name, kernel=kernel)
    model.fit(x, y)
    certificate, machine = model.certificate_, only(taut.certify(model, x, y, tol=1e-4))
    assert_allclose(machine.primal, certificate.primal, rtol=1e-9)
    assert certificate.dual * (1 - 1e-9) <= machine.primal
    assert machine.dual <= certificate.primal
    assert machine.dual <= machine.best_primal <= machine.primal
    assert machine.relative_gap <= certificate.relative_gap + 1e-4
    model.save(tmp_path / "model")
    more = {"structure": model.structure} if name == "structured" else {}
    again = only(taut.certify(taut.load(tmp_path / "model", **more), x, y, tol=1e-4))
    assert_allclose([again.primal, again.dual], [machine.primal, machine.dual], rtol=1e-12)
    rough = made(name, kernel=kernel, max_iter=1)[0].fit(x, y)
    ended = only(taut.certify(rough, x, y))
    assert ended.primal >= machine.dual
    assert ended.dual <= machine.primal
    if kernel == "rbf":
        small = model.compress(x, y, n_support=0.5)
        fewer = only(taut.certify(small, x, y, tol=1e-4))
        assert_allclose(fewer.primal, small.certificate_.primal, rtol=1e-9)
        assert fewer.dual <= machine.primal <= fewer.primal * (1 + 1e-12)


@pytest.mark.parametrize("kernel", ["linear", RBF(0.5)])
@pytest.mark.parametrize("name", ["binary", "multiclass", "regression"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_the_optimum_is_that_of_a_quadratic_program(name, kernel, weight):
    model, x, y = made(name, kernel=kernel)
    model.fit(x, y, sample_weight=weight)
    rows = np.hstack([X, np.ones((60, 1))])
    if kernel != "linear":
        rows = np.linalg.cholesky(kernel(X) + 1.0 + 1e-10 * np.eye(60))
    psi, losses = {
        "binary": lambda: reference.binary_blocks(rows, SIGNS),
        "multiclass": lambda: reference.multiclass_blocks(rows, CODES, 3),
        "regression": lambda: reference.regression_blocks(rows, NUMBERS, 0.05),
    }[name]()
    costs = 2.0 * (np.ones(60) if weight is None else weight)
    optimum = reference.solve_qp(psi, losses, costs, rtol=1e-7)[0]
    machine = only(taut.certify(model, x, y, weight, tol=1e-5))
    assert machine.dual <= optimum * (1 + 1e-7)
    assert machine.primal >= optimum * (1 - 1e-7)
    assert_allclose(machine.dual, optimum, rtol=2e-4)
    solved = kernel != "linear" or name == "multiclass"
    assert machine.note.startswith("solved anew" if solved else ("dual ascent", "interior"))


# Ways to make a certificate lie


@pytest.fixture(scope="module")
def model():
    return made("binary")[0].fit(X, SIGNS)


def optimum_of(rows, signs, C=2.0):
    psi, losses = reference.binary_blocks(rows, signs, 1.0)
    return reference.solve_qp(psi, losses, np.full(len(signs), C))[0]


def test_rows_left_out_whose_hinges_are_zero(model):
    """The primal value stays, and the optimum falls."""
    weak = made("binary", max_iter=1, solver="subgradient")[0].fit(X, SIGNS)
    violated = weak.decision_function(X) * SIGNS < 1.0
    assert not violated.all()
    rows, signs = X[violated], SIGNS[violated]
    machine = only(taut.certify(weak, rows, signs))
    optimum = optimum_of(rows, signs)
    assert_allclose(machine.primal, weak.certificate_.primal, rtol=1e-9)
    assert machine.dual <= optimum * (1 + 1e-9)
    for carried in (1.0, 0.999):  # a certificate of the whole data that would be false here
        weak.certificate_ = replace(weak.certificate_, dual=carried * machine.primal)
        assert only(taut.certify(weak, rows, signs)).dual <= optimum * (1 + 1e-9)


@pytest.mark.parametrize("change", [{"C": 0.5}, {"C": 7.0}, {"class_weight": {-1.0: 3.0}}])
def test_parameters_that_were_changed_after_the_fit(model, change):
    changed = copy.copy(model).set_params(**change)
    machine = only(taut.certify(changed, X, SIGNS))
    weight = np.where(SIGNS < 0, 3.0, 1.0) if "class_weight" in change else None
    fresh = clone(changed).set_params(tol=1e-6).fit(X, SIGNS).certificate_
    assert machine.dual <= fresh.primal
    assert machine.primal >= fresh.dual
    w = np.append(model.coef_, model.intercept_)
    scores = np.hstack([X, np.ones((60, 1))]) @ w
    costs = changed.C * (np.ones(60) if weight is None else weight)
    assert_allclose(machine.primal, reference.svm_primal(scores, w @ w, SIGNS, costs), rtol=1e-12)


def test_an_epsilon_that_was_changed_after_the_fit():
    model = made("regression")[0].fit(X, NUMBERS)
    fresh = clone(model).set_params(epsilon=0.5, tol=1e-6).fit(X, NUMBERS).certificate_
    machine = only(taut.certify(model.set_params(epsilon=0.5), X, NUMBERS))
    assert machine.dual <= fresh.primal <= machine.primal * (1 + 1e-6)


def test_weights_that_were_edited(model):
    edited = copy.deepcopy(model)
    edited.coef_ *= 1.5
    machine = only(taut.certify(edited, X, SIGNS))
    optimum = optimum_of(X, SIGNS)
    assert machine.dual <= optimum * (1 + 1e-9) <= machine.primal
    assert machine.primal > model.certificate_.primal
    edited.coef_ = edited.coef_ * np.nan
    assert "its training failed" in taut.certify(edited, X, SIGNS).message
    kernel = made("binary", kernel="rbf")[0].fit(X, SIGNS)
    kernel.dual_coef_ = 1.01 * kernel.dual_coef_
    with pytest.raises(InvalidData, match="intercept_ of the model is not what fit leaves"):
        taut.certify(kernel, X, SIGNS)
    kernel.intercept_ = 1.01 * kernel.intercept_
    assert only(taut.certify(kernel, X, SIGNS)).relative_gap > 0.0
    kernel.support_vectors_ = kernel.support_vectors_ + 1.0
    with pytest.raises(InvalidData, match="support_vectors_ of the model"):
        taut.certify(kernel, X, SIGNS)


def test_an_intercept_that_parameters_deny(model):
    with pytest.raises(InvalidData, match="intercept_ of the model"):
        taut.certify(copy.copy(model).set_params(fit_intercept=False), X, SIGNS)


def test_a_kernel_that_was_set_after_the_fit(model):
    changed = copy.copy(model).set_params(kernel="rbf")
    assert_allclose(only(taut.certify(changed, X, SIGNS)).primal, model.certificate_.primal)
    kernel = made("binary", kernel="rbf")[0].fit(X, SIGNS)
    primal = only(taut.certify(kernel, X, SIGNS)).primal
    for change in ({"kernel": "linear"}, {"gamma": 9.0}):
        changed = copy.copy(kernel).set_params(**change)
        assert_allclose(only(taut.certify(changed, X, SIGNS)).primal, primal)


def test_other_weights_of_rows(model):
    machine = only(taut.certify(model, X, SIGNS, WEIGHT))
    psi, losses = reference.binary_blocks(X, SIGNS, 1.0)
    assert machine.dual <= reference.solve_qp(psi, losses, 2.0 * WEIGHT)[0] * (1 + 1e-9)
    with pytest.raises(InvalidData, match="sample_weight"):
        taut.certify(model, X, SIGNS, WEIGHT[1:])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_other_data(kernel):
    model = made("multiclass", kernel=kernel)[0].fit(X, CODES)
    with pytest.raises(InvalidData, match="classes_ of the model"):
        taut.certify(model, X, CODES + 1)
    with pytest.raises(InvalidData, match="other rows, columns or classes"):
        taut.certify(model, X, np.minimum(CODES, 1))
    with pytest.raises(InvalidData, match="NaN"):
        taut.certify(model, np.where(X[3, 1] == X, np.nan, X), CODES)
    with pytest.raises(InvalidData, match="requires y"):
        taut.certify(model, X)
    with pytest.raises(InvalidData, match="has its own"):
        taut.certify(model, X, CODES, C=3.0)
    with pytest.raises(TypeError, match="lengths"):
        taut.certify(model, X, CODES, lengths=[60])
    if kernel == "linear":
        with pytest.raises(InvalidData, match="other rows, columns or classes"):
            taut.certify(model, X[:, :2], CODES)
        other = only(taut.certify(model, X[::-1], CODES))  # another problem, and its bounds
        assert other.dual <= other.best_primal < other.primal
    else:
        with pytest.raises(InvalidData, match="other rows"):
            taut.certify(model, X[:-1], CODES[:-1])
        with pytest.raises(InvalidData, match="support_vectors_ of the model"):
            taut.certify(model, X[::-1], CODES)


def test_columns_in_another_order():
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = made("binary")[0].fit(frame, SIGNS)
    assert only(taut.certify(model, frame, SIGNS)).relative_gap < 2e-3
    with pytest.raises(InvalidData, match="feature_names_in_ of the model"):
        taut.certify(model, frame[["c", "b", "a"]], SIGNS)


# Forms of data and models


def test_priors_and_signs():
    model = made("binary", nonneg=True, prior_mean=np.ones((1, 3)))[0].fit(X, SIGNS)
    report = taut.certify(model, X, SIGNS, tol=1e-5)
    assert_allclose(report.primal, model.certificate_.primal, rtol=1e-9)
    assert report.relative_gap < 2e-3
    assert "prior and signs" in report.objective


def test_further_arguments_of_fit():
    margin = 1.0 + (SIGNS > 0)
    model = made("binary")[0].fit(X, SIGNS, margin=margin)
    machine = only(taut.certify(model, X, SIGNS, margin=margin))
    assert_allclose(machine.primal, model.certificate_.primal, rtol=1e-9)
    groups = RNG.integers(0, 6, size=60)
    rank = taut.RankSVM(random_state=0).fit(X, CODES, groups=groups)
    machine = only(taut.certify(rank, X, CODES, groups=groups))
    assert_allclose(machine.primal, rank.certificate_.primal, rtol=1e-9)


def test_the_model_and_its_generator_are_left_alone():
    model = made("binary", calibrate=0.3)[0].fit(X, CODES > 0)
    model.set_params(random_state=np.random.default_rng(5))
    before = copy.deepcopy(vars(model))
    assert only(taut.certify(model, X, CODES > 0)).relative_gap < 2e-3
    assert vars(model).keys() == before.keys()
    assert model.temperature_ == before["temperature_"]
    assert model.random_state.integers(100) == before["random_state"].integers(100)


def test_sparse_rows_single_precision_and_matrices():
    model = made("binary")[0].fit(sp.csr_array(X), SIGNS)
    assert_allclose(
        only(taut.certify(model, X, SIGNS)).primal, model.certificate_.primal, rtol=1e-9
    )
    rows = X.astype(np.float32)
    for kernel in ("linear", "rbf"):
        model = made("binary", kernel=kernel)[0].fit(rows, SIGNS)
        machine = only(taut.certify(model, rows, SIGNS))
        assert_allclose(machine.primal, model.certificate_.primal, rtol=1e-6)
        assert machine.relative_gap < 3e-3
    K = RBF(0.5)(X)
    model = made("binary", kernel="precomputed")[0].fit(K, SIGNS)
    assert only(taut.certify(model, K, SIGNS)).relative_gap < 2e-3


def test_data_that_come_part_by_part(tmp_path):
    shards = taut.data.write_shards(
        tmp_path / "shards", [(X[:30], SIGNS[:30]), (X[30:], SIGNS[30:])]
    )
    model = taut.BinarySVM(C=2.0, random_state=0).fit(shards)
    machine = only(taut.certify(model, shards))
    assert_allclose(machine.primal, model.certificate_.primal, rtol=1e-9)
    whole = only(taut.certify(model, X, SIGNS))
    assert_allclose(whole.primal, machine.primal, rtol=1e-9)
    assert machine.dual <= whole.best_primal
    with pytest.raises(InvalidData, match="beside a source"):
        taut.certify(model, shards, SIGNS)
    once = Stream(iter([(X, SIGNS)]), classes=[-1.0, 1.0])
    assert "read only once" in taut.certify(model, once).message


def test_a_structure_of_a_users():
    labels = [tuple(bits) for bits in RNG.integers(2, size=(20, 2)).tolist()]
    rows = list(X[:20])
    model = taut.StructuredSVM(Tags(2), random_state=0).fit(rows, labels)
    machine = only(taut.certify(model, rows, labels))
    assert_allclose(machine.primal, model.certificate_.primal, rtol=1e-9)
    assert machine.relative_gap < 3e-3


def test_weights_that_are_coefficients_of_pairs_of_one_fit():
    kernel, rows = PairProduct(Linear(), ClassSimilarity(np.eye(3))), list(X[:20])
    labels = CODES[:20].tolist()
    for explicit in (False, True):
        structure = JointKernel(kernel, labels=range(3), explicit=explicit)
        model = taut.StructuredSVM(structure, random_state=0).fit(rows, labels)
        report = taut.certify(model, rows, labels)
        if explicit:
            assert report.relative_gap < 3e-3
        else:
            assert "coefficients of pairs that belong to one fit: see certif" in report.message


def test_models_of_a_path():
    path = taut.path(made("binary")[0], X, SIGNS, 0.5, 2.0, gap=0.05)
    between = path.at(1.1)
    report = taut.certify(between, X, SIGNS)
    assert report.relative_gap <= 0.06
    assert report.dual <= optimum_of(X, SIGNS, 1.1) * (1 + 1e-9)
