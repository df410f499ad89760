"""Features of many images: the same from a cache as without one, and extracted once."""

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from taut.errors import InvalidData, InvalidFile
from taut.storage import files
from taut.vision import extraction
from taut.vision.boxes import Boxes
from taut.vision.extraction import extract
from taut.vision.hog import HogPyramid
from taut.vision.maps import MapShards, open_maps
from taut.vision.pyramid import Pyramid, pyramid_of

SETTINGS = HogPyramid(scales=[1.0, 0.7], margin=1)


class Counting:
    """Features of maps of the user's own, which counts how often it is asked for them."""

    def __init__(self, scale=1.0):
        self.scale = scale
        self.calls = []

    def __getstate__(self):
        return {"scale": self.scale}

    def extract(self, image):
        self.calls.append(image.shape)
        cells = image[::8, ::8].astype(float) * self.scale
        return pyramid_of([cells, cells[::2, ::2]], [8, 16], image.shape[1::-1], mirror=[0, 1, 2])


@pytest.fixture
def images(rng):
    sizes = rng.integers(30, 60, (7, 2))
    return [rng.integers(0, 256, (height, width, 3), dtype=np.uint8) for height, width in sizes]


@pytest.fixture(autouse=True)
def _small_files(monkeypatch):
    monkeypatch.setattr(extraction, "_PER_FILE", 3)


def assert_same(one, other):
    assert isinstance(one, Pyramid)
    assert isinstance(other, Pyramid)
    for a, b in zip(one, other, strict=True):
        assert_array_equal(a, b)
    assert one.cells.dtype == other.cells.dtype


def boxes_of(image):
    height, width = image.shape[:2]
    edges = np.array([[1.0, 2.0, width / 2, height - 3.0]])
    return Boxes(edges, np.array(["thing"]), np.array([False]))


