"""OnlineSVM: learning without C, from data in memory, from sources and part by part."""

import copy
import signal
import threading
import time
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

import taut
from taut import BinarySVM, OnlineSVM, Problem
from taut.data import Stream
from taut.errors import InvalidData, InvalidFile, NotConverged
from taut.estimators.learning_curve import LearningCurve
from taut.kernels import RBF
from taut.solvers import FunctionalDescent
from taut.structures import Chain, Multiclass, Regression, Scalar, SlackRescaled, Structure

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
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    for one in (model, loaded):
        one.partial_fit(X[100:], Y[100:])
    assert_array_equal(loaded.last_, model.last_)
    assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    for name, values in model.learning_curve_.to_dict().items():
        assert_array_equal(getattr(loaded.learning_curve_, name), values)
    assert loaded.n_evaluations_ == model.n_evaluations_


def test_a_generator_is_no_part_of_a_file(tmp_path):
    for given in (np.random.RandomState(0), np.random.default_rng(0)):
        model = OnlineSVM(subset=20, random_state=given).partial_fit(X, Y)
        with pytest.warns(RuntimeWarning, match="the loaded model has None"):
            model.save(tmp_path / "model")
        assert taut.load(tmp_path / "model").random_state is None


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
    for settings, message in (
        ({"C": 1.0}, "C = 1.0 asks for an objective over all data"),
        ({"class_weight": "balanced"}, "class_weight = 'balanced' is of all rows"),
        ({"schedule": "linear"}, r"give schedule='power', rate=1\.0 and factor=1/n"),
    ):
        source = Stream(lambda: iter(parts), classes=["far", "near"])
        with pytest.raises(InvalidData, match=message):
            online(**settings).fit(source)
    with pytest.raises(InvalidData, match="X of validation has 1 features, and X has 2"):
        online().fit(source, validation=(X[:, :1], Y))
    with pytest.raises(InvalidData, match="class_weight = 'balanced' is of all rows"):
        online(class_weight="balanced").partial_fit(X, Y)
    with pytest.raises(InvalidData, match="epochs = 2, and these data can be read only once"):
        online(epochs=2).fit(Stream(iter(parts), classes=["far", "near"]))


def test_validation_stops_and_keeps_the_best():
    model = online(kernel="rbf", gamma=0.5, epochs=30, early_stopping=True).fit(X, Y)
    errors = model.learning_curve_.validation_error
    assert len(errors) < 30
    assert errors.argmin() == len(errors) - 3
    assert model.n_seen_ == model.learning_curve_.validation_seen[errors.argmin()]
    assert model.n_seen_ == model.learning_curve_.seen[-1]  # no steps that the model does not have
    assert (np.diff(copy.deepcopy(model).partial_fit(X, Y).learning_curve_.seen) > 0).all()
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
        with_loss = hinge = residual = square = gap = 0.5
        evaluations = n_support = 3

        def __init__(self, seen):
            self.seen = seen

    curve = LearningCurve()
    for first in range(0, 10_000, 1000):
        curve = curve.extended([Step(seen) for seen in range(first, first + 1000)])
    assert 2048 <= len(curve.seen) <= 4096
    assert (np.diff(curve.seen) > 0).all()
    assert curve.seen[-1] == 9999  # the newest stays
    one_more = LearningCurve().extended([Step(seen) for seen in range(1, 4098)])
    assert_array_equal(one_more.seen, np.arange(1, 4098, 2))
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
        ({"kernel": "rbf", "budget": True}, "budget = True"),
        ({"subset": "all"}, "subset = 'all'"),
        ({"C": 0}, "C = 0"),
        ({"C": "x"}, "C = 'x': give a number"),
        ({"verbose": "x"}, "verbose = 'x': give a number"),
        ({"n_iter_no_change": 0}, "n_iter_no_change = 0"),
        ({"structure": 3}, "structure = 3: give a structure, such as taut.structures.Chain"),
        ({"structure": Regression()}, "Regression has losses below zero.*use RegressionSVM"),
        ({"structure": SlackRescaled(Multiclass(2))}, "predicts by something else"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(InvalidData, match=message):
        OnlineSVM(**settings).fit(X, Y)


def test_settings_mean_what_they_mean_to_the_solver():
    solver, model = FunctionalDescent(), OnlineSVM()
    shared = {field.name for field in fields(solver)} & model.get_params().keys()
    assert len(shared) == 11
    for name in shared:
        assert getattr(model, name) == getattr(solver, name), name


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (3, "validation is of type int: give a pair"),
        ((X, None), "validation has no targets"),
        ((X, np.arange(300)), "y of validation"),
        ((X[:, :1], Y), "X of validation has 1 features, and X has 2"),
    ],
)
def test_validation_data_are_checked_before_training(validation, message):
    model = online()
    with pytest.raises(InvalidData, match=message):
        model.fit(X, Y, validation=validation)
    assert not hasattr(model, "n_seen_")


