"""Estimators: the optimum, what attributes mean, certificates, going on, files, scikit-learn."""

import enum
import functools
import itertools
import pickle
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from safetensors.numpy import save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC, LinearSVR

import taut
from cases import long_if
from own_structures import ListedTags, Tags
from reference import (
    binary_blocks,
    chain_blocks,
    multiclass_blocks,
    ndcg_blocks,
    pairwise_blocks,
    primal,
    regression_blocks,
    slack_blocks,
    solve_qp,
)
from taut import (
    BinarySVM,
    ChainSVM,
    Checkpoint,
    MulticlassSVM,
    RankSVM,
    Record,
    RegressionSVM,
    Status,
    StructuredSVM,
)
from taut.errors import InvalidData, InvalidFile, InvalidType, NotConverged
from taut.solvers import DualCoordinate, OnlineCache
from taut.storage import files
from taut.structures import Multiclass, SlackRescaled

TIGHT = {"tol": 1e-9, "max_iter": 5000, "random_state": 0}

# Exact in single precision, so that one reference serves both. All forms of full rows are read as
# dense ones: kernels for sparse rows are those of test_solvers.py and test_sklearn.py.
_rng = np.random.default_rng(5)
ROWS = _rng.normal(size=(15, 3)).astype(np.float32).astype(float)
CODES = np.argmax(ROWS + _rng.normal(size=ROWS.shape), axis=1)
WEIGHT = _rng.uniform(0.2, 2.0, size=15)
WEIGHT[3] = 0.0
COST = np.array([[0.0, 1.0, 3.0], [0.5, 0.0, 1.0], [2.0, 1.0, 0.0]])
TARGETS = ROWS @ [1.0, -2.0, 0.5] + 0.3 * _rng.normal(size=15)
RELEVANCE = _rng.integers(4, size=15).astype(float)
LENGTHS = np.array([1, 3, 2, 4, 3, 2])
SEQUENCES = np.split(ROWS, np.cumsum(LENGTHS)[:-1])
TAGS = [tuple(bits) for bits in _rng.integers(2, size=(15, 3)).tolist()]


def parts(labels):
    """Labels, one list per sequence."""
    ends = np.cumsum(LENGTHS)
    return [list(labels[end - size : end]) for end, size in zip(ends, LENGTHS, strict=True)]


def named(codes, names):
    """Labels by name, whatever they are, in a list."""
    return [names[int(code)] for code in codes]


@dataclass(frozen=True)
class Case:
    """An estimator and data for it; `labels` makes y of names of the classes."""

    model: Any
    X: Any
    labels: Any
    names: tuple = ("ant", "bee", "cat")

    @property
    def y(self):
        return self.labels(self.names)

    def new(self, **parameters):
        return clone(self.model).set_params(**{"random_state": 0} | parameters)

    def fit(self, **parameters):
        return self.new(**parameters).fit(self.X, self.y)


CASES = {
    "binary": Case(BinarySVM(C=0.7), ROWS, lambda names: named(CODES > 0, names)),
    "multiclass": Case(MulticlassSVM(C=0.7), ROWS, lambda names: named(CODES, names)),
    "regression": Case(RegressionSVM(C=0.7, epsilon=0.2), ROWS, lambda names: TARGETS),
    "chain": Case(ChainSVM(C=0.7), SEQUENCES, lambda names: parts(named(CODES, names))),
    "pairwise": Case(RankSVM(C=0.7), SEQUENCES, lambda names: parts(RELEVANCE)),
    "ndcg": Case(RankSVM(C=0.7, loss="ndcg", k=3), SEQUENCES, lambda names: parts(RELEVANCE)),
    "structured": Case(StructuredSVM(Tags(3), C=0.7), ROWS, lambda names: TAGS),
}


@pytest.fixture(params=CASES)
def case(request):
    return CASES[request.param]


@functools.cache
def fitted(name):
    """Fitted once for all tests that only look."""
    return CASES[name].fit()


def joint_weights(model):
    """w in the layout of the reference."""
    if isinstance(model, StructuredSVM | RankSVM):
        return model.coef_
    if isinstance(model, ChainSVM):
        ends = [model.start_, model.end_] if model.boundary else []
        return np.concatenate([model.coef_.T.ravel(), model.transition_.ravel(), *ends])
    W = np.atleast_2d(model.coef_).T
    if model.fit_intercept:
        W = np.vstack([W, model.intercept_ / model.intercept_scaling])
    return W.ravel()


def reference_blocks(model):
    """psi and losses of the problem of a model, which the data above are fitted to."""
    if isinstance(model, BinarySVM):
        bias = model.intercept_scaling if model.fit_intercept else 0.0
        return binary_blocks(ROWS, np.where(CODES > 0, 1, -1), bias)
    if isinstance(model, MulticlassSVM):
        bias = model.intercept_scaling if model.fit_intercept else 0.0
        blocks = multiclass_blocks(ROWS, CODES, 3, model.cost, bias)
        return slack_blocks(*blocks) if model.rescaling == "slack" else blocks
    if isinstance(model, RegressionSVM):
        bias = model.intercept_scaling if model.fit_intercept else 0.0
        return regression_blocks(ROWS, TARGETS, model.epsilon, bias)
    if isinstance(model, RankSVM):
        if model.loss == "pairwise":
            return pairwise_blocks(SEQUENCES, parts(RELEVANCE))
        return ndcg_blocks(SEQUENCES, parts(RELEVANCE), model.k or 4)
    if isinstance(model, ChainSVM):
        share = model.loss == "mean_hamming"
        return chain_blocks(SEQUENCES, parts(CODES), 3, share, model.boundary)
    tags = model.structure
    phi = [np.array([tags.features(x, label) for label in tags.subsets]) for x in ROWS]
    psi = [tags.features(x, y) - p for x, y, p in zip(ROWS, TAGS, phi, strict=True)]
    return psi, [np.array([tags.loss(y, s) for s in tags.subsets], dtype=float) for y in TAGS]


