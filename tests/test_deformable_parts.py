"""Objects of parts: the oracle, samples and optima equal those of enumeration."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import taut
from cases import long_if
from reference import prior_primal, solve_prior_qp
from taut import Problem, Regularizer, solve
from taut.binding import bind
from taut.compiled.jit import helper
from taut.errors import InvalidData
from taut.inference.part_trees import INVISIBLE
from taut.solvers import (
    DualCoordinate,
    FunctionalDescent,
    MultiSample,
    NSlack,
    OneSlack,
    Subgradient,
)
from taut.structures import LatentParts, Parts
from taut.vision import JointPose, Pyramid

ROWS, COLUMNS, CHANNELS = 1, 2, 2  # cells of a template
PARENTS = [1, -1, 1]  # the root is neither first nor last
CHAIN = [1, 2, -1]
ANCHORS = [[[1.0, 0.5], [-1.0, 0.0]], [[0.0, 0.0]], [[0.3, -1.0]]]
UNIT = 1.5
SETTINGS = {
    "size": (ROWS, COLUMNS),
    "scale": 2.0,
    "radius": [0.6, 1.1, 0.6],
    "least": 0.05,
    "unit": UNIT,
}


def structure(parents=PARENTS, **changes):
    return Parts(parents, ANCHORS, **SETTINGS | changes)


def pyramid(rng, kind=np.uint8, mirrored=False, rows=2, columns=3, margin=0):
    """Two levels of a small image."""
    shapes = np.array([[rows, columns], [rows - 1, columns - 1]], dtype=np.int32)
    cells = rng.integers(0, 255, size=(shapes.prod(axis=1).sum(), CHANNELS)).astype(kind)
    steps = np.array([[8.0, 8.0], [12.0, 16.0]])
    size = np.array([8.0 * columns, 8.0 * rows])
    mirror = np.array([1, 0], dtype=np.int32)
    return Pyramid(cells, shapes, steps, size, margin, 0.01, mirror, mirrored)


def pose(rng, p, visible=(True, True, True)):
    joints = rng.uniform(0.0, 1.0, size=(3, 2)) * p.size
    return JointPose(joints, np.array(visible), np.array([rng.integers(2), 0, 0]), 2.0 * 8.0)


def problem_data(rng):
    """All parts visible, some, none, and a mirrored image."""
    X = [pyramid(rng), pyramid(rng), pyramid(rng, rows=3, columns=2)]
    X += [X[0].mirror_image()]
    seen = [(True, True, True), (True, False, True), (False, False, False), (True, True, False)]
    return X, [pose(rng, p, own) for p, own in zip(X, seen, strict=True)]


def placed(p):
    """Windows of the stored image by number: part, aspect, level, row, column."""
    found = []
    for part, aspect in [(0, 0), (0, 1), (1, 0), (2, 0)]:
        for level, (rows, columns) in enumerate(p.shapes):
            grid = itertools.product(range(rows - ROWS + 1), range(columns - COLUMNS + 1))
            found += [(part, aspect, level, y, x) for y, x in grid]
    return found


def phi_of(p, windows, label, parents=PARENTS):
    """Features of a label, from what the documentation says."""
    n_cells = ROWS * COLUMNS * CHANNELS
    counts = [2, 1, 1]
    cells, biases, hidden = np.zeros((4, n_cells)), np.zeros(4), np.zeros(3)
    # From the root down, children with their pairs and springs.
    children = [0, 2] if parents == PARENTS else [1, 0]
    pairs = {c: np.zeros((counts[parents[c]] + 1, counts[c] + 1)) for c in children}
    springs = {c: np.zeros((counts[c], 4)) for c in children}
    states = []
    for part, j in enumerate(label):
        if j == INVISIBLE:
            hidden[part] = 1.0
            states.append(counts[part])
            continue
        _part, aspect, level, y, x = windows[j]
        first = int(p.shapes[:level].prod(axis=1).sum())
        rows, columns = p.shapes[level]
        grid = p.cells[first : first + rows * columns].reshape(rows, columns, CHANNELS)
        own = p.unit * grid[y : y + ROWS, x : x + COLUMNS].astype(float)
        if p.mirrored:
            own = own[:, ::-1, p.mirror]
        template = [0, 2, 3][part] + aspect
        cells[template], biases[template] = own.ravel(), 1.0
        states.append(aspect)
    for c in children:
        pairs[c][states[parents[c]], states[c]] = 1.0
        if label[c] != INVISIBLE and label[parents[c]] != INVISIBLE:
            _part, aspect, level, y, x = windows[label[c]]
            _part, _aspect, _level, above, beside = windows[label[parents[c]]]
            side = -1 if p.mirrored else 1
            dx = (side * (x - beside) - ANCHORS[c][aspect][0]) / UNIT
            dy = (y - above - ANCHORS[c][aspect][1]) / UNIT
            springs[c][aspect] = [-dx * dx, -dx, -dy * dy, -dy]
    edges = [part.ravel() for c in children for part in (pairs[c], springs[c])]
    return np.concatenate([cells.ravel(), biases, hidden, *edges])


def labels_of(p):
    """All labels of an image."""
    windows = placed(p)
    found = set()
    for level in range(len(p.shapes)):
        own = [
            [INVISIBLE] + [j for j, w in enumerate(windows) if w[0] == part and w[2] == level]
            for part in range(3)
        ]
        found |= set(itertools.product(*own))
    return np.array(sorted(found), dtype=np.int32)


def loss_of(p, windows, truth, label, radius=(0.6, 1.1, 0.6)):
    """The share of parts whose visibility is wrong, or that are too far from the truth's place."""
    total = 0.0
    for part in range(3):
        if (label[part] == INVISIBLE) != (truth[part] == INVISIBLE):
            total += 1.0 / 3.0
        elif label[part] != INVISIBLE:
            centres = []
            for j in (label[part], truth[part]):
                _part, _aspect, level, y, x = windows[j]
                half = np.array([COLUMNS, ROWS]) / 2.0
                centres.append((np.array([x, y]) - p.margin + half) * p.steps[level])
            level = windows[truth[part]][2]
            reach = radius[part] * np.sqrt(p.steps[level].prod())
            total += (np.linalg.norm(centres[0] - centres[1]) > reach) / 3.0
    return total


