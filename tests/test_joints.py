"""Joints as they are given: places, names, trees and partners."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from taut.errors import InvalidData
from taut.vision.joints import joint_boxes, limbs_of, read_joints, skeleton_of, within_images

NAMES = ["left hand", "left elbow", "neck", "right elbow", "right hand"]
TREE = [
    ("left hand", "left elbow"), ("neck", "left elbow"), ("right elbow", "neck"),
    ("right elbow", "right hand"),
]  # fmt: skip
SWAPS = [("left hand", "right hand"), (1, 3)]


def test_what_is_not_visible_has_no_place():
    joints, seen = read_joints([[[1, 2], [np.nan, 3]], [[np.inf, 0], [5, 6]]])
    assert_array_equal(joints, [[[1, 2], [0, 0]], [[0, 0], [5, 6]]])
    assert_array_equal(seen, [[True, False], [False, True]])
    joints, seen = read_joints([[[1, 2], [3, 4]]], [[1.0, 0.0]])
    assert_array_equal(joints, [[[1, 2], [0, 0]]])
    assert seen.dtype == bool


def test_given_joints_stay_as_they_are():
    given = np.array([[[1.0, 2.0], [3.0, 4.0]]])
    read_joints(given, [[True, False]])
    assert given[0, 1, 0] == 3.0


def test_joints_outside_their_image_are_invisible():
    joints, seen = read_joints([[[5, 5], [-1, 5], [5, 41]], [[60, 40], [0, 0], [99, 9]]])
    seen[1, 2] = False
    with pytest.warns(
        UserWarning, match=r"invisible: 2; the first is joint 1 of object 0, at \(-1"
    ):
        inside = within_images(joints, seen, np.array([[60.0, 40.0]] * 2))
    assert_array_equal(inside, [[True, False, False], [True, True, False]])


def test_boxes_are_around_what_is_seen():
    joints, seen = read_joints([[[1, 8], [3, 4]], [[1, 1], [2, 2]]], [[1, 1], [0, 0]])
    assert_array_equal(joint_boxes(joints, seen), [[1, 4, 3, 8], [0, 0, 0, 0]])


def test_trees_and_partners_by_name_or_number():
    skeleton = skeleton_of(5, NAMES, TREE, SWAPS)
    assert_array_equal(skeleton.parents, [1, -1, 1, 2, 3])
    assert_array_equal(skeleton.swaps, [4, 3, 2, 1, 0])
    assert skeleton.names == tuple(NAMES)
    assert_array_equal(skeleton.limbs, [[1, 0], [1, 2], [2, 3], [3, 4]])
    by_parents = skeleton_of(5, None, [1, 2, -1, 2, 3])
    assert_array_equal(by_parents.parents, [1, 2, -1, 2, 3])
    assert by_parents.names == ("0", "1", "2", "3", "4")
    assert_array_equal(by_parents.swaps, np.arange(5))
    assert not len(skeleton_of(5).parents)
    assert_array_equal(skeleton_of(1, tree=[-1]).parents, [-1])
    assert_array_equal(limbs_of(np.array([-1, 0])), [[0, 1]])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"names": ["a"]}, "names has 1 names"),
        ({"names": ["a", "b", "a"]}, "2 of them different"),
        ({"names": "abc"}, "give a list of text"),
        ({"names": [1, 2, 3]}, "give a list of text"),
        ({"tree": [(0, 1), (1, 2), (2, 0)]}, "a cycle, which '2' and '0' close"),
        ({"tree": [(0, 1)]}, "does not reach 2 from '0'"),
        ({"tree": [-1, -1, 0]}, r"2 roots, \['0', '1'\]"),
        ({"tree": [1, 2, 0]}, "0 roots"),
        ({"tree": [-1, 2, 1]}, "a cycle, which '1' and '2' close"),
        ({"tree": [-1, 0]}, "parents of 2 joints"),
        ({"tree": [-1, 0, 7]}, "joint 7, which there is not"),
        ({"tree": [("nose", 1)]}, "joint 'nose', which there is not: joints are 0, 1, 2"),
        ({"tree": [(0, 1, 2)]}, "give pairs of joints"),
        ({"tree": ["01", "12"]}, "give pairs of joints"),
        ({"swaps": [("left", "right")]}, "swaps has joint 'left'"),
        ({"swaps": [(0, 0)]}, "pairs joint '0' with itself"),
        ({"swaps": [(0, 1), (1, 2)]}, "joint '1' twice"),
    ],
)
def test_what_makes_no_skeleton_is_refused(arguments, words):
    with pytest.raises(InvalidData, match=words):
        skeleton_of(3, **arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (([[1, 2]],), r"joints has shape \(1, 2\)"),
        ((np.zeros((0, 3, 2)),), r"\(0, 3, 2\)"),
        ((np.zeros((1, 3, 3)),), r"\(1, 3, 3\)"),
        ((np.zeros((1, 3, 2)), [[1, 1]]), r"visible has shape \(1, 2\)"),
        ((np.zeros((1, 2, 2)), [["yes", "no"]]), "True or False"),
        ((np.full((1, 2, 2), np.nan), [[0, 1]]), r"joint 1 of object 0 is visible and at \[nan"),
        ((None,), "joints is None"),
    ],
)
def test_what_are_no_joints_is_refused(arguments, words):
    with pytest.raises(InvalidData, match=words):
        read_joints(*arguments)