def assert_optimal(model, weight=1.0):
    """The model is the optimum of the reference, as closely as its certificate says."""
    psi, losses = reference_blocks(model)
    weights = model.C * np.broadcast_to(weight, len(psi))
    certificate, w = model.certificate_, joint_weights(model)
    optimum, best = solve_qp(psi, losses, weights)
    assert certificate.status is Status.CONVERGED
    assert_allclose(primal(w, psi, losses, weights), certificate.primal, rtol=1e-9)
    assert certificate.dual <= optimum * (1 + 1e-8)
    assert certificate.primal >= optimum * (1 - 1e-8)
    # P(w) >= P(best) + 1/2 |w - best|^2, and the reference has a gap as well.
    assert np.linalg.norm(w - best) <= np.sqrt(2 * certificate.gap) + np.sqrt(4e-9 * optimum)


def assert_same_labels(a, b):
    """The same predictions, whatever labels are: arrays of tuples do not compare as such."""
    assert type(a) is type(b)
    assert [np.ndarray.tolist(np.asarray(x, dtype=object)) for x in a] == [
        np.ndarray.tolist(np.asarray(x, dtype=object)) for x in b
    ]


def wide(X):
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return X


FORMS = {
    "dense": np.asarray,
    "list": np.ndarray.tolist,
    "fortran": np.asfortranarray,
    "single": lambda X: X.astype(np.float32),
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csr_int64": wide,
    "csr_single": lambda X: sp.csr_array(X.astype(np.float32)),
}

SETTINGS = {
    "defaults": {},
    "large C": {"C": 20.0},
    "small C": {"C": 0.02},
    "no intercept": {"fit_intercept": False},
    "scaled intercept": {"intercept_scaling": 2.5},
}

CLASS_WEIGHTS = {
    "none": None,
    "dict": {"ant": 3.0, "bee": 0.25},
    "partial": {"bee": 2},
    "balanced": "balanced",
}


def factors(class_weight, y, weight):
    """The weight of each row, by the definition of `class_weight`."""
    if class_weight == "balanced":
        total = {label: weight[[other == label for other in y]].sum() for label in set(y)}
        class_weight = {k: weight.sum() / (len(total) * total[k]) for k in total}
    return weight * [(class_weight or {}).get(label, 1.0) for label in y]


# The optimum


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["binary", "multiclass", "regression"])
def test_optimum_in_any_form_of_rows(name, form):
    case = CASES[name]
    assert_optimal(case.new(**TIGHT).fit(FORMS[form](ROWS), case.y))


@pytest.mark.parametrize("form", ["dense", "csr_array"])
@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", ["binary", "multiclass"])
def test_optimum_under_settings_is_that_of_liblinear(name, settings, form):
    case = CASES[name]
    model = case.new(**TIGHT, **SETTINGS[settings]).fit(FORMS[form](ROWS), case.y)
    assert_optimal(model)
    kind = {"loss": "hinge"} if name == "binary" else {"multi_class": "crammer_singer"}
    other = LinearSVC(
        C=model.C, fit_intercept=model.fit_intercept, intercept_scaling=model.intercept_scaling,
        dual=True, tol=1e-9, max_iter=10**6, random_state=0, **kind,
    ).fit(ROWS, case.y)  # fmt: skip
    assert_array_equal(model.classes_, other.classes_)
    assert_allclose(model.coef_, other.coef_, atol=2e-3)
    assert_allclose(model.intercept_, np.broadcast_to(other.intercept_, model.intercept_.shape),
                    atol=2e-3)  # fmt: skip
    assert_allclose(model.decision_function(ROWS), other.decision_function(ROWS), atol=5e-3)


