"""The space of a kernel: the same problems through rows of a kernel matrix, certified."""

import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.svm import SVC

import reference
from cases import long_if
from taut import Problem, Regularizer, Status, solve
from taut.data.memory import taken_when_written
from taut.engines import paired, working
from taut.errors import CacheOverflow, InvalidData, InvalidFile
from taut.kernels import (
    RBF,
    Chi2,
    Function,
    Intersection,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    VonMises,
    definite,
)
from taut.kernels.base import EVERY
from taut.solvers import DualCoordinate, FrankWolfe, MultiSample, NSlack, OneSlack, OnlineCache
from taut.spaces import kernel_rows
from taut.spaces.kernel import KernelQuadratic, through_kernel
from taut.spaces.kernel_rows import RowCache
from taut.structures import Chain, Multiclass, Scalar, Tree

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 4))
SIGNS = np.sign(X[:, 0] + 0.5 * RNG.normal(size=60))
CODES = RNG.integers(3, size=60)
OFFSETS = np.concatenate([[0], np.cumsum(np.tile([1, 4, 7], 5))])
CASES = {
    "scalar": (Scalar(), X, SIGNS),
    "scalar with a bias": (Scalar(bias=1.5), X, SIGNS),
    "multiclass": (Multiclass(3), X, CODES),
    "chain": (Chain(3, boundary=True), (X, OFFSETS), CODES),
    "tree": (
        Tree(3),
        [(x, [(0, v) for v in range(1, len(x))]) for x in np.split(X, OFFSETS[1:-1])],
        np.split(CODES, OFFSETS[1:-1]),
    ),
}


def kernelised(name, kernel, C=1.0, **settings):
    structure, rows, y = CASES[name]
    return Problem(structure, rows, y, C=C, space=through_kernel(kernel, **settings))


# Planes, which chains have, are moved in this space by the next test.
@pytest.mark.parametrize(
    "name", [long_if(name in ("scalar", "chain", "tree"), name) for name in CASES]
)
def test_inner_products_as_a_kernel_take_the_steps_of_linear_features(name):
    structure, rows, y = CASES[name]
    options = {"tol": 1e-7, "random_state": 0, "max_iter": 300}
    linear = solve(Problem(structure, rows, y), **options).certificate
    ours = solve(kernelised(name, Linear(), dtype=np.float64), **options).certificate
    assert ours.passes == linear.passes
    assert_allclose([ours.primal, ours.dual], [linear.primal, linear.dual], rtol=1e-6)


def products(rows):
    """All products of two columns: the features of the kernel (x'z)^2, written down."""
    return np.einsum("ij,ik->ijk", rows, rows).reshape(len(rows), -1)


# Each solver and each form of dual variables in the pair that is compiled fastest; where samples
# are merged, that is classes.
@pytest.mark.parametrize(
    ("solver", "name"),
    [
        (DualCoordinate(), "chain"), (FrankWolfe(), "scalar"), (MultiSample(), "multiclass"),
        (MultiSample(2, "argmax"), "multiclass"), (NSlack(), "chain"), (OneSlack(), "multiclass"),
    ],
    ids=str,
)  # fmt: skip
def test_no_solver_touches_coordinates_of_its_own(solver, name):
    structure, _rows, y = CASES[name]
    explicit = (products(X), OFFSETS) if name == "chain" else products(X)
    options = {"random_state": 0, "max_iter": 5000}
    reference = solve(Problem(structure, explicit, y, C=0.05), tol=1e-7, **options).certificate
    ours = solve(kernelised(name, Polynomial(2, 1.0), C=0.05), solver, tol=1e-3, **options)
    assert ours.certificate.status.name == reference.status.name == "CONVERGED"
    assert ours.certificate.dual <= reference.primal * (1 + 1e-7)
    assert ours.certificate.primal >= reference.dual * (1 - 1e-7)


