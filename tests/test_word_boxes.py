"""Boxes of visual words as labels: the laws, the optimum, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from reference import primal, solve_qp
from taut import Problem, StructuredSVM, check_structure, solve
from taut.binding import bind
from taut.errors import InvalidData
from taut.solvers import FunctionalDescent, MultiSample
from taut.structures.word_boxes import WordBoxes
from taut.vision import WordMap
from test_box_search import NONE, all_boxes, histograms, overlaps

SETTINGS = {
    "additive": {},
    "pyramid": {"levels": 3, "smallest": (2, 2)},
    "normalised": {"normalise": "l2", "none": True},
    "normalised-pyramid": {"levels": 2, "normalise": "l2", "largest": (3, 4)},
    "coarse-table": {"levels": 2, "normalise": "l2", "none": True, "table": 20},
}
N_WORDS = 3


def labels_of(structure, words):
    """All labels of an image, by enumeration."""
    boxes = all_boxes(*words.shape[:2], structure.smallest, structure.largest or (99, 99))
    return np.vstack([boxes, NONE]) if structure.none else boxes


def features_of(structure, words, labels):
    boxes = labels[:, 0] >= 0
    phi = np.zeros((len(labels), (4**structure.levels - 1) // 3 * structure.n_words))
    phi[boxes] = histograms(
        words, labels[boxes], structure.n_words, structure.levels, structure.norm is not None
    )
    return phi


def turned(box):
    """(left, top, right, bottom), as users have boxes, from the order of searches, and back."""
    return tuple(box[k] for k in (1, 0, 3, 2))


def losses_of(labels, truth):
    boxes = labels[:, 0] >= 0
    losses = np.ones(len(labels))
    if truth is None:
        return np.where(boxes, 1.0, 0.0)
    losses[boxes] = 1.0 - overlaps(labels[boxes], turned(truth))
    return losses


def blocks_of(structure, X, y):
    """psi and losses of all labels of all images, without the library."""
    psi, losses = [], []
    for words, truth in zip(X, y, strict=True):
        labels = labels_of(structure, words)
        row = np.array([[-1] * 4 if truth is None else turned(truth)])
        psi.append(features_of(structure, words, row) - features_of(structure, words, labels))
        losses.append(losses_of(labels, truth))
    return psi, losses


def made(name, n=6, kinds=1):
    """A structure, images of several sizes and their boxes."""
    rng = np.random.default_rng(3)
    structure = WordBoxes(N_WORDS, **SETTINGS[name])
    X, y = [], []
    for i in range(n):
        words = rng.integers(1, N_WORDS, size=(*rng.integers(3, 6, 2), kinds))
        words[0, 0] = -1 if i == 2 else words[0, 0]
        labels = all_boxes(*words.shape[:2], structure.smallest, structure.largest or (99, 99))
        top, left, bottom, right = labels[rng.integers(len(labels))].tolist()
        inside = words[top:bottom, left:right]
        y.append((left, top, right, bottom))
        if structure.none and i in (1, 4):
            y[-1] = None
        else:
            inside[:] = rng.integers(2, size=inside.shape)
        X.append(words[:, :, 0] if kinds == 1 else words)
    return structure, X, y


@pytest.mark.parametrize("kinds", [1, 2])
@pytest.mark.parametrize("name", SETTINGS)
def test_laws_hold_among_all_boxes(name, kinds):
    structure, X, y = made(name, kinds=kinds)
    check_structure(structure, X, y, candidates=lambda i: labels_of(structure, X[i]), n_weights=4)


@pytest.mark.long
@pytest.mark.parametrize("name", SETTINGS)
def test_features_and_losses_are_those_of_enumeration(name):
    structure, X, y = made(name)
    psi, losses = blocks_of(structure, X, y)
    data = bind(structure, X, y)
    w = np.random.default_rng(0).normal(size=data.n_features)
    hinges = [max(0.0, (c - p @ w).max()) for p, c in zip(psi, losses, strict=True)]
    assert_allclose(data.hinges(data.pad(w)), hinges, rtol=1e-10, atol=1e-10)
    for words, found in zip(X, data.predict(w), strict=True):
        labels = labels_of(structure, words)
        scores = features_of(structure, words, labels) @ w
        own = features_of(structure, words, np.array([turned(found) if found else [-1] * 4])) @ w
        assert own[0] == pytest.approx(scores.max(), rel=1e-10)
    lengths = structure.lengths(data.blocks)
    for words, length in zip(X, lengths, strict=True):
        phi = features_of(structure, words, labels_of(structure, words))
        assert np.linalg.norm(phi, axis=1).max() <= length


@pytest.mark.parametrize("name", SETTINGS)
def test_the_optimum_is_that_of_the_quadratic_program(name):
    structure, X, y = made(name)
    psi, losses = blocks_of(structure, X, y)
    C = np.full(len(X), 0.7)
    optimum, _ = solve_qp(psi, losses, C)
    result = solve(Problem(structure, X, y, C=0.7), tol=1e-7, random_state=0)
    bounds = result.certificate
    assert bounds.dual <= optimum * (1 + 1e-8)
    assert optimum * (1 - 1e-8) <= bounds.primal <= optimum * (1 + 2e-7)
    assert primal(result.w, psi, losses, C) == pytest.approx(bounds.primal, rel=1e-8)


@pytest.mark.long
def test_a_visit_may_work_on_several_boxes():
    structure, X, y = made("normalised")
    optimum, _ = solve_qp(*blocks_of(structure, X, y), np.ones(len(X)))
    result = solve(Problem(structure, X, y, C=1.0), MultiSample(3), tol=1e-3, random_state=0)
    assert result.certificate.dual <= optimum * (1 + 1e-8)
    assert optimum * (1 - 1e-8) <= result.certificate.primal <= optimum * (1 + 2e-3)


def test_functional_descent_takes_images():
    structure, X, y = made("normalised-pyramid", n=8)
    psi, losses = blocks_of(structure, X, y)
    solver = FunctionalDescent(subset=3)
    result = solve(Problem(structure, X, y, C=1.0), solver, max_iter=4, random_state=0)
    hinges = [max(0.0, (c - p @ result.w).max()) for p, c in zip(psi, losses, strict=True)]
    before = [c.max() for c in losses]
    assert sum(hinges) < sum(before)


@pytest.mark.parametrize("name", ["pyramid", "coarse-table"])
def test_taken_images_are_encoded_ones(name):
    structure, X, y = made(name)
    which = np.array([2, 0, 5])
    taken = bind(structure, X, y).take(which)
    fresh = bind(structure, [X[i] for i in which], [y[i] for i in which])
    for one, other in zip(taken.blocks.data, fresh.blocks.data, strict=True):
        assert_array_equal(one, other)
    for field in ("offsets", "truth", "work_size", "label_size"):
        assert_array_equal(getattr(taken.blocks, field), getattr(fresh.blocks, field))
    w = np.random.default_rng(1).normal(size=fresh.n_features)
    for one, other in zip(taken.hardest(w), fresh.hardest(w), strict=True):
        assert_array_equal(one, other)


def test_labels_of_files_are_looked_at():
    structure, X, y = made("normalised-pyramid")
    blocks = structure.encode(X, y)
    n_rows, n_columns = X[0].shape
    rows = [
        [0, 0, 1, 1],
        [0, 0, n_rows + 1, 1],
        [0, 0, 1, n_columns + 1],
        [-1, 0, 1, 1],
        [1, 1, 1, 2],
        [0, 0, 1, 5],
        [-1, -1, -1, -1],
    ]
    labels = np.array(rows, dtype=np.int32)
    known = structure.valid_labels(blocks, np.zeros(len(rows), dtype=int), labels.ravel())
    assert known.tolist() == [True] + 6 * [False]
    other, X, y = made("normalised")
    known = other.valid_labels(other.encode(X, y), np.zeros(1, dtype=int), labels[-1])
    assert known.tolist() == [True]


def test_an_estimator_finds_what_stands_out():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(12):
        words = rng.integers(2, size=(8, 9))
        top, left = rng.integers(5), rng.integers(5)
        words[top : top + 3, left : left + 4] = rng.integers(2, 4, size=(3, 4))
        X.append(words)
        y.append((int(left), int(top), int(left) + 4, int(top) + 3))
    model = StructuredSVM(WordBoxes(4), C=10.0, random_state=0).fit(X[:8], y[:8])
    assert model.predict(X[8:]) == y[8:]
    maps = [WordMap(words, np.arange(9.0), np.arange(8.0), np.array([9.0, 8.0]), 4) for words in X]
    assert model.predict(maps[8:]) == y[8:]


ONE = [np.zeros((3, 4), dtype=int)]
X_LINES, Y_LINES, SIZE = np.arange(4.0), np.arange(3.0), np.array([4.0, 3.0])


@pytest.mark.parametrize(
    ("settings", "X", "y", "message"),
    [
        ({"levels": 0}, ONE, None, "levels = 0"),
        ({"n_words": 1.5}, ONE, None, "n_words = 1.5"),
        ({"normalise": "l1"}, ONE, None, "normalise = 'l1'"),
        ({}, [WordMap(ONE[0], X_LINES, Y_LINES, SIZE, 9)], None, "vocabulary of 9"),
        ({"overlap": 2.0}, ONE, None, "overlap = 2.0"),
        ({"largest": (0, 1)}, ONE, None, "largest = "),
        ({}, [], None, "X has no images"),
        ({}, [np.zeros((3, 4))], None, r"X\[0\] has shape \(3, 4\) and dtype float64"),
        ({}, [np.full((3, 4), 7)], None, r"X\[0\]\[0, 0\] = 7 is no word"),
        ({}, [*ONE, np.zeros((3, 4, 2), dtype=int)], None, r"X\[1\] has 2 words at each point"),
        ({"smallest": (4, 1)}, ONE, None, r"X\[0\] has 3 x 4 points and no box"),
        ({}, ONE, [(0, 0, 1, 1), None], "y has 2 boxes and X 1 images"),
        ({}, ONE, [None], r"y\[0\] is None: set none=True"),
        ({}, ONE, [(0, 0, 1)], r"y\[0\] = \(0, 0, 1\): give None, or left"),
        ({}, ONE, [(0.0, 0.0, 1.0, 1.0)], "as integers"),
        ({}, ONE, [(0, 0, 1, 4)], r"is no box of X\[0\], which has 3 x 4 points"),
        ({"none": True}, ONE, [(-1, -1, -1, -1)], "is no box"),
        ({"smallest": (2, 2)}, ONE, [(0, 0, 2, 1)], r"of a size from \(2, 2\) to any"),
    ],
)
def test_data_that_are_none_are_refused(settings, X, y, message):
    with pytest.raises(InvalidData, match=message):
        WordBoxes(**({"n_words": 2} | settings)).encode(X, y)
