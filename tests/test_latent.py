"""Latent variables: the objective never rises, where it ends, and what is said of it."""

import dataclasses
import functools
import pickle
import signal
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

import taut
from own_structures import Tags
from reference import bags_blocks, primal, solve_qp
from taut import (
    BinarySVM,
    Checkpoint,
    LatentStructure,
    LatentStructuredSVM,
    LatentSVM,
    Record,
    Status,
    StructuredSVM,
    check_structure,
)
from taut.errors import InvalidData, InvalidFile, NotConverged
from taut.latent.alternation import LatentProblem, alternate
from taut.structures import Bags
from taut.structures.bags import best_instances, first_bags

TIGHT = {"tol": 1e-8, "max_iter": 5000, "random_state": 0}


def random_bags(seed, n=16, d=4, longest=5):
    """Bags, the positive ones with an instance that leans to one side, and their labels."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % 2)
    X = [rng.normal(size=(rng.integers(1, longest + 1), d)) for _ in y]
    for x, label in zip(X, y, strict=True):
        x[rng.integers(len(x)), 0] += 2.0 * label
    return X, y


X, y = random_bags(0)
NAMES = np.array(["no", "yes"])[y]
FORMS = {
    "list": (list, {}),
    "sparse": (lambda X: [sp.csr_array(x) for x in X], {}),
    "stacked": (np.vstack, {"lengths": [len(x) for x in X]}),
    "stacked sparse": (lambda X: sp.csr_matrix(np.vstack(X)), {"lengths": [len(x) for x in X]}),
}


def joint(model):
    """The weights of features and constant."""
    return np.append(model.coef_[0], model.intercept_ / model.intercept_scaling)


def with_constant(x, bias=1.0):
    return np.column_stack([x, np.full(len(x), bias)])


def latent_objective(w, X, y, weights, bias=1.0):
    """F(w), by its definition."""
    value = 0.5 * w @ w
    for x, label, weight in zip(X, y, weights, strict=True):
        value += weight * max(0.0, 1.0 - (2 * label - 1) * (with_constant(x, bias) @ w).max())
    return value


def assert_never_rises(rounds):
    objectives = rounds["objective"]
    assert (np.diff(objectives) <= 1e-10 * objectives[:-1]).all()
    accepted = rounds["primal"][1:] <= objectives[:-1] * (1 + 1e-10)
    assert accepted[:-1].all()
    # What a round certifies is above the latent objective that it leads to.
    assert (objectives[1:][accepted] <= rounds["primal"][1:][accepted] * (1 + 1e-10)).all()


@functools.cache
def fitted():
    return LatentSVM(C=1.0, random_state=0).fit(X, NAMES)


# Bags


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    C=st.sampled_from([0.01, 0.3, 10.0]),
    start=st.sampled_from(["mean", "first", "random"]),
    tol=st.sampled_from([1e-1, 1e-3]),
)
def test_the_objective_never_rises(seed, C, start, tol):
    X, y = random_bags(seed, n=10, d=3)
    rounds = {"round_tol": 0.0, "max_rounds": 50, "max_iter": 20_000}
    model = LatentSVM(C=C, start=start, tol=tol, random_state=0, **rounds).fit(X, y)
    assert_never_rises(model.rounds_)
    value = latent_objective(joint(model), X, y, np.full(10, C))
    assert_allclose(model.rounds_["objective"][-1], value, rtol=1e-10)
    assert model.rounds_["changed"][-1] == 0


def test_every_objective_is_that_of_its_round():
    weight = np.random.default_rng(1).uniform(0.2, 2.0, len(y))
    values = []
    for rounds in range(1, 6):
        model = LatentSVM(C=3.0, max_rounds=rounds, round_tol=0.0, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotConverged)
            model.fit(X, y, weight)
        values.append(latent_objective(joint(model), X, y, 3.0 * weight))
        assert_allclose(model.rounds_["objective"], values[: len(model.rounds_)])


@pytest.mark.parametrize("start", ["mean", "first", "random"])
def test_it_ends_at_a_fixed_point(start):
    model = LatentSVM(C=2.0, start=start, round_tol=0.0, **TIGHT).fit(X, y)
    assert model.certificate_.status is Status.CONVERGED
    assert model.rounds_["changed"][-1] == 0
    positive = [x for x, label in zip(X, y, strict=True) if label]
    best = [int(np.argmax(with_constant(x) @ joint(model))) for x in positive]
    assert_array_equal(model.latent_, best)
    assert_array_equal(model.predict_latent(positive), best)
    # The certificate is that of the convex problem with these instances.
    chosen = np.full(len(y), -1)
    chosen[y == 1] = best
    psi, losses = bags_blocks(X, chosen, 1.0)
    weights = np.full(len(y), 2.0)
    assert_allclose(model.certificate_.primal, solve_qp(psi, losses, weights)[0], rtol=1e-6)
    assert_allclose(model.certificate_.primal, primal(joint(model), psi, losses, weights))
    assert_allclose(model.certificate_.primal, model.rounds_["objective"][-1])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("start", ["mean", "first", "random"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 2.0}])
def test_bags_of_one_are_rows(start, form, class_weight):
    rng = np.random.default_rng(2)
    rows, labels = rng.normal(size=(20, 3)), rng.integers(2, size=20)
    weight = rng.uniform(0.5, 2.0, size=20)
    settings = {"C": 0.7, "class_weight": class_weight, "intercept_scaling": 2.0, **TIGHT}
    plain = BinarySVM(**settings).fit(rows, labels, weight)
    bags = LatentSVM(start=start, **settings).fit([form(x[None]) for x in rows], labels, weight)
    matrix = LatentSVM(start=start, **settings).fit(form(rows), labels, weight)
    for model in (bags, matrix):
        assert len(model.rounds_) == 1
        assert_allclose(model.rounds_["objective"], plain.certificate_.primal, rtol=1e-7)
        assert_allclose(model.coef_, plain.coef_, atol=1e-4)
        assert_allclose(model.intercept_, plain.intercept_, atol=1e-4)
    assert_array_equal(matrix.coef_, bags.coef_)
    assert_array_equal(bags.predict(rows), plain.predict(rows))
    assert bags.score(rows, labels) == plain.score(rows, labels)


def test_without_an_intercept():
    model = LatentSVM(fit_intercept=False, round_tol=0.0, random_state=0).fit(X, y)
    assert model.intercept_ == 0.0
    value = latent_objective(joint(model), X, y, np.ones(len(y)))
    assert_allclose(model.rounds_["objective"][-1], value)


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_bags_give_one_model(form):
    pack, lengths = FORMS[form]
    model = LatentSVM(C=1.0, random_state=0).fit(pack(X), NAMES, **lengths)
    assert_allclose(model.coef_, fitted().coef_, atol=1e-10)
    assert_array_equal(model.latent_, fitted().latent_)
    assert_array_equal(model.predict(pack(X), **lengths), fitted().predict(X))
    assert_array_equal(model.predict_latent(pack(X), **lengths), fitted().predict_latent(X))
    assert model.score(pack(X), NAMES, **lengths) == fitted().score(X, NAMES)


@pytest.mark.long
def test_single_precision_has_true_values():
    model = LatentSVM(random_state=0).fit([x.astype(np.float32) for x in X], y)
    single = [x.astype(np.float32).astype(float) for x in X]
    value = latent_objective(joint(model), single, y, np.ones(len(y)))
    assert_allclose(model.rounds_["objective"][-1], value, rtol=1e-6)
    assert model.decision_function([x.astype(np.float32) for x in X]).dtype == np.float32


def test_decisions_are_those_of_the_best_instance():
    model = fitted()
    scores = [(x @ model.coef_[0] + model.intercept_[0]) for x in X]
    assert_allclose(model.decision_function(X), [s.max() for s in scores])
    assert_array_equal(model.predict_latent(X), [s.argmax() for s in scores])
    assert_array_equal(model.predict(X), np.where([s.max() > 0 for s in scores], "yes", "no"))
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.coef_.shape == (1, 4)
    assert model.n_features_in_ == 4
    assert model.latent_.shape == ((y == 1).sum(),)
    assert model.score(X, NAMES) == np.mean(model.predict(X) == NAMES)


def test_the_first_of_equal_instances_is_the_best():
    best, value = best_instances(np.array([1.0, 3.0, 3.0, 2.0, 2.0]), np.array([0, 3, 5]))
    assert_array_equal(best, [1, 0])
    assert_array_equal(value, [3.0, 2.0])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_the_mean_is_the_last_instance_of_a_positive_bag(form):
    rows, offsets = np.arange(12.0).reshape(6, 2), np.array([0, 2, 3, 6])
    positive = np.array([True, True, False])
    (checked, longer), first = first_bags(form(rows), offsets, positive, "mean", 0)
    expected = np.insert(rows, 2, rows[:2].mean(axis=0), axis=0)
    dense = checked.matrix.toarray() if sp.issparse(checked.matrix) else checked.matrix
    assert_array_equal(dense, expected)
    assert_array_equal(longer, [0, 3, 4, 7])
    assert_array_equal(first, [2, 0, -1])


def test_a_row_without_lengths_is_a_bag():
    model = LatentSVM(random_state=0).fit(np.eye(4), [0, 1, 0, 1])
    assert_array_equal(model.latent_, [0, 0])
    assert model.predict(np.eye(4)).shape == (4,)


# The structural form


class Ordinal(LatentStructure):
    """A class, and one of the rows of x that shows it; the loss is the distance of classes."""

    def __init__(self, n_classes=3, n_places=None):
        self.n_classes, self.n_places = n_classes, n_places

    def labels(self, x):
        places = range(len(x) if self.n_places is None else self.n_places)
        return [(k, z) for k in range(self.n_classes) for z in places]

    def features(self, x, label):
        k, z = label
        out = np.zeros((self.n_classes, x.shape[1]))
        out[k] = x[z]
        return out.ravel()

    def loss(self, truth, label):
        return abs(truth[0] - label[0])

    def argmax(self, x, w, truth=None):
        def value(label):
            return w @ self.features(x, label) + (0 if truth is None else self.loss(truth, label))

        return max(self.labels(x), key=value)

    def complete(self, x, truth, w=None):
        places = [label for label in self.labels(x) if label[0] == truth[0]]
        return places[0] if w is None else max(places, key=lambda p: w @ self.features(x, p))


class OrdinalByFeatures(Ordinal):
    """Labels that are arrays, which do not compare as such."""

    def complete(self, x, truth, w=None):
        return np.array(super().complete(x, truth, w))


def ordinal_data(seed, n=12):
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    X = [rng.normal(size=(rng.integers(1, 4), 3)) for _ in labels]
    for x, label in zip(X, labels, strict=True):
        x[rng.integers(len(x)), label] += 2.0
    return X, [(int(label), None) for label in labels]


def structural_objective(structure, w, X, y, C):
    value = 0.5 * w @ w
    for x, truth in zip(X, y, strict=True):
        scores = {label: w @ structure.features(x, label) for label in structure.labels(x)}
        best = max(score + structure.loss(truth, label) for label, score in scores.items())
        value += C * (best - max(s for label, s in scores.items() if label[0] == truth[0]))
    return value


@pytest.mark.parametrize("structure", [Ordinal(), OrdinalByFeatures()], ids=["pairs", "arrays"])
@pytest.mark.parametrize("seed", range(5))
def test_the_structural_objective_never_rises(structure, seed):
    X, y = ordinal_data(seed)
    model = LatentStructuredSVM(structure, C=0.5, round_tol=0.0, random_state=0).fit(X, y)
    assert_never_rises(model.rounds_)
    value = structural_objective(Ordinal(), model.coef_, X, y, 0.5)
    assert_allclose(model.rounds_["objective"][-1], value)
    assert model.rounds_["changed"][-1] == 0
    completed = model.complete(X, y)
    for x, label in zip(X, completed, strict=True):
        places = [model.coef_ @ structure.features(x, (label[0], z)) for z in range(len(x))]
        assert label[1] == np.argmax(places)
    losses = [structure.loss(a, b) for a, b in zip(y, model.predict(X), strict=True)]
    assert_allclose(model.score(X, y), -np.mean(losses))


def test_a_constant_latent_part_is_none():
    X, y = ordinal_data(0)
    structure = Ordinal(n_places=1)
    plain = StructuredSVM(structure, C=0.5, **TIGHT).fit(X, [(k, 0) for k, _ in y])
    model = LatentStructuredSVM(structure, C=0.5, **TIGHT).fit(X, y)
    assert_array_equal(model.coef_, plain.coef_)
    assert model.rounds_["objective"].tolist() == [plain.certificate_.primal]
    assert model.certificate_.dual == plain.certificate_.dual


def test_a_compiled_structure_is_its_estimator():
    stacked, offsets = np.vstack(X), np.cumsum([0] + [len(x) for x in X])
    truth = np.where(y == 1, 0, -1)
    model = LatentStructuredSVM(Bags(1.0), random_state=0).fit((stacked, offsets), truth)
    same = LatentSVM(start="first", random_state=0).fit(X, y)
    assert_array_equal(model.coef_, joint(same))
    assert_array_equal(model.predict((stacked, offsets)) >= 0, same.predict(X) == 1)
    assert_array_equal(model.complete((stacked, offsets), truth)[y == 1], same.latent_)


def test_latent_structures_keep_the_laws():
    X, y = ordinal_data(0)
    structure = Ordinal()
    y = [structure.complete(x, truth) for x, truth in zip(X, y, strict=True)]
    check_structure(structure, X, y, candidates=structure.labels)


class WrongClass(Ordinal):
    def complete(self, x, truth, w=None):
        return (truth[0] + 1) % 3, 0


class FirstPlace(Ordinal):
    def complete(self, x, truth, w=None):
        return truth[0], 0


@pytest.mark.parametrize(
    ("structure", "words"),
    [
        (
            WrongClass(),
            r"WrongClass\.complete on example 0: it makes \(1, 0\) of .* costs 1;",
        ),
        (
            FirstPlace(),
            r"FirstPlace\.complete on example \d: .* score is \S+, while the truth",
        ),
    ],
)
def test_broken_completions_are_named(structure, words):
    X, y = ordinal_data(0)
    y = [(k, len(x) - 1) for x, (k, _) in zip(X, y, strict=True)]
    with pytest.raises(taut.errors.InvalidStructure, match=words):
        check_structure(structure, X, y, candidates=structure.labels)


# What is said of it


def test_the_certificate_says_what_it_is_about():
    certificate = fitted().certificate_
    assert certificate.of == "the convex problem with the latent values fixed"
    assert "within tol=0.001. The bounds are those of the convex problem" in certificate.message
    assert certificate.relative_gap <= 1e-3
    assert BinarySVM().fit(np.eye(2), [0, 1]).certificate_.of == "the objective"
    assert taut.Certificate.from_dict(certificate.to_dict()) == certificate
    older = {k: v for k, v in certificate.to_dict().items() if k != "of"}
    assert taut.Certificate.from_dict(older).of == "the objective"


def test_rounds_and_passes_are_recorded():
    records = []
    model = LatentSVM(C=3.0, random_state=0, callbacks=[records.append]).fit(X, y)
    rounds, history = model.rounds_, model.history_
    assert len(rounds) > 1
    assert all(isinstance(record, Record) for record in records)
    assert records == history.records
    assert_array_equal(history["iteration"], np.arange(1, len(history) + 1))
    assert (np.diff(history["seconds"]) >= 0).all()
    assert (np.diff(history["oracle_calls"]) >= 0).all()
    assert rounds["passes"].sum() == len(history) == model.n_iter_ == model.certificate_.passes
    assert_array_equal(rounds["number"], np.arange(1, len(rounds) + 1))
    assert (np.diff(rounds["seconds"]) > 0).all()
    assert rounds["seconds"][-1] == model.certificate_.seconds
    assert (rounds["dual"] <= rounds["primal"]).all()
    assert rounds["dual"][-1] == model.certificate_.dual
    assert model.certificate_.oracle_calls > history["oracle_calls"][-1]


def test_too_few_rounds_warn():
    with pytest.warns(NotConverged, match=r"after max_rounds=1 rounds, the last .* raise max_ro"):
        model = LatentSVM(C=3.0, max_rounds=1, random_state=0).fit(X, y)
    assert model.certificate_.status is Status.MAX_ROUNDS
    assert model.rounds_["changed"][0] > 0


def test_too_few_passes_warn():
    with pytest.warns(NotConverged, match=r"max_iter=2 passes .* or tol\. The bounds are"):
        model = LatentSVM(C=3.0, tol=1e-9, max_iter=2, random_state=0).fit(X, y)
    assert model.certificate_.status is Status.MAX_ITER
    assert_never_rises(model.rounds_)


def test_the_time_is_limited_for_all_rounds_together():
    with pytest.warns(NotConverged, match="raise time_limit"):
        model = LatentSVM(C=3.0, time_limit=1e-9, tol=1e-9, random_state=0).fit(X, y)
    assert model.certificate_.status is Status.TIME_LIMIT
    assert len(model.rounds_) == 1


def test_a_callback_stops_all_rounds():
    last = int(fitted().rounds_["passes"][0]) + 1
    model = LatentSVM(random_state=0, callbacks=[lambda record: record.iteration == last])
    assert model.fit(X, y).certificate_.status is Status.CALLBACK
    assert model.n_iter_ == last
    assert len(model.rounds_) == 2


class Closing:
    closed = 0

    def __call__(self, record):
        assert not self.closed

    def close(self):
        self.closed += 1


def test_callbacks_are_closed_once():
    callback = Closing()
    LatentSVM(C=3.0, random_state=0, callbacks=[callback]).fit(X, y)
    assert callback.closed == 1


def test_an_interrupted_fit_keeps_the_best_and_goes_on():
    whole = LatentSVM(C=3.0, round_tol=0.0, **TIGHT).fit(X, y)
    second = whole.rounds_["passes"][0] + 1

    def interrupt(record):
        if record.iteration == second:
            raise KeyboardInterrupt

    with pytest.warns(NotConverged, match="Interrupted after"):
        model = LatentSVM(C=3.0, round_tol=0.0, **TIGHT, callbacks=[interrupt]).fit(X, y)
    assert model.certificate_.status is Status.INTERRUPTED
    assert len(model.rounds_) == 2
    assert_never_rises(model.rounds_)
    before = model.rounds_["objective"][-1]
    model.set_params(warm_start=True, callbacks=()).fit(X, y)
    assert model.rounds_["objective"][0] <= before * (1 + 1e-10)
    assert model.certificate_.status is Status.CONVERGED


def test_an_interrupt_between_rounds_is_seen(monkeypatch):
    at = LatentProblem.at

    def interrupting(self, w):
        signal.raise_signal(signal.SIGINT)
        return at(self, w)

    monkeypatch.setattr(LatentProblem, "at", interrupting)
    with pytest.warns(NotConverged, match="Interrupted after"):
        model = LatentSVM(C=3.0, round_tol=0.0, random_state=0).fit(X, y)
    assert model.certificate_.status is Status.INTERRUPTED
    assert len(model.rounds_) == 1


# A solver too bad to improve on the last round


def test_a_worse_round_is_not_accepted():
    offsets = np.cumsum([0] + [len(x) for x in X])
    latent = LatentProblem(Bags(1.0), (np.vstack(X), offsets), np.where(y == 1, 0, -1), C=3.0)
    good = alternate(latent, tol=1e-9, round_tol=0.0, random_state=0)
    bad = alternate(latent, tol=0.5, round_tol=0.0, max_iter=1, start=good.w, random_state=0)
    assert_array_equal(bad.w, good.w)
    assert bad.rounds["primal"][0] > bad.rounds["objective"][0]
    assert_allclose(bad.rounds["objective"][0], good.rounds["objective"][-1])
    assert bad.certificate.primal == bad.rounds["objective"][0]
    assert bad.certificate.dual <= bad.certificate.primal
    # What decides is the gap of the weights that are kept.
    reached = bad.certificate.relative_gap
    for tol, status in ((1.01 * reached, Status.CONVERGED), (0.99 * reached, Status.MAX_ITER)):
        again = alternate(latent, tol=tol, max_iter=1, start=good.w, random_state=0)
        assert again.certificate.status is status


# Going on


def test_warm_start_is_no_worse_than_the_last_fit():
    model = LatentSVM(C=3.0, warm_start=True, random_state=0).fit(X, y)
    before, weights = model.rounds_["objective"][-1], joint(model)
    assert_array_equal(model._joint_weights(), weights)
    model.fit(X, y)
    assert model.rounds_["objective"][0] <= before * (1 + 1e-10)
    X2, y2 = random_bags(7)
    model.fit(X2, y2)  # any data of these features
    start = latent_objective(weights, X2, y2, np.full(len(y2), 3.0))
    assert model.rounds_["objective"][0] <= start * (1 + 1e-10)
    with pytest.raises(InvalidData, match=r"start has 5 weights, the data have 4 joint features"):
        model.fit([x[:, :3] for x in X], y)


def test_checkpoint_resumes(tmp_path):
    settings = {"C": 3.0, "start": "first", "round_tol": 0.0, "random_state": 0}
    whole = LatentSVM(**settings).fit(X, y)
    assert len(whole.rounds_) > 2
    keep = Checkpoint(tmp_path / "run", seconds=0.0)
    with pytest.warns(NotConverged):
        LatentSVM(**settings, max_rounds=1, checkpoint=keep).fit(X, y)
    resumed = LatentSVM(**settings, checkpoint=keep).fit(X, y)
    again = LatentSVM(**settings, checkpoint=tmp_path / "run").fit(X, y)
    assert_array_equal(resumed.coef_, whole.coef_)
    assert_array_equal(resumed.rounds_["objective"], whole.rounds_["objective"])
    assert_array_equal(resumed.history_["dual"], whole.history_["dual"])
    assert resumed.certificate_.primal == whole.certificate_.primal
    # The last round is made again: its dual variables are not kept to prove its bound.
    assert len(again.rounds_) == len(whole.rounds_)
    assert_never_rises(again.rounds_)
    closer = LatentSVM(**settings, tol=1e-8, checkpoint=keep).fit(X, y)
    assert closer.certificate_.relative_gap <= 1e-8
    assert_never_rises(closer.rounds_)
    with pytest.raises(InvalidFile, match="another run"):
        LatentSVM(**settings | {"C": 1.0}, checkpoint=keep).fit(X, y)


def test_the_seed_decides():
    first, second = (LatentSVM(start="random", random_state=3).fit(X, y) for _ in range(2))
    assert_array_equal(first.coef_, second.coef_)
    starts = {LatentSVM(start="random", C=3.0, random_state=k).fit(X, y).rounds_["primal"][0]
              for k in range(4)}  # fmt: skip
    assert len(starts) > 1


def test_threads_change_little():
    model = LatentSVM(n_jobs=2, random_state=0).fit(X, NAMES)
    assert_allclose(model.rounds_["objective"][-1], fitted().rounds_["objective"][-1], rtol=1e-2)


@pytest.mark.parametrize("name", ["bags", "structural"])
def test_models_come_back_from_files(name, tmp_path):
    if name == "bags":
        model, data, given = fitted(), X, {}
    else:
        data, labels = ordinal_data(0)
        model, given = LatentStructuredSVM(Ordinal(), random_state=0), {"structure": Ordinal()}
        model.fit(data, labels)
    model.save(tmp_path / "m")
    again = taut.load(tmp_path / "m", **given)
    assert type(again) is type(model)
    for name, value in vars(model).items():
        if isinstance(value, np.ndarray):
            assert_array_equal(getattr(again, name), value)
        elif name != "structure":
            assert getattr(again, name) == value, name
    assert list(again.predict(data)) == list(model.predict(data))
    assert again.rounds_["objective"].tolist() == model.rounds_["objective"].tolist()
    assert pickle.loads(pickle.dumps(model)).rounds_ == model.rounds_


def test_files_of_structural_models_need_the_structure(tmp_path):
    data, labels = ordinal_data(0)
    LatentStructuredSVM(Ordinal(), random_state=0).fit(data, labels).save(tmp_path / "m")
    with pytest.raises(InvalidFile, match=r"weights of a LatentStructuredSVM.*structure=\.\.\."):
        taut.load(tmp_path / "m")


def test_grid_search():
    search = GridSearchCV(LatentSVM(random_state=0), {"C": [0.01, 1.0]}, cv=3).fit(X, y)
    best = clone(search.best_estimator_).fit(X, y)
    assert_array_equal(search.best_estimator_.coef_, best.coef_)


# Bad input


def changed(**what):
    return {"X": X, "y": NAMES, "fit": {}, "parameters": {}} | what


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (changed(X=[*X[:-1], X[-1][:0]]), r"X\[15\] has zero length; drop it"),
        (changed(X=[]), r"X has no sequences; pass at least one"),
        (changed(X=[*X[:-1], X[-1] * np.nan]), r"X contains NaN at sequence 15, row 0, column 0"),
        (changed(X=[*X[:-1], X[-1][:, :2]]), r"X\[15\] has 2 features, X\[0\] has 4; give"),
        (changed(X=np.vstack(X), fit={"lengths": [1, 2]}), r"lengths sum to 3, X has \d+ rows"),
        (changed(X=np.vstack(X)), r"X has \d+ bags, y has 16 labels: give one label to each"),
        (changed(y=NAMES[:-1]), r"X has 16 bags, y has 15 labels: give one label to each"),
        (changed(y=["no"] * 16), r"y needs at least 2 classes, got 1 class: 'no'; add"),
        (changed(y=[*NAMES[:-1], "?"]), r"binary .* by LatentSVM, y has 3 classes"),
        (changed(y=None), r"LatentSVM requires y to be passed"),
        (changed(fit={"sample_weight": [1.0]}), r"shape \(1,\), expected \(16,\); pass one weight"),
        (changed(parameters={"start": "best"}), r"start = 'best': give one of \('mean', 'first'"),
        (changed(parameters={"start": None}), r"start = None: give one of"),
        (changed(parameters={"max_rounds": 0}), r"max_rounds = 0: it must be at least 1"),
        (changed(parameters={"max_rounds": "2"}), r"max_rounds = '2': give a number"),
        (changed(parameters={"round_tol": -1.0}), r"round_tol = -1\.0: it must be 0 or more"),
        (changed(parameters={"round_tol": np.nan}), r"round_tol = nan: give a number"),
        (changed(parameters={"time_limit": 0.0}), r"time_limit = 0\.0: it must be positive"),
        (changed(parameters={"C": 0.0}), r"C = 0\.0: it must be positive"),
        (changed(parameters={"intercept_scaling": 0.0}), r"intercept_scaling = 0\.0: it must"),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(given, words):
    model = pickle.loads(pickle.dumps(fitted())).set_params(**given["parameters"])
    before = dict(vars(model))
    with pytest.raises(InvalidData, match=words):
        model.fit(given["X"], given["y"], **given["fit"])
    assert vars(model) == before


@pytest.mark.parametrize(
    ("structure", "words"),
    [
        (Tags(2), r"has no complete: subclass taut\.LatentStructure, or use StructuredSVM"),
        (taut.structures.Multiclass(2), r"has no complete: subclass taut\.LatentStructure"),
        (Ordinal, r"structure = Ordinal is a class: give an object"),
        (None, r"structure = None has no features and no loss"),
    ],
)
def test_structures_without_a_latent_part_are_refused(structure, words):
    with pytest.raises(InvalidData, match=words):
        LatentStructuredSVM(structure).fit(*ordinal_data(0))


def test_labels_that_do_not_fit_are_refused():
    data, labels = ordinal_data(0)
    with pytest.raises(InvalidData, match="X has 12 examples, y has 11: give one label to each"):
        LatentStructuredSVM(Ordinal()).fit(data, labels[:-1])


@pytest.mark.parametrize(
    ("chosen", "words"),
    [
        ([0, 2], r"y\[1\] = 2 is no instance of bag 1, which has 2: count them from 0"),
        ([0, -2], r"y\[1\] = -2 is no instance"),
        ([0], r"y has shape \(1,\) and dtype int64, X has 2 bags: give each an instance"),
        ([0.0, 1.0], r"dtype float64"),
    ],
)
def test_instances_that_are_none_are_refused(chosen, words):
    with pytest.raises(InvalidData, match=words):
        Bags().encode((np.eye(4), [0, 2, 4]), np.array(chosen))


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_latent"])
def test_predictions_need_a_fit_and_its_features(method):
    with pytest.raises(NotFittedError):
        getattr(LatentSVM(), method)(X)
    with pytest.raises(ValueError, match=r"X has 3 features, but LatentSVM is expecting 4"):
        getattr(fitted(), method)([x[:, :3] for x in X])


def test_rounds_are_shown_as_columns():
    record = dataclasses.asdict(fitted().rounds_.records[0])
    assert set(record) == set(fitted().rounds_.to_dict())