@pytest.mark.parametrize("sample_weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 2.0])
@pytest.mark.parametrize("settings", SETTINGS)
def test_optimum_of_regression_is_that_of_liblinear(settings, epsilon, sample_weight):
    # Where several rows lie on the edge of the band, weight slides slowly from one to another.
    model = CASES["regression"].new(epsilon=epsilon, **TIGHT, **SETTINGS[settings])
    model.set_params(max_iter=100_000)
    model.fit(ROWS, TARGETS, sample_weight)
    weight = np.ones(15) if sample_weight is None else sample_weight
    assert_optimal(model, weight)
    other = LinearSVR(
        C=model.C, epsilon=epsilon, fit_intercept=model.fit_intercept, tol=1e-9, max_iter=10**6,
        intercept_scaling=model.intercept_scaling, random_state=0,
    ).fit(ROWS, TARGETS, sample_weight)  # fmt: skip
    assert_allclose(model.coef_, other.coef_, atol=2e-3)
    assert_allclose(model.predict(ROWS), other.predict(ROWS), atol=5e-3)


@pytest.mark.parametrize("sample_weight", [None, WEIGHT], ids=["equal", "weighted"])
@pytest.mark.parametrize("class_weight", CLASS_WEIGHTS)
@pytest.mark.parametrize("name", ["binary", "multiclass"])
def test_weights_multiply_losses(name, class_weight, sample_weight):
    case = CASES[name]
    model = case.new(class_weight=CLASS_WEIGHTS[class_weight], **TIGHT)
    model.fit(ROWS, case.y, sample_weight)
    weight = np.ones(15) if sample_weight is None else sample_weight
    assert_optimal(model, factors(model.class_weight, case.y, weight))
    if name == "binary":
        other = LinearSVC(
            C=model.C, loss="hinge", class_weight=model.class_weight, dual=True, tol=1e-9,
            max_iter=10**6, random_state=0,
        ).fit(ROWS, case.y, sample_weight)  # fmt: skip
        assert_allclose(model.coef_, other.coef_, atol=2e-3)


@pytest.mark.parametrize("labels", [[(1, 2), (3, 4)], [None, "a"], [("a",), 1], [False, True]])
@pytest.mark.parametrize("class_weight", ["balanced", "dict"])
def test_class_weight_takes_labels_of_any_type(labels, class_weight):
    y = CASES["binary"].labels(labels)
    class_weight = {labels[1]: 3.0} if class_weight == "dict" else class_weight
    model = BinarySVM(C=0.7, class_weight=class_weight, **TIGHT).fit(ROWS, y)
    assert model.certificate_.status is Status.CONVERGED
    weight = factors(class_weight, y, np.ones(15))
    same = BinarySVM(C=0.7, **TIGHT).fit(ROWS, y, weight)
    assert_array_equal(model.coef_, same.coef_)


@pytest.mark.parametrize("form", ["dense", "csr_matrix"])
@pytest.mark.parametrize(
    ("rescaling", "bias"),
    [
        long_if(rescaling == "slack" and bias == 0.0, rescaling, bias)
        for rescaling in ("margin", "slack")
        for bias in (0.0, 1.0, 2.5)
    ],
)
@pytest.mark.parametrize("cost", [COST, COST.T.tolist(), 2 - 2 * np.eye(3)])
def test_optimum_with_costs(cost, rescaling, bias, form):
    case = CASES["multiclass"]
    model = case.new(cost=cost, rescaling=rescaling, **TIGHT)
    model.set_params(fit_intercept=bias > 0, intercept_scaling=bias or 1.0)
    assert_optimal(model.fit(FORMS[form](ROWS), case.y))


def test_rescaling_changes_nothing_where_costs_are_one():
    margin, slack, given = (
        CASES["multiclass"].fit(**TIGHT, **settings)
        for settings in ({}, {"rescaling": "slack"}, {"rescaling": "slack", "cost": 1 - np.eye(3)})
    )
    assert_array_equal(slack.coef_, margin.coef_)
    assert_allclose(given.coef_, margin.coef_, atol=1e-4)


def test_slack_rescaling_of_ones_own_structure():
    model = StructuredSVM(SlackRescaled(ListedTags(3)), C=0.7, **TIGHT).fit(ROWS, TAGS)
    same = CASES["structured"].fit()
    psi, losses = slack_blocks(*reference_blocks(same))
    assert_allclose(model.certificate_.primal, solve_qp(psi, losses, np.full(15, 0.7))[0])
    same.coef_ = model.coef_
    assert model.predict(ROWS) == same.predict(ROWS)
    assert model.score(ROWS, TAGS) == same.score(ROWS, TAGS)
    assert_array_equal(clone(model).fit(ROWS, TAGS).coef_, model.coef_)
    model.set_params(warm_start=True).fit(ROWS, TAGS)
    with pytest.raises(InvalidData, match="other data"):
        model.fit(ROWS, TAGS[::-1])


@pytest.mark.long
def test_slack_rescaling_in_single_precision_and_threads():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 5)).astype(np.float32)
    y = np.argmax(rows[:, :3] + rng.normal(size=(300, 3)), axis=1)
    model = MulticlassSVM(cost=COST, rescaling="slack", C=0.1, random_state=0)
    double = clone(model).set_params(tol=1e-6).fit(rows.astype(float), y).certificate_
    for n_jobs in (1, 2):
        single = clone(model).set_params(n_jobs=n_jobs).fit(rows, y).certificate_
        assert single.relative_gap <= 1e-3
        assert single.dual <= double.primal
        assert double.dual <= single.primal


SEQUENCE_FORMS = {
    "list": (list, {}),
    "tuple": (tuple, {}),
    "list of lists": (lambda Xs: [X.tolist() for X in Xs], {}),
    "list of csr_matrix": (lambda Xs: [sp.csr_matrix(X) for X in Xs], {}),
    "list of csr_array": (lambda Xs: [sp.csr_array(X) for X in Xs], {}),
    "list of csr_int64": (lambda Xs: [wide(X) for X in Xs], {}),
    "stacked": (np.vstack, {"lengths": LENGTHS}),
    "stacked list": (lambda Xs: np.vstack(Xs).tolist(), {"lengths": LENGTHS.tolist()}),
    "stacked csr": (lambda Xs: sp.csr_array(np.vstack(Xs)), {"lengths": LENGTHS}),
}


@pytest.mark.parametrize("form", ["list", "list of csr_array"])
@pytest.mark.parametrize("boundary", [False, True])
@pytest.mark.parametrize("loss", ["hamming", "mean_hamming"])
def test_optimum_of_chains(loss, boundary, form):
    case = CASES["chain"]
    model = case.new(loss=loss, boundary=boundary, **TIGHT)
    assert_optimal(model.fit(SEQUENCE_FORMS[form][0](SEQUENCES), case.y))


