"""Estimators with kernels: the same objective, the same methods, and certificates that are true."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

import reference
import taut
from cases import long_if
from estimator_cases import (
    BAGS,
    CASES,
    CODES,
    LABELS,
    NEW,
    NUMBERS,
    OFFSETS,
    RNG,
    SEQUENCES,
    SIGNS,
    STARS,
    X,
)
from own_structures import Tags
from taut import Status
from taut.data import Stream
from taut.errors import InvalidData, InvalidFile, InvalidStructure, InvalidType
from taut.estimators.compression import training_problem
from taut.estimators.forms import KERNEL
from taut.kernels import RBF, Function, Laplacian, Linear, Polynomial, Precomputed, VonMises
from taut.storage import files

# Structures see potentials, and no rows: what has a kernel is tried on each form of dual variables.
SLOW = ("tree", "graph", "rank", "frames", "latent")
CONVEX = [name for name in CASES if name not in ("bags", "frames", "latent")]


def flat(values):
    return np.concatenate([np.ravel(v) for v in values]) if isinstance(values, list) else values


def some(names):
    return pytest.mark.parametrize("name", [long_if(name in SLOW, name) for name in names])


def made(name, **parameters):
    """A fresh model, the data, and what loading it takes."""
    estimator, x, y = CASES[name]
    model = clone(estimator).set_params(random_state=0, **parameters)
    return model, x, y


@pytest.fixture(scope="module")
def fitted():
    """Models with an RBF kernel by name, each fitted once."""
    models = {}

    def get(name):
        if name not in models:
            model, x, y = made(name, kernel="rbf", C=2.0, tol=1e-4)
            models[name] = model.fit(x, y), x, y
        return models[name]

    return get


# The objective


@pytest.mark.filterwarnings("ignore::taut.errors.NotConverged")  # rounding ends some just above tol
@some(CASES)
def test_inner_products_as_a_kernel_are_the_linear_model(name):
    options = {"tol": 1e-6, "max_iter": 3000}
    linear, x, y = made(name, **options)
    kernel = made(name, kernel=Linear(), **options)[0]
    theirs, ours = linear.fit(x, y).certificate_, kernel.fit(x, y).certificate_
    assert_allclose(ours.primal, theirs.primal, rtol=2e-6)
    assert hasattr(linear, "coef_")
    assert kernel.kernel_.settings() == {}
    predicted = flat(linear.predict(x)), flat(kernel.predict(x))
    if predicted[0].dtype.kind == "f":
        assert_allclose(*predicted, atol=1e-2)
    else:
        assert np.mean(predicted[0] == predicted[1]) > 0.9  # labels may be tied


@pytest.mark.parametrize("kernel", [RBF(0.5), 0.5 * Laplacian(0.3) + Linear()])
@pytest.mark.parametrize("name", ["binary", "multiclass", "regression"])
def test_the_optimum_is_that_of_a_quadratic_program(name, kernel):
    model, x, y = made(name, kernel=kernel, C=2.0, tol=1e-5, max_iter=5000)
    root = np.linalg.cholesky(kernel(X) + 1.0 + 1e-10 * np.eye(len(X)))
    psi, losses = {
        "binary": lambda: reference.binary_blocks(root, SIGNS),
        "multiclass": lambda: reference.multiclass_blocks(root, CODES, 3),
        "regression": lambda: reference.regression_blocks(root, NUMBERS, 0.05),
    }[name]()
    optimum = reference.solve_qp(psi, losses, np.full(len(X), 2.0), rtol=1e-7)[0]
    assert_allclose(model.fit(x, y).certificate_.primal, optimum, rtol=2e-5)


def test_the_dual_is_that_of_libsvm():
    # A regularised bias is the kernel K + 1 without a bias; opposite rows keep that of LIBSVM at 0.
    K = np.block([[RBF(0.5)(X) + 1.0, np.zeros((60, 60))], [np.zeros((60, 60)), RBF(0.5)(X) + 1.0]])
    signs = np.concatenate([SIGNS, -SIGNS])
    theirs = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(K, signs)
    beta = theirs.dual_coef_[0]
    dual = np.abs(beta).sum() - 0.5 * beta @ K[np.ix_(theirs.support_, theirs.support_)] @ beta
    ours = taut.BinarySVM(kernel="rbf", gamma=0.5, tol=1e-6, random_state=0).fit(X, SIGNS)
    assert_allclose(2.0 * ours.certificate_.dual, dual, rtol=1e-4)


def test_sample_weights_and_class_weights_multiply_c():
    weight = RNG.integers(1, 3, size=60)
    settings = {"kernel": RBF(0.5), "tol": 1e-6, "random_state": 0}
    weighted = taut.MulticlassSVM(**settings).fit(X, CODES, sample_weight=weight)
    again = np.repeat(np.arange(60), weight)
    repeated = taut.MulticlassSVM(**settings).fit(X[again], CODES[again])
    assert_allclose(weighted.certificate_.primal, repeated.certificate_.primal, rtol=2e-6)
    by_class = taut.MulticlassSVM(**settings, class_weight={0: 2.0, 1: 1.0, 2: 3.0})
    by_row = taut.MulticlassSVM(**settings).fit(X, CODES, np.array([2.0, 1.0, 3.0])[CODES])
    assert_allclose(by_class.fit(X, CODES).certificate_.primal, by_row.certificate_.primal, 2e-6)


# What a fitted model is


@pytest.mark.parametrize("name", ["binary", "multiclass", "chain"])
def test_the_certificate_is_that_of_the_stored_coefficients(fitted, name):
    model, x, y = fitted(name)
    assert_array_equal(model.support_vectors_, X[model.support_])
    assert (model.dual_coef_ != 0.0).any(axis=0).all()
    problem = training_problem(model, x, y, {})
    assert_allclose(problem.primal(KERNEL.point(model)), model.certificate_.primal, rtol=1e-10)
    assert_allclose(model.kernel_.gamma, 1.0 / (3 * X.var()))
    assert model.n_rows_ == 60


def test_support_is_counted_by_class(fitted):
    for name, y in (("binary", SIGNS), ("multiclass", CODES)):
        model = fitted(name)[0]
        codes = np.searchsorted(model.classes_, y[model.support_])
        assert_array_equal(model.n_support_, np.bincount(codes))
    assert_array_equal(fitted("chain")[0].n_support_, [len(fitted("chain")[0].support_)])


def test_there_are_no_weights_of_features(fitted):
    model = fitted("binary")[0]
    with pytest.raises(AttributeError, match="has no coef_: its features are not written down"):
        _ = model.coef_
    with pytest.raises(AttributeError, match="no kernel was fitted"):
        _ = taut.BinarySVM(random_state=0).fit(X, SIGNS).n_support_
    assert not hasattr(taut.BinarySVM(), "coef_")
    again = clone(model).set_params(kernel="linear").fit(X, SIGNS)
    assert again.coef_.shape == (1, 3)
    assert not hasattr(again, "dual_coef_")


# Predictions


@some(["binary", "multiclass", "regression", "rank"])
def test_scores_are_sums_over_support_rows(fitted, name):
    model = fitted(name)[0]
    method = getattr(model, "decision_function", model.predict)
    expected = np.empty((len(NEW), len(model.dual_coef_)))
    for p, x in enumerate(NEW):
        expected[p] = model.intercept_
        for z, b in zip(model.support_vectors_, model.dual_coef_.T, strict=True):
            expected[p] += b * np.exp(-model.kernel_.gamma * ((x - z) ** 2).sum())
    assert_allclose(method(NEW), np.squeeze(expected), rtol=1e-9, atol=1e-12)
    threaded = copy.copy(model).set_params(n_jobs=3)
    assert_allclose(getattr(threaded, method.__name__)(NEW), method(NEW), rtol=1e-12)
    single = method(NEW.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, method(NEW), rtol=1e-3, atol=1e-4)
    assert_allclose(method(sp.csr_array(NEW)), method(NEW), rtol=1e-9)


@some(["chain", "tree"])
def test_labels_of_structures_have_the_highest_score(fitted, name):
    model, x, _ = fitted(name)
    labels, scores = model.predict_top(x, k=3)
    for best, predicted in zip(labels, model.predict(x), strict=True):
        assert_array_equal(best[0], predicted)
    nodes = sum(
        np.exp(-model.kernel_.gamma * ((X[:, None] - z) ** 2).sum(-1)) * b
        for z, b in zip(model.support_vectors_, model.dual_coef_.T, strict=True)
    )
    for i, (start, stop) in enumerate(pairwise(OFFSETS)):
        y = labels[i][1] if len(labels[i]) > 1 else labels[i][0]
        expected = nodes[np.arange(start, stop), y].sum()
        if name == "chain":
            expected += model.transition_[y[:-1], y[1:]].sum() + model.start_[y[0]]
            expected += model.end_[y[-1]]
        else:
            expected += model.pair_weights_[0, y[0], y[1:]].sum()
        assert_allclose(scores[i][min(1, len(scores[i]) - 1)], expected, rtol=1e-7, atol=1e-9)
    marginals = model.predict_marginals(x, temperature=1.0)
    assert_allclose(np.concatenate(marginals).sum(axis=1), 1.0)


@pytest.mark.parametrize("name", ["binary", "multiclass"])
def test_probabilities(name):
    model, x, y = made(name, kernel="rbf", calibrate=0.3)
    model.fit(x, y)
    assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0)
    assert_allclose(model.predict_marginals(NEW), model.predict_proba(NEW))
    labels, _ = model.predict_top(NEW, k=2)
    assert_array_equal(labels[:, 0], model.predict(NEW))
    K = RBF(0.4)(X)
    by_matrix = clone(model).set_params(kernel="precomputed").fit(K, y)
    by_rows = clone(model).set_params(kernel=RBF(0.4)).fit(X, y)
    assert_allclose(by_matrix.temperature_, by_rows.temperature_, rtol=1e-2)


def test_a_matrix_is_as_good_as_rows():
    kernel = RBF(0.4)
    settings = {"tol": 1e-6, "random_state": 0}
    rows = taut.BinarySVM(kernel=kernel, **settings).fit(X, SIGNS)
    for given in ("precomputed", 1.0 * Precomputed()):
        matrix = taut.BinarySVM(kernel=given, **settings).fit(kernel(X), SIGNS)
        K = kernel(NEW, X)
        assert_allclose(matrix.decision_function(K), rows.decision_function(NEW), atol=1e-4)
    assert not hasattr(matrix, "support_vectors_")
    with pytest.raises(ValueError, match="60 features"):
        matrix.predict(K[:, 1:])
    scores = cross_val_score(taut.BinarySVM(kernel="precomputed"), kernel(X), SIGNS, cv=3)
    expected = cross_val_score(taut.BinarySVM(kernel=kernel), X, SIGNS, cv=3)
    assert_allclose(scores, expected, atol=0.06)
    diagonal = taut.BinarySVM(kernel="precomputed", random_state=0).fit(np.eye(60), SIGNS)
    assert diagonal.score(np.eye(60), SIGNS) == 1.0  # as zeros, it would be CSR


def test_functions_get_rows_as_they_were_given():
    kinds = set()

    def product(A, B):
        kinds.update([type(A), type(B)])
        return A @ B.T

    histograms = np.maximum(X - 1.0, 0.0)  # mostly zeros
    model = taut.BinarySVM(kernel=product, random_state=0).fit(histograms, SIGNS)
    assert_allclose(
        model.certificate_.primal,
        taut.BinarySVM(random_state=0).fit(histograms, SIGNS).certificate_.primal,
        rtol=2e-3,
    )
    model.predict(histograms)
    assert kinds == {np.ndarray}
    assert isinstance(model.support_vectors_, np.ndarray)


def test_changed_attributes_count(fitted):
    model = copy.deepcopy(fitted("binary")[0])
    before = model.decision_function(NEW)
    model.intercept_ = model.intercept_ - 0.3
    assert_allclose(model.decision_function(NEW), before - 0.3)
    model.dual_coef_ *= 2.0
    model.intercept_ *= 2.0
    assert_allclose(model.decision_function(NEW), 2.0 * (before - 0.3))


def test_a_model_without_support_predicts_zeros():
    model = taut.RegressionSVM(kernel="rbf", epsilon=100.0, random_state=0).fit(X, NUMBERS)
    assert model.support_vectors_.shape == (0, 3)
    assert_array_equal(model.predict(NEW), np.zeros(len(NEW)))


# Files, copies, and starts


@some(CASES)
def test_models_come_back_from_files_and_pickles(fitted, name, tmp_path):
    model, x, _ = fitted(name)
    path = tmp_path / "model.taut"
    model.save(path)
    structure = {"structure": model.structure} if hasattr(model, "structure") else {}
    for again in (taut.load(path, **structure), pickle.loads(pickle.dumps(model))):
        assert_array_equal(flat(again.predict(x)), flat(model.predict(x)))
        assert repr(again.kernel_) == repr(model.kernel_)
        assert again.certificate_ == model.certificate_


@pytest.mark.parametrize(
    "kernel", [2.0 * (RBF(0.5) + Linear() * Laplacian()), "precomputed", "linear", None]
)
def test_kernels_are_stored_by_name(kernel, tmp_path):
    rows = RBF()(X) if isinstance(kernel, str) and kernel == "precomputed" else X
    model = taut.BinarySVM(kernel=kernel, random_state=0).fit(rows, SIGNS)
    model.save(tmp_path / "model")
    again = taut.load(tmp_path / "model")
    assert repr(again.kernel) == repr(kernel)
    assert_array_equal(again.decision_function(rows), model.decision_function(rows))


def test_sparse_support_is_stored(tmp_path):
    rows = sp.random_array((60, 30), density=0.1, rng=np.random.default_rng(0), format="csr")
    model = taut.BinarySVM(kernel="rbf", random_state=0).fit(rows, SIGNS)
    assert sp.issparse(model.support_vectors_)
    model.save(tmp_path / "model")
    again = taut.load(tmp_path / "model")
    assert_array_equal(again.decision_function(rows), model.decision_function(rows))


def test_functions_cannot_be_stored(tmp_path):
    for kernel in (lambda A, B: A @ B.T, Function(lambda A, B: A @ B.T) + Linear()):
        model = taut.BinarySVM(kernel=kernel, random_state=0).fit(X, SIGNS)
        with pytest.raises(InvalidType, match="cannot be stored: fit with kernel='precomputed'"):
            model.save(tmp_path / "model")


def settings(**values):
    return lambda tensors, meta: meta["fitted"]["kernel_"]["kernel"].update(values)


def tensor(name, value):
    return lambda tensors, meta: tensors.update({name: np.asarray(value)})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (settings(name="Function"), "unknown kernel"),
        (settings(name="Kernel"), "unknown kernel"),
        (settings(settings={"gamma": -1.0}), "gamma"),
        (settings(settings={"gamma": "os.system"}), "gamma"),
        (settings(settings={}), "settings"),
        (settings(settings={"gamma": 1.0, "function": 3}), "function"),
        (settings(name="Sum", settings={"kernels": []}), "without end"),
        (settings(name="Precomputed", settings={}), "do not agree"),
        (lambda tensors, meta: meta["fitted"].pop("support_vectors_"), "do not agree"),
        (lambda tensors, meta: meta["fitted"].update(kernel_={"value": "rbf"}), "no kernel"),
        (lambda tensors, meta: meta["fitted"].pop("dual_coef_"), "missing"),
        (tensor("support_", np.arange(3)), "shape"),
        (lambda tensors, meta: tensors.update(support_=tensors["support_"] + 10**6), "beyond"),
        (lambda tensors, meta: tensors.update(support_=tensors["support_"][::-1].copy()), "rise"),
        (lambda tensors, meta: tensors["support_vectors_"].fill(np.nan), "finite"),
        (tensor("intercept_", [1.0, 2.0]), "shape"),
        (lambda tensors, meta: tensors["support_classes_"].fill(2), "no class"),
    ],
)  # fmt: skip
def test_files_that_lie_are_refused(fitted, tmp_path, change, message):
    path = tmp_path / "model"
    fitted("binary")[0].save(path)
    tensors, meta = files.read(path, "model")
    tensors = {name: array.copy() for name, array in tensors.items()}
    change(tensors, meta)
    files.write(path, "model", tensors, meta)
    with pytest.raises(InvalidFile, match=message):
        taut.load(path)


@pytest.mark.parametrize("part", ["indices", "indptr"])
def test_sparse_rows_that_lie_are_refused(tmp_path, part):
    rows = sp.random_array((60, 30), density=0.1, rng=np.random.default_rng(0), format="csr")
    path = tmp_path / "model"
    taut.BinarySVM(kernel="rbf", random_state=0).fit(rows, SIGNS).save(path)
    tensors, meta = files.read(path, "model")
    name = f"support_vectors_.{part}"
    tensors[name] = tensors[name] + 10**6
    files.write(path, "model", tensors, meta)
    with pytest.raises(InvalidFile, match="CSR rows"):
        taut.load(path)


def test_warm_starts_and_checkpoints(tmp_path):
    settings = {"kernel": RBF(0.5), "tol": 1e-6, "random_state": 0}
    model = taut.MulticlassSVM(warm_start=True, **settings).fit(X, CODES)
    passes = model.n_iter_
    again = model.fit(X, CODES)
    assert again.n_iter_ < passes
    model.set_params(kernel=RBF(0.7))
    with pytest.raises(InvalidData, match="other data"):
        model.fit(X, CODES)
    path = tmp_path / "run"
    with pytest.warns(taut.errors.NotConverged):
        taut.MulticlassSVM(checkpoint=path, **settings | {"max_iter": 5}).fit(X, CODES)
    resumed = taut.MulticlassSVM(checkpoint=path, **settings).fit(X, CODES)
    whole = taut.MulticlassSVM(**settings).fit(X, CODES)
    assert_allclose(resumed.dual_coef_, whole.dual_coef_, atol=1e-9)


def test_latent_rounds_start_from_the_last_fit(fitted):
    model, x, y = fitted("bags")
    again = copy.copy(model).set_params(warm_start=True).fit(x, y)
    assert again.rounds_["objective"][-1] <= model.rounds_["objective"][-1] * (1 + 1e-6)
    assert_array_equal(again.predict_latent(x)[BAGS == 1], again.latent_)


# Paths


@pytest.mark.parametrize("name", ["binary", "chain"])
def test_paths_prove_their_bounds(name):
    model, x, y = made(name, kernel=RBF(0.5))
    walked = taut.path(model, x, y, 0.05, 2.0, gap=0.05)
    assert walked.gap <= 0.05
    for C in (0.05, 0.11, 0.6, 2.0):
        at = walked.at(C)
        again = training_problem(at, x, y, {}).primal(KERNEL.point(at))
        assert again <= walked.bounds_at(C)[0] * (1 + 1e-9)
        optimum = made(name, kernel=RBF(0.5), C=C, tol=1e-5)[0].fit(x, y).certificate_
        assert walked.bounds_at(C)[1] <= optimum.primal
        assert_array_equal(at.support_vectors_, X[at.support_])


def test_paths_choose_c():
    search, matrix = (
        taut.path_cv(
            taut.BinarySVM(kernel=kernel, random_state=0), rows, SIGNS, 0.1, 3.0, gap=0.02, cv=3,
            n_points=5, verbose=0,
        )
        for kernel, rows in ((RBF(0.5), X), ("precomputed", RBF(0.5)(X)))
    )  # fmt: skip
    assert_allclose(matrix.scores, search.scores, atol=0.06)
    assert search.best_estimator_.score(X, SIGNS) > 0.7


# Fewer rows


@some([name for name in CONVEX if name != "structured"])
def test_compressed_models_have_true_certificates(fitted, name):
    model, x, y = fitted(name)
    before = copy.deepcopy(model.dual_coef_)
    small = model.compress(x, y, n_support=0.5)
    assert_array_equal(model.dual_coef_, before)
    assert len(small.support_) <= 0.5 * len(model.support_)
    assert_array_equal(small.support_vectors_, X[small.support_])
    certificate = small.certificate_
    again = training_problem(small, x, y, {}).primal(KERNEL.point(small))
    assert_allclose(certificate.primal, again, rtol=1e-12)
    assert certificate.dual == model.certificate_.dual <= certificate.primal
    assert certificate.status is Status.COMPRESSED
    assert f"to {len(small.support_)} support rows" in certificate.message
    assert small.score(x, y) >= model.score(x, y) - 0.2


@pytest.mark.parametrize("tol", [0.1, 1e-3])
def test_compression_keeps_its_tolerance(fitted, tol):
    model, x, y = fitted("binary")
    small = model.compress(x, y, tol=tol)
    assert small.certificate_.primal <= (1 + tol) * model.certificate_.primal
    assert len(small.support_) < len(model.support_)
    coarse = model.compress(x, y, n_support=max(len(small.support_) // 2, 1))
    assert coarse.certificate_.primal > small.certificate_.primal


def test_compression_of_a_matrix_and_of_the_whole_model(fitted, tmp_path):
    K = RBF(0.5)(X)
    model = taut.BinarySVM(kernel="precomputed", random_state=0).fit(K, SIGNS)
    small = model.compress(K, SIGNS, n_support=10)
    assert len(small.support_) == 10
    small.save(tmp_path / "model")
    again = taut.load(tmp_path / "model")
    assert_array_equal(again.decision_function(K), small.decision_function(K))
    model, x, y = fitted("multiclass")
    whole = model.compress(x, y, n_support=len(model.support_))
    assert whole.certificate_.primal <= model.certificate_.primal * (1 + 1e-4)


def test_compression_needs_the_training_data(fitted):
    model, x, y = fitted("binary")
    with pytest.raises(InvalidData, match="not the rows of X"):
        model.compress(x + 1.0, y, n_support=5)
    with pytest.raises(InvalidData, match="objective of the model"):
        model.compress(x, -y, n_support=5)
    with pytest.raises(InvalidData, match="59 rows"):
        model.compress(x[1:], y[1:], n_support=5)
    with pytest.raises(InvalidData, match="needs one of"):
        model.compress(x, y)
    for wrong in (0, -1, 1.5, "x"):
        with pytest.raises(InvalidData, match="n_support"):
            model.compress(x, y, n_support=wrong)
    with pytest.raises(InvalidData, match="tol"):
        model.compress(x, y, tol=0.0)
    with pytest.raises(InvalidData, match="compress is for models with a kernel on rows"):
        taut.BinarySVM(random_state=0).fit(x, y).compress(x, y, n_support=5)
    with pytest.raises(AttributeError, match="no compress"):
        _ = fitted("bags")[0].compress


# What is refused


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "rbff"}, "give one of 'linear', 'rbf'"),
        ({"kernel": RBF}, "give a name such as 'rbf'"),
        ({"kernel": 3}, "give a name such as 'rbf'"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma = -1.0"),
        ({"kernel": "poly", "degree": 0}, "degree"),
        ({"kernel": "rbf", "cache": "lots"}, "cache = 'lots'"),
        ({"kernel": "rbf", "nonneg": True}, "nonneg is about single weights"),
        ({"kernel": "rbf", "prior_mean": np.zeros((1, 3))}, "prior_mean is about single weights"),
        ({"kernel": "rbf", "prior_precision": 2.0}, "prior_precision is about single weights"),
        ({"kernel": "rbf", "solver": "online_cache"}, "leave the kernel or the space out"),
        ({"kernel": "rbf", "solver": "hard_negatives"}, "use solver='dual_coordinate'"),
        ({"kernel": "precomputed"}, "square matrix"),
        ({"kernel": "intersection"}, "which are >= 0"),
        ({"kernel": VonMises()}, "more than a full turn"),
        ({"kernel": Polynomial(3, 1.0, -50.0)}, "not positive definite"),
        ({"kernel": lambda A, B: A[:, :1]}, "returned shape"),
        ({"kernel": lambda A, B: (A @ B.T).astype(np.float16)}, "float16"),
        ({"kernel": lambda A, B: np.nan * (A @ B.T)}, "NaN"),
    ],
)  # fmt: skip
def test_refused_before_work_is_done(parameters, message):
    rows = 10.0 * X
    with pytest.raises((InvalidData, InvalidType, InvalidStructure), match=message):
        taut.BinarySVM(random_state=0, **parameters).fit(rows, SIGNS)


def test_matrices_that_are_no_kernels_are_refused():
    K, model = RBF(0.5)(X), taut.BinarySVM(kernel="precomputed")
    skew = K.copy()
    skew[0, 1] += 0.1
    with pytest.raises(InvalidData, match="not symmetric"):
        model.fit(skew, SIGNS)
    with pytest.raises(InvalidData, match="smallest eigenvalue"):
        model.fit(K - np.eye(60), SIGNS)
    with pytest.raises(InvalidData, match="NaN"):
        model.fit(np.where(K == 1.0, np.nan, K), SIGNS)
    groups = np.arange(60) % 2
    with pytest.raises(InvalidData, match="sort its rows and columns"):
        taut.RankSVM(kernel="precomputed").fit(K, CODES, groups=groups)


def test_new_rows_are_checked(fitted):
    model = fitted("binary")[0]
    for wrong, message in ((np.nan, "NaN"), (np.inf, "infinity")):
        with pytest.raises(InvalidData, match=message):
            model.predict(np.where(NEW[0, 0] == NEW, wrong, NEW))
    with pytest.raises(ValueError, match="3 features"):
        model.predict(NEW[:, :2])
    angles = np.mod(X, 2.0 * np.pi)
    model = taut.BinarySVM(kernel="von_mises", gamma=2.0, random_state=0).fit(angles, SIGNS)
    with pytest.raises(InvalidData, match="deg2rad"):
        model.predict(np.rad2deg(angles))
    with pytest.raises(InvalidData, match="rows of 3"):
        fitted("structured")[0].predict((NEW[:, :2], np.array([0, 17])))


def test_data_in_parts_are_refused():
    model = taut.BinarySVM(kernel="rbf")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="call fit with all of them"):
        model.partial_fit(X, SIGNS)
    stream = Stream([(X, SIGNS)])
    for estimator in (
        model,
        taut.LatentSVM(kernel="rbf"),
        taut.StructuredSVM(Tags(2), kernel="rbf"),
    ):
        with pytest.raises(InvalidData, match="give them in memory"):
            estimator.fit(stream)


def test_structures_without_rows_are_refused():
    edges = [(x, e, np.full((len(e), 1), 2.0)) for x, e in STARS]
    with pytest.raises(InvalidData, match="edges have features"):
        taut.TreeSVM(kernel="rbf").fit(edges, LABELS)
    for inference in ("cut", "relaxed"):
        with pytest.raises(InvalidData, match="kernels need exact inference"):
            taut.GraphSVM(kernel="rbf", inference=inference).fit(STARS, SIGNS)
    labels = [tuple(bits) for bits in RNG.integers(2, size=(60, 2)).tolist()]
    with pytest.raises(InvalidData, match="needs a compiled structure"):
        taut.StructuredSVM(Tags(2), kernel="rbf").fit(X, labels)
    with pytest.raises(InvalidData, match="start='first'"):
        taut.LatentSVM(kernel="rbf").fit(SEQUENCES, BAGS)
    kernel = taut.BinarySVM(kernel="rbf", random_state=0).fit(X, SIGNS)
    with pytest.raises(InvalidData, match="give a linear model"):
        taut.BinarySVM(prior_mean=kernel).fit(X, SIGNS)
