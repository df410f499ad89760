"""Joints of objects from images with joints."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import taut
from taut import LatentPartSVM, PartSVM
from taut.errors import InvalidData, NotConverged
from taut.metrics import pck, pcp
from taut.vision import HogPyramid, JointPose
from taut.vision.part_frames import PartFrame, complete_joints
from taut.vision.photographs import Photographs

SETTINGS = {
    "C": 1.0, "aspects": 1, "side": 3, "cells": 8, "scale_step": 2.0, "tol": 0.1,
    "random_state": 0,
}  # fmt: skip
NAMES = ["left", "middle", "right"]


def image_with(rng, x=None, y=None, shape=(64, 88)):
    """Noise with a bright, a dark and a red square in a row, and their middles."""
    image = rng.integers(90, 110, size=(*shape, 3), dtype=np.uint8)
    if x is None:
        return image
    for offset, colour in ((-20, 230), (0, 20), (20, (230, 40, 40))):
        image[y - 6 : y + 6, x + offset - 6 : x + offset + 6] = colour
    return image


def made(n, seed=0):
    """Images with an object each, and its joints."""
    rng = np.random.default_rng(seed)
    middles = rng.integers([28, 10], [60, 54], size=(n, 2))
    images = [image_with(rng, x, y) for x, y in middles.tolist()]
    joints = middles[:, None, :] + np.array([[-20, 0], [0, 0], [20, 0]])
    return images, joints.astype(float)


@pytest.fixture(scope="module")
def model():
    """Of images with an object each, and of some with none."""
    images, joints = made(8)
    rng = np.random.default_rng(100)
    images += [image_with(rng) for _ in range(3)]
    joints = np.concatenate([joints, np.full((3, 3, 2), np.nan)])
    return PartSVM(**SETTINGS, names=NAMES, tree=[1, -1, 1]).fit(images, joints)


def test_it_finds_what_it_was_shown(model):
    images, joints = made(6, seed=1)
    found = model.predict(images)
    assert found.joints.shape == (6, 3, 2)
    assert pck(found.joints, joints).mean > 0.9
    assert model.score(images, joints) > 0.9
    assert pcp(found.joints, joints, model.limbs_).mean > 0.9
    assert found.visible.mean() > 0.9
    assert model.certificate_.relative_gap <= 0.1
    assert_array_equal(model.names_, NAMES)
    assert_array_equal(model.parents_, [1, -1, 1])


def test_objects_score_above_images_without_them(model):
    rng = np.random.default_rng(2)
    images, _joints = made(4, seed=2)
    there = model.predict(images).scores
    nothing = model.predict([image_with(rng) for _ in range(4)]).scores
    assert there.min() > 0.0 > nothing.max()
    assert not len(model.detect([image_with(rng)])[0].scores)


def test_joints_are_likely_visible_where_the_object_is(model):
    images, _joints = made(2, seed=12)
    images.append(image_with(np.random.default_rng(13)))
    chances = model.predict_visible(images, temperature=0.1)
    assert chances.shape == (3, 3)
    assert ((chances >= 0.0) & (chances <= 1.0)).all()
    assert chances[:2].min() > 0.5


def test_several_objects_are_found_apart(model):
    images, joints = made(2, seed=3)
    both = np.vstack(images)
    (found,) = model.detect([both], top=2)
    assert len(found.scores) == 2
    assert (np.diff(found.scores) <= 0.0).all()
    lower = joints[1] + [0, len(images[0])]
    nearest = np.abs(found.joints[:, None] - np.stack([joints[0], lower])).max(axis=(2, 3))
    assert set(nearest.argmin(axis=1)) == {0, 1}
    assert nearest.min(axis=1).max() < 8.0


def test_saved_and_loaded_it_finds_the_same(model, tmp_path):
    images, _joints = made(3, seed=4)
    model.save(tmp_path / "rows.taut")
    again = taut.load(tmp_path / "rows.taut")
    for found, wanted in zip(again.predict(images), model.predict(images), strict=True):
        assert_array_equal(found, wanted)
    assert again.certificate_ == model.certificate_
    assert clone(model).get_params()["names"] == NAMES
    assert_array_equal(again.templates(), model.templates())
    assert model.templates().shape == (3, 3, 3, 37)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"top": 1.5}, "top = 1.5"),
        ({"threshold": "low"}, "threshold = 'low'"),
        ({"suppression": 2}, "suppression = 2"),
    ],
)
def test_wrong_wishes_are_refused_before_work(model, wanted, message):
    with pytest.raises(InvalidData, match=message):
        model.detect(made(1)[0], **wanted)


def test_aspects_of_templates_are_whole_numbers(model):
    with pytest.raises(InvalidData, match="give a whole number from 0 on for each part"):
        model.templates([0.5, 0.0, 0.0])


@pytest.mark.parametrize("changed", [{"cell": 16}, {"cells": 9.0}, {"side": 4}])
def test_parameters_that_were_changed_since_the_fit_are_refused(model, changed):
    (name,), other = changed, copy.copy(model).set_params(**changed)
    with pytest.raises(InvalidData, match=f"{name} = .* fitted with"):
        other.predict(made(1)[0])
    with pytest.raises(InvalidData, match=f"{name} = .* fitted with"):
        other.templates()


def test_two_threads_find_the_same(model):
    images, _joints = made(9, seed=5)
    found, wanted = model._copy(n_jobs=2).predict(images), model.predict(images)
    assert_array_equal(found.joints, wanted.joints)


def test_larger_images_are_shrunk_and_joints_are_theirs(model):
    images, joints = made(3, seed=6)
    doubled = [np.repeat(np.repeat(image, 2, axis=0), 2, axis=1) for image in images]
    small = model._copy(longest=88)
    assert_allclose(small.predict(doubled).joints, 2.0 * model.predict(images).joints, atol=8.0)
    assert small.score(doubled, 2.0 * joints) > 0.9


def test_own_features_need_no_images(model):
    images, _joints = made(2, seed=7)
    extractor = HogPyramid(scales=model.scales_, margin=2, fewest=2)
    pyramids = [extractor.extract(image) for image in images]
    assert_array_equal(model.predict(pyramids).joints, model.predict(images).joints)
    with pytest.raises(InvalidData, match="give the features that fit saw"):
        model.predict([HogPyramid(colour=False, margin=2).extract(images[0])])


def test_mirrored_images_are_learned_with_sides_swapped():
    images, joints = made(6, seed=8)
    joints[4, 2] = np.nan
    settings = SETTINGS | {"max_iter": 3, "names": NAMES, "tree": [1, -1, 1], "swaps": [(0, 2)]}
    with pytest.warns(NotConverged):
        model = PartSVM(**settings).fit(images, joints)
    # Each part has the place of the other on the other side.
    assert_allclose(model.layout_[0], -model.layout_[2] * [1, -1], atol=1e-6)
    assert_allclose(model.anchors_[0], model.anchors_[2] * [-1, 1], atol=1e-6)
    turned = [image[:, ::-1] for image in images]
    mirrored = model.predict(turned).joints[:, ::-1]
    mirrored[:, :, 0] = 88 - mirrored[:, :, 0]
    assert pck(mirrored, model.predict(images).joints).mean > 0.7


def test_invisible_joints_are_where_one_would_expect_them(model):
    pose = JointPose(
        np.array([[0.0, 0.0], [50.0, 30.0], [0.0, 0.0]]), np.array([False, True, False]),
        np.zeros(3, dtype=int), 40.0,
    )  # fmt: skip
    frame = PartFrame.of(model)
    joints = complete_joints(pose, frame)
    assert_allclose(joints, [[30, 30], [50, 30], [70, 30]], atol=3.0)
    nothing = pose._replace(visible=np.zeros(3, dtype=bool))
    assert np.isnan(complete_joints(nothing, frame)).all()


def test_joints_outside_the_image_are_invisible(model):
    images, joints = made(8)
    outside = joints.copy()
    outside[0, 2] = [200.0, 10.0]
    with pytest.warns(UserWarning, match="the first is joint 2 of object 0"):
        shown = model._shown(Photographs(images, 640), outside, None, None)
    assert shown.visible.sum() == 23


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        (([], np.zeros((0, 3, 2))), {}, "images is empty"),
        ((made(2)[0], made(3)[1]), {}, "images has 2 images and joints objects of 3"),
        ((made(2)[0], None), {}, "joints to be passed"),
        ((made(2)[0], np.zeros((2, 3))), {}, r"joints has shape \(2, 3\)"),
        ((made(2)[0], np.full((2, 3, 2), np.nan)), {}, "all joints of all objects are invisible"),
        ((*made(2), np.zeros((2, 3), dtype=bool)), {}, "all joints of all objects are invisible"),
        ((*made(2), np.zeros((2, 2), dtype=bool)), {}, r"visible has shape \(2, 2\)"),
        ((*made(2), None, [1.0]), {}, r"sizes has shape \(1,\)"),
        ((*made(2), None, [1.0, -1.0]), {}, "pixels above 0"),
        (made(1), {}, "give tree, or more images"),
        (made(3), {"tree": [(0, 1), (1, 2), (2, 0)]}, "a cycle"),
        (made(3), {"tree": [("head", 1)]}, "joint 'head', which there is not"),
        (made(3), {"swaps": [("left", "wing")]}, "joint 'wing'"),
        (made(3), {"names": ["a", "b"]}, "names has 2 names"),
        (made(3), {"names": 3}, "names = 3: give a list"),
        (made(3), {"tree": 1}, "tree = 1: give a list"),
        ((*made(2), None, ["small", "large"]), {}, "sizes.* cannot be read as a number"),
        (made(3), {"aspects": 0}, "aspects = 0"),
        (made(3), {"side": 2.5}, "side = 2.5"),
        (made(3), {"cells": 0.0}, "cells = 0.0"),
        (made(3), {"scale_step": 1.0}, "scale_step = 1.0"),
        (made(3), {"sampling": "all"}, "sampling = 'all'"),
        (made(3), {"kernel": "rbf"}, "leave the kernel out"),
    ],
)
def test_bad_input_is_refused_before_work(arguments, settings, message):
    with pytest.raises(InvalidData, match=message):
        PartSVM(**{**SETTINGS, "names": NAMES, **settings}).fit(*arguments)


def test_a_folder_without_images_is_named(tmp_path):
    with pytest.raises(InvalidData, match="there are no images in this folder"):
        PartSVM(**SETTINGS).fit(tmp_path, made(2)[1])


def test_a_given_tree_serves_one_image():
    images, joints = made(1)
    one = PartSVM(**SETTINGS, tree=[1, -1, 1])
    frame, poses, _mirror = one._framed(one._shown(Photographs(images, 640), joints, None, None))
    assert_array_equal(frame.parents, [1, -1, 1])
    assert len(poses) == 1


LATENT = {
    "C": 1.0, "n_parts": 3, "side": 3, "cells": 6, "scale_step": 2.0, "tol": 0.1,
    "max_rounds": 3, "random_state": 0,
}  # fmt: skip


def boxed(n, seed):
    """Images and the boxes of their objects."""
    images, joints = made(n, seed)
    return images, [[(*(own[0] - [6, 6]).tolist(), *(own[2] + [6, 6]).tolist())] for own in joints]


def test_parts_are_found_from_boxes_alone(tmp_path):
    images, boxes = boxed(8, 9)
    rng = np.random.default_rng(10)
    model = LatentPartSVM(**LATENT).fit([*images, image_with(rng)], [*boxes, []])
    assert (np.diff([each.objective for each in model.rounds_]) <= 1e-9).all()
    assert model.score(*boxed(6, 11)) > 0.9
    assert len(model.names_) == 3
    model.save(tmp_path / "latent.taut")
    again = taut.load(tmp_path / "latent.taut")
    for found, wanted in zip(again.detect(images), model.detect(images), strict=True):
        assert_array_equal(found.edges, wanted.edges)
        assert found.classes.dtype == wanted.classes.dtype


@pytest.mark.parametrize(
    ("images", "boxes", "settings", "message"),
    [
        (made(2)[0], [[(0, 0, 9, 9), (9, 9, 20, 20)], []], {}, "image 0 has 2 boxes"),
        (made(2)[0], [[("a", 0, 0, 9, 9)], [("b", 0, 0, 9, 9)]], {}, "boxes are of 2 classes"),
        (made(2)[0], None, {}, "boxes to be passed"),
        (made(2)[0], [[], []], {}, "no image has a box"),
        (*boxed(2, 0), {"n_parts": 0}, "n_parts = 0"),
        (*boxed(2, 0), {"max_rounds": 0}, "max_rounds = 0"),
        (*boxed(2, 0), {"side": 30}, "give a smaller side"),
    ],
)
def test_bad_boxes_are_refused(images, boxes, settings, message):
    with pytest.raises(InvalidData, match=message):
        LatentPartSVM(**{**LATENT, **settings}).fit(images, boxes)
