"""Probabilities of classes: when they are there, what they are, and what they leave as it is."""

import copy
import signal

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss

import taut
from taut import BinarySVM, ChainSVM, LatentSVM, MulticlassSVM, Status
from taut.data import Stream
from taut.data.labels import hold_out
from taut.errors import InvalidData, NotConverged

_rng = np.random.default_rng(3)
X = _rng.normal(size=(240, 3))
SCORES = np.column_stack([X[:, 0], X[:, 1], 0.2 * X[:, 2]]) + 0.8 * _rng.normal(size=(240, 3))
Y = {
    "binary": np.array(["no", "yes"])[(SCORES[:, 0] > 0).astype(int)],
    "multiclass": np.array(["ant", "bee", "cat"])[SCORES.argmax(axis=1)],
}
MODELS = {
    "binary": BinarySVM(C=0.5, random_state=0),
    "multiclass": MulticlassSVM(C=0.5, random_state=0),
}
TRAIN, TEST = slice(0, 160), slice(160, None)
METHODS = ("predict_proba", "predict_log_proba")


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


def new(name, **parameters):
    return clone(MODELS[name]).set_params(**parameters)


def fitted(name, **parameters):
    return new(name, **parameters).fit(X[TRAIN], Y[name][TRAIN])


@pytest.mark.parametrize("method", METHODS)
def test_there_are_none_before_a_temperature_is_known(name, method):
    for model in (new(name), new(name, calibrate=0.2), fitted(name)):
        assert not hasattr(model, method)
        words = rf"has no {method} before a temperature is known: call fit_temperature.*calibrate"
        with pytest.raises(AttributeError, match=words):
            getattr(model, method)
    model.fit_temperature(X[TEST], Y[name][TEST])
    assert hasattr(model, method)
    model.fit(X[TRAIN], Y[name][TRAIN])
    assert not hasattr(model, method)
    assert not hasattr(LatentSVM(), method)


def test_they_are_what_the_scores_say(name):
    model = fitted(name).fit_temperature(X[TEST], Y[name][TEST])
    found = model.predict_proba(X)
    scores = model.decision_function(X) / model.temperature_
    if name == "binary":
        expected = np.column_stack([expit(-scores), expit(scores)])
    else:
        expected = softmax(scores, axis=1)
    assert_allclose(found, expected, atol=1e-12)
    assert_allclose(found.sum(axis=1), 1.0)
    assert_allclose(found, model.predict_marginals(X))
    assert_allclose(np.exp(model.predict_log_proba(X)), found)
    assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X))
    assert log_loss(Y[name][TEST], found[TEST]) < log_loss(
        Y[name][TEST], np.full_like(found[TEST], 1.0 / found.shape[1])
    )


def test_logarithms_are_finite_where_probabilities_are_zero(name):
    model = fitted(name).fit_temperature(X[TEST], Y[name][TEST])
    far = 1e5 * X[:4]
    assert (model.predict_proba(far) == 0.0).any()
    assert np.isfinite(model.predict_log_proba(far)).all()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_two_classes_have_the_temperature_of_their_lead(form):
    """A binary model and one of two classes with the same lead have the same probabilities."""
    binary = fitted("binary").fit_temperature(form(X[TEST]), Y["binary"][TEST])
    other = MulticlassSVM(random_state=0).fit(X[TRAIN], Y["binary"][TRAIN])
    lead = binary.coef_[0]
    other.coef_, other.intercept_ = np.array([-lead, lead]) / 2, binary.intercept_ * [-0.5, 0.5]
    other.fit_temperature(form(X[TEST]), Y["binary"][TEST])
    assert_allclose(other.temperature_, binary.temperature_, rtol=1e-5)
    assert_allclose(other.predict_proba(X), binary.predict_proba(X), rtol=1e-4)


def test_the_best_classes_of_two():
    model = fitted("binary")
    labels, scores = model.predict_top(X[:5], 2)
    assert_array_equal(labels[:, 0], model.predict(X[:5]))
    assert_allclose(scores.max(axis=1) + scores.min(axis=1), model.decision_function(X[:5]))


# calibrate


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_calibrating_changes_neither_weights_nor_certificate(name, form):
    rows, weight = form(X), _rng.uniform(0.5, 2.0, size=len(X))
    plain = new(name, class_weight="balanced").fit(rows, Y[name], weight)
    model = new(name, class_weight="balanced", calibrate=0.25).fit(rows, Y[name], weight)
    assert_array_equal(model.coef_, plain.coef_)
    assert_array_equal(model.intercept_, plain.intercept_)
    assert model.certificate_.primal == plain.certificate_.primal
    # The temperature is that of a model of the other rows, by hand:
    held = hold_out(np.unique(Y[name], return_inverse=True)[1], 0.25, np.random.default_rng(0))
    assert 0.2 < held.mean() < 0.3
    factors = len(X) / _class_sums(name, weight)
    part = new(name).fit(rows[~held], Y[name][~held], (weight * factors)[~held])
    temperature = part.fit_temperature(rows[held], Y[name][held], weight[held]).temperature_
    assert_allclose(model.temperature_, temperature, rtol=0.1)


def _class_sums(name, weight):
    """For each row the summed weight of its class, scaled as class_weight="balanced" does it."""
    classes, codes = np.unique(Y[name], return_inverse=True)
    sums = np.bincount(codes, weight)
    return (len(X) / weight.sum()) * len(classes) * sums[codes]