def enumerated(X, truths, parents=PARENTS):
    """phi, psi and losses of all labels of each image."""
    phi, psi, losses = [], [], []
    for p, truth in zip(X, truths, strict=True):
        windows = placed(p)
        phi.append(np.array([phi_of(p, windows, label, parents) for label in labels_of(p)]))
        psi.append(phi_of(p, windows, truth, parents) - phi[-1])
        losses.append(np.array([loss_of(p, windows, truth, label) for label in labels_of(p)]))
    return phi, psi, losses


def truths_of(blocks):
    return blocks.truth.reshape(-1, 3)


def weights(rng, data, scale=1.0):
    """Any weights above their bounds."""
    return np.maximum(scale * rng.normal(size=data.n_features), data.prior.lower)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([0.01, 0.3, 3.0]),
    parents=st.sampled_from([PARENTS, CHAIN]),
)
def test_the_maximum_is_that_of_all_labels(seed, scale, parents):
    rng = np.random.default_rng(seed)
    X, y = problem_data(rng)
    data = bind(structure(parents), X, y)
    phi, psi, losses = enumerated(X, truths_of(data.blocks), parents)
    w = weights(rng, data, scale)
    found = data.hinges(data.pad(w))
    slack = 1e-4 * (1.0 + np.abs(w).max())
    hinges = [max((c - p @ w).max(), 0.0) for p, c in zip(psi, losses, strict=True)]
    assert_allclose(found, hinges, atol=slack)
    for p, own, label in zip(X, phi, data.predict(w), strict=True):
        score = phi_of(p, placed(p), label, parents) @ w
        assert score >= (own @ w).max() - slack


