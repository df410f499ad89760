"""The estimator of boxes with angles."""

import copy
import json
import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import taut
from taut import PoseSVM
from taut.data.angles import turns
from taut.errors import InvalidData, InvalidType, NotConverged
from taut.inference.box_refinement import NO_REFINEMENT
from taut.metrics import angle_errors, pose_losses
from taut.solvers import OneSlack
from taut.structures.pose_boxes import with_mirror_images
from taut.vision import FoundPoses, read_boxes
from taut.vision.boxes import paired_overlaps
from test_boxes import overlap
from test_poses import near


def made(n, seed=0):
    """Images of a square that is bright on the side of its angle, of four."""
    rng = np.random.default_rng(seed)
    images, boxes = [], []
    angles = 0.5 * np.pi * (np.arange(n) % 4)
    for angle in angles:
        image = rng.integers(90, 110, size=(48, 64, 3), dtype=np.uint8)
        x, y = rng.integers(0, 24, size=2)
        across, down = np.meshgrid(np.linspace(-1, 1, 24), np.linspace(-1, 1, 24))
        side = np.cos(angle) * across + np.sin(angle) * down
        image[y : y + 24, x : x + 24] = np.where(side > 0.0, 230, 20)[..., None]
        images.append(image)
        boxes.append([x, y, x + 24, y + 24])
    return images, np.array(boxes, dtype=float), angles


SETTINGS = {"C": 1.0, "cells": 9, "aspects": 1, "n_angles": 8, "random_state": 0}


@pytest.fixture(scope="module", params=[True, False], ids=["explicit", "pairs"])
def model(request):
    return PoseSVM(**SETTINGS, explicit=request.param).fit(*made(16))


def test_it_finds_boxes_and_angles(model):
    images, boxes, angles = made(8, seed=1)
    found = model.predict(images)
    assert np.rad2deg(angle_errors(found.angles, angles)).max() < 20.0
    assert all(overlap(a, b) > 0.5 for a, b in zip(found.edges, boxes, strict=True))
    assert ((found.angles >= 0.0) & (found.angles < 2.0 * np.pi)).all()
    assert_allclose(model.score(images, boxes, angles), -pose_losses(found, boxes, angles).mean())
    assert model.certificate_.relative_gap <= 0.02
    score = model.score(images, boxes, angles)
    for same in (boxes.tolist(), list(boxes), [[tuple(box)] for box in boxes]):
        assert model.score(images, same, angles) == score


def test_angles_are_refined(model):
    images, _boxes, _angles = made(4, seed=2)
    found = model.predict(images)
    assert turns(found.angles[:, None], model.angles_).min(axis=1).max() > 1e-3


def test_saved_and_loaded_it_finds_the_same(model, tmp_path):
    images, _boxes, _angles = made(3, seed=3)
    model.save(tmp_path / "squares.taut")
    again = taut.load(tmp_path / "squares.taut", n_jobs=2)
    for found, wanted in zip(again.predict(images), model.predict(images), strict=True):
        assert_array_equal(found, wanted)
    assert again.certificate_ == model.certificate_
    assert clone(model).get_params()["n_angles"] == 8


@pytest.mark.parametrize(
    "changed", [{"cell": 16}, {"kappa": 5.0}, {"colour": False}, {"longest": 64}]
)
def test_parameters_that_were_changed_since_the_fit_are_refused(model, changed):
    (name,), other = changed, copy.copy(model).set_params(**changed)
    with pytest.raises(InvalidData, match=f"{name} = .* fitted with"):
        other.predict(made(1)[0])


def test_larger_images_are_shrunk_and_boxes_are_theirs(model):
    images, boxes, angles = made(2, seed=4)
    doubled = [np.repeat(np.repeat(image, 2, axis=0), 2, axis=1) for image in images]
    small = clone(model).set_params(longest=64).fit(*made(16))
    assert_allclose(small.predict(doubled).edges, 2.0 * model.predict(images).edges, atol=10.0)
    assert small.score(doubled, 2.0 * boxes, angles) > -0.2


