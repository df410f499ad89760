"""TreeSVM and GraphSVM: the optimum, labels of any kind, priors, files, probabilities, kinds of
inference, and what is refused.
"""

import copy
import functools
import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import taut
from cases import long_if
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


def enumerated(model, x):
    """All labellings of a graph in codes, and their scores by what is published."""
    rows, edges, features = x
    labels = np.array(list(itertools.product(range(len(model.classes_)), repeat=len(rows))))
    scores = (rows @ model.coef_.T)[np.arange(len(rows)), labels].sum(axis=1)
    for (u, v), f in zip(edges, features, strict=True):
        scores += np.tensordot(f, model.pair_weights_, axes=1)[labels[:, u], labels[:, v]]
    return labels, scores


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
    for x, predicted in zip(X, model.predict(X), strict=True):
        labels, scores = enumerated(model, x)
        assert list(predicted) == list(model.classes_[labels[np.argmax(scores)]])


@pytest.mark.long
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


@pytest.mark.parametrize(
    "form",
    [
        long_if(True, lambda X: [(x.astype(np.float32), *rest) for x, *rest in X]),
        long_if(True, lambda X: [(sp.csr_array(x), *rest) for x, *rest in X]),
        as_graphs,
    ],
    ids=["single", "sparse", "graphs"],
)
def test_forms_of_data(form):
    X, y = data()
    model, other = fitted(), form(X)
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


@pytest.mark.parametrize("estimator", [GraphSVM, TreeSVM])
def test_models_are_saved_and_pickled(estimator, tmp_path):
    X, y = forests()
    model = estimator(pairwise="symmetric", random_state=0).fit(X, named(y))
    model.save(tmp_path / "model.taut")
    for again in (taut.load(tmp_path / "model.taut"), pickle.loads(pickle.dumps(model))):
        assert type(again) is estimator
        assert again.get_params() == model.get_params()
        assert_array_equal(again.pair_weights_, model.pair_weights_)
        for a, b in zip(again.predict(X), model.predict(X), strict=True):
            assert list(a) == list(b)


def forests():
    """The data of `data` whose graphs have no cycles."""
    X, y = data()
    return X[1::2], y[1::2]


@functools.cache
def fitted_trees():
    X, y = forests()
    return TreeSVM(pairwise="symmetric", **TIGHT).fit(X, named(y))


KINDS = {"graphs": (fitted, data), "trees": (fitted_trees, forests)}


@pytest.fixture(params=KINDS)
def kind(request):
    """A model, its graphs and their labels."""
    model, examples = KINDS[request.param]
    X, y = examples()
    return copy.copy(model()), X, named(y)


def test_marginals_are_those_of_enumeration(kind):
    model, X, _ = kind
    for x, marginals in zip(X, model.predict_marginals(X, 0.2), strict=True):
        labels, scores = enumerated(model, x)
        chances = softmax(scores / 0.2)
        expected = [np.bincount(column, chances, minlength=3) for column in labels.T]
        assert_allclose(marginals, expected, atol=1e-12)


@pytest.mark.parametrize("k", [1, 4, 1000])
def test_the_best_labels_are_those_of_enumeration(kind, k):
    model, X, _ = kind
    for x, top, values in zip(X, *model.predict_top(X, k), strict=True):
        labels, scores = enumerated(model, x)
        best = np.argsort(-scores)[:k]
        assert_allclose(values, scores[best], atol=1e-12)
        assert_array_equal(top, model.classes_[labels[best]])


def test_the_fitted_temperature_is_the_likeliest(kind):
    model, X, y = kind
    others = [*y[:-1], y[-1][::-1]]  # mostly what was learned
    codes = [[list(model.classes_).index(name) for name in labels] for labels in others]

    def likelihood(temperature):
        total = 0.0
        for x, truth in zip(X, codes, strict=True):
            labels, scores = enumerated(model, x)
            chances = softmax(scores / temperature)
            total += np.log(chances[(labels == truth).all(axis=1)][0])
        return total

    assert model.fit_temperature(X, others) is model
    found = model.temperature_
    assert likelihood(found) > max(likelihood(0.99 * found), likelihood(1.01 * found))
    stacked = [label for labels in others for label in labels]
    assert copy.copy(model).fit_temperature(X, stacked).temperature_ == found
    for a, b in zip(model.predict_marginals(X), model.predict_marginals(X, found), strict=True):
        assert_array_equal(a, b)


def test_labels_that_fit_has_not_seen_have_no_probability(kind):
    model, X, y = kind
    with pytest.raises(InvalidData, match="unknown"):
        model.fit_temperature(X, [["unknown"] * len(labels) for labels in y])


def two_labels():
    """Graphs of `data` whose neighbours have different labels."""
    X, y = data()
    return X, [np.arange(len(codes)) % 2 for codes in y]


