"""Windows of feature pyramids, and the structure whose labels they are."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import taut
from reference import primal, solve_qp
from taut import Problem, solve
from taut.binding import bind
from taut.data.arrays import one_array
from taut.errors import InvalidData
from taut.solvers import DualCoordinate, FunctionalDescent, MultiSample, OneSlack
from taut.spaces.windows import WindowFeatures
from taut.structures import Boxes, LatentBoxes
from taut.vision import Boxes as Truth
from taut.vision import Pyramid, Templates
from taut.vision.boxes import overlaps
from taut.vision.templates import scales_of, templates_of
from test_sampling import drawn

KNOTS = 6
ROWS, COLUMNS, CLASSES = np.array([2, 1]), np.array([1, 2]), np.array([0, 1])
TEMPLATES = Templates(ROWS, COLUMNS, CLASSES, border=1)


def pyramid(rng, kind=np.uint8, mirrored=False, rows=4, columns=5):
    """Two levels of a small image, with a margin of one cell."""
    shapes = np.array([[rows + 2, columns + 2], [rows + 1, columns]], dtype=np.int32)
    cells = rng.integers(0, 255, size=(shapes.prod(axis=1).sum(), 2)).astype(kind)
    steps = np.array([[8.0, 8.0], [8.0 * columns / (columns - 2), 8.0 * rows / (rows - 1)]])
    size = np.array([8.0 * columns, 8.0 * rows])
    return Pyramid(cells, shapes, steps, size, 1, 0.01, np.array([1, 0], dtype=np.int32), mirrored)


def windows_of(p, templates=TEMPLATES):
    """Template, level, row, column, box and features of each window, without the library."""
    border, channels = templates.border, p.cells.shape[1]
    heights, widths = templates.rows + 2 * border, templates.columns + 2 * border
    starts = np.concatenate([[0], np.cumsum(heights * widths)]) * channels
    n = starts[-1] + len(heights) + 6 * KNOTS * templates.n_classes
    for t, level in itertools.product(range(len(heights)), range(len(p.shapes))):
        first = int(p.shapes[:level].prod(axis=1).sum())
        n_rows, n_columns = p.shapes[level]
        grid = p.cells[first : first + n_rows * n_columns].reshape(n_rows, n_columns, channels)
        for y in range(n_rows - heights[t] + 1):
            for x in range(n_columns - widths[t] + 1):
                own = grid[y : y + heights[t], x : x + widths[t]].astype(float)
                step = p.steps[level]
                low = (np.array([x, y]) - p.margin + border) * step
                high = low + np.array([templates.columns[t], templates.rows[t]]) * step
                low, high = np.clip(low, 0.0, p.size), np.clip(high, 0.0, p.size)
                edges = np.concatenate([low, high])
                phi = np.zeros(n)
                shown = edges.copy()
                if p.mirrored:
                    own = own[:, ::-1, p.mirror]
                    shown[[0, 2]] = p.size[0] - edges[[2, 0]]
                phi[starts[t] : starts[t + 1]] = p.unit * own.ravel()
                phi[starts[-1] + t] = templates.bias
                area = max(np.prod(shown[2:] - shown[:2]), 1.0)
                measures = [
                    *(shown / np.tile(p.size, 2)),
                    np.sqrt(area / p.size.prod()),
                    np.log2(np.sqrt(area) / 20.0) / 4.0,
                ]
                begin = starts[-1] + len(heights) + 6 * KNOTS * templates.classes[t]
                for q, value in enumerate(measures):
                    scaled = np.clip(value, 0.0, 0.9999) * (KNOTS - 1)
                    knot, share = int(scaled), scaled - int(scaled)
                    phi[begin + q * KNOTS + knot] = templates.geometry * (1.0 - share)
                    phi[begin + q * KNOTS + knot + 1] = templates.geometry * share
                yield t, shown, phi


def overlap(a, b):
    width = max(min(a[2], b[2]) - max(a[0], b[0]), 0.0)
    height = max(min(a[3], b[3]) - max(a[1], b[1]), 0.0)
    common = width * height
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def truth(*boxes, ignored=()):
    """Boxes of (class, left, top, right, bottom)."""
    classes = np.array([box[0] for box in boxes], dtype=np.int64)
    edges = np.array([box[1:] for box in boxes], dtype=float).reshape(-1, 4)
    return Truth(edges, classes, np.isin(np.arange(len(boxes)), ignored))


def problem_data(rng):
    """Images with one, two and no objects, and two mirrored ones."""
    X = [pyramid(rng), pyramid(rng, rows=5), pyramid(rng)]
    y = [truth((0, 8, 8, 16, 24)), truth((0, 0, 8, 9, 24), (1, 16, 16, 32, 25)), truth()]
    mirrored = [truth.mirrored(40.0) for truth in y[:2]]
    return [*X, X[0].mirror_image(), X[1].mirror_image()], [*y, *mirrored]


def enumerated(X, y, match):
    """psi and losses of all labels of each image, from the groups that the documentation names."""
    psi, losses, truths = [], [], []
    for p, objects in zip(X, y, strict=True):
        windows = list(windows_of(p))
        groups, own_truth = [], []
        found = []
        for t, edges, _phi in windows:
            common = [
                overlap(edges, box) if kind == CLASSES[t] else 0.0
                for box, kind in zip(objects.edges, objects.classes, strict=True)
            ]
            found.append((max(common, default=0.0), int(np.argmax(common)) if common else -1))
        known = [
            j for j in range(len(objects.edges)) if any(o >= match and k == j for o, k in found)
        ]
        for j in known:
            own = {i: o for i, (o, k) in enumerate(found) if k == j and o >= match}
            best = max(own, key=own.get)
            options = [(-1, 1.0)]
            options += [(i, max(own[best] - o, 0.0) / (1.0 - match)) for i, o in own.items()]
            groups.append(options)
            own_truth.append(best)
        for kind in range(2):
            groups.append(
                [(-1, 0.0)]
                + [
                    (i, max(1.0 - o / match, 0.0))
                    for i, (o, _k) in enumerate(found)
                    if o < match and CLASSES[windows[i][0]] == kind
                ]
            )
            own_truth.append(-1)
        phi_of = [phi for _t, _edges, phi in windows]
        nothing = np.zeros_like(phi_of[0])
        right = sum((phi_of[i] for i in own_truth if i >= 0), nothing)
        rows, costs = [], []
        for label in itertools.product(*groups):
            rows.append(right - sum((phi_of[i] for i, _c in label if i >= 0), nothing))
            costs.append(sum(cost for _i, cost in label))
        psi.append(np.array(rows))
        losses.append(np.array(costs))
        truths.append(own_truth)
    return psi, losses, truths


@pytest.mark.parametrize("kind", [np.uint8, np.float32])
@pytest.mark.parametrize("mirrored", [False, True])
def test_potentials_are_products_of_weights_and_windows(kind, mirrored):
    rng = np.random.default_rng(0)
    pyramids = [pyramid(rng, kind, mirrored), pyramid(rng, kind, not mirrored, rows=5, columns=6)]
    features = WindowFeatures(pyramids, TEMPLATES)
    w = rng.normal(size=features.n_features)
    work = np.empty(features.n_potentials)
    for i, p in enumerate(pyramids):
        windows = list(windows_of(p))
        assert features.window_counts[i] == len(windows)
        assert_allclose(features.edges(i), [edges for _t, edges, _phi in windows])
        assert_array_equal(features.templates_at(i), [t for t, _edges, _phi in windows])
        phi = np.array([phi for _t, _edges, phi in windows])
        # Bounds are computed in double precision, which rounding is counted for.
        assert_allclose(features.scores(i, features.pad(w), work), phi @ w, rtol=1e-12, atol=1e-12)
        assert features.lengths()[i] >= np.linalg.norm(phi, axis=1).max() - 1e-6
        cells = np.empty((2, 2 * 3 * 4), dtype=np.float32)
        features.cells_under(i, np.array([0, 3]), cells)
        assert_allclose(cells, phi[[0, 3], : 2 * 3 * 4], rtol=1e-5)


def test_a_mirrored_image_is_scored_as_its_mirrored_cells():
    rng = np.random.default_rng(1)
    p = pyramid(rng)
    levels = [p.mirror_image().level(k).reshape(-1, 2) for k in range(2)]
    flipped = p._replace(cells=np.concatenate(levels))
    features = WindowFeatures([p.mirror_image(), flipped], TEMPLATES)
    w = features.pad(rng.normal(size=features.n_features))
    # A window of the one lies where the other has the mirrored window, so values are the same.
    scores = [np.sort(features.scores(i, w, np.empty(features.n_potentials))) for i in range(2)]
    assert_allclose(scores[0], scores[1], rtol=1e-5, atol=1e-5)


def test_pyramids_that_share_cells_alone_are_images_of_their_own():
    first = pyramid(np.random.default_rng(16))
    larger = first._replace(size=2.0 * first.size, steps=2.0 * first.steps)
    features = WindowFeatures([first, larger, larger.mirror_image()], TEMPLATES)
    assert_array_equal(features.space.image, [0, 1, 1])
    w = np.random.default_rng(17).normal(size=features.n_features)
    for i, p in enumerate([first, larger, larger.mirror_image()]):
        _templates, edges, phi = zip(*windows_of(p), strict=True)
        assert_allclose(features.edges(i), edges)
        scores = features.scores(i, features.pad(w), np.empty(features.n_potentials))
        assert_allclose(scores, phi @ w, rtol=1e-4, atol=1e-4)
    others = larger._replace(unit=0.02), larger._replace(margin=0)
    for other, message in zip(others, ("unit", "margin"), strict=True):
        with pytest.raises(InvalidData, match=message):
            WindowFeatures([first, other], TEMPLATES)


def test_windows_that_are_cut_by_little_have_their_own_area():
    first = pyramid(np.random.default_rng(19))
    cut = first._replace(size=first.size - 5e-4)
    features = WindowFeatures([cut], TEMPLATES)
    w = 1e5 * np.random.default_rng(20).normal(size=features.n_features)
    phi = np.array([phi for _t, _edges, phi in windows_of(cut)])
    scores = features.scores(0, features.pad(w), np.empty(features.n_potentials))
    assert_allclose(scores, phi @ w, rtol=1e-10)


def test_the_structure_keeps_the_laws():
    X, y = problem_data(np.random.default_rng(2))
    taut.check_structure(Boxes(TEMPLATES), X, y)


@pytest.mark.parametrize("match", [0.5, 0.3])
def test_losses_and_truths_are_those_of_the_groups(match):
    X, y = problem_data(np.random.default_rng(3))
    psi, losses, truths = enumerated(X, y, match)
    blocks = Boxes(TEMPLATES, match=match).encode(X, y)
    for i, own in enumerate(truths):
        label = blocks.truth[blocks.offsets[i] : blocks.offsets[i + 1]]
        assert_array_equal(label, own)
    data = bind(Boxes(TEMPLATES, match=match), X, y)
    w = np.random.default_rng(4).normal(size=data.n_features)
    hinges = [max((c - p @ w).max(), 0.0) for p, c in zip(psi, losses, strict=True)]
    # Losses are kept in single precision.
    assert_allclose(data.hinges(data.pad(w)), hinges, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "solver", [DualCoordinate(), MultiSample(3), OneSlack()], ids=["default", "samples", "one"]
)
def test_the_optimum_is_that_of_an_independent_qp(solver):
    X, y = problem_data(np.random.default_rng(5))
    psi, losses, _truths = enumerated(X, y, 0.5)
    weight = np.array([1.0, 0.5, 2.0, 1.0, 0.5])
    problem = Problem(Boxes(TEMPLATES), X, y, C=0.3, sample_weight=weight)
    result = solve(problem, solver, tol=1e-5, random_state=0)
    best, _w = solve_qp(psi, losses, 0.3 * weight)
    # Losses are kept in single precision.
    assert result.certificate.dual <= best * (1.0 + 1e-6)
    assert_allclose(result.certificate.primal, best, rtol=2e-5)
    assert_allclose(primal(result.w, psi, losses, 0.3 * weight), result.certificate.primal, 1e-6)


def test_localisation_costs_one_minus_the_overlap():
    """With match = 0 each window belongs to the object, as published, but for the best overlap."""
    rng = np.random.default_rng(6)
    X = [pyramid(rng), pyramid(rng)]
    y = [truth((0, 8, 8, 18, 26)), truth()]
    blocks = Boxes(TEMPLATES, match=0.0).encode(X, y)
    data, first = blocks.data, list(windows_of(X[0]))
    common = [overlap(e, y[0].edges[0]) if CLASSES[t] == 0 else 0.0 for t, e, _phi in first]
    assert_array_equal(data.groups[: len(first)], 0)
    assert_allclose(data.losses[: len(first)], max(common) - np.array(common), atol=1e-6)
    assert_allclose(data.missing[:3], [1.0, 0.0, 0.0])
    assert_allclose(data.losses[len(first) :], 1.0)


def test_ignored_objects_are_neither_found_nor_missed():
    p = pyramid(np.random.default_rng(7))
    given = truth((0, 8, 8, 16, 24), ignored=[0])
    blocks = Boxes(TEMPLATES).encode([p], [given])
    near = [
        i
        for i, (t, edges, _phi) in enumerate(windows_of(p))
        if CLASSES[t] == 0 and overlap(edges, given.edges[0]) >= 0.5
    ]
    assert near
    assert_array_equal(blocks.data.groups[near], -1)
    assert len(blocks.truth) == 2  # false alarms alone


def test_windows_in_a_crowd_belong_to_no_group_but_an_object():
    p = pyramid(np.random.default_rng(7))
    crowd, thing = (0, 0.0, 0.0, 40.0, 20.0), (0, 8.0, 8.0, 16.0, 24.0)
    blocks = Boxes(TEMPLATES).encode([p], [truth(thing, crowd, ignored=[1])])
    n_left_out = 0
    for i, (t, edges, _phi) in enumerate(windows_of(p)):
        width, height = edges[2:] - edges[:2]
        inside = (min(edges[3], 20.0) - edges[1]) / height if height > 0.0 and width > 0.0 else 0.0
        inside = max(inside, 0.0) if CLASSES[t] == 0 else 0.0
        common = overlap(edges, thing[1:]) if CLASSES[t] == 0 else 0.0
        group, loss = blocks.data.groups[i], blocks.data.losses[i]
        if common >= 0.5:
            assert group == 0
        elif inside >= 0.5:
            n_left_out += 1
            assert group == -1
        else:
            assert group == 1 + CLASSES[t]
            assert_allclose(loss, 1.0 - 2.0 * max(common, inside), atol=1e-6)
    assert n_left_out


def test_two_objects_in_one_place_have_windows_of_their_own_or_none():
    p = pyramid(np.random.default_rng(8))
    blocks = Boxes(TEMPLATES).encode([p], [truth((0, 8, 8, 16, 24), (0, 8, 8, 16, 24.1))])
    structure, labels = Boxes(TEMPLATES), blocks.truth
    assert structure.valid_labels(blocks, np.array([0]), labels).all()


def test_taken_blocks_are_those_that_their_data_give():
    X, y = problem_data(np.random.default_rng(9))
    which = np.array([4, 0, 2])
    taken = bind(Boxes(TEMPLATES), X, y).take(which)
    fresh = bind(Boxes(TEMPLATES), [X[i] for i in which], [y[i] for i in which])
    w = fresh.pad(np.random.default_rng(10).normal(size=fresh.n_features))
    assert_allclose(taken.hinges(w), fresh.hinges(w))
    assert_array_equal(taken.blocks.truth, fresh.blocks.truth)
    assert len(taken.blocks.features.space.cells) == sum(len(X[i].cells) for i in (1, 0, 2))


def test_labels_from_a_file_are_windows_of_their_groups():
    X, y = problem_data(np.random.default_rng(11))
    structure = Boxes(TEMPLATES)
    blocks = structure.encode(X, y)
    groups = blocks.data.groups[: blocks.data.counts[0]]
    alarms = [int(np.flatnonzero(groups == g)[0]) for g in (1, 2)]
    good = [*blocks.truth[:1], *alarms]
    for label, valid in (
        (good, True),
        ([good[0], alarms[1], alarms[0]], False),
        ([good[0], -1, 10**6], False),
        ([-2, -1, -1], False),
    ):
        found = structure.valid_labels(blocks, np.array([0]), np.array(label, dtype=np.int32))
        assert_array_equal(found, [valid])


def test_functional_descent_and_one_thread_more():
    X, y = problem_data(np.random.default_rng(12))
    problem = Problem(Boxes(TEMPLATES), X, y, C=0.3, n_jobs=2)
    result = solve(problem, FunctionalDescent(subset=2), max_iter=2, random_state=0)
    assert result.certificate.dual == 0.0
    assert solve(problem, tol=1e-3, random_state=0).certificate.relative_gap <= 1e-3


def test_samples_are_distinct_and_begin_with_the_best():
    X, y = problem_data(np.random.default_rng(13))
    taut.check_structure(Boxes(TEMPLATES, suppression=0.2), X, y)


def test_wrong_parameters_are_refused():
    for parameters in ({"match": 1.0}, {"match": -0.1}, {"suppression": 1.5}):
        with pytest.raises(InvalidData, match=next(iter(parameters))):
            Boxes(TEMPLATES, **parameters)
    X, y = problem_data(np.random.default_rng(14))
    with pytest.raises(InvalidData, match="5 images"):
        Boxes(TEMPLATES).encode(X, y[:2])


def test_templates_have_the_shapes_of_boxes():
    edges = np.array([[0, 0, 80, 40], [0, 0, 40, 80], [0, 0, 50, 50.0]])
    templates = templates_of(edges, np.array([0, 0, 1]), aspects=2, cells=32, border=0)
    assert_array_equal(templates.classes, [0, 0, 1])
    assert_array_equal(templates.rows * templates.columns, [32, 32, 36])
    with pytest.raises(InvalidData, match="class 0 has no boxes"):
        templates_of(edges, np.array([1, 1, 1]), aspects=1, cells=32, border=0)


def test_scales_make_templates_as_large_as_boxes():
    edges = np.array([[0, 0, s, s] for s in np.linspace(30, 200, 40)])
    scales = scales_of(edges, cells=64, cell=8, step=1.2)
    assert_allclose(scales[:-1] / scales[1:], 1.2)
    assert 64 / scales[0] <= 35
    assert 64 / scales[-1] >= 190
    tiny = scales_of(edges / 20.0, cells=64, cell=8, step=1.2)
    assert tiny.max() <= 2.0  # images are not enlarged further


def test_arrays_in_a_row_are_one_without_a_copy():
    whole = np.arange(24.0).reshape(12, 2)
    parts = np.split(whole, [3, 7])
    assert np.shares_memory(one_array(parts), whole)
    assert_array_equal(one_array(parts), whole)
    assert_array_equal(one_array(parts[1:]), whole[3:])
    assert_array_equal(one_array(parts[::-1]), np.concatenate(parts[::-1]))
    assert_array_equal(one_array([whole]), whole)


def test_latent_windows_are_those_that_overlap_enough():
    rng = np.random.default_rng(15)
    X, y = problem_data(rng)
    structure, pairs = LatentBoxes(TEMPLATES, settled=0.6), list(zip(X, y, strict=True))
    data = bind(structure, pairs)
    w = rng.normal(size=data.n_features)
    chosen = data.completed(data.blocks.truth, w)
    _psi, _losses, truths = enumerated(X, y, 0.5)
    for p, objects, windows, best in zip(X, y, chosen, truths, strict=True):
        known = list(windows_of(p))
        for g, found in enumerate(windows):
            if best[g] < 0:
                assert found == -1
                continue
            box = objects.edges[g]
            same = [i for i, (t, *_rest) in enumerate(known) if CLASSES[t] == objects.classes[g]]
            enough = min(0.6, overlap(known[best[g]][1], box)) - 1e-9
            right = [i for i in same if overlap(known[i][1], box) >= enough]
            assert found == max(right, key=lambda i: known[i][2] @ w)
    again = structure.encode(pairs, chosen)
    assert_array_equal(again.truth, np.concatenate(chosen))
    with pytest.raises(InvalidData, match="other images or groups"):
        structure.encode(pairs, [*chosen[1:], chosen[0]])
    with pytest.raises(InvalidData, match="settled"):
        LatentBoxes(TEMPLATES, settled=0.4)


def test_samples_are_those_of_greedy_suppression():
    rng = np.random.default_rng(14)
    X, y = problem_data(rng)
    data = Problem(Boxes(TEMPLATES, suppression=0.2), X, y).data
    features, given = data.blocks.features, data.blocks.data
    for i in range(len(X)):
        v = rng.normal(size=data.n_features)
        labels, _values = drawn(data, "own", i, v, 5)
        padded = data.pad(v.astype(data.dtype))
        n = features.window_counts[i]
        scores = features.scores(i, padded, np.empty(features.n_potentials, dtype=data.dtype))
        own = slice(given.starts[i], given.starts[i] + n)
        values, groups = scores + given.losses[own], given.groups[own]
        edges = features.stored_edges(i)
        close, columns = overlaps(edges, edges) > 0.2, []
        for g, missing in enumerate(given.missing[given.offsets[i] : given.offsets[i + 1]]):
            left = np.flatnonzero((groups == g) & (values > missing))
            column = []
            while len(left):
                column.append(left[values[left].argmax()])
                left = left[(left != column[-1]) & ~close[column[-1], left]]
            columns.append([*column, *[-1] * 5][:5])
        expected = dict.fromkeys(zip(*columns, strict=True))
        assert labels == list(expected)