def test_own_kernels_are_called_again_after_loading(tmp_path):
    images, boxes, angles = made(8)
    own = PoseSVM(**SETTINGS, explicit=False, angle_kernel=near, tol=0.1).fit(images, boxes, angles)
    with pytest.raises(InvalidType, match="angle_kernel"):
        own.save(tmp_path / "own.taut")
    found = own.predict(images)
    own.set_params(angle_kernel="von_mises").save(tmp_path / "own.taut")
    with pytest.raises(InvalidData, match=r"give taut\.load the function"):
        taut.load(tmp_path / "own.taut").predict(images)
    again = taut.load(tmp_path / "own.taut", angle_kernel=near)
    assert_array_equal(again.predict(images).angles, found.angles)


def test_weights_of_zero_leave_images_out():
    images, boxes, angles = made(8)
    weight = np.array([1.0] * 6 + [0.0] * 2)
    settings = {**SETTINGS, "tol": 5e-3}
    with_zeros = PoseSVM(**settings).fit(images, boxes, angles, sample_weight=weight)
    without = PoseSVM(**settings).fit(images[:6], boxes[:6], angles[:6])
    assert_allclose(with_zeros.certificate_.primal, without.certificate_.primal, rtol=1e-2)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"angle_kernel": "gaussian", "explicit": False, "kappa": 0.2}, "eigenvalue.*von_mises"),
        ({"angle_kernel": "gaussian", "kappa": 0.2}, "eigenvalue.*von_mises"),
        ({"angle_kernel": near}, "explicit=False"),
        ({"angle_kernel": "bessel"}, "angle_kernel = 'bessel'"),
        ({"kappa": -1.0}, "kappa"),
        ({"n_angles": 1}, "n_angles = 1"),
        ({"kernel": "rbf"}, "kernel = 'rbf'"),
        ({"cells": 0}, "cells = 0"),
    ],
)
def test_wrong_parameters_are_refused(parameters, message):
    with pytest.raises(InvalidData, match=message):
        PoseSVM(**{**SETTINGS, **parameters}).fit(*made(4))


def test_wrong_data_are_refused(model):
    images, boxes, angles = made(4)
    fresh = clone(model)
    for wrong, message in (
        ((images, boxes, np.rad2deg(angles)), "deg2rad"),
        ((images, boxes, [0.0, 1.0, np.nan, 0.0]), "radians"),
        ((images, boxes, angles[:3]), "3 angles"),
        ((images, boxes[:3], angles), "4 images"),
        ((images, [*[[b] for b in boxes[:3].tolist()], []], angles), "image 3 has 0 boxes"),
        ((images, boxes), "requires angles"),
    ):
        with pytest.raises(InvalidData, match=message):
            fresh.fit(*wrong)
    with pytest.raises(InvalidData, match=r"smaller than any window|fewer than"):
        model.predict([np.zeros((8, 8, 3), dtype=np.uint8)])
    with pytest.raises(InvalidData, match="shape"):
        pose_losses(FoundPoses(boxes, angles, angles), boxes[:, :3], angles)
    with pytest.raises(InvalidData, match="as many"):
        angle_errors([0.0], [0.0, 1.0])


def flipped(images, boxes, angles, mirror_sum):
    """Mirror images, with what is true of them."""
    widths = np.array([image.shape[1] for image in images])
    mirrored = np.stack(
        [widths - boxes[:, 2], boxes[:, 1], widths - boxes[:, 0], boxes[:, 3]], axis=1
    )
    return [image[:, ::-1] for image in images], mirrored, (mirror_sum - angles) % (2.0 * np.pi)


@pytest.mark.parametrize("explicit", [True, False])
def test_mirrored_images_are_examples_of_their_own(explicit):
    images, boxes, angles = made(6)
    turned, edges, others = flipped(images, boxes, angles, np.pi)
    settings = SETTINGS | {"explicit": explicit, "tol": 0.01, "refine": False}
    mirrored = PoseSVM(**settings, mirror=True, mirror_sum=np.pi).fit(images, boxes, angles)
    written_out = PoseSVM(**settings).fit(
        [*images, *turned], np.vstack([boxes, edges]), np.concatenate([angles, others])
    )
    assert_allclose(
        mirrored.certificate_.primal, written_out.certificate_.primal, rtol=0.015, atol=0.0
    )


