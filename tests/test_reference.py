import clarabel
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, sparse
from sklearn.svm import LinearSVC

from reference import binary_blocks, chain_blocks, dual, multiclass_blocks, primal, solve_qp


def binary(rng):
    return binary_blocks(rng.normal(size=(8, 3)), rng.choice([-1, 1], 8), bias=0.5)


def multiclass(rng):
    cost = rng.uniform(0.5, 2, size=(4, 4)) * (1 - np.eye(4))
    return multiclass_blocks(rng.normal(size=(6, 3)), rng.integers(4, size=6), 4, cost, bias=2.0)


def chain(rng, normalize=False, boundary=False):
    lengths = (1, 3, 2)
    X = [rng.normal(size=(length, 2)) for length in lengths]
    codes = [rng.integers(3, size=length) for length in lengths]
    return chain_blocks(X, codes, 3, normalize=normalize, boundary=boundary)


def chain_with_boundary(rng):
    return chain(rng, normalize=True, boundary=True)


PROBLEMS = [binary, multiclass, chain, chain_with_boundary]
SCALES = [1e-3, 1.0, 1e3]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def random_weights(rng, psi, scale):
    return scale * rng.uniform(0.5, 2, size=len(psi))


def random_alpha(rng, psi, weights):
    return [
        weight * rng.uniform() * rng.dirichlet(np.ones(len(block)))
        for block, weight in zip(psi, weights)
    ]


def split(flat, psi):
    return np.split(flat, np.cumsum([len(block) for block in psi])[:-1])


