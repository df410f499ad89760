"""Kernels: their values, blocks, algebra, and what they refuse."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.metrics import pairwise

from taut.errors import InvalidData, InvalidStructure, InvalidType
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
    as_kernel,
    check_definite,
    definite,
)

RNG = np.random.default_rng(0)
X, Z = (np.maximum(RNG.normal(size=(n, 6)) + 0.2, 0.0) for n in (30, 20))
VALUES = {
    "linear": (Linear(), pairwise.linear_kernel),
    "rbf": (RBF(0.3), lambda A, B: pairwise.rbf_kernel(A, B, 0.3)),
    "laplacian": (Laplacian(0.3), lambda A, B: pairwise.laplacian_kernel(A, B, 0.3)),
    "polynomial": (
        Polynomial(3, 0.5, 1.0),
        lambda A, B: pairwise.polynomial_kernel(A, B, 3, 0.5, 1.0),
    ),
    "power": (Polynomial(2, 0.5), lambda A, B: (0.5 * A @ B.T) ** 2),
    "intersection": (
        Intersection(),
        lambda A, B: np.minimum(A[:, None], B[None]).sum(axis=2),
    ),
    "chi2": (Chi2(0.7), lambda A, B: pairwise.chi2_kernel(A, B, 0.7)),
    "von_mises": (
        VonMises(2.0),
        lambda A, B: np.exp(2.0 * (np.cos(A[:, None] - B[None]) - 1.0).sum(axis=2)),
    ),
    "function": (Function(lambda A, B: (A @ B.T) + 0.0), pairwise.linear_kernel),
    "sum": (RBF(0.3) + 2.0 * Linear(), lambda A, B: pairwise.rbf_kernel(A, B, 0.3) + 2.0 * A @ B.T),
    "product": (
        RBF(0.3) * Intersection() * Linear(),
        lambda A, B: pairwise.rbf_kernel(A, B, 0.3) * VALUES["intersection"][1](A, B) * (A @ B.T),
    ),
}


def stored(A, how):
    return sp.csr_array(A) if how == "csr" else A


@pytest.mark.parametrize("how", ["dense", "csr"])
@pytest.mark.parametrize("name", [name for name in VALUES if name != "function"])
def test_values(name, how):
    kernel, expected = VALUES[name]
    np.testing.assert_allclose(kernel(stored(X, how)), expected(X, X), rtol=1e-10, atol=1e-12)
    both = kernel(stored(X, how), stored(Z, how))
    np.testing.assert_allclose(both, expected(X, Z), rtol=1e-10, atol=1e-12)


def test_sparse_rows_of_many_columns_stay_sparse():
    wide = sp.random_array((25, 2000), density=0.005, rng=np.random.default_rng(1), format="csr")
    dense = wide.toarray()
    for name in ("linear", "rbf", "polynomial", "laplacian"):
        kernel, expected = VALUES[name]
        rows = kernel.prepared(wide, np.float64)
        assert rows.nbytes < dense.nbytes / 4
        np.testing.assert_allclose(kernel(wide), expected(dense, dense), rtol=1e-9, atol=1e-12)


def backgrounds(n, seed):
    """Rows of 200 columns: 150 that are -1 but for a few rows, 50 that are full."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 200))
    rows[:, :150] = np.where(rng.random((n, 150)) < 0.02, rows[:, :150] + 3.0, -1.0)
    return rows


