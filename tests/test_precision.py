"""Data in single precision: w is worked on in float32, and what is certified is true in float64."""

import dataclasses
import functools
import shutil

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import cases
from reference import dual, primal
from taut import Checkpoint, Problem, Status, solve
from taut.solvers import DualCoordinate
from taut.structures import Chain, Multiclass, Scalar
from taut.training import tuning
from taut.training.loop import Run
from test_solvers import assert_feasible, dual_point


def single(X):
    return np.asarray(X, dtype=np.float32)


def exact(case):
    """Its numbers rounded to float32, so that both precisions have the same reference."""
    xs = [single(x).astype(np.float64) for x in case.xs]
    return dataclasses.replace(case, xs=xs)


# Each as float32 and as float64. Three labels are padded to eight columns, ten to sixteen.
CASES = {
    name: [exact(make(kind)) for kind in (single, np.asarray)]
    for name, make in {
        "scalar": functools.partial(cases.scalar, bias=0.5),
        "regression": functools.partial(cases.regression, bias=0.5),
        "multiclass": functools.partial(cases.multiclass, bias=1.0, n_classes=10),
        "chain": functools.partial(cases.chain, boundary=True),
        "pairwise": cases.pairwise,
        "ndcg": cases.ndcg,
    }.items()
}
run = functools.partial(solve, tol=1e-4, max_iter=5000, random_state=0)


# Rankings and chains have dual variables of one form.
@pytest.fixture(params=cases.names(CASES, long=("pairwise", "ndcg")))
def name(request):
    return request.param


@pytest.fixture
def narrow(name):
    return CASES[name][0]


@pytest.fixture
def wide(name):
    return CASES[name][1]


def assert_true(case, result, weights):
    """The bounds are those that enumeration in float64 finds."""
    certificate = result.certificate
    assert certificate.exact
    assert result.w.dtype == np.float64
    assert_allclose(primal(result.w, *case.reference, weights), certificate.primal, rtol=1e-12)
    alphas = dual_point(case, result.state)
    assert_feasible(case, alphas, weights)
    value = dual(alphas, *case.reference)
    # The certificate keeps the best dual of all that were verified.
    slack = 1e-12 * (1.0 + abs(value))
    assert value <= certificate.dual + slack
    assert certificate.dual - value <= certificate.gap + slack


@pytest.mark.parametrize(
    ("tol", "dtype"),
    [(1e-2, np.float32), (1e-5, np.float32), (9.9e-6, np.float64), (1e-8, np.float64)],
)
def test_w_is_as_precise_as_the_tolerance_needs(narrow, tol, dtype):
    problem = narrow.problem()
    state = Run(problem, DualCoordinate(), tol, np.random.default_rng(0)).state
    assert state.w.dtype == dtype
    result = run(problem, tol=tol)
    assert result.certificate.status is Status.CONVERGED
    if tol > 1e-4 or dtype == np.float64:  # near its limits single precision may be left
        assert result.state["w"].dtype == dtype
    assert_true(narrow, result, np.ones(narrow.n_blocks))


def test_wide_data_stay_wide(wide):
    assert run(wide.problem(), tol=1e-2).state["w"].dtype == np.float64


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_certificates_of_single_precision_are_true(narrow, C):
    for tol in (1e-1, 1e-3, 1e-5):
        result = run(narrow.problem(C), tol=tol)
        assert result.certificate.status is Status.CONVERGED
        assert_true(narrow, result, np.full(narrow.n_blocks, C))


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_both_precisions_enclose_one_optimum(narrow, wide, C):
    ours, others = (run(case.problem(C), tol=1e-5).certificate for case in (narrow, wide))
    assert max(ours.dual, others.dual) <= min(ours.primal, others.primal) * (1.0 + 1e-12)


# Widening


