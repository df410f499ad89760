"""The best places of parts that springs hold together in a tree, by dynamic programming.

On a level of an image, with f(p, a, x) what part p scores with aspect a at place x, losses
included, b the co-occurrence of two aspects, and children c of p,

    score(p, a, x) = f(p, a, x) + sum over c of the largest of
                         b(a, a') + max over x' of score(c, a', x') - spring(x' - x - anchor)
                         b(a, invisible) + score(c, invisible)

from the leaves to the root. The maximum over x' is a distance transform, which is stored with the
places that it is reached from: the way back looks places up. A child of an invisible part is where
it scores most. Sums are in float64, whatever the potentials are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.data.arrays import offsets_of
from taut.inference.distance_transforms import LineRoom, Spring, transform_grid
from taut.spaces.windows import WindowSpace, count_windows, first_window, place_of
from taut.vision.boxes import overlap_of

INVISIBLE = -1  # in place of the number of a window
NOWHERE = -1e300  # the score of what cannot be; not infinite: compiled code assumes no number is
_ANYWHERE = -1e299
_SPRING = 4  # weights: of dx^2, dx, dy^2, dy


class PartTree(NamedTuple):
    """How parts hang together, and where in the tail of the potentials their weights are.

    The tail begins with the score of each part where it is invisible.
    """

    order: np.ndarray  # parts, parents before their children
    parents: np.ndarray  # of each part, -1 of the root
    firsts: np.ndarray  # the first template of each part, and the end
    pairs: np.ndarray  # of each part: its aspects, for each aspect of the parent; invisible last
    springs: np.ndarray  # of each template: of dx^2, dx, dy^2, dy
    anchors: np.ndarray  # of each template: where it is from the parent in cells, x and y
    unit: float  # cells that springs measure distances in


def laid_out(parents: np.ndarray, anchors: list[np.ndarray], unit: float) -> tuple[PartTree, int]:
    """The tree as oracles see it, and how many weights the tail has."""
    counts = np.array([len(own) for own in anchors])
    firsts = offsets_of(counts)
    order = [int(np.flatnonzero(parents < 0)[0])]
    for p in order:
        order += np.flatnonzero(parents == p).tolist()
    at = len(parents)
    pairs, springs = np.zeros(len(parents), dtype=np.int64), np.zeros(firsts[-1], dtype=np.int64)
    for p in order[1:]:
        pairs[p] = at
        at += (counts[parents[p]] + 1) * (counts[p] + 1)
        springs[firsts[p] : firsts[p + 1]] = at + _SPRING * np.arange(counts[p])
        at += _SPRING * counts[p]
    tree = PartTree(np.array(order), parents, firsts, pairs, springs, np.vstack(anchors), unit)
    return tree, int(at)


class PartData(NamedTuple):
    """What the oracles read."""

    tree: PartTree
    space: WindowSpace
    at: int  # where in the potentials the tail begins
    room: int  # where in `work` what follows the potentials begins
    centres: np.ndarray  # of each block's true windows in pixels of the stored image
    visible: np.ndarray
    reach: np.ndarray  # the square of how far from there a part is right
    shares: np.ndarray  # of each part in the loss
    suppression: float


class Tables(NamedTuple):
    """What the way up leaves for the way back; `_tables` says how large these are."""

    scores: np.ndarray  # of each window, with all that hangs from it
    reached: np.ndarray  # what the transform makes of it
    hidden: np.ndarray  # of each level and part: invisible, with all that hangs from it
    tops: np.ndarray  # the largest score of each level and template
    losses: np.ndarray  # of the places of a level
    best: np.ndarray
    lines: LineRoom
    places: np.ndarray  # of each window: the place that the transform is reached from
    top_places: np.ndarray
    counts: np.ndarray  # how often each aspect of each part has been chosen, invisible last


def room_of(space: WindowSpace, tree: PartTree) -> int:
    """How many numbers of float64 `Tables` take."""
    windows, largest = space.most, space.largest
    levels = int(np.diff(space.levels.starts).max())
    n_parts, n_templates = len(tree.parents), len(space.heights)
    longest = int(space.levels.shapes.max())
    floats = 2 * windows + levels * (n_parts + n_templates) + 3 * largest + 4 * longest
    ints = windows + largest + 2 * longest + levels * n_templates + n_parts + n_templates
    return floats + (ints + 1) // 2


@helper
def _tables(data, i, work):
    """The tables in `work`, behind the potentials."""
    space, n_parts = data.space, data.tree.parents.shape[0]
    m, n_templates = space.image[i], space.heights.shape[0]
    levels = space.levels.starts[m + 1] - space.levels.starts[m]
    windows, largest, longest = count_windows(space, i), space.largest, 0
    for level in range(space.levels.starts[m], space.levels.starts[m + 1]):
        longest = max(longest, space.levels.shapes[level, 0], space.levels.shapes[level, 1])
    floats = work[data.room :].view(np.float64)
    a = 2 * windows
    b = a + levels * n_parts
    c = b + levels * n_templates
    d = c + 3 * largest
    e = d + 4 * longest
    ints = floats[e:].view(np.int32)
    p = windows + largest
    q = p + 2 * longest
    r = q + levels * n_templates
    lines = LineRoom(
        floats[d : d + longest],
        floats[d + longest : d + 2 * longest],
        floats[d + 2 * longest : d + 3 * longest],
        floats[d + 3 * longest : e],
        floats[c + 2 * largest : d],
        ints[p : p + longest],
        ints[p + longest : q],
        ints[windows:p],
    )
    return Tables(
        floats[:windows],
        floats[windows:a],
        floats[a:b],
        floats[b:c],
        floats[c : c + largest],
        floats[c + largest : c + 2 * largest],
        lines,
        ints[:windows],
        ints[q:r],
        ints[r : r + n_parts + n_templates],
    )


@helper
def grid_of(space, level):
    """Rows and columns of places on a level; all templates are of one size."""
    rows = space.levels.shapes[level, 0] - space.heights[0] + 1
    columns = space.levels.shapes[level, 1] - space.widths[0] + 1
    return max(rows, 0), max(columns, 0)


@helper
def place_loss(data, i, p, level, y, x):
    """The loss of part p where it is visible, at a row and a column of a level."""
    space = data.space
    if data.visible[i, p]:
        step_x, step_y = space.levels.steps[level, 0], space.levels.steps[level, 1]
        dx = (x - space.margin + 0.5 * space.widths[0]) * step_x - data.centres[i, p, 0]
        dy = (y - space.margin + 0.5 * space.heights[0]) * step_y - data.centres[i, p, 1]
        if dx * dx + dy * dy <= data.reach[i, p]:
            return 0.0
    return data.shares[p]


@helper
def hidden_loss(data, i, p):
    """The loss of part p where it is invisible."""
    return data.shares[p] if data.visible[i, p] else 0.0


@helper
def state_of(data, i, p, window):
    """The number of the aspect of a part with this window, the last one where it is invisible."""
    firsts, space = data.tree.firsts, data.space
    if window == INVISIBLE:
        return firsts[p + 1] - firsts[p]
    return place_of(space, space.image[i], window)[0] - firsts[p]


@helper
def _side(data, i):
    """The direction in which columns are counted: mirrored images show the last one first."""
    return -1.0 if data.space.mirrored[i] else 1.0


@helper
def stretch(data, i, t, window, parent):
    """How far a window is from where its parent's window would have it, in units, as shown."""
    space, m = data.space, data.space.image[i]
    _t, _level, y, x = place_of(space, m, window)
    _t, _level, above, beside = place_of(space, m, parent)
    anchors, unit = data.tree.anchors, data.tree.unit
    across = _side(data, i) * (x - beside) - anchors[t, 0]
    return across / unit, (y - above - anchors[t, 1]) / unit