@pytest.mark.parametrize(
    "form", [np.float32, long_if(True, lambda X: sp.csr_array(X, dtype=np.float32))]
)
def test_sequences_in_single_precision_have_true_bounds(form):
    case = CASES["chain"]
    single = case.new().fit([form(X) for X in SEQUENCES], case.y).certificate_
    double = fitted("chain").certificate_
    assert single.relative_gap <= 1e-3
    assert single.dual <= double.primal
    assert double.dual <= single.primal


def test_weights_of_sequences_multiply_losses():
    case = CASES["chain"]
    assert_optimal(case.new(**TIGHT).fit(SEQUENCES, case.y, WEIGHT[:6]), WEIGHT[:6])


@pytest.mark.parametrize("stacked_labels", [False, True])
@pytest.mark.parametrize("form", SEQUENCE_FORMS)
def test_forms_of_sequences_give_one_model(form, stacked_labels):
    pack, lengths = SEQUENCE_FORMS[form]
    X, y = pack(SEQUENCES), CASES["chain"].y
    y = list(itertools.chain(*y)) if stacked_labels else y
    model = CASES["chain"].new().fit(X, y, **lengths)
    assert_allclose(joint_weights(model), joint_weights(fitted("chain")), atol=1e-12)
    flat = np.concatenate(fitted("chain").predict(SEQUENCES))
    predicted = model.predict(X, **lengths)
    assert isinstance(predicted, np.ndarray if lengths else list)
    assert_array_equal(predicted if lengths else np.concatenate(predicted), flat)
    assert model.score(X, y, **lengths) == np.mean(flat == np.concatenate(CASES["chain"].y))


def test_arrays_of_sequences_are_lists_of_sequences():
    X, y = ROWS.reshape(5, 3, 3), CODES.reshape(5, 3)
    objects = np.empty(5, dtype=object)
    objects[:] = list(X)
    model = ChainSVM(random_state=0).fit(list(X), list(y))
    for form in (X, objects, tuple(X)):
        assert_array_equal(ChainSVM(random_state=0).fit(form, y).coef_, model.coef_)
        assert_same_labels(model.predict(form), model.predict(list(X)))


def test_one_stacked_matrix_is_one_sequence():
    model = ChainSVM(C=0.1, random_state=0).fit(ROWS[:5], CODES[:5])
    assert_array_equal(model.predict(ROWS[:5]), model.predict([ROWS[:5]])[0])
    assert model.certificate_.oracle_calls > 0


def test_optimum_of_a_structure_of_ones_own():
    case = CASES["structured"]
    assert_optimal(case.fit(**TIGHT))
    assert_optimal(case.new(**TIGHT).fit(ROWS, TAGS, WEIGHT), WEIGHT)


def test_a_shipped_structure_is_its_estimator():
    model = StructuredSVM(Multiclass(3, COST, 2.0), C=0.7, **TIGHT).fit(ROWS, CODES)
    same = MulticlassSVM(cost=COST, intercept_scaling=2.0, C=0.7, **TIGHT).fit(ROWS, CODES)
    assert_array_equal(model.coef_, joint_weights(same))
    assert_array_equal(model.predict(ROWS), same.predict(ROWS))
    costs = COST[CODES, same.predict(ROWS)]
    assert_allclose(model.score(ROWS, CODES), -costs.mean())


# What the attributes mean


def test_binary_scores():
    model = fitted("binary")
    assert model.coef_.shape == (1, 3)
    assert model.intercept_.shape == (1,)
    assert model.n_features_in_ == 3
    scores = ROWS @ model.coef_[0] + model.intercept_[0]
    assert_allclose(model.decision_function(ROWS), scores)
    assert_array_equal(model.predict(ROWS), np.where(scores > 0, "bee", "ant"))
    assert_array_equal(model.classes_, ["ant", "bee"])


def test_multiclass_scores():
    model = fitted("multiclass")
    assert model.coef_.shape == (3, 3)
    assert model.intercept_.shape == (3,)
    scores = ROWS @ model.coef_.T + model.intercept_
    assert_allclose(model.decision_function(ROWS), scores)
    assert_array_equal(model.predict(ROWS), model.classes_[scores.argmax(axis=1)])
    assert_array_equal(model.classes_, ["ant", "bee", "cat"])


def test_two_classes_have_one_decision():
    model = MulticlassSVM(random_state=0).fit(ROWS, CODES > 0)
    scores = ROWS @ model.coef_.T + model.intercept_
    assert_allclose(model.decision_function(ROWS), scores[:, 1] - scores[:, 0])
    assert_array_equal(model.predict(ROWS), model.decision_function(ROWS) > 0)


def test_regression_scores():
    model = fitted("regression")
    assert model.coef_.shape == (3,)
    assert model.intercept_.shape == (1,)
    scores = ROWS @ model.coef_ + model.intercept_[0]
    assert_allclose(model.predict(ROWS), scores)
    assert model.predict(ROWS.astype(np.float32)).dtype == np.float32
    residual = ((TARGETS - scores) ** 2).sum() / ((TARGETS - TARGETS.mean()) ** 2).sum()
    assert_allclose(model.score(ROWS, TARGETS), 1.0 - residual)


def test_targets_within_epsilon_cost_nothing():
    model = CASES["regression"].fit(epsilon=100.0)
    assert model.certificate_.status is Status.CONVERGED
    assert model.certificate_.primal == 0.0
    assert not model.coef_.any()


@pytest.mark.parametrize("name", CASES)
def test_joint_weights_are_those_of_the_problem(name):
    for parameters in ({}, OTHERWISE[name] | {"C": 0.7}):
        model = CASES[name].fit(**parameters)
        assert_allclose(model._joint_weights(), joint_weights(model), rtol=1e-15)
        psi, losses = reference_blocks(model)
        value = primal(model._joint_weights(), psi, losses, np.full(len(psi), model.C))
        assert_allclose(value, model.certificate_.primal)