def dual_by_slsqp(psi, losses, weights):
    stacked, loss = np.vstack(psi), np.concatenate(losses)
    sums = np.repeat(np.eye(len(psi)), [len(block) for block in psi], axis=1)
    answer = optimize.minimize(
        lambda a: -dual(split(a, psi), psi, losses),
        np.zeros(len(loss)),
        jac=lambda a: stacked @ (stacked.T @ a) - loss,
        bounds=[(0, None)] * len(loss),
        constraints={"type": "ineq", "fun": lambda a: weights - sums @ a, "jac": lambda a: -sums},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return -answer.fun


def dual_by_clarabel(psi, losses, weights):
    stacked, loss = np.vstack(psi), np.concatenate(losses)
    sums = np.repeat(np.eye(len(psi)), [len(block) for block in psi], axis=1)
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    A = sparse.csc_matrix(np.vstack([-np.eye(len(loss)), sums]))
    b = np.concatenate([np.zeros(len(loss)), weights])
    P = sparse.csc_matrix(np.triu(stacked @ stacked.T))
    cones = [clarabel.NonnegativeConeT(len(b))]
    return -clarabel.DefaultSolver(P, -loss, A, b, cones, settings).solve().obj_val


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_primal_optimum_is_the_dual_optimum(problem, scale, rng):
    psi, losses = problem(rng)
    weights = random_weights(rng, psi, scale)
    optimum, w = solve_qp(psi, losses, weights)
    assert optimum == primal(w, psi, losses, weights)
    assert_allclose(optimum, dual_by_clarabel(psi, losses, weights), rtol=1e-8)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_primal_optimum_is_the_dual_optimum_of_another_package(problem, rng):
    psi, losses = problem(rng)
    weights = random_weights(rng, psi, 0.3)
    optimum, _ = solve_qp(psi, losses, weights)
    assert_allclose(optimum, dual_by_slsqp(psi, losses, weights), rtol=1e-6)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_optimum_separates_primal_and_dual_values(problem, rng):
    psi, losses = problem(rng)
    weights = random_weights(rng, psi, 1.0)
    optimum, w = solve_qp(psi, losses, weights)
    slack = 1e-9 * max(1, optimum)
    for _ in range(50):
        near = w + rng.choice([1e-4, 1e-2, 1]) * rng.normal(size=w.shape)
        assert primal(near, psi, losses, weights) >= optimum - slack
        assert dual(random_alpha(rng, psi, weights), psi, losses) <= optimum + slack


@pytest.mark.parametrize("bias", [0.0, 1.0, 3.0])
@pytest.mark.parametrize("C", [0.05, 1.0])
def test_binary_is_liblinear(bias, C, rng):
    X, signs = rng.normal(size=(20, 3)), rng.choice([-1, 1], 20)
    rival = LinearSVC(
        loss="hinge",
        dual=True,
        C=C,
        fit_intercept=bias != 0,
        intercept_scaling=bias or 1,
        tol=1e-10,
        max_iter=1_000_000,
        random_state=0,
    ).fit(X, signs)
    theirs = np.append(rival.coef_, rival.intercept_ / bias) if bias else rival.coef_[0]
    psi, losses = binary_blocks(X, signs, bias)
    weights = np.full(20, C)
    optimum, w = solve_qp(psi, losses, weights)
    assert_allclose(primal(theirs, psi, losses, weights), optimum, rtol=1e-7)
    assert_allclose(theirs, w, atol=1e-5)


def test_multiclass_is_liblinear(rng):
    X, codes, weights = rng.normal(size=(15, 3)), np.arange(15) % 3, np.full(15, 0.5)
    rival = LinearSVC(
        multi_class="crammer_singer",
        C=0.5,
        fit_intercept=False,
        tol=1e-10,
        max_iter=1_000_000,
        random_state=0,
    ).fit(X, codes)
    theirs = rival.coef_.T.ravel()
    psi, losses = multiclass_blocks(X, codes, 3)
    optimum, w = solve_qp(psi, losses, weights)
    assert_allclose(primal(theirs, psi, losses, weights), optimum, rtol=1e-7)
    assert_allclose(theirs, w, atol=1e-5)


def test_two_classes_are_binary(rng):
    X, codes = rng.normal(size=(10, 3)), rng.integers(2, size=10)
    weights = random_weights(rng, X, 1.0)
    two, w_two = solve_qp(*multiclass_blocks(X, codes, 2, bias=0.7), weights)
    one, w_one = solve_qp(*binary_blocks(X, 2 * codes - 1, bias=0.7), 2 * weights)
    # With u = w_1 - w_0 and w_1 = -w_0, ||w||^2 = ||u||^2 / 2.
    assert_allclose(two, one / 2, rtol=1e-8)
    assert_allclose(w_two.reshape(-1, 2) @ [-1, 1], w_one, atol=1e-5)


def test_chains_of_one_position_are_multiclass(rng):
    X, codes = rng.normal(size=(8, 2)), rng.integers(3, size=8)
    weights = random_weights(rng, X, 1.0)
    chains = [x[None, :] for x in X], codes[:, None], 3
    plain, _ = solve_qp(*multiclass_blocks(X, codes, 3), weights)
    assert_allclose(solve_qp(*chain_blocks(*chains), weights)[0], plain, rtol=1e-8)
    # First and last weights of a single position act as two bias features of value 1.
    biased, _ = solve_qp(*multiclass_blocks(X, codes, 3, bias=np.sqrt(2)), weights)
    assert_allclose(solve_qp(*chain_blocks(*chains, boundary=True), weights)[0], biased, rtol=1e-8)


def test_layout_of_multiclass():
    psi, losses = multiclass_blocks([[3.0, 5.0]], [1], 2, [[0, 7], [4, 0]], bias=0.5)
    assert_array_equal(psi[0], [[-3, 3, -5, 5, -0.5, 0.5], [0, 0, 0, 0, 0, 0]])
    assert_array_equal(losses[0], [4, 0])


def test_layout_of_chain():
    psi, losses = chain_blocks([[[2.0], [3.0]]], [[0, 1]], 2, boundary=True)
    # Labelings 00, 01, 10, 11; columns node | 00 01 10 11 | first | last.
    expected = [
        [-3, 3, -1, 1, 0, 0, 0, 0, -1, 1],
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        [-1, 1, 0, 1, -1, 0, 1, -1, -1, 1],
        [2, -2, 0, 1, 0, -1, 1, -1, 0, 0],
    ]
    assert_array_equal(psi[0], expected)
    assert_array_equal(losses[0], [1, 0, 2, 1])
    shorter, halved = chain_blocks([[[2.0], [3.0]]], [[0, 1]], 2, normalize=True)
    assert_array_equal(shorter[0], np.array(expected)[:, :6])
    assert_array_equal(halved[0], [0.5, 0, 1, 0.5])


def test_blocks_without_weight_do_not_count(rng):
    psi, losses = multiclass(rng)
    weights = np.array([1, 0, 1, 0, 1, 1.0])
    kept = weights > 0
    some = [p for p, k in zip(psi, kept) if k], [c for c, k in zip(losses, kept) if k]
    assert solve_qp(psi, losses, weights)[0] == solve_qp(*some, weights[kept])[0]
    assert solve_qp(psi, losses, np.zeros(6))[0] == 0


def test_an_inaccurate_answer_is_an_error(rng):
    psi, losses = multiclass(rng)
    with pytest.raises(RuntimeError, match="gap"):
        solve_qp(psi, losses, np.ones(6), rtol=-1.0)