@helper
def _transform(data, i, work, tables, t, first, shape):
    """What the windows of template t on a level from window `first` on reach by its springs."""
    tree, last, side = data.tree, first + shape[0] * shape[1], _side(data, i)
    weights, anchors, unit = data.at + tree.springs[t], tree.anchors, tree.unit
    squared = unit * unit
    across = Spring(
        np.float64(work[weights]) / squared,
        side * np.float64(work[weights + 1]) / unit,
        side * anchors[t, 0],
    )
    down = Spring(
        np.float64(work[weights + 2]) / squared,
        np.float64(work[weights + 3]) / unit,
        anchors[t, 1],
    )
    transform_grid(
        tables.scores[first:last],
        shape,
        across,
        down,
        tables.lines,
        tables.reached[first:last],
        tables.places[first:last],
    )


@helper
def _add_child(data, i, work, tables, number, p, c, size):
    """Add to the scores of part p on a level what its child c adds; return it for no part p."""
    tree, space, m = data.tree, data.space, data.space.image[i]
    n_templates, n_parts = space.heights.shape[0], tree.parents.shape[0]
    own, count = tree.firsts[c], tree.firsts[c + 1] - tree.firsts[c]
    hidden = tables.hidden[number * n_parts + c]
    best, weights = tables.best, data.at + tree.pairs[c]
    for a in range(tree.firsts[p], tree.firsts[p + 1]):
        nowhere = work[weights + count] + hidden
        for k in range(size):
            best[k] = nowhere
        for s in range(count):
            pair, first = np.float64(work[weights + s]), first_window(space, m, own + s, number)
            reached = tables.reached[first : first + size]
            for k in range(size):
                best[k] = max(best[k], pair + reached[k])
        first = first_window(space, m, a, number)
        scores = tables.scores[first : first + size]
        for k in range(size):
            scores[k] += best[k]
        weights += count + 1
    free = work[weights + count] + hidden
    for s in range(count):
        free = max(free, work[weights + s] + tables.tops[number * n_templates + own + s])
    return free