@pytest.mark.parametrize("boundary", [False, True])
def test_chain_scores(boundary):
    model = CASES["chain"].fit(boundary=boundary)
    assert model.coef_.shape == (3, 3)
    assert model.transition_.shape == (3, 3)
    assert model.start_.shape == model.end_.shape == (3,)
    assert bool(model.start_.any()) == bool(model.end_.any()) == boundary
    for x, predicted in zip(SEQUENCES, model.predict(SEQUENCES), strict=True):
        scores = {
            labels: model.start_[labels[0]] + model.end_[labels[-1]]
            + sum(model.coef_[label] @ row for label, row in zip(labels, x, strict=True))
            + sum(model.transition_[pair] for pair in itertools.pairwise(labels))
            for labels in itertools.product(range(3), repeat=len(x))
        }  # fmt: skip
        assert_array_equal(predicted, model.classes_[list(max(scores, key=scores.get))])


def test_structured_scores():
    model = fitted("structured")
    phi = [[model.structure.features(x, s) for s in model.structure.subsets] for x in ROWS]
    best = [model.structure.subsets[int(np.argmax(p @ model.coef_))] for p in np.array(phi)]
    assert model.predict(ROWS) == best
    wrong = [
        sum(a != b for a, b in zip(s, t, strict=True)) for s, t in zip(best, TAGS, strict=True)
    ]
    assert_allclose(model.score(ROWS, TAGS), -np.mean(wrong))


LABELS = {
    "text": ("x", "yy", "z"),
    "integers": (-1, 1, 70),
    "small integers": tuple(np.array([1, 2, 3], dtype=np.int8)),
    "large integers": (2**70, -(2**70), 1),
    "whole floats": (1.0, 2.0, 3.0),
    "booleans": (False, True, None),
    "pairs": (("a", 1), ("b", 2), ("b", 3)),
    "tuples": ((), ("b", (2, None)), (1.5,)),
    "mixed": (None, "a", 3),
    "unusual text": ("", "trailing\0", "Ünï\n"),
}


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("name", ["binary", "multiclass", "chain"])
def test_labels_of_any_type_come_back(name, labels, tmp_path):
    case, names = CASES[name], LABELS[labels]
    y = case.labels(names)
    model = case.new().fit(case.X, y)
    predicted = model.predict(case.X)
    flat = list(itertools.chain(*predicted)) if name == "chain" else list(predicted)
    assert set(model.classes_.tolist()) == set(names[:2] if name == "binary" else names)
    assert set(flat) <= set(names)
    assert model.score(case.X, y) > 0.5

    model.save(tmp_path / "m")
    again = taut.load(tmp_path / "m")
    assert again.classes_.dtype == model.classes_.dtype
    assert list(map(type, again.classes_)) == list(map(type, model.classes_))
    assert again.classes_.tolist() == model.classes_.tolist()
    assert_same_labels(again.predict(case.X), predicted)


OTHERWISE = {
    "binary": {"fit_intercept": False, "intercept_scaling": 9.0},
    "multiclass": {"fit_intercept": False, "cost": COST},
    "regression": {"fit_intercept": False, "epsilon": 0.0},
    "chain": {"boundary": False, "loss": "mean_hamming"},
    "pairwise": {"loss": "ndcg", "k": 2},
    "ndcg": {"loss": "pairwise", "k": None},
    "structured": {"C": 99.0},
}


@pytest.mark.parametrize("name", CASES)
def test_predictions_rest_on_fitted_attributes(name):
    case = CASES[name]
    model = case.fit(**{"boundary": True} if name == "chain" else {})
    before = model.predict(case.X)
    model.set_params(**OTHERWISE[name])
    assert_same_labels(model.predict(case.X), before)


# The certificate


@pytest.mark.parametrize("name", CASES)
def test_certificate_is_true(name):
    model = CASES[name].new()
    began = time.perf_counter()
    model.fit(CASES[name].X, CASES[name].y)
    elapsed = time.perf_counter() - began
    psi, losses = reference_blocks(model)
    weights = np.full(len(psi), model.C)
    optimum, _ = solve_qp(psi, losses, weights)
    certificate, history = model.certificate_, model.history_

    assert_allclose(primal(joint_weights(model), psi, losses, weights), certificate.primal)
    assert certificate.dual <= optimum * (1 + 1e-9)
    assert certificate.gap == certificate.primal - certificate.dual + certificate.rounding >= 0
    assert certificate.rounding <= 1e-12 * certificate.primal
    assert certificate.relative_gap == certificate.gap / certificate.primal <= model.tol
    assert certificate.exact
    assert certificate.status is Status.CONVERGED
    assert f"{certificate.relative_gap:.2g} is within tol=0.001" in certificate.message
    assert certificate.passes == model.n_iter_ == len(history) > 0
    assert certificate.oracle_calls >= 2 * len(psi)  # a pass and its verification
    assert 0 < certificate.seconds <= elapsed
    assert certificate.peak_memory is None or 2**20 < certificate.peak_memory < 2**40

    assert_array_equal(history["iteration"], np.arange(1, len(history) + 1))
    assert (history["dual"] <= optimum * (1 + 1e-9)).all()
    assert_allclose(history["gap"], history["primal"] - history["dual"])
    assert (np.diff(history["seconds"]) >= 0).all()
    assert history["seconds"][-1] <= certificate.seconds
    assert (np.diff(history["oracle_calls"]) >= 0).all()
    assert history["oracle_calls"][-1] == certificate.oracle_calls
    assert (history["stiffness"] >= 1).all()
    assert history["exact"][-1]
    assert_allclose(history["relative_gap"][-1], certificate.relative_gap, atol=1e-12)


