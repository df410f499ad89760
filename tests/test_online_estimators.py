"""Estimators on sources and part by part, and their priors: the models of the data in memory."""

import copy
import functools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, KFold

import taut
from cases import long_if, names
from own_structures import Tags
from reference import binary_blocks, prior_primal, solve_prior_qp, solve_qp
from taut import (
    BinarySVM,
    ChainSVM,
    LatentStructuredSVM,
    LatentSVM,
    MulticlassSVM,
    RankSVM,
    RegressionSVM,
    Status,
    StructuredSVM,
)
from taut.data import Stream, write_shards
from taut.errors import InvalidData
from taut.solvers import DualCoordinate, OnlineCache
from taut.structures import Bags
from test_estimators import (
    CASES,
    CODES,
    ROWS,
    SEQUENCES,
    TARGETS,
    WEIGHT,
    joint_weights,
    load,
    parts,
    reference_blocks,
)
from test_latent import NAMES as BAG_NAMES
from test_latent import X as BAGS

TIGHT = {"tol": 1e-7, "max_iter": 3000, "random_state": 0}
KINDS = dict.fromkeys(CASES, "rows") | dict.fromkeys(["chain", "pairwise", "ndcg"], "sequences")
KINDS["structured"] = "examples"


def pieces(X, y, size=4, weight=None, margin=None):
    """Parts of a stream."""
    return [
        (
            list(X[k : k + size]) if isinstance(X, list) else X[k : k + size],
            y[k : k + size],
            None if weight is None else weight[k : k + size],
            None if margin is None else margin[k : k + size],
        )
        for k in range(0, len(y), size)
    ]


def stream(name, **options):
    case = CASES[name]
    X = list(case.X) if KINDS[name] == "examples" else case.X
    return Stream(pieces(X, case.y, **options), kind=KINDS[name])


def source(name, how, path, **options):
    if how == "stream":
        return stream(name, **options)
    weight, margin = options.get("weight"), options.get("margin")
    case = CASES[name]
    return write_shards(
        path, case.X, case.y, sample_weight=weight, margin=margin, chunk_size=200
    )  # fmt: skip


def assert_same_model(model, other):
    """The same problem solved, as closely as the certificates say."""
    a, b = model.certificate_, other.certificate_
    assert a.status is Status.CONVERGED
    assert a.exact
    assert_allclose(a.primal, b.primal, rtol=1e-6)
    distance = np.linalg.norm(joint_weights(model) - joint_weights(other))
    assert distance <= np.sqrt(2 * a.gap) + np.sqrt(2 * b.gap) + 1e-6
    for name in ("classes_", "n_features_in_", "coef_", "intercept_", "transition_"):
        assert hasattr(model, name) == hasattr(other, name), name
        if hasattr(model, name):
            assert np.shape(getattr(model, name)) == np.shape(getattr(other, name))
    if hasattr(model, "classes_"):
        assert_array_equal(model.classes_, other.classes_)
        assert model.classes_.dtype == other.classes_.dtype


@functools.cache
def in_memory(name):
    return CASES[name].fit(**TIGHT)


@pytest.fixture(params=CASES)
def name(request):
    return request.param


# Sources


@pytest.mark.parametrize("how", ["shards", "stream"])
def test_sources_are_data_in_memory(name, how, tmp_path):
    if (name, how) == ("structured", "shards"):
        pytest.skip("shards hold rows")
    case = CASES[name]
    model = case.new(**TIGHT).fit(source(name, how, tmp_path / "set"))
    assert_same_model(model, in_memory(name))
    expected = in_memory(name).score(case.X, case.y)
    assert_allclose(model.score(case.X, case.y), expected, atol=1e-2)  # rankings have ties


@pytest.mark.parametrize("how", ["shards", "stream"])
@pytest.mark.parametrize(
    "names", [("ant", "bee"), (7, 3), (-1.0, 2.0), (False, True), (("a", 1), ("b", 2))]
)
def test_labels_of_any_kind(how, names, tmp_path):
    y = CASES["binary"].labels(names)
    expected = BinarySVM(C=0.7, **TIGHT).fit(ROWS, y)
    data = Stream(pieces(ROWS, y)) if how == "stream" else write_shards(tmp_path / "set", ROWS, y)
    model = BinarySVM(C=0.7, **TIGHT).fit(data)
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert_allclose(model.coef_, expected.coef_, atol=1e-3)


