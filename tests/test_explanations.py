"""Explanations add up, suspects are found, and leave-one-out bounds are never below the truth."""

import copy
import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import scale

import taut
from taut import BinarySVM, ChainSVM, MulticlassSVM
from taut.data import Stream
from taut.errors import InvalidContent, InvalidData
from taut.explanations.rows import KernelledRows, LinearRows
from taut.inference.max_marginals import max_marginals
from taut.kernels import RBF

TINY_GAP = {"tol": 1e-9, "max_iter": 20_000, "random_state": 0}
_rng = np.random.default_rng(5)
X = _rng.normal(size=(60, 3))
CODES = (X + 0.7 * _rng.normal(size=X.shape)).argmax(axis=1)
CLASSES = np.array(["ant", "bee", "cat"])[CODES]
COST = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 0.0]])
SEQUENCES = [_rng.normal(size=(length, 3)) for length in (1, 4, 3, 2, 5, 3, 4, 2)]
LABELS = [(x + 0.5 * _rng.normal(size=x.shape)).argmax(axis=1) for x in SEQUENCES]


def new_models():
    return {
        "binary": (BinarySVM(**TINY_GAP), X, CODES == 1),
        "binary without bias": (BinarySVM(fit_intercept=False, **TINY_GAP), X, CODES == 1),
        "classes": (MulticlassSVM(**TINY_GAP), X, CLASSES),
        "costs": (MulticlassSVM(cost=COST, intercept_scaling=2.0, **TINY_GAP), X, CLASSES),
        "slack": (MulticlassSVM(cost=COST, rescaling="slack", **TINY_GAP), X, CLASSES),
        "mean": (MulticlassSVM(prior_mean=np.ones((3, 3)), **TINY_GAP), X, CLASSES),
        "precision": (
            MulticlassSVM(prior_precision=np.arange(1.0, 10).reshape(3, 3), **TINY_GAP), X, CLASSES
        ),
        "rbf": (MulticlassSVM(kernel="rbf", **TINY_GAP), X, CLASSES),
        "binary rbf": (BinarySVM(kernel="rbf", **TINY_GAP), X, CODES == 1),
        "chain": (ChainSVM(C=0.3, **TINY_GAP), SEQUENCES, LABELS),
        "ends": (
            ChainSVM(C=0.3, boundary=True, loss="mean_hamming", **TINY_GAP), SEQUENCES, LABELS
        ),
        "chain rbf": (ChainSVM(C=0.3, kernel="rbf", **TINY_GAP), SEQUENCES, LABELS),
    }  # fmt: skip


@pytest.fixture(scope="module")
def fits():
    return {name: (model.fit(X, y), X, y) for name, (model, X, y) in new_models().items()}


NAMES = sorted(new_models())
OF_ROWS = [name for name in NAMES if "chain" not in name and name != "ends"]


@pytest.mark.parametrize("name", NAMES)
def test_an_explanation_adds_up(fits, name):
    model, X, y = fits[name]
    for x in X[:3]:
        why = model.explain(x, training=(X, y))
        assert why.margin >= 0.0
        assert_allclose(why.scores[0] - why.scores[1], why.margin, atol=1e-9)
        if why.features is not None:
            parts = why.features.contribution.sum() + why.intercept
            if why.transitions is not None:
                parts += why.transitions.contribution.sum()
            assert_allclose(parts, why.margin, atol=1e-9)
        # The gap of these fits is nearly 0, and the remainder is what it leaves.
        rest = np.sqrt(2.0 * model.certificate_.gap) * 10.0 * (1.0 + np.abs(x).sum())
        assert abs(why.remainder) <= rest < 0.05
        assert (np.diff(np.abs(why.examples.contribution)) <= 0.0).all()
        assert "rather than" in repr(why)


@pytest.mark.parametrize("name", ["binary", "classes", "mean", "chain", "ends"])
def test_contributions_of_examples_are_those_of_their_dual_variables(fits, name):
    """Without an example among the data given, what it contributes is missing from the sum."""
    model, X, y = fits[name]
    table = model.explain(X[1], training=(X, y)).examples
    assert set(table.example) <= set(model.dual_support_.blocks)
    most = int(table.example[0])
    changed = [np.zeros_like(x) if i == most else x for i, x in enumerate(X)]
    zeroed = np.array(changed) if isinstance(X, np.ndarray) else changed
    again = model.explain(X[1], training=(zeroed, y)).examples
    others = dict(zip(again.example.tolist(), again.contribution, strict=True))
    for example, contribution in zip(table.example.tolist(), table.contribution, strict=True):
        if example != most:
            assert_allclose(others[example], contribution, atol=1e-12)
    assert others.get(most, 0.0) != pytest.approx(table.contribution[0])