def test_rows_without_weight_are_not_held_out(name):
    weight = np.zeros(len(X))
    weight[: len(X) // 4] = 1.0
    model = new(name, calibrate=0.25).fit(X, Y[name], weight)
    part = new(name, calibrate=0.25).fit(X[weight > 0], Y[name][weight > 0])
    assert_allclose(model.temperature_, part.temperature_, rtol=0.2)


def test_margins_are_held_out_with_their_rows():
    margin = _rng.uniform(0.5, 1.5, size=len(X))
    model = new("binary", calibrate=0.25).fit(X, Y["binary"], margin=margin)
    assert model.temperature_ > 0.0


def test_held_out_probabilities_are_as_good_as_those_of_fresh_rows(name):
    model = fitted(name, calibrate=0.3)
    by_hand = copy.copy(model).fit_temperature(X[TEST], Y[name][TEST])
    losses = [log_loss(Y[name][TEST], each.predict_proba(X[TEST])) for each in (model, by_hand)]
    assert losses[0] < losses[1] + 0.05


def test_a_few_rows_without_a_mistake_leave_doubts(name):
    """As many as there is evidence for: (n + 1) / (n + 2) is what n right answers are worth."""
    rows = np.repeat(np.eye(3), 20, axis=0)
    y = np.repeat(np.unique(Y[name]), 20) if name == "multiclass" else rows[:, 0] > 0
    sure = new(name, calibrate=0.2).fit(rows, y).predict_proba(rows).max(axis=1)
    assert (sure < 0.99).all()
    assert (sure > 0.85).all()


@pytest.mark.parametrize("source", [np.random.RandomState, np.random.default_rng])
def test_weights_are_the_same_with_and_without(name, source):
    plain, calibrated = (
        fitted(name, calibrate=share, random_state=source(0), tol=0.1) for share in (None, 0.2)
    )
    assert_array_equal(calibrated.coef_, plain.coef_)


def test_a_class_of_one_row_stays_in_training():
    y = Y["multiclass"].copy()
    y[0] = "rare"
    model = MulticlassSVM(C=0.5, calibrate=0.2, random_state=0).fit(X, y)
    assert model.predict_proba(X).shape == (len(X), 4)


def test_saved_and_loaded(name, tmp_path):
    model = fitted(name, calibrate=0.3)
    model.save(tmp_path / "m.taut")
    again = taut.load(tmp_path / "m.taut")
    assert again.calibrate == 0.3
    assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_frames_have_no_say_in_what_is_held_out(name):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("abc"))
    model = new(name, calibrate=0.3).fit(frame, Y[name])
    assert (
        model.fit(frame, Y[name]).temperature_
        == new(name, calibrate=0.3).fit(X, Y[name]).temperature_
    )
    assert_array_equal(model.feature_names_in_, list("abc"))


def test_an_interrupted_fit_has_none():
    def interrupt(record):
        signal.raise_signal(signal.SIGINT)

    model = new("binary", calibrate=0.3, callbacks=[interrupt], tol=0.0)
    with pytest.warns(NotConverged, match="Interrupted"):
        model.fit(X, Y["binary"])
    assert model.certificate_.status is Status.INTERRUPTED
    assert not hasattr(model, "predict_proba")


def test_limits_are_told_once(name):
    with pytest.warns(NotConverged) as told:
        new(name, calibrate=0.3, max_iter=1, tol=0.0).fit(X, Y[name])
    assert len(told) == 1


def test_models_of_a_path_have_none_but_the_chosen_one_has():
    walked = taut.path(new("binary", calibrate=0.3), X, Y["binary"], 0.1, 1.0, gap=0.1)
    assert not hasattr(walked.at(0.5), "predict_proba")
    walked = taut.path(fitted("binary", calibrate=0.3), X, Y["binary"], 0.1, 1.0, gap=0.1)
    assert not hasattr(walked.at(0.5), "predict_proba")
    search = taut.path_cv(
        new("binary", calibrate=0.3), X, Y["binary"], 0.1, 1.0, gap=0.1, cv=2, n_points=2,
        verbose=0,
    )  # fmt: skip
    assert hasattr(search.best_estimator_, "predict_proba")


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, 2, True, "a", np.nan, [0.2]])
def test_what_is_no_share_is_refused(name, share):
    with pytest.raises(InvalidData, match=r"calibrate = .*: give the share of rows"):
        new(name, calibrate=share).fit(X, Y[name])


def test_too_few_rows_are_refused():
    with pytest.raises(InvalidData, match=r"calibrate = 0\.1 holds out none of 4 rows.*give a lar"):
        BinarySVM(calibrate=0.1).fit(X[:4], [0, 0, 1, 1])


def test_parts_have_no_rows_to_hold_out(name):
    words = r"calibrate = 0\.2 holds out rows in memory.*call fit_temperature"
    with pytest.raises(InvalidData, match=words):
        new(name, calibrate=0.2).fit(Stream([(X, Y[name])]))
    with pytest.raises(InvalidData, match=words):
        new(name, calibrate=0.2).partial_fit(X, Y[name])


def test_unfitted_models_say_so(name):
    with pytest.raises(NotFittedError):
        new(name).fit_temperature(X, Y[name])
    with pytest.raises(NotFittedError):
        new(name).predict_marginals(X)
    with pytest.raises(NotFittedError):
        ChainSVM().predict_marginals([X])
