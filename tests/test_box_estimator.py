"""Detectors from images with boxes."""

import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import taut
from taut import BoxSVM, LatentBoxSVM
from taut.errors import InvalidData, NotConverged
from taut.metrics import localisation_accuracy
from taut.solvers import FunctionalDescent, OnlineCache
from taut.vision import Boxes, HogPyramid, MapShards, as_boxes
from taut.vision.photographs import Photographs

SETTINGS = {"cells": 16, "aspects": 2, "C": 0.1, "tol": 0.05, "random_state": 0}


def image_with(rng, *objects, shape=(64, 80)):
    """Noise with bright lying boxes ("card") and dark standing ones ("post")."""
    image = rng.integers(90, 110, size=(*shape, 3), dtype=np.uint8)
    for name, x, y, right, bottom in objects:
        image[y:bottom, x:right] = 230 if name == "card" else 20
    return image


def made(n, seed=0, names=("card",)):
    """Images with an object each, some with two or none, and their boxes."""
    rng = np.random.default_rng(seed)
    images, boxes = [], []
    for i in range(n):
        name = names[i % len(names)]
        width, height = (30, 20) if name == "card" else (18, 32)
        x, y = int(rng.integers(0, 36)), int(rng.integers(0, 30))
        objects = [(name, x, y, x + width, y + height)] if i % 5 else []
        images.append(image_with(rng, *objects))
        boxes.append(objects)
    return images, boxes


@pytest.fixture(scope="module")
def model():
    return BoxSVM(**SETTINGS).fit(*made(12))


def test_it_finds_what_it_was_shown(model):
    images, boxes = made(10, seed=1)
    assert model.score(images, boxes) > 0.95
    found = model.localise(images[1:5])
    assert localisation_accuracy(found, as_boxes(boxes[1:5], 4)) == 1.0
    assert all(len(each.scores) == 1 for each in found)
    assert model.certificate_.relative_gap <= 0.05
    assert_array_equal(model.classes_, ["card"])
    empty, full = model.detect(images[:2])
    assert not len(empty.scores)
    assert len(full.scores) >= 1


def test_detections_are_sorted_apart_and_above_the_threshold(model):
    images, _boxes = made(4, seed=2)
    for found in model.detect(images, top=7, threshold=-1.0, suppression=0.2):
        assert len(found.scores) <= 7
        assert (np.diff(found.scores) <= 0.0).all()
        assert found.scores.min(initial=0.0) >= -1.0
        assert (found.edges[:, 2:] > found.edges[:, :2]).all()
        assert (found.edges >= 0.0).all()
        assert (found.edges <= [80, 64, 80, 64]).all()
    everything = model.detect(images, threshold=-math.inf, top=3)
    assert [len(found.scores) for found in everything] == [3] * 4


def test_saved_and_loaded_it_finds_the_same(model, tmp_path):
    images, boxes = made(3, seed=3)
    model.save(tmp_path / "cards.taut")
    again = taut.load(tmp_path / "cards.taut")
    for found, wanted in zip(again.detect(images), model.detect(images), strict=True):
        for a, b in zip(found, wanted, strict=True):
            assert_array_equal(a, b)
    assert again.certificate_ == model.certificate_
    assert clone(model).get_params()["cells"] == 16
    assert again.score(images, boxes) == model.score(images, boxes)


def test_parameters_that_change_after_a_fit_do_not_change_what_is_found(model, tmp_path):
    images, _boxes = made(3, seed=3)
    others = {"cell": 6, "cells": 40, "border": 0, "colour": False, "longest": 50}
    changed = model._copy(**others)
    changed.save(tmp_path / "changed.taut")
    wanted = model.detect(images)
    assert sum(len(found.scores) for found in wanted)
    for own in (changed, taut.load(tmp_path / "changed.taut")):
        for found, known in zip(own.detect(images), wanted, strict=True):
            assert_array_equal(found.edges, known.edges)
            assert_array_equal(found.scores, known.scores)
    assert own.cell == 6


def test_templates_are_the_weights_of_their_cells(model):
    shapes = model.templates_[:, :2] + 2
    own = [model.template(k) for k in range(len(shapes))]
    assert [each.shape for each in own] == [(*shape, 37) for shape in shapes.tolist()]
    cells = np.concatenate([each.ravel() for each in own])
    assert_array_equal(cells, model.coef_[: len(cells)])
    assert len(model.coef_) == len(cells) + len(shapes) + 36
    with pytest.raises(InvalidData, match=f"number = {len(shapes)}"):
        model.template(len(shapes))