def test_a_binary_model_is_the_sum_of_its_examples(fits):
    model, X, y = fits["binary"]
    support = model.dual_support_
    signs = np.where(y, 1.0, -1.0)[support.blocks]
    alpha = model.C * support.share
    assert_allclose((alpha * signs) @ X[support.blocks], model.coef_[0], atol=1e-3)
    assert_allclose(alpha, support.in_use.coef)


@pytest.mark.parametrize("name", [name for name in OF_ROWS if name != "precision"])
def test_influence_agrees_with_slacks(fits, name):
    model, X, y = fits[name]
    found = model.suspects(X, y)
    assert_array_equal(np.sort(found.examples), np.arange(len(X)))
    assert_array_equal(found.influence, model.influence_[found.examples])
    assert (found.influence[found.slack > 0.01] > 0.99).all()
    assert (found.slack[found.influence == 0.0] < 0.01).all()
    assert 0 < len(model.dual_support_.blocks) < len(X)


def every(length, n_labels=3):
    return np.array(list(itertools.product(range(n_labels), repeat=length)))


@pytest.mark.parametrize("name", ["chain", "ends"])
def test_runner_up_and_positions_are_those_of_enumeration(fits, name):
    model, X, _y = fits[name]
    for x in X[:4]:
        labels, nodes = every(len(x)), x @ model.coef_.T
        scores = np.array(
            [
                nodes[np.arange(len(x)), s].sum() + model.transition_[s[:-1], s[1:]].sum()
                + model.start_[s[0]] + model.end_[s[-1]]
                for s in labels
            ]
        )  # fmt: skip
        order = np.argsort(-scores)
        why = model.explain(x)
        assert why.examples is None
        assert_array_equal(why.answer, labels[order[0]])
        assert_array_equal(why.runner_up, labels[order[1]])
        assert_allclose(why.scores, scores[order[:2]])
        for t, best in enumerate(labels[order[0]]):
            other = labels[:, t] != best
            place = np.flatnonzero(other)[scores[other].argmax()]
            assert why.positions.alternative[t] == labels[place, t]
            assert_allclose(why.positions.margin[t], scores.max() - scores[place])


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_max_marginals_equal_enumeration(seed, length):
    rng = np.random.default_rng(seed)
    nodes, pairs, ends = (rng.normal(size=shape) for shape in ((length, 3), (3, 3), (2, 3)))
    truth = rng.integers(0, 3, length)
    out = np.empty_like(nodes)
    max_marginals(nodes, pairs, ends, truth, 0.3, 0.7, np.empty_like(nodes), out)
    labels = every(length)
    scores = []
    for s in labels:
        other = (s[:-1] != truth[:-1]) | (s[1:] != truth[1:])
        at_ends = float(s[0] != truth[0]) + float(s[-1] != truth[-1])
        score = nodes[np.arange(length), s].sum() + pairs[s[:-1], s[1:]].sum()
        scores.append(score + ends[0, s[0]] + ends[1, s[-1]] + 0.3 * other.sum() + 0.7 * at_ends)
    for t, k in itertools.product(range(length), range(3)):
        assert_allclose(out[t, k], np.array(scores)[labels[:, t] == k].max())


# Leaving one out


def true_errors(model, X, y):
    """Which examples a model errs on that was trained without them, ties aside."""
    parameters = model.get_params() | TINY_GAP
    if hasattr(model, "kernel_"):
        parameters["kernel"] = model.kernel_  # whose width is that of all rows
    wrong = np.zeros(len(y), dtype=bool)
    for i in range(len(y)):
        kept = [j for j in range(len(y)) if j != i]
        rows = X[kept] if isinstance(X, np.ndarray) else [X[j] for j in kept]
        other = type(model)(**parameters).fit(rows, [y[j] for j in kept])
        why = other.explain(X[i])
        wrong[i] = np.any(why.answer != y[i]) and why.margin > 1e-4
    return wrong


