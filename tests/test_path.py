"""Regularisation paths: what they claim for every C is true, and is as much as was asked for."""

import math
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taut
from own_structures import Tags
from reference import multiclass_blocks
from taut.errors import InvalidData, InvalidFile, InvalidType, NotConverged
from taut.paths import walk
from taut.paths.enclosure import Enclosure, Node, worst_between
from taut.storage import digest, files

RNG = np.random.default_rng(0)
X, Y = load_iris(return_X_y=True)
X, Y = X[::5] - X.mean(axis=0), Y[::5]
SEQUENCES = [RNG.normal(size=(length, 2)) for length in (1, 4, 2, 3, 3, 1)]
LABELS = [RNG.integers(3, size=len(x)) for x in SEQUENCES]
MEAN = np.array([[0.3, -0.2, 0.1, 0.0], [-0.5, 0.4, 0.0, 0.2], [0.0, 0.1, -0.3, 0.6]])
PRECISION = np.array([0.5, 1.0, 2.0, 4.0]) * np.ones((3, 1))

CASES = {
    "multiclass": (taut.MulticlassSVM(), X, Y),
    "mean": (taut.MulticlassSVM(prior_mean=MEAN), X, Y),
    "nonneg": (taut.MulticlassSVM(nonneg=True), X, Y),
    "mean-nonneg": (taut.MulticlassSVM(prior_mean=MEAN, nonneg=True), X, Y),
    "precision": (taut.MulticlassSVM(prior_precision=PRECISION), X, Y),
    "binary": (taut.BinarySVM(), X, Y == 1),
    "regression": (taut.RegressionSVM(epsilon=0.1), X, X @ [1.0, -1.0, 0.5, 0.0] + 0.3 * Y),
    "chain": (taut.ChainSVM(), SEQUENCES, LABELS),
    "rank": (taut.RankSVM(), SEQUENCES, LABELS),
    "structured": (
        taut.StructuredSVM(Tags(2)),
        X[::5, :2],
        [tuple(bits) for bits in RNG.integers(2, size=(6, 2)).tolist()],
    ),
}
LOW, HIGH, GAP = 0.01, 3.0, 0.05


@pytest.fixture(scope="module")
def walked():
    """Paths by the name of the case, each walked once."""
    paths = {}

    def get(name):
        if name not in paths:
            estimator, X, y = CASES[name]
            paths[name] = taut.path(estimator, X, y, LOW, HIGH, gap=GAP)
        return paths[name]

    return get


@pytest.fixture(params=CASES)
def name(request):
    return request.param


def problem_of(name, C):
    """The problem at C, by way of a fit."""
    estimator, X, y = CASES[name]
    model = clone(estimator).set_params(C=C, tol=1e-8, max_iter=20_000, random_state=0)
    model._keeps_end = True
    model.fit(X, y)
    return model, model._end.problem


# What a path claims


def test_every_optimum_is_within_its_bounds(name, walked):
    path = walked(name)
    few = 50 if name == "multiclass" else 8
    for C in np.exp(np.random.default_rng(1).uniform(np.log(LOW), np.log(HIGH), few)):
        model, _ = problem_of(name, float(C))
        upper, lower = path.bounds_at(C)
        assert lower <= model.certificate_.primal * (1 + 1e-9)
        assert upper >= model.certificate_.dual * (1 - 1e-9)
        assert path.gap_at(C) <= GAP


def test_weights_cost_what_is_claimed(name, walked):
    path = walked(name)
    _, problem = problem_of(name, 1.0)
    for C in np.geomspace(LOW, HIGH, 30):
        upper, lower = path.bounds_at(C)
        model = path.at(C)
        primal = problem.with_factor(C).primal(model._joint_weights())
        assert lower * (1 - 1e-9) <= primal <= upper * (1 + 1e-9)
        assert_allclose(model.certificate_.primal, upper)
        assert_allclose(model.certificate_.relative_gap, path.gap_at(C), atol=1e-12)
        assert_allclose(model.certificate_.penalty, problem.penalty(model._joint_weights()))
        assert model.C == C


def test_the_gap_is_proved_everywhere(name, walked):
    path = walked(name)
    gaps = path.gap_at(np.geomspace(LOW, HIGH, 4001)[1:-1])
    assert gaps.max() <= path.gap <= GAP
    assert path.Cs[0] == LOW
    assert path.Cs[-1] == HIGH
    assert (np.diff(path.Cs) > 0).all()