def test_steps_tell_gaps_and_residual_margins():
    model = online(precision=0.01, bounds="none").fit(X, Y)
    curve = model.learning_curve_
    assert_allclose(curve.residual, curve.hinge)
    # (residual / lambda + gap bounds |u|^2; lambda = 1 / k.)
    assert (curve.square <= 20 * curve.residual + curve.gap + 1e-9).all()
    assert (online(bounds="above").fit(X, Y).learning_curve_.residual <= 1.0 + 1e-9).all()


def test_shares_with_a_loss_are_shares_whatever_weights_are():
    heavy = online(order="window").fit(X, Y, sample_weight=np.full(300, 5.0)).learning_curve_
    assert heavy.with_loss[0] == 1.0
    assert (heavy.with_loss <= 1.0).all()


def test_what_a_budget_leaves_behind_stops_no_fit():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(600, 2))
    signs = rows[:, 0] > 0
    signs[300:] = ~signs[300:]
    signs ^= rng.random(600) < 0.2
    settings = {"kernel": "rbf", "gamma": 20.0, "order": "window", "epochs": 1}
    model = online(budget=5, **settings).fit(rows, signs)
    assert len(model.support_) == 5


def test_a_part_without_weight_changes_nothing():
    for kernel in KERNELS:
        model = online(**kernel).partial_fit(X[:100], Y[:100])
        before = model.last_.copy()
        model.partial_fit(X[100:], Y[100:], sample_weight=np.zeros(200))
        light = copy.deepcopy(model).set_params(class_weight={"far": 0.0})
        light.partial_fit(X[100:][Y[100:] == "far"], ["far"] * (Y[100:] == "far").sum())
        for one in (model, light):
            assert_array_equal(one.last_, before)
            assert one.n_seen_ == 100
        for wrong, match in (
            ((X[:2], ["far", "other"]), "y"),
            ((X[:2] * np.nan, Y[:2]), "NaN"),
            ((X[:, :1][:2], Y[:2]), "features"),
        ):
            with pytest.raises(ValueError, match=match):
                model.partial_fit(*wrong, sample_weight=np.zeros(2))
        moved = copy.deepcopy(model).set_params(fit_intercept=False)
        with pytest.raises(InvalidData, match="make a constant feature of"):
            moved.partial_fit(X[100:], Y[100:], sample_weight=np.zeros(200))


def test_a_first_part_without_weight_tells_columns_and_classes():
    model = online().partial_fit(X[:50], Y[:50], sample_weight=np.zeros(50))
    assert_array_equal(model.classes_, ["far", "near"])
    with pytest.raises(NotFittedError):
        model.predict(X)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :1], Y)
    with pytest.raises(InvalidData, match=r"classes = .*and the model so far has"):
        model.partial_fit(X, Y, classes=["far", "near", "between"])
    model.partial_fit(X[50:], ["far"] * 250)
    assert_array_equal(model.last_, online().partial_fit(X[50:], ["far"] * 250, Y[:50]).last_)
    with pytest.raises(InvalidData, match="sample_weight is zero everywhere"):
        online().fit(X, Y, sample_weight=np.zeros(300))
    parts = [(X[:150], Y[:150], np.zeros(150)), (X[150:], Y[150:], np.ones(150))]
    source = online(epochs=1).fit(Stream(parts, classes=["far", "near"]))
    assert source.n_seen_ == 150
    with pytest.raises(InvalidData, match="all examples of the source have weight 0"):
        online(class_weight={"far": 0}).fit(Stream([(X[:9], ["far"] * 9)], classes=["far", "near"]))