def small_sets():
    iris, wine = load_iris(return_X_y=True), load_wine(return_X_y=True)
    cancer = load_breast_cancer(return_X_y=True)
    sets = {"iris": (iris, 6), "wine": (wine, 7), "cancer": (cancer, 25)}
    return {name: (scale(X[::step]), y[::step]) for name, ((X, y), step) in sets.items()}


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("name", ["iris", "wine", "cancer"])
def test_the_bound_is_not_below_the_true_error(name, kernel):
    X, y = small_sets()[name]
    cls = BinarySVM if name == "cancer" else MulticlassSVM
    for C in (0.02, 1.0):
        model = cls(C=C, kernel=kernel, **TINY_GAP).fit(X, y)
        found = model.leave_one_out_error(X, y)
        wrong = true_errors(model, X, y)
        assert not (wrong & found.safe).any()
        assert found.bound >= wrong.mean()
        assert found.bound >= found.at_optimum
        assert abs(found.estimate - wrong.mean()) <= 0.1
        if cls is BinarySVM:
            assert found.xi_alpha >= found.at_optimum


@given(
    st.integers(0, 2**32 - 1), st.sampled_from(["binary", "classes", "costs", "slack", "mean"]),
    st.sampled_from(["linear", "rbf"]), st.sampled_from([0.02, 0.3, 5.0]),
    st.sampled_from([1e-9, 1e-3, 0.1]),
)  # fmt: skip
@settings(max_examples=25, deadline=None)
def test_the_bound_holds_whatever_the_gap_is(seed, kind, kernel, C, tol):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(9, 3))
    y = np.arange(9) % (2 if kind == "binary" else 3)
    X[np.arange(9), y] += 1.5 * rng.random()
    parameters = {} if kind == "mean" and kernel == "rbf" else {
        "costs": {"cost": COST}, "slack": {"cost": COST, "rescaling": "slack"},
        "mean": {"prior_mean": rng.normal(size=(3, 3))},
    }.get(kind, {})  # fmt: skip
    cls = BinarySVM if kind == "binary" else MulticlassSVM
    model = cls(C=C, kernel=kernel, **(TINY_GAP | {"tol": tol}), **parameters)
    weight = rng.choice([0.5, 1.0, 2.0], 9)
    model.fit(X, y, sample_weight=weight)
    found = model.leave_one_out_error(X, y, sample_weight=weight)
    for i in np.flatnonzero(found.safe):
        kept = np.arange(9) != i
        own = model.get_params() | TINY_GAP | {"kernel": getattr(model, "kernel_", "linear")}
        other = cls(**own).fit(X[kept], y[kept], sample_weight=weight[kept])
        assert other.predict(X[i : i + 1])[0] == y[i]


@pytest.mark.parametrize("tol", [1e-9, 1e-2])
def test_the_optimum_without_a_row_is_in_its_ball(tol):
    for mean in (None, np.full((3, 3), 0.5)):
        model = MulticlassSVM(C=0.5, prior_mean=mean, **(TINY_GAP | {"tol": tol})).fit(X, CLASSES)
        trained = model._checked("suspects", X, CLASSES, {})
        radii = trained.removals().radii()
        assert trained.removals().gap >= -1e-9
        rows, U = np.column_stack([X, np.ones(60)]), trained.coefficients
        m = np.zeros((4, 3))
        m[:3] = 0.0 if mean is None else 0.5
        w = np.column_stack([model.coef_, model.intercept_]).T
        parameters = model.get_params() | TINY_GAP
        for i in model.dual_support_.blocks[::8]:
            kept = np.arange(60) != i
            other = MulticlassSVM(**parameters).fit(X[kept], CLASSES[kept])
            found = np.column_stack([other.coef_, other.intercept_]).T
            u = m + rows[kept].T @ U[kept]
            assert np.linalg.norm(found - 0.5 * (w + u)) <= radii[i] + 1e-3


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([1e-8, 1e-2]))
@settings(max_examples=6, deadline=None)
def test_the_bound_holds_for_sequences(seed, boundary, tol):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(rng.integers(1, 4), 2)) for _ in range(8)]
    y = [(2.0 * x + rng.normal(size=x.shape)).argmax(axis=1) for x in X]
    y[0], y[1] = np.zeros(len(X[0]), int), np.ones(len(X[1]), int)
    C = rng.choice([0.01, 0.1])
    model = ChainSVM(C=C, boundary=boundary, **(TINY_GAP | {"tol": tol})).fit(X, y)
    found = model.leave_one_out_error(X, y)
    assert found.bound >= found.at_optimum
    for i in np.flatnonzero(found.safe):
        kept = [j for j in range(8) if j != i]
        other = ChainSVM(C=C, boundary=boundary, **TINY_GAP)
        other.fit([X[j] for j in kept], [y[j] for j in kept])
        if len(other.classes_) == 2:
            assert_array_equal(other.predict([X[i]])[0], y[i])