@pytest.mark.parametrize("how", ["shards", "stream"])
@pytest.mark.parametrize("class_weight", [None, {"ant": 3.0, "bee": 0.25}, "balanced"])
@pytest.mark.parametrize("name", ["binary", "multiclass"])
def test_weights_of_sources(name, class_weight, how, tmp_path):
    case = CASES[name]
    expected = case.new(class_weight=class_weight, **TIGHT).fit(ROWS, case.y, WEIGHT)
    data = source(name, how, tmp_path / "set", weight=WEIGHT)
    assert_same_model(case.new(class_weight=class_weight, **TIGHT).fit(data), expected)


def test_balanced_weights_need_a_second_reading():
    once = Stream(iter(pieces(ROWS, CASES["binary"].y)), classes=["ant", "bee"])
    model = CASES["binary"].new(class_weight="balanced")
    with pytest.raises(InvalidData, match="'balanced' takes a reading of its own"):
        model.fit(once)
    with pytest.raises(InvalidData, match="'balanced' takes a reading of its own"):
        model.partial_fit(ROWS, CASES["binary"].y)


@pytest.mark.parametrize("beside", ["y", "sample_weight"])
def test_what_a_source_brings_is_not_given_beside_it(name, beside):
    with pytest.raises(InvalidData, match=f"{beside} is given beside a source of data"):
        CASES[name].new().fit(stream(name), **{beside: np.ones(15)})


@pytest.mark.parametrize("how", ["shards", "stream"])
def test_targets_of_the_wrong_kind(how, tmp_path):
    def data(y, sequences=False):
        X = SEQUENCES if sequences else ROWS
        if how == "stream":
            return Stream(pieces(X, y), kind="sequences" if sequences else "rows")
        return write_shards(tmp_path / f"set{len(list(tmp_path.iterdir()))}", X, y)

    for model in (BinarySVM(), MulticlassSVM()):
        with pytest.raises(InvalidData, match="needs classes, and the targets of the source"):
            model.fit(data(TARGETS))
    with pytest.raises(InvalidData, match=r"Only binary classification .* 3 classes"):
        BinarySVM().fit(data(CODES))
    # Codes of labels are numbers as well, but not those to be learned.
    with pytest.raises(InvalidData, match="the targets are missing or no numbers"):
        RegressionSVM().fit(data(CASES["binary"].y))
    with pytest.raises(InvalidData, match="the targets are missing or no numbers"):
        RankSVM().fit(data(CASES["chain"].y, sequences=True))
    with pytest.raises(InvalidData, match="ChainSVM needs labels"):
        ChainSVM().fit(data(parts(TARGETS), sequences=True))


@pytest.mark.parametrize("start", ["mean", "first", "random"])
@pytest.mark.parametrize("how", ["shards", "stream"])
def test_bags_from_sources(how, start, tmp_path):
    data = Stream(pieces(BAGS, BAG_NAMES), kind="sequences")
    if how == "shards":
        data = write_shards(tmp_path / "set", BAGS, BAG_NAMES, chunk_size=500)
    options = TIGHT | {"C": 2.0, "start": start}
    expected, model = LatentSVM(**options).fit(BAGS, BAG_NAMES), LatentSVM(**options).fit(data)
    assert_array_equal(model.classes_, expected.classes_)
    assert_allclose(model.rounds_["objective"], expected.rounds_["objective"], rtol=1e-4)
    # The first round has the truths that the start makes: its bounds are those of memory.
    assert_allclose(model.rounds_["dual"][0], expected.rounds_["dual"][0], rtol=1e-6)
    assert model.score(BAGS, BAG_NAMES) == expected.score(BAGS, BAG_NAMES)