def test_hidden_parts_let_their_children_go():
    """With a root that is best invisible, the children are where they score most."""
    rng = np.random.default_rng(1)
    X = [pyramid(rng)]
    data = bind(structure(), X)
    w = np.zeros(data.n_features)
    at = data.blocks.features.tail_at
    w[: at - 4] = 1.0  # of cells
    w[at + 1] = 100.0  # of a hidden root
    label = data.predict(np.maximum(w, data.prior.lower))[0]
    assert label[1] == INVISIBLE
    phi, _psi, _losses = enumerated(X, truths_of(data.blocks))
    best = (phi[0] @ np.maximum(w, data.prior.lower)).max()
    found = phi_of(X[0], placed(X[0]), label) @ np.maximum(w, data.prior.lower)
    assert_allclose(found, best, rtol=1e-5)
    assert (label[[0, 2]] >= 0).all()
    nothing = phi_of(X[0], placed(X[0]), np.full(3, INVISIBLE)) @ w
    assert_allclose(structure().absent(w), nothing)


@pytest.mark.parametrize("sampling", ["diverse", "suppression"])
@pytest.mark.parametrize("suppression", [long_if(s != 0.3, s) for s in (0.0, 0.3, 1.0)])
def test_the_structure_keeps_the_laws(sampling, suppression):
    X, y = problem_data(np.random.default_rng(2))
    own = structure(sampling=sampling, suppression=suppression)
    taut.check_structure(own, X, y, candidates=lambda i: labels_of(X[i]))


def drawn(data, i, w, count):
    """What the structure's own `sample` finds for a block, with loss."""
    sampler = taut.sampling.as_sampler("own", data)
    found = np.full((count, 3), -9, dtype=np.int32)
    n = _drawing(data, sampler)(
        data.space(np.float64), data.blocks.data, i, data.pad(w),
        np.zeros(data.blocks.work_size), sampler.room(data, count, np.float64), found,
        np.empty(count),
    )  # fmt: skip
    return found[:n]


def _drawing(data, sampler):
    def make(operations):
        pull, sample = operations.pull, helper(sampler.make(operations), True)

        def draw(space, blocks, i, w, work, room, found, values):
            pull(space, i, w, work)
            return sample(blocks, i, work, 1.0, 1, room, found, values)

        return draw

    return data.kernel(make)