def test_a_path_without_the_library():
    """Bounds of mixtures, from psi and losses that are enumerated."""
    estimator = taut.MulticlassSVM(fit_intercept=False, random_state=0)
    path = taut.path(estimator, X, Y, 0.01, 1.0, gap=0.05)
    psi, losses = multiclass_blocks(X, Y, 3)

    def primal(w, C):
        hinges = [max(0.0, (c - p @ w).max()) for p, c in zip(psi, losses, strict=True)]
        return 0.5 * w @ w + C * sum(hinges)

    for C in np.geomspace(0.01, 1.0, 20):
        w, (upper, lower) = path.weights_at(C), path.bounds_at(C)
        assert lower <= primal(w, C) <= upper * (1 + 1e-9)


@settings(max_examples=8, deadline=None)
@given(st.floats(0.003, 0.5), st.floats(-3.0, 0.0), st.floats(0.01, 4.0))
def test_any_range_and_gap(gap, low, width):
    C_min, C_max = 10.0**low, 10.0 ** (low + width)
    path = taut.path(taut.MulticlassSVM(max_iter=20_000), X, Y, C_min, C_max, gap=gap)
    assert path.gap_at(np.geomspace(C_min, C_max, 500)[1:-1]).max() <= path.gap <= gap


def test_a_solve_is_added_where_two_do_not_prove_enough(monkeypatch):
    monkeypatch.setattr(walk.Walk, "_step", lambda self, rate, gap: math.log(300.0))
    monkeypatch.setattr(walk, "_WIDEST", math.log(300.0))
    path = taut.path(taut.MulticlassSVM(), X, Y, LOW, HIGH, gap=GAP)
    assert len(path.points) > 2
    assert path.gap <= GAP


def test_solves_that_do_not_converge_are_bounded_honestly():
    with pytest.warns(NotConverged, match=r"gap=0\.0001 was asked for.*max_iter=2") as caught:
        path = taut.path(taut.MulticlassSVM(max_iter=2), X, Y, 0.1, 3.0, gap=1e-4)
    assert len(caught) == 1
    assert path.gap > 1e-4
    model, _ = problem_of("multiclass", 1.0)
    upper, lower = path.bounds_at(1.0)
    assert lower <= model.certificate_.primal <= upper


# The enclosure


nodes_at = st.lists(st.floats(0.1, 10.0), min_size=2, max_size=6, unique=True).map(sorted)


@settings(deadline=None)
@given(nodes_at, st.integers(0, 2**32 - 1))
def test_the_worst_gap_is_none_of_a_fine_grid(Cs, seed):
    """For lines and chords of any concave function: here a minimum of random lines."""
    rng = np.random.default_rng(seed)
    lines = np.column_stack([rng.uniform(0.0, 3.0, 8), rng.uniform(0.1, 3.0, 8)])
    nodes = []
    for k, C in enumerate(Cs):
        values = lines @ [1.0, C]
        best = int(values.argmin())
        nodes.append(Node(C, *lines[best], 0.9 * values[best], k))
    grid = np.linspace(Cs[0], Cs[-1], 2001)
    optimum = (lines @ np.array([np.ones_like(grid), grid])).min(axis=0)
    bounds = Enclosure(nodes)
    assert (bounds.lower(grid) <= optimum + 1e-12).all()
    assert (bounds.upper(grid) >= optimum - 1e-12).all()
    assert bounds.gap(grid).max() <= bounds.worst() + 1e-12


def test_the_worst_gap_is_where_lines_cross():
    a, b = Node(1.0, 1.0, 2.0, 3.0, 0), Node(3.0, 3.0, 1.0, 6.0, 1)
    assert worst_between(a, b) == (2.0, pytest.approx(0.1))


def test_a_problem_without_losses_has_no_gap():
    assert Enclosure([Node(1.0, 0.0, 0.0, 0.0, 0)]).gap(1.0) == 0.0


# Certificates and warm starts


def test_the_penalty_belongs_to_the_certified_weights(name):
    model, problem = problem_of(name, 0.3)
    w, certificate = model._joint_weights(), model.certificate_
    assert_allclose(certificate.penalty, problem.penalty(w), rtol=1e-9, atol=1e-15)
    other = problem.with_factor(1.7)
    claimed = certificate.penalty + (certificate.primal - certificate.penalty) * 1.7 / 0.3
    assert_allclose(other.primal(w), claimed, rtol=1e-9)