@helper
def forget_counts(tables):
    """Begin anew to count which aspects are chosen."""
    for k in range(tables.counts.shape[0]):
        tables.counts[k] = 0


@helper
def fill_tables(data, i, work, loss_weight):
    """The way up, on all levels."""
    tables = _tables(data, i, work)
    tree, space, m = data.tree, data.space, data.space.image[i]
    n_templates, n_parts = space.heights.shape[0], tree.parents.shape[0]
    for number in range(space.levels.starts[m + 1] - space.levels.starts[m]):
        level = space.levels.starts[m] + number
        shape = grid_of(space, level)
        size = shape[0] * shape[1]
        for q in range(n_parts - 1, -1, -1):
            p = tree.order[q]
            for y in range(shape[0]):
                for x in range(shape[1]):
                    loss = place_loss(data, i, p, level, y, x)
                    tables.losses[y * shape[1] + x] = loss_weight * loss
            for t in range(tree.firsts[p], tree.firsts[p + 1]):
                first = first_window(space, m, t, number)
                for k in range(size):
                    tables.scores[first + k] = work[first + k] + tables.losses[k]
            hidden = work[data.at + p] + loss_weight * hidden_loss(data, i, p)
            for c in range(n_parts):
                if tree.parents[c] == p:
                    hidden += _add_child(data, i, work, tables, number, p, c, size)
            tables.hidden[number * n_parts + p] = hidden
            for t in range(tree.firsts[p], tree.firsts[p + 1]):
                first, top, place = first_window(space, m, t, number), NOWHERE, 0
                for k in range(size):
                    if tables.scores[first + k] > top:
                        top, place = tables.scores[first + k], k
                tables.tops[number * n_templates + t] = top
                tables.top_places[number * n_templates + t] = place
                if q > 0 and size > 0:
                    _transform(data, i, work, tables, t, first, shape)
    forget_counts(tables)
    return tables


@helper
def _descend(data, i, work, tables, number, state, place, label):
    """The way back from an aspect and a place of the root, which counts what it chooses.

    Of the aspects that were chosen least often that of highest score is taken.
    """
    tree, space, m = data.tree, data.space, data.space.image[i]
    n_templates, n_parts = space.heights.shape[0], tree.parents.shape[0]
    for q in range(n_parts):
        p = tree.order[q]
        first, count = tree.firsts[p], tree.firsts[p + 1] - tree.firsts[p]
        if q > 0:
            above = tree.parents[p]
            aspect = state_of(data, i, above, label[above])
            weights = data.at + tree.pairs[p] + aspect * (count + 1)
            from_place = -1
            if label[above] != INVISIBLE:
                from_place = label[above] - first_window(
                    space, m, tree.firsts[above] + aspect, number
                )
            state, place, fewest, top = -1, 0, 0, 0.0
            for s in range(count + 1):
                at = number * n_templates + first + s
                value, where = np.float64(work[weights + s]), 0
                if s == count:
                    value += tables.hidden[number * n_parts + p]
                elif from_place < 0:
                    value += tables.tops[at]
                    where = tables.top_places[at]
                else:
                    k = first_window(space, m, first + s, number) + from_place
                    value += tables.reached[k]
                    where = tables.places[k]
                chosen = tables.counts[first + p + s]
                fewer = chosen < fewest or (chosen == fewest and value > top)
                if value > _ANYWHERE and (state < 0 or fewer):
                    state, place, fewest, top = s, where, chosen, value
        label[p] = INVISIBLE
        if state < count:
            label[p] = first_window(space, m, first + state, number) + place
        tables.counts[first + p + state] += 1


