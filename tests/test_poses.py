"""Boxes with angles: the structures, the kernels on angles, and the estimator."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import taut
from reference import primal, solve_qp
from taut import Problem, solve
from taut.binding import bind
from taut.data.angles import grid_of, nearest_angles, turns
from taut.errors import InvalidData, InvalidStructure, InvalidType
from taut.inference.best_angle import refined_angle
from taut.kernels import (
    AngleFunction,
    GaussianLabels,
    PairFunction,
    SectorLabels,
    VonMisesLabels,
)
from taut.kernels.angles import check_angles
from taut.solvers import WorkingSet
from taut.spaces.pose_windows import stacked, unstacked
from taut.structures import PoseBoxes, PoseSearch
from taut.structures.pose_boxes import BoxPose, poses_of
from taut.vision import HogPyramid, Templates
from test_boxes import overlap, pyramid, windows_of

ONE = Templates(np.array([2]), np.array([1]), np.array([0]), border=1)
N_ANGLES = 4
GRID = 2.0 * np.pi * np.arange(N_ANGLES) / N_ANGLES
BOXES = np.array([[8.0, 8.0, 16.0, 24.0], [0.0, 0.0, 9.0, 24.0], [17.0, 9.0, 30.0, 28.0]])
EXACT = VonMisesLabels(1.5, precision=1e-13)


def problem_data(rng, angles=GRID[[1, 3, 2]]):
    """Images of different sizes, with a box and an angle each."""
    return [pyramid(rng), pyramid(rng, rows=5), pyramid(rng)], poses_of(BOXES, angles)


def factored(matrix):
    """L with L L' = matrix."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def enumerated(X, y, rows, own):
    """psi and losses of all labels: `rows` are features of the grid, `own` of the true angles.

    A label has an angle of the grid, or the true one.
    """
    psi, losses = [], []
    for p, pose, right in zip(X, y, own, strict=True):
        windows = list(windows_of(p, ONE))
        common = np.array([overlap(edges, pose.edges) for _t, edges, _phi in windows])
        truth = np.kron(right, windows[int(common.argmax())][2])
        every = [*rows, right]
        psi.append(
            np.array([truth - np.kron(row, phi) for row in every for _t, _edges, phi in windows])
        )
        apart = np.abs(pose.angle - np.append(GRID, pose.angle))
        turned = np.minimum(apart, 2.0 * np.pi - apart)
        places = 0.5 * (common.max() - common)
        losses.append((places + turned[:, None] / (2.0 * np.pi)).ravel())
    return psi, losses


def written(rng, kernel=EXACT, **data):
    """The problem of `PoseBoxes`, and the same enumerated."""
    X, y = problem_data(rng, **data)
    angles = np.array([pose.angle for pose in y])
    structure = PoseBoxes(2, 1, kernel, N_ANGLES, border=1)
    labels = enumerated(X, y, kernel.finite_map(GRID), kernel.finite_map(angles))
    return structure, X, y, *labels


