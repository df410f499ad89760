"""Images are read as they are shown, whatever stores them; others are refused by name."""

import doctest
import io
import re
import sys
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from taut.errors import InvalidData, InvalidType
from taut.vision.annotations import as_boxes, read_boxes
from taut.vision.images import (
    boxes_of_mask,
    image_size,
    list_images,
    mirrored,
    read_image,
    resize,
    shrink,
)

PIL = pytest.importorskip("PIL", reason="Pillow reads images")
from PIL import Image, ImageOps  # noqa: E402

ORIENTATION = 0x0112


@pytest.fixture
def photo(rng):
    """Smooth colours, 24 x 16 pixels."""
    coarse = rng.integers(0, 256, size=(4, 6, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((24, 16), Image.Resampling.BILINEAR))


def stored(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def test_the_example_that_needs_pillow():
    """It is skipped where Pillow may be missing, and is right where it is there."""
    text = re.sub(r" *# doctest: \+SKIP", "", read_boxes.__doc__)
    test = doctest.DocTestParser().get_doctest(text, {}, "read_boxes", None, None)
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


# What is read


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_the_orientation_is_applied(orientation, kind, photo, tmp_path):
    path = tmp_path / f"photo.{kind.lower()}"
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    Image.fromarray(photo).save(path, exif=exif)
    with Image.open(path) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    image = read_image(path)
    assert_array_equal(image, expected)
    assert image_size(path) == (image.shape[1], image.shape[0])
    assert image.flags.c_contiguous
    assert image_size(path) == ((24, 16) if orientation < 5 else (16, 24))


def test_damaged_exif_is_no_orientation(photo, tmp_path):
    path = tmp_path / "photo.jpg"
    Image.fromarray(photo).save(path, exif=b"Exif\0\0II*\0\xff\xff")
    assert image_size(path) == (24, 16)
    assert read_image(path).shape == (16, 24, 3)


def test_the_size_needs_the_header_alone(photo, tmp_path):
    path = tmp_path / "photo.png"
    path.write_bytes(stored(Image.fromarray(photo), "PNG")[:60])
    assert image_size(path) == (24, 16)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGB"])
def test_opaque_modes(mode, photo, tmp_path):
    path = tmp_path / "photo.png"
    image = Image.fromarray(photo).convert(mode)
    image.save(path)
    assert_array_equal(read_image(path), np.asarray(image.convert("RGB")))
    assert_array_equal(read_image(image), read_image(path))
    assert image_size(image) == (24, 16)


def test_cmyk(photo, tmp_path):
    path = tmp_path / "photo.tif"
    Image.fromarray(photo).convert("CMYK").save(path)
    assert np.abs(read_image(path).astype(int) - photo).max() <= 1


def test_transparent_parts_are_white(photo, tmp_path):
    opacity = np.tile(np.array([0, 100, 255], dtype=np.uint8), (16, 8))
    path = tmp_path / "photo.png"
    image = Image.fromarray(np.dstack([photo, opacity]))
    image.save(path)
    share = opacity[:, :, None] / 255.0
    expected = share * photo + (1.0 - share) * 255.0
    for source in (path, np.asarray(image)):
        assert np.abs(read_image(source) - expected).max() <= 0.51
    grey = Image.fromarray(photo[:, :, 0])
    grey.putalpha(Image.fromarray(opacity))
    grey.save(path)
    for source in (path, np.asarray(grey)):
        assert np.abs(read_image(source)[:, :, 0] - expected[:, :, 0]).max() <= 0.51


def test_a_transparent_colour_of_a_palette(tmp_path):
    image = Image.fromarray(np.array([[0, 1]], dtype=np.uint8)).convert("P")
    image.putpalette([10, 20, 30, 40, 50, 60])
    for kind in ("png", "gif"):
        path = tmp_path / f"photo.{kind}"
        image.save(path, transparency=0)
        assert read_image(path).tolist() == [[[255, 255, 255], [40, 50, 60]]]


@pytest.mark.parametrize("kind", ["png", "tif", "big-endian.tif", "pgm"])
def test_sixteen_bits(kind, tmp_path):
    values = np.array([[0, 128, 129, 257, 32896, 65535]], dtype=np.uint16)
    path = tmp_path / f"photo.{kind}"
    if kind.startswith("big"):
        Image.frombytes("I;16B", (6, 1), values.astype(">u2").tobytes()).save(path)
    else:
        Image.fromarray(values).save(path)
    for source in (path, values, values.astype(">u2")):
        assert read_image(source)[0].tolist() == [[v] * 3 for v in (0, 0, 1, 1, 128, 255)]


def test_numbers_of_32_bits(tmp_path):
    path = tmp_path / "photo.tif"
    Image.fromarray(np.array([[0.0, 0.2, 1.0]], dtype=np.float32)).save(path)
    assert read_image(path)[0, :, 0].tolist() == [0, 51, 255]
    Image.fromarray(np.array([[0, 70000]], dtype=np.int32)).save(path)
    with pytest.raises(InvalidData, match=r"photo.tif has numbers from 0 to 70000"):
        read_image(path)


@pytest.mark.parametrize(
    ("pixels", "expected"),
    [
        (np.array([[0.0, 0.2, 1.0]]), [0, 51, 255]),
        (np.array([[0.0, 0.2, 1.0]], dtype=np.float16), [0, 51, 255]),
        (np.array([[False, True]]), [0, 255]),
        (np.array([[[3], [4]]]), [3, 4]),
        ([[3, 4]], [3, 4]),
    ],
)
def test_arrays(pixels, expected):
    image = read_image(pixels)
    assert image.dtype == np.uint8
    assert image.tolist() == [[[v] * 3 for v in expected]]


def test_bytes_in_sixteen_bits_are_warned_of():
    pixels = np.array([[0, 200]], dtype=np.uint16)
    with pytest.warns(UserWarning, match="none is above 200: if these are bytes"):
        read_image(pixels)
    assert read_image(0 * pixels).max() == 0
    assert read_image(pixels.astype(np.int64)).max() == 200


def test_an_image_is_returned_as_it_is(photo):
    assert read_image(photo) is photo


@pytest.mark.parametrize(
    ("pixels", "error", "message"),
    [
        (np.zeros((3, 20, 30)), InvalidData, r"pictures\[2\] has shape .* transpose"),
        (np.zeros(5), InvalidData, "shape"),
        (np.zeros((0, 4), dtype=np.uint8), InvalidData, "no pixels"),
        (np.array([[0.0, np.nan]]), InvalidData, "from nan to nan"),
        (np.array([[0.0, 200.0]]), InvalidData, "fractions from 0 to 1"),
        (np.array([[-1, 3]]), InvalidData, "from -1 to 3"),
        (np.array([[1j]]), InvalidType, "complex"),
        (b"bytes", InvalidType, "bytes"),
        (None, InvalidType, "NoneType"),
        ([[1], [1, 2]], InvalidType, "no array"),
        (np.ma.masked_array(np.ones((2, 2)), mask=[[0, 1], [0, 0]]), InvalidData, "masked"),
    ],
)
def test_arrays_that_are_no_images(pixels, error, message):
    with pytest.raises(error, match=message):
        read_image(pixels, name="pictures[2]")


# What is damaged


@pytest.mark.parametrize("options", [{}, {"progressive": True}], ids=["baseline", "progressive"])
def test_a_truncated_jpeg(options, photo, tmp_path):
    large = Image.fromarray(photo).resize((240, 160), Image.Resampling.BICUBIC)
    whole = stored(large, "JPEG", **options)
    path = tmp_path / "photo.jpg"
    path.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.warns(UserWarning, match=r"photo\.jpg is damaged .* truncated"):
        image = read_image(path)
    assert image.shape == (160, 240, 3)
    assert np.abs(image[:40].astype(int) - np.asarray(large)[:40]).mean() < 12.0
    path.write_bytes(whole[:200])
    with pytest.raises(InvalidData, match=r"photo\.jpg"):
        read_image(path)


def test_a_truncated_png(photo, tmp_path):
    large = np.tile(photo, (20, 20, 1))
    whole = stored(Image.fromarray(large), "PNG", compress_level=0)
    path = tmp_path / "photo.png"
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.warns(UserWarning, match=r"photo\.png is damaged"):
        image = read_image(path)
    n_rows = int(np.argmin(image.any(axis=(1, 2))))
    assert 0.4 < n_rows / len(large) < 0.5
    assert_array_equal(image[: n_rows - 1], large[: n_rows - 1])
    path.write_bytes(whole[:60])
    with pytest.raises(InvalidData, match=r"photo\.png cannot be read"):
        read_image(path)


def test_a_truncated_tiff_is_turned(photo, tmp_path):
    large = np.tile(photo, (8, 10, 1))
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    path = tmp_path / "photo.tif"
    whole = stored(Image.fromarray(large), "TIFF", exif=exif)
    path.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.warns(UserWarning, match=r"photo\.tif is damaged"):
        image = read_image(path)
    assert image.shape == (240, 128, 3)
    assert image_size(path) == (128, 240)
    assert_array_equal(image[:, 100:], np.rot90(large, -1)[:, 100:])


@pytest.mark.parametrize("function", [read_image, image_size])
def test_files_that_are_no_images(function, tmp_path):
    path = tmp_path / "photo.jpg"
    for missing in (path, tmp_path, "a\0b"):
        with pytest.raises(InvalidData, match="is not there"):
            function(missing)
    path.write_bytes(b"")
    with pytest.raises(InvalidData, match=r"photo\.jpg is empty"):
        function(path)
    path.write_text("no image")
    with pytest.raises(InvalidData, match=r"photo\.jpg is no image"):
        function(path)
    path.write_bytes(b"P6 0 5 255 ")
    with pytest.raises(InvalidData, match=r"photo\.jpg"):
        function(path)


@pytest.mark.parametrize("action", ["error", "ignore"])
@pytest.mark.parametrize("limit", [200, 150])
def test_too_many_pixels(limit, action, photo, tmp_path, monkeypatch):
    """Up to twice the limit Pillow only warns."""
    path = tmp_path / "photo.png"
    Image.fromarray(photo).save(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with warnings.catch_warnings():
        warnings.simplefilter(action)
        with pytest.raises(InvalidData, match=r"photo\.png has more pixels"):
            image_size(path)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    assert image_size(path) == (24, 16)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    kind=st.sampled_from(["JPEG", "PNG", "GIF", "BMP", "TIFF", "PPM"]),
    where=st.floats(0.0, 1.0, exclude_max=True),
    written=st.binary(max_size=20),
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_damage_raises_nothing_else(kind, where, written, tmp_path):
    values = np.arange(768, dtype=np.uint16).astype(np.uint8).reshape(32, 8, 3)
    exif = Image.Exif()
    exif[ORIENTATION] = 6
    options = {"exif": exif} if kind in ("JPEG", "PNG", "TIFF") else {}
    good = stored(Image.fromarray(values), kind, **options)
    place = int(where * len(good))
    path = tmp_path / "photo"
    path.write_bytes(good[:place] + written + good[place + len(written) :])
    try:
        image = read_image(path)
    except InvalidData:
        return
    assert image.shape[:2][::-1] == image_size(path)


def test_without_pillow(photo, tmp_path, monkeypatch):
    path = tmp_path / "photo.png"
    Image.fromarray(photo).save(path)
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ImportError, match=r"pip install 'taut\[vision\]'"):
        read_image(path)
    assert read_image(photo) is photo


# What is made of images


def test_lists_are_sorted_and_hold_images_alone(tmp_path):
    for name in ("b.JPG", "a.png", "c.txt", ".a.png", "A.tiff"):
        (tmp_path / name).touch()
    (tmp_path / "folder.png").mkdir()
    assert [path.name for path in list_images(tmp_path)] == ["A.tiff", "a.png", "b.JPG"]
    for wrong in (tmp_path / "a.png", tmp_path / "none", 3):
        with pytest.raises(InvalidData, match="not a folder"):
            list_images(wrong)


def test_resizing_averages(rng):
    image = rng.integers(0, 256, size=(16, 24, 3), dtype=np.uint8)
    means = image.reshape(8, 2, 8, 3, 3).mean(axis=(1, 3))
    assert np.abs(resize(image, 8, 8) - means).max() <= 1.01  # rounded once in each direction
    assert resize(image, 24, 16) is image
    assert resize(image[:, ::-1], 100, 3).shape == (3, 100, 3)
    assert resize(np.full((100, 80, 3), 7, dtype=np.uint8), 3, 4).tolist() == [[[7] * 3] * 3] * 4
    for width, height in ((0, 3), (3, -1), (2.5, 3)):
        with pytest.raises(InvalidData, match="whole number of pixels"):
            resize(image, width, height)
    with pytest.raises(InvalidData, match="shape"):
        resize(image[:, :, 0], 3, 3)


@pytest.mark.parametrize(("height", "width"), [(33, 100), (100, 33), (1, 300), (20, 30)])
def test_boxes_shrink_with_their_image(height, width):
    """A box of black pixels on white is found again where the box has gone."""
    image = np.full((height, width, 3), 255, dtype=np.uint8)
    edges = np.array([[width // 4, height // 4, width // 2 + 1, height // 2 + 1]])
    left, top, right, bottom = edges[0]
    image[top:bottom, left:right] = 0
    whole = [0, 0, width, height]
    boxes = as_boxes([[*edges.tolist(), whole]], 1)[0]
    small, moved, factor = shrink(image, boxes, 50)
    assert max(small.shape) == min(50, max(height, width))
    assert factor == min(1.0, 50 / max(height, width))
    assert_array_equal(moved.edges[1], [0, 0, small.shape[1], small.shape[0]])
    assert_array_equal(moved.classes, boxes.classes)
    found = boxes_of_mask(small.max(axis=2) < 128)
    if height > 1:
        assert np.abs(found.edges[0] - moved.edges[0]).max() <= 1.0
    with pytest.raises(InvalidData, match="longest = 0"):
        shrink(image, boxes, 0)


def test_boxes_are_mirrored_with_their_image(rng):
    mask = np.zeros((20, 30), dtype=bool)
    mask[4:9, 2:13] = True
    image = np.repeat(mask[:, :, None], 3, axis=2).astype(np.uint8)
    other, boxes = mirrored(image, boxes_of_mask(mask, "cat"))
    assert_array_equal(boxes.edges, boxes_of_mask(other[:, :, 0] > 0).edges)
    assert boxes.classes.tolist() == ["cat"]
    again, back = mirrored(other, boxes)
    assert_array_equal(again, image)
    assert_array_equal(back.edges, [[2, 4, 13, 9]])


@given(st.integers(1, 6), st.integers(1, 6), st.data())
@settings(max_examples=30, deadline=None)
def test_boxes_of_masks_are_tight(height, width, data):
    cells = data.draw(st.sets(st.tuples(st.integers(0, height - 1), st.integers(0, width - 1))))
    mask = np.zeros((height, width), dtype=bool)
    for cell in cells:
        mask[cell] = True
    for given_mask in (mask, mask * np.uint8(255)):
        boxes = boxes_of_mask(given_mask, "horse")
        assert len(boxes.edges) == len(boxes.classes) == len(boxes.ignored) == bool(cells)
        if cells:
            rows, columns = zip(*cells)
            expected = [min(columns), min(rows), max(columns) + 1, max(rows) + 1]
            assert boxes.edges.tolist() == [expected]
            assert boxes.classes.tolist() == ["horse"]


def test_masks_from_files_and_of_other_numbers(tmp_path):
    mask = np.zeros((6, 8), dtype=np.uint8)
    mask[2:4, 3:7] = 128
    mask[0, 0] = 127
    Image.fromarray(mask).save(tmp_path / "mask.png")
    for source in (tmp_path / "mask.png", mask):
        assert boxes_of_mask(source).edges.tolist() == [[3, 2, 7, 4]]
    labels = np.minimum(mask, 1)
    with pytest.raises(InvalidData, match="give a smaller `above`"):
        boxes_of_mask(labels)
    assert boxes_of_mask(labels, above=0).edges.tolist() == [[0, 0, 7, 4]]
    for wrong in (np.zeros((2, 2, 3)), np.array([["a"]])):
        with pytest.raises(InvalidData, match="the mask is an array of shape"):
            boxes_of_mask(wrong)