@pytest.mark.parametrize("name", ["scalar with a bias", "multiclass", "chain"])
def test_working_sets_find_the_same_optimum(name, monkeypatch):
    for engine in (paired, working):
        monkeypatch.setattr(engine, "_FIRST", 5)
    whole = solve(kernelised(name, RBF(0.3)), tol=1e-5, random_state=0).certificate
    parts = solve(kernelised(name, RBF(0.3), whole=0), tol=1e-5, random_state=0).certificate
    assert whole.status is parts.status is Status.CONVERGED
    assert_allclose(whole.primal, parts.primal, rtol=2e-5)


def test_means_within_working_sets_are_dual_points_with_their_potentials(monkeypatch):
    means, gap_with = [], working._Mean.gap_with

    def checked(self, part, point):
        gap = gap_with(self, part, point)
        alpha, features = self.part.duals.alpha, part.duals.data.blocks.features
        assert (alpha >= 0).all()
        assert_allclose(alpha.sum(axis=1), part.duals.weight, rtol=1e-12)
        U = np.zeros(features.size)
        self.part.duals.sum_up(U)
        moves = features.shares(self.point)[1]
        before = features.shares(U)[1] - moves  # coefficients that the working set began with
        if self._number == 1:
            means.append(before)
        assert_allclose(before, means[-1], atol=1e-9)
        assert gap > 0
        return gap

    monkeypatch.setattr(working._Mean, "gap_with", checked)
    result = solve(kernelised("multiclass", RBF(0.3), C=10.0, whole=0), tol=1e-6, random_state=0)
    assert result.certificate.status is Status.CONVERGED
    assert len(means) > 1


def bounds(K, w, C):
    """Primal and dual of a scalar problem by their definitions."""
    a, score = SIGNS * w, K @ w
    assert ((a >= -1e-9) & (a <= C * (1 + 1e-9))).all()
    square = w @ score
    return 0.5 * square + C * np.maximum(1 - SIGNS * score, 0).sum(), a.sum() - 0.5 * square


@pytest.mark.parametrize("whole", [0, 1000])
@pytest.mark.parametrize("kernel", [RBF(0.5), 0.1 * Polynomial(3, 0.5, 1.0)])
def test_certificates_are_those_of_the_coefficients(kernel, whole):
    problem = kernelised("scalar", kernel, C=5.0, whole=whole)
    result = solve(problem, DualCoordinate(recentring=0.0), tol=1e-4, random_state=0)
    primal, dual = bounds(kernel(X), result.w, 5.0)
    assert_allclose(result.certificate.primal, primal, rtol=1e-9)
    assert result.certificate.dual <= primal
    assert dual >= result.certificate.dual - 1e-4 * primal


@pytest.mark.filterwarnings("ignore::taut.errors.CacheOverflow")
@pytest.mark.parametrize(
    ("name", "cache"), [("scalar with a bias", 4000), ("multiclass", 4000), ("chain", 30_000)]
)
def test_a_small_cache_changes_nothing_but_the_time(name, cache, monkeypatch):
    monkeypatch.setattr(kernel_rows, "_LEAST", 2)
    problem = kernelised(name, RBF(0.3), whole=0, cache=cache)
    features = problem.data.blocks.features
    assert features.cache.gram.nbytes + 4 * features.matrix.most**2 <= cache
    small = solve(problem, tol=1e-5, random_state=0, max_iter=5000).certificate
    large = solve(kernelised(name, RBF(0.3)), tol=1e-5, random_state=0).certificate
    assert small.status is Status.CONVERGED
    assert_allclose(small.primal, large.primal, rtol=2e-5)