def test_two_threads_find_the_same(model):
    images, _boxes = made(5, seed=4)
    with_two = model._copy(n_jobs=2)
    for found, wanted in zip(with_two.detect(images), model.detect(images), strict=True):
        assert_array_equal(found.edges, wanted.edges)


def test_larger_images_are_shrunk_and_boxes_are_theirs(model):
    images, boxes = made(3, seed=5)
    doubled = [np.repeat(np.repeat(image, 2, axis=0), 2, axis=1) for image in images]
    small = BoxSVM(**SETTINGS, longest=80).fit(*made(12))
    found = small.localise(doubled[1:])
    assert_allclose(found[0].edges, 2.0 * model.localise(images[1:])[0].edges, atol=8.0)
    assert boxes[1]


@pytest.mark.long
def test_classes_have_templates_of_their_own(monkeypatch):
    images, boxes = made(16, seed=6, names=("card", "post"))
    model = BoxSVM(**SETTINGS).fit(images, boxes)
    assert_array_equal(model.classes_, ["card", "post"])
    assert set(model.templates_[:, 2]) == {0, 1}
    assert model.score(*made(8, seed=7, names=("card", "post"))) > 0.9
    monkeypatch.setattr("taut.estimators.box_detector._CANDIDATES", 2)
    (found,) = model.detect(images[1:2], threshold=-math.inf)
    assert set(found.classes) == {"card", "post"}  # each has candidates of its own


def test_weights_of_zero_leave_images_out():
    images, boxes = made(8, seed=8)
    weight = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    exact = {**SETTINGS, "tol": 1e-3, "refine": False}
    with_zeros = BoxSVM(**exact).fit(images, boxes, sample_weight=weight)
    twice = BoxSVM(**exact).fit(images[:6] * 2, boxes[:6] * 2, sample_weight=np.full(12, 0.5))
    if np.array_equal(with_zeros.scales_, twice.scales_):  # which depend on all boxes
        assert_allclose(with_zeros.certificate_.primal, twice.certificate_.primal, rtol=2e-3)
    assert with_zeros.certificate_.relative_gap <= 1e-3
    assert with_zeros.certificate_.rounding <= 1e-9 * with_zeros.certificate_.primal


def test_ignored_boxes_do_not_count():
    images, boxes = made(8, seed=9)
    given = as_boxes(boxes, 8)
    crowd = np.array([[50.0, 40.0, 70.0, 60.0]])
    given = [
        Boxes(np.vstack([b.edges, crowd]), np.append(b.classes, "card"), np.append(b.ignored, True))
        for b in given
    ]
    model = BoxSVM(**SETTINGS).fit(images, given)
    assert model.score(images, given) > 0.9


def test_features_on_disk_train_the_same_model(tmp_path):
    images, boxes = made(8, seed=10)
    settings = {**SETTINGS, "tol": 1e-3, "refine": False}
    inside = BoxSVM(**settings).fit(images, boxes)
    stored = BoxSVM(**settings, folder=tmp_path / "maps").fit(images, boxes)
    assert_allclose(stored.coef_, inside.coef_)
    parts = BoxSVM(**settings, folder=tmp_path / "maps", solver=OnlineCache(memory="20MB")).fit(
        images, boxes
    )
    assert parts.certificate_.relative_gap <= 1e-3
    assert_allclose(parts.certificate_.primal, inside.certificate_.primal, rtol=2e-3)
    with pytest.raises(InvalidData, match="sample_weight"):
        parts.fit(images, boxes, sample_weight=np.full(8, 2.0))


def test_refinement_reads_images_once_and_not_all(tmp_path, monkeypatch):
    images, boxes = made(6, seed=10)
    read, asked = MapShards.__getitem__, []

    def counted(shards, number):
        asked.append(number)
        return read(shards, number)

    monkeypatch.setattr(MapShards, "__getitem__", counted)
    settings = {**SETTINGS, "folder": tmp_path / "maps", "solver": "online_cache"}
    plain = BoxSVM(**settings, refine=False).fit(images, boxes)
    assert not asked
    assert plain.refinement_.shape == (4, 1)
    BoxSVM(**settings).fit(images, boxes)
    assert sorted(asked) == [0, 2, 4, 6, 8, 10]  # mirror images are between these
    asked.clear()
    monkeypatch.setattr("taut.estimators.boxes._REFINED_BYTES", 1)
    BoxSVM(**settings).fit(images, boxes)
    assert len(asked) == 2  # the first one, and one that was too many


