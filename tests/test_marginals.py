"""Marginals equal enumeration at all temperatures; the fitted temperature is the likeliest."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp, softmax

import taut
from cases import STRUCTURES, chain, names
from taut import ChainSVM, MulticlassSVM
from taut.errors import InvalidData, MissingOracle, TemperatureAtBound
from test_m_best import BY_POSITION, WITH_LONG

TEMPERATURES = [1e-3, 0.1, 1.0, 30.0, 1e3]


@pytest.fixture(params=WITH_LONG)
def case(request):
    return BY_POSITION[request.param]


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_marginals_equal_enumeration(case, temperature, rng):
    data, (psi, _losses) = case.problem().data, case.reference
    w = rng.normal(size=data.n_features).astype(data.dtype)
    single = data.dtype is np.float32
    # Errors of scores, divided by the temperature, are relative errors of probabilities.
    atol = (1e-5 if single else 1e-12) * max(1.0, 1.0 / temperature)
    marginals, logs = data.marginals(w, temperature)
    likelihoods = data.log_likelihoods(w, temperature)
    best = data.m_best(w, 1)[1][:, 0]
    assert marginals.dtype == w.dtype
    assert_allclose(marginals.sum(axis=1), 1.0, rtol=1e-6 if single else 1e-14)
    for i, (start, stop) in enumerate(zip(data.blocks.offsets, data.blocks.offsets[1:])):
        leads = -psi[i] @ w.astype(np.float64) / temperature
        chances = softmax(leads)
        for t, found in enumerate(marginals[start:stop]):
            expected = np.bincount(case.labels(i)[:, t], chances, minlength=len(found))
            assert_allclose(found, expected, rtol=0.0, atol=min(atol, 1e-3))
        total = logsumexp(leads)
        assert_allclose(likelihoods[i], -total, rtol=1e-5 if single else 1e-12, atol=atol)
        expected = best[i] / temperature + total - leads.max()
        assert_allclose(logs[i], expected, rtol=1e-5 if single else 1e-12, atol=atol)


@pytest.mark.parametrize("name", ["multiclass-bias", "multiclass-single", "chain-boundary"])
@pytest.mark.parametrize("temperature", [1e-30, 1e-9, 1e9, 1e30])
def test_extreme_temperatures_leave_the_best_or_nothing(name, temperature, rng):
    data = STRUCTURES[name].problem().data
    w = rng.normal(size=data.n_features).astype(data.dtype)
    marginals, _logs = data.marginals(w, temperature)
    best = np.eye(data.blocks.n_labels)[data.labels(w)]
    expected = best if temperature < 1.0 else 1.0 / data.blocks.n_labels
    assert_allclose(marginals, np.broadcast_to(expected, marginals.shape), atol=1e-5)


def test_threads_change_nothing(rng):
    data = chain().problem().data
    w = rng.normal(size=data.n_features)
    for one, three in zip(data.marginals(w, 0.5), data.marginals(w, 0.5, n_jobs=3), strict=True):
        assert_array_equal(one, three)
    likelihoods = [data.log_likelihoods(w, 0.5, n_jobs) for n_jobs in (1, 3)]
    assert_array_equal(*likelihoods)


@pytest.mark.parametrize("name", ["scalar", "multiclass-slack-bias", "tags-compiled"])
def test_structures_without_expectations_are_named(name):
    data = STRUCTURES[name].problem().data
    for call in (data.marginals, data.log_likelihoods):
        with pytest.raises(MissingOracle, match="has no expect, which probabilities of labels"):
            call(np.zeros(data.n_features), 1.0)


# Estimators.


def sequences(n, rng):
    return rng.normal(size=(3 * n, 2)), np.full(n, 3)


def drawn(model, X, temperature, rng, **layout):
    """Labels from the distribution of a model, all of whose labels are enumerated."""
    labels, scores = model.predict_top(X, 1000, **layout)
    choices = [rng.choice(len(s), p=softmax(s / temperature)) for s in scores]
    return np.concatenate([np.atleast_1d(a[c]) for a, c in zip(labels, choices, strict=True)])


def learnable(X, rng):
    noisy = X[:, 0] + 0.3 * rng.normal(size=len(X))
    return np.array(["a", "b", "c"])[np.digitize(noisy, [-0.5, 0.5])]


@pytest.fixture(scope="module")
def multiclass_model():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 4))
    return MulticlassSVM(C=1.0, random_state=0).fit(X, learnable(X, rng))


@pytest.fixture(scope="module")
def chain_model():
    rng = np.random.default_rng(6)
    X, lengths = sequences(20, rng)
    model = ChainSVM(C=1.0, boundary=True, random_state=0)
    return model.fit(X, learnable(X, rng), lengths=lengths)


EXAMPLES = ["multiclass", "chain"]


@pytest.fixture(params=EXAMPLES)
def example(request, multiclass_model, chain_model, rng):
    """A fitted model, some data of its kind, and what they take besides."""
    if request.param == "multiclass":
        return multiclass_model, rng.normal(size=(3000, 4)), {}
    X, lengths = sequences(2000, rng)
    return chain_model, X, {"lengths": lengths}


@pytest.mark.parametrize("temperature", [0.05, 0.7])
def test_the_temperature_of_drawn_labels_is_recovered(example, temperature, rng):
    model, X, layout = example
    y = drawn(model, X, temperature, rng, **layout)
    assert model.fit_temperature(X, y, **layout) is model
    assert model.temperature_ == pytest.approx(temperature, rel=0.1)
    data, w = model._bound(X, y, **layout)
    at, below, above = (
        data.log_likelihoods(w, factor * model.temperature_).sum() for factor in (1.0, 0.99, 1.01)
    )
    assert at > max(below, above)
    weights = np.zeros(data.n_blocks)
    weights[:100] = 1.0
    assert model.fit_temperature(X, y, weights, **layout).temperature_ != pytest.approx(temperature)


def test_marginals_at_the_fitted_temperature_are_as_frequent(example, rng):
    model, X, layout = example
    y = drawn(model, X, 0.5, rng, **layout)
    marginals = model.fit_temperature(X, y, **layout).predict_marginals(X, **layout)
    assert marginals.shape == (len(X), 3)
    for k, label in enumerate(model.classes_):
        sure = marginals[:, k] > 0.6
        assert np.mean(y[sure] == label) == pytest.approx(marginals[sure, k].mean(), abs=0.05)


def test_a_temperature_at_a_bound_is_told(example):
    model, X, layout = example
    right = model.predict(X, **layout)
    with pytest.warns(TemperatureAtBound, match=r"rises at temperature = 0\.001, .* no mistakes"):
        model.fit_temperature(X, right, **layout)
    assert model.temperature_ == 1e-3
    wrong = np.roll(model.classes_, 1)[np.searchsorted(model.classes_, right)]
    with pytest.warns(TemperatureAtBound, match=r"rises at temperature = 1000, .* hardly tell"):
        model.fit_temperature(X, wrong, **layout)
    assert model.temperature_ == 1e3


@pytest.mark.parametrize("example", names(EXAMPLES, long=["chain"]), indirect=True)
def test_single_precision_gives_the_same_marginals(example):
    model, X, layout = example
    double = model.predict_marginals(X, 0.3, **layout)
    single = model.predict_marginals(X.astype(np.float32), 0.3, **layout)
    assert single.dtype == np.float32
    assert_allclose(single, double, atol=1e-4)
    labels, scores = model.predict_top(X[:30].astype(np.float32), 2, **_first(layout, 10))
    assert_allclose(
        np.array(scores), model.predict_top(X[:30], 2, **_first(layout, 10))[1], atol=1e-4
    )
    assert len(labels) == len(scores)


def _first(layout, n):
    return {name: values[:n] for name, values in layout.items()}


def test_lists_are_as_stacked_sequences(chain_model, rng):
    X, lengths = sequences(4, rng)
    X = sp.csr_array(X)
    parts = [X[3 * i : 3 * i + 3] for i in range(4)]
    y = drawn(chain_model, X, 0.1, rng, lengths=lengths)
    stacked = chain_model.fit_temperature(X, y, lengths=lengths).temperature_
    in_parts = chain_model.fit_temperature(parts, np.split(y, 4)).temperature_
    assert stacked == in_parts
    marginals = chain_model.predict_marginals(parts)
    assert [part.shape for part in marginals] == [(3, 3)] * 4
    assert_array_equal(np.vstack(marginals), chain_model.predict_marginals(X, lengths=lengths))
    for listed, other in zip(
        chain_model.predict_top(parts, 2),
        chain_model.predict_top(X, 2, lengths=lengths),
        strict=True,
    ):
        assert_array_equal(np.array(listed), np.array(other))


def test_the_best_labels_of_chains_have_their_scores(chain_model, rng):
    model, x = chain_model, rng.normal(size=(4, 2))
    (labels,), (scores,) = model.predict_top([x], 7)
    assert labels.shape == (7, 4)
    assert_array_equal(labels[0], model.predict([x])[0])
    for label, score in zip(labels, scores, strict=True):
        codes = np.searchsorted(model.classes_, label)
        pairs = model.transition_[codes[:-1], codes[1:]].sum()
        ends = model.start_[codes[0]] + model.end_[codes[-1]]
        assert score == pytest.approx((model.coef_[codes] * x).sum() + pairs + ends)
    assert (np.diff(scores) <= 1e-12).all()


def test_short_sequences_have_fewer_labels(chain_model):
    labels, scores = chain_model.predict_top([np.ones((1, 2)), np.ones((2, 2))], 5)
    assert [part.shape for part in labels] == [(3, 1), (5, 2)]
    assert [part.shape for part in scores] == [(3,), (5,)]


def test_the_best_classes_of_rows_are_sorted_scores(multiclass_model, rng):
    X = rng.normal(size=(20, 4))
    labels, scores = multiclass_model.predict_top(X, 2)
    expected = multiclass_model.decision_function(X)
    order = np.argsort(-expected, axis=1)[:, :2]
    assert_array_equal(labels, multiclass_model.classes_[order])
    assert_allclose(scores, np.take_along_axis(expected, order, axis=1))
    assert multiclass_model.predict_top(X)[0].shape == (20, 3)


def test_parameters_changed_after_the_fit_change_no_scores(rng):
    X, y = rng.normal(size=(20, 4)), rng.integers(3, size=20)
    model = MulticlassSVM(random_state=0, intercept_scaling=2.0, cost=1.0 - np.eye(3)).fit(X, y)
    before = model.predict_top(X)[1]
    model.set_params(fit_intercept=False, rescaling="slack")
    assert_array_equal(model.predict_top(X)[1], before)


def test_a_fitted_temperature_is_saved_and_forgotten_by_the_next_fit(example, rng, tmp_path):
    model, X, layout = example
    X, layout = X[:300], _first(layout, 100)
    y = drawn(model, X, 0.5, rng, **layout)
    model.fit_temperature(X, y, **layout).save(tmp_path / "m.taut")
    again = taut.load(tmp_path / "m.taut")
    assert again.temperature_ == model.temperature_
    assert_array_equal(again.predict_marginals(X, **layout), model.predict_marginals(X, **layout))
    again.fit(X, y, **layout)
    with pytest.raises(InvalidData, match=r"none has been fitted since the last fit: call fit"):
        again.predict_marginals(X, **layout)


@pytest.mark.parametrize("temperature", [0, 0.0, -1.0, np.inf, np.nan, None, [1.0], "cold"])
def test_what_is_no_temperature_is_refused(multiclass_model, temperature):
    with pytest.raises(InvalidData, match=r"temperature = .*: give .*positive"):
        multiclass_model.predict_marginals(np.ones((1, 4)), temperature)


def test_what_does_not_fit_is_refused(multiclass_model, chain_model):
    X = np.ones((2, 4))
    with pytest.raises(InvalidData, match=r"y\[1\] = 'd'"):
        multiclass_model.fit_temperature(X, ["a", "d"])
    with pytest.raises(InvalidData, match=r"'d'"):
        chain_model.fit_temperature([np.ones((2, 2))], [["a", "d"]])
    with pytest.raises(InvalidData, match=r"sample_weight has shape \(3,\), expected \(2,\)"):
        multiclass_model.fit_temperature(X, ["a", "b"], [1, 2, 3])
    with pytest.raises(InvalidData, match=r"k = 0: give the number of wanted labels"):
        multiclass_model.predict_top(X, 0)
    with pytest.raises(InvalidData, match=r"k = 2\.5"):
        chain_model.predict_top([np.ones((2, 2))], 2.5)
    with pytest.raises(TypeError, match="lengths"):
        multiclass_model.predict_top(X, 2, lengths=[2])
    with pytest.raises(ValueError, match="expecting 4 features"):
        multiclass_model.predict_marginals(np.ones((1, 3)), 1.0)