def test_what_is_learned_of_one_side_is_known_of_the_other():
    images, boxes, angles = made(16)
    kept = np.flatnonzero(angles != np.pi)
    settings = SETTINGS | {"mirror": True, "refine": False}
    model = PoseSVM(**settings, mirror_sum=np.pi)
    model.fit([images[i] for i in kept], boxes[kept], angles[kept])
    unseen = flipped(*made(4, seed=1), np.pi)
    found = model.predict(unseen[0])
    assert np.rad2deg(angle_errors(found.angles, unseen[2])).max() < 25.0
    again = model.predict(made(4, seed=1)[0])
    assert_allclose(
        np.cos(found.angles), np.cos(np.pi - again.angles), atol=0.3
    )  # w is its own mirror image where the gap is 0


def test_mirroring_twice_is_nothing():
    _images, boxes, angles = made(5)
    widths = np.full(5, 64.0)
    both, turned = with_mirror_images(boxes, angles, widths, 1.0)
    assert_array_equal(both[::2], boxes)
    assert_array_equal(turned[::2], angles)
    back, angles_back = with_mirror_images(both[1::2], turned[1::2], widths, 1.0)
    assert_allclose(back[1::2], boxes)
    assert_allclose(turns(angles_back[1::2], angles), 0.0, atol=1e-12)
    with pytest.raises(InvalidData, match="mirror_sum = inf"):
        PoseSVM(mirror_sum=math.inf).fit(*made(2))


def test_edges_are_moved_to_where_objects_end():
    images, boxes, angles = made(24)
    # Objects of which boxes leave out a margin that windows cannot know.
    boxes = boxes + np.array([0.0, 0.0, -6.0, 0.0])
    new, truths, _angles = made(8, seed=5)
    truths = truths + np.array([0.0, 0.0, -6.0, 0.0])
    model = PoseSVM(**SETTINGS | {"tol": 0.1}).fit(images, boxes, angles)
    assert model.refinement_.any()
    found = model.predict(new)
    model.refinement_ = NO_REFINEMENT
    plain = model.predict(new)
    assert_array_equal(found.angles, plain.angles)
    moved, windows = (paired_overlaps(each.edges, truths).mean() for each in (found, plain))
    assert moved > windows + 0.02


def test_folders_of_images_and_read_boxes_are_taken(tmp_path):
    Image = pytest.importorskip("PIL.Image", reason="Pillow writes the images")
    images, boxes, angles = made(6)
    settings = SETTINGS | {"tol": 0.1}
    for k, image in enumerate(images):
        Image.fromarray(image).save(tmp_path / f"{k}.png")
    entries = [
        {"file": f"{k}.png", "boxes": [["square", *box]]} for k, box in enumerate(boxes.tolist())
    ]
    (tmp_path / "boxes.json").write_text(json.dumps(entries))
    read = read_boxes(tmp_path / "boxes.json")
    wanted = PoseSVM(**settings).fit(images, boxes, angles)
    kept = PoseSVM(**settings, folder=tmp_path / "features")
    for given in (read.images, tmp_path):
        kept.fit(given, read.boxes, angles)
        assert_array_equal(kept.coef_, wanted.coef_)
        assert_array_equal(kept.refinement_, wanted.refinement_)
    assert any((tmp_path / "features").iterdir())
    kept.save(tmp_path / "kept.taut")
    assert taut.load(tmp_path / "kept.taut").folder == str(tmp_path / "features")


def test_other_kernels_and_grids_than_those_of_the_fit_are_refused(model):
    images = made(1)[0]
    other = copy.copy(model).set_params(angle_kernel="sectors")
    with pytest.raises(InvalidData, match=r"angle_kernel = 'sectors' compares angles otherwise"):
        other.predict(images)
    with pytest.raises(InvalidData, match=r"n_angles = 4 means 4 angles, .* fitted with 8"):
        copy.copy(model).set_params(n_angles=4).predict(images)


def test_a_run_that_ends_at_once_leaves_weights_of_zero():
    images, boxes, angles = made(4)
    idle = PoseSVM(**SETTINGS, explicit=False, solver=OneSlack(), time_limit=1e-9)
    with pytest.warns(NotConverged):
        idle.fit(images, boxes, angles)
    assert not idle.coef_.any()
    assert_array_equal(idle.predict(images).scores, 0.0)
