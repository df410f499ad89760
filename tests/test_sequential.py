"""Solvers that keep the sum of their visits: their updates, bounds, streams, going on."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES, long_if
from own_structures import Tags
from reference import dual, primal, prior_primal, solve_prior_qp, solve_qp
from taut import (
    BinarySVM,
    Checkpoint,
    MulticlassSVM,
    Problem,
    Regularizer,
    Status,
    StreamedProblem,
    solve,
)
from taut.data import Stream, write_shards
from taut.engines import turns
from taut.errors import InvalidData
from taut.sampling import Argmax
from taut.solvers import (
    DualCoordinate,
    PassiveAggressive,
    Perceptron,
    Subgradient,
    _sequential,
)
from taut.solvers._sequential import Sequential
from taut.solvers._visitors import ExactVisitor
from taut.spaces.labels import score_of
from taut.structures import Multiclass, Regression, Scalar

# Without ties at w = 0, which the oracles would break in ways of their own: compiled and plain.
FORMS = ["multiclass-cost-bias", "tags-compiled", "tags-plain"]
FAMILY = {"subgradient": Subgradient, "pa": PassiveAggressive, "perceptron": Perceptron}
# Without dual variables there are two forms: compiled oracles are those of classes or of tags.
METHODS = [long_if(form == "tags-compiled", form, method) for form in FORMS for method in FAMILY]
PASSES = 3


@pytest.fixture(autouse=True)
def reports_by_no_clock(monkeypatch):
    monkeypatch.setattr(_sequential, "_SECONDS", 1e9)


def in_sequence(method):
    return FAMILY[method](shuffle=False)


def run(problem, solver, passes=PASSES, **options):
    return solve(problem, solver, **{"tol": 0.0, "max_iter": passes, "random_state": 0} | options)


def run_of(result):
    """The run behind a result: its state, its average."""
    return result.read_state.__self__


def uneven(n):
    """Weights of blocks, some of them zero."""
    return np.random.default_rng(3).uniform(0.5, 2.0, n) * (np.arange(n) % 4 != 2)


class Twin:
    """The methods in a few lines, over all enumerated labels, blocks in sequence.

    Attributes are the sum of all visits, the points after each, and each block's dual variables.
    """

    def __init__(self, case, method, weights, passes=PASSES, shift=0.0, lower=-np.inf):
        psi, losses = case.reference
        n = np.count_nonzero(weights)
        self.S, self.points = np.zeros(psi[0].shape[1]), []
        self.alphas = [np.zeros(len(loss)) for loss in losses]
        for _ in range(passes):
            for i in np.flatnonzero(weights):
                s = n / (1 + len(self.points)) if method == "subgradient" else 1.0
                w = np.maximum(shift + s * self.S, lower)
                scores = -psi[i] @ w
                violations = losses[i] + scores
                y = violations.argmax()
                if method == "perceptron":
                    y = self.predicted(case, i, w, scores, losses[i])
                    amount = weights[i] * (losses[i][y] > 0.0)
                elif method == "pa":
                    steepness = max(psi[i][y] @ psi[i][y], 1e-300)
                    amount = np.clip(violations[y] / steepness, 0.0, weights[i])
                else:
                    amount = weights[i] * (violations[y] > 0.0)
                self.alphas[i][y] += amount
                self.S += amount * psi[i][y]
                self.points.append(shift + s * self.S)

    @staticmethod
    def predicted(case, i, w, scores, losses):
        """The label of highest score; of equal ones the worst, or that of a plain structure."""
        if isinstance(case.structure, Tags):
            labels = case.labels(i)
            return labels.index(tuple(case.structure.argmax(case.xs[i], w)))
        return np.lexsort((losses, scores))[-1]

    def average(self, method):
        t = np.arange(1.0, 1 + len(self.points))
        return np.average(self.points, axis=0, weights=t if method == "subgradient" else None)


@functools.cache
def both(form, method):
    """A run with uneven weights, and its twin."""
    case = STRUCTURES[form]
    weights = uneven(case.n_blocks)
    result = run(case.problem(0.5, weights), in_sequence(method))
    return result, Twin(case, method, 0.5 * weights)


@pytest.mark.parametrize(("form", "method"), METHODS)
def test_updates_are_those_of_a_few_lines(form, method):
    result, twin = both(form, method)
    unpad, end = STRUCTURES[form].problem().data.unpad, run_of(result)
    assert np.count_nonzero(np.diff(twin.points, axis=0).any(axis=1)) > 5
    assert_allclose(unpad(end.state.w), twin.points[-1], rtol=1e-9, atol=1e-12)
    assert_allclose(unpad(end.average), twin.average(method), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("form", "method"), METHODS)
def test_bounds_are_those_of_feasible_dual_variables(form, method):
    result, twin = both(form, method)
    case = STRUCTURES[form]
    weights = 0.5 * uneven(case.n_blocks)
    share = run_of(result).state.share
    alphas = [share * alpha for alpha in twin.alphas]
    assert 0.0 < share <= 1.0 / PASSES
    for alpha, weight in zip(alphas, weights, strict=True):
        assert alpha.min() >= 0.0
        assert alpha.sum() <= weight * (1.0 + 1e-12)
    value = dual(alphas, *case.reference)
    assert_allclose(result.history["dual"][-1], value, rtol=1e-9)
    certificate, optimum = result.certificate, solve_qp(*case.reference, weights)[0]
    assert certificate.exact
    assert value <= certificate.dual * (1.0 + 1e-12)
    assert certificate.dual <= optimum * (1.0 + 1e-9)
    assert_allclose(certificate.primal, primal(result.w, *case.reference, weights), rtol=1e-12)
    # No other share is better.
    for other in np.linspace(0.0, 1.0 / PASSES, 50):
        assert dual([other * a for a in twin.alphas], *case.reference) <= value + 1e-9 * abs(value)


@pytest.mark.parametrize("method", FAMILY)
@pytest.mark.parametrize("form", [long_if(True, "tags-compiled"), "tags-plain"])
def test_priors_and_bounds(form, method):
    case = STRUCTURES[form]
    n, ones = case.problem().n_features, np.ones(case.n_blocks)
    mean, mask = np.random.default_rng(5).normal(size=n), np.arange(n) % 2 == 0
    prior = Regularizer(mean, None, mask)
    problem = Problem(case.structure, *case.data(), regularizer=prior)
    result = run(problem, in_sequence(method))
    lower = np.where(mask, 0.0, -np.inf)
    twin = Twin(case, method, ones, shift=mean, lower=lower)
    assert_allclose(run_of(result).state.w, twin.points[-1], rtol=1e-9, atol=1e-12)
    U, share = sum(a @ p for a, p in zip(twin.alphas, case.reference[0], strict=True)), None
    share = run_of(result).state.share
    U, loss = share * U, share * sum(map(np.dot, twin.alphas, case.reference[1]))
    u = np.maximum(mean + U, lower)
    value = loss - (U @ u - 0.5 * (u - mean) @ (u - mean))
    assert_allclose(result.history["dual"][-1], value, rtol=1e-9)
    arguments = (*case.reference, ones, mean, np.eye(n), mask)
    optimum = solve_prior_qp(*arguments)[0]
    assert result.certificate.dual <= optimum * (1.0 + 1e-9)
    assert_allclose(result.certificate.primal, prior_primal(result.w, *arguments[:5]), rtol=1e-9)
    assert (result.w[mask] >= 0.0).all()


def test_prior_of_another_precision():
    case = STRUCTURES["multiclass-cost-bias"]
    n, ones = case.problem().n_features, np.ones(case.n_blocks)
    precision = np.random.default_rng(6).uniform(0.5, 2.0, n)
    problem = Problem(case.structure, *case.data(), regularizer=Regularizer(None, precision))
    result = run(problem, Subgradient(), 2000, tol=1e-2)
    nowhere = np.zeros(n, dtype=bool)
    optimum = solve_prior_qp(*case.reference, ones, np.zeros(n), np.diag(precision), nowhere)[0]
    assert result.certificate.status is Status.CONVERGED
    assert_allclose(result.certificate.primal, optimum, rtol=1e-2)


# Several labels in one visit


def _all_of(oracles):
    argmax, score, loss_of = oracles.argmax, score_of(oracles), oracles.loss

    def sample(data, i, work, loss_weight, seed, room, found, values):
        values[0] = argmax(data, i, work, loss_weight, found[0])
        count = 1
        for k in range(room[0].shape[0]):
            same = True
            for t in range(found.shape[1]):
                same &= room[0][k, t] == found[0, t]
            if not same:
                for t in range(found.shape[1]):
                    found[count, t] = room[0][k, t]
                loss = loss_of(data, i, found[count])
                values[count] = score(data, i, work, found[count]) + loss_weight * loss
                count += 1
        return count

    return sample


class Everything(Argmax):
    """All labels of a block, the argmax first."""

    make = staticmethod(_all_of)

    def __init__(self, labels):
        self.all = labels

    def n_labels(self, data, wanted):
        return len(self.all)

    def room(self, data, count, dtype):
        return (self.all,)

    def labels(self, data, i, w, count, rng):
        (best,), error = super().labels(data, i, w, 1, rng)
        return [best, *(label for label in self.all if label != best)], error


@dataclasses.dataclass
class Several(Sequential):
    """Steps over all labels, which fade."""

    name = "several"
    fades = True
    sampler: object = None
    exact: bool = False
    shuffle: bool = False

    def sampler_of(self, data):
        return self.sampler

    def visitor_of(self, data, state):
        return ExactVisitor(data) if self.exact else super().visitor_of(data, state)


@pytest.mark.parametrize(
    ("form", "exact"),
    [
        ("multiclass-cost-bias", True),
        ("multiclass-cost-bias", False),
        long_if(True, "tags-compiled", False),
        long_if(True, "tags-mapped", False),
        ("tags-plain", False),
    ],
)
def test_steps_over_all_labels_solve_a_single_block(form, exact):
    case = STRUCTURES[form]
    solver = Several(sampler=Everything(case.labels(3)), exact=exact)
    result = run(case.problem(blocks=[3]), solver, 1 if exact else 1000)
    psi, losses = (part[3:4] for part in case.reference)
    optimum = solve_qp(psi, losses, [1.0])[0]
    assert_allclose(result.certificate.dual, optimum, rtol=1e-5)
    assert_allclose(result.certificate.primal, optimum, rtol=1e-2)


@pytest.mark.parametrize("exact", [False, True])
def test_steps_over_all_labels_of_many_blocks_stay_feasible(exact):
    case = STRUCTURES["multiclass-cost-bias"]
    weights = uneven(case.n_blocks)
    solver = Several(sampler=Everything(case.labels(0)), exact=exact, shuffle=True)
    result = run(case.problem(1.0, weights), solver, 1000, tol=1e-2)
    optimum = solve_qp(*case.reference, weights)[0]
    assert result.certificate.status is Status.CONVERGED
    assert optimum * 0.99 <= result.certificate.dual <= optimum * (1.0 + 1e-9)


def test_exact_and_sampled_steps_agree():
    case = STRUCTURES["multiclass-cost-bias"]
    ends = [
        run(case.problem(), Several(sampler=Everything(case.labels(0)), exact=exact), 4)
        for exact in (False, True)
    ]
    assert_allclose(ends[0].history["dual"], ends[1].history["dual"], rtol=5e-2)


# Projection


def test_projection_keeps_w_where_the_optimum_is():
    case = STRUCTURES["multiclass-cost-bias"]
    C = 100.0 * np.ones(case.n_blocks)
    radius = np.sqrt(primal(np.zeros(case.reference[0][0].shape[1]), *case.reference, C))
    optimum, w = solve_qp(*case.reference, C)
    assert np.linalg.norm(w) <= radius
    free = run(case.problem(100.0), Subgradient(shuffle=False), 1)
    kept = run(case.problem(100.0), Subgradient(projection=True, shuffle=False), 1)
    assert np.linalg.norm(run_of(free).state.w) > radius
    assert np.linalg.norm(run_of(kept).state.w) <= radius * (1.0 + 1e-12)
    assert kept.certificate.dual <= optimum * (1.0 + 1e-9)


def test_projection_refuses_what_it_does_not_know():
    case = STRUCTURES["scalar-bias"]
    problem = Problem(case.structure, *case.data(), regularizer=Regularizer(nonneg=True))
    with pytest.raises(InvalidData, match="projection=True with sign constraints"):
        run(problem, Subgradient(projection=True))
    once = Stream(iter([case.data()]))
    with pytest.raises(InvalidData, match="projection=True needs one reading"):
        run(StreamedProblem(case.structure, once), Subgradient(projection=True))


# Streams


def filled(form):
    """The case with rows without zeros: of others it depends on the chunk how they are stored."""
    case, rng = STRUCTURES[form], np.random.default_rng(9)
    return dataclasses.replace(case, xs=[rng.normal(size=np.shape(x)) for x in case.xs])


def stream(case, size, n, weight=None, once=False):
    """n blocks of a case, over and over, in parts of a size."""
    parts = []
    for first in range(0, n, size):
        blocks = np.arange(first, min(first + size, n))
        X, y = case.data(blocks % case.n_blocks)
        if isinstance(X, tuple):
            edges = list(itertools.pairwise(X[1]))
            X, y = [X[0][a:b] for a, b in edges], [y[a:b] for a, b in edges]
        parts.append((X, y, None if weight is None else weight[blocks]))
    plain = isinstance(case.structure, Tags)
    kind = "examples" if plain else "sequences" if isinstance(X, list) else "rows"
    return Stream(iter(parts) if once else parts, kind=kind)


def at_ends_of_passes(result):
    """Estimated primal and dual values."""
    last = {record.iteration: record for record in result.history.records}
    return [(record.primal, record.dual) for record in last.values()]


def assert_same_run(one, other):
    assert at_ends_of_passes(one) == at_ends_of_passes(other)
    for name in ("w", "late", "sums"):
        assert_array_equal(run_of(one).state.arrays()[name], run_of(other).state.arrays()[name])
    assert_array_equal(one.w, other.w)


@pytest.mark.parametrize("size", [1, 7, 1000])
@pytest.mark.parametrize(
    ("form", "method"),
    [("chain", "subgradient"), *itertools.product(["multiclass-bias", "tags-plain"], FAMILY)],
)
def test_streams_are_data_in_memory(form, method, size, monkeypatch):
    monkeypatch.setattr(_sequential, "_CHEAP", 1)  # groups of several visits
    case, n = filled(form), 130
    weight = uneven(n)
    solver = in_sequence(method)
    in_memory = run(case.problem(2.0, weight[np.arange(n)], np.arange(n) % case.n_blocks), solver)
    streamed = run(StreamedProblem(case.structure, stream(case, size, n, weight), C=2.0), solver)
    assert_same_run(in_memory, streamed)


@pytest.mark.parametrize("shuffled", [True, False])
def test_shards_are_visited_in_any_order(shuffled, tmp_path):
    case, n = filled("multiclass-bias"), 200
    X, y = case.data(np.arange(n) % case.n_blocks)
    source = write_shards(tmp_path / "set", X, y, chunk_size=500)
    assert source.n_chunks > 5
    problem = StreamedProblem(case.structure, source, C=0.1)
    result = run(problem, Subgradient(shuffle=shuffled), 200, tol=3e-2)
    again = run(problem, Subgradient(shuffle=shuffled), 200, tol=3e-2)
    assert result.certificate.status is Status.CONVERGED
    weights = np.full(case.n_blocks, 0.1) * np.bincount(np.arange(n) % case.n_blocks)
    optimum = solve_qp(*case.reference, weights)[0]
    assert_allclose(result.certificate.primal, optimum, rtol=3e-2)
    assert_same_run(result, again)


def test_how_a_pass_is_divided_changes_nothing(monkeypatch):
    case, n = filled("multiclass-bias"), 150
    whole = run(StreamedProblem(case.structure, stream(case, 7, n)), Subgradient())
    monkeypatch.setattr(_sequential, "_SECONDS", -1.0)
    monkeypatch.setattr(turns, "_SECONDS_BETWEEN_QUESTIONS", 0.0)
    divided = run(StreamedProblem(case.structure, stream(case, 7, n)), Subgradient())
    assert len(divided.history.records) > 10 * PASSES
    assert divided.certificate.passes == PASSES
    assert_same_run(whole, divided)
    # Each of these bounds is that of a feasible dual point, in mid-pass too.
    weights = np.bincount(np.arange(n) % case.n_blocks)
    assert (divided.history["dual"] <= solve_qp(*case.reference, weights)[0]).all()


@pytest.mark.parametrize("method", FAMILY)
def test_read_once_ends_with_the_average(method):
    case, n = filled("multiclass-bias"), 90
    result = run(StreamedProblem(case.structure, stream(case, 7, n, once=True)), FAMILY[method]())
    assert result.certificate.status is Status.READ_ONCE
    assert not result.certificate.exact
    end = run_of(result)
    assert_array_equal(result.w, case.problem().weights(end.average))
    weights = np.full(case.n_blocks, n / case.n_blocks)
    assert result.certificate.dual <= solve_qp(*case.reference, weights)[0]
    assert end.state.scale == 1.0


@pytest.mark.parametrize("method", FAMILY)
@pytest.mark.parametrize("once", [False, True])
def test_without_averaging_w_is_what_comes_out(method, once):
    case = filled("multiclass-bias")
    solver = FAMILY[method](averaging=False, shuffle=False)
    problems = [StreamedProblem(case.structure, stream(case, 7, 90, once=once)) for _ in range(2)]
    result = run(problems[0], solver, 1)
    assert_array_equal(result.w, case.problem().weights(run_of(result).state.w))
    averaged = run(problems[1], in_sequence(method), 1)
    assert_array_equal(run_of(averaged).state.w, run_of(result).state.w)


@pytest.mark.parametrize("method", FAMILY)
def test_feeding_is_reading_once(method):
    case, n = filled("multiclass-bias"), 90
    X, y = case.data(np.arange(n) % case.n_blocks)
    fed = MulticlassSVM(solver=in_sequence(method), random_state=0)
    for first in range(0, n, 30):
        fed.partial_fit(X[first : first + 30], y[first : first + 30], classes=np.arange(4))
    parts = [(X[k : k + 45], y[k : k + 45]) for k in (0, 45)]
    whole = MulticlassSVM(solver=in_sequence(method), random_state=0)
    whole.fit(Stream(iter(parts), classes=np.arange(4)))
    assert_array_equal(fed.coef_, whole.coef_)
    assert_allclose(fed.certificate_.dual, whole.certificate_.dual, rtol=1e-12)


def test_partial_fit_names_the_solvers_that_can_be_fed():
    with pytest.raises(InvalidData, match="'multi_sample_online', 'online_cache', 'passive"):
        BinarySVM(solver=DualCoordinate()).partial_fit(np.eye(2), [0, 1])


# Going on


def interrupted(problem, method, visits, monkeypatch, **options):
    """A run that is stopped after some visits."""
    solver = FAMILY[method]()

    def pass_(problem, state, stiffness, keep_going):
        return Sequential.pass_(solver, problem, state, stiffness, lambda: state.visits < visits)

    with monkeypatch.context() as patch:
        patch.setattr(turns, "_SECONDS_BETWEEN_QUESTIONS", 0.0)
        patch.setattr(solver, "pass_", pass_)
        stop = [lambda record: record.oracle_calls >= visits]
        result = run(problem, solver, 10, callbacks=stop, **options)
    assert result.certificate.status is Status.CALLBACK
    assert not run_of(result).state.ended
    return result


@pytest.mark.parametrize("form", ["multiclass-bias", "tags-compiled", "tags-plain"])
@pytest.mark.parametrize("method", FAMILY)
def test_killed_and_resumed_is_uninterrupted(form, method, tmp_path, monkeypatch):
    case, blocks = filled(form), np.arange(80)
    problem = case.problem(blocks=blocks % case.n_blocks)
    whole = run(problem, FAMILY[method](), 4)
    kept = Checkpoint(tmp_path / "run.taut")
    cut = interrupted(problem, method, 100, monkeypatch, checkpoint=kept)
    assert 80 < run_of(cut).state.visits < 160
    assert_same_run(whole, run(problem, FAMILY[method](), 4, checkpoint=kept))


@pytest.mark.parametrize("size", [7, 1000])
def test_streams_are_resumed_within_a_part(size, tmp_path, monkeypatch):
    case, kept = filled("multiclass-bias"), Checkpoint(tmp_path / "run.taut")

    def problem():
        return StreamedProblem(case.structure, stream(case, size, 120))

    cut = interrupted(problem(), "subgradient", 150, monkeypatch, checkpoint=kept)
    assert run_of(cut).state.done > 0
    whole = run(problem(), Subgradient(), 4)
    assert_same_run(whole, run(problem(), Subgradient(), 4, checkpoint=kept))


@pytest.mark.parametrize("method", FAMILY)
def test_interrupt_within_a_pass_keeps_a_true_certificate(method, monkeypatch):
    case, blocks = filled("multiclass-bias"), np.arange(150) % 9
    problem = case.problem(0.1, blocks=blocks)
    result = interrupted(problem, method, 200, monkeypatch)
    state, certificate = run_of(result).state, result.certificate
    assert 150 < state.visits < 300
    assert certificate.exact
    optimum = solve(problem, tol=1e-8, random_state=0).certificate.primal
    assert certificate.dual <= optimum * (1.0 + 1e-12) <= certificate.primal * (1.0 + 2e-12)
    assert_allclose(certificate.primal, problem.primal(result.w), rtol=1e-12)


@pytest.mark.parametrize("method", FAMILY)
def test_hot_start_goes_on_at_another_factor(method):
    case = filled("multiclass-bias")
    weight = uneven(case.n_blocks)
    first = run(case.problem(1.0, weight), FAMILY[method]())
    same = run(case.problem(1.0, weight), FAMILY[method](), 1, start=first.state)
    assert same.certificate.dual >= first.certificate.dual * (1.0 - 1e-12)
    assert same.certificate.primal <= first.certificate.primal * (1.0 + 1e-12)
    other = run(case.problem(0.3, weight), FAMILY[method](), 5, start=first.state)
    assert run_of(other).state.passes == PASSES + 5
    assert other.certificate.dual <= solve_qp(*case.reference, 0.3 * weight)[0] * (1.0 + 1e-9)
    uneven_otherwise = case.problem(1.0, weight[::-1].copy())
    with pytest.raises(InvalidData, match="sample weights in other proportions"):
        run(uneven_otherwise, FAMILY[method](), start=first.state)
    with pytest.raises(InvalidData, match="keeps dual variables of its blocks"):
        run(case.problem(), FAMILY[method](), start=solve(case.problem()).state)


def test_hot_start_from_another_rule():
    case = filled("multiclass-bias")
    first = run(case.problem(), Perceptron())
    result = run(case.problem(), Subgradient(), 2000, start=first.state, tol=1e-2)
    assert result.certificate.status is Status.CONVERGED
    assert run_of(result).state.scale == 1.0 / run_of(result).state.passes


# Ends


def test_perceptron_settles_on_separable_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    X[:, 0] += np.sign(X[:, 0])
    y = np.sign(X[:, 0])
    result = run(Problem(Scalar(), X, y, C=10.0), Perceptron(), 500)
    assert result.certificate.status is Status.SETTLED
    assert (np.sign(X @ run_of(result).state.w[:4]) == y).all()
    assert result.certificate.exact


def test_perceptron_needs_labels_that_are_wrong():
    problem = Problem(Regression(), np.eye(2), np.ones(2))
    with pytest.raises(InvalidData, match="the candidates of Regression are none"):
        run(problem, Perceptron())
    assert run(problem, PassiveAggressive()).certificate.exact


def test_features_that_vanish():
    """Zeros, and numbers whose squares are zero."""
    case = STRUCTURES["multiclass-cost-bias"]
    X, y = case.data()
    X = np.where(np.arange(len(X))[:, None] < 2, 0.0, 1e-200 * X)  # dense, as most are not zero
    problem = Problem(Multiclass(4, case.structure.cost, bias=1e-200), X, y)
    costs = case.structure.cost[y].max(axis=1).sum()
    for solver in (Subgradient(), PassiveAggressive(), Perceptron()):
        certificate = run(problem, solver).certificate
        assert_allclose([certificate.primal, certificate.dual], costs)