def test_samples_take_turns_with_aspects():
    """Each part has, in each round, every one of its aspects before one of them again."""
    rng = np.random.default_rng(3)
    X, y = problem_data(rng)
    data = bind(structure(suppression=0.9), X, y)
    found = drawn(data, 0, weights(rng, data), 12)
    windows = placed(X[0])
    for part, n_states in enumerate([3, 2, 2]):
        states = [windows[row[part]][1] if row[part] >= 0 else n_states - 1 for row in found]
        for q in range(len(found) // n_states if part != 1 else 1):
            own = states[q * n_states : (q + 1) * n_states]
            assert sorted(own) == list(range(n_states))
    assert len(np.unique(found, axis=0)) == len(found)


def test_samples_by_suppression_are_the_best_of_each_root():
    rng = np.random.default_rng(4)
    X, y = problem_data(rng)
    data = bind(structure(sampling="suppression", suppression=1.0), X, y)
    w = weights(rng, data)
    found = drawn(data, 0, w, 50)
    phi, _psi, losses = enumerated(X[:1], truths_of(data.blocks)[:1])
    values, labels = phi[0] @ w + losses[0], labels_of(X[0])
    roots = [values[labels[:, 1] == root].max() for root in np.unique(labels[:, 1])]
    own = [values[(labels == row).all(axis=1)][0] for row in found]
    assert_allclose(own, np.sort(roots)[::-1], atol=1e-4)


def solved(rng_seed, solver=None, **options):
    X, y = problem_data(np.random.default_rng(rng_seed))
    weight = np.array([1.0, 0.5, 2.0, 1.0])
    own = {name: options.pop(name) for name in ("regularizer", "n_jobs") if name in options}
    problem = Problem(structure(least=0.2), X, y, C=0.5, sample_weight=weight, **own)
    result = solve(problem, solver, **{"tol": 1e-5, "random_state": 0} | options)
    return problem, result, enumerated(X, truths_of(problem.data.blocks)), 0.5 * weight


@pytest.mark.parametrize(
    ("solver", "tol"),
    [
        long_if(name != "dual_coordinate", solver, tol, id=name)
        for name, solver, tol in (
            ("dual_coordinate", DualCoordinate(), 1e-5),
            ("multi_sample", MultiSample(4), 1e-3),
            ("one_slack", OneSlack(), 1e-5),
            ("n_slack", NSlack(), 1e-5),
            ("subgradient", Subgradient(), 1e-2),
        )
    ],
)
def test_the_optimum_is_that_of_an_independent_qp(solver, tol):
    problem, result, (_phi, psi, losses), weight = solved(5, solver, tol=tol)
    lower = problem.data.prior.lower
    nothing, ones, bounded = np.zeros(len(lower)), np.eye(len(lower)), lower > -np.inf
    least = np.where(bounded, lower, 0.0)
    best, w = solve_prior_qp(psi, losses, weight, nothing, ones, bounded, least)
    assert (w[bounded] <= least[bounded] + 1e-6).any()  # a bound is active
    assert (result.w >= lower).all()
    assert result.certificate.dual <= best * (1.0 + 1e-6)
    assert_allclose(result.certificate.primal, best, rtol=2.0 * tol)
    own = prior_primal(result.w, psi, losses, weight, nothing, ones)
    assert_allclose(result.certificate.primal, own, rtol=1e-5)


def test_priors_and_the_bounds_of_springs_hold_together():
    n = bind(structure(), *problem_data(np.random.default_rng(5))).n_features
    rng = np.random.default_rng(6)
    mean, precision = 0.3 * rng.normal(size=n), rng.uniform(0.2, 3.0, n)
    prior = Regularizer(mean, precision)
    problem, result, (_phi, psi, losses), weight = solved(5, regularizer=prior)
    lower = problem.data.prior.lower
    bounded = lower > -np.inf
    least = np.where(bounded, lower, 0.0)
    best, _w = solve_prior_qp(psi, losses, weight, mean, np.diag(precision), bounded, least)
    assert_allclose(result.certificate.primal, best, rtol=2e-5)
    assert result.certificate.dual <= best * (1.0 + 1e-6)
    with pytest.raises(InvalidData, match="full matrix, and the structure needs weights above"):
        Problem(structure(), *problem_data(rng), regularizer=Regularizer(precision=np.eye(n)))
    with pytest.raises(InvalidData, match="nor other bounds that a structure may need"):
        solve(problem, FunctionalDescent())


def test_rounding_of_products_is_bounded():
    """Scores are off by no more than is added to the bounds."""
    rng = np.random.default_rng(7)
    X, y = problem_data(rng)
    n = bind(structure(), X, y).n_features
    problem = Problem(structure(), X, y, regularizer=Regularizer(precision=np.full(n, 1e-4)))
    w = weights(rng, problem.data)
    _phi, psi, losses = enumerated(X, truths_of(problem.data.blocks))
    hinges = sum(max((c - p @ w).max(), 0.0) for p, c in zip(psi, losses, strict=True))
    bound = problem.primal_bound(problem.scaled(w))
    assert abs(bound.value - 0.5e-4 * w @ w - hinges) <= bound.rounding < 1e-4


def test_taken_blocks_are_those_that_their_data_give():
    X, y = problem_data(np.random.default_rng(8))
    which = np.array([3, 0, 2])
    taken = bind(structure(), X, y).take(which)
    fresh = bind(structure(), [X[i] for i in which], [y[i] for i in which])
    w = fresh.pad(weights(np.random.default_rng(9), fresh))
    assert_allclose(taken.hinges(w), fresh.hinges(w))
    assert_array_equal(taken.blocks.truth, fresh.blocks.truth)
    assert len(taken.blocks.features.space.cells) == len(X[0].cells) + len(X[2].cells)


def test_mirrored_images_are_learned_with_left_and_right_swapped():
    """Data and their mirror images: what is learned mirrors with them."""
    rng = np.random.default_rng(10)
    own = Parts([1, -1, 1], [[[1.0, 0.0]], [[0.0, 0.0]], [[-1.0, 0.0]]], size=(1, 1), scale=2.0)
    p = pyramid(rng, rows=3, columns=4)
    p = p._replace(steps=p.size / p.shapes[:, ::-1])
    joints, visible = rng.uniform(0.0, 20.0, size=(1, 3, 2)), np.ones((1, 3), dtype=bool)
    swapped, seen = taut.vision.mirrored_joints(joints, visible, [p.size[0]], [2, 1, 0])
    levels = [p.mirror_image().level(k).reshape(-1, CHANNELS) for k in range(2)]
    flipped = p._replace(cells=np.concatenate(levels))
    aspects = np.zeros(3, dtype=int)
    y = [JointPose(swapped[0], seen[0], aspects, 16.0)] * 2
    data = bind(own, [p.mirror_image(), flipped], y)
    for scale in (0.3, 3.0):
        w = weights(rng, data, scale)
        assert_allclose(*data.hinges(data.pad(w)), rtol=1e-5)
        labels = data.predict(w)
        first, second = own.poses(data.blocks, labels)
        assert_array_equal(first.visible, second.visible)
        assert_allclose(first.joints, second.joints)
        assert_allclose(first.size, second.size)


def test_poses_become_the_nearest_labels():
    p = pyramid(np.random.default_rng(11), rows=5, columns=6)
    joints = np.array([[9.0, 13.0], [25.0, 20.0], [33.0, 30.0]])
    aspects, seen = np.array([1, 0, 0]), np.ones(3, dtype=bool)
    for size, level in ((16.0, 0), (30.0, 1)):
        blocks = structure().encode([p], [JointPose(joints, seen, aspects, size)])
        found = structure().poses(blocks, structure().decode(blocks.truth, blocks.offsets))[0]
        step = p.steps[level]
        assert (np.abs(found.joints - joints) <= step / 2.0 + 1e-9).all()
        assert_array_equal(found.aspects, aspects)
        assert_allclose(found.size, 2.0 * np.sqrt(step.prod()))


def test_windows_reach_into_the_margin():
    """Places and losses there are those of the cells that windows lie upon."""
    rng = np.random.default_rng(21)
    p = pyramid(rng, rows=4, columns=5, margin=1)
    X = [p, p.mirror_image()]
    joints = np.array([[20.0, 12.0], [-3.0, 4.0], [4.0, 20.0]])
    y = [JointPose(joints, np.ones(3, dtype=bool), np.zeros(3, dtype=int), 16.0)] * 2
    data = bind(structure(), X, y)
    shown = structure().poses(data.blocks, truths_of(data.blocks))
    assert_array_equal(shown[0].visible, True)  # the second one beyond the image
    step = p.steps[0]
    assert (np.abs(shown[0].joints - joints) <= step / 2.0 + 1e-9).all()
    for seed in range(10):
        w = weights(np.random.default_rng(seed), data)
        expected = [
            loss_of(own, placed(own), truth, label)
            for own, truth, label in zip(X, truths_of(data.blocks), data.predict(w), strict=True)
        ]
        assert_allclose(data.prediction_losses(w), expected)


def test_joints_that_no_window_is_near_to_are_invisible():
    p = pyramid(np.random.default_rng(12), rows=3, columns=4)
    joints = np.array([[16.0, 12.0], [16.0, 12.0], [-30.0, 12.0]])
    given = JointPose(joints, np.ones(3, dtype=bool), np.zeros(3, dtype=int), 16.0)
    blocks = structure().encode([p], [given])
    assert_array_equal(blocks.truth >= 0, [True, True, False])
    assert_array_equal(blocks.data.visible[0], [True, True, False])


def test_an_image_without_room_has_no_parts():
    rng = np.random.default_rng(13)
    small = pyramid(rng, rows=2, columns=2)
    own = structure(size=(4, 4))
    data = bind(own, [small, pyramid(rng, rows=6, columns=6)])
    w = weights(rng, data)
    assert_array_equal(data.predict(w)[0], [INVISIBLE] * 3)
    with pytest.raises(InvalidData, match="image 0 has a visible part, and no level has room"):
        own.encode([small], [pose(rng, small)])


def test_one_image_is_learned():
    rng = np.random.default_rng(14)
    X = [pyramid(rng)]
    problem = Problem(structure(), X, [pose(rng, X[0])], C=5.0)
    result = solve(problem, tol=1e-3, random_state=0)
    assert result.certificate.status.name == "CONVERGED"


def test_one_thread_more_reaches_the_same():
    one, two = (solved(22, tol=1e-4, n_jobs=n_jobs)[1].certificate for n_jobs in (1, 2))
    assert_allclose(two.primal, one.primal, rtol=2e-4)


def test_labels_from_a_file_are_windows_of_their_parts_on_one_level():
    X, y = problem_data(np.random.default_rng(15))
    own = structure()
    blocks = own.encode(X, y)
    windows = placed(X[0])
    on = [
        [j for j, w in enumerate(windows) if w[0] == part and w[2] == level]
        for level in range(2)
        for part in range(3)
    ]
    for label, valid in (
        ([on[0][0], on[1][0], on[2][0]], True),
        ([INVISIBLE] * 3, True),
        ([on[0][0], INVISIBLE, on[5][0]], False),
        ([on[1][0], on[0][0], on[2][0]], False),
        ([10**6, INVISIBLE, INVISIBLE], False),
        ([-2, INVISIBLE, INVISIBLE], False),
    ):
        found = own.valid_labels(blocks, np.array([0]), np.array(label, dtype=np.int32))
        assert_array_equal(found, [valid])


@pytest.mark.long
def test_killed_and_resumed_is_uninterrupted(tmp_path):
    X, y = problem_data(np.random.default_rng(16))
    problem = Problem(structure(), X, y, C=0.5)
    path = tmp_path / "run.taut"
    whole = solve(problem, tol=1e-6, max_iter=12, random_state=0)
    solve(problem, tol=1e-6, max_iter=5, random_state=0, checkpoint=path)
    resumed = solve(problem, tol=1e-6, max_iter=12, random_state=3, checkpoint=path)
    assert_array_equal(resumed.w, whole.w)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"parents": [-1, -1, 0]}, r"parents has 2 roots, parts \[0, 1\]"),
        ({"parents": [-1, 2, 1]}, r"parents has a cycle among parts \[1, 2\]"),
        ({"parents": [-1, 0, 3]}, "numbers of no part"),
        ({"parents": [0.5, -1, 1]}, "give the number of each part's parent"),
        ({"anchors": ANCHORS[:2]}, "anchors has 2 parts and parents has 3"),
        ({"anchors": [[[1.0]], *ANCHORS[1:]]}, r"anchors\[0\] has shape \(1, 1\)"),
        ({"size": (0, 2)}, "size = "),
        ({"scale": 0.0}, "scale = 0.0"),
        ({"radius": -1.0}, "radius = -1.0"),
        ({"least": 0.0}, "least = 0.0: give a finite number above 0"),
        ({"sampling": "best"}, "sampling = 'best'"),
        ({"suppression": 1.5}, "suppression = 1.5"),
    ],
)
def test_what_is_no_structure_is_refused(changes, message):
    with pytest.raises(InvalidData, match=message):
        Parts(**{"parents": PARENTS, "anchors": ANCHORS} | SETTINGS | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joints": np.zeros((2, 2))}, "visible has shape"),
        ({"joints": np.full((3, 2), np.nan)}, "joint 0 of object 0 is visible and at"),
        ({"aspects": np.array([2, 0, 0])}, "aspect 2 of part 0 in image 0"),
        ({"aspects": np.zeros(2, dtype=int)}, "aspects of shape"),
        ({"size": 0.0}, "the size of the object in image 0 is 0.0"),
    ],
)
def test_what_is_no_pose_is_refused(changes, message):
    rng = np.random.default_rng(17)
    p = pyramid(rng)
    with pytest.raises(InvalidData, match=message):
        structure().encode([p], [pose(rng, p)._replace(**changes)])
    with pytest.raises(InvalidData, match="X has 1 images and y poses of 2"):
        structure().encode([p], [pose(rng, p)] * 2)