@pytest.mark.parametrize("how", ["dense", "csr"])
@pytest.mark.parametrize("kernel", [RBF(0.02), Linear(), Polynomial(3, 0.02, 1.0)])
def test_columns_that_few_rows_have_are_apart(kernel, how):
    A, B = backgrounds(90, 0), backgrounds(40, 1)
    if how == "csr":
        A[A == -1.0] = B[B == -1.0] = 0.0
    expected = {
        RBF: lambda: pairwise.rbf_kernel(B, A, 0.02),
        Linear: lambda: B @ A.T,
        Polynomial: lambda: pairwise.polynomial_kernel(B, A, 3, 0.02, 1.0),
    }[type(kernel)]()
    rows = kernel.prepared(stored(A, how), np.float64)
    apart = how == "csr" or isinstance(kernel, RBF)  # only differences know of a background
    assert rows.split.rare.sum() == (150 if apart else 0)
    new = kernel.prepared(stored(B, how), np.float64, rows)
    out, some = np.empty((40, 90)), np.array([70, 3, 88])
    new.block(slice(None), rows, slice(None), out)
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-12)
    few = np.empty((2, 3))
    new.block(np.array([7, 1]), rows, some, few)
    np.testing.assert_allclose(few, expected[[7, 1]][:, some], rtol=1e-10, atol=1e-12)
    single = rows.astype(np.float32)
    found, exact = np.empty((90, 90), np.float32), np.empty((90, 90))
    single.block(slice(None), single, slice(None), found)
    rows.block(slice(None), rows, slice(None), exact)
    assert np.abs(found - exact).max() <= single.error
    np.testing.assert_allclose(single.diagonal(), np.diag(exact), rtol=1e-5)


def test_single_precision_exponentials():
    # Of all sizes, and those that are too small to be told from 0.
    squares = np.concatenate([[0.0], np.geomspace(1e-6, 400.0, 2000)])
    rows = RBF(0.5).prepared(np.sqrt(squares)[:, None], np.float64)
    single, out = rows.astype(np.float32), np.empty((1, 2001), np.float32)
    single.block(slice(0, 1), single, slice(None), out)
    distance = (np.sqrt(squares) - 0.0) ** 2
    assert np.abs(out[0] - np.exp(-0.5 * distance)).max() <= single.error
    assert out.min() >= 0.0
    assert out[0, 0] == 1.0


@pytest.mark.parametrize("how", ["dense", "csr"])
@pytest.mark.parametrize(
    "kernel",
    [
        Laplacian(0.3),
        Laplacian(300.0),
        Chi2(0.7),
        Intersection(),
        RBF(0.3) + 2.0 * Linear(),
        0.1 * (Laplacian(0.3) * Intersection() * Polynomial(3, 0.5, 1.0)) + Chi2(0.7),
    ],
    ids=repr,
)
@pytest.mark.parametrize("size", [1.0, 1e3])
def test_errors_of_single_precision_are_within_their_bound(kernel, how, size):
    rows = kernel.prepared(stored(size * X, how), np.float64)
    single = rows.astype(np.float32)
    found, exact = np.empty((30, 30), np.float32), np.empty((30, 30))
    single.block(slice(None), single, slice(None), found)
    rows.block(slice(None), rows, slice(None), exact)
    assert np.abs(found - exact).max() <= single.error < np.inf
    assert rows.error < 1e-6 * single.error or single.error > 1.0
    assert not single.cheap or type(kernel) not in (Laplacian, Chi2, Intersection)


def test_errors_of_matrices_and_functions():
    K = RBF(0.3)(X)
    rows = Precomputed().prepared(K, np.float64)
    single = rows.astype(np.float32)
    assert rows.error == 0.0
    assert 0.0 < np.abs(single.matrix - K).max() <= single.error <= 1e-7
    both = (Precomputed() + 0.1 * Precomputed()).prepared(K, np.float64)
    assert 0.0 < both.error < 1e-15
    own = VALUES["function"][0]
    assert all(k.prepared(X, np.float64).error == np.inf for k in (own, own + RBF(1.0), 2.0 * own))
    far = (RBF(1.0) * Linear()).prepared(1e200 * X, np.float64)
    assert far.error == np.inf


def test_sums_of_cheap_kernels_are_cheap():
    assert (RBF(0.3) + Linear()).prepared(X, np.float64).cheap
    assert not (RBF(0.3) * Laplacian(0.3)).prepared(X, np.float64).cheap