@pytest.mark.parametrize(
    "kernel",
    [
        RBF(0.5), Linear(), Linear() + RBF(2.0), 0.5 * Laplacian(0.3), Polynomial(2, 0.5, 1.0),
        Intersection(), Chi2(0.7), VonMises(2.0), RBF(0.3) * Intersection(), Precomputed(),
        Function(lambda A, B: A @ B.T),
    ],
    ids=lambda kernel: type(kernel).__name__,
)  # fmt: skip
def test_the_optimum_is_that_of_a_quadratic_program(kernel):
    structure, rows = CASES["scalar with a bias"][0], np.abs(X)
    if isinstance(kernel, Precomputed):
        rows = RBF(0.5)(rows)
    problem = Problem(structure, rows, SIGNS, C=2.0, space=through_kernel(kernel))
    found = solve(problem, tol=1e-6, random_state=0, max_iter=3000).certificate
    K = kernel(rows) + 1.5**2
    L = np.linalg.cholesky(K + 1e-10 * np.eye(60))
    psi, losses = reference.binary_blocks(L, SIGNS)
    optimum = reference.solve_qp(psi, losses, np.full(60, 2.0))[0]
    assert_allclose(found.primal, optimum, rtol=1e-5)


def test_the_dual_is_that_of_libsvm():
    # LIBSVM has a free bias: with labels that sum to 0 over pairs of opposite rows it is 0.
    pairs, signs = np.vstack([X, -X]), np.concatenate([SIGNS, -SIGNS])
    K = pairs @ pairs.T + (pairs @ pairs.T) ** 3
    theirs = SVC(C=1.0, kernel="precomputed", tol=1e-8).fit(K, signs)
    beta = theirs.dual_coef_[0]
    dual = np.abs(beta).sum() - 0.5 * beta @ K[np.ix_(theirs.support_, theirs.support_)] @ beta
    kernel = Linear() + Polynomial(3, 1.0)
    ours = solve(
        Problem(Scalar(), pairs, signs, space=through_kernel(kernel)), tol=1e-6, random_state=0
    )
    assert_allclose(ours.certificate.dual, dual, rtol=1e-4)


def test_rows_that_change_during_a_run_change_nothing():
    def change(record):
        rows[:] += 1.0

    rows = X.copy()
    problem = Problem(Scalar(), rows, SIGNS, space=through_kernel(Linear(), dtype=np.float64))
    changed = solve(problem, tol=1e-6, random_state=0, callbacks=[change]).certificate
    assert_allclose(
        changed.primal, solve(kernelised("scalar", Linear()), tol=1e-6).certificate.primal, 1e-5
    )


def test_sparse_rows_and_histograms():
    histograms = np.maximum(X, 0.0)
    dense, csr = (
        solve(Problem(Scalar(), rows, SIGNS, space=through_kernel(Intersection())), random_state=0)
        for rows in (histograms, sp.csr_array(histograms))
    )
    assert_allclose(dense.certificate.primal, csr.certificate.primal, rtol=2e-3)


@pytest.mark.parametrize("name", ["scalar", "multiclass"])
def test_a_run_that_was_saved_goes_on_as_if_it_had_not_stopped(name, tmp_path, monkeypatch):
    for engine in (paired, working):
        monkeypatch.setattr(engine, "_FIRST", 5)
    options = {"tol": 1e-5, "random_state": 0}
    whole = solve(kernelised(name, RBF(0.3), whole=0), **options)
    path = tmp_path / "run"
    solve(kernelised(name, RBF(0.3), whole=0), **options, max_iter=3, checkpoint=path)
    resumed = solve(kernelised(name, RBF(0.3), whole=0), **options, checkpoint=path)
    assert_allclose(resumed.w, whole.w, atol=1e-12)
    other = kernelised(name, RBF(0.4), whole=0)
    with pytest.raises(InvalidFile, match="differs in data"):
        solve(other, **options, checkpoint=path)


def test_a_start_at_another_c_moves_no_centre():
    # One around the old weights put w beyond the dual variables, and a path needed 1000 passes.
    first = solve(kernelised("chain", RBF(0.5), C=0.3, whole=0), tol=1e-2, random_state=0)
    problem = kernelised("chain", RBF(0.5), C=2.0, whole=0)
    again = solve(problem, start=first.state, tol=1e-2, random_state=0).certificate
    assert again.status is Status.CONVERGED
    assert again.passes < 20