def test_a_run_goes_on_after_it_is_widened(narrow):
    run = Run(narrow.problem(10.0), DualCoordinate(), 1e-4, np.random.default_rng(0))
    run.go(7, None, [], None)
    vectors = [run.state.w.copy(), run.average.copy(), run.centre.z.copy()]
    best = run.best_primal, run.best_dual
    run.widen()
    widened = [run.state.w, run.average, run.centre.z]
    for before, after in zip(vectors, widened, strict=True):
        assert (before.dtype, after.dtype) == (np.float32, np.float64)
        assert_array_equal(before, after)
    assert run.centre.U.dtype == np.float64
    run.tol = 1e-9
    status = run.go(5000, None, [], None)
    assert status is Status.CONVERGED
    result = run.result(status)
    assert result.certificate.relative_gap <= 1e-9
    assert result.certificate.primal <= best[0]
    assert result.certificate.dual >= best[1]
    assert_true(narrow, result, np.full(narrow.n_blocks, 10.0))


def test_widening_twice_is_widening_once(narrow):
    run = Run(narrow.problem(), DualCoordinate(), 1e-4, np.random.default_rng(0))
    run.widen()
    w = run.state.w
    run.widen()
    assert run.state.w is w


def test_a_run_that_single_precision_stalls_is_widened(narrow, monkeypatch):
    """As if tolerances far below 1e-5 were within single precision's reach."""
    monkeypatch.setattr(tuning, "SINGLE_PRECISION", 0.0)
    monkeypatch.setattr(tuning, "VERIFIED_PATIENCE", 4)
    result = run(narrow.problem(10.0), tol=1e-9, max_iter=1000)
    assert result.state["w"].dtype == np.float64
    assert result.certificate.status is Status.CONVERGED
    assert_true(narrow, result, np.full(narrow.n_blocks, 10.0))


def test_verifications_without_gain_widen(narrow, monkeypatch):
    monkeypatch.setattr(tuning, "VERIFIED_PATIENCE", 4)
    run = Run(narrow.problem(10.0), DualCoordinate(), 1e-4, np.random.default_rng(0))
    run.go(3, None, [], None)
    for _ in range(2):  # at the same w, where `go` ended with one
        assert run.fruitless < 2
        run.verify()
    assert run.fruitless >= 2
    assert run.state.w.dtype == np.float64
    status = run.go(5000, None, [], None)
    assert status is Status.CONVERGED
    assert_true(narrow, run.result(status), np.full(narrow.n_blocks, 10.0))


def badly_scaled(dtype):
    """Multiclass with features of very different magnitude."""
    rng = np.random.default_rng(7)
    X = (rng.normal(size=(60, 6)) * np.geomspace(0.01, 30.0, 6)).astype(np.float32)
    return Problem(Multiclass(4), X.astype(dtype), rng.integers(4, size=60), C=0.01)


def test_badly_scaled_features_converge():
    found = [run(badly_scaled(dtype), tol=2e-5) for dtype in (np.float32, np.float64)]
    for result in found:
        assert result.certificate.status is Status.CONVERGED
    ours, others = (result.certificate for result in found)
    assert max(ours.dual, others.dual) <= min(ours.primal, others.primal) * (1.0 + 1e-12)
    assert_allclose(badly_scaled(np.float64).primal(found[0].w), ours.primal, rtol=1e-12)


# Checkpoints and starts


@pytest.mark.parametrize("k", [2, 5])
def test_resumed_is_uninterrupted(narrow, tmp_path, k):
    problem, path, copy = narrow.problem(10.0), tmp_path / "run.taut", tmp_path / "copy.taut"

    def keep(record):
        if record.iteration == k:
            shutil.copy(path, copy)

    whole = run(problem, tol=1e-5, checkpoint=Checkpoint(path, seconds=0.0), callbacks=[keep])
    resumed = run(problem, tol=1e-5, checkpoint=copy, random_state=99)
    assert_array_equal(resumed.w, whole.w)
    assert_array_equal(resumed.history["dual"], whole.history["dual"])
    assert resumed.state["w"].dtype == whole.state["w"].dtype
    assert resumed.certificate.primal == whole.certificate.primal