@functools.cache
def fitted_two(inference, **options):
    return GraphSVM(pairwise="potts", inference=inference, **TIGHT | options).fit(*two_labels())


def test_cuts_bound_the_weights_of_pairs_by_themselves():
    (X, y), n = two_labels(), 2 * 3 + 1
    psi, losses = graph_blocks(X, y, 2, "potts")
    weights = np.full(len(X), 0.5)
    free, mask = np.zeros(n, dtype=bool), np.arange(n) >= 6

    def optimum(bounded):
        return solve_prior_qp(psi, losses, weights, np.zeros(n), np.eye(n), bounded)[0]

    model = fitted_two("cut")
    assert model.nonneg is False
    assert model.pairwise_ >= 0.0
    assert model.certificate_.primal == pytest.approx(optimum(mask), rel=1e-6)
    assert optimum(mask) > 1.01 * optimum(free)  # the bound matters here
    # Beside what is asked for, in both forms that a mask has.
    coefficient = np.arange(6).reshape(2, 3) == 1
    wanted = mask | (np.arange(n) == 1)
    for given in (coefficient, np.arange(n) == 1):
        own = clone(model).set_params(nonneg=given).fit(X, y)
        assert own.certificate_.primal == pytest.approx(optimum(wanted), rel=1e-6)
    # Exact inference needs no bound, and the same one gives the same optimum.
    exact = clone(model).set_params(inference="exact")
    assert exact.fit(X, y).certificate_.primal == pytest.approx(optimum(free), rel=1e-6)
    exact.set_params(nonneg=mask).fit(X, y)
    assert exact.certificate_.primal == pytest.approx(optimum(mask), rel=1e-6)


def test_edges_that_repel_are_refused_by_cuts():
    X, y = two_labels()
    with pytest.raises(InvalidData, match=r"repels: .*Use pairwise='potts', .* GraphSVM sees to"):
        GraphSVM(inference="cut").fit(X, y)
    with pytest.raises(InvalidData, match=r"repels: .* edge features that are not negative"):
        GraphSVM(inference="cut", pairwise="potts").fit([(x, e, -f) for x, e, f in X], y)


@pytest.mark.parametrize("nonneg", [1, "yes", np.ones(7)])
def test_what_is_no_mask_is_refused_with_cuts_too(nonneg):
    with pytest.raises(InvalidData, match="nonneg has dtype"):
        clone(fitted_two("cut")).set_params(nonneg=nonneg).fit(*two_labels())


def test_integral_predictions_are_the_best_labels():
    (X, _), model = two_labels(), fitted_two("relaxed")
    rng = np.random.default_rng(3)
    triangle = [[0, 1], [1, 2], [0, 2]]
    graphs = [(0.3 * rng.normal(size=(3, 3)), triangle, np.ones((3, 1))) for _ in range(20)] + X
    repelling = copy.copy(model)
    repelling.pairwise_ = np.array([[-1.0]])
    integral = repelling.is_integral(graphs)
    assert integral.shape == (len(graphs),)
    assert 0 < integral.sum() < len(graphs)
    assert integral[-2:].all()  # graphs without cycles
    exact = copy.copy(repelling).set_params(inference="exact")
    assert exact.is_integral(graphs).all()
    pairs = zip(repelling.predict(graphs), exact.predict(graphs), strict=True)
    equal = np.array([(a == b).all() for a, b in pairs])
    assert equal[integral].all()
    assert not equal.all()


@pytest.mark.parametrize("inference", ["cut", "relaxed"])
def test_only_exact_inference_gives_probabilities(inference):
    (X, y), model = two_labels(), copy.copy(fitted_two(inference))
    for act in (
        lambda: model.predict_top(X),
        lambda: model.predict_marginals(X, 1.0),
        lambda: model.fit_temperature(X, y),
    ):
        with pytest.raises(InvalidData, match=rf"'{inference}' finds the best .*'exact'\) first"):
            act()
    marginals = model.set_params(inference="exact").predict_marginals(X, 1.0)
    assert [part.shape for part in marginals] == [(len(labels), 2) for labels in y]


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


def test_integer_folds_split_graphs():
    X, y = data()
    model = GraphSVM(**TIGHT)
    scores = cross_val_score(model, X, named(y), cv=2, error_score="raise")
    for score, (train, test) in zip(scores, KFold(2).split(X), strict=True):
        model.fit([X[i] for i in train], [named(y)[i] for i in train])
        assert score == model.score([X[i] for i in test], [named(y)[i] for i in test])
    search = GridSearchCV(model, {"C": [0.1, 0.5]}, cv=2, error_score="raise").fit(X, named(y))
    assert search.best_params_["C"] in (0.1, 0.5)
