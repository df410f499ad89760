"""Measures of joints, on examples that were worked out by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from taut.errors import InvalidData
from taut.metrics import pck, pcp, visibility_accuracy

# Two stick figures of a head, a hip and a foot: 100 pixels tall, and 50 pixels wide.
JOINTS = np.array([[[0, 0], [0, 40], [0, 100]], [[0, 10], [20, 10], [50, 10]]], dtype=float)
LIMBS = [(0, 1), (1, 2)]


def moved(*offsets):
    return JOINTS + np.array(offsets, dtype=float).reshape(2, 3, 2)


def test_pck_is_relative_to_the_box_of_the_truth():
    # Limits of 20 and 10 pixels: 20, 21 and 0 off; 10, 0 and 12 off.
    found = moved([20, 0], [0, 21], [0, 0], [6, 8], [0, 0], [0, -12])
    result = pck(found, JOINTS)
    assert_array_equal(result.each, [1.0, 0.5, 0.5])
    assert result.mean == pytest.approx(4 / 6)
    assert_array_equal(result.counts, [2, 2, 2])
    assert pck(found, JOINTS, share=0.25).mean == 1.0


def test_joints_that_are_not_visible_do_not_count_and_make_no_box():
    visible = [[True, True, False], [True, True, True]]
    # The box of the first is 40 pixels tall now, and its limit 8.
    result = pck(moved([0, 8], [0, 9], [500, 0], [0, 0], [0, 0], [0, 0]), JOINTS, visible)
    assert_array_equal(result.each, [1.0, 0.5, 1.0])
    assert_array_equal(result.counts, [2, 2, 1])
    unknown = JOINTS.copy()
    unknown[0, 2] = np.nan
    assert_array_equal(pck(JOINTS, unknown).counts, [2, 2, 1])


def test_pck_by_a_distance_or_by_given_lengths():
    found = moved(*[[8, 0]] * 6)
    # Head to hip: 40 and 20, limits 8 and 4.
    assert_array_equal(pck(found, JOINTS, between=(0, 1)).each, [0.5, 0.5, 0.5])
    assert pck(found, JOINTS, lengths=[40.0, 40.0]).mean == 1.0
    hidden = np.ones((2, 3), dtype=bool)
    hidden[1, 1] = False
    assert_array_equal(pck(found, JOINTS, hidden, between=(0, 1)).counts, [1, 1, 1])


def test_what_was_not_found_is_wrong():
    found = JOINTS.copy()
    found[0, 1] = np.nan
    assert_array_equal(pck(found, JOINTS).each, [1.0, 0.5, 1.0])
    assert_array_equal(pcp(found, JOINTS, LIMBS).each, [0.5, 0.5])


def test_pcp_needs_both_ends_within_half_of_the_limb():
    # Limbs of 40 and 60 pixels, and of 20 and 30.
    found = moved([20, 0], [0, 20], [0, 31], [0, 0], [10, 0], [15, 0])
    result = pcp(found, JOINTS, LIMBS)
    assert_array_equal(result.each, [1.0, 0.5])
    assert result.mean == 0.75
    visible = np.ones((2, 3), dtype=bool)
    visible[0, 2] = False
    assert_array_equal(pcp(found, JOINTS, LIMBS, visible).each, [1.0, 1.0])
    assert_array_equal(pcp(found, JOINTS, LIMBS, visible).counts, [2, 1])


def test_limbs_without_a_length_do_not_count():
    joints = np.zeros((1, 3, 2))
    joints[0, 2] = [5, 0]
    result = pcp(joints, joints, LIMBS)
    assert_allclose(result.each, [np.nan, 1.0])
    assert result.mean == 1.0


def test_visibility():
    result = visibility_accuracy([[1, 0], [1, 1], [0, 1]], [[1, 1], [1, 1], [1, 1]])
    assert_allclose(result.each, [2 / 3, 2 / 3])
    assert result.mean == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: pck(JOINTS[:1], JOINTS), r"found has shape \(1, 3, 2\), joints has \(2, 3, 2\)"),
        (lambda: pck(JOINTS[0], JOINTS[0]), r"joints has shape \(3, 2\)"),
        (lambda: pck(JOINTS, JOINTS, [[True] * 3]), r"visible has shape \(1, 3\)"),
        (lambda: pck(JOINTS, JOINTS, np.full((2, 3), 2)), "True or False"),
        (lambda: pck(JOINTS, JOINTS * np.nan, np.ones((2, 3))), "joint 0 of object 0 is visible"),
        (lambda: pck(JOINTS, JOINTS, np.zeros((2, 3))), "no joint counts"),
        (lambda: pck(JOINTS, JOINTS, share=0.0), "share = 0.0"),
        (lambda: pck(JOINTS, JOINTS, between=(0, 3)), "and there are 3"),
        (lambda: pck(JOINTS, JOINTS, lengths=[1.0, 0.0]), "above 0 for each of the 2 objects"),
        (lambda: pck(JOINTS, JOINTS, lengths=[1, 1], between=(0, 1)), "give one of them"),
        (lambda: pcp(JOINTS, JOINTS, [0, 1]), "two joints for each"),
        (lambda: pcp(JOINTS, JOINTS, [(0, 5)]), "and there are 3"),
        (lambda: visibility_accuracy([True], [True]), "for each joint of each object"),
    ],
)
def test_what_cannot_be_measured_is_refused(call, words):
    with pytest.raises(InvalidData, match=words):
        call()