@pytest.mark.parametrize("name", list(VALUES))
def test_blocks_diagonals_and_taken_rows(name):
    kernel, expected = VALUES[name]
    for dtype, rtol in ((np.float64, 1e-10), (np.float32, 2e-4)):
        rows = kernel.prepared(X.astype(dtype), dtype)
        others = kernel.prepared(Z.astype(dtype), dtype, rows).take(np.array([5, 2]))
        out = np.empty((3, 2), dtype=dtype)
        rows.block(np.array([7, 1, 7]), others, np.array([1, 0]), out)
        np.testing.assert_allclose(out, expected(X, Z)[[7, 1, 7]][:, [2, 5]], rtol=rtol, atol=1e-6)
        full = np.empty((30, 1), dtype=dtype)
        rows.block(slice(None), others, slice(0, 1), full)
        np.testing.assert_allclose(full[:, 0], expected(X, Z)[:, 5], rtol=rtol, atol=1e-6)
        np.testing.assert_allclose(rows.diagonal(), np.diag(expected(X, X)), rtol=rtol, atol=1e-6)
        assert rows.dtype == out.dtype


def test_rows_far_from_zero_keep_their_digits():
    far = X + 1e4
    rows = RBF(0.3).prepared(far, np.float32)
    out = np.empty((30, 30), dtype=np.float32)
    rows.block(slice(None), rows, slice(None), out)
    np.testing.assert_allclose(out, pairwise.rbf_kernel(X, X, 0.3), atol=1e-4)
    new = RBF(0.3).prepared(Z + 1e4, np.float32, rows)
    again = np.empty((20, 30), dtype=np.float32)
    new.block(slice(None), rows, slice(None), again)
    np.testing.assert_allclose(again, pairwise.rbf_kernel(Z, X, 0.3), atol=1e-4)


def test_gamma_is_that_of_scikit_learn():
    assert RBF("scale").resolved(X).gamma == pytest.approx(1.0 / (6 * X.var()))
    assert Laplacian("scale").resolved(sp.csr_array(X)).gamma == pytest.approx(1.0 / (6 * X.var()))
    assert RBF("auto").resolved(X).gamma == pytest.approx(1.0 / 6.0)
    assert RBF("scale").resolved(np.full((3, 2), 7.0)).gamma == 1.0
    total = (2.0 * RBF("auto") + Polynomial(2, "auto")).resolved(X)
    assert repr(total) == (
        "Sum(Multiple(kernel=RBF(gamma=0.16666666666666666), factor=2.0), "
        "Polynomial(degree=2, gamma=0.16666666666666666, coef0=0.0))"
    )


def test_precomputed():
    K = RBF(0.3)(X)
    kernel = Precomputed()
    kernel.check_rows(K)
    rows = kernel.prepared(K, np.float64)
    used = rows.take(np.array([3, 9]))
    new = kernel.prepared(RBF(0.3)(Z, X), np.float64, rows)
    out = np.empty((20, 2))
    new.block(slice(None), used, slice(None), out)
    np.testing.assert_array_equal(out, RBF(0.3)(Z, X)[:, [3, 9]])
    np.testing.assert_array_equal(used.diagonal(), K[[3, 9], [3, 9]])


def test_what_is_known_to_be_definite():
    known = [Linear(), RBF(), Laplacian(), Polynomial(2), Intersection(), Chi2(), VonMises()]
    assert all(kernel.definite for kernel in known)
    assert (RBF() + Linear() * VonMises()).definite
    unknown = [Polynomial(2, coef0=-1.0), Precomputed(), Function(np.dot)]
    assert not any(kernel.definite for kernel in [*unknown, RBF() + Precomputed()])


def angles(gamma):
    def near(A, B):
        turn = np.abs(A - B.T) % (2.0 * np.pi)
        return np.exp(-gamma * np.minimum(turn, 2.0 * np.pi - turn) ** 2)

    return near


