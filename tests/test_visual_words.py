"""Dense descriptors and visual words: those of slow references, counted one by one."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from taut.errors import InvalidData
from taut.vision.descriptors import DenseDescriptors
from taut.vision.words import VisualWords, WordMap, histogram, histograms


def noise(rng, height=42, width=50):
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def slow_gradients(image, step):
    """Votes of each cell for 9 directions, where opposite ones are one, pixel by pixel."""
    rows, columns = image.shape[0] // step, image.shape[1] // step
    image = image[: rows * step, : columns * step].astype(float)
    cells = np.zeros((rows, columns, 9))
    for y in range(1, rows * step - 1):
        for x in range(1, columns * step - 1):
            dx, dy = image[y, x + 1] - image[y, x - 1], image[y + 1, x] - image[y - 1, x]
            c = np.argmax(dx**2 + dy**2)
            if dx[c] == dy[c] == 0:
                continue
            turn = np.abs(np.arctan2(dy[c], dx[c]) - np.arange(9) * np.pi / 9) % np.pi
            distance = np.minimum(turn, np.pi - turn)
            nearest = distance < distance.min() + 1e-9
            for i in range(rows):
                for j in range(columns):
                    near = np.clip(1 - abs((y + 0.5) / step - i - 0.5), 0, None)
                    near *= np.clip(1 - abs((x + 0.5) / step - j - 0.5), 0, None)
                    cells[i, j, nearest] += np.hypot(dx[c], dy[c]) * near / nearest.sum()
    return cells


@pytest.mark.parametrize(("step", "patch"), [(4, 8), (3, 9), (5, 5)])
def test_gradients_of_patches_are_those_of_a_slow_reference(rng, step, patch):
    image = noise(rng, 21, 26)
    found = DenseDescriptors(step=step, patch=patch).extract(image)
    cells = slow_gradients(image, step)
    side = patch // step
    assert found.values.shape[:2] == (21 // step - side + 1, 26 // step - side + 1)
    for i, row in enumerate(found.values):
        for j, descriptor in enumerate(row):
            expected = cells[i : i + side, j : j + side].ravel()
            expected = np.minimum(expected / np.linalg.norm(expected), 0.2)
            assert_allclose(descriptor, expected / np.linalg.norm(expected), atol=1e-5)


def test_colours_of_patches_are_means(rng):
    image = noise(rng)
    found = DenseDescriptors(step=4, patch=8, kind="colour").extract(image)
    assert_array_equal(found.size, [50, 42])
    for i, y in enumerate(found.y):
        for j, x in enumerate(found.x):
            part = image[int(y) - 4 : int(y) + 4, int(x) - 4 : int(x) + 4] / 255
            expected = [
                part[p : p + 4, q : q + 4].mean(axis=(0, 1)) for p in (0, 4) for q in (0, 4)
            ]
            assert_allclose(found.values[i, j], np.ravel(expected), atol=1e-6)


def test_flat_patches_have_no_gradients():
    found = DenseDescriptors().extract(np.full((20, 20, 3), 9, dtype=np.uint8))
    assert not found.values.any()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"step": 1}, "step = 1"),
        ({"step": 4, "patch": 10}, "multiple"),
        ({"step": 4, "patch": 2}, "patch = 2"),
        ({"kind": "sift"}, "kind = 'sift'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, match):
    with pytest.raises(InvalidData, match=match):
        DenseDescriptors(**settings)


def test_images_smaller_than_a_patch_are_refused():
    with pytest.raises(InvalidData, match="smaller than a patch"):
        DenseDescriptors(patch=16).extract(np.zeros((12, 40, 3), dtype=np.uint8))


def test_words_are_the_nearest_centres(rng):
    images = [noise(rng) for _ in range(3)]
    grid = DenseDescriptors(step=5, patch=10)
    vocabulary = VisualWords(n_words=7, descriptors=grid, random_state=3).fit(images)
    assert vocabulary.centres_.shape == (7, grid.n_features)
    described = grid.extract(images[1])
    found = vocabulary.transform(images[1])
    assert found.n_words == 7
    assert found.words.dtype == np.int32
    assert_array_equal(found.x, described.x)
    assert_array_equal(found.y, described.y)
    differences = described.values[:, :, None, :].astype(float) - vocabulary.centres_
    distances = (differences**2).sum(axis=3)
    chosen = np.take_along_axis(distances, found.words[..., None], axis=2)[..., 0]
    assert_allclose(chosen, distances.min(axis=2), rtol=1e-5)


def test_the_same_seed_gives_the_same_words(rng):
    images = [noise(rng) for _ in range(2)]
    one, other = (VisualWords(5, per_image=50, random_state=1).fit(images) for _ in range(2))
    assert_array_equal(one.centres_, other.centres_)


def test_images_may_be_files_folders_and_grey(tmp_path):
    pytest.importorskip("PIL")
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (16, 20, 1), dtype=np.uint8).repeat(3, axis=2) for _ in range(2)]
    paths = [tmp_path / f"{k}.ppm" for k in range(2)]
    for path, image in zip(paths, images, strict=True):
        path.write_bytes(b"P6 20 16 255 " + image.tobytes())
    known = VisualWords(n_words=3).fit(images)
    for given in (tmp_path, str(tmp_path), paths, [image[:, :, 0] for image in images]):
        np.testing.assert_array_equal(VisualWords(n_words=3).fit(given).centres_, known.centres_)
    for given in (paths[1], images[1][:, :, 0]):
        found, wanted = known.transform(given).words, known.transform(images[1]).words
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(InvalidData, match="give a list of images"):
        VisualWords(n_words=3).fit(images[0])


def test_more_words_than_descriptors_are_refused():
    flat = np.zeros((20, 20, 3), dtype=np.uint8)
    with pytest.raises(InvalidData, match="1 different descriptors"):
        VisualWords(n_words=2).fit([flat])
    with pytest.raises(InvalidData, match="0 images"):
        VisualWords(n_words=2).fit([])
    with pytest.raises(InvalidData, match="call fit first"):
        VisualWords(n_words=2).transform(flat)


def random_map(rng, n_words=6):
    words = rng.integers(0, n_words, (11, 14)).astype(np.int32)
    x, y = np.arange(14) * 4 + 4.0, np.arange(11) * 4 + 4.0
    return WordMap(words, x, y, np.array([60.0, 48.0]), n_words)


def random_boxes(rng, n):
    edges = np.round(rng.uniform(-5, 65, (n, 2, 2)), rng.integers(0, 2))
    edges.sort(axis=1)
    return edges.reshape(n, 4)


def slow_histogram(word_map, box, levels):
    """Counts cell by cell, each found by cutting the box again and again."""

    def halves(low, high):
        middle = max(low, np.floor((low + high) / 2))
        return [(low, middle), (middle, high)]

    across, down = [(box[0], box[2])], [(box[1], box[3])]
    counts = []
    for level in range(levels):
        if level:
            across = [half for part in across for half in halves(*part)]
            down = [half for part in down for half in halves(*part)]
        for top, bottom in down:
            for left, right in across:
                cell = np.zeros(word_map.n_words)
                for i, y in enumerate(word_map.y):
                    for j, x in enumerate(word_map.x):
                        if left <= x < right and top <= y < bottom:
                            cell[word_map.words[i, j]] += 1
                counts.append(cell)
    return np.array(counts)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_histograms_are_counts(rng, levels):
    word_map = random_map(rng)
    boxes = np.concatenate([random_boxes(rng, 12), [[0, 0, 60, 48], [8, 8, 8, 20]]])
    found = histograms(word_map, boxes, levels)
    for start, stop in zip(found.indptr[:-1], found.indptr[1:]):
        assert (np.diff(found.indices[start:stop]) > 0).all()
    assert (found.data > 0).all()
    for row, box in zip(found.toarray(), boxes):
        expected = slow_histogram(word_map, box, levels)
        assert_array_equal(row.reshape(expected.shape), expected)
        assert_array_equal(histogram(word_map, box, levels), expected)


def test_cells_share_out_the_points_of_a_box(rng):
    word_map = random_map(rng)
    for box in random_boxes(rng, 20):
        counts = histogram(word_map, box, 3)
        assert_array_equal(counts[1:5].sum(axis=0), counts[0])
        assert_array_equal(counts[5:].sum(axis=0), counts[0])


@pytest.mark.parametrize(("normalise", "order"), [("l1", 1), ("l2", 2)])
def test_histograms_are_normalised_unless_they_are_empty(rng, normalise, order):
    word_map = random_map(rng)
    boxes = [[0, 0, 30, 30], [100, 100, 120, 120], [8, 0, 60, 40]]
    plain = histograms(word_map, boxes, 2).toarray()
    found = histograms(word_map, boxes, 2, normalise).toarray()
    lengths = np.linalg.norm(plain, ord=order, axis=1)
    assert_allclose(np.linalg.norm(found, ord=order, axis=1), [1, 0, 1])
    assert_allclose(found * lengths[:, None], plain, atol=1e-12)


def test_no_boxes_have_no_histograms(rng):
    assert histograms(random_map(rng), np.empty((0, 4)), 2).shape == (0, 30)


@pytest.mark.parametrize(
    ("boxes", "options", "match"),
    [
        ([[0, 0, 1]], {}, "shape"),
        ([0, 0, 1, 1], {}, "shape"),
        ([[0, 0, 1, np.nan]], {}, "box 0"),
        ([[0, 0, 1, 1], [5, 0, 1, 1]], {}, "box 1"),
        ([[0, 0, 1, 1]], {"levels": 0}, "levels"),
        ([[0, 0, 1, 1]], {"levels": 7}, "levels"),
        ([[0, 0, 1, 1]], {"normalise": "l3"}, "normalise"),
    ],
)
def test_boxes_that_are_none_are_refused(rng, boxes, options, match):
    with pytest.raises(InvalidData, match=match):
        histograms(random_map(rng), boxes, **options)


def test_word_maps_that_lie_are_refused(rng):
    good = random_map(rng)
    for bad in (
        good._replace(words=good.words + 1),
        good._replace(words=good.words - 1),
        good._replace(words=good.words[1:]),
    ):
        with pytest.raises(InvalidData, match="word_map"):
            histograms(bad, [[0, 0, 60, 48]])