@pytest.mark.parametrize("parents", [PARENTS, CHAIN], ids=["star", "chain"])
@pytest.mark.parametrize("temperature", [0.02, 1.0, 30.0])
def test_marginals_are_sums_over_all_labels(temperature, parents):
    rng = np.random.default_rng(18)
    X, y = problem_data(rng)
    own = structure(parents)
    data = bind(own, X, y)
    w = weights(rng, data)
    phi, _psi, _losses = enumerated(X, truths_of(data.blocks), parents)
    for p, every, found in zip(X, phi, own.marginals(data.blocks, w, temperature), strict=True):
        scores = every @ w / temperature
        log_sum = scores.max() + np.log(np.exp(scores - scores.max()).sum())
        assert_allclose(found.log_partition, log_sum, rtol=1e-4, atol=1e-3)
        chances, labels = np.exp(scores - log_sum), labels_of(p)
        for part in range(3):
            assert_allclose(found.hidden[part], chances[labels[:, part] < 0].sum(), atol=1e-3)
        for j in range(len(placed(p))):
            expected = chances[(labels == j).any(axis=1)].sum()
            assert_allclose(found.windows[j], expected, atol=1e-3)


def test_marginals_of_far_apart_scores_are_those_of_the_best():
    """A parent whose place is certain, however little its child fits there."""
    rng = np.random.default_rng(19)
    X, y = problem_data(rng)
    own = structure()
    data = bind(own, X, y)
    w = weights(rng, data, scale=1e4)
    labels = data.predict(w)
    for found, label in zip(own.marginals(data.blocks, w), labels, strict=True):
        assert np.isfinite(found.log_partition)
        assert_allclose(found.windows[label[label >= 0]], 1.0, atol=1e-6)
        assert_allclose(found.hidden[label < 0], 1.0, atol=1e-6)