def test_separable_data_have_dual_variables_far_below_c():
    signs = np.sign(X[:, 0] * X[:, 1])
    for C in (1e4, 1e7):
        problem = Problem(Scalar(), X, signs, C=C, space=through_kernel(RBF(2.0), whole=0))
        found = solve(problem, tol=1e-3, random_state=0).certificate
        assert found.status is Status.CONVERGED
        assert_allclose(found.primal, 0.5 * signs @ np.linalg.solve(RBF(2.0)(X), signs), rtol=0.2)


def test_rows_that_single_precision_does_not_know_have_double():
    far = X + 1e4 * RNG.integers(3, size=(60, 1))
    problem = Problem(Scalar(), far, SIGNS, space=through_kernel(RBF(1.0), whole=0))
    assert problem.data.blocks.features.rows.dtype == np.float64
    found = solve(problem, tol=1e-3, random_state=0).certificate
    assert found.status is Status.CONVERGED
    assert found.rounding > 1e-9 * found.primal  # values themselves are not exact


def test_a_negative_length_is_no_length():
    quadratic = KernelQuadratic(2)
    assert quadratic.value(np.array([1.0, 2.0, 1.0, 1.0])) == 1.5
    with pytest.raises(InvalidData, match=r"not positive definite: .* is -3"):
        quadratic.value(np.array([1.0, 2.0, -1.0, -1.0]))


def test_small_gaps_are_sought_in_double_precision():
    problem = kernelised("scalar", RBF(0.5), C=5.0, whole=0)
    assert solve(problem, tol=1e-9, random_state=0).certificate.status is Status.CONVERGED
    assert problem.data.blocks.features.rows.dtype == np.float64


def test_kernels_that_are_tested_on_some_rows_say_so(monkeypatch):
    monkeypatch.setattr(definite, "_MOST", 100)
    rows = np.random.default_rng(0).normal(size=(110, 2))
    function = Function(lambda A, B: np.exp(-np.abs(A[:, None] - B).sum(axis=2)))
    problem = Problem(
        Scalar(), rows, np.sign(rows[:, 0]), C=0.01, space=through_kernel(function, whole=0)
    )
    found = solve(problem, tol=1e-2, random_state=0).certificate
    assert found.of.endswith("if the kernel is positive definite, as it is on 100 of 110 rows")
    assert found.of in found.message


class Doubled(Scalar):
    """A structure that somebody derived: its hinge is not that of its parent's margins."""

    @staticmethod
    def loss(data, i, label):
        return 2.0 * label[0]

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        violation = 2.0 * loss_weight - data[0][i, 0] * work[0]
        label[0] = 1 if violation > 0.0 else 0
        return max(violation, 0.0)

    exact_step = None


def test_margins_of_a_parent_are_not_those_of_a_child():
    space = through_kernel(RBF(0.5), whole=0)
    problem = Problem(Doubled(), X, SIGNS, C=2.0, space=space)
    assert problem.data.signed_rows is None
    assert problem.data.slack(np.zeros((1, 60))) is None
    found = solve(problem, tol=1e-5, random_state=0, check=True).certificate
    psi, losses = reference.binary_blocks(np.linalg.cholesky(RBF(0.5)(X)), SIGNS)
    optimum = reference.solve_qp(psi, [2.0 * loss for loss in losses], np.full(60, 2.0))[0]
    assert_allclose(found.primal, optimum, rtol=2e-5)


def test_threads_that_share_a_problem_take_turns():
    problem = kernelised("multiclass", RBF(0.3), whole=0)
    shared = [problem.with_factor(C) for C in (0.3, 1.0, 3.0, 10.0)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda own: solve(own, tol=1e-4, random_state=0), shared))
    for own, result in zip(shared, found, strict=True):
        alone = kernelised("multiclass", RBF(0.3), C=own.C, whole=0).primal(result.w)
        assert_allclose(result.certificate.primal, alone, rtol=1e-9)
        assert result.certificate.status is Status.CONVERGED