@pytest.mark.parametrize(
    ("gamma", "smallest"), [(0.1, "-0.326"), (0.5, "-0.0045"), (1.0, r"-4.\d+e-05")]
)
def test_gaussians_of_angles_are_refused(gamma, smallest):
    poses = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)[:, None]
    kernel = Function(angles(gamma))
    rows = kernel.prepared(poses, np.float64)
    with pytest.raises(InvalidData, match=f"smallest eigenvalue .* is {smallest}.*VonMises"):
        check_definite(kernel, rows, np.random.default_rng(0))
    definite = VonMises(2.0 * gamma)
    assert check_definite(definite, definite.prepared(poses, np.float64), RNG) == 16


@pytest.fixture
def few_rows(monkeypatch):
    """As if a matrix of few rows were a large one: 1000 rows take seconds to decompose."""
    monkeypatch.setattr(definite, "_MOST", 100)
    monkeypatch.setattr(definite, "_HEIGHT", 50)


def test_definite_functions_and_matrices_pass(few_rows):
    kernel = Function(lambda A, B: (A @ B.T) ** 2)
    many = np.random.default_rng(0).normal(size=(120, 3))
    assert check_definite(kernel, kernel.prepared(many, np.float64), RNG) == 100
    single = Precomputed().prepared(RBF(0.3)(X), np.float32)
    assert check_definite(Precomputed(), single, RNG) == 30
    late = X.copy()
    late[13, 0] = 50.0  # in no row that a function is tried on
    uneven = Function(lambda A, B: A @ B.T + (A[:, :1] == 50.0) * 1.0)
    rows = uneven.prepared(late, np.float64)
    with pytest.raises(InvalidData, match="not symmetric"):
        check_definite(uneven, rows, RNG)


@pytest.mark.parametrize("definite", [None, True])
def test_functions_that_are_not_symmetric(definite):
    uneven = Function(lambda A, B: A @ B.T + A[:, :1], definite)
    with pytest.raises(InvalidData, match="not symmetric"):
        uneven.prepared(X, np.float64)


@pytest.mark.parametrize(
    "function",
    [
        lambda A, B: np.exp(-(cdist(A, B) ** 2) / (A.shape[1] * A.var())),
        lambda A, B: (A - A.mean(axis=0)) @ (B - B.mean(axis=0)).T,
        lambda A, B: (A @ B.T) / len(B),
    ],
    ids=["variance", "mean", "size"],
)
def test_functions_of_blocks(function):
    with pytest.raises(InvalidStructure, match=r"block of 8 x 8 .* on x and z alone"):
        Function(function, definite=True).prepared(X, np.float64)
    Function(function).prepared(X[:1], np.float64)


@pytest.mark.parametrize("how", ["dense", "csr"])
def test_functions_cannot_change_data(how):
    def in_place(A, B):
        for rows in (A, B):
            values = rows.data if how == "csr" else rows
            values *= 2.0
        values = A @ B.T
        return values.toarray() if how == "csr" else values

    given = stored(X.copy(), how)
    rows = Function(in_place).prepared(given, np.float64)
    out = np.empty((30, 30))
    rows.block(slice(None), rows, slice(None), out)
    np.testing.assert_allclose(out, 4.0 * X @ X.T)
    np.testing.assert_allclose(rows.diagonal(), np.diag(out))
    rows.block(slice(0, 30), rows, slice(0, 30), out)
    np.testing.assert_array_equal(given.toarray() if how == "csr" else given, X)


def test_functions_of_single_precision_are_rounded():
    rows = X.astype(np.float32)
    Function(lambda A, B: pairwise.rbf_kernel(A, B, 0.3)).prepared(rows, np.float32)