@pytest.mark.parametrize("kind", ["dense", "sparse", "kernel", "matrix"])
def test_rows_know_their_inner_products(kind):
    from taut.kernels import as_kernel

    gram = {"dense": X @ X.T, "sparse": X @ X.T}.get(kind, RBF(gamma=0.5)(X)) + 4.0
    rows = {
        "dense": lambda: LinearRows(X, 4.0),
        "sparse": lambda: LinearRows(sp.csr_array(X), 4.0),
        "kernel": lambda: KernelledRows(RBF(gamma=0.5), X, 4.0),
        "matrix": lambda: KernelledRows(as_kernel("precomputed"), gram - 4.0, 4.0),
    }[kind]()
    which = np.array([1, 5, 7])
    c = sp.csr_array(np.where(_rng.random((60, 2)) < 0.2, 1.5, 0.0))
    assert_allclose(rows.squares(), gram.diagonal())
    assert_allclose(rows.products(which, which + 1), gram[np.ix_(which, which + 1)])
    assert_allclose(rows.scores(c), gram @ c.toarray(), atol=1e-12)


# Suspects


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_planted_labels_are_suspects(kernel):
    X, y = load_iris(return_X_y=True)
    X, wrong = scale(X), np.array([3, 17, 33])
    y[wrong] = 2
    found = MulticlassSVM(kernel=kernel, random_state=0).fit(X, y).suspects(X, y)
    assert_array_equal(np.sort(found.examples[:3]), wrong)
    assert_array_equal(found.given[:3], 2)
    assert_array_equal(found.answer[:3], 0)
    assert (np.diff(found.margin) >= 0.0).all()
    assert f"example {found.examples[0]}: 2, rather 0 " in repr(found)


def test_planted_labels_of_positions_are_suspects():
    rng = np.random.default_rng(1)
    y = [rng.integers(0, 3, 4) for _ in range(30)]
    X = [np.eye(3)[own] + 0.3 * rng.normal(size=(4, 3)) for own in y]
    y[4][2] = (y[4][2] + 1) % 3
    found = ChainSVM(C=0.1, random_state=0).fit(X, y).suspects(X, y)
    places = found.positions
    assert (places.example[0], places.position[0]) == (4, 2)
    assert places.answer[0] == (y[4][2] + 2) % 3
    assert_array_equal(places.given, np.array([y[i][t] for i, t in zip(*places[:2], strict=True)]))
    assert found.examples[0] == 4
    assert_array_equal(found.given[0], y[4])
    assert "example 4, position 2" in repr(found)


# Files and errors


def test_dual_variables_are_saved(tmp_path, fits):
    for name in ("classes", "chain", "binary rbf"):
        model, X, y = fits[name]
        model.save(tmp_path / "model.taut")
        again = taut.load(tmp_path / "model.taut")
        assert_array_equal(again.influence_, model.influence_)
        ours, theirs = (each.explain(X[2], training=(X, y)) for each in (model, again))
        assert_array_equal(ours.examples.contribution, theirs.examples.contribution)
        assert again.leave_one_out_error(X, y).bound == model.leave_one_out_error(X, y).bound


@pytest.mark.parametrize("name", ["blocks", "share", "block", "coef", "offsets", "labels"])
def test_dual_variables_that_no_fit_left_are_refused(fits, name):
    support = fits["chain"][0].dual_support_
    arrays = support.arrays()
    assert support.of_arrays(support.n_blocks, arrays).n_blocks == support.n_blocks
    for broken in (arrays[name][:-1], arrays[name] - 7, arrays[name].astype(np.int16)):
        with pytest.raises(InvalidContent):
            support.of_arrays(support.n_blocks, arrays | {name: broken})


CALLS = [
    lambda model, X, y: model.suspects(X, y),
    lambda model, X, y: model.leave_one_out_error(X, y),
    lambda model, X, y: model.explain(X[0], training=(X, y)),
]