def test_a_widened_run_is_resumed_wide(narrow, monkeypatch, tmp_path):
    problem, path, copy = narrow.problem(10.0), tmp_path / "run.taut", tmp_path / "copy.taut"
    account = Run.account

    def widening(self, *arguments):
        record = account(self, *arguments)
        if self.iteration == 2:
            self.widen()
        return record

    def keep(record):
        if record.iteration == 4:
            shutil.copy(path, copy)

    monkeypatch.setattr(Run, "account", widening)
    checkpoint = Checkpoint(path, seconds=0.0)
    whole = run(problem, tol=1e-5, checkpoint=checkpoint, callbacks=[keep])
    resumed = run(problem, tol=1e-5, checkpoint=copy)
    assert whole.state["w"].dtype == resumed.state["w"].dtype == np.float64
    assert_array_equal(resumed.w, whole.w)
    assert_array_equal(resumed.history["dual"], whole.history["dual"])


def test_a_finer_tolerance_resumes_a_narrow_run(narrow, tmp_path):
    problem, path = narrow.problem(), tmp_path / "run.taut"
    rough = run(problem, tol=1e-2, checkpoint=path)
    assert rough.state["w"].dtype == np.float32
    fine = run(problem, tol=1e-7, checkpoint=path)
    assert fine.state["w"].dtype == np.float64
    assert fine.certificate.status is Status.CONVERGED
    assert_true(narrow, fine, np.ones(narrow.n_blocks))


def test_a_start_from_the_other_precision(narrow):
    problem = narrow.problem()
    rough, fine = run(problem, tol=1e-2), run(problem, tol=1e-8)
    for start, tol in ((rough, 1e-8), (fine, 1e-2)):
        result = run(problem, tol=tol, start=start.state)
        assert result.certificate.status is Status.CONVERGED
        assert_true(narrow, result, np.ones(narrow.n_blocks))


# Padding


@pytest.mark.parametrize("form", [0, 1])
def test_results_have_no_padding(name, form):
    case = CASES[name][form]
    problem = case.problem(3.0)
    result = run(problem)
    assert result.w.shape == (problem.n_features,)
    assert problem.primal(result.w) == pytest.approx(result.certificate.primal, rel=1e-13)
    padded = problem.data.pad(result.w)
    assert padded.shape == result.state["w"].shape == (problem.data.size,)
    assert_array_equal(problem.data.unpad(padded), result.w)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [2, 4, 5, 8, 9, 26])
def test_padding_is_put_on_and_taken_off(dtype, count, rng):
    X, y = rng.normal(size=(6, 3)).astype(dtype), rng.integers(count, size=6)
    offsets = np.array([0, 2, 6])
    for blocks in (
        Multiclass(count, bias=1.0).encode(X, y),
        Chain(count, boundary=True).encode((X, offsets), y),
        Scalar(bias=1.0).encode(X, np.ones(6)),
    ):
        features = blocks.features
        assert features.dtype == dtype
        assert features.size % features.stride == 0
        assert features.size // features.stride * features.columns == features.n_features
        for kind in (np.float32, np.float64):
            w = rng.normal(size=features.n_features).astype(kind)
            padded = features.pad(w)
            assert (padded.dtype, padded.shape) == (kind, (features.size,))
            assert_array_equal(features.unpad(padded), w)
            assert features.unpad(padded).dtype == np.float64
            assert not padded.reshape(-1, features.stride)[:, features.columns :].any()
            assert np.count_nonzero(padded) == features.n_features


def test_padding_stays_zero_while_training(narrow):
    problem = narrow.problem(10.0)
    features, result = problem.data.blocks.features, run(problem, tol=1e-3)
    assert not result.state["w"].reshape(-1, features.stride)[:, features.columns :].any()