@pytest.mark.parametrize("features", [SETTINGS, Counting()], ids=["bytes", "floats"])
@pytest.mark.parametrize("mirror", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_cache_gives_what_extraction_gives(images, tmp_path, features, mirror, n_jobs):
    expected = [features.extract(image) for image in images]
    if mirror:
        expected = [each for p in expected for each in (p, p.mirror_image())]
    listed = extract(images, features, mirror=mirror, n_jobs=n_jobs)
    cached = extract(images, features, tmp_path / "cache", mirror=mirror, n_jobs=n_jobs)
    opened = open_maps(tmp_path / "cache", mirror=mirror)
    assert isinstance(cached, MapShards)
    for found in (listed, cached, opened, list(cached)):
        assert len(found) == len(expected)
        for i, pyramid in enumerate(expected):
            assert_same(found[i], pyramid)
    assert_same(cached[-1], expected[-1])
    with pytest.raises(IndexError):
        cached[len(expected)]


def test_what_was_extracted_is_found_again(images, tmp_path):
    features = Counting()
    extract(images, features, tmp_path)
    assert len(features.calls) == 7
    extract(images, features, tmp_path)
    assert len(features.calls) == 7
    # One image has changed: the file that it is in is made anew.
    changed = [image.copy() for image in images]
    changed[4][0, 0] ^= 1
    found = extract(changed, features, tmp_path)
    assert len(features.calls) == 10
    assert_same(found[4], Counting().extract(changed[4]))
    other = Counting(scale=2.0)
    found = extract(images, other, tmp_path)
    assert len(other.calls) == 7
    assert_same(found[4], Counting(scale=2.0).extract(images[4]))


def test_an_extraction_that_broke_off_goes_on(images, tmp_path):
    features = Counting()
    with pytest.raises(KeyboardInterrupt):
        extract([*images[:5], Interrupt()], features, tmp_path)
    assert len(list(tmp_path.glob("*.maps"))) == 1
    assert not list(tmp_path.glob(".*.tmp"))
    before = len(features.calls)
    found = extract(images, features, tmp_path)
    assert len(features.calls) == before + 4
    assert_same(found[0], Counting().extract(images[0]))


class Interrupt:
    def __array__(self, dtype=None, copy=None):
        raise KeyboardInterrupt


def test_images_may_be_files(images, tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    paths = []
    for number, image in enumerate(images):
        paths.append(tmp_path / f"{number}.png")
        Image.fromarray(image).save(paths[-1])
    for one, other in zip(extract(paths, SETTINGS), extract(images, SETTINGS), strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("mirror", [False, True])
def test_maps_are_a_source_of_training_data(images, tmp_path, mirror):
    truth = [boxes_of(image) for image in images]
    source = extract(images, SETTINGS, tmp_path, mirror=mirror).with_targets(truth)
    assert (source.n_blocks, source.n_chunks) == (7 * (1 + mirror), 3)
    blocks = 0
    for number, chunk in enumerate(source.chunks()):
        assert (chunk.number, chunk.first) == (number, blocks)
        assert len(chunk.X) == len(chunk.y) == chunk.n_blocks
        for pyramid, target in zip(chunk.X, chunk.y):
            assert_same(pyramid, source[blocks])
            own = truth[blocks // (1 + mirror)].edges
            if pyramid.mirrored:
                width = pyramid.size[0]
                own = np.stack([width - own[:, 2], own[:, 1], width - own[:, 0], own[:, 3]], axis=1)
            assert_array_equal(target.edges, own)
            blocks += 1
    assert blocks == source.n_blocks
    assert [chunk.number for chunk in source.chunks([2, 0])] == [2, 0]
    taken = source.take([1, 5])
    assert_same(taken.X[1], source[5])
    assert source.head.n_blocks == 3 * (1 + mirror)
    assert source.classes is None


def test_the_digest_tells_data_apart(images, tmp_path):
    truth = [boxes_of(image) for image in images]
    source = extract(images, SETTINGS, tmp_path / "a")
    again = extract(images, SETTINGS, tmp_path / "b")
    assert source.digest == again.digest
    others = [
        source.with_targets(truth),
        extract(images[1:], SETTINGS, tmp_path / "a"),
        extract(images, HogPyramid(scales=[1.0]), tmp_path / "a"),
        extract(images, SETTINGS, tmp_path / "a", mirror=True),
    ]
    assert len({source.digest, *(other.digest for other in others)}) == 5


@pytest.mark.parametrize(
    ("order", "given"), [([0, 0], "most once"), ([3], "0 to 2"), ([-1], "0 to 2")]
)
def test_orders_that_are_none_are_refused(images, tmp_path, order, given):
    with pytest.raises(InvalidData, match=given):
        extract(images, SETTINGS, tmp_path).chunks(order)


def damaged(content, way):
    if way == "empty":
        return b""
    if way == "truncated":
        return content[:-5]
    if way == "foreign":
        return b"something else " * 20
    # The last bytes are cells, or numbers of the index.
    return content[:-1] + bytes([content[-1] ^ 1])


@pytest.mark.parametrize("way", ["empty", "truncated", "foreign", "edited"])
def test_damaged_files_are_refused_by_name(images, tmp_path, way):
    found = extract(images, SETTINGS, tmp_path)
    names = [file.path for file in found._files]
    names[1].write_bytes(damaged(names[1].read_bytes(), way))
    assert found[0].cells.any()
    with pytest.raises(InvalidFile, match=f"{names[1].name} .* delete it and extract"):
        found[4]
    with pytest.raises(InvalidFile, match=names[1].name):
        list(found)
    os.remove(names[1])
    with pytest.raises(InvalidFile, match=names[1].name):
        found[4]
    index = tmp_path / "index.taut"
    index.write_bytes(damaged(index.read_bytes(), way))
    with pytest.raises(InvalidFile, match=r"index\.taut"):
        open_maps(tmp_path)


def test_a_cache_that_is_a_file_is_refused(images, tmp_path):
    (tmp_path / "notes").write_text("")
    for cache in (tmp_path / "notes", tmp_path / "notes" / "maps"):
        with pytest.raises(InvalidData, match="is a file or lies in one"):
            extract(images, SETTINGS, cache)


def test_files_that_change_after_they_were_read_are_verified_again(images, tmp_path):
    found = extract(images, SETTINGS, tmp_path)
    assert found[0].cells.any()
    path = found._files[0].path
    path.write_bytes(damaged(path.read_bytes(), "edited"))
    os.utime(path, ns=(1, 1))
    with pytest.raises(InvalidFile, match="damaged"):
        found[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("shapes", np.full((6, 2), 40, dtype=np.int32)),
        ("shapes", np.full((6, 2), -1, dtype=np.int32)),
        ("levels", np.array([2, 2, 3])),
        ("levels", np.array([6, 0, 0])),
        ("mirror", np.zeros(37, dtype=np.int32)),
        ("steps", np.zeros((6, 2))),
        ("cells", np.zeros((3, 37), dtype=np.uint8)),
        ("margin", 3),
        ("margin", -1),
        ("unit", 0.0),
        ("unit", "1"),
    ],
)
def test_files_that_lie_with_a_right_checksum_are_refused(images, tmp_path, name, value):
    found = extract(images[:3], SETTINGS, tmp_path)
    path = found._files[0].path
    tensors, meta = files.read(path, "feature maps")
    for part in (tensors, meta):
        if name in part:
            part[name] = value
    files.write(path, "feature maps", tensors, meta)
    with pytest.raises(InvalidFile, match=path.name):
        found[0]


def test_an_index_cannot_point_out_of_its_folder(images, tmp_path):
    extract(images, SETTINGS, tmp_path)
    files.write(
        tmp_path / "index.taut",
        "index of feature maps",
        {"sizes": np.array([3])},
        {"files": ["../other.maps"]},
    )
    with pytest.raises(InvalidFile, match=r"index\.taut"):
        open_maps(tmp_path)


def test_boxes_must_be_there_for_each_image(images, tmp_path):
    found = extract(images, SETTINGS, tmp_path)
    with pytest.raises(InvalidData, match="6 entries for 7 images"):
        found.with_targets([boxes_of(image) for image in images[:6]])
    with pytest.raises(InvalidData, match=r"y\[0\]"):
        found.with_targets([None] * 7)


class Wrong:
    def __init__(self, answer):
        self.answer = answer

    def extract(self, image):
        return self.answer(image)


def test_images_and_features_that_cannot_be_used_are_refused(images, tmp_path):
    with pytest.raises(InvalidData, match="image 3"):
        extract([*images[:3], np.zeros((2, 2, 3), dtype=np.uint8)], SETTINGS)
    with pytest.raises(InvalidData, match="image 0"):
        extract([np.zeros((4, 4, 3, 3))], SETTINGS)
    with pytest.raises(InvalidData, match="empty"):
        extract([], SETTINGS)
    with pytest.raises(InvalidData, match="generator"):
        extract((image for image in images), SETTINGS)
    with pytest.raises(InvalidData, match="no method extract"):
        extract(images, None)
    with pytest.raises(InvalidData, match="returned ndarray"):
        extract(images, Wrong(lambda image: image))
    with pytest.raises(InvalidData, match="n_jobs"):
        extract(images, SETTINGS, n_jobs=0)


def test_features_that_are_not_alike_cannot_be_stored(images, tmp_path):
    def by_size(image):
        return pyramid_of([np.ones((2, 2, image.shape[0]))], [8], image.shape[1::-1])

    with pytest.raises(InvalidData, match=r"image \d.*channels"):
        extract(images, Wrong(by_size), tmp_path)
    with pytest.raises(InvalidData, match="mirrored"):
        extract(images, Wrong(lambda image: SETTINGS.extract(image).mirror_image()), tmp_path)


def test_progress_is_told_where_it_is_asked_for(images, capsys, monkeypatch):
    monkeypatch.setattr("taut.console.progress._FIRST_SECONDS", 0.0)
    extract(images, SETTINGS)
    assert capsys.readouterr().err == ""
    extract(images, SETTINGS, verbose=1)
    assert "7 of 7 images" in capsys.readouterr().err
