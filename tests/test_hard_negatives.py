"""Hard-negative mining: the binary problem that it solves, the dual point, going on."""

import functools
import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from cases import STRUCTURES, long_if, regression, tags
from own_structures import Tags
from reference import primal, prior_primal, solve_prior_qp, solve_qp
from taut import Checkpoint, MulticlassSVM, Problem, Status, StreamedProblem, solve
from taut.data import Stream
from taut.errors import InvalidData
from taut.solvers import SOLVERS, HardNegatives, PassEvent
from taut.structures import Scalar
from test_regularizer import numbers, regularizer
from test_solvers import assert_feasible, assert_optimal, dual_point, mined_labels

SOLVER = HardNegatives(inner_gap=1e-9)
SEVERAL = ["multiclass-cost-bias", "chain", "tags-plain"]


def run(problem, solver=SOLVER, **options):
    return solve(problem, solver, **{"tol": 1e-8, "max_iter": 500, "random_state": 0} | options)


def uneven(case):
    """Weights of blocks, some of them zero."""
    numbers = np.arange(case.n_blocks)
    return (0.5 + numbers % 3) * (numbers % 5 > 0)


@functools.cache
def settled(name, kind=None):
    """A run with uneven weights, and a prior."""
    case, prior = STRUCTURES[name], None
    if kind is not None:
        prior = regularizer(kind, case.problem().n_features)
    X, y = case.data()
    return run(Problem(case.structure, X, y, sample_weight=uneven(case), regularizer=prior))


def mined_blocks(case, state):
    """psi and losses of the mined labels, each a block of its own, and their weights."""
    owner, (labels, _) = state["mined.owner"], mined_labels(case, state)
    psi, losses = (
        [part[i][q : q + 1] for i, q in zip(owner, labels, strict=True)] for part in case.reference
    )
    return psi, losses, uneven(case)[owner]


@pytest.mark.parametrize("name", [*SEVERAL, long_if(True, "tags-compiled")])
class TestBinaryProblem:
    def test_w_is_its_optimum(self, name):
        case, result = STRUCTURES[name], settled(name)
        assert result.certificate.status is Status.SETTLED
        w = case.problem().data.unpad(result.state["w"])
        blocks = mined_blocks(case, result.state)
        best, w_best = solve_qp(*blocks, rtol=1e-7)
        assert_allclose(primal(w, *blocks), best, rtol=1e-6)
        assert_allclose(w, w_best, atol=1e-3)

    def test_it_is_another_objective(self, name):
        """Or the tests above could not tell slacks of their own from shared ones."""
        case = STRUCTURES[name]
        owner = settled(name).state["mined.owner"]
        assert len(owner) > len(np.unique(owner))
        assert settled(name).certificate.primal > 1.01 * self.optimum(case)

    def optimum(self, case):
        return solve_qp(*case.reference, uneven(case), rtol=1e-7)[0]

    def test_no_label_is_left_to_be_mined(self, name):
        case, state = STRUCTURES[name], settled(name).state
        w, (labels, _) = case.problem().data.unpad(state["w"]), mined_labels(case, state)
        mined = set(zip(state["mined.owner"].tolist(), map(int, labels), strict=True))
        assert len(mined) == len(labels)  # none twice
        for i in np.flatnonzero(uneven(case)):
            violation = case.reference[1][i] - case.reference[0][i] @ w
            known = [violation[q] for owner, q in mined if owner == i]
            assert violation.max() <= max([0.0, *known]) + 1e-6

    def test_labels_are_of_blocks_with_weight(self, name):
        state = settled(name).state
        assert (uneven(STRUCTURES[name])[state["mined.owner"]] > 0.0).all()
        assert (state["mined.alpha"] >= 0.0).all()
        assert (state["mined.alpha"] <= uneven(STRUCTURES[name])[state["mined.owner"]]).all()

    def test_certificate_is_true(self, name):
        case, certificate = STRUCTURES[name], settled(name).certificate
        assert certificate.dual <= self.optimum(case) * (1.0 + 1e-9)
        own = primal(settled(name).w, *case.reference, uneven(case))
        assert_allclose(certificate.primal, own, rtol=1e-12)

    def test_dual_point_shares_slacks(self, name):
        case, result = STRUCTURES[name], settled(name)
        alphas = dual_point(case, result.state)
        assert_feasible(case, alphas, uneven(case))
        U = sum(a @ p for a, p in zip(alphas, case.reference[0], strict=True))
        losses = sum(a @ loss for a, loss in zip(alphas, case.reference[1], strict=True))
        point = result.read_dual_point()
        assert_allclose(point.loss_sum, losses, rtol=1e-9)
        assert_allclose(case.problem().data.unpad(point.U), U, rtol=1e-9, atol=1e-9)
        assert_allclose(result.history["dual"][-1], losses - 0.5 * U @ U, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("chain", "mean"),
        ("multiclass-cost-bias", "all"),
        long_if(True, "tags-compiled", "all"),
        long_if(True, "tags-compiled", "full"),
        ("tags-plain", "all"),
    ],
)
def test_priors_and_bounds(name, kind):
    case, result = STRUCTURES[name], settled(name, kind)
    mean, precision, mask, lower = numbers(kind, len(result.w))
    blocks = mined_blocks(case, result.state)
    best, w_best = solve_prior_qp(*blocks, mean, precision, mask, lower)
    prior = regularizer(kind, len(result.w))
    problem = Problem(case.structure, *case.data(), regularizer=prior)
    w = problem.weights(result.state["w"])
    assert_allclose(prior_primal(w, *blocks, mean, precision), best, rtol=1e-6)
    assert_allclose(w, w_best, atol=2e-3)
    assert (result.w[mask] >= lower[mask]).all()
    own = prior_primal(result.w, *case.reference, uneven(case), mean, precision)
    assert_allclose(result.certificate.primal, own, rtol=1e-9)
    paid = np.flatnonzero(uneven(case))
    some = [[part[i] for i in paid] for part in case.reference]
    least, _ = solve_prior_qp(*some, uneven(case)[paid], mean, precision, mask, lower)
    assert result.certificate.dual <= least * (1.0 + 1e-9)
    assert result.certificate.dual > 0.0