def test_parts_of_structures_without_weight_are_looked_at():
    for learned in (False, True):
        model = OnlineSVM(Chain(2), subset=6, random_state=0)
        if learned:
            model.fit(SEQUENCES, TAGS)
        idle = np.zeros(30)
        assert model.partial_fit(SEQUENCES, TAGS, sample_weight=idle) is model
        assert hasattr(model, "n_seen_") == learned
        for data, labels, weight in (
            (SEQUENCES, TAGS + 7, idle),
            (SEQUENCES, TAGS, idle[1:]),
            ((SEQUENCES[0] * np.nan, SEQUENCES[1]), TAGS, idle),
        ):
            with pytest.raises(InvalidData):
                model.partial_fit(data, labels, sample_weight=weight)
    with pytest.raises(InvalidData, match="X has 2 features, and the model has learned from 3"):
        model.partial_fit((SEQUENCES[0][:, :2], SEQUENCES[1]), TAGS, sample_weight=idle)


@pytest.mark.parametrize("within", [False, True])
def test_an_interrupt_ends_the_fit_of_a_source(within, monkeypatch):
    """Between two parts, or in the midst of one; what was learned before is the model."""
    parts = [(X[:150], Y[:150]), (X[150:], Y[150:]), (X, Y)]
    step, passed, seen = FunctionalDescent.step, OnlineSVM._passed, []

    def pressed(*arguments):
        seen.append(1)
        if within and len(seen) == 10:  # the second step of the second part
            signal.raise_signal(signal.SIGINT)
        return step(*arguments)

    def learned(*arguments):
        found = passed(*arguments)
        if not within:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(FunctionalDescent, "step", pressed)
    monkeypatch.setattr(OnlineSVM, "_passed", learned)
    model = online(epochs=2)
    with pytest.warns(NotConverged, match="the model is that of the steps so far"):
        model.fit(Stream(lambda: iter(parts), classes=["far", "near"]))
    assert model.n_seen_ == (190 if within else 150)
    assert model.predict(X).shape == (300,)


def test_a_source_that_lets_wait_can_be_left(monkeypatch):
    """By a second interrupt, which comes while the next part is waited for."""
    waiting, gone = threading.Event(), threading.Event()

    def parts():
        yield X[:150], Y[:150]
        waiting.set()
        gone.wait(60)
        yield X[150:], Y[150:]

    def press():
        waiting.wait(60)
        while not model:
            time.sleep(0.01)
        for _ in range(2):
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            time.sleep(0.2)
        gone.set()

    model, read = [], OnlineSVM._passed

    def passed(*arguments):
        found = read(*arguments)
        model.append(1)
        return found

    monkeypatch.setattr(OnlineSVM, "_passed", passed)
    source = Stream(parts, classes=["far", "near"])
    presser = threading.Thread(target=press)
    presser.start()
    with pytest.warns(NotConverged, match="interrupted"):
        found = online(epochs=1).fit(source)
    presser.join()
    assert found.n_seen_ == 150
    with pytest.raises(KeyboardInterrupt):
        online(epochs=1).fit(Stream(pressed_at_once, classes=["far", "near"]))


