"""Feature pyramids: cells are those of a slow reference, mirror images those of mirrored maps."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from taut.errors import InvalidData
from taut.vision.hog import HogPyramid
from taut.vision.pyramid import pyramid_of
from taut.vision.resizing import planes_of, resized

UNIT = 0.5 / 255
GRADIENTS, ALL = 31, 37


def noise(rng, height, width):
    return rng.integers(0, 256, (height, width, 3), dtype=np.uint8)


def smooth(rng, height, width):
    """An image of a few waves, whose gradients have all directions."""
    y, x = np.mgrid[:height, :width]
    waves = [
        np.sin(rng.normal() / 4 * x + rng.normal() / 4 * y + rng.uniform(0, 6)) for _ in range(3)
    ]
    return (127 + 100 * np.stack(waves, axis=2)).astype(np.uint8)


def directions_of(dx, dy):
    """Directions and their shares: the nearest of 18, or two where they are equally near."""
    angle = np.arctan2(dy, dx)
    distance = np.abs((angle - np.arange(18) * np.pi / 9 + np.pi) % (2 * np.pi) - np.pi)
    nearest = np.flatnonzero(distance < distance.min() + 1e-9)
    return nearest, 1 / len(nearest)


def slow_hog(image, cell):
    """Features of an image of whole cells, as real numbers, pixel by pixel."""
    height, width = image.shape[:2]
    rows, columns = height // cell, width // cell
    votes = np.zeros((rows + 2, columns + 2, 18))
    image = image.astype(float)
    for y in range(1, height - 1):
        for x in range(1, width - 1):
            dx = image[y, x + 1] - image[y, x - 1]
            dy = image[y + 1, x] - image[y - 1, x]
            c = np.argmax(dx**2 + dy**2)
            length = np.hypot(dx[c], dy[c])
            if length == 0:
                continue
            for k in range(-1, rows + 1):
                for m in range(-1, columns + 1):
                    near_y = 1 - abs((y + 0.5) / cell - (k + 0.5))
                    near_x = 1 - abs((x + 0.5) / cell - (m + 0.5))
                    if near_x > 0 and near_y > 0:
                        which, share = directions_of(dx[c], dy[c])
                        votes[k + 1, m + 1, which] += length * share * near_x * near_y
    votes = votes[1:-1, 1:-1]
    lines = votes[..., :9] + votes[..., 9:]
    energy = np.pad((lines**2).sum(axis=2), 1, mode="edge")
    out = np.zeros((rows, columns, ALL))
    for i in range(rows):
        for j in range(columns):
            for number, (down, right) in enumerate([(1, 1), (1, 0), (0, 1), (0, 0)]):
                block = energy[i + down : i + down + 2, j + right : j + right + 2].sum()
                contrast = 1 / np.sqrt(block + 1)
                clipped = np.minimum(votes[i, j] * contrast, 0.2)
                out[i, j, :18] += clipped / 2
                out[i, j, 18:27] += np.minimum(lines[i, j] * contrast, 0.2) / 2
                out[i, j, 27 + number] = 0.2357 * clipped.sum()
            part = image[i * cell : (i + 1) * cell, j * cell : (j + 1) * cell] / 255
            r, g, b = part.mean(axis=(0, 1))
            for k, value in enumerate([(r + g + b) / 3 - 0.5, r - g, (r + g) / 2 - b]):
                out[i, j, 31 + 2 * k] = max(value, 0)
                out[i, j, 32 + 2 * k] = max(-value, 0)
    return np.minimum(out, 0.5)


@pytest.mark.parametrize("cell", [2, 4, 5, 8])
@pytest.mark.parametrize("make", [noise, smooth])
def test_cells_are_those_of_a_slow_reference(rng, make, cell):
    image = make(rng, 3 * cell, 4 * cell)
    pyramid = HogPyramid(cell=cell, scales=[1.0]).extract(image)
    assert pyramid.shapes.tolist() == [[3, 4]]
    assert_allclose(pyramid.level(0) * pyramid.unit, slow_hog(image, cell), atol=0.51 * UNIT)


@pytest.mark.parametrize("make", [noise, smooth])
@pytest.mark.parametrize("width", [64, 61])
def test_the_map_of_the_mirror_image_is_the_mirrored_map(rng, make, width):
    image = make(rng, 50, width)
    features = HogPyramid(scales=[2.0, 1.0, 0.8, 0.5], margin=2)
    one, other = features.extract(image), features.extract(image[:, ::-1])
    turned = one.mirror_image()
    assert turned.cells is one.cells
    assert turned.mirrored
    assert not turned.mirror_image().mirrored
    for level in range(len(one.shapes)):
        difference = turned.level(level).astype(int) - other.level(level)
        # A pixel that is rounded the other way changes the direction of a gradient.
        assert np.quantile(np.abs(difference), 0.99) <= 2
        assert np.abs(difference).max() <= (1 if level == 1 and width == 64 else 12)
    assert_array_equal(one.mirror[one.mirror], np.arange(ALL))


@pytest.mark.parametrize("grey", [0, 127, 255])
def test_a_flat_image_has_no_gradients(grey):
    image = np.full((40, 48, 3), grey, dtype=np.uint8)
    pyramid = HogPyramid(scales=[1.7, 1.0, 0.6]).extract(image)
    assert not pyramid.cells[:, :GRADIENTS].any()
    light, dark, *others = pyramid.cells[:, GRADIENTS:].T * pyramid.unit
    assert_allclose(light, max(grey / 255 - 0.5, 0), atol=UNIT)
    assert_allclose(dark, max(0.5 - grey / 255, 0), atol=UNIT)
    assert not np.any(others)


def test_cells_lie_where_the_pyramid_says(rng):
    image = smooth(rng, 60, 90)
    pyramid = HogPyramid(scales=[1.3, 1.0, 0.5], margin=3, colour=False).extract(image)
    assert pyramid.cells.shape == (pyramid.shapes.prod(axis=1).sum(), GRADIENTS)
    assert pyramid.starts[-1] == len(pyramid.cells)
    assert pyramid.cells.dtype == np.uint8
    assert_array_equal(pyramid.size, [90, 60])
    for level, scale in enumerate([1.3, 1.0, 0.5]):
        rows, columns = pyramid.shapes[level] - 2 * pyramid.margin
        # The cells share out the image, and are about as large as the scale says.
        assert_allclose(pyramid.steps[level] * [columns, rows], [90, 60])
        assert_allclose([columns, rows], np.array([90, 60]) * scale / 8, atol=0.5)
        cells = pyramid.level(level)
        inside = cells[3:-3, 3:-3]
        assert inside.any()
        assert cells.sum(dtype=int) == inside.sum(dtype=int)


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_an_edge_is_found_where_it_is(scale):
    image = np.zeros((80, 80, 3), dtype=np.uint8)
    image[:, 50:] = 255
    pyramid = HogPyramid(scales=[scale], margin=1, colour=False).extract(image)
    votes = pyramid.level(0)[..., :18].sum(axis=(0, 2), dtype=int)
    found = (np.argmax(votes) - pyramid.margin + 0.5) * pyramid.steps[0, 0]
    assert abs(found - 50) <= pyramid.steps[0, 0]


def test_levels_are_those_of_scales_given_or_found(rng):
    image = noise(rng, 64, 96)
    found = HogPyramid(step=2.0, fewest=4).extract(image)
    assert found.shapes.tolist() == [[8, 12], [4, 6]]
    assert HogPyramid(step=2.0, largest=2.0, fewest=4).extract(image).shapes[0].tolist() == [16, 24]
    given = HogPyramid(scales=np.array([0.5, 1.0, 0.1]), fewest=4).extract(image)
    # In the order in which they are given, without those that are too small.
    assert given.shapes.tolist() == [[4, 6], [8, 12]]
    assert_array_equal(given.level(0), found.level(1))
    assert_array_equal(given.level(1), found.level(0))


def slow_resized(image, height, width):
    """Areas where it shrinks, straight lines where it grows, along one axis after the other."""
    down, across = shares(image.shape[0], height), shares(image.shape[1], width)
    return np.einsum("yi,ijc,xj->yxc", down, image.astype(float), across)


def shares(before, after):
    """What each pixel of the image gives to each one of the result."""
    ratio = before / after
    if ratio < 1:  # straight lines between the centres of pixels, level beyond the outermost
        places = (np.arange(after) + 0.5) * ratio - 0.5
        rows = [np.interp(places, np.arange(before), row) for row in np.eye(before)]
        return np.stack(rows, axis=1)
    left, right = np.arange(after)[:, None] * ratio, np.arange(1, after + 1)[:, None] * ratio
    pixels = np.arange(before)
    common = np.minimum(pixels + 1, right) - np.maximum(pixels, left)
    return np.clip(common, 0, None) / ratio


@pytest.mark.parametrize("size", [(10, 14), (20, 28), (7, 9), (5, 7), (3, 2), (1, 1), (31, 5)])
def test_resizing_is_that_of_a_slow_reference(rng, size):
    image = noise(rng, 10, 14)
    result = resized(planes_of(image), *size).transpose(1, 2, 0)
    # Rounded once after each axis.
    assert_allclose(result, slow_resized(image, *size), atol=1.01)


def test_resizing_keeps_flat_images(rng):
    image = np.full((13, 17, 3), 200, dtype=np.uint8)
    for height, width in [(40, 50), (5, 6), (1, 1), (13, 5)]:
        assert (resized(planes_of(image), height, width) == 200).all()


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({"cell": 1}, "cell = 1"),
        ({"cell": 8.0}, "cell = 8.0"),
        ({"margin": -1}, "margin = -1"),
        ({"step": 1.0}, "step = 1.0"),
        ({"step": float("nan")}, "step = nan"),
        ({"largest": 0.0}, "largest = 0.0"),
        ({"scales": []}, "scales"),
        ({"scales": [1.0, float("nan")]}, "scales"),
        ({"scales": [1.0, 0.0]}, "scales"),
        ({"scales": [[1.0]]}, "scales"),
        ({"colour": "yes"}, "colour"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, match):
    with pytest.raises(InvalidData, match=match):
        HogPyramid(**settings)


@pytest.mark.parametrize(
    ("image", "match"),
    [
        (np.zeros((40, 40, 3)), "type float64"),
        (np.zeros((40, 40), dtype=np.uint8), "shape"),
        (np.zeros((40, 40, 4), dtype=np.uint8), "shape"),
        (np.zeros((0, 40, 3), dtype=np.uint8), "shape"),
        (np.zeros((10, 40, 3), dtype=np.uint8), "fewer than 3 cells"),
    ],
)
def test_images_that_are_none_are_refused(image, match):
    with pytest.raises(InvalidData, match=match):
        HogPyramid().extract(image)


def test_enormous_scales_are_refused_before_memory_is_taken():
    with pytest.raises(InvalidData, match="smaller scales"):
        HogPyramid(scales=[1e200]).extract(np.zeros((40, 40, 3), dtype=np.uint8))


def test_scales_are_settings_that_can_be_compared():
    assert HogPyramid(scales=np.array([1.0, 0.5])) == HogPyramid(scales=[1, 0.5])
    assert hash(HogPyramid(scales=[1.0])) == hash(HogPyramid(scales=[1.0]))


def test_pyramids_of_own_maps(rng):
    maps = [rng.normal(size=(3, 4, 5)), rng.normal(size=(2, 2, 5))]
    order = [1, 0, 2, 4, 3]
    pyramid = pyramid_of(maps, [8, 16], (32, 24), margin=2, mirror=order)
    assert pyramid.cells.dtype == np.float32
    assert pyramid.unit == 1.0
    assert_array_equal(pyramid.steps, [[8, 8], [16, 16]])
    for level, values in enumerate(maps):
        cells = pyramid.level(level)
        assert_allclose(cells[2:-2, 2:-2], values, rtol=1e-6)
        assert np.count_nonzero(cells) == values.size
        turned = pyramid.mirror_image().level(level)
        assert_array_equal(turned, cells[:, ::-1][..., order])
    with pytest.raises(InvalidData, match="mirror"):
        pyramid_of(maps, [8, 16], (32, 24)).mirror_image()


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"maps": []}, "no level"),
        ({"maps": [np.ones((3, 4))]}, "shape"),
        ({"maps": [np.ones((3, 0, 2))]}, "shape"),
        ({"maps": [np.full((3, 4, 2), np.nan)]}, "NaN"),
        ({"maps": [np.full((3, 4, 2), 1e300)]}, "single precision"),
        ({"maps": [np.array([[["a"]]])]}, "numbers"),
        ({"maps": [np.ones((3, 4, 2)), np.ones((3, 4, 3))], "steps": [1, 2]}, "channels"),
        ({"steps": [8, 16]}, "steps"),
        ({"steps": [0.0]}, "steps"),
        ({"size": (3,)}, "size"),
        ({"size": (0, 3)}, "size"),
        ({"margin": -1}, "margin"),
        ({"mirror": [0, 0]}, "mirror"),
        ({"mirror": [1]}, "mirror"),
    ],
)
def test_own_maps_that_do_not_fit_are_refused(changes, match):
    given = {"maps": [np.ones((3, 4, 2))], "steps": [8], "size": (32, 24)} | changes
    with pytest.raises(InvalidData, match=match):
        pyramid_of(**given)
