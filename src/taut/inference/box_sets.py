"""Sets of boxes on a grid, and a queue of them by the bounds on their values.

A box is (top, left, bottom, right) in lines of the grid, half open: it has the rows from `top` to
`bottom` - 1. A set is a row of eight numbers, the lowest and the highest top, bottom, left and
right, and a ninth that says what the bound is worth.
"""

from __future__ import annotations

import numpy as np

from taut.compiled.jit import helper

SIZE = 9
BOUNDED, EXACT, NONE = 0, 1, 2  # a bound; the value of a single box; that of no box


@helper
def _tighten_sides(s, first, least, most):
    """Leave out of two sides what no box of an allowed size has; whether any is left."""
    s[first + 2] = max(s[first + 2], s[first] + least)
    s[first + 1] = min(s[first + 1], s[first + 3] - least)
    s[first + 3] = min(s[first + 3], s[first + 1] + most)
    s[first] = max(s[first], s[first + 2] - most)
    return s[first] <= s[first + 1] and s[first + 2] <= s[first + 3]


@helper
def tighten(s, limits):
    """Leave out of a set what no box of an allowed size has; whether any box is left."""
    rows = _tighten_sides(s, 0, limits[0], limits[1])
    return _tighten_sides(s, 4, limits[2], limits[3]) and rows


@helper
def is_box(s):
    """Whether a set has one box."""
    return s[0] == s[1] and s[2] == s[3] and s[4] == s[5] and s[6] == s[7]


@helper
def split(s, half, upper):
    """Write one half of a set, which is cut where its boxes differ in most points."""
    side, most = 0, 0
    for k in range(0, 8, 2):
        across = s[7] - s[4] if k < 4 else s[3] - s[0]
        points = (s[k + 1] - s[k]) * across
        if points > most:
            side, most = k, points
    for k in range(8):
        half[k] = s[k]
    middle = (s[side] + s[side + 1]) >> 1
    if upper:
        half[side] = middle + 1
    else:
        half[side + 1] = middle


@helper
def set_of(box, s):
    """Write the set of one box."""
    s[0] = s[1] = box[0]
    s[2] = s[3] = box[2]
    s[4] = s[5] = box[1]
    s[6] = s[7] = box[3]


@helper
def box_of(s, box):
    """Write the box of a set that has one, or -1 for none."""
    none = s[8] == NONE
    box[0] = -1 if none else s[0]
    box[1] = -1 if none else s[4]
    box[2] = -1 if none else s[2]
    box[3] = -1 if none else s[6]


@helper
def _common(top, bottom, left, right, box):
    """The points that a box, which may be empty, shares with another one."""
    height = min(bottom, box[2]) - max(top, box[0])
    width = min(right, box[3]) - max(left, box[1])
    return max(height, 0) * max(width, 0)


@helper
def least_overlap(s, box):
    """Intersection over union of a box with any of a set, at least; exact for a set of one."""
    common = _common(s[1], s[2], s[5], s[6], box)
    area = (s[3] - s[0]) * (s[7] - s[4])
    own = (box[2] - box[0]) * (box[3] - box[1])
    return common / (area + own - _common(s[0], s[3], s[4], s[7], box))


@helper
def push(keys, sets, n, key, s):
    """Add a set to the n of a queue, which has room for it."""
    place = n
    while place > 0 and keys[(place - 1) >> 1] < key:
        above = (place - 1) >> 1
        keys[place] = keys[above]
        for k in range(SIZE):
            sets[place, k] = sets[above, k]
        place = above
    keys[place] = key
    for k in range(SIZE):
        sets[place, k] = s[k]


@helper
def pop(keys, sets, n, s):
    """Take the set of highest key out of a queue of n; returns its key."""
    highest, key = keys[0], keys[n - 1]
    for k in range(SIZE):
        s[k] = sets[0, k]
    place, below = 0, 1
    while below < n - 1:
        if below + 1 < n - 1 and keys[below + 1] > keys[below]:
            below += 1
        if keys[below] <= key:
            break
        keys[place] = keys[below]
        for k in range(SIZE):
            sets[place, k] = sets[below, k]
        place, below = below, 2 * below + 1
    keys[place] = key
    for k in range(SIZE):
        sets[place, k] = sets[n - 1, k]
    return highest


def _longer(keys, sets):
    """The same queue with twice the room."""
    more_keys = np.empty(2 * keys.shape[0])
    more_sets = np.empty((2 * keys.shape[0], SIZE), np.int32)
    more_keys[: keys.shape[0]] = keys
    more_sets[: keys.shape[0]] = sets
    return more_keys, more_sets


longer = helper(_longer, True)