@pytest.mark.parametrize(
    "solver",
    ["auto", "dual_coordinate", DualCoordinate(order="gap"), DualCoordinate(recentring=0.0)],
    ids=str,
)
def test_solvers_agree(case, solver):
    assert_optimal(case.fit(**TIGHT | {"tol": 1e-6}, solver=solver))


def test_threads_change_nothing(case):
    one, two = case.fit(), case.fit(n_jobs=2)
    assert_array_equal(joint_weights(one), joint_weights(two))
    assert_same_labels(one.predict(case.X), two.predict(case.X))
    assert case.fit(n_jobs=-1).n_iter_ == case.fit(n_jobs=None).n_iter_ == one.n_iter_


@pytest.mark.parametrize("seed", [lambda: 3, lambda: np.int64(3), lambda: np.random.RandomState(3)])
def test_the_seed_decides(case, seed):
    first, second = (case.fit(random_state=seed()) for _ in range(2))
    assert_array_equal(joint_weights(first), joint_weights(second))
    assert_array_equal(first.history_["dual"], second.history_["dual"])


def test_without_a_seed_it_converges(case):
    assert case.fit(random_state=None).certificate_.status is Status.CONVERGED


def test_progress_without_a_terminal(case, capfd):
    case.fit(verbose=1)
    out, err = capfd.readouterr()
    assert out == ""
    assert "pass" in err.splitlines()[-1]


# Stopping early


def test_callbacks_get_the_records(case):
    records = []
    model = case.fit(callbacks=[records.append])
    assert all(isinstance(record, Record) for record in records)
    assert records == model.history_.records


def test_callback_stops(case):
    model = case.fit(tol=0.0, callbacks=[lambda record: record.iteration == 3])
    assert model.certificate_.status is Status.CALLBACK
    assert model.n_iter_ == 3


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ({"max_iter": 2}, r"max_iter=2 passes with relative gap \S+ > tol=0: .*raise max_iter"),
        ({"time_limit": 1e-9}, r"after \S+ s with relative gap \S+ > tol=0: .*raise time_limit"),
    ],
    ids=["max_iter", "time_limit"],
)
def test_limits_warn_with_figures(case, limit, words):
    with pytest.warns(NotConverged, match=words) as caught:
        model = case.fit(tol=0.0, **limit)
    assert caught[0].filename == __file__
    assert str(caught[0].message) == model.certificate_.message
    psi, losses = reference_blocks(model)
    value = primal(joint_weights(model), psi, losses, np.full(len(psi), model.C))
    assert_allclose(value, model.certificate_.primal)


def test_a_warning_turned_into_an_error_leaves_the_model(case):
    model = case.new(tol=0.0, max_iter=2)
    with pytest.raises(NotConverged):  # warnings are errors in this suite
        model.fit(case.X, case.y)
    assert model.n_iter_ == 2
    assert len(model.predict(case.X)) == len(case.X)


def interrupt(record):
    if record.iteration == 2:
        raise KeyboardInterrupt


def test_interrupted_fit_is_a_model_and_goes_on(case):
    with pytest.warns(NotConverged, match="Interrupted after 2 passes .* best model so far"):
        model = case.fit(**TIGHT, callbacks=[interrupt])
    assert model.certificate_.status is Status.INTERRUPTED
    assert model.n_iter_ == 2
    assert "warm_start=True" in model.certificate_.message
    assert len(model.predict(case.X)) == len(case.X)
    start = model.certificate_.dual
    model.set_params(warm_start=True, callbacks=()).fit(case.X, case.y)
    assert_optimal(model)
    assert model.history_["dual"][0] >= start - 1e-9


# Going on


def test_warm_start_has_little_left_to_do(case):
    model = case.fit(warm_start=True, tol=1e-6)
    first = model.n_iter_
    model.fit(case.X, case.y)
    assert model.n_iter_ < first
    assert model.certificate_.relative_gap <= 1e-6


@pytest.mark.parametrize("factor", [0.5, 1.1, 4.0])
def test_warm_start_follows_the_factor(case, factor):
    model = case.fit(warm_start=True, **TIGHT)
    model.set_params(C=factor * model.C).fit(case.X, case.y)
    assert_optimal(model)


def test_warm_start_follows_weights():
    case = CASES["multiclass"]
    model = case.new(warm_start=True, **TIGHT).fit(ROWS, case.y, WEIGHT)
    assert_optimal(model.fit(ROWS, case.y), 1.0)
    assert_optimal(model.fit(ROWS, case.y, WEIGHT), WEIGHT)


def shorter(X, y):
    return X[:-1], y[:-1]


def other_values(X, y):
    return [2 * x for x in X] if isinstance(X, list) else 2 * X, y


def other_labels(X, y):
    return X, y[::-1] if np.ndim(y[0]) == 0 or isinstance(y[0], tuple) else [p[::-1] for p in y]


@pytest.mark.parametrize("change", [shorter, other_values, other_labels])
def test_warm_start_on_other_data_is_refused(case, change):
    model = case.fit(warm_start=True)
    before = dict(vars(model))
    with pytest.raises(InvalidData, match=r"other data.*warm_start=False"):
        model.fit(*change(case.X, case.y))
    assert vars(model) == before
    model.set_params(warm_start=False).fit(*change(case.X, case.y))
    model.set_params(warm_start=True).fit(case.X, case.y)  # the last fit left nothing to start from


