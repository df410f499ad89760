"""OnlineSVM: learning without C, from data in memory, from sources and part by part."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris

import taut
from taut import BinarySVM, OnlineSVM, Problem
from taut.data import Stream
from taut.errors import InvalidData, InvalidFile
from taut.estimators.learning_curve import LearningCurve
from taut.kernels import RBF
from taut.structures import Chain, Scalar

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 2))
Y = np.where(np.linalg.norm(X, axis=1) > 1.2, "far", "near")
FLOWERS, KINDS = load_iris(return_X_y=True)
KERNELS = [{"kernel": "linear"}, {"kernel": "rbf", "gamma": 0.5}]
SEQUENCES = (RNG.normal(size=(120, 3)), np.arange(0, 121, 4))
TAGS = (SEQUENCES[0][:, 0] > 0).astype(int)


def online(**settings):
    return OnlineSVM(subset=20, random_state=0, **settings)


@pytest.mark.parametrize("kernel", KERNELS)
def test_classes_of_rows_are_learned(kernel):
    model = online(**kernel).fit(FLOWERS, KINDS)
    assert model.score(FLOWERS, KINDS) > 0.9
    assert model.decision_function(FLOWERS).shape == (150, 3)
    assert model.n_seen_ == 300
    assert model.n_steps_ == 16
    curve = model.learning_curve_
    assert_array_equal(curve.seen[:8], [20, 40, 60, 80, 100, 120, 140, 150])
    assert ((curve.with_loss >= 0) & (curve.with_loss <= 1)).all()
    assert curve.hinge[0] == pytest.approx(1.0)  # at w = 0 each example has its loss
    assert curve.evaluations[-1] == model.n_evaluations_
    assert not hasattr(model, "certificate_")


def test_a_kernel_separates_what_no_line_does():
    flat, curved = (online(**kernel).fit(X, Y).score(X, Y) for kernel in KERNELS)
    assert curved > 0.95 > flat


def test_parts_that_are_fed_are_the_passes_of_one_that_is_whole():
    """The order of examples, and so the steps, are the same where each call has one subset."""
    for kernel in KERNELS:
        exact = {"order": "window", "precision": 1e-7} | kernel
        whole = online(epochs=1, **exact).fit(X, Y)
        fed = online(**exact)
        for first in range(0, 300, 20):
            fed = fed.partial_fit(X[first : first + 20], Y[first : first + 20], ["far", "near"])
        assert_allclose(fed.decision_function(X), whole.decision_function(X), atol=2e-3)
        assert fed.n_seen_ == whole.n_seen_
        if kernel["kernel"] == "rbf":
            assert_array_equal(fed.support_, whole.support_)
            assert_allclose(fed.dual_coef_, whole.dual_coef_, atol=2e-3)
            assert_array_equal(fed.support_vectors_, X[fed.support_])


@pytest.mark.parametrize("kernel", [*KERNELS, {"kernel": "rbf", "gamma": 0.5, "budget": 15}])
def test_a_model_that_was_saved_goes_on_as_if_it_had_not_been(kernel, tmp_path):
    model = online(**kernel).partial_fit(X[:100], Y[:100])
    model.save(tmp_path / "model")
    loaded = taut.load(tmp_path / "model")
    assert_allclose(loaded.decision_function(X), model.decision_function(X))
    for one in (model, loaded):
        one.partial_fit(X[100:], Y[100:])
    assert_allclose(loaded.last_, model.last_)
    assert_array_equal(loaded.learning_curve_.seen, model.learning_curve_.seen)
    assert loaded.n_evaluations_ == model.n_evaluations_


def test_support_rows_stay_within_a_budget_over_calls():
    model = online(kernel="rbf", gamma=0.5, budget=25)
    for first in range(0, 300, 60):
        model.partial_fit(X[first : first + 60], Y[first : first + 60])
        assert len(model.support_) <= 25
        assert (np.diff(model.support_) > 0).all()
        assert_array_equal(model.support_vectors_, X[model.support_])
    assert model.score(X, Y) > 0.85


def test_dense_and_sparse_rows_are_the_same():
    for kernel in KERNELS:
        dense = online(**kernel).fit(X[:200], Y[:200]).partial_fit(X[200:], Y[200:])
        rows = sp.csr_array(X)
        csr = online(**kernel).fit(rows[:200], Y[:200]).partial_fit(rows[200:], Y[200:])
        assert_allclose(csr.decision_function(rows), dense.decision_function(X), atol=1e-3)


def test_sources_are_gone_through_part_by_part():
    parts = [(X[:150], Y[:150]), (X[150:], Y[150:])]
    for kernel in KERNELS:
        source = Stream(lambda: iter(parts), classes=["far", "near"])
        fed = online(**kernel).partial_fit(*parts[0]).partial_fit(*parts[1])
        model = online(epochs=1, **kernel).fit(source)
        assert_allclose(model.last_, fed.last_, atol=1e-6)
    again = online(epochs=2).fit(Stream(lambda: iter(parts), classes=["far", "near"]))
    assert again.n_seen_ == 600
    with pytest.raises(InvalidData, match="epochs = 2, and these data come part by part"):
        online(epochs=2, kernel="rbf").fit(Stream(lambda: iter(parts), classes=["far", "near"]))
    with pytest.raises(InvalidData, match="epochs = 2, and these data can be read only once"):
        online(epochs=2).fit(Stream(iter(parts), classes=["far", "near"]))


def test_validation_stops_and_keeps_the_best():
    model = online(kernel="rbf", gamma=0.5, epochs=30, early_stopping=True).fit(X, Y)
    errors = model.learning_curve_.validation_error
    assert len(errors) < 30
    assert errors.argmin() == len(errors) - 3
    assert model.n_seen_ == model.learning_curve_.validation_seen[errors.argmin()]
    held = online(kernel="rbf", gamma=0.5, epochs=3)
    held.fit(X[:200], Y[:200], validation=(X[200:], Y[200:]))
    assert held.learning_curve_.validation_error[-1] == pytest.approx(
        1 - held.score(X[200:], Y[200:])
    )
    assert_array_equal(held.learning_curve_.validation_seen, [200, 400, 600])


def test_the_primal_at_a_reference_is_the_objective_of_a_binary_svm():
    model = online(kernel="rbf", gamma=0.5, C=3.0).fit(X, Y)
    best = BinarySVM(C=3.0, kernel="rbf", gamma=0.5, random_state=0).fit(X, Y).certificate_
    assert model.primal_ >= best.dual
    signs = np.where(Y == "near", 1.0, -1.0)
    K, b = RBF(0.5)(X) + 1.0, np.zeros(300)
    b[model.support_] = model.dual_coef_[0]
    objective = 0.5 * b @ K @ b + 3.0 * np.maximum(1 - signs * (K @ b), 0).sum()
    assert_allclose(model.primal_, objective, rtol=1e-6)
    problem = Problem(Scalar(1.0), X, signs, C=3.0)
    flat = online(C=3.0).fit(X, Y)
    w = np.append(flat.coef_[0], flat.intercept_)
    assert_allclose(flat.primal_, problem.primal(w), rtol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_structures_learn_and_go_on(kernel, tmp_path):
    model = OnlineSVM(Chain(2), subset=6, random_state=0, epochs=4, **kernel)
    model.fit(SEQUENCES, TAGS, validation=(SEQUENCES, TAGS))
    assert model.learning_curve_.validation_error[-1] == -model.score(SEQUENCES, TAGS)
    assert -model.score(SEQUENCES, TAGS) < 0.5  # of four letters in a sequence
    model.save(tmp_path / "model")
    with pytest.raises(InvalidFile, match="structures are not saved"):
        taut.load(tmp_path / "model")
    loaded = taut.load(tmp_path / "model", structure=Chain(2))
    assert_array_equal(
        np.concatenate(loaded.predict(SEQUENCES)), np.concatenate(model.predict(SEQUENCES))
    )
    for one in (model, loaded):
        one.partial_fit(SEQUENCES, TAGS)
    assert_allclose(loaded.last_, model.last_, atol=1e-9)
    with pytest.raises(InvalidData, match="decision_function is of classes of rows"):
        model.decision_function(SEQUENCES)


def test_calls_that_fail_leave_the_model_as_it_was():
    model = online(**KERNELS[1]).partial_fit(X[:100], Y[:100])
    before = model.last_.copy()
    with pytest.raises(InvalidData, match="y"):
        model.partial_fit(X[100:110], ["other"] * 10)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(np.ones((4, 3)), ["far", "near"] * 2)
    assert_array_equal(model.last_, before)
    assert model.n_calls_ == 1


def test_curves_are_thinned_and_checked():
    class Step:
        with_loss = hinge = square = 0.5
        evaluations = n_support = 3

        def __init__(self, seen):
            self.seen = seen

    curve = LearningCurve()
    for first in range(0, 10_000, 1000):
        curve = curve.extended([Step(seen) for seen in range(first, first + 1000)])
    assert 2048 <= len(curve.seen) <= 4096
    assert (np.diff(curve.seen) > 0).all()
    assert_array_equal(LearningCurve.from_dict(curve.to_dict()).seen, curve.seen)
    with pytest.raises(ValueError, match="several lengths"):
        LearningCurve.from_dict(curve.to_dict() | {"seen": [1.0]})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"epochs": 0}, "epochs = 0: give a whole number"),
        ({"budget": 5}, "budget = 5 is a number of support rows"),
        ({"validation_fraction": 1.0}, "validation_fraction = 1"),
        ({"schedule": "slow"}, "schedule = 'slow'"),
        ({"structure": Chain(2), "early_stopping": True}, "needs data to validate on"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InvalidData, match=message):
        OnlineSVM(**settings).fit(X, Y)


def test_another_kernel_is_no_way_to_go_on():
    model = online(kernel="rbf", gamma="scale").partial_fit(X[:100], Y[:100])
    model.partial_fit(X[100:200], Y[100:200])
    for settings, found in (
        ({"kernel": "linear"}, "kernel = 'linear', and the model so far has RBF"),
        ({"kernel": "laplacian"}, "kernel = Laplacian.*so far has RBF"),
        ({"gamma": 7.0}, "kernel = RBF.gamma=7.0., and the model so far has RBF"),
    ):
        changed = copy.deepcopy(model).set_params(**settings)
        with pytest.raises(InvalidData, match=found):
            changed.partial_fit(X[200:], Y[200:])
    flat = online().partial_fit(X[:100], Y[:100]).set_params(kernel="rbf")
    with pytest.raises(InvalidData, match="the model so far has 'linear'"):
        flat.partial_fit(X[100:], Y[100:])


def test_what_a_stream_does_not_tell_is_asked_for(tmp_path):
    with pytest.raises(InvalidData, match="schedule = 'linear' divides by the number of examples"):
        online(schedule="linear").partial_fit(X, Y)
    model = online(schedule=lambda t: t / 300).partial_fit(X, Y)
    with pytest.raises(TypeError, match="is a function, which no file can hold"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_there_is_no_optimum_to_certify():
    model = online().fit(X, Y)
    with pytest.raises(TypeError, match="OnlineSVM, which certify cannot read: it minimises no"):
        taut.certify(model, X, Y)


def test_progress_tells_what_steps_find(capsys):
    online(kernel="rbf", gamma=0.5, verbose=1).fit(X, Y)
    shown = capsys.readouterr().err
    assert "OnlineSVM: pass 2  600 examples  " in shown
    assert "support rows" in shown
    assert "gap" not in shown


def test_a_matrix_has_no_rows_to_go_on_from():
    model = OnlineSVM(kernel="precomputed", random_state=0).fit(RBF(0.5)(X), Y)
    assert model.score(RBF(0.5)(X), Y) > 0.95
    with pytest.raises(InvalidData, match="the matrix of a kernel is of the rows of one call"):
        model.partial_fit(RBF(0.5)(X), Y)