def test_the_dual_point_is_feasible_and_sums_up():
    model, problem = problem_of("multiclass", 0.3)
    assert_allclose(problem.dual(*model._end.dual_point), model.certificate_.dual, rtol=1e-7)


def test_models_come_without_the_data(walked):
    path = walked("multiclass")
    for model in (path.points[1].model, path.at(0.5)):
        assert not {"_end", "_state", "_keeps_end"} & vars(model).keys()
        assert not model.warm_start


def test_data_are_hashed_once(monkeypatch):
    hashed, plain = [], digest._array_digest
    monkeypatch.setattr(
        digest, "_array_digest", lambda array: hashed.append(array.shape) or plain(array)
    )
    path = taut.path(*CASES["multiclass"], LOW, HIGH, gap=0.5)
    assert len(path.points) > 2
    assert sum(len(shape) == 2 and shape[0] == len(X) for shape in hashed) == 1


def test_saving_keeps_the_penalty(tmp_path, walked):
    model = walked("multiclass").at(0.5)
    model.save(tmp_path / "model.taut")
    again = taut.load(tmp_path / "model.taut")
    assert again.certificate_ == model.certificate_
    assert_array_equal(again.predict(X), model.predict(X))


@pytest.mark.parametrize("lacking", ["stagnant", "before"])
def test_checkpoints_of_another_form_are_refused(tmp_path, lacking):
    file = tmp_path / "run.taut"
    latent = lacking == "before"
    model = (taut.LatentSVM if latent else taut.MulticlassSVM)(checkpoint=file, random_state=0)
    data = ([x[None] for x in X], Y == 1) if latent else (X, Y)
    model.fit(*data)
    arrays, meta = files.read(file, "checkpoint")
    del meta["numbers"][lacking]
    files.write(file, "checkpoint", arrays, meta)
    with pytest.raises(InvalidFile, match="delete the file to start anew"):
        model.fit(*data)


# Use


def test_contents(walked):
    path = walked("multiclass")
    assert path.coefs().shape == (len(path.points), 3, 4)
    assert path.gap_at(1.0).shape == ()
    assert path.gap_at([[0.5, 1.0]]).shape == (1, 2)
    assert path.to_dict()["points"][0]["C"] == LOW
    lines = str(path).splitlines()
    assert len(lines) == len(path.points) + 2
    assert lines[-1] == path.message
    assert "for every C" in path.message


def test_the_estimator_stays_as_it_is():
    estimator = taut.MulticlassSVM(C=7.0, tol=0.3)
    taut.path(estimator, X, Y, 0.1, 0.5, gap=0.1)
    assert vars(estimator) == vars(taut.MulticlassSVM(C=7.0, tol=0.3))


def test_weights_of_rows():
    weight = np.arange(len(Y)) % 3 + 0.0
    path = taut.path(taut.MulticlassSVM(), X, Y, 0.1, 1.0, gap=0.05, sample_weight=weight)
    model = taut.MulticlassSVM(C=0.4, tol=1e-8, max_iter=20_000).fit(X, Y, weight)
    upper, lower = path.bounds_at(0.4)
    assert lower <= model.certificate_.primal <= upper * (1 + 1e-8)


def test_data_from_a_stream():
    stream = taut.data.Stream([(X[k : k + 10], Y[k : k + 10]) for k in range(0, len(Y), 10)])
    path = taut.path(taut.MulticlassSVM(), stream, None, 0.1, 1.0, gap=0.05)
    model, _ = problem_of("multiclass", 0.4)
    upper, lower = path.bounds_at(0.4)
    assert lower <= model.certificate_.primal <= upper * (1 + 1e-8)
    assert path.gap <= 0.05


def test_data_that_can_be_read_once_are_refused():
    with pytest.raises(InvalidData, match="read only once"):
        taut.path(taut.MulticlassSVM(), taut.data.Stream(iter([(X, Y)])), None, 0.1, 1.0)


def test_a_callback_ends_the_path():
    seen = []

    def third(point):
        seen.append(point.C)
        return len(seen) == 3

    path = taut.path(taut.MulticlassSVM(), X, Y, LOW, HIGH, gap=GAP, callbacks=[third])
    assert_array_equal(path.Cs, seen)
    assert len(seen) == 3
    assert "callback" in path.message
    assert path.gap <= GAP
    path.at(path.Cs[-1])
    with pytest.raises(InvalidData, match="outside of the path"):
        path.at(HIGH)


