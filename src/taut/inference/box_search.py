"""The best boxes of an image of visual words, of all boxes on its grid, by branch and bound.

Sets of boxes are looked at in the order of bounds on the values of their boxes, and cut in halves
until the first one is a single box: no other can be better. Further boxes follow in the order of
their values, and sets are left out that overlap found boxes too much, so that greedy suppression
is one search. Bounds of values are sums of bounds of scores and of

    loss        1 - |b- and truth| / |b+ or truth|,
    residual    loss + score - score(truth) under other weights, clipped, which is monotone,

with b- the smallest and b+ the largest box of a set (Blaschko and Lampert 2008, He 2014).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.checks import check_flag, check_number
from taut.compiled.jit import helper, kernel
from taut.errors import InvalidData
from taut.inference.box_lengths import square_bounds, square_of
from taut.inference.box_scores import (
    WordImage,
    draw_lines,
    integrate,
    pull_words,
    score_bound,
)
from taut.inference.box_sets import (
    BOUNDED,
    EXACT,
    NONE,
    SIZE,
    box_of,
    is_box,
    least_overlap,
    longer,
    pop,
    push,
    set_of,
    split,
    tighten,
)
from taut.vision.boxes import overlap_of

NO_LIMIT = 1 << 62
_LOWEST = -1e300  # not infinite: compiled code may assume that no number is
_ROOM = 256  # sets that a queue begins with


class Goal(NamedTuple):
    """What boxes of an image are worth, beside their scores."""

    truth: np.ndarray  # int32: a box, or -1 for none
    loss_weight: float
    none: bool  # whether no box is a candidate, of score 0
    overlap: float  # of two boxes that are found, at most
    residual_at: int  # where integral images of other weights begin; -1 for the loss alone
    base: float  # the score of the truth under these
    floor: float  # what residual margins are raised to
    ceiling: float  # what they are cut to


class Scratch(NamedTuple):
    """Room for a search."""

    lines: np.ndarray
    counts: np.ndarray  # of words, zero in between
    lowest: np.ndarray  # sets
    half: np.ndarray


def _scratch(image):
    return Scratch(
        np.empty((4, 5), np.int64),
        np.zeros(image.n_words if image.grain > 0 else 0, np.int64),
        np.empty(SIZE, np.int32),
        np.empty(SIZE, np.int32),
    )


_room_of = helper(_scratch, True)


@helper
def loss_of(truth, box):
    """1 - intersection over union; of none 0 if both are, 1 if one is."""
    if truth[0] < 0 or box[0] < 0:
        return 0.0 if truth[0] < 0 and box[0] < 0 else 1.0
    return 1.0 - overlap_of(truth, box)


@helper
def _squares(image, s, scratch):
    """Draw the lines of a set, and bound the squared lengths of its histograms."""
    draw_lines(s, image.levels, scratch.lines)
    if image.grain == 0:
        return 1, 1
    if s[8] == EXACT and image.grain > 1:
        square = square_of(image, scratch.lines, scratch.counts)
        return square, square
    return square_bounds(image, scratch.lines)


@helper
def _bound(image, sums, at, goal, s, scratch):
    """A bound on the values of a set, which is the value where it is marked as exact."""
    least, most = _squares(image, s, scratch)
    score = score_bound(image, sums, at, scratch.lines, least, most)
    loss = 1.0
    if goal.truth[0] >= 0:
        loss -= least_overlap(s, goal.truth)
    if goal.residual_at >= 0:
        other = score_bound(image, sums, goal.residual_at, scratch.lines, least, most)
        loss = min(max(loss + other - goal.base, goal.floor), goal.ceiling)
    return score + goal.loss_weight * loss


@helper
def _none_value(goal):
    """What no box is worth."""
    loss = 0.0 if goal.truth[0] < 0 else 1.0
    if goal.residual_at >= 0:
        loss = min(max(loss - goal.base, goal.floor), goal.ceiling)
    return goal.loss_weight * loss


@helper
def _is_suppressed(s, found, count, most):
    """Whether all boxes of a set overlap one that is found too much."""
    q = 0
    while q < count and (found[q, 0] < 0 or least_overlap(s, found[q]) <= most):
        q += 1
    return q < count


@helper
def _mark(image, s):
    """Note whether the bound of a set is its value: it is for a box whose length is known."""
    s[8] = EXACT if image.grain <= 1 and is_box(s) else BOUNDED


@helper
def _dive(image, sums, at, goal, s, scratch):
    """Reduce a set to a good box of it, marked as exact, the better half first; its value."""
    lowest, half = scratch.lowest, scratch.half
    while not is_box(s):
        best = _LOWEST
        for upper in range(2):
            split(s, half, upper == 1)
            half[8] = BOUNDED
            if tighten(half, image.limits):
                bound = _bound(image, sums, at, goal, half, scratch)
                if bound > best:
                    best = bound
                    for k in range(SIZE):
                        lowest[k] = half[k]
        for k in range(SIZE):
            s[k] = lowest[k]
    s[8] = EXACT
    return _bound(image, sums, at, goal, s, scratch)


def _search(image, sums, at, goal, most, found, values):
    """Write the best boxes into the rows of `found`, none overlapping another one too much.

    `values` gets what they are worth, best first, and -1 stands for no box. Returns how many there
    are, how many sets were looked at, and a bound on all values that are not found. When `most`
    sets have been looked at, the search ends; a box that need not be the best is then the first,
    where none was found.
    """
    scratch = _room_of(image)
    keys, sets = np.empty(_ROOM), np.empty((_ROOM, SIZE), np.int32)
    top, half = np.empty(SIZE, np.int32), np.empty(SIZE, np.int32)
    n, count, looked = 0, 0, 1
    top[0] = top[4] = 0
    top[1], top[5] = image.n_rows - 1, image.n_columns - 1
    top[2] = top[6] = 1
    top[3], top[7] = image.n_rows, image.n_columns
    if tighten(top, image.limits):
        _mark(image, top)
        push(keys, sets, n, _bound(image, sums, at, goal, top, scratch), top)
        n += 1
    if goal.none:
        top[8] = NONE
        push(keys, sets, n, _none_value(goal), top)
        n += 1
    while n > 0 and count < values.shape[0] and looked < most:
        key = pop(keys, sets, n, top)
        n -= 1
        if top[8] != NONE and _is_suppressed(top, found, count, goal.overlap):
            continue
        if top[8] != BOUNDED:
            box_of(top, found[count])
            values[count] = key
            count += 1
        elif is_box(top):
            top[8] = EXACT
            push(keys, sets, n, _bound(image, sums, at, goal, top, scratch), top)
            n += 1
        else:
            if n + 2 > keys.shape[0]:
                keys, sets = longer(keys, sets)
            for upper in range(2):
                split(top, half, upper == 1)
                if tighten(half, image.limits):
                    _mark(image, half)
                    push(keys, sets, n, _bound(image, sums, at, goal, half, scratch), half)
                    n += 1
                    looked += 1
    remaining = keys[0] if n > 0 else _LOWEST
    if count == 0 and n > 0:
        for k in range(SIZE):
            top[k] = sets[0, k]
        values[0] = keys[0] if top[8] == NONE else _dive(image, sums, at, goal, top, scratch)
        for q in range(n):
            if sets[q, 8] != BOUNDED and keys[q] > values[0]:
                values[0] = keys[q]
                for k in range(SIZE):
                    top[k] = sets[q, k]
        box_of(top, found[0])
        count = 1
    return count, looked, remaining


search = helper(_search, True)


@kernel
def _run(image, sums, at, goal, most, found, values):
    return search(image, sums, at, goal, most, found, values)


def _value(image, sums, at, box):
    scratch, square = _room_of(image), 1
    set_of(box, scratch.half)
    draw_lines(scratch.half, image.levels, scratch.lines)
    if image.grain > 0:  # a truth may be smaller than candidates are
        square = square_of(image, scratch.lines, scratch.counts)
    return score_bound(image, sums, at, scratch.lines, square, square)


_value_of = helper(_value, True)


@kernel
def _score(image, sums, at, box):
    return _value_of(image, sums, at, box)


class FoundBoxes(NamedTuple):
    """What a search found, the best first."""

    boxes: np.ndarray  # (k, 4), int32: top, left, bottom, right in lines of the grid; -1 for none
    values: np.ndarray  # (k,)
    error: float  # how far the value of a box may at most lie above that of the first
    n_sets: int  # how many sets of boxes were looked at


def best_boxes(
    image: WordImage,
    weights: Any,
    *,
    truth: Any = None,
    loss_weight: float = 0.0,
    none: bool = False,
    count: int = 1,
    overlap: float = 1.0,
    residual: Any = None,
    bounds: tuple[float, float] = (0.0, 1.0),
    most: int | None = None,
) -> FoundBoxes:
    """The boxes of highest score + loss_weight * loss among all candidates of an image.

    The score of a box is the sum of the weights of the words in the cells of its pyramid, divided
    by the length of their histogram where the image was prepared so. The loss is 1 - intersection
    over union with the truth; of no box 0 if the truth is none, else 1. Cells end at the lines of
    the grid that are nearest to halves and quarters of the box, the earlier of two.

    Parameters
    ----------
    image : WordImage
    weights : array of shape (n_cells, n_words)
        Cells of the whole box, of its quarters row by row, and of its sixteenths.
    truth : sequence of int, optional
        Top, left, bottom and right line; none by default.
    loss_weight : float, default=0.0
    none : bool, default=False
        Whether no box is a candidate as well, of score 0.
    count : int, default=1
        How many boxes are sought, at most, each by greedy suppression: the best of those that
        overlap none of the boxes before by more than `overlap`.
    overlap : float, default=1.0
    residual : array of shape (n_cells, n_words), optional
        Other weights: the loss is then replaced by the residual margin under them, loss + score -
        score(truth), clipped to `bounds`, and values are differences from the truth's score.
    bounds : tuple of float, default=(0.0, 1.0)
    most : int, optional
        How many sets are looked at, at most. The first box need not be the best then, and `error`
        says how far from it it may be.

    Returns
    -------
    FoundBoxes

    Raises
    ------
    InvalidData
        Weights are not finite or of another shape, the truth is no box of the grid, or a number is
        out of range.

    Examples
    --------
    >>> from taut.inference.box_scores import WordImage
    >>> from taut.inference.box_search import best_boxes
    >>> image = WordImage.of([[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 0, 0]], n_words=2)
    >>> found = best_boxes(image, [[-0.5, 1.0]])
    >>> found.boxes.tolist(), found.values.tolist()
    ([[1, 1, 3, 3]], [2.5])
    """
    check_flag("none", none)
    for name, number in {"loss_weight": loss_weight, "overlap": overlap}.items():
        check_number(name, number)
        if not 0.0 <= number < np.inf:
            raise InvalidData(f"{name} = {number!r}: give a finite number, at least 0")
    for name, limit in {"count": count, "most": NO_LIMIT if most is None else most}.items():
        if not isinstance(limit, int | np.integer) or limit < 1:
            raise InvalidData(f"{name} = {limit!r}: give a whole number, at least 1")
    box = _as_truth(truth, image)
    maps = [_as_weights("weights", weights, image)]
    if residual is not None:
        maps.append(_as_weights("residual", residual, image))
    floor, ceiling = bounds
    if not floor <= ceiling:
        raise InvalidData(f"bounds = {bounds!r}: give the lower one first")
    if not none and image.n_boxes == 0:
        raise InvalidData(
            f"the grid of {image.n_rows} x {image.n_columns} points has no box of an allowed size: "
            "lower the smallest size, or let none be a candidate"
        )
    sums = np.empty(len(maps) * image.room)
    potentials = np.empty(image.n_cells * len(image.words))
    scores = []
    for k, own in enumerate(maps):
        pull_words(image, own, potentials)
        integrate(image, potentials, sums, k * image.room)
        scores.append(0.0 if box[0] < 0 else _score(image, sums, k * image.room, box))
    goal = Goal(
        box, float(loss_weight), bool(none), float(overlap),
        -1 if residual is None else image.room, scores[-1], float(floor), float(ceiling),
    )  # fmt: skip
    found = np.empty((min(count, image.n_boxes + none), 4), dtype=np.int32)
    values = np.empty(len(found))
    n, looked, remaining = _run(
        image, sums, 0, goal, NO_LIMIT if most is None else int(most), found, values
    )
    error = max(0.0, remaining - float(values[0]))
    base = 0.0 if residual is None else scores[0]
    return FoundBoxes(found[:n], values[:n] - base, error, looked)


def _as_truth(truth: Any, image: WordImage) -> np.ndarray:
    if truth is None:
        return np.full(4, -1, dtype=np.int32)
    box = np.asarray(truth)
    if (
        box.shape != (4,)
        or box.dtype.kind not in "iu"
        or not 0 <= box[0] < box[2] <= image.n_rows
        or not 0 <= box[1] < box[3] <= image.n_columns
    ):
        raise InvalidData(
            f"truth = {truth!r} is no box of a grid of {image.n_rows} x {image.n_columns} points: "
            "give top, left, bottom and right line, bottom and right being behind the last points"
        )
    return box.astype(np.int32)


def _as_weights(name: str, weights: Any, image: WordImage) -> np.ndarray:
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (image.n_cells, image.n_words) or not np.isfinite(given).all():
        raise InvalidData(
            f"{name} has shape {given.shape}: give finite numbers of shape "
            f"({image.n_cells}, {image.n_words}), a row for each cell"
        )
    return np.ascontiguousarray(given).ravel()