def test_warm_start_with_another_loss_is_refused():
    case = CASES["chain"]
    model = case.fit(warm_start=True).set_params(loss="mean_hamming")
    with pytest.raises(InvalidData, match="warm_start=False"):
        model.fit(case.X, case.y)


def test_checkpoint_resumes(case, tmp_path):
    whole = case.fit(**TIGHT)
    keep = Checkpoint(tmp_path / "run", seconds=0.0)
    with pytest.warns(NotConverged):
        case.fit(**TIGHT | {"max_iter": 3}, checkpoint=keep)
    resumed = case.fit(**TIGHT, checkpoint=keep)
    assert_array_equal(joint_weights(resumed), joint_weights(whole))
    assert_array_equal(resumed.history_["dual"], whole.history_["dual"])
    again = case.fit(**TIGHT, checkpoint=tmp_path / "run")
    assert again.n_iter_ == whole.n_iter_
    assert_array_equal(joint_weights(again), joint_weights(whole))


def test_checkpoint_of_another_fit_is_refused_and_kept(case, tmp_path):
    path = tmp_path / "run"
    model = case.fit(checkpoint=str(path))
    content, before = path.read_bytes(), dict(vars(model))
    model.set_params(C=2.0)
    with pytest.raises(InvalidFile, match="another run"):
        model.fit(case.X, case.y)
    assert path.read_bytes() == content
    assert vars(model) == before | {"C": 2.0}


# Files


SAVED = {
    "binary": {"class_weight": {"ant": 2.0, "bee": 0.5}, "n_jobs": 2},
    "multiclass": {"cost": COST, "solver": DualCoordinate(order="gap"), "time_limit": np.inf},
    "regression": {"epsilon": 0.5, "intercept_scaling": 2.0},
    "chain": {"boundary": True, "loss": "mean_hamming", "solver": "dual_coordinate"},
    "pairwise": {"k": None},
    "ndcg": {"loss": "ndcg", "k": 5},
    "structured": {"C": np.float64(0.3), "tol": 1e-4},
}


def load(path, model):
    """Load a model like this one."""
    needs_structure = isinstance(model, StructuredSVM)
    return taut.load(path, **{"structure": model.structure} if needs_structure else {})


def assert_same_values(a, b):
    assert a.keys() == b.keys()
    for name, value in a.items():
        assert type(value) is type(b[name]) or np.isscalar(value), name
        if isinstance(value, np.ndarray):
            assert value.dtype == b[name].dtype
            assert_array_equal(value, b[name])
        else:
            assert value == b[name], name


def fitted_attributes(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.mark.parametrize("name", CASES)
def test_saved_models_come_back(name, tmp_path):
    case = CASES[name]
    model = case.fit(**SAVED[name], warm_start=True, callbacks=[print][:0])
    model.save(tmp_path / "m.taut")
    again = load(tmp_path / "m.taut", model)
    assert type(again) is type(model)
    assert_same_values(fitted_attributes(model), fitted_attributes(again))
    parameters = model.get_params(deep=False)
    assert_same_values(parameters | {"callbacks": ()}, again.get_params(deep=False))
    assert_same_labels(model.predict(case.X), again.predict(case.X))
    again.fit(case.X, case.y)
    assert_array_equal(joint_weights(again), joint_weights(model))


def test_saving_drops_what_belongs_to_the_run(tmp_path):
    case = CASES["multiclass"]
    model = case.new(cost=COST.tolist(), random_state=np.random.RandomState(0))
    model.set_params(callbacks=[lambda record: None], checkpoint=tmp_path / "run")
    model.fit(case.X, case.y).save(tmp_path / "m")
    again = taut.load(tmp_path / "m")
    assert (again.callbacks, again.checkpoint, again.random_state) == ((), None, None)
    assert_array_equal(again.cost, COST)


def test_settings_of_solvers_come_back_as_they_were_given(tmp_path):
    settings = {"max_rounds": 50.0, "shuffle": 1, "online_gap": 1}
    model = CASES["multiclass"].fit().set_params(solver=OnlineCache(**settings))
    model.save(tmp_path / "m")
    again = taut.load(tmp_path / "m").solver
    assert {name: getattr(again, name) for name in settings} == settings


def test_names_of_features_are_saved(tmp_path):
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    model = BinarySVM(random_state=0).fit(frame, CODES > 0)
    model.save(tmp_path / "m")
    again = taut.load(tmp_path / "m")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert_array_equal(again.predict(frame), model.predict(frame))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(frame[["c", "b", "a"]])
    model.fit(ROWS, CODES > 0)
    assert not hasattr(model, "feature_names_in_")


def test_what_is_not_in_the_file_is_given_to_load(tmp_path):
    fitted("structured").save(tmp_path / "s")
    with pytest.raises(InvalidFile, match=r"structure=\.\.\."):
        taut.load(tmp_path / "s")
    assert taut.load(tmp_path / "s", structure=Tags(3), C=5.0).C == 5.0
    fitted("binary").save(tmp_path / "b")
    with pytest.raises(InvalidData, match=r"b holds a BinarySVM, which has no parameter 'cost'"):
        taut.load(tmp_path / "b", cost=COST)
    with pytest.raises(FileNotFoundError):
        taut.load(tmp_path / "nothing")


def test_every_truncation_is_refused(case, tmp_path):
    path, model = tmp_path / "m", case.fit()
    model.save(path)
    content = path.read_bytes()
    for size in [*range(0, len(content), 61), len(content) - 1]:
        path.write_bytes(content[:size])
        with pytest.raises(InvalidFile, match="again"):
            load(path, model)


def test_every_damaged_byte_is_refused_or_harmless(case, tmp_path):
    path, model = tmp_path / "m", case.fit()
    model.save(path)
    content = bytearray(path.read_bytes())
    for k in range(0, len(content), 7):
        content[k] ^= 0x11
        path.write_bytes(content)
        content[k] ^= 0x11
        try:
            again = load(path, model)
        except InvalidFile:
            continue
        assert content[k : k + 1] == b" "  # between the header and the weights
        assert_same_values(fitted_attributes(model), fitted_attributes(again))


def foreign(path):
    save_file({"coef_": np.ones((1, 3))}, path)


def text(path):
    path.write_text("coef = 1")


def checkpoint(path):
    CASES["binary"].fit(checkpoint=path)


def rewritten(changes):
    """Makes a file with a right checksum whose metadata are another's."""

    def write(path):
        fitted("binary").save(path)
        tensors, meta = files.read(path, "model")
        files.write(path, "model", tensors, meta | changes)

    return write


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (foreign, "not written by taut"),
        (text, "not a complete safetensors file"),
        (checkpoint, "holds a checkpoint, not a model"),
        (rewritten({"class": "QuantumSVM"}), "'QuantumSVM'.*update taut"),
        (rewritten({"class": None}), "update taut"),
        (rewritten({"fitted": {"coef_": {"tensor": "nothing"}}}), "cannot read"),
        (rewritten({"parameters": {"speed": {"value": 1}}}), "cannot read"),
        (rewritten({"parameters": {"C": {"quantity": 1}}}), "cannot read"),
        (rewritten({"parameters": {"solver": {"solver": "magic", "settings": {}}}}), "cannot read"),
        (rewritten({"parameters": None}), "cannot read"),
    ],
)  # fmt: skip
def test_other_files_are_refused(tmp_path, make, words):
    make(tmp_path / "m")
    with pytest.raises(InvalidFile, match=words):
        taut.load(tmp_path / "m")


