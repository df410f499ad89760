"""Branch and bound over boxes of visual words, against the enumeration of all boxes."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from taut.errors import InvalidData
from taut.inference.box_scores import WordImage
from taut.inference.box_search import best_boxes
from taut.vision import words as vision

N_CELLS = {1: 1, 2: 5, 3: 21}
CLOSE = 1e-10


def all_boxes(n_rows, n_columns, smallest=(1, 1), largest=(99, 99)):
    """All boxes of allowed sizes as rows of top, left, bottom, right."""
    boxes = [
        (top, left, bottom, right)
        for top, bottom in itertools.combinations(range(n_rows + 1), 2)
        for left, right in itertools.combinations(range(n_columns + 1), 2)
        if smallest[0] <= bottom - top <= largest[0] and smallest[1] <= right - left <= largest[1]
    ]
    return np.array(boxes, dtype=int).reshape(-1, 4)


def halves(first, last, levels):
    """The lines of the finest cells: the nearest ones, the earlier of two."""
    n = 2 ** (levels - 1)
    return [math.ceil(first + k * (last - first) / n - 0.5) for k in range(n + 1)]


def histograms(words, boxes, n_words, levels, normalise):
    """phi of all boxes, one row each: cells of the whole, of its quarters, of sixteenths."""
    words = words.reshape(*words.shape[:2], -1)
    one_hot = (words[..., None] == np.arange(n_words)).sum(axis=2)
    sums = np.pad(one_hot.cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0), (0, 0)))
    n_lines = 2 ** (levels - 1) + 1
    rows = np.array([halves(top, bottom, levels) for top, _, bottom, _ in boxes], dtype=int)
    columns = np.array([halves(left, right, levels) for _, left, _, right in boxes], dtype=int)
    rows, columns = (lines.reshape(len(boxes), n_lines) for lines in (rows, columns))
    cells = []
    for level in range(levels):
        step = 2 ** (levels - 1 - level)
        for a, b in itertools.product(range(2**level), repeat=2):
            top, bottom = rows[:, a * step], rows[:, (a + 1) * step]
            left, right = columns[:, b * step], columns[:, (b + 1) * step]
            cells.append(
                sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
            )
    phi = np.concatenate(cells, axis=1).astype(float)
    if normalise:
        norms = np.linalg.norm(phi, axis=1)
        phi /= np.where(norms > 0.0, norms, 1.0)[:, None]
    return phi


def overlaps(boxes, box):
    """Intersection over union with one box, counted in points."""
    common = np.array(
        [
            max(min(b[2], box[2]) - max(b[0], box[0]), 0)
            * max(min(b[3], box[3]) - max(b[1], box[1]), 0)
            for b in boxes
        ]
    )
    sizes = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return common / (sizes + (box[2] - box[0]) * (box[3] - box[1]) - common)


NONE = np.full((1, 4), -1)


class Drawn:
    """An image, weights and a goal, and what each candidate is worth by enumeration."""

    def __init__(self, seed, levels, normalise, none, with_loss, residual, whole, kinds, table):
        rng = np.random.default_rng(seed)
        shape = tuple(rng.integers(1, 6, size=2))
        n_words = int(rng.integers(1, 5))
        lowest = -1 if rng.random() < 0.3 else 0
        words = rng.integers(lowest, n_words, size=(*shape, kinds))
        smallest = tuple(int(rng.integers(1, n + 1)) for n in shape) if rng.random() < 0.4 else None
        largest = None
        if rng.random() < 0.3:
            largest = tuple(int(rng.integers(n, 6)) for n in smallest or (1, 1))
        self.image = WordImage.of(
            words, n_words, levels, normalise, smallest or (1, 1), largest, table
        )
        self.boxes = all_boxes(*shape, smallest or (1, 1), largest or (99, 99))
        size = (N_CELLS[levels], n_words)

        def weights():
            return rng.integers(-2, 3, size=size) + 0.0 if whole else rng.normal(size=size)

        self.weights = weights() + rng.choice([-1.0, -0.3, 0.0, 0.3])
        everything = all_boxes(*shape)
        box = None
        if rng.random() < 0.8:
            box = everything[rng.integers(len(everything))]
        self.goal = {"none": none}
        phi = histograms(words, self.boxes, n_words, levels, normalise)
        self.values = phi @ self.weights.ravel()
        nothing = 0.0
        if with_loss:
            weight = float(rng.choice([0.5, 1.0, 7.0]))
            self.goal |= {"truth": box, "loss_weight": weight}
            losses = np.ones(len(self.boxes)) if box is None else 1 - overlaps(self.boxes, box)
            loss_of_none = 0.0 if box is None else 1.0
            if residual:
                other, bounds = weights(), (0.0, float(rng.choice([0.5, 1.0])))
                self.goal |= {"residual": other, "bounds": bounds}
                own = np.zeros(phi.shape[1])
                if box is not None:
                    own = histograms(words, box[None], n_words, levels, normalise)[0]
                base = own @ other.ravel()
                losses = np.clip(losses + phi @ other.ravel() - base, *bounds)
                loss_of_none = np.clip(loss_of_none - base, *bounds)
                self.values = self.values - own @ self.weights.ravel()
                nothing = -own @ self.weights.ravel()
            self.values = self.values + weight * losses
            nothing += weight * loss_of_none
        if none:
            self.boxes = np.vstack([self.boxes, NONE])
            self.values = np.append(self.values, nothing)

    def value_of(self, box):
        where = np.flatnonzero((self.boxes == box).all(axis=1))
        assert len(where) == 1, f"{box} is no candidate"
        return self.values[where[0]]


drawn = st.builds(
    Drawn,
    seed=st.integers(0, 2**32 - 1),
    levels=st.sampled_from([1, 2, 3]),
    normalise=st.booleans(),
    none=st.booleans(),
    with_loss=st.booleans(),
    residual=st.booleans(),
    whole=st.booleans(),
    kinds=st.sampled_from([1, 1, 2]),
    table=st.sampled_from([1, 40, 1 << 20]),
)


@settings(max_examples=2000, deadline=None)
@given(drawn)
def test_the_best_box_is_that_of_enumeration(case):
    if len(case.boxes) == 0:
        return
    found = best_boxes(case.image, case.weights, **case.goal)
    assert found.values[0] == pytest.approx(case.values.max(), rel=CLOSE, abs=CLOSE)
    assert case.value_of(found.boxes[0]) == pytest.approx(found.values[0], rel=CLOSE, abs=CLOSE)
    assert found.error == 0.0
    assert case.image.n_boxes + case.goal["none"] == len(case.boxes)


@settings(max_examples=400, deadline=None)
@given(drawn, st.integers(1, 12), st.sampled_from([0.0, 0.3, 0.7, 1.0]))
def test_several_boxes_are_those_of_greedy_suppression(case, count, overlap):
    """Each is the best of those that overlap none before it too much; ties may go either way."""
    if len(case.boxes) == 0:
        return
    found = best_boxes(case.image, case.weights, count=count, overlap=overlap, **case.goal)
    left = np.ones(len(case.boxes), dtype=bool)
    for box, value in zip(found.boxes, found.values, strict=True):
        assert left.any()
        assert value == pytest.approx(case.values[left].max(), rel=CLOSE, abs=CLOSE)
        same = (case.boxes == box).all(axis=1)
        assert left[same].all()
        assert case.value_of(box) == pytest.approx(value, rel=CLOSE, abs=CLOSE)
        left &= ~same
        is_box = case.boxes[:, 0] >= 0
        if box[0] >= 0:
            left[is_box] &= overlaps(case.boxes[is_box], box) <= overlap
    assert len(found.boxes) == count or not left.any()


@settings(max_examples=400, deadline=None)
@given(drawn, st.integers(1, 30))
def test_a_search_that_is_cut_short_says_how_far_the_best_may_be(case, most):
    if len(case.boxes) == 0:
        return
    found = best_boxes(case.image, case.weights, most=most, **case.goal)
    best, value = case.values.max(), found.values[0]
    assert case.value_of(found.boxes[0]) == pytest.approx(value, rel=CLOSE, abs=CLOSE)
    assert value <= best + CLOSE * (1.0 + abs(best))
    assert best <= value + found.error + CLOSE * (1.0 + abs(best))
    assert found.n_sets <= most + 1


def test_a_queue_that_grows_keeps_its_sets():
    """Without weights that tell boxes apart, many sets wait at the same time."""
    words = np.arange(900).reshape(30, 30)
    image = WordImage.of(words, 900, normalise=True)
    w = np.random.default_rng(0).normal(size=(1, 900))
    found = best_boxes(image, w)
    boxes = all_boxes(30, 30)
    sums = np.pad(w.reshape(30, 30).cumsum(axis=0).cumsum(axis=1), ((1, 0), (1, 0)))
    top, left, bottom, right = boxes.T
    totals = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
    values = totals / np.sqrt((bottom - top) * (right - left))
    assert found.values[0] == pytest.approx(values.max(), rel=CLOSE)
    assert 512 < found.n_sets < len(boxes)


def test_few_sets_are_looked_at_where_one_box_stands_out():
    words = np.zeros((40, 50), dtype=int)
    words[10:20, 15:40] = 1
    found = best_boxes(WordImage.of(words, 2), [[-1.0, 1.0]])
    assert found.boxes.tolist() == [[10, 15, 20, 40]]
    assert found.n_sets < 1e-3 * all_boxes(40, 50).shape[0]


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_cells_are_those_of_boxes_in_pixels(levels):
    """Lines of the grid lie midway between points."""
    rng = np.random.default_rng(0)
    words = rng.integers(3, size=(7, 9)).astype(np.int32)
    x, y = 4.0 * np.arange(9) + 2.0, 4.0 * np.arange(7) + 2.0
    boxes = all_boxes(7, 9)
    pixels = vision.histograms(
        vision.WordMap(words, x, y, np.array([36.0, 28.0]), 3), 4.0 * boxes[:, [1, 0, 3, 2]], levels
    )
    assert_array_equal(pixels.toarray(), histograms(words, boxes, 3, levels, False))


def test_boxes_without_words_score_nothing():
    image = WordImage.of([[-1, 0, -1]], 1, levels=2, normalise=True)
    found = best_boxes(image, -np.ones((5, 1)), count=6, overlap=1.0)
    assert found.values.tolist()[:2] == [0.0, 0.0]
    assert sorted(found.boxes.tolist()[:2]) == [[0, 0, 1, 1], [0, 2, 1, 3]]
    assert len(found.boxes) == 6


IMAGE = WordImage.of(np.zeros((2, 3), dtype=int), 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": [[0.5]]}, "words has shape .* and dtype float64"),
        ({"words": [0, 1]}, "words has shape"),
        ({"words": np.zeros((0, 3), dtype=int)}, "words has shape"),
        ({"words": [[0, 2]]}, r"words\[0, 1, 0\]|words\[0, 1\] = 2 is no word of 0..1"),
        ({"words": [[-2, 1]]}, "is no word"),
        ({"words": np.zeros((300, 300), dtype=int)}, "has 90000 words: at most 65535"),
        ({"n_words": 0}, "n_words = 0"),
        ({"levels": 4}, "levels = 4: give 1, 2 or 3"),
        ({"smallest": (0, 1)}, "smallest = "),
        ({"smallest": (3, 3), "largest": (2, 5)}, "no box is as large as the one"),
        ({"normalise": True, "table": 0}, "table = 0"),
    ],
)
def test_images_that_are_none_are_refused(arguments, message):
    with pytest.raises(InvalidData, match=message):
        WordImage.of(**({"words": [[0, 1]], "n_words": 2} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": np.zeros((2, 1))}, r"weights has shape \(2, 1\)"),
        ({"weights": [[np.nan]]}, "give finite numbers"),
        ({"residual": np.zeros((5, 1))}, "residual has shape"),
        ({"truth": (0, 0, 3, 1)}, "is no box of a grid of 2 x 3 points"),
        ({"truth": (1, 1, 1, 2)}, "is no box"),
        ({"loss_weight": -1.0}, "loss_weight = -1.0"),
        ({"overlap": float("inf")}, "overlap = inf"),
        ({"count": 0}, "count = 0"),
        ({"most": 0}, "most = 0"),
        ({"bounds": (1.0, 0.0)}, "give the lower one first"),
        ({"image": WordImage.of([[0]], 1, smallest=(2, 2))}, "has no box of an allowed size"),
    ],
)
def test_goals_that_are_none_are_refused(arguments, message):
    with pytest.raises(InvalidData, match=message):
        best_boxes(**({"image": IMAGE, "weights": [[1.0]]} | arguments))