@pytest.mark.parametrize("case", [STRUCTURES["scalar-bias"], regression(bias=0.5)])
def test_one_violation_per_block_makes_it_the_same_objective(case):
    """A block of a regression has two candidates, of which at most one violates at any w."""
    result = run(case.problem(1.0, uneven(case)), max_iter=5000)
    assert_optimal(case, result, uneven(case))


@pytest.mark.long
def test_single_precision():
    case = STRUCTURES["multiclass-single"]
    problem = case.problem()
    single, double = (run(problem, HardNegatives(gap), tol=1e-3) for gap in (1e-3, 1e-9))
    assert single.state["w"].dtype == np.float32
    assert double.state["w"].dtype == np.float64  # as the solver asked for, when it was stuck
    assert_allclose(single.certificate.primal, double.certificate.primal, rtol=1e-2)
    for result in (single, double):
        own = primal(result.w, *case.reference, np.ones(case.n_blocks))
        assert_allclose(result.certificate.primal, own, rtol=1e-12)


class Roughly(Tags):
    """An oracle that does not vouch for the last tenth."""

    def bounded_argmax(self, x, w, truth=None):
        return self.argmax(x, w, truth), 0.1


@pytest.mark.parametrize(
    "case",
    [
        *(STRUCTURES[name] for name in SEVERAL),
        long_if(True, STRUCTURES["multiclass-single"]),
        long_if(True, STRUCTURES["tags-compiled"]),
        tags(Roughly),
    ],
)
def test_reports_are_the_gap_at_the_w_that_was_mined_at(case):
    problem = case.problem(0.3)
    state = SOLVER.init(problem, np.random.default_rng(0))
    for _ in range(4):
        before = problem.primal_bound(state.w.astype(np.float64)).value
        report = SOLVER.pass_(problem, state, 1.0, lambda: True)
        assert_allclose(report.gap + state.dual_value(0.0), before, rtol=1e-12)
        assert report.oracle_calls == problem.n_blocks


def test_what_is_easy_is_dropped():
    case = STRUCTURES["multiclass-cost-bias"]
    problem = case.problem(10.0)
    state, seen = SOLVER.init(problem, np.random.default_rng(0)), set()
    for _ in range(30):
        SOLVER.pass_(problem, state, 1.0, lambda: True)
        labels, alphas = mined_labels(case, state.arrays())
        kept = set(zip(state.labels.owner.tolist(), map(int, labels), strict=True))
        seen |= kept
    violation = state.violations(state.w)
    assert ((alphas > 0.0) | (violation > -1e-9)).all()
    assert len(kept) < len(seen)