def test_latent_structures_from_sources():
    signs = np.where(BAG_NAMES == "yes", 0, -1)
    stacked = np.vstack(BAGS), np.cumsum([0] + [len(x) for x in BAGS])
    expected = LatentStructuredSVM(Bags(bias=1.0), **TIGHT).fit(stacked, signs)
    data = Stream(pieces(BAGS, signs), kind="sequences")
    model = LatentStructuredSVM(Bags(bias=1.0), **TIGHT).fit(data)
    assert_allclose(model.rounds_["objective"], expected.rounds_["objective"], rtol=1e-4)


# Part by part


def test_parts_are_near_the_whole(name):
    case = CASES[name]
    model = case.new(tol=1e-4)
    for X, y, *_ in pieces(case.X, case.y, 5):
        assert model.partial_fit(X, y, **classes_of(case)) is model
    certificate, whole = model.certificate_, in_memory(name)
    assert certificate.status is Status.READ_ONCE
    assert not certificate.exact
    psi, losses = reference_blocks(model)
    best, _ = solve_qp(psi, losses, model.C * np.ones(len(psi)), rtol=1e-7)
    assert certificate.dual <= best * (1.0 + 1e-9)
    own = prior_primal(
        joint_weights(model), psi, losses, model.C * np.ones(len(psi)), 0.0,
        np.eye(len(joint_weights(model))),
    )  # fmt: skip
    assert best <= own * (1.0 + 1e-9)
    assert own <= 1.3 * best
    assert abs(model.score(case.X, case.y) - whole.score(case.X, case.y)) < 0.35


def classes_of(case):
    known = isinstance(case.model, BinarySVM | MulticlassSVM | ChainSVM)
    return {"classes": case.names[: 2 if isinstance(case.model, BinarySVM) else 3]} if known else {}


def test_classes_are_those_of_the_first_part():
    y = np.array(CASES["multiclass"].y)
    model = MulticlassSVM(random_state=0).partial_fit(ROWS, y)
    assert model.classes_.tolist() == ["ant", "bee", "cat"]
    before = model.coef_.copy()
    with pytest.raises(InvalidData, match="dog"):
        model.partial_fit(ROWS[:2], ["ant", "dog"])
    assert_array_equal(model.coef_, before)
    # Nothing of what was refused is learned later, and what comes later is.
    twin = MulticlassSVM(random_state=0).partial_fit(ROWS, y)
    for each in (model, twin):
        each.partial_fit(-ROWS[:9], y[:9])
    assert_array_equal(model.coef_, twin.coef_)
    assert np.abs(model.coef_ - before).max() > 1e-3
    with pytest.raises(InvalidData, match="X has 2 features, but MulticlassSVM is expecting 3"):
        model.partial_fit(ROWS[:, :2], y)


def test_a_first_part_that_is_refused_leaves_nothing():
    model = BinarySVM(random_state=0)
    with pytest.raises(InvalidData, match="1 class"):
        model.partial_fit(ROWS, ["a"] * 15)
    model.partial_fit(ROWS, CASES["binary"].y)
    assert model.classes_.tolist() == ["ant", "bee"]


def test_fit_begins_anew():
    case = CASES["binary"]
    plain = case.new().fit(ROWS, case.y)
    model = case.new().partial_fit(-ROWS, case.y).fit(ROWS, case.y)
    assert_array_equal(model.coef_, plain.coef_)
    assert not hasattr(model, "_online")
    model.partial_fit(ROWS, case.y)
    assert_array_equal(model.coef_, case.new().partial_fit(ROWS, case.y).coef_)