def test_unfitted_models_are_not_saved(case, tmp_path):
    with pytest.raises(NotFittedError):
        case.new().save(tmp_path / "m")
    assert not list(tmp_path.iterdir())


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class OwnSolver(DualCoordinate):
    pass


@pytest.mark.parametrize(
    ("labels", "parameters", "words"),
    [
        ((Colour.RED, Colour.BLUE), {}, r"label <Colour.RED: 1> of type Colour cannot be stored"),
        ((b"a", b"b"), {}, r"label b'a' of type bytes cannot be stored; use str, int"),
        (("a", "b"), {"solver": OwnSolver()}, r"solver = OwnSolver.* before saving"),
    ],
)
@pytest.mark.parametrize("there", [False, True])
def test_what_cannot_be_saved_leaves_the_old_file(tmp_path, labels, parameters, words, there):
    path, case = tmp_path / "m", CASES["binary"]
    if there:
        fitted("binary").save(path)
    before = path.read_bytes() if there else None
    model = case.new(**parameters).fit(ROWS, case.labels(labels))
    with pytest.raises(InvalidType, match=words):
        model.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["m"] * there
    assert (path.read_bytes() if there else None) == before


# scikit-learn's ways


def test_pickled_models_come_back(case):
    model = case.fit(warm_start=True)
    again = pickle.loads(pickle.dumps(model))
    assert_same_values(fitted_attributes(model), fitted_attributes(again))
    assert_same_labels(model.predict(case.X), again.predict(case.X))
    assert again.fit(case.X, case.y).n_iter_ <= model.n_iter_


def test_clones_are_unfitted_and_fit_the_same(case):
    model = case.fit(C=0.4, warm_start=True)
    twin = clone(model)
    assert not fitted_attributes(twin)
    assert not hasattr(twin, "_state")
    assert_array_equal(joint_weights(twin.fit(case.X, case.y)), joint_weights(model))


def test_grid_search(case):
    search = GridSearchCV(case.new(), {"C": [0.01, 1.0]}, cv=2).fit(case.X, case.y)
    assert search.best_params_["C"] in (0.01, 1.0)
    best = case.fit(**search.best_params_)
    assert_array_equal(joint_weights(search.best_estimator_), joint_weights(best))


@pytest.mark.parametrize("name", ["binary", "multiclass", "regression"])
def test_pipeline(name):
    case = CASES[name]
    pipeline = make_pipeline(StandardScaler(), case.new()).fit(ROWS, case.y)
    scaled = StandardScaler().fit_transform(ROWS)
    model = case.new().fit(scaled, case.y)
    assert_array_equal(pipeline.predict(ROWS), model.predict(scaled))
    assert pipeline.score(ROWS, case.y) == model.score(scaled, case.y)


def test_cross_validation_of_sequences():
    case, folds = CASES["chain"], KFold(3)
    scores = cross_val_score(case.new(), case.X, case.y, cv=3)
    for score, (train, test) in zip(scores, folds.split(case.X), strict=True):
        model = case.new().fit([case.X[i] for i in train], [case.y[i] for i in train])
        assert score == model.score([case.X[i] for i in test], [case.y[i] for i in test])


def test_score_weighs_positions_by_their_sequence():
    case, weight = CASES["chain"], np.arange(6.0)
    right = np.concatenate(fitted("chain").predict(case.X)) == np.concatenate(case.y)
    score = fitted("chain").score(case.X, case.y, weight)
    assert_allclose(score, np.average(right, weights=np.repeat(weight, LENGTHS)))