def test_own_features_need_no_images(model):
    images, boxes = made(8, seed=11)
    extractor = HogPyramid(scales=(1.0, 0.8, 0.6), margin=3)
    pyramids = [extractor.extract(image) for image in images]
    own = BoxSVM(**SETTINGS).fit(pyramids, boxes)
    assert own.score(pyramids, boxes) > 0.9
    with pytest.raises(InvalidData, match="folder = 'maps' keeps features that are extracted"):
        BoxSVM(**SETTINGS, folder="maps").fit(pyramids, boxes)
    with pytest.raises(InvalidData, match="give the features that fit saw"):
        model.detect([HogPyramid(colour=False, margin=3).extract(images[0])])


def test_it_learns_part_by_part():
    images, boxes = made(12, seed=12)
    model = BoxSVM(**SETTINGS).partial_fit(images[:6], boxes[:6])
    templates = model.templates_.copy()
    model.partial_fit(images[6:], boxes[6:])
    assert_array_equal(model.templates_, templates)
    assert model.score(*made(6, seed=13)) > 0.8
    with pytest.raises(InvalidData, match=r"boxes of \['post'\], and the templates .* \['card'\]"):
        model.partial_fit(*made(6, names=("card", "post")))
    with pytest.raises(InvalidData, match="templates need boxes of each class"):
        BoxSVM(**SETTINGS).partial_fit(images, boxes, classes=["card", "post"])


@pytest.mark.long
def test_functional_descent_trains_it_without_a_bound():
    images, boxes = made(10, seed=14)
    solver = FunctionalDescent(subset=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotConverged)
        model = BoxSVM(**{**SETTINGS, "max_iter": 2}, solver=solver).fit(images, boxes)
    assert model.certificate_.dual == 0.0
    assert model.score(images, boxes) > 0.8


def test_probabilities_rise_with_scores(model):
    images, boxes = made(12, seed=15)
    own = model._copy().fit_probabilities(images, boxes)
    found = own.detect(images, threshold=-math.inf, top=20)
    for detections, chances in zip(found, own.probabilities(found), strict=True):
        assert ((chances > 0.0) & (chances < 1.0)).all()
        assert (np.diff(chances) <= 0.0).all()
        assert len(chances) == len(detections.scores)
        assert_array_equal(own.probabilities(detections), chances)
    with pytest.raises(InvalidData, match="some that are and some that are not"):
        model._copy().fit_probabilities(images[:1], [[("card", 0, 0, 1, 1)]])


def test_images_smaller_than_a_window_have_nothing_in_them(model):
    shapes = (5, 5), (1, 1), (1, 500), (10, 6400)
    tiny = [np.zeros((*shape, 3), dtype=np.uint8) for shape in shapes]
    images, boxes = made(2)
    *nothing, something = model.detect([*tiny, images[1]], threshold=-math.inf)
    assert [len(found.scores) for found in nothing] == [0] * 4
    assert all(found.edges.shape == (0, 4) and found.classes.shape == (0,) for found in nothing)
    assert len(something.scores)
    with pytest.raises(InvalidData, match="image 1: the image of 5 x 5 pixels has fewer than 2"):
        BoxSVM(**SETTINGS).fit([images[1], tiny[0]], [boxes[1], []])


@pytest.mark.parametrize(
    ("images", "boxes", "settings", "message"),
    [
        ([], [], {}, "images is empty"),
        (made(2)[0], made(3)[1], {}, "2 images, and boxes of 3"),
        (made(2)[0], [[], []], {}, "no image has a box"),
        (made(2)[0], None, {}, "boxes to be passed"),
        (made(2)[0][0], [[]], {}, "give a list of images"),
        (*made(3), {"kernel": "rbf"}, "leave the kernel out"),
        (*made(3), {"aspects": 0}, "aspects = 0"),
        (*made(3), {"cells": 2.5}, "cells = 2.5"),
        (*made(3), {"scale_step": 1.0}, "scale_step = 1.0"),
        (*made(3), {"match": 1.0}, "match = 1.0"),
        (*made(3), {"longest": 0}, "longest = 0: give a whole number"),
        (*made(3), {"scale_step": np.inf}, "scale_step = inf"),
        (*made(3), {"suppression": 2.0}, "suppression = 2: give a number from 0 to 1"),
        (made(1)[0], [[("card", 200, 200, 230, 220)]], {}, "image 0, box 0 .* is outside"),
        (["nowhere.png"], [[("card", 0, 0, 5, 5)]], {}, "nowhere.png"),
    ],
)
def test_bad_input_is_refused_before_work(images, boxes, settings, message):
    with pytest.raises((InvalidData, FileNotFoundError), match=message):
        BoxSVM(**{**SETTINGS, **settings}).fit(images, boxes)


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (BoxSVM, {"match": 1.0}, "match = 1.0"),
        (BoxSVM, {"solver": "nonsense"}, "solver = 'nonsense'"),
        (BoxSVM, {"C": -1.0}, "C = -1.0"),
        (BoxSVM, {"tol": -1.0}, "tol = -1.0"),
        (BoxSVM, {"max_iter": 0}, "max_iter = 0"),
        (BoxSVM, {"folder": "maps", "solver": "online_cache"}, "sample_weight goes with"),
        (LatentBoxSVM, {"settled": 0.2}, "settled = 0.2"),
        (LatentBoxSVM, {"max_rounds": 0}, "max_rounds = 0"),
    ],
)
def test_settings_are_refused_before_features_are_extracted(kind, settings, message, monkeypatch):
    monkeypatch.setattr(HogPyramid, "extract", lambda *_given: pytest.fail("extracted"))
    images, boxes = made(3)
    model = kind(**{**SETTINGS, **settings})
    with pytest.raises(InvalidData, match=message):
        model.fit(images, boxes, sample_weight=[1.0, 2.0, 1.0])
    if kind is BoxSVM and "folder" not in settings:
        with pytest.raises(InvalidData, match=message):
            model.partial_fit(images, boxes)