def test_time_that_is_up_loses_no_data():
    """What was not explored in time is explored in the next call, with what is new."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] > 0
    model = BinarySVM(random_state=0, time_limit=1e-9)
    with pytest.warns(taut.errors.NotConverged):
        model.partial_fit(X[:200], y[:200])
    model.set_params(time_limit=None).partial_fit(X[200:], y[200:])
    assert not model._online.inflow._waiting
    assert model._online.run.run.state.firsts == {0: 0, 1: 200}


def test_callbacks_are_closed_after_each_part():
    class Callback:
        closed = 0

        def __call__(self, record):
            pass

        def close(self):
            self.closed += 1

    callback, case = Callback(), CASES["binary"]
    model = case.new(callbacks=[callback])
    model.partial_fit(ROWS, case.y).partial_fit(ROWS, case.y)
    assert callback.closed == 2


@pytest.mark.parametrize("solver", ["dual_coordinate", DualCoordinate()])
def test_solvers_that_need_all_data_are_refused(name, solver):
    case = CASES[name]
    with pytest.raises(InvalidData, match=r"needs all data at once.*one of .*'online_cache'"):
        case.new(solver=solver).partial_fit(case.X, case.y)
    with pytest.raises(InvalidData, match=r"needs all data in memory.*'online_cache'"):
        case.new(solver=solver).fit(stream(name))


def test_rounds_have_no_partial_fit():
    assert not hasattr(LatentSVM(), "partial_fit")
    assert not hasattr(LatentStructuredSVM(Bags()), "partial_fit")
    assert hasattr(StructuredSVM(Tags(3)), "partial_fit")


def test_copies_after_a_part(name, tmp_path):
    case = CASES[name]
    model = case.new().partial_fit(case.X, case.y)
    model.save(tmp_path / "m")
    for again in (
        pickle.loads(pickle.dumps(model)), copy.deepcopy(model), load(tmp_path / "m", model)
    ):  # fmt: skip
        assert_array_equal(joint_weights(again), joint_weights(model))
        assert again.certificate_.exact is False
        assert not hasattr(again, "_online")
    assert not hasattr(clone(model), "coef_")
    assert hasattr(model, "_online")


# Margins


def test_margins_are_those_of_the_rows(tmp_path):
    case, margin = CASES["binary"], np.linspace(0.0, 3.0, 15)
    model = case.new(**TIGHT).fit(ROWS, case.y, WEIGHT, margin=margin)
    psi, _ = binary_blocks(ROWS, np.where(CODES > 0, 1, -1), 1.0)
    best, w = solve_qp(psi, list(margin[:, None]), 0.7 * WEIGHT, rtol=1e-7)
    assert_allclose(model.certificate_.primal, best, rtol=1e-6)
    assert_allclose(joint_weights(model), w, atol=2e-3)
    for how in ("shards", "stream"):
        data = source("binary", how, tmp_path / "set", weight=WEIGHT, margin=margin)
        assert_same_model(case.new(**TIGHT).fit(data), model)
    one = case.new(**TIGHT).fit(ROWS, case.y, margin=1.0)
    assert_array_equal(one.coef_, in_memory("binary").coef_)


@pytest.mark.parametrize(
    ("margin", "message"),
    [
        (-np.ones(15), r"margin\[0\] = -1\.0 is negative"),
        (
            np.ones(14),
            r"margin has shape \(14,\), expected \(15,\); pass one margin per row",
        ),
        (np.full(15, np.nan), "margin contains NaN"),
        (["a"] * 15, "margin"),
    ],
)
def test_bad_margins_are_refused(margin, message):
    with pytest.raises(InvalidData, match=message):
        BinarySVM().fit(ROWS, CASES["binary"].y, margin=margin)


# Priors


def shape_of(model):
    return np.atleast_2d(model.coef_).shape


def full_size(model, coef, rest):
    """w of an array in the shape of coef_ and a number for what is beside it."""
    n, W = len(joint_weights(model)), np.reshape(coef, shape_of(model)).T.ravel()
    return np.concatenate([W, np.full(n - W.size, rest)])


def given_priors(model):
    """Parameters, and the mean, precision and mask of w that they mean."""
    rng = np.random.default_rng(3)
    n, coef = len(joint_weights(model)), np.shape(model.coef_)
    size = int(np.prod(coef))
    mean, joint = rng.normal(size=coef), rng.normal(size=n)
    scale, joint_scale = rng.uniform(0.3, 3.0, coef), rng.uniform(0.3, 3.0, n)
    mask = rng.random(coef) < 0.5
    A = rng.normal(size=(n, n))
    full = A @ A.T / n + np.eye(n)
    block = np.eye(n)
    block[:size, :size] = full[:size, :size]
    zero, one, free = np.zeros(n), np.eye(n), np.zeros(n, dtype=bool)
    bounded = full_size(model, np.ones(coef), 0) > 0
    return {
        "mean": ({"prior_mean": mean}, (full_size(model, mean, 0.0), one, free)),
        "joint mean": ({"prior_mean": joint}, (joint, one, free)),
        "number": ({"prior_precision": 4.0}, (zero, 4.0 * one, free)),
        "precision": (
            {"prior_precision": scale}, (zero, np.diag(full_size(model, scale, 1.0)), free)
        ),
        "joint precision": (
            {"prior_precision": joint_scale.tolist()}, (zero, np.diag(joint_scale), free)
        ),
        "matrix": ({"prior_precision": full, "prior_mean": joint}, (joint, full, free)),
        "matrix of coef": ({"prior_precision": full[:size, :size]}, (zero, block, free)),
        "nonneg": ({"nonneg": True}, (zero, one, bounded)),
        "mask": (
            {"nonneg": mask, "prior_mean": mean},
            (full_size(model, mean, 0.0), one, full_size(model, mask, 0) > 0),
        ),
    }  # fmt: skip


#: Of all kinds. Tests are collected by each worker, and a fit here would be compiled by each.
PRIORS = [
    "mean", "joint mean", "number", "precision", "joint precision", "matrix", "matrix of coef",
    "nonneg", "mask",
]  # fmt: skip
SOME = ["binary", "multiclass", "regression", "chain", "pairwise", "structured"]


def assert_prior_optimum(model, mean, precision, mask, rtol=1e-5):
    psi, losses = reference_blocks(model)
    weights = model.C * np.ones(len(psi))
    best, _ = solve_prior_qp(psi, losses, weights, mean, precision, mask)
    w = joint_weights(model)
    assert_allclose(prior_primal(w, psi, losses, weights, mean, precision), best, rtol=rtol)
    assert_allclose(model.certificate_.primal, best, rtol=rtol)
    assert (w[mask] >= 0.0).all()


# What has no shape of its own beside w, or takes long to compile, has fewer kinds.
FEWER = ["joint mean", "precision", "mask"]
MATRICES = ["matrix", "matrix of coef"]
LONG = [
    *((name, kind) for name in ("binary", "chain") for kind in MATRICES),
    ("pairwise", "precision"),
    ("pairwise", "mask"),
]
PRODUCT = [
    long_if((name, kind) in LONG, name, kind)
    for name in SOME
    for kind in (
        PRIORS if name in ("binary", "chain") else FEWER + MATRICES * (name == "multiclass")
    )
]


@pytest.mark.parametrize(("name", "kind"), PRODUCT)
def test_priors_are_those_of_the_reference(name, kind):
    options, meant = given_priors(in_memory(name))[kind]
    model = CASES[name].fit(**TIGHT | {"tol": 1e-6}, **options)
    assert_prior_optimum(model, *meant)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", SOME)
def test_a_model_is_a_prior(name, frozen, tmp_path):
    case = CASES[name]
    first = case.fit(C=0.05, random_state=1)
    given = FrozenEstimator(first) if frozen else first
    model = case.fit(**TIGHT, prior_mean=given)
    w = joint_weights(first)
    assert_prior_optimum(model, w, np.eye(len(w)), np.zeros(len(w), dtype=bool))
    model.save(tmp_path / "m")
    again = load(tmp_path / "m", model)
    assert_array_equal(again.prior_mean, w)
    assert_array_equal(joint_weights(again.fit(case.X, case.y)), joint_weights(model))
    if frozen:
        assert_array_equal(joint_weights(clone(model).fit(case.X, case.y)), joint_weights(model))


@pytest.mark.parametrize("name", names(SOME, long=["pairwise"]))
def test_a_strong_prior_pins_the_weights(name):
    case, n = CASES[name], len(joint_weights(in_memory(name)))
    mean = np.random.default_rng(0).normal(size=n)
    model = case.fit(prior_mean=mean, prior_precision=np.full(n, 1e8))
    assert_allclose(joint_weights(model), mean, atol=1e-5)


def test_transfer_by_hand():
    """One row: w = mean + a x with a = C, or what it takes to meet the margin."""
    X, y, mean = [[1.0, 2.0], [-1.0, -2.0]], [1, 0], np.array([0.1, -0.2])
    for C, a in ((0.05, 0.05), (10.0, (1.0 + 0.3) / 10.0)):
        model = BinarySVM(C=C, fit_intercept=False, prior_mean=mean, tol=1e-9, random_state=0)
        model.fit(X, y)
        assert_allclose(model.coef_[0], mean + 2 * a * np.array([1.0, 2.0]), atol=1e-4)


def test_intercepts_are_not_bounded():
    X = np.abs(ROWS)
    for model, y in ((BinarySVM(nonneg=True, C=5.0), [0] * 12 + [1] * 3),
                     (RegressionSVM(nonneg=True, C=5.0), -np.ones(15))):  # fmt: skip
        model.fit(X, y)
        assert (model.coef_ >= 0.0).all()
        assert model.intercept_[0] < 0.0


BAD = [
    ({"prior_mean": np.ones(9)}, r"prior_mean has shape \(9,\): give an array in the shape of"),
    ({"prior_mean": np.ones((2, 3))}, r"prior_mean has shape \(2, 3\)"),
    ({"prior_mean": [np.nan] * 3}, r"prior_mean\[0\] = nan: give finite numbers"),
    ({"prior_mean": ["a", "b", "c"]}, "prior_mean"),
    ({"prior_precision": np.ones(7)}, r"prior_precision has shape \(7,\)"),
    ({"prior_precision": -1.0}, "it must be positive"),
    ({"prior_precision": np.ones((5, 5))}, r"prior_precision has shape \(5, 5\)"),
    ({"nonneg": np.ones(3)}, "nonneg has dtype float64"),
    ({"nonneg": [True, False]}, r"nonneg has shape \(2,\)"),
    ({"nonneg": True, "prior_precision": np.eye(3)}, "full matrix and nonneg is set"),
]


@pytest.mark.parametrize(("options", "message"), BAD)
@pytest.mark.parametrize("name", ["binary", "regression", "pairwise"])
def test_bad_priors_are_refused(name, options, message):
    with pytest.raises(InvalidData, match=message):
        CASES[name].fit(**options)
    with pytest.raises(InvalidData, match=message):
        CASES[name].new(**options).fit(stream(name))


def test_models_that_are_no_priors_are_refused():
    with pytest.raises(NotFittedError, match="is not fitted: fit it first"):
        CASES["binary"].fit(prior_mean=BinarySVM())
    other = MulticlassSVM(random_state=0).fit(ROWS, CODES)
    with pytest.raises(InvalidData, match="prior_mean is a model of 12 weights, this one has 4"):
        CASES["binary"].fit(prior_mean=other)


def test_priors_are_searched():
    case = CASES["binary"]
    first = FrozenEstimator(case.fit(C=0.05))
    grid = {"prior_mean": [None, first, np.ones((1, 3))], "prior_precision": [None, 2.0]}
    search = GridSearchCV(case.new(), grid, cv=KFold(3)).fit(ROWS, case.y)
    best = case.fit(**search.best_params_)
    assert_array_equal(search.best_estimator_.coef_, best.coef_)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        long_if((name, kind) in LONG, name, kind)
        for name in ("binary", "chain", "structured")
        for kind in ("mean", "joint precision", "mask", "matrix")
    ],
)
def test_priors_in_streams_are_those_in_memory(name, kind, tmp_path):
    options, meant = given_priors(in_memory(name))[kind]
    model = CASES[name].new(**TIGHT, **options).fit(stream(name))
    assert_prior_optimum(model, *meant)
    model.save(tmp_path / "m")
    assert_array_equal(joint_weights(load(tmp_path / "m", model)), joint_weights(model))


def test_sparse_rows_and_solver_objects_in_sources():
    case = CASES["multiclass"]
    data = Stream(pieces(sp.csr_array(ROWS), case.y))
    model = case.new(**TIGHT, solver=OnlineCache("20MB", shuffle=False)).fit(data)
    assert_same_model(model, in_memory("multiclass"))
