"""TreeSVM and GraphSVM: the optimum, labels of any kind, priors, files, and what is refused."""

import copy
import functools
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import taut
from reference import graph_blocks, prior_primal, solve_prior_qp, solve_qp
from taut import ChainSVM, GraphSVM, TreeSVM
from taut.data import Stream
from taut.data.graphs import as_graphs
from taut.errors import InvalidData

SQUARE, PATH = [[0, 1], [1, 2], [2, 3], [3, 0]], [[0, 1], [1, 2]]
NAMES = np.array(["sea", "sky", ("other", 1)], dtype=object)


@functools.cache
def data(edge_features=1, seed=0):
    """Squares and paths whose labels follow the features, and their codes."""
    rng = np.random.default_rng(seed)
    X, y = [], []
    for edges in (SQUARE, PATH, SQUARE, [], PATH):
        n_nodes = 4 if edges is SQUARE else 3
        codes = rng.integers(3, size=n_nodes)
        features = np.eye(3)[codes] + 0.7 * rng.normal(size=(n_nodes, 3))
        X.append((features, edges, rng.uniform(0.5, 1.5, size=(len(edges), edge_features))))
        y.append(codes)
    return X, y


def named(y):
    return [list(NAMES[codes]) for codes in y]


TIGHT = {"C": 0.5, "tol": 1e-7, "max_iter": 10000, "random_state": 0}


@functools.cache
def fitted(pairwise="full", **options):
    X, y = data()
    return GraphSVM(pairwise=pairwise, **TIGHT | options).fit(X, named(y))


@pytest.mark.parametrize("loss", ["hamming", "mean_hamming"])
@pytest.mark.parametrize("pairwise", ["full", "symmetric", "potts"])
def test_fit_is_the_optimum(pairwise, loss):
    X, y = data(2)
    weight = np.array([1.0, 2.0, 0.5, 1.0, 0.0])
    model = GraphSVM(pairwise=pairwise, loss=loss, **TIGHT).fit(X, named(y), weight)
    order = [list(model.classes_).index(name) for name in NAMES]
    codes = [np.array(order)[c] for c in y]
    psi, losses = graph_blocks(X, codes, 3, pairwise, loss == "mean_hamming")
    assert_allclose(model.certificate_.primal, solve_qp(psi, losses, 0.5 * weight)[0], rtol=1e-6)
    assert model.coef_.shape == (3, 3)
    assert model.pairwise_.shape == (2, {"full": 9, "symmetric": 6, "potts": 1}[pairwise])
    pairs = model.pair_weights_
    assert pairs.shape == (2, 3, 3)
    if pairwise == "full":
        assert_array_equal(pairs.reshape(2, 9), model.pairwise_)
    else:
        assert_array_equal(pairs, pairs.transpose(0, 2, 1))
    if pairwise == "potts":
        assert_array_equal(pairs, model.pairwise_[:, :, None] * np.eye(3))
    # Predictions are the best labels by what is published.
    for (x, edges, features), predicted in zip(X, model.predict(X), strict=True):

        def score(labels, x=x, edges=edges, features=features):
            along = sum(f @ pairs[:, labels[u], labels[v]] for (u, v), f in zip(edges, features))
            return sum(model.coef_[k] @ row for k, row in zip(labels, x)) + along

        best = max(itertools.product(range(3), repeat=len(x)), key=score)
        assert list(predicted) == list(model.classes_[list(best)])


def test_trees_that_are_chains():
    rng = np.random.default_rng(1)
    lengths = (3, 1, 4, 2)
    rows = [rng.normal(size=(n, 2)) for n in lengths]
    y = [rng.integers(3, size=n) for n in lengths]
    X = [(x, [[t, t + 1] for t in range(len(x) - 1)]) for x in rows]
    tree, chain = TreeSVM(**TIGHT).fit(X, y), ChainSVM(**TIGHT).fit(rows, y)
    assert_allclose(tree.certificate_.primal, chain.certificate_.primal, rtol=1e-6)
    assert_allclose(tree.coef_, chain.coef_, atol=2e-3)
    assert_allclose(tree.pair_weights_[0], chain.transition_, atol=2e-3)


def test_score_is_the_share_of_nodes_that_are_right():
    model, (X, y) = fitted(), data()
    predicted = model.predict(X)
    right = [np.mean([a == b for a, b in zip(p, t)]) for p, t in zip(predicted, named(y))]
    sizes = [len(t) for t in y]
    assert model.score(X, named(y)) == pytest.approx(np.average(right, weights=sizes))
    assert model.score(X, named(y), [0, 0, 1, 0, 0]) == pytest.approx(right[2])
    assert model.score(X, list(NAMES[np.concatenate(y)])) == model.score(X, named(y))


def test_forms_of_data():
    X, y = data()
    model = fitted()
    single = [(x.astype(np.float32), *rest) for x, *rest in X]
    sparse = [(sp.csr_array(x), *rest) for x, *rest in X]
    for other in (single, sparse, as_graphs(X)):
        again = clone(model).fit(other, named(y))
        assert again.certificate_.primal == pytest.approx(model.certificate_.primal, rel=1e-5)
        for a, b in zip(again.predict(other), model.predict(other), strict=True):
            assert list(a) == list(b)