def test_an_interrupt_keeps_what_was_done():
    passes = []

    def interrupt(record):
        passes.append(record)
        if len(passes) == 40:
            signal.raise_signal(signal.SIGINT)

    estimator = taut.MulticlassSVM(callbacks=[interrupt], random_state=0)
    with pytest.warns(NotConverged, match="up to C=.*interrupted") as caught:
        path = taut.path(estimator, X, Y, LOW, HIGH, gap=0.01)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert len(passes) == 40
    assert LOW < path.Cs[-1] < HIGH
    assert path.gap <= 0.01
    assert "interrupted" in path.message


def test_an_interrupt_in_the_last_pass_of_a_solve():
    def interrupt(record):
        if record.exact and record.relative_gap <= 0.5 * GAP:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(NotConverged, match="interrupted"):
        path = taut.path(taut.MulticlassSVM(callbacks=[interrupt]), X, Y, LOW, HIGH, gap=GAP)
    assert len(path.points) == 1
    assert path.points[0].certificate.relative_gap <= 0.5 * GAP
    assert "interrupted" in path.message


def test_an_interrupt_between_solves():
    def interrupt(point):
        signal.raise_signal(signal.SIGINT)

    with pytest.warns(NotConverged, match="interrupted"):
        path = taut.path(taut.MulticlassSVM(), X, Y, LOW, HIGH, callbacks=[interrupt])
    assert len(path.points) == 1
    assert "interrupted" in path.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((1.0, 1.0), "0 < C_min < C_max"),
        ((0.0, 1.0), "0 < C_min < C_max"),
        ((2.0, 1.0), "0 < C_min < C_max"),
        ((1.0, math.inf), "0 < C_min < C_max"),
        ((0.1, "1"), "C_max = '1': give a number"),
    ],
)
def test_bad_ranges(arguments, message):
    with pytest.raises((InvalidData, InvalidType), match=message):
        taut.path(taut.MulticlassSVM(), X, Y, *arguments)


@pytest.mark.parametrize("gap", [0.0, 1.0, -0.1, math.nan])
def test_bad_gaps(gap):
    with pytest.raises((InvalidData, InvalidType), match="gap = "):
        taut.path(taut.MulticlassSVM(), X, Y, 0.1, 1.0, gap=gap)


@pytest.mark.parametrize("estimator", [taut.LatentSVM(), "MulticlassSVM"])
def test_bad_estimators(estimator):
    with pytest.raises(InvalidType, match="convex objective"):
        taut.path(estimator, X, Y, 0.1, 1.0)


# Cross-validation


def test_cross_validation_equals_one_by_hand():
    estimator = taut.MulticlassSVM(random_state=0)
    folds = StratifiedKFold(3)
    search = taut.path_cv(estimator, X, Y, LOW, HIGH, gap=GAP, cv=3, n_points=7)
    train, test = list(folds.split(X, Y))[1]
    path = taut.path(estimator, X[train], Y[train], LOW, HIGH, gap=GAP)
    assert_array_equal(search.scores[:, 1], [path.at(C).score(X[test], Y[test]) for C in search.Cs])
    assert_allclose(search.mean, search.scores.mean(axis=1))
    assert search.best_C_ == search.Cs[search.mean.argmax()]
    best = clone(estimator).set_params(C=search.best_C_).fit(X, Y)
    assert_array_equal(search.best_estimator_.coef_, best.coef_)
    assert len(str(search).splitlines()) == 8
    assert search.to_dict()["best_C"] == search.best_C_


def test_cross_validation_picks_a_sane_factor():
    rows = load_iris(return_X_y=True)
    search = taut.path_cv(taut.MulticlassSVM(random_state=0), *rows, 1e-4, 10.0, gap=0.1, cv=3)
    assert search.best_score_ > 0.95
    assert search.best_C_ > 0.01


def test_cross_validation_of_sequences():
    estimator = taut.ChainSVM(random_state=0)
    search = taut.path_cv(
        estimator, SEQUENCES, [list(y) for y in LABELS], LOW, 1.0, gap=0.1, cv=3, n_points=4,
        sample_weight=np.arange(1.0, 7.0),
    )  # fmt: skip
    assert search.scores.shape == (4, 3)
    best = clone(estimator).set_params(C=search.best_C_)
    best.fit(SEQUENCES, LABELS, np.arange(1.0, 7.0))
    assert_array_equal(search.best_estimator_.coef_, best.coef_)