def test_models_that_are_not_fitted_say_so():
    model = BinarySVM()
    assert not hasattr(model, "influence_")
    with pytest.raises(NotFittedError, match="has no influence_ before it is fitted"):
        _ = model.influence_
    for call in CALLS:
        with pytest.raises(NotFittedError):
            call(model, X, CODES == 1)


def without_duals():
    y = CODES == 1
    return {
        "perceptron": BinarySVM(solver="subgradient", max_iter=3, tol=0.9).fit(X, y),
        "partial_fit": BinarySVM(random_state=0).partial_fit(X, y),
        "stream": BinarySVM(tol=0.9, random_state=0).fit(Stream([(X, y)])),
        "compress": BinarySVM(kernel="rbf", random_state=0).fit(X, y).compress(X, y, 0.5),
    }


@pytest.mark.filterwarnings("ignore")
def test_models_without_dual_variables_say_so():
    for name, model in without_duals().items():
        assert not hasattr(model, "influence_"), name
        for call in CALLS[: 2 if name == "compress" else 3]:
            with pytest.raises(InvalidData, match="dual variables of each training example"):
                call(model, X, CODES == 1)
        assert model.explain(X[0]).answer == model.predict(X[:1])[0]


@pytest.mark.parametrize("call", CALLS[:2])
def test_other_data_are_refused(fits, call):
    model, X, y = fits["classes"]
    with pytest.raises(InvalidData, match="objective of the model is"):
        call(model, X + 0.1, y)
    with pytest.raises(InvalidData, match="give the data that fit was given"):
        call(model, X[:-1], y[:-1])
    with pytest.raises(InvalidData, match="other classes"):
        call(model, X, np.char.upper(y))
    with pytest.raises(InvalidData, match="without prior_precision and nonneg"):
        call(*fits["precision"])
    with pytest.raises(InvalidData, match="in memory"):
        call(model, Stream([(X, y)]), None)


def test_dual_variables_beyond_c_prove_nothing(fits):
    model, X, y = fits["binary"]
    # Far apart, no row has a hinge, and the objective is the same with any C.
    rows = [[-1.0], [-1.1], [1.0], [1.1]], [0, 0, 1, 1]
    apart = BinarySVM(C=100.0, tol=1e-4, random_state=0).fit(*rows)
    apart.set_params(C=1e-3)
    with pytest.raises(InvalidData, match=r"more than its weight C_i = 0\.001: give the weights"):
        apart.leave_one_out_error(*rows)
    in_use = model.dual_support_.in_use
    changed = replace(model.dual_support_, in_use=in_use._replace(labels=in_use.labels + 2))
    with pytest.raises(InvalidData, match="dual variables of 4 classes, and 2"):
        copied(model, dual_support_=changed).suspects(X, y)


def test_rounded_weights_prove_nothing_by_leaving_out(tmp_path, fits):
    for name in ("binary", "chain"):
        model, X, y = fits[name]
        model.save(tmp_path / "model.taut", dtype="float32")
        rounded = taut.load(tmp_path / "model.taut")
        with pytest.raises(InvalidData, match="weights that the fit ended with, and these were"):
            rounded.leave_one_out_error(X, y)
        assert len(rounded.suspects(X, y)) == len(X)


def copied(model, **attributes):
    other = copy.copy(model)
    vars(other).update(attributes)
    return other


def test_other_arguments_are_refused(fits):
    model, X, y = fits["classes"]
    with pytest.raises(InvalidData, match=r"pair \(X, y\)"):
        model.explain(X[0], training=X)
    with pytest.raises(InvalidData, match="give one row"):
        model.explain(X[:2])
    with pytest.raises(InvalidData, match="does not take 'lengths'"):
        model.suspects(X, y, lengths=[60])


def test_explain_takes_one_sequence_of_tokens_and_tables():
    X, y = [["the", "dog", "barks"], ["dogs", "bark"]], [["D", "N", "V"], ["N", "V"]]
    sentences = [[(word,) for word in words] for words in X]
    model = ChainSVM(features=taut.features.SequenceFeatures(), random_state=0).fit(sentences, y)
    with pytest.raises(InvalidData, match="x holds 3 sequences, and explain takes one"):
        model.explain(sentences[0])
    table = taut.readers.Table(sentences, y)
    why, same = (model.explain(sentences[:1], training=each) for each in (table, (sentences, y)))
    assert why.answer.tolist() == y[0]
    assert_array_equal(why.examples.contribution, same.examples.contribution)