def pressed_at_once():
    """A part that comes after an interrupt, but not where a stream looks at its first one."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.2)
    yield X, Y


def test_rows_that_are_held_out_keep_their_numbers():
    table = pd.DataFrame(X, columns=["a", "b"])
    settings = {"epochs": 3, "early_stopping": True, "kernel": "rbf", "gamma": 0.5}
    model = online(**settings).fit(table, Y)
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert_array_equal(model.feature_names_in_, ["a", "b"])
    assert model.n_seen_ <= 3 * 271
    rare = np.array(["far"] * 297 + ["rare"] * 3)  # a share of three rows is none
    assert_array_equal(online(**settings).fit(X, rare).classes_, ["far", "rare"])
    given = settings | {"kernel": "precomputed"}
    by_matrix = online(**given).fit(RBF(0.5)(X), Y)
    assert by_matrix.score(RBF(0.5)(X), Y) > 0.9
    with pytest.raises(InvalidData, match="of the rows of each class is none"):
        online(early_stopping=True).fit(X[:4], ["far", "near"] * 2)


def test_precision_does_not_change_with_the_parts():
    model = online(**KERNELS[1]).partial_fit(X[:100], Y[:100])
    model.partial_fit(X[100:].astype(np.float32), Y[100:])
    assert model.support_vectors_.dtype == np.float64
    rows = np.random.default_rng(0).normal(size=(200, 20)).astype(np.float32)
    signs = rows[:, 0] > 0
    model = online(kernel=lambda A, B: (A @ B.T + 1.0) ** 2).fit(rows, signs)
    assert model.score(rows, signs) > 0.9


def test_the_first_part_names_all_classes():
    with pytest.raises(InvalidData, match=r"one class alone, 'far'.*classes="):
        online().partial_fit(X[:10], ["far"] * 10)
    model = online().partial_fit(X[:10], ["far"] * 10, classes=["far", "near"])
    model.partial_fit(X[10:], Y[10:], classes=["near", "far"])
    with pytest.raises(InvalidData, match=r"classes = .*and the model so far has"):
        model.partial_fit(X, Y, classes=["far", "near", "between"])
    for classes in (2, "far", ["far"]):
        with pytest.raises(InvalidData, match="classes"):
            online().partial_fit(X, Y, classes=classes)


def test_scores_of_structures_are_minus_mean_losses():
    codes = (Y == "far").astype(int)
    for structure, data, targets in (
        (Multiclass(2, bias=1.0), X, codes),
        (Scalar(1.0), X, 2.0 * codes - 1.0),
        (Chain(2), SEQUENCES, TAGS),
    ):
        model = OnlineSVM(structure, subset=20, random_state=0).fit(data, targets)
        assert -1.0 * 4 <= model.score(data, targets) <= 0.0
    losses = [-model.score((SEQUENCES[0][a : a + 4], [0, 4]), TAGS[a : a + 4]) for a in (0, 4, 8)]
    three = (SEQUENCES[0][:12], np.array([0, 4, 8, 12])), TAGS[:12]
    weighted = -model.score(*three, sample_weight=[1.0, 2.0, 5.0])
    assert_allclose(weighted, np.average(losses, weights=[1.0, 2.0, 5.0]))
    with pytest.raises(InvalidData, match="sample_weight has shape"):
        model.score(*three, sample_weight=[1.0, 2.0])


def test_chains_may_come_as_lists(tmp_path):
    matrices = np.split(SEQUENCES[0], SEQUENCES[1][1:-1])
    labels = [own.tolist() for own in np.split(TAGS, SEQUENCES[1][1:-1])]
    for kernel in KERNELS:
        stacked = OnlineSVM(Chain(2), subset=20, random_state=0, **kernel).fit(SEQUENCES, TAGS)
        listed = OnlineSVM(Chain(2), subset=20, random_state=0, **kernel)
        listed.fit(matrices, labels, validation=(matrices, labels))
        assert_allclose(listed.last_, stacked.last_)
        assert listed.score(matrices, labels) == stacked.score(SEQUENCES, TAGS)
        assert_array_equal(np.concatenate(listed.predict(matrices)), stacked_labels(stacked))
        listed.save(tmp_path / "model")
        for wrong in (Chain(3), Chain(2, boundary=True)):
            other = taut.load(tmp_path / "model", structure=wrong)
            with pytest.raises(InvalidData, match=r"Chain\(...\) is not the one that the model"):
                other.predict(matrices)
            with pytest.raises(InvalidData, match=r"Chain\(...\) is not the one that the model"):
                other.partial_fit(matrices, labels)
    with pytest.raises(InvalidData, match="30 sequences"):
        listed.fit(matrices, labels[:-1])


def stacked_labels(model):
    return np.concatenate(model.predict(SEQUENCES))


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
    numbers = copy.deepcopy(model).set_params(gamma=model.kernel_.gamma)
    assert numbers.partial_fit(X[200:], Y[200:]).n_seen_ == 300
    named = online(kernel="rbf", gamma=7.0).partial_fit(X[:100], Y[:100])
    own = online(kernel=lambda A, B: A @ B.T).partial_fit(X[:100], Y[:100])
    for one, settings in (
        (named, {"gamma": "scale"}),
        (own, {"kernel": lambda A, B: (A @ B.T) ** 2}),
    ):
        with pytest.raises(InvalidData, match="go on with the same"):
            one.set_params(**settings).partial_fit(X[100:], Y[100:])
    for kernel in KERNELS:
        for settings in ({"fit_intercept": False}, {"intercept_scaling": 3.0}):
            one = online(**kernel).partial_fit(X[:100], Y[:100]).set_params(**settings)
            with pytest.raises(InvalidData, match="make a constant feature of"):
                one.partial_fit(X[100:], Y[100:])
    flat = online().partial_fit(X[:100], Y[:100]).set_params(kernel="rbf")
    with pytest.raises(InvalidData, match="the model so far has 'linear'"):
        flat.partial_fit(X[100:], Y[100:])


@pytest.mark.parametrize("kernel", [*KERNELS, {"kernel": "poly", "degree": 5, "coef0": 7.0}])
def test_a_loaded_model_goes_on_with_what_it_began_with(kernel, tmp_path):
    path = tmp_path / "model"
    online(fit_intercept=False, **kernel).partial_fit(X[:100], Y[:100]).save(path)
    changes = [{"fit_intercept": True}, {"fit_intercept": True, "intercept_scaling": 3.0}]
    if "gamma" in kernel:
        changes.append({"gamma": "scale"})
    if "degree" in kernel:
        changes += [{"degree": 2}, {"coef0": 0.0}, {"gamma": 2.0}]
    for change in changes:
        for other in (taut.load(path, **change), taut.load(path).set_params(**change)):
            with pytest.raises(InvalidData, match="go on with the same"):
                other.partial_fit(X[100:], Y[100:])
    numbers = {"gamma": np.float64(taut.load(path).kernel_.gamma)} if len(kernel) > 1 else {}
    assert taut.load(path, **numbers).partial_fit(X[100:], Y[100:]).n_seen_ == 300


def test_another_structure_is_no_way_to_go_on(tmp_path):
    path, wide = tmp_path / "model", RNG.normal(size=(150, 9))
    cost = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])
    rows = FLOWERS[:, :3]
    model = OnlineSVM(Multiclass(3), subset=20, random_state=0).fit(rows, KINDS)
    model.save(path)
    signs = np.where(KINDS == 1, 1.0, -1.0)
    for structure, data, y, found in (
        (Scalar(0.0), wide, signs, "Scalar.* is not the one that the model was fitted with"),
        (Multiclass(3, cost=cost), rows, KINDS, "with the same parameters, such as cost"),
        (Multiclass(3), wide, KINDS, "X has 9 features, and the model has learned from 3"),
        (None, rows, KINDS, "structure = None, and the model has learned a structure"),
    ):
        loaded = taut.load(path, structure=structure)
        for one in (loaded, copy.deepcopy(model).set_params(structure=structure)):
            for use in (one.predict, lambda X, one=one, y=y: one.partial_fit(X, y)):
                with pytest.raises(InvalidData, match=found):
                    use(data)
    assert taut.load(path, structure=Multiclass(3)).score(rows, KINDS) == model.score(rows, KINDS)
    flat = online().fit(rows, KINDS).set_params(structure=Multiclass(3))
    for use in (flat.predict, lambda X: flat.partial_fit(X, KINDS)):
        with pytest.raises(InvalidData, match="the model has learned classes of rows"):
            use(rows)


class Signs(Structure):
    """Two labels, and a count of calls that belongs to no setting."""

    def __init__(self, loss=1.0):
        self.cost, self.calls = loss, 0

    def features(self, x, y):
        return y * x

    def loss(self, truth, label):
        return self.cost * (truth != label)

    def argmax(self, x, w, truth=None, loss_weight=1.0):
        self.calls += 1
        loss = {y: 0.0 if truth is None else loss_weight * self.loss(truth, y) for y in (-1, 1)}
        return max((-1, 1), key=lambda y: y * (w @ x) + loss[y])


def test_a_users_structure_may_remember_what_it_likes(tmp_path):
    y = np.where(X[:, 0] > 0, 1, -1).tolist()
    model = OnlineSVM(Signs(), subset=20, random_state=0, epochs=1).fit(list(X[:60]), y[:60])
    assert model.score(list(X), y) > -0.2
    model.partial_fit(list(X[60:90]), y[60:90]).save(tmp_path / "model")
    loaded = taut.load(tmp_path / "model", structure=Signs())
    assert loaded.partial_fit(list(X[90:120]), y[90:120]).n_seen_ == 120
    with pytest.raises(InvalidData, match=r"same parameters, such as cost.*__getstate__"):
        taut.load(tmp_path / "model", structure=Signs(2.0)).predict(list(X))


def test_what_a_stream_does_not_tell_is_asked_for(tmp_path):
    with pytest.raises(InvalidData, match=r"give schedule='power', rate=1\.0 and factor=1/n"):
        online(schedule="linear").partial_fit(X, Y)
    advised = online(schedule="power", rate=1.0, factor=1 / 300, order="window")
    linear = online(schedule="linear", epochs=1, order="window").fit(X, Y)
    assert_allclose(advised.partial_fit(X, Y).last_, linear.last_)
    advised.save(tmp_path / "advised")
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