def test_online_cache_takes_graphs_one_by_one():
    X, y = data()
    model = clone(fitted()).set_params(solver="online_cache").fit(X, named(y))
    assert model.certificate_.primal == pytest.approx(fitted().certificate_.primal, rel=1e-6)
    with pytest.raises(InvalidData, match=r"X has 5 items .* takes lists of examples"):
        model.fit(as_graphs(data(2)[0][:4]), named(data(2)[1][:4]))


def test_priors_are_in_the_shape_of_the_weights():
    X, y = data()
    psi, losses = graph_blocks(X, y, 3)
    n = psi[0].shape[1]
    mean, precision = np.zeros(n), np.ones(n)
    mean[:9], precision[:9] = np.arange(9) / 10.0, np.linspace(0.5, 2.0, 9)
    nonneg = np.arange(n) < 9
    model = GraphSVM(
        prior_mean=mean[:9].reshape(3, 3),
        prior_precision=precision[:9].reshape(3, 3),
        nonneg=True,
        **TIGHT,
    ).fit(X, y)
    weights = np.full(len(X), 0.5)
    value, _ = solve_prior_qp(psi, losses, weights, mean, np.diag(precision), nonneg)
    w = np.concatenate([model.coef_.ravel(), model.pairwise_.ravel()])
    assert (model.coef_ >= 0.0).all()
    assert_allclose(
        prior_primal(w, psi, losses, weights, mean, np.diag(precision)), value, rtol=1e-6
    )
    # A model is a prior mean too: with no data to speak of, it stays what it was.
    again = GraphSVM(prior_mean=model, **TIGHT | {"C": 1e-9}).fit(X, y)
    assert_allclose(again.coef_, model.coef_, atol=1e-6)
    assert_allclose(again.pairwise_, model.pairwise_, atol=1e-6)


@pytest.mark.parametrize("kind", [GraphSVM, TreeSVM])
def test_models_are_saved_and_pickled(kind, tmp_path):
    X, y = data()
    X, y = X[1::2], y[1::2]
    model = kind(pairwise="symmetric", random_state=0).fit(X, named(y))
    model.save(tmp_path / "model.taut")
    for again in (taut.load(tmp_path / "model.taut"), pickle.loads(pickle.dumps(model))):
        assert type(again) is kind
        assert again.get_params() == model.get_params()
        assert_array_equal(again.pair_weights_, model.pair_weights_)
        for a, b in zip(again.predict(X), model.predict(X), strict=True):
            assert list(a) == list(b)


def test_warm_start_goes_on():
    X, y = data()
    model = GraphSVM(warm_start=True, **TIGHT).fit(X, y)
    first = model.n_iter_
    assert model.fit(X, y).n_iter_ < first


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda X, y: GraphSVM().fit(X), r"GraphSVM requires y to be passed, but the target y is"),
        (lambda X, y: TreeSVM().fit(X, y), r"X\[0\] is no tree or forest: edge 3, \(3, 0\), c"),
        (lambda X, y: GraphSVM(loss="zero").fit(X, y), r"loss = 'zero': give one of \['hamming'"),
        (lambda X, y: GraphSVM(pairwise="all").fit(X, y), r"pairwise = 'all': give one of"),
        (lambda X, y: GraphSVM(inference="odd").fit(X, y), r"inference = 'odd': give one of"),
        (lambda X, y: GraphSVM(max_table=9).fit(X, y), r"X\[0\] has cycles .* max_table = 9; give"),
        (lambda X, y: GraphSVM().fit(X, y[1:]), r"y has 4 entries, X has 17 rows in 5 sequences"),
        (lambda X, y: GraphSVM().fit(X, y, [1.0]), r"sample_weight has shape \(1,\), expected"),
        (
            lambda X, y: GraphSVM().fit(Stream([(X, y)], kind="examples")),
            r"GraphSVM learns from data in memory: give a list of graphs",
        ),
        (
            lambda X, y: fitted().predict([(np.ones((2, 3)), [[0, 1]], np.ones((1, 2)))]),
            r"X has 2 edge features, but GraphSVM is expecting 1: give the edge features",
        ),
        (
            lambda X, y: copy.copy(fitted()).set_params(pairwise="potts").predict(X),
            r"pairwise = 'potts' needs 1 weights of pairs, the fitted model has 9: set it to what",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(act, message):
    with pytest.raises(InvalidData, match=message):
        act(*data())


def test_other_features_and_no_fit():
    with pytest.raises(ValueError, match=r"X has 2 features, but GraphSVM is expecting 3"):
        fitted().predict([(np.ones((2, 2)), [[0, 1]])])
    for name in ("predict", "pair_weights_"):
        with pytest.raises(NotFittedError):
            getattr(GraphSVM(), name)(data()[0])
