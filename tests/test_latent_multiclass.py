"""Classes of bags by a latent frame: expectations, rounds, and frames that are found."""

import functools
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import taut
from reference import latent_multiclass_blocks, primal, solve_qp
from taut import LatentMulticlassSVM, MulticlassSVM, Status
from taut.compiled.jit import specialise
from taut.data import write_shards
from taut.errors import InvalidData, NotConverged
from taut.structures import LatentMulticlass, tree_cost
from taut.structures.base import Operations

TIGHT = {"tol": 1e-8, "max_iter": 5000, "random_state": 0}
COST = np.array([[0.0, 0.5, 1.0], [0.5, 0.0, 2.0], [1.0, 0.3, 0.0]])


def planted(seed, n=18, d=5, longest=6, signal=4.0, n_classes=3):
    """Bags of noise, in one frame of which the feature of the class stands out; frames, classes."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % n_classes)
    X = [0.5 * rng.normal(size=(rng.integers(1, longest + 1), d)) for _ in y]
    frames = np.array([rng.integers(len(x)) for x in X])
    for x, z, k in zip(X, frames, y, strict=True):
        x[z, k] += signal
    return X, y, frames


X, y, FRAMES = planted(0)
NAMES = np.array(["left", "right", "up"])[y]


def with_constant(x, bias=1.0):
    return np.column_stack([x, np.full(len(x), bias)])


def joint(model):
    """W as (features and constant) x classes."""
    return np.vstack([model.coef_.T, model.intercept_ / model.intercept_scaling])


def latent_objective(W, X, y, weights, cost=None, bias=1.0):
    """F(W), by its definition."""
    cost = 1.0 - np.eye(W.shape[1]) if cost is None else cost
    value = 0.5 * (W * W).sum()
    for x, k, weight in zip(X, y, weights, strict=True):
        best = (with_constant(x, bias) @ W).max(axis=0)
        value += weight * ((cost[k] + best).max() - best[k])
    return value


def assert_never_rises(rounds):
    objectives, primals = rounds["objective"], rounds["primal"]
    assert (np.diff(objectives) <= 1e-10 * objectives[:-1]).all()
    # The mean of a bag is no frame of it, and yet does not undercut the latent objective.
    assert objectives[0] <= primals[0] * (1 + 1e-10)


@functools.cache
def fitted():
    return LatentMulticlassSVM(C=1.0, random_state=0).fit(X, NAMES)


# Expectations


def expecting(oracles):
    pull, expect, normalise = oracles.pull, oracles.expect, oracles.normalise
    mean_loss, spread, push = oracles.mean_loss, oracles.spread, oracles.push

    def run(space, data, i, w, work, temperature, loss_weight, base, mean, again, spare, added):
        pull(space, i, w, work)
        value = expect(data, i, work, temperature, loss_weight, base, mean)
        for p in range(mean.shape[0]):
            again[p] = 3.0 * mean[p]
        normalise(data, i, again)
        spread(data, i, mean, spare)
        score = 0.0
        for p in range(mean.shape[0]):
            score += spare[p] * work[p]
        push(space, i, spare, mean.shape[0], 0.0, added)
        return value, score, mean_loss(data, i, mean)

    return run


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    temperature=st.floats(-3, 3).map(lambda p: 10.0**p),
    scale=st.sampled_from([0.01, 1.0, 100.0]),
    loss_weight=st.sampled_from([0.0, 1.0]),
    base=st.sampled_from(["none", "some", "zeros"]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
@example(
    seed=1000000, temperature=1.0, scale=100.0, loss_weight=0.0, base="zeros", dtype=np.float64
)
def test_expectations_equal_enumeration(seed, temperature, scale, loss_weight, base, dtype):
    rng = np.random.default_rng(seed)
    structure, length = LatentMulticlass(3, COST, bias=0.5), int(rng.integers(1, 6))
    x = rng.normal(size=(length, 4)).astype(dtype)
    truth = (int(rng.integers(3)), int(rng.integers(length)))
    blocks = structure.encode((x, [0, length]), np.array([truth]))
    W = (scale * rng.normal(size=(5, 3))).astype(dtype)
    features = blocks.features
    size, eps = length * features.stride, np.finfo(dtype).eps
    prior = np.full((length, 3), 1.0)
    if base != "none":
        prior = rng.dirichlet(np.ones(3 * length)).reshape(length, 3)
        prior[rng.random(prior.shape) < (0.7 if base == "zeros" else 0.0)] = 0.0
    padded = np.zeros((length, features.stride), dtype)
    padded[:, :3] = prior
    mean, again = np.full(size, 7.0, dtype), np.empty(size, dtype)
    added, spare = np.zeros(features.size, dtype), np.full(features.n_potentials, 7.0, dtype)
    operations = Operations(*structure.oracles, *features.functions(structure))
    value, score, loss = specialise(expecting, operations)(
        features.view(blocks.data), blocks.data, 0, features.pad(W.ravel()),
        np.empty(blocks.work_size, dtype), temperature, loss_weight,
        np.empty(0, dtype) if base == "none" else padded.ravel(), mean, again, spare, added,
    )  # fmt: skip
    # Scores are of the type of w, and an error of theirs is divided by the temperature.
    rows = with_constant(x.astype(float), 0.5)
    scores, costs = rows @ W.astype(float), np.tile(COST[truth[0]], (length, 1))
    error = 50 * eps * (1.0 + (np.abs(rows) @ np.abs(W)).max())
    least = 1e8 * np.finfo(dtype).tiny  # its logarithm is near -700
    logs = np.log(np.maximum(prior, least)) + (scores + loss_weight * costs) / temperature
    p, found = np.exp(logs - logsumexp(logs)), mean.reshape(length, -1)
    # `expect` multiplies what it exponentiates by the base, and numbers below the normal ones,
    # exp(-708) or exp(-87), are 0 by then. Where the label of highest score has a base of 0, which
    # counts as `least`, the others lose up to that part of it; here logarithms lose nothing.
    lost = 2.0 * np.finfo(dtype).tiny / least if base == "zeros" else 0.0
    atol = error / temperature + 1e3 * eps + lost
    assert_allclose(found[:, :3], p, rtol=0, atol=min(1.0, atol))
    assert not found[:, 3:].any()
    assert_allclose(found.sum(), 1.0, rtol=50 * eps)
    assert_allclose(value, temperature * logsumexp(logs), atol=temperature * atol)
    # Normalising undoes a factor; what is linear in the mean is linear in this one.
    assert_allclose(again, mean, rtol=50 * eps, atol=eps)
    assert_allclose(score, (found[:, :3] * scores).sum(), atol=error)
    assert_allclose(loss, (found[:, :3] * costs).sum(), atol=50 * eps)
    expected = rows.T @ found[:, :3]
    assert_allclose(features.unpad(added), expected.ravel(), atol=100 * eps * np.abs(rows).max())


# Rounds


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    C=st.sampled_from([0.01, 0.3, 10.0]),
    start=st.sampled_from(["mean", "first", "random"]),
    tol=st.sampled_from([1e-1, 1e-3]),
    cost=st.sampled_from([None, COST]),
)
def test_the_objective_never_rises(seed, C, start, tol, cost):
    X, y, _ = planted(seed, n=10, d=3, signal=1.0)
    model = LatentMulticlassSVM(
        C=C, start=start, tol=tol, cost=cost, round_tol=0.0, max_rounds=50, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)  # random problems may be slow ones
        model.fit(X, y)
    assert_never_rises(model.rounds_)
    value = latent_objective(joint(model), X, y, np.full(10, C), cost)
    assert_allclose(model.rounds_["objective"][-1], value, rtol=1e-10)
    assert model.rounds_["changed"][-1] == 0


@pytest.mark.parametrize("start", ["mean", "first", "random"])
def test_it_ends_at_a_fixed_point(start):
    model = LatentMulticlassSVM(C=2.0, start=start, cost=COST, round_tol=0.0, **TIGHT).fit(X, y)
    assert model.certificate_.status is Status.CONVERGED
    assert model.rounds_["changed"][-1] == 0
    best = [int((with_constant(x) @ joint(model))[:, k].argmax()) for x, k in zip(X, y)]
    assert_array_equal(model.latent_, best)
    # The certificate is that of the convex problem with these frames.
    psi, losses = latent_multiclass_blocks(X, np.column_stack([y, best]), 3, COST, 1.0)
    weights = np.full(len(y), 2.0)
    assert_allclose(model.certificate_.primal, solve_qp(psi, losses, weights)[0], rtol=1e-6)
    assert_allclose(
        model.certificate_.primal, primal(joint(model).ravel(), psi, losses, weights), rtol=1e-10
    )
    assert_allclose(model.certificate_.primal, model.rounds_["objective"][-1])


@pytest.mark.parametrize("cost", [None, COST])
def test_expectations_inside_do_the_same(cost):
    options = {"C": 0.1, "cost": cost, "tol": 1e-2, "max_iter": 5000, "random_state": 0}
    models = [
        LatentMulticlassSVM(solver=solver, **options).fit(X, y)
        for solver in ("dual_coordinate", "partial_linearization")
    ]
    for model in models:
        assert_never_rises(model.rounds_)
        assert model.certificate_.status is Status.CONVERGED
    # The first round is the same convex problem: no primal lies below the other's dual.
    primals, duals = ([model.rounds_[bound][0] for model in models] for bound in ("primal", "dual"))
    assert max(duals) <= min(primals) <= max(primals) <= max(duals) / (1.0 - 1e-2)


def test_the_frames_that_were_planted_are_found():
    X, y, frames = planted(1, n=60)
    model = LatentMulticlassSVM(C=1.0, random_state=0).fit(X[:40], y[:40])
    assert np.mean(model.latent_ == frames[:40]) >= 0.95
    assert model.score(X[40:], y[40:]) >= 0.9
    assert np.mean(model.predict_latent(X[40:]) == frames[40:]) >= 0.9


@pytest.mark.parametrize("start", ["mean", "first", "random"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}])
def test_bags_of_one_are_rows(start, class_weight):
    rng = np.random.default_rng(2)
    rows, labels = rng.normal(size=(20, 3)), rng.integers(3, size=20)
    weight = rng.uniform(0.5, 2.0, size=20)
    settings = {"C": 0.7, "class_weight": class_weight, "cost": COST, **TIGHT}
    plain = MulticlassSVM(intercept_scaling=2.0, **settings).fit(rows, labels, weight)
    bags = LatentMulticlassSVM(start=start, intercept_scaling=2.0, **settings)
    bags.fit([x[None] for x in rows], labels, weight)
    assert len(bags.rounds_) == 1
    assert_allclose(bags.rounds_["objective"], plain.certificate_.primal, rtol=1e-7)
    assert_allclose(bags.coef_, plain.coef_, atol=1e-4)
    assert_allclose(bags.decision_function(rows), plain.decision_function(rows), atol=1e-3)
    assert bags.score(rows, labels) == plain.score(rows, labels)


def test_forms_of_bags_give_one_model():
    lengths = [len(x) for x in X]
    for stacked in (np.vstack(X), sp.csr_array(np.vstack(X))):
        model = LatentMulticlassSVM(C=1.0, random_state=0).fit(stacked, NAMES, lengths=lengths)
        assert_allclose(model.coef_, fitted().coef_, atol=1e-10)
        assert_array_equal(model.latent_, fitted().latent_)
        predicted = model.predict_latent(stacked, lengths=lengths)
        assert_array_equal(predicted, fitted().predict_latent(X))
        assert model.score(stacked, NAMES, lengths=lengths) == fitted().score(X, NAMES)


def test_decisions_are_those_of_the_best_frame():
    model = fitted()
    scores = [x @ model.coef_.T + model.intercept_ for x in X]
    best = np.array([s.max(axis=0) for s in scores])
    assert_allclose(model.decision_function(X), best)
    assert_array_equal(model.predict(X), model.classes_[best.argmax(axis=1)])
    frames = [s[:, k].argmax() for s, k in zip(scores, best.argmax(axis=1), strict=True)]
    assert_array_equal(model.predict_latent(X), frames)
    assert model.coef_.shape == (3, 5)
    assert model.classes_.tolist() == ["left", "right", "up"]
    assert model.latent_.shape == (len(X),)


def test_two_classes_have_one_decision():
    X, y, _ = planted(3, n_classes=2)
    labels = [("no", 0), ("yes", 1)]
    model = LatentMulticlassSVM(random_state=0).fit(X, [labels[k] for k in y])
    assert model.decision_function(X).shape == (len(X),)
    second = model.decision_function(X) > 0.0
    assert model.predict(X).tolist() == [labels[k] for k in second.astype(int)]


@pytest.mark.long
def test_single_precision_has_true_values():
    single = [x.astype(np.float32) for x in X]
    model = LatentMulticlassSVM(random_state=0).fit(single, y)
    value = latent_objective(joint(model), [x.astype(float) for x in single], y, np.ones(len(y)))
    assert_allclose(model.rounds_["objective"][-1], value, rtol=1e-6)
    assert model.decision_function(single).dtype == np.float32


@pytest.mark.parametrize("start", ["mean", "first", "random"])
def test_bags_from_shards(start, tmp_path):
    data = write_shards(tmp_path / "set", X, NAMES, chunk_size=500)
    options = {"C": 0.1, "start": start, **TIGHT}
    expected = LatentMulticlassSVM(**options).fit(X, NAMES)
    model = LatentMulticlassSVM(**options).fit(data)
    # The first round has the truths that the start makes; later ones may take other ways.
    assert_allclose(model.rounds_["dual"][0], expected.rounds_["dual"][0], rtol=1e-6)
    assert_never_rises(model.rounds_)
    value = latent_objective(joint(model), X, y, np.full(len(y), 0.1))
    assert_allclose(model.rounds_["objective"][-1], value, rtol=1e-10)


def test_warm_start_is_no_worse_than_the_last_fit():
    model = LatentMulticlassSVM(C=3.0, warm_start=True, random_state=0).fit(X, y)
    before = model.rounds_["objective"][-1]
    assert model.fit(X, y).rounds_["objective"][0] <= before * (1 + 1e-10)


def test_models_come_back_from_files(tmp_path):
    model = clone(fitted()).set_params(cost=COST).fit(X, NAMES)
    model.save(tmp_path / "m")
    again = taut.load(tmp_path / "m")
    assert type(again) is LatentMulticlassSVM
    for name in ("coef_", "intercept_", "classes_", "latent_", "cost"):
        assert_array_equal(getattr(again, name), getattr(model, name))
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.rounds_ == model.rounds_
    assert pickle.loads(pickle.dumps(model)).rounds_ == model.rounds_


def changed(**what):
    return {"X": X, "y": NAMES, "parameters": {}} | what


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (changed(X=[*X[:-1], X[-1][:0]]), r"X\[17\] has zero length; drop it"),
        (changed(y=NAMES[:-1]), r"X has 18 bags, y has 17 labels: give one label to each"),
        (changed(y=["no"] * 18), r"y needs at least 2 classes, got 1 class: 'no'; add"),
        (changed(y=None), r"LatentMulticlassSVM requires y to be passed"),
        (changed(parameters={"start": "best"}), r"start = 'best': give one of \('mean', 'first'"),
        (changed(parameters={"cost": np.eye(3)}), r"cost\[0, 0\] = 1\.0: the truth must cost 0"),
        (changed(parameters={"cost": COST[:2]}), r"cost has shape \(2, 3\), the 3 classes need"),
        (changed(parameters={"max_rounds": 0}), r"max_rounds = 0: it must be at least 1"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(given, words):
    model = pickle.loads(pickle.dumps(fitted())).set_params(**given["parameters"])
    before = dict(vars(model))
    with pytest.raises(InvalidData, match=words):
        model.fit(given["X"], given["y"])
    assert vars(model) == before


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        ([[0, 2], [1, 0]], r"y\[0, 1\] = 2 is no frame of bag 0, which has 2: count them from 0"),
        ([[0, 0], [1, -1]], r"y\[1, 1\] = -1 is no frame of bag 1"),
        ([[0, 0], [3, 0]], r"y\[1\] = 3 is no label of 0\.\.2"),
        ([0, 1], r"y has shape \(2,\) and dtype int64, X has 2 bags: give a class and a frame"),
        ([[0.0, 1.0], [0.0, 1.0]], r"dtype float64"),
    ],
)
def test_truths_that_are_none_are_refused(pairs, words):
    with pytest.raises(InvalidData, match=words):
        LatentMulticlass(3).encode((np.eye(4), [0, 2, 4]), np.array(pairs))


def test_predictions_need_a_fit_and_its_features():
    for method in ("predict", "decision_function", "predict_latent"):
        with pytest.raises(NotFittedError):
            getattr(LatentMulticlassSVM(), method)(X)
        with pytest.raises(ValueError, match=r"X has 3 features, but LatentMulticlassSVM is expec"):
            getattr(fitted(), method)([x[:, :3] for x in X])


def test_costs_of_a_tree_are_taken():
    cost = tree_cost({"sides": ["left", "right"], "others": ["up"]})
    model = LatentMulticlassSVM(C=2.0, cost=cost, round_tol=0.0, random_state=0).fit(X, NAMES)
    value = latent_objective(joint(model), X, y, np.full(len(y), 2.0), cost)
    assert_allclose(model.rounds_["objective"][-1], value)