@pytest.mark.parametrize("name", ["chain", "tags-plain"])
def test_cut_short_it_leaves_a_true_dual_point(name):
    case = STRUCTURES[name]
    problem, best = case.problem(), solve_qp(*case.reference, np.ones(STRUCTURES[name].n_blocks))[0]
    state = SOLVER.init(problem, np.random.default_rng(0))
    for _ in range(5):
        report = SOLVER.pass_(problem, state, 1.0, lambda: False)
        assert report.event is PassEvent.COMPLETE
        U = np.zeros(len(state.w))
        state.dual_vector(U)
        assert problem.dual(state.loss_sum, U) == state.dual_value(0.0) <= best * (1.0 + 1e-9)


# Going on


@pytest.mark.parametrize("name", ["chain", "tags-plain", long_if(True, "multiclass-single")])
def test_killed_and_resumed_is_uninterrupted(name, tmp_path):
    problem, path, copies = STRUCTURES[name].problem(), tmp_path / "run", []

    def keep(record):
        if path.exists():  # as it was after the pass before
            copies.append(tmp_path / f"copy{len(copies)}")
            shutil.copy(path, copies[-1])

    go = functools.partial(run, problem, HardNegatives(1e-3), tol=1e-3)
    whole = go(checkpoint=Checkpoint(path, seconds=0.0), callbacks=[keep])
    assert len(copies) >= 3
    for copy in copies:
        rest = go(checkpoint=Checkpoint(copy, seconds=1e9), random_state=99)
        assert_array_equal(rest.w, whole.w)
        assert_array_equal(rest.history["dual"], whole.history["dual"])
        assert rest.certificate.status is whole.certificate.status


@pytest.mark.parametrize("name", ["multiclass-cost-bias", "tags-plain"])
class TestHotStart:
    def test_own_result_is_settled_at_once(self, name):
        case, first = STRUCTURES[name], settled(name)
        again = run(case.problem(1.0, uneven(case)), start=first.state)
        assert again.certificate.passes <= 2
        assert again.certificate.status is Status.SETTLED
        assert_allclose(again.certificate.primal, first.certificate.primal, rtol=1e-6)

    def test_from_other_weights(self, name):
        case = STRUCTURES[name]
        weight = 3.0 * uneven(case)[::-1].copy()  # some from zero, some to zero
        result = run(case.problem(1.0, weight), start=settled(name).state)
        fresh = run(case.problem(1.0, weight))
        assert result.certificate.status is fresh.certificate.status is Status.SETTLED
        assert_feasible(case, dual_point(case, result.state), weight)
        best = solve_qp(*case.reference, weight, rtol=1e-7)[0]
        assert result.certificate.dual <= best * (1.0 + 1e-9)

    def test_of_another_solver_is_refused(self, name):
        problem = STRUCTURES[name].problem()
        other = solve(problem, random_state=0)
        with pytest.raises(InvalidData, match="a solver that mines no negatives"):
            run(problem, start=other.state)


def test_threads_change_nothing_that_is_proved():
    """They may find other labels on the way."""
    case = STRUCTURES["chain"]
    X, y = case.data(np.arange(150) % case.n_blocks)
    one, two = (
        run(Problem(case.structure, X, y, C=0.1, n_jobs=n), HardNegatives(1e-6)).certificate
        for n in (1, 2)
    )
    assert one.status is two.status is Status.SETTLED
    assert max(one.dual, two.dual) <= min(one.primal, two.primal)
    assert_allclose(one.primal, two.primal, rtol=0.5)


def test_by_name(rng):
    X = rng.normal(size=(60, 4))
    assert SOLVERS["hard_negatives"] is HardNegatives
    model = MulticlassSVM(C=1.0, solver="hard_negatives", random_state=0).fit(X, X.argmax(axis=1))
    assert model.certificate_.status is Status.SETTLED
    assert model.score(X, X.argmax(axis=1)) > 0.8


def test_streams_are_refused():
    stream = Stream([(np.eye(2), np.array([1.0, -1.0]))])
    with pytest.raises(InvalidData, match=r"hard_negatives needs all data in memory.*online_cache"):
        solve(StreamedProblem(Scalar(), stream), HardNegatives())


@pytest.mark.parametrize(
    "options", [{"inner_gap": 0.0}, {"inner_gap": 1.0}, {"inner_gap": np.nan}, {"max_rounds": 0}]
)
def test_bad_options_are_refused(options):
    with pytest.raises(InvalidData, match=r"inner_gap = .* must be between 0 and 1, max_rounds"):
        HardNegatives(**options)