def test_rows_that_were_not_computed_are_not_there(monkeypatch):
    cache = RowCache(RBF(0.3 / 20).prepared(np.tile(X, 20), np.float32), 0.0, 60 * 4 * 60)
    out = np.zeros((1, 60))
    with monkeypatch.context() as torn:
        torn.setattr(cache, "compute", fail)
        with pytest.raises(MemoryError):
            cache.add(np.arange(5), np.ones((1, 5)), out, np.ones(5, dtype=bool))
    assert (cache.slots(np.arange(60)) < 0).all()
    out[:] = 0.0
    cache.add(np.arange(5), np.ones((1, 5)), out, np.ones(5, dtype=bool))
    assert_allclose(out[0], RBF(0.3)(X)[:5].sum(axis=0), rtol=1e-5)


def fail(*arguments):
    raise MemoryError


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only where processes fork")
def test_forked_processes_do_not_share_memory():
    array = taken_when_written((4,), np.float64)
    child = multiprocessing.get_context("fork").Process(target=array.fill, args=(1.0,))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert not array.any()


def test_a_small_cache_computes_rows_again_and_says_so():
    assert RBF(0.3).prepared(X, np.float32).cheap  # those of few columns are not kept
    wide = RBF(0.3 / 20).prepared(np.tile(X, 20), np.float32)
    cache = RowCache(wide, 2.0, nbytes=60 * 4 * 10)
    assert cache.capacity == 10
    expected = RBF(0.3)(X) + 2.0
    amounts = RNG.normal(size=(2, 25))
    out = np.zeros((2, 60))
    keep = np.arange(25) < 22
    cache.add(np.arange(25), amounts, out, keep)
    assert (cache.computed, cache.recomputed) == (25, 0)
    with pytest.warns(CacheOverflow, match="10 of 60 rows"):
        cache.add(np.arange(25), amounts, out, keep)
    assert cache.recomputed > 0
    assert (cache.slots(np.arange(22, 25)) < 0).all()  # those that pass are not kept
    assert_allclose(out, 2.0 * amounts @ expected[:25], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kernel", [RBF(0.3), Linear(), VonMises(2.0)])
def test_errors_of_single_precision_are_within_their_bound(kernel):
    rows, exact = (kernel.prepared(X, dtype) for dtype in (np.float32, np.float64))
    found, expected = np.empty((60, 60), np.float32), np.empty((60, 60))
    rows.block(EVERY, rows, EVERY, found)
    exact.block(EVERY, exact, EVERY, expected)
    assert 0.0 < np.abs(found - expected).max() <= rows.error < 1e-3


def test_rows_that_were_vouched_for_are_those_without_a_hinge():
    problem = kernelised("scalar with a bias", RBF(0.3), C=3.0, whole=0)
    result = solve(problem, tol=1e-4, random_state=0)
    features = problem.data.blocks.features
    _coefficients, _potentials, certain = features._vouched
    margins = SIGNS * ((RBF(0.3)(X) + 1.5**2) @ result.w)
    assert certain.any()
    assert (margins[certain] > 1.0).all()
    assert (result.w[certain] == 0.0).all()
    again = kernelised("scalar with a bias", RBF(0.3), C=3.0)
    assert_allclose(result.certificate.primal, again.primal(result.w), rtol=1e-12)


def test_refused():
    with pytest.raises(InvalidData, match="no weights"):
        Problem(
            Scalar(), X, SIGNS, regularizer=Regularizer(nonneg=True), space=through_kernel(RBF())
        )
    with pytest.raises(InvalidData, match=r"space of its own.*leave the kernel or the space out"):
        solve(kernelised("multiclass", RBF()), OnlineCache())
    with pytest.raises(InvalidData, match="smallest eigenvalue"):
        kernelised("scalar", Function(lambda A, B: -(A @ B.T)))
    with pytest.raises(InvalidData, match="rows"):
        solve(kernelised("chain", RBF(), whole=0), FrankWolfe())
