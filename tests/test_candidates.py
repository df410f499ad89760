"""Candidates as labels: the laws, the optimum, kernels, and what is refused."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from reference import primal, solve_qp
from taut import Problem, StructuredSVM, check_structure, solve
from taut.binding import bind
from taut.errors import InvalidData, InvalidType, NotConverged
from taut.kernels import RBF, Intersection, Linear
from taut.solvers import (
    DualCoordinate,
    FrankWolfe,
    FunctionalDescent,
    MultiSample,
    NSlack,
    OneSlack,
    OnlineCache,
)
from taut.spaces.kernel import through_kernel
from taut.structures import Candidates, SlackRescaled

SETTINGS = {"plain": {}, "none": {"none": 0.7}, "bias": {"none": 1.0, "bias": 0.5}}
KINDS = {"dense": np.asarray, "csr": sp.csr_array}
LENGTHS = (1, 4, 2, 3, 3, 1, 2, 5)


def made(name="plain", kind="dense", lengths=LENGTHS, negative=True):
    """A structure, candidates of blocks and their losses; with none, some blocks have no truth."""
    rng = np.random.default_rng(5)
    structure = Candidates(**SETTINGS[name])
    X = rng.normal(size=(sum(lengths), 3)) if negative else rng.random((sum(lengths), 3))
    if kind == "csr":
        X[np.abs(X) < 0.9] = 0.0
    offsets, losses = np.cumsum([0, *lengths]), rng.uniform(0.2, 1.5, size=sum(lengths))
    for i, (first, last) in enumerate(itertools.pairwise(offsets.tolist())):
        if structure.none is None or i % 3:
            losses[rng.integers(first, last)] = 0.0
    return structure, (KINDS[kind](X), offsets), losses


def rows_of(structure, X):
    """The features of all labels of each block, none the last."""
    matrix = X[0].toarray() if sp.issparse(X[0]) else X[0]
    if structure.bias:
        matrix = np.hstack([matrix, np.full((len(matrix), 1), structure.bias)])
    found = [matrix[first:last] for first, last in itertools.pairwise(X[1].tolist())]
    if structure.none is None:
        return found
    return [np.vstack([rows, 0.0 * rows[:1]]) for rows in found]


def losses_of(structure, X, y):
    """The losses of all labels of each block."""
    found = [y[first:last] for first, last in itertools.pairwise(X[1].tolist())]
    if structure.none is None:
        return found
    return [np.append(own, structure.none if 0.0 in own else 0.0) for own in found]


def blocks_of(structure, X, y):
    """psi and losses of all labels, without the library."""
    losses = losses_of(structure, X, y)
    psi = [
        rows[np.flatnonzero(own == 0.0)[0]] - rows
        for rows, own in zip(rows_of(structure, X), losses, strict=True)
    ]
    return psi, losses


def passes(problem, solver, count=2, seed=0):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        return solve(problem, solver, max_iter=count, random_state=seed)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SETTINGS)
def test_laws_hold_among_all_candidates(name, kind):
    structure, X, y = made(name, kind)

    def labels(i):
        none = [] if structure.none is None else [-1]
        return np.array([*range(LENGTHS[i]), *none], dtype=np.int32)[:, None]

    check_structure(structure, X, y, candidates=labels, n_examples=len(LENGTHS))
    check_structure(structure, X, y)


@pytest.mark.parametrize("name", SETTINGS)
def test_features_losses_and_lists_are_those_of_enumeration(name):
    structure, X, y = made(name)
    psi, losses = blocks_of(structure, X, y)
    data = bind(structure, X, y)
    w = np.random.default_rng(0).normal(size=data.n_features)
    hinges = [max(0.0, (c - p @ w).max()) for p, c in zip(psi, losses, strict=True)]
    assert_allclose(data.hinges(data.pad(w)), hinges, rtol=1e-12, atol=1e-12)
    rows = rows_of(structure, X)
    best = [int(np.argmax(own @ w)) for own in rows]
    if structure.none is not None:
        best = [-1 if z == len(own) - 1 else z for z, own in zip(best, rows, strict=True)]
    assert_array_equal(data.predict(w), best)
    for own, length in zip(rows, structure.lengths(data.blocks), strict=True):
        assert np.linalg.norm(own, axis=1).max() <= length * (1 + 1e-12)
    for i, own in enumerate(rows):
        numbers = list(range(len(own)))
        if structure.none is not None:
            numbers[-1] = -1
        assert_array_equal(data.listed.own(i)[:, 0], numbers)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SETTINGS)
def test_the_optimum_is_that_of_the_quadratic_program(name, kind):
    structure, X, y = made(name, kind)
    psi, losses = blocks_of(structure, X, y)
    C = np.random.default_rng(1).uniform(0.2, 2.0, size=len(psi))
    optimum, _ = solve_qp(psi, losses, C)
    result = solve(Problem(structure, X, y, sample_weight=C), tol=1e-7, random_state=0)
    bounds = result.certificate
    assert bounds.dual <= optimum * (1 + 1e-8)
    assert optimum * (1 - 1e-8) <= bounds.primal <= optimum * (1 + 2e-7)
    assert primal(result.w, psi, losses, C) == pytest.approx(bounds.primal, rel=1e-8)


@pytest.mark.long
@pytest.mark.parametrize(
    ("solver", "tol"),
    [
        (NSlack(), 1e-6),
        (OneSlack(), 1e-6),
        (MultiSample(3), 1e-3),
        (FrankWolfe(), 1e-2),
        (OnlineCache(memory="10MB"), 1e-3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_solvers_find_the_same_optimum(solver, tol):
    structure, X, y = made("none")
    optimum, _ = solve_qp(*blocks_of(structure, X, y), np.ones(len(LENGTHS)))
    result = solve(Problem(structure, X, y, C=1.0), solver, tol=tol, random_state=0)
    assert result.certificate.dual <= optimum * (1 + 1e-8)
    assert optimum * (1 - 1e-8) <= result.certificate.primal <= optimum * (1 + 2 * tol)


@pytest.mark.parametrize("whole", [0, 1000])
@pytest.mark.parametrize("name", SETTINGS)
def test_inner_products_as_a_kernel_have_the_linear_optimum(name, whole):
    structure, X, y = made(name)
    optimum, _ = solve_qp(*blocks_of(structure, X, y), np.full(len(LENGTHS), 2.0))
    space = through_kernel(Linear(), dtype=np.float64, whole=whole)
    result = solve(Problem(structure, X, y, C=2.0, space=space), tol=1e-6, random_state=0)
    assert result.certificate.dual <= optimum * (1 + 1e-7)
    assert optimum * (1 - 1e-7) <= result.certificate.primal <= optimum * (1 + 3e-6)


@pytest.mark.parametrize("kernel", [Intersection(), RBF(0.8)], ids=["intersection", "rbf"])
@pytest.mark.parametrize("name", ["plain", "none"])
def test_the_optimum_through_a_kernel_is_that_of_its_features(name, kernel):
    structure, X, y = made(name, negative=False)
    values, vectors = np.linalg.eigh(kernel(X[0]))
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    optimum, _ = solve_qp(*blocks_of(structure, (features, X[1]), y), np.full(len(LENGTHS), 5.0))
    problem = Problem(structure, X, y, C=5.0, space=through_kernel(kernel))
    result = solve(problem, tol=1e-5, random_state=0)
    assert result.certificate.dual <= optimum * (1 + 1e-6)
    assert optimum * (1 - 1e-6) <= result.certificate.primal <= optimum * (1 + 3e-5)


@pytest.mark.long
@pytest.mark.parametrize("bounds", ["above", "both", "none"])
@pytest.mark.parametrize("name", SETTINGS)
def test_two_steps_of_functional_descent_are_two_quadratic_programs(name, bounds):
    structure, X, y = made(name)
    psi, losses = blocks_of(structure, X, y)
    half, w = len(psi) // 2, 0.0
    solver = FunctionalDescent(
        subset=half, order="window", bounds=bounds, precision=1e-9, averaging=False, factor=0.7
    )
    result = passes(Problem(structure, X, y), solver, 1)
    for own in (slice(0, half), slice(half, None)):
        rho = [c - p @ (w + np.zeros(p.shape[1])) for p, c in zip(psi[own], losses[own])]
        if bounds != "none":
            least = 0.0 if bounds == "both" else -np.inf
            rho = [np.clip(r, least, c.max()) for r, c in zip(rho, losses[own])]
        w = w + solve_qp(psi[own], rho, np.full(half, 1 / 0.7))[1]
    assert_allclose(result.w, w, atol=1e-4)


def histograms(n, seed=0):
    """Blocks of windows, of which one has a word of its own, and their losses."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 7, size=n)
    X, offsets = rng.poisson(1.0, size=(lengths.sum(), 6)).astype(float), np.cumsum([0, *lengths])
    losses = rng.uniform(0.3, 1.0, size=len(X))
    truths = rng.integers(lengths)
    X[offsets[:-1] + truths, 0] += 6.0
    losses[offsets[:-1] + truths] = 0.0
    return (X, offsets), losses, truths