def test_an_image_without_room_has_marginals():
    rng = np.random.default_rng(20)
    own = structure(size=(4, 4))
    blocks = own.encode([pyramid(rng), pyramid(rng, rows=5, columns=5)])
    w = rng.normal(size=blocks.features.n_features)
    none, some = own.marginals(blocks, w)
    assert_array_equal(none.hidden, 1.0)
    assert (some.hidden < 1.0).all()


def test_latent_parts_are_where_they_score_most():
    """Among all labels whose root is near its place, on its level."""
    rng = np.random.default_rng(30)
    X, y = problem_data(rng)
    own = LatentParts(PARENTS, ANCHORS, **SETTINGS)
    pairs = list(zip(X, y, strict=True))
    data = bind(own, pairs)
    first = truths_of(data.blocks)
    assert (first[:, [0, 2]] == INVISIBLE).all()
    for scale in (0.1, 3.0):
        w = weights(rng, data, scale)
        found = data.completed(data.blocks.truth, w)
        for p, truth, label in zip(X, first, found, strict=True):
            windows = placed(p)
            if truth[1] == INVISIBLE:
                assert_array_equal(label, truth)
                continue
            level = windows[truth[1]][2]
            allowed = [
                other
                for other in labels_of(p)
                if other[1] != INVISIBLE and windows[other[1]][2] == level
                and root_is_right(p, windows, truth, other)
            ]  # fmt: skip
            scores = [phi_of(p, windows, other) @ w for other in allowed]
            assert any((label == other).all() for other in allowed)
            slack = 1e-4 * (1.0 + np.abs(w).max())
            assert phi_of(p, windows, label) @ w >= max(scores) - slack
        taut.check_structure(own, pairs, found, candidates=lambda i: labels_of(X[i]))


def root_is_right(p, windows, truth, label):
    """Whether the root of a label costs nothing."""
    alone = np.full(3, INVISIBLE)
    alone[1] = truth[1]
    other = np.full(3, INVISIBLE)
    other[1] = label[1]
    return loss_of(p, windows, alone, other) == 0.0