def test_steps_of_a_pipeline_are_fitted_to_each_fold():
    wide, weight = X * [1.0, 10.0, 0.1, 1.0], np.linspace(0.5, 2.0, len(X))
    pipeline = make_pipeline(StandardScaler(), taut.MulticlassSVM(random_state=0))
    search = taut.path_cv(
        pipeline, wide, Y, LOW, HIGH, gap=GAP, cv=3, n_points=4, sample_weight=weight
    )  # fmt: skip
    train, test = list(StratifiedKFold(3).split(X, Y))[1]
    scaler = StandardScaler().fit(wide[train])
    path = taut.path(
        pipeline[-1], scaler.transform(wide[train]), Y[train], LOW, HIGH, gap=GAP,
        sample_weight=weight[train],
    )  # fmt: skip
    held = scaler.transform(wide[test])
    assert_array_equal(search.scores[:, 1], [path.at(C).score(held, Y[test]) for C in search.Cs])
    best = clone(pipeline).set_params(multiclasssvm__C=search.best_C_)
    best.fit(wide, Y, multiclasssvm__sample_weight=weight)
    assert_array_equal(search.best_estimator_.predict(wide), best.predict(wide))
    assert_array_equal(search.best_estimator_[-1].coef_, best[-1].coef_)
    assert not hasattr(pipeline[0], "mean_")
    assert not hasattr(pipeline[-1], "coef_")


def test_a_pipeline_of_one_step_is_that_step():
    model = taut.MulticlassSVM(random_state=0)
    settings = {"gap": 0.1, "cv": 2, "n_points": 3}
    alone = taut.path_cv(model, X, Y, 0.1, 1.0, **settings)
    search = taut.path_cv(make_pipeline(model), X, Y, 0.1, 1.0, **settings)
    assert_array_equal(search.scores, alone.scores)
    assert_array_equal(search.best_estimator_[-1].coef_, alone.best_estimator_.coef_)
    with pytest.raises(InvalidType, match="convex objective"):
        taut.path_cv(make_pipeline(model, StandardScaler()), X, Y, 0.1, 1.0)


def test_cross_validation_with_another_score():
    search = taut.path_cv(
        taut.RegressionSVM(), X, X[:, 0], 0.1, 1.0, gap=0.1, cv=2, n_points=3,
        scoring="neg_mean_absolute_error",
    )  # fmt: skip
    assert (search.scores < 0.0).all()


def test_bad_folds_and_grids():
    with pytest.raises(InvalidData, match="n_points = 1"):
        taut.path_cv(taut.MulticlassSVM(), X, Y, 0.1, 1.0, n_points=1)
    with pytest.raises(InvalidData, match="at least 2"):
        taut.path_cv(taut.MulticlassSVM(), X, Y, 0.1, 1.0, cv=[(np.arange(20), np.arange(20, 30))])


def test_an_interrupted_cross_validation_is_none():
    def interrupt(record):
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        taut.path_cv(taut.MulticlassSVM(callbacks=[interrupt]), X, Y, 0.1, 1.0, cv=2)


def test_an_interrupt_after_the_last_solve_of_a_fold_ends_the_cross_validation(monkeypatch):
    accept = walk.Walk._accept

    def interrupting(self, solve, between):
        accept(self, solve, between)
        if self.C_max == solve.node.C:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(walk.Walk, "_accept", interrupting)
    with pytest.raises(KeyboardInterrupt):
        taut.path_cv(taut.MulticlassSVM(), X, Y, 0.1, 1.0, gap=0.1, cv=2)


def test_an_interrupt_of_the_last_fit_keeps_the_choice():
    def interrupt(record):
        if record.relative_gap < 1e-3:  # only the last fit is asked for so little
            signal.raise_signal(signal.SIGINT)

    estimator = taut.MulticlassSVM(callbacks=[interrupt], tol=1e-7, random_state=0)
    with pytest.warns(NotConverged, match="Interrupted after"):
        search = taut.path_cv(estimator, X, Y, 0.1, 1.0, gap=0.1, cv=2)
    assert search.best_estimator_.certificate_.status is taut.Status.INTERRUPTED
    assert search.best_C_ == search.best_estimator_.C