@pytest.mark.long
def test_functional_descent_by_histogram_intersection_finds_what_stands_out():
    X, y, _ = histograms(30)
    T, _, truths = histograms(20, seed=1)
    problem = Problem(Candidates(), X, y, space=through_kernel(Intersection(), whole=0))
    result = passes(problem, FunctionalDescent(subset=10))
    scores = Intersection()(T[0], X[0]) @ result.w
    found = [int(np.argmax(scores[a:b])) for a, b in itertools.pairwise(T[1].tolist())]
    assert np.mean(found == truths) > 0.9


def test_an_estimator_predicts_the_numbers_of_candidates():
    X, y, truths = histograms(30)
    T, losses, others = histograms(20, seed=1)
    for kernel in ("linear", "intersection"):
        model = StructuredSVM(Candidates(), C=1.0, kernel=kernel, random_state=0).fit(X, y)
        assert_array_equal(model.predict(X), truths)
        found = model.predict(T)
        assert np.mean(found == others) > 0.9
        assert model.score(T, losses) == pytest.approx(-losses[T[1][:-1] + found].mean())


def test_slacks_can_be_rescaled():
    structure, X, y = made()
    psi, losses = blocks_of(structure, X, y)
    psi = [own_losses[:, None] * own for own, own_losses in zip(psi, losses, strict=True)]
    optimum, _ = solve_qp(psi, losses, np.ones(len(psi)))
    problem = Problem(SlackRescaled(structure), X, y, C=1.0)
    result = solve(problem, DualCoordinate(), tol=1e-6, random_state=0)
    assert optimum * (1 - 1e-8) <= result.certificate.primal <= optimum * (1 + 2e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SETTINGS)