@helper
def best_root(data, i, work, tables, label):
    """Write the best label from the root on; return what it scores, or that there is none.

    Of the aspects of the root that were chosen least often and have places left, that of the best
    place is taken.
    """
    tree, space, m = data.tree, data.space, data.space.image[i]
    n_parts, root = tree.parents.shape[0], tree.order[0]
    first, count = tree.firsts[root], tree.firsts[root + 1] - tree.firsts[root]
    state, level, place, fewest, best = -1, 0, 0, 0, NOWHERE
    for s in range(count + 1):
        top, number, where = NOWHERE, 0, 0
        for n in range(space.levels.starts[m + 1] - space.levels.starts[m]):
            if s == count:
                if tables.hidden[n * n_parts + root] > top:
                    top, number = tables.hidden[n * n_parts + root], n
                continue
            begin = first_window(space, m, first + s, n)
            for k in range(begin, first_window(space, m, first + s, n + 1)):
                if tables.scores[k] > top:
                    top, number, where = tables.scores[k], n, k - begin
        chosen = tables.counts[first + root + s]
        fewer = chosen < fewest or (chosen == fewest and top > best)
        if top > _ANYWHERE and (state < 0 or fewer):
            state, level, place, fewest, best = s, number, where, chosen, top
    if state >= 0:
        _descend(data, i, work, tables, level, state, place, label)
    return best


@helper
def leave_out(data, i, tables, label, first, last):
    """Let no later label have the root of this one, nor a window that overlaps it by too much.

    Of the windows of templates first..last - 1 of the root.
    """
    tree, space, m = data.tree, data.space, data.space.image[i]
    n_parts, root = tree.parents.shape[0], tree.order[0]
    levels = space.levels.starts[m + 1] - space.levels.starts[m]
    if label[root] == INVISIBLE:
        for n in range(levels):
            tables.hidden[n * n_parts + root] = NOWHERE
        return
    _t, at, y, x = place_of(space, m, label[root])
    height, width = space.heights[0], space.widths[0]
    step_x, step_y = space.levels.steps[at, 0], space.levels.steps[at, 1]
    left, top = (x - space.margin) * step_x, (y - space.margin) * step_y
    own = (left, top, left + width * step_x, top + height * step_y)
    for n in range(levels):
        level = space.levels.starts[m] + n
        step_x, step_y = space.levels.steps[level, 0], space.levels.steps[level, 1]
        rows, columns = grid_of(space, level)
        for r in range(rows):
            top = (r - space.margin) * step_y
            for c in range(columns):
                left = (c - space.margin) * step_x
                other = (left, top, left + width * step_x, top + height * step_y)
                if overlap_of(own, other) > data.suppression:
                    for t in range(first, last):
                        k = first_window(space, m, t, n) + r * columns + c
                        tables.scores[k] = NOWHERE
    tables.scores[label[root]] = NOWHERE


@helper
def leave_out_levels(data, i, tables, kept):
    """Let no label have its root on another level than `kept`, counted among those of all images.

    Nor be invisible.
    """
    tree, space, m = data.tree, data.space, data.space.image[i]
    n_parts, root = tree.parents.shape[0], tree.order[0]
    for n in range(space.levels.starts[m + 1] - space.levels.starts[m]):
        tables.hidden[n * n_parts + root] = NOWHERE
        if space.levels.starts[m] + n != kept:
            for t in range(tree.firsts[root], tree.firsts[root + 1]):
                for k in range(first_window(space, m, t, n), first_window(space, m, t, n + 1)):
                    tables.scores[k] = NOWHERE