def test_the_best_window_and_angle_are_those_of_enumeration():
    rng = np.random.default_rng(0)
    structure, X, y, psi, losses = written(rng, angles=[0.3, 6.0, 2.0])
    data = bind(structure, X, y)
    r = len(EXACT.finite_map([0.0])[0])
    coef = rng.normal(size=(r, data.n_features // r))
    w = stacked(coef)
    assert_array_equal(unstacked(w, len(coef)), coef)
    hinges = [max((c - p @ coef.ravel()).max(), 0.0) for p, c in zip(psi, losses, strict=True)]
    assert_allclose(data.hinges(data.pad(w)), hinges, rtol=1e-5, atol=1e-5)
    problem = Problem(structure, X, y)
    bound = problem.primal_bound(problem.scaled(w))
    assert abs(bound.value - 0.5 * w @ w - sum(hinges)) <= bound.rounding


def test_written_down_boxes_with_angles_keep_the_laws():
    structure, X, y, *_labels = written(np.random.default_rng(1), angles=[0.3, 6.0, 2.0])
    taut.check_structure(structure, X, y)


@pytest.mark.parametrize("kernel", [EXACT, SectorLabels(N_ANGLES)], ids=["von mises", "sectors"])
def test_the_written_optimum_is_that_of_an_independent_qp(kernel):
    structure, X, y, psi, losses = written(np.random.default_rng(2), kernel, angles=[0.3, 6.0, 2.0])
    weight = np.array([1.0, 0.5, 2.0])
    result = solve(Problem(structure, X, y, 0.3, weight), tol=1e-4, random_state=0)
    best, _w = solve_qp(psi, losses, 0.3 * weight)
    assert result.certificate.dual <= best * (1.0 + 1e-6)
    assert_allclose(result.certificate.primal, best, rtol=2e-4)
    own = unstacked(result.w, len(kernel.finite_map([0.0])[0])).ravel()
    assert_allclose(primal(own, psi, losses, 0.3 * weight), result.certificate.primal, rtol=1e-5)


def near(angles, others):
    """A kernel of a user's: positive definite, and not von Mises'."""
    return 1.0 + np.cos(angles[:, None] - others)


@pytest.mark.parametrize(
    "kernel",
    [EXACT, AngleFunction(near), GaussianLabels(4.0)],
    ids=["von mises", "own", "gaussian"],
)
def test_the_optimum_over_pairs_is_that_of_an_independent_qp(kernel):
    X, y = problem_data(np.random.default_rng(3))
    structure = PoseSearch(2, 1, kernel, N_ANGLES, border=1)
    rows = factored(kernel.between(GRID, GRID))
    psi, losses = enumerated(X, y, rows, rows[[1, 3, 2]])
    examples, labels = structure.posed(X, y)
    result = solve(
        Problem(structure, examples, labels, C=0.3), WorkingSet(batch=2), tol=1e-6, random_state=0
    )
    weights = np.full(3, 0.3)
    best, _w = solve_qp(psi, losses, weights)
    assert result.certificate.dual <= best * (1.0 + 1e-9)
    assert_allclose(result.certificate.primal, best, rtol=2e-6)
    # w, and not only its value: pairs added up are the templates that it is made of.
    w = (rows.T @ structure.templates(result.w)).ravel()
    assert_allclose(primal(w, psi, losses, weights), result.certificate.primal, rtol=1e-9)
    # And the search finds what is best of all at it.
    for x, block in zip(examples, psi, strict=True):
        window, k = structure.argmax(x, result.w)
        found = (block @ w).reshape(N_ANGLES + 1, -1)
        assert_allclose(found[k, window], found.min(), atol=1e-9)


def test_samples_differ_and_begin_with_the_best():
    X, y = problem_data(np.random.default_rng(11))
    search = PoseSearch(2, 1, EXACT, 8, border=1, suppression=0.3)
    examples, labels = search.posed(X, y)
    problem = Problem(search, examples, labels, C=0.3)
    several = solve(problem, WorkingSet(n_planes=4, sampler="own"), tol=1e-5, random_state=0)
    one = solve(problem, WorkingSet(), tol=1e-5, random_state=0)
    assert_allclose(several.certificate.primal, one.certificate.primal, rtol=2e-5)
    for x, truth in zip(examples, labels, strict=True):
        found = search.sample(x, one.w, truth, 6)
        assert found[0] == search.argmax(x, one.w, truth)
        assert len(set(found)) == len(found) == 6
        for (window, k), (other, m) in itertools.pairwise(found):
            edges = [edges for _t, edges, _phi in windows_of(x.pyramid, ONE)]
            near = turns(search.angles[k], search.angles[m]) <= 2.0 * np.pi / 8.0 + 1e-9
            assert not near or overlap(edges[window], edges[other]) <= 0.3
    with pytest.raises(InvalidData, match="suppression"):
        PoseSearch(2, 1, EXACT, suppression=2.0)


def test_both_ways_have_one_optimum_where_angles_are_on_the_grid():
    X, y = problem_data(np.random.default_rng(4))
    options = {"tol": 1e-4, "random_state": 0}
    written_down = solve(
        Problem(PoseBoxes(2, 1, EXACT, N_ANGLES, border=1), X, y, C=0.3), **options
    )
    search = PoseSearch(2, 1, EXACT, N_ANGLES, border=1)
    of_pairs = solve(Problem(search, *search.posed(X, y), C=0.3), WorkingSet(), **options)
    assert_allclose(of_pairs.certificate.primal, written_down.certificate.primal, rtol=2e-4)
    numbers = EXACT.finite_map(GRID)
    coef = numbers.T @ search.templates(of_pairs.w)
    own = unstacked(written_down.w, len(coef))
    assert_allclose(coef, own, atol=0.02 * np.abs(own).max())


def test_taken_blocks_are_those_that_their_data_give():
    structure, X, y, *_labels = written(np.random.default_rng(5), angles=[0.3, 6.0, 2.0])
    which = np.array([2, 0])
    taken = bind(structure, X, y).take(which)
    fresh = bind(structure, [X[i] for i in which], [y[i] for i in which])
    w = fresh.pad(np.random.default_rng(6).normal(size=fresh.n_features))
    assert_allclose(taken.hinges(w), fresh.hinges(w))
    assert_array_equal(taken.blocks.truth, fresh.blocks.truth)


def test_labels_from_a_file_are_windows_and_angles():
    structure, X, y, *_labels = written(np.random.default_rng(7))
    blocks = structure.encode(X, y)
    n = int(blocks.data.counts[0])
    for label, valid in (
        ((n - 1, N_ANGLES), True),
        ((n, 0), False),
        ((0, N_ANGLES + 1), False),
        ((-1, 0), False),
        ((0, -1), False),
    ):
        found = structure.valid_labels(blocks, np.array([0]), np.array(label, dtype=np.int32))
        assert_array_equal(found, [valid])
    assert structure.decode(blocks.truth, blocks.offsets)[0][1] == N_ANGLES


def test_structures_refuse_what_is_no_pose():
    X, y = problem_data(np.random.default_rng(8))
    structure, search = PoseBoxes(2, 1, EXACT, N_ANGLES), PoseSearch(2, 1, EXACT, N_ANGLES)
    outside = [*y[:2], BoxPose(np.array([100.0, 100.0, 120.0, 120.0]), 0.0)]
    for refuse in (structure.encode, search.posed):
        with pytest.raises(InvalidData, match="image 2: no window overlaps"):
            refuse(X, outside)
        with pytest.raises(InvalidData, match=r"angle 90, more than .*deg2rad"):
            refuse(X, [*y[:2], BoxPose(BOXES[2], 90.0)])
    with pytest.raises(InvalidData, match="poses of 2"):
        structure.encode(X, y[:2])
    with pytest.raises(InvalidData, match="could be written down"):
        PoseBoxes(2, 1, AngleFunction(near))
    (example, *_rest), _labels = search.posed(X, y)
    with pytest.raises(InvalidData, match="is none of the"):
        search.kernel.features(example, (len(example.losses), 0))


def squares(angles, others):
    """Not definite, as it falls too slowly."""
    return np.exp(-0.1 * turns(angles[:, None], others) ** 2)


@pytest.mark.parametrize(
    ("kernel", "smallest"), [(GaussianLabels(0.2), "-0.33"), (AngleFunction(squares), "-0.33")]
)
def test_kernels_that_are_indefinite_on_the_grid_are_refused(kernel, smallest):
    with pytest.raises(InvalidData, match=rf"smallest eigenvalue is {smallest}.*von_mises"):
        PoseSearch(2, 1, kernel, 16)


def test_only_products_have_features_that_add_up():
    store = PairFunction(lambda A, B: np.ones((len(A), len(B)))).store()
    with pytest.raises(InvalidData, match="no product"):
        store.feature_sums(np.zeros(0, dtype=np.int64), np.zeros(0))


def test_kernels_on_angles_are_checked():
    assert check_angles(GaussianLabels(3.0), grid_of(16)).shape == (16, 16)
    with pytest.raises(InvalidData, match="not symmetric"):
        check_angles(AngleFunction(lambda a, b: a[:, None] + 0.0 * b), grid_of(4))
    with pytest.raises(InvalidStructure, match="shape"):
        check_angles(AngleFunction(lambda a, b: a), grid_of(4))
    with pytest.raises(InvalidType, match="function"):
        AngleFunction(3)
    with pytest.raises(InvalidData, match="whole number"):
        SectorLabels(2.5)


def test_fourier_terms_are_as_precise_as_they_are_asked_to_be():
    angles = np.linspace(-6.0, 6.0, 40)
    for precision in (1e-1, 1e-3, 1e-6):
        kernel = VonMisesLabels(4.0, precision)
        rows = kernel.finite_map(angles)
        assert np.abs(rows @ rows.T - kernel.between(angles, angles)).max() <= precision
    assert len(VonMisesLabels(4.0, 1e-1).finite_map([0.0])[0]) < rows.shape[1]


def test_sectors_are_nearest_angles():
    angles = np.linspace(-6.2, 6.2, 50)
    apart = turns(angles[:, None], grid_of(5))
    assert_array_equal(nearest_angles(angles, 5), apart.argmin(axis=1))
    rows = SectorLabels(5).finite_map(angles)
    assert_array_equal(rows @ rows.T, SectorLabels(5).between(angles, angles))


def test_the_best_angle_is_that_of_a_fine_grid():
    rng, kernel = np.random.default_rng(9), VonMisesLabels(4.0)
    fine, grid = grid_of(20_000), grid_of(16)
    for _ in range(10):
        centres, sums = rng.uniform(0.0, 2.0 * np.pi, 30), rng.normal(size=30)

        def scores(angles, centres=centres, sums=sums):
            return kernel.between(angles, centres) @ sums

        start = grid[scores(grid).argmax()]
        found = refined_angle(scores, start, grid[1])
        around = fine[turns(fine, start) <= grid[1]]
        assert scores(np.array([found]))[0] >= scores(around).max() - 1e-9
    assert refined_angle(lambda angles: 0.0 * angles, grid[3], grid[1]) == grid[3]


def test_stretched_images_have_windows_of_other_shapes():
    image = np.random.default_rng(10).integers(0, 255, size=(64, 64, 3), dtype=np.uint8)
    stretched = HogPyramid(scales=(1.0, 0.5), stretches=(1.0, 4.0)).extract(image)
    assert_array_equal(stretched.shapes, [[8, 8], [16, 4], [4, 4]])  # [8, 2] is too few columns
    assert_allclose(stretched.steps, [[8, 8], [16, 4], [16, 16]])
    plain = HogPyramid(scales=(1.0, 0.5)).extract(image)
    assert_array_equal(stretched.level(0), plain.level(0))
    with pytest.raises(InvalidData, match="stretches"):
        HogPyramid(stretches=(0.0,))
