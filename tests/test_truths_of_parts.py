"""Joints: their sizes, trees, aspects and mirror images."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from taut.errors import InvalidData
from taut.vision import aspects_of, mirrored_joints, sizes_of, tree_of
from taut.vision.poses import check_parents

LIMBS = np.array([[0.0, 0.0], [0.0, 4.0], [3.0, 4.0], [-3.0, 4.0]])  # a head, a body, two arms


def people(rng, n=60, noise=0.1):
    """Bodies of different sizes; arms come up or down."""
    steps = np.array([[0, 0], [0, 4], [3, 0], [-3, 0]]) + noise * rng.normal(size=(n, 4, 2))
    up = rng.random((n, 2)) < 0.5
    steps[:, 2:, 1] += np.where(up, -2.0, 2.0)
    joints = steps.copy()
    joints[:, 1] += joints[:, 0]
    joints[:, 2:] += joints[:, [1]]
    sizes = rng.uniform(5.0, 50.0, n)
    return sizes[:, None, None] * joints + rng.uniform(0, 100, (n, 1, 2)), sizes, up


def test_sizes_do_not_depend_on_what_is_seen():
    rng = np.random.default_rng(0)
    joints, sizes, _up = people(rng)
    seen = rng.random((60, 4)) < 0.8
    seen[3] = [True, False, False, False]
    found = sizes_of(joints, seen)
    ratios = (found / sizes)[seen.sum(axis=1) >= 3]  # of two, one may be unusual
    assert_allclose(ratios, np.median(ratios), rtol=0.25)
    assert_allclose(found[3], np.median(found[seen.sum(axis=1) >= 2]), rtol=0.2)
    assert_allclose(sizes_of(2.0 * joints, seen), 2.0 * found)
    with pytest.raises(InvalidData, match="no object has two visible joints"):
        sizes_of(joints, np.arange(4) == np.zeros((60, 1)))


def test_the_tree_has_the_least_variance_of_all():
    rng = np.random.default_rng(1)
    joints, sizes, _up = people(rng)
    seen = rng.random((60, 4)) < 0.9
    scaled = joints / sizes[:, None, None]

    def cost(parents):
        total = 0.0
        for p, q in enumerate(parents):
            if q >= 0:
                both = seen[:, p] & seen[:, q]
                total += (scaled[both, p] - scaled[both, q]).var(axis=0).sum()
        return total

    trees = []
    for choice in itertools.product(range(4), repeat=3):
        try:
            trees.append(check_parents([-1, *choice]))
        except InvalidData:
            continue
    assert len(trees) == 16  # of four parts, as Cayley counts them
    found = tree_of(joints, seen, sizes, root=0)
    assert_allclose(cost(found), min(cost(tree) for tree in trees))
    alone = tree_of(joints, seen)
    degrees = np.bincount(alone[alone >= 0], minlength=4) + (alone >= 0)
    assert degrees[alone < 0] == degrees.max()
    lonely = seen & (np.arange(4) != 3)
    with pytest.raises(InvalidData, match="never visible together"):
        tree_of(joints, lonely, sizes)
    with pytest.raises(InvalidData, match="root = 4"):
        tree_of(joints, seen, sizes, root=4)


def test_aspects_are_clusters_of_places():
    rng = np.random.default_rng(2)
    joints, sizes, up = people(rng)
    seen = rng.random((60, 4)) < 0.9
    found = aspects_of(joints, seen, [1, -1, 1, 1], 2, sizes)
    for arm in (2, 3):
        known = seen[:, arm] & seen[:, 1]
        assert_array_equal(found.numbers[known, arm] == 0, up[known, arm - 2])
        assert_allclose(found.centres[arm][:, 1], [-2.0, 2.0], atol=0.1)
        rest = np.unique(found.numbers[~known, arm])
        assert len(rest) == 1  # the most frequent one
    assert_array_equal(found.counts, 2)
    one = aspects_of(joints[:1], np.ones((1, 4), bool), [1, -1, 1, 1], 5, sizes[:1])
    assert_array_equal(one.counts, 1)  # there is one place for each
    for count, parents, message in ((0, [1, -1, 1, 1], "count = 0"), (1, [-1, 0], "2 parts")):
        with pytest.raises(InvalidData, match=message):
            aspects_of(joints, seen, parents, count, sizes)


def test_mirrored_twice_is_as_before():
    rng = np.random.default_rng(3)
    joints, _sizes, _up = people(rng, 5)
    seen = rng.random((5, 4)) < 0.7
    joints[~seen] = 0.0
    widths, swaps = rng.uniform(100, 200, 5), [0, 1, 3, 2]
    once = mirrored_joints(joints, seen, widths, swaps)
    assert_allclose(once[0][:, 2], [[w - x, y] for w, (x, y) in zip(widths, joints[:, 3])])
    again = mirrored_joints(*once, widths, swaps)
    assert_array_equal(again[1], seen)
    assert_allclose(again[0][seen], joints[seen])
    with pytest.raises(InvalidData, match="swaps"):
        mirrored_joints(joints, seen, widths, [1, 2, 3, 0])
    with pytest.raises(InvalidData, match="swaps"):
        mirrored_joints(joints, seen, widths, [0, 1, 2, 7])
    with pytest.raises(InvalidData, match="widths has shape"):
        mirrored_joints(joints, seen, widths[:3], swaps)
    with pytest.raises(InvalidData, match="joints has shape"):
        mirrored_joints(joints[0], seen, widths, swaps)
    with pytest.raises(InvalidData, match="visible has shape"):
        mirrored_joints(joints, seen[0], widths, swaps)
