"""Ranking: oracles on random queries, known optima, forms of queries, and NDCG itself."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import ndcg_score
from sklearn.model_selection import GroupKFold
from sklearn.svm import LinearSVC

from cases import long_if
from reference import ndcg_blocks, ndcg_labels, pairwise_blocks, pairwise_labels
from taut import Problem, RankSVM, Status, check_structure
from taut.errors import InvalidData
from taut.metrics import ndcg
from taut.structures import NdcgRanking, PairwiseRanking

RNG = np.random.default_rng(8)
LENGTHS = np.array([4, 1, 6, 3, 5, 2, 7])
OFFSETS = np.concatenate([[0], np.cumsum(LENGTHS)])
X = RNG.normal(size=(28, 3))
Y = np.clip(np.round(X @ [1.0, -1.0, 0.5] + RNG.normal(size=28) + 1.0), 0, 3)
GROUPS = np.repeat([70, 10, 30, 50, 20, 60, 40], LENGTHS)
LISTS = np.split(X, OFFSETS[1:-1]), [part.tolist() for part in np.split(Y, OFFSETS[1:-1])]
TIGHT = {"tol": 1e-9, "max_iter": 5000, "random_state": 0}

# Few different numbers, so that ties of relevances and of scores are frequent.
QUERIES = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 1.0, 1.5, 2.0]),
            st.integers(-3, 3).map(lambda x: x / 2),
            st.integers(-3, 3).map(lambda x: x / 2),
        ),
        min_size=1,
        max_size=4,
    ),
    min_size=1,
    max_size=3,
)
WEIGHTS = st.tuples(*[st.integers(-4, 4).map(lambda x: x / 4)] * 2).map(np.array)


def arrays(queries):
    """Matrices and relevances of the queries."""
    tables = [np.array(query) for query in queries]
    return [table[:, 1:] for table in tables], [table[:, 0].tolist() for table in tables]


def assert_oracle_is_enumeration(structure, xs, ys, blocks, labels, w):
    """Hinges and predictions are those of the best of all labels."""
    offsets = np.cumsum([0, *map(len, ys)])
    problem = Problem(structure, (np.vstack(xs), offsets), np.concatenate(ys))
    psi, losses = blocks
    hinges = [max(0.0, (c - p @ w).max()) for p, c in zip(psi, losses, strict=True)]
    assert_allclose(problem.data.hinges(w), hinges, rtol=1e-12, atol=1e-12)
    for i, label in enumerate(problem.data.predict(w)):
        place = np.flatnonzero((labels[i] == label).all(axis=1))
        assert len(place) == 1
        assert (psi[i] @ w)[place[0]] <= (psi[i] @ w).min() + 1e-12


@settings(max_examples=150, deadline=None)
@given(QUERIES, WEIGHTS)
def test_pairs_are_found_as_by_enumeration(queries, w):
    xs, ys = arrays(queries)
    labels = [pairwise_labels(y) for y in ys]
    assert_oracle_is_enumeration(PairwiseRanking(), xs, ys, pairwise_blocks(xs, ys), labels, w)


@settings(max_examples=150, deadline=None)
@given(QUERIES, WEIGHTS, st.sampled_from([1, 2, 3, None]))
def test_rankings_are_found_as_by_enumeration(queries, w, k):
    xs, ys = arrays(queries)
    most = k or max(map(len, ys))
    labels = [ndcg_labels(y, min(most, max(map(len, ys)))) for y in ys]
    blocks = ndcg_blocks(xs, ys, min(most, max(map(len, ys))))
    assert_oracle_is_enumeration(NdcgRanking(k), xs, ys, blocks, labels, w)


@pytest.mark.parametrize("structure", [PairwiseRanking(), NdcgRanking(3), NdcgRanking(None)])
@pytest.mark.parametrize("dtype", [long_if(True, np.float32), np.float64])
def test_structures_keep_the_laws(structure, dtype):
    check_structure(structure, (X.astype(dtype), OFFSETS), Y, n_examples=7)


@pytest.mark.parametrize("structure", [PairwiseRanking(), NdcgRanking(None)])
def test_many_documents_are_ranked_by_score(structure, rng):
    x, y = rng.normal(size=(300, 2)), rng.integers(5, size=300)
    problem = Problem(structure, (x, [0, 300]), y)
    score = x @ [1.0, 2.0]
    (label,) = problem.data.predict(np.array([1.0, 2.0]))
    if isinstance(structure, NdcgRanking):
        assert_array_equal(np.argsort(label), np.argsort(-score))
    else:
        inverted = (y[:, None] > y) & (score[:, None] < score)
        assert_array_equal(label[:-1], inverted.sum(axis=1) - inverted.sum(axis=0))
        assert label[-1] == inverted.sum()


def test_more_pairs_than_can_be_counted_are_refused():
    x, offsets = np.ones((140_003, 1)), [0, 3, 140_003]
    few = np.arange(140_003) < 10
    assert PairwiseRanking().encode((x, offsets), few).n_blocks == 2
    with pytest.raises(InvalidData, match=r"query 1 has 140000 documents, .* 4900000000 pairs"):
        PairwiseRanking().encode((x, offsets), np.arange(140_003) % 2)


def differences(x, y, offsets):
    """x_a - x_b of all pairs of which a is more relevant, each once with either sign."""
    pairs = [
        (a, b)
        for first, last in itertools.pairwise(offsets)
        for a in range(first, last)
        for b in range(first, last)
        if y[a] > y[b]
    ]
    return np.array([x[a] - x[b] for a, b in pairs])


@pytest.mark.parametrize("C", [0.01, 0.3, 1.0])
def test_pairwise_is_the_hinge_of_pair_differences(C):
    model = RankSVM(C=C, **TIGHT).fit(X, Y, lengths=LENGTHS)
    pairs = differences(X, Y, OFFSETS)
    sign = np.where(np.arange(len(pairs)) % 2, 1, -1)
    other = LinearSVC(
        C=C, loss="hinge", fit_intercept=False, dual=True, tol=1e-10, max_iter=10**7,
        random_state=0,
    ).fit(sign[:, None] * pairs, sign)  # fmt: skip
    w = other.coef_[0]
    best = 0.5 * w @ w + C * np.maximum(0.0, 1.0 - pairs @ w).sum()
    assert_allclose(model.certificate_.primal, best, rtol=1e-7)
    assert_allclose(model.coef_, w, atol=1e-4)


@pytest.mark.parametrize("k", [1, 3, None])
def test_the_ndcg_loss_bounds_what_rankings_lack(k):
    model = RankSVM(C=1.0, loss="ndcg", k=k, tol=1e-6, random_state=0).fit(*LISTS)
    lacking = sum(1.0 - ndcg([y], [s], k=k) for y, s in zip(LISTS[1], model.predict(LISTS[0])))
    assert model.certificate_.primal - 0.5 * model.coef_ @ model.coef_ >= lacking - 1e-9


FORMS = {
    "lengths": (X, Y, {"lengths": LENGTHS}),
    "groups": (X, Y, {"groups": GROUPS}),
    "groups as text": (X, Y, {"groups": [f"query {g}" for g in GROUPS]}),
    "csr": (sp.csr_array(X), Y.astype(int), {"groups": GROUPS}),
    "list": (*LISTS, {}),
    "list of csr": ([sp.csr_array(x) for x in LISTS[0]], LISTS[1], {}),
    "lists": (X.tolist(), Y.tolist(), {"lengths": LENGTHS.tolist()}),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("loss", ["pairwise", "ndcg"])
def test_forms_of_queries_give_one_model(loss, form):
    x, y, more = FORMS[form]
    weight = np.arange(1.0, 8.0)
    model = RankSVM(C=0.5, loss=loss, random_state=0).fit(x, y, weight, **more)
    same = RankSVM(C=0.5, loss=loss, random_state=0).fit(*LISTS, weight)
    assert_allclose(model.coef_, same.coef_, atol=1e-12)
    assert_allclose(model.score(x, y, weight, **more), same.score(*LISTS, weight))
    predicted = model.predict(x if form != "lists" else X)
    assert_allclose(predicted if more else np.concatenate(predicted), X @ model.coef_)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("loss", ["pairwise", "ndcg"])
def test_rows_of_groups_may_stand_anywhere(loss, kind, rng):
    order = rng.permutation(28)
    model = RankSVM(C=0.5, loss=loss, **TIGHT)
    mixed = model.fit(kind(X[order]), Y[order], groups=GROUPS[order])
    score = mixed.score(kind(X[order]), Y[order], groups=GROUPS[order])
    together = RankSVM(C=0.5, loss=loss, **TIGHT).fit(X, Y, lengths=LENGTHS)
    assert_allclose(mixed.coef_, together.coef_, atol=1e-3)
    assert_allclose(score, mixed.score(X, Y, lengths=LENGTHS))


def test_weights_of_groups_follow_their_first_rows(rng):
    order = np.concatenate([[27, 0], rng.permutation(np.arange(1, 27))])
    queries = dict.fromkeys(GROUPS[order])
    weight = dict(zip(dict.fromkeys(GROUPS), np.arange(1.0, 8.0), strict=True))
    mixed = RankSVM(**TIGHT).fit(
        X[order], Y[order], [weight[q] for q in queries], groups=GROUPS[order]
    )
    together = RankSVM(**TIGHT).fit(X, Y, list(weight.values()), lengths=LENGTHS)
    assert_allclose(mixed.certificate_.primal, together.certificate_.primal, rtol=1e-8)


@pytest.mark.parametrize("loss", ["pairwise", "ndcg"])
def test_queries_of_one_relevance_change_nothing(loss):
    model = RankSVM(loss=loss, random_state=0).fit(*LISTS)
    flat = [np.ones((4, 3)), 9.0 * X[:1], 5.0 * X[:3]], [[0] * 4, [2], [3] * 3]
    more = RankSVM(loss=loss, tol=1e-6, random_state=0).fit(LISTS[0] + flat[0], LISTS[1] + flat[1])
    same = RankSVM(loss=loss, tol=1e-6, random_state=0).fit(*LISTS)
    assert_allclose(more.certificate_.primal, same.certificate_.primal, rtol=2e-6)
    nothing = RankSVM(loss=loss, random_state=0).fit(*flat)
    assert nothing.certificate_.status is Status.CONVERGED
    assert not nothing.coef_.any()
    assert nothing.score(*flat) == 1.0
    assert model.score(*LISTS) < 1.0


def test_one_query():
    model = RankSVM(C=10.0, random_state=0).fit(X[:5], [4, 3, 2, 1, 0])
    assert model.predict(X[:5]).shape == (5,)
    assert 0.0 < model.score(X[:5], [4, 3, 2, 1, 0]) <= 1.0


@pytest.mark.long
@pytest.mark.parametrize("loss", ["pairwise", "ndcg"])
def test_single_precision_has_true_bounds(loss):
    single = RankSVM(loss=loss, random_state=0).fit(X.astype(np.float32), Y, lengths=LENGTHS)
    double = RankSVM(loss=loss, **TIGHT).fit(X.astype(np.float32).astype(float), Y, lengths=LENGTHS)
    assert single.certificate_.dual <= double.certificate_.primal * (1 + 1e-9)
    assert double.certificate_.dual <= single.certificate_.primal * (1 + 1e-9)
    assert single.predict(X.astype(np.float32)).dtype == np.float32


def test_cross_validation_by_groups():
    for train, test in GroupKFold(3).split(X, Y, GROUPS):
        model = RankSVM(random_state=0).fit(X[train], Y[train], groups=GROUPS[train])
        score = model.score(X[test], Y[test], groups=GROUPS[test])
        assert_allclose(score, ndcg(Y[test], model.predict(X[test]), groups=GROUPS[test]))


# The measure


def ndcg_by_definition(relevance, scores, k):
    """One query without equal scores."""
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    dcg = sum((2 ** relevance[d] - 1) / math.log2(2 + r) for r, d in enumerate(order[:k]))
    best = sorted(relevance, reverse=True)[:k]
    return dcg / sum((2**rel - 1) / math.log2(2 + r) for r, rel in enumerate(best))


@pytest.mark.parametrize("k", [1, 3, 10, None])
def test_ndcg_is_its_definition(k, rng):
    for size in (1, 2, 5, 20):
        y, s = rng.integers(1, 5, size=size), rng.permutation(size)
        assert_allclose(ndcg(y, s, k=k), ndcg_by_definition(y.tolist(), s.tolist(), k))


@pytest.mark.parametrize("k", [1, 3, None])
def test_ndcg_is_that_of_scikit_learn(k, rng):
    y, s = rng.integers(5, size=(20, 8)), rng.integers(4, size=(20, 8)) / 2
    y[:, 0] = 1  # without relevant documents scikit-learn says 0
    assert_allclose(ndcg(y.tolist(), s.tolist(), k=k), ndcg_score(2.0**y - 1, s, k=k))


def test_ndcg_of_no_relevant_documents():
    assert ndcg([0, 0], [1.0, 2.0]) == 1.0
    assert_allclose(ndcg([[0, 0], [0, 1]], [[1, 2], [2, 1]]), 0.5 * (1 + 1 / math.log2(3)))


def test_ndcg_weighs_queries_in_any_form():
    scores, weight = X @ [1.0, 0.0, 0.0], np.arange(7.0)
    parts = np.split(scores, OFFSETS[1:-1])
    each = [ndcg(y, s) for y, s in zip(LISTS[1], parts, strict=True)]
    expected = np.average(each, weights=weight)
    assert_allclose(ndcg(LISTS[1], parts, sample_weight=weight), expected)
    assert_allclose(ndcg(Y, scores, lengths=LENGTHS, sample_weight=weight), expected)
    assert_allclose(ndcg(Y, scores, groups=GROUPS, sample_weight=weight), expected)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([1, 0], [1.0, np.nan]), r"scores contains NaN at sequence 0, row 1"),
        (([1, -1], [1.0, 2.0]), r"y\[1\] = -1 is negative"),
        (([1, 0], [1.0]), r"y has 2 entries, X has 1 rows"),
    ],
)
def test_bad_arguments_of_ndcg_are_named(arguments, words):
    with pytest.raises(InvalidData, match=words):
        ndcg(*arguments)