def test_taken_blocks_are_encoded_ones(name, kind):
    structure, X, y = made(name, kind)
    which = np.array([3, 0, 7])
    members = np.concatenate([np.arange(X[1][i], X[1][i + 1]) for i in which])
    own = (X[0][members], np.cumsum([0, *(LENGTHS[i] for i in which)]))
    taken, fresh = bind(structure, X, y).take(which), bind(structure, own, y[members])
    for one, other in zip(taken.blocks.data, fresh.blocks.data, strict=True):
        assert_array_equal(one, other)
    for field in ("offsets", "truth", "work_size"):
        assert_array_equal(getattr(taken.blocks, field), getattr(fresh.blocks, field))
    w = np.random.default_rng(1).normal(size=fresh.n_features)
    for one, other in zip(taken.hardest(taken.pad(w)), fresh.hardest(fresh.pad(w)), strict=True):
        assert_allclose(one, other, rtol=1e-12)


def test_labels_of_files_are_looked_at():
    owner, labels = np.array([0, 0, 0, 1, 1]), np.array([0, 1, -1, 3, 4], dtype=np.int32)
    for name, none in (("plain", False), ("none", True)):
        structure, X, y = made(name)
        found = structure.valid_labels(structure.encode(X, y), owner, labels)
        assert found.tolist() == [True, False, none, True, False]


def test_of_several_truths_the_first_counts():
    blocks = Candidates().encode((np.eye(4), [0, 1, 4]), [0.0, 0.5, 0.0, 0.0])
    assert blocks.truth.tolist() == [0, 1]
    blocks = Candidates(none=1.0).encode((np.eye(4), [0, 1, 4]), [0.3, 0.5, 0.0, 0.0])
    assert blocks.truth.tolist() == [-1, 1]


ROWS = np.ones((3, 2))


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (ROWS, [0, 1, 1], "X is of type ndarray: give a pair"),
        ((ROWS, [0, 3.0]), [0, 1, 1], "offsets have shape .2,. and dtype float64"),
        ((ROWS, [0]), [0, 1, 1], "offsets have shape"),
        ((ROWS, [0, 2]), [0, 1, 1], "offsets run from 0 to 2, X has 3 rows"),
        ((ROWS, [0, 3, 3]), [0, 1, 1], "must begin with 0, rise"),
        ((ROWS, [0, 3]), [0, 1], "y has shape .2,., and there are 3 candidates"),
        ((ROWS, [0, 3]), [0, -1, 1], r"y\[1\] = -1.0 is no loss"),
        ((ROWS, [0, 3]), [0, 1, np.nan], r"y\[2\] = nan is no loss"),
        ((ROWS, [0, 1, 3]), [0, 1, 0.5], "no candidate of block 1 has the loss 0, the least is"),
    ],
)
def test_data_that_are_none_are_refused(X, y, message):
    with pytest.raises(InvalidData, match=message):
        Candidates().encode(X, y)


def test_settings_are_checked():
    with pytest.raises(InvalidData, match="none = -1"):
        Candidates(none=-1)
    with pytest.raises(InvalidData, match="none = inf"):
        Candidates(none=np.inf)
    with pytest.raises(InvalidType, match="none = 'yes'"):
        Candidates(none="yes")
    with pytest.raises(InvalidType, match="bias = None"):
        Candidates(bias=None)