def test_all_pairs_of_a_matrix_are_looked_at(few_rows):
    K = np.eye(160)
    K[110, 150] = K[150, 110] = 3.0
    for kernel in (Precomputed(), 2.0 * Precomputed()):
        rows = kernel.prepared(K, np.float64)
        generator = np.random.default_rng(0)
        with pytest.raises(InvalidData, match=r"rows 110 and 150 have .* clip the negative"):
            check_definite(kernel, rows, generator)
    K[110, 150] = K[150, 110] = 1.0
    assert check_definite(Precomputed(), Precomputed().prepared(K, np.float64), RNG) == 100
    K[110, 150] = K[150, 110] = 0.0
    K[7, 7] = -1.0
    with pytest.raises(InvalidData, match=r"rows 7 and 7 have k\(7, 7\) = -1,"):
        check_definite(Precomputed(), Precomputed().prepared(K, np.float64), RNG)


def test_what_is_advised_for_matrices():
    K = RBF(0.3)(X)
    rounded = RBF(1e-3)(X[:, :1]).astype(np.float32).astype(np.float64)
    for matrix, words in (
        (rounded, "values rounded to float32 look so.* add at least .* to the diagonal"),
        (K - 0.9 * np.eye(30), r"certified; clip the negative eigenvalues.*VonMises"),
    ):
        rows = Precomputed().prepared(matrix, np.float64)
        with pytest.raises(InvalidData, match=words):
            check_definite(Precomputed(), rows, RNG)


REFUSED = {
    "name": (lambda: as_kernel("gauss"), InvalidData, "'rbf'"),
    "gamma": (lambda: RBF("wide"), InvalidData, "'scale'"),
    "negative gamma": (lambda: RBF(-1.0), InvalidData, "above 0"),
    "type of gamma": (lambda: Laplacian(None), InvalidType, "positive number"),
    "degree": (lambda: Polynomial(0), InvalidData, "degree"),
    "fraction": (lambda: Polynomial(1.5), InvalidData, "positive integer"),
    "coef0": (lambda: Polynomial(2, coef0=np.nan), InvalidData, "coef0"),
    "factor": (lambda: -1.0 * RBF(), InvalidData, "factor"),
    "object": (lambda: as_kernel(3), InvalidType, "function"),
    "degrees": (lambda: VonMises()(np.array([[90.0]])), InvalidData, "deg2rad"),
    "histograms": (lambda: Intersection()(-X), InvalidData, ">= 0"),
    "negative": (lambda: Chi2()(sp.csr_array(-X)), InvalidData, "histograms"),
    "NaN": (lambda: RBF()(np.array([[np.nan]])), InvalidData, "NaN"),
    "widths": (lambda: RBF()(X, X[:, 1:]), InvalidData, "6 columns"),
    "shape of a matrix": (lambda: Precomputed()(X), InvalidData, r"\(30, 6\)"),
    "asymmetric": (lambda: Precomputed()(np.eye(3) + np.eye(3, k=1)), InvalidData, "not symmetric"),
    "sparse matrix": (lambda: Precomputed()(sp.eye_array(3, format="csr")), InvalidType, "sparse"),
    "shape of a function": (lambda: Function(lambda A, B: A)(X), InvalidStructure, r"\(8, 6\)"),
    "half": (lambda: Function(lambda A, B: (A @ B.T).astype("f2"))(X), InvalidStructure, "float16"),
    "infinite": (lambda: Function(lambda A, B: np.inf * (A @ B.T))(X), InvalidStructure, "NaN"),
    "definite": (lambda: Function(np.dot, definite=False), InvalidData, "None"),
}


@pytest.mark.parametrize("name", list(REFUSED))
@pytest.mark.filterwarnings("ignore:invalid value")
def test_refused(name):
    call, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        call()


def test_products_of_numbers_and_kernels():
    with pytest.raises(TypeError):
        RBF() + 1.0
    with pytest.raises(TypeError):
        RBF() * np.eye(2)
    assert repr(as_kernel("von_mises", 2.0)) == "VonMises(kappa=2.0)"
    assert as_kernel("poly", degree=2, coef0=1.0).coef0 == 1.0
    kernel = RBF()
    assert as_kernel(kernel) is kernel