def test_the_latent_detector_has_the_settings_of_the_detector():
    known = LatentBoxSVM().get_params()
    assert {name: known[name] for name in BoxSVM().get_params()} == BoxSVM().get_params()


def test_latent_windows_never_raise_the_objective(tmp_path):
    images, boxes = made(10, seed=16)
    settings = {**SETTINGS, "tol": 0.01}
    model = LatentBoxSVM(**settings, max_rounds=4, settled=0.6).fit(images, boxes)
    objectives = [each.objective for each in model.rounds_]
    assert (np.diff(objectives) <= 1e-9).all()
    assert model.score(images, boxes) > 0.9
    model.save(tmp_path / "latent.taut")
    assert_array_equal(taut.load(tmp_path / "latent.taut").coef_, model.coef_)
    assert not hasattr(model, "partial_fit")


def test_boxes_end_where_their_image_does():
    images, boxes = made(4)
    beyond = [[("card", 50, 40, 90, 90)], *boxes[1:]]
    cut = [[("card", 50, 40, 80, 64)], *boxes[1:]]
    first, second = (BoxSVM(**SETTINGS).fit(images, own) for own in (beyond, cut))
    assert_array_equal(first.coef_, second.coef_)
    assert first.score(images, beyond) == first.score(images, cut)


def test_boxes_of_a_panorama_end_at_its_lower_edge():
    photographs = Photographs([np.zeros((255, 6400, 3), dtype=np.uint8)], 640)
    (given,) = photographs.truths([[(100, 200, 150, 255)]])
    assert photographs[0].shape == (26, 640, 3)
    shown = given.edges * photographs.ratios(0)
    assert_allclose(shown[0], [10.0, 200.0 * 26 / 255, 15.0, 26.0])
    assert_allclose(photographs.as_given(shown, 0), given.edges)
    assert (photographs.as_given(shown + 1e-9, 0) <= [6400, 255, 6400, 255]).all()


def test_files_that_are_replaced_in_between_are_refused(tmp_path):
    pytest.importorskip("PIL")
    path = tmp_path / "a.ppm"
    path.write_bytes(b"P6 40 20 255 " + bytes(40 * 20 * 3))
    photographs = Photographs([path], 640)
    photographs.truths([[(0, 0, 40, 20)]])
    path.write_bytes(b"P6 20 40 255 " + bytes(40 * 20 * 3))
    with pytest.raises(InvalidData, match="image 0 has 20 x 40 pixels, and had 40 x 20"):
        photographs[0]
    fresh = Photographs([path], 640)
    assert fresh[0].shape == (40, 20, 3)
    path.unlink()
    assert fresh.size(0) == (20, 40)  # of the pixels that were read


def test_features_of_another_kind_are_refused():
    images, boxes = made(3)
    known = [HogPyramid(margin=2).extract(image) for image in images]
    others = {
        "31 channels": HogPyramid(margin=2, colour=False),
        "3 cells of margin": HogPyramid(margin=3),
    }
    for message, extractor in others.items():
        with pytest.raises(InvalidData, match=f"image 2 have {message}"):
            BoxSVM(**SETTINGS).fit([*known[:2], extractor.extract(images[2])], boxes)
    for mixed, message in (
        ([known[0], *images[1:]], "image 1 is no Pyramid"),
        ([images[0], *known[1:]], "image 1 is a Pyramid"),
    ):
        with pytest.raises(InvalidData, match=message):
            BoxSVM(**SETTINGS).fit(mixed, boxes)
