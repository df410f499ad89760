"""Windows of feature pyramids: a potential for each, the score of a template laid upon it.

w has the weights of all cells of all templates, a bias for each template, and piecewise linear
functions, for each class, of where a window lies in the image and how large it is. The windows of
an image are numbered template by template, level by level, row by row:

    potential   bias + geometry + sum over the cells of the template of <weights, features>

`pull` computes all of them: a product of the templates' cells with the cells of a level, and sums
of its shifted rows. Planes that are known ask for single windows (`single`), which is much less
work. Where an image is mirrored, its cells are not stored again: templates are mirrored instead.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from taut.compiled.jit import helper, kernel, specialise
from taut.data.arrays import offsets_of, one_array, ranges
from taut.errors import InvalidData
from taut.spaces.features import Features
from taut.spaces.labels import PUSHES, SINGLES, TOUCHES
from taut.spaces.linear import SpaceFunctions, through_weights
from taut.spaces.scaling import act
from taut.vision.boxes import mirrored_edges
from taut.vision.pyramid import Pyramid
from taut.vision.templates import Templates

KNOTS = 6  # of each piecewise linear function
MEASURES = 6  # left, top, right, bottom, size in the image, size in pixels
SHARED_OF_CLASS = KNOTS * MEASURES  # weights of its functions of place and size
_SMALLEST = 20.0  # pixels, the square root of an area where the last measure begins
_OCTAVES = 4.0  # that it covers
_ROUNDING = 1e-9  # by which the area of a window may differ from that of the template


class _Levels(NamedTuple):
    """Levels of all images, one after the other, those of image m from starts[m] on."""

    starts: np.ndarray
    shapes: np.ndarray
    steps: np.ndarray
    cells: np.ndarray  # where the cells of each level begin


class WindowSpace(NamedTuple):
    """What compiled code knows of the templates, the images and the blocks."""

    cells: np.ndarray
    unit: float
    mirror: np.ndarray
    margin: int
    levels: _Levels
    sizes: np.ndarray  # of images in pixels
    heights: np.ndarray  # of templates, borders included
    widths: np.ndarray
    firsts: np.ndarray  # of each template among the cells of all
    classes: np.ndarray
    border: int
    bias: float
    geometry: float
    windows: np.ndarray  # number of the first window of each template and level, image by image
    image: np.ndarray  # of each block
    mirrored: np.ndarray  # whether each block is a mirrored image
    most: int  # windows of an image: where the room that `pull` works in begins
    largest: int  # cells of a level


@helper
def first_window(space, m, t, number):
    """Number of the first window of a template and a level of image m."""
    n_levels = space.levels.starts[m + 1] - space.levels.starts[m]
    templates = space.heights.shape[0]
    return space.windows[templates * space.levels.starts[m] + m + t * n_levels + number]


@helper
def count_windows(space, i):
    """How many windows block i has."""
    return first_window(space, space.image[i], space.heights.shape[0], 0)


@helper
def place_of(space, m, j):
    """Template, level among those of all images, row and column of window j of image m."""
    n_levels = space.levels.starts[m + 1] - space.levels.starts[m]
    own = space.heights.shape[0] * space.levels.starts[m] + m
    low, high = 0, space.heights.shape[0] * n_levels
    while high - low > 1:
        middle = (low + high) // 2
        if space.windows[own + middle] <= j:
            low = middle
        else:
            high = middle
    t, level = low // n_levels, space.levels.starts[m] + low % n_levels
    columns = space.levels.shapes[level, 1] - space.widths[t] + 1
    k = j - space.windows[own + low]
    return t, level, k // columns, k % columns


@helper
def _span(first, count, margin, border, step, size):
    """Where a window begins and ends in one direction, within the image."""
    begin = max((first - margin + border) * step, 0.0)
    end = min((first - margin + count - border) * step, size)
    return min(begin, size), max(end, 0.0)


@helper
def edges_of(space, i, j):
    """Left, top, right and bottom edge of window j of block i, in the image as it is stored."""
    m = space.image[i]
    t, level, y, x = place_of(space, m, j)
    left, right = _span(
        x, space.widths[t], space.margin, space.border, space.levels.steps[level, 0],
        space.sizes[m, 0],
    )  # fmt: skip
    top, bottom = _span(
        y, space.heights[t], space.margin, space.border, space.levels.steps[level, 1],
        space.sizes[m, 1],
    )  # fmt: skip
    return left, top, right, bottom


@helper
def _knot(value):
    """The knot below a value in [0, 1], and how far beyond it the value is."""
    scaled = min(max(value, 0.0), 0.9999) * (KNOTS - 1)
    knot = int(scaled)
    return knot, scaled - knot


@helper
def _size_measures(area, width, height):
    """The two measures of a box that depend on its area."""
    root = math.sqrt(max(area, 1.0))
    return root / math.sqrt(width * height), math.log2(root / _SMALLEST) / _OCTAVES


@helper
def _read(w, start, value):
    """A piecewise linear function of a value, whose weights begin at `start`."""
    knot, share = _knot(value)
    return w[start + knot] * (1.0 - share) + w[start + knot + 1] * share


@helper
def _write(w, start, value, amount):
    knot, share = _knot(value)
    w[start + knot] += w.dtype.type(amount * (1.0 - share))
    w[start + knot + 1] += w.dtype.type(amount * share)


@helper
def _measures(space, i, j):
    """The six measures of window j, mirrored where block i is."""
    m = space.image[i]
    width, height = space.sizes[m, 0], space.sizes[m, 1]
    left, top, right, bottom = edges_of(space, i, j)
    large, pixels = _size_measures((right - left) * (bottom - top), width, height)
    if space.mirrored[i]:
        left, right = width - right, width - left
    return left / width, top / height, right / width, bottom / height, large, pixels


@helper
def _bias(space, t):
    """Where in w the bias of a template is."""
    return space.firsts[space.heights.shape[0]] * space.cells.shape[1] + t


@helper
def _geometry(space, t):
    """Where in w the functions of place and size of the class of a template begin."""
    return _bias(space, space.heights.shape[0]) + SHARED_OF_CLASS * space.classes[t]


@helper
def _source(space, i, t, dy, dx):
    """Which cell of a template lies upon row dy and column dx of a window."""
    column = space.widths[t] - 1 - dx if space.mirrored[i] else dx
    return space.firsts[t] + dy * space.widths[t] + column


def _score_cells(space, i, w, theta, room_at):
    """Write bias and products of cells of all windows; `theta` is room from `room_at` on.

    Products have the precision of theta: single in visits and answers, double in bounds.
    """
    m, channels, templates = space.image[i], space.cells.shape[1], space.heights.shape[0]
    n_cells = space.firsts[templates]
    unit = theta.dtype.type(space.unit)
    room = theta[room_at:]
    at = n_cells * channels
    weights = room[:at].reshape((n_cells, channels))
    for t in range(templates):
        for dy in range(space.heights[t]):
            for dx in range(space.widths[t]):
                k = space.firsts[t] + dy * space.widths[t] + dx
                source = _source(space, i, t, dy, dx) * channels
                for c in range(channels):
                    q = space.mirror[c] if space.mirrored[i] else c
                    weights[k, c] = unit * theta.dtype.type(w[source + q])
    products_at = at + space.largest * channels
    widest = 0
    for t in range(templates):
        widest = max(widest, space.firsts[t + 1] - space.firsts[t])
    sums_at = room_at + products_at + space.largest * widest
    for level in range(space.levels.starts[m], space.levels.starts[m + 1]):
        rows, columns = space.levels.shapes[level, 0], space.levels.shapes[level, 1]
        n, first = rows * columns, space.levels.cells[level]
        values = room[at : at + n * channels].reshape((n, channels))
        for r in range(n):
            for c in range(channels):
                values[r, c] = space.cells[first + r, c]
        for t in range(templates):
            ny, nx = rows - space.heights[t] + 1, columns - space.widths[t] + 1
            if ny <= 0 or nx <= 0:
                continue
            begin, end = space.firsts[t], space.firsts[t + 1]
            products = room[products_at : products_at + (end - begin) * n].reshape((end - begin, n))
            np.dot(weights[begin:end], values.T, products)
            length = (ny - 1) * columns + nx
            sums = theta[sums_at : sums_at + length]
            sums[:] = w[_bias(space, t)] * theta.dtype.type(space.bias)
            for dy in range(space.heights[t]):
                for dx in range(space.widths[t]):
                    shift = dy * columns + dx
                    _add(products[dy * space.widths[t] + dx], shift, sums)
            out = first_window(space, m, t, level - space.levels.starts[m])
            for y in range(ny):
                for x in range(nx):
                    theta[out + y * nx + x] = sums[y * columns + x]


score_cells = helper(_score_cells, True)


def _pull(space, i, w, theta):
    score_cells(space, i, w, theta, space.most)
    m, room = space.image[i], theta[space.most :]
    for t in range(space.heights.shape[0]):
        for level in range(space.levels.starts[m], space.levels.starts[m + 1]):
            number = t * (space.levels.starts[m + 1] - space.levels.starts[m])
            number += level - space.levels.starts[m]
            own = space.heights.shape[0] * space.levels.starts[m] + m + number
            first, last = space.windows[own], space.windows[own + 1]
            if last > first:
                _add_geometry(space, i, w, t, level, theta[first:last], room)


@helper
def _add(row, shift, sums):
    for p in range(sums.shape[0]):
        sums[p] += row[shift + p]


@helper
def _add_geometry(space, i, w, t, level, out, room):
    """Add the functions of place and size to the windows of a template and level.

    Those of the edges are sums of one for rows and one for columns; `room` is for these.
    """
    m = space.image[i]
    width, height = space.sizes[m, 0], space.sizes[m, 1]
    nx = space.levels.shapes[level, 1] - space.widths[t] + 1
    ny = space.levels.shapes[level, 0] - space.heights[t] + 1
    start, g = _geometry(space, t), space.geometry
    step_x, step_y = space.levels.steps[level, 0], space.levels.steps[level, 1]
    full = (space.widths[t] - 2 * space.border) * step_x
    full *= (space.heights[t] - 2 * space.border) * step_y
    large, pixels = _size_measures(full, width, height)
    usual = _read(w, start + 4 * KNOTS, large) + _read(w, start + 5 * KNOTS, pixels)
    for x in range(nx):
        left, right = _span(x, space.widths[t], space.margin, space.border, step_x, width)
        if space.mirrored[i]:
            left, right = width - right, width - left
        room[x] = _read(w, start, left / width) + _read(w, start + 2 * KNOTS, right / width)
    for y in range(ny):
        top, bottom = _span(y, space.heights[t], space.margin, space.border, step_y, height)
        value = _read(w, start + KNOTS, top / height)
        value += _read(w, start + 3 * KNOTS, bottom / height)
        for x in range(nx):
            left, right = _span(x, space.widths[t], space.margin, space.border, step_x, width)
            area, size = (right - left) * (bottom - top), usual
            if area < (1.0 - _ROUNDING) * full:
                large, pixels = _size_measures(area, width, height)
                size = _read(w, start + 4 * KNOTS, large) + _read(w, start + 5 * KNOTS, pixels)
            out[y * nx + x] += out.dtype.type(g * (value + room[x] + size))


@helper
def _product(weights, cells):
    """The product of a row of a template with the cells under it."""
    total = weights.dtype.type(0.0)
    for k in range(cells.shape[0]):
        total += weights[k] * weights.dtype.type(cells[k])
    return total


@helper
def _mirrored_product(weights, cells, mirror):
    """The same where cells are those of the mirror image."""
    total, channels = weights.dtype.type(0.0), mirror.shape[0]
    for first in range(0, cells.shape[0], channels):
        own = cells.shape[0] - channels - first
        for c in range(channels):
            total += weights[own + mirror[c]] * weights.dtype.type(cells[first + c])
    return total


@helper
def _add_row(factor, cells, weights):
    """Add cells times a number to a row of a template."""
    for k in range(cells.shape[0]):
        weights[k] += factor * weights.dtype.type(cells[k])


@helper
def _add_mirrored_row(factor, cells, mirror, weights):
    """The same where cells are those of the mirror image."""
    channels = mirror.shape[0]
    for first in range(0, cells.shape[0], channels):
        own = cells.shape[0] - channels - first
        for c in range(channels):
            weights[own + mirror[c]] += factor * weights.dtype.type(cells[first + c])


@helper
def cells_alone(space, i, j, w):
    """Bias and products of the cells of window j of block i alone."""
    m, channels = space.image[i], space.cells.shape[1]
    t, level, y, x = place_of(space, m, j)
    cells, length = space.cells.reshape(space.cells.size), space.widths[t] * channels
    under = (space.levels.cells[level] + y * space.levels.shapes[level, 1] + x) * channels
    own, total = space.firsts[t] * channels, w.dtype.type(0.0)
    for _ in range(space.heights[t]):
        row, weights = cells[under : under + length], w[own : own + length]
        if space.mirrored[i]:
            total += _mirrored_product(weights, row, space.mirror)
        else:
            total += _product(weights, row)
        own += length
        under += space.levels.shapes[level, 1] * channels
    return space.unit * total + space.bias * w[_bias(space, t)]


def _single(space, i, j, w):
    """The potential of window j of block i alone."""
    score = cells_alone(space, i, j, w)
    start = _geometry(space, place_of(space, space.image[i], j)[0])
    measures = _measures(space, i, j)
    for q in range(MEASURES):
        score += space.geometry * _read(w, start + q * KNOTS, measures[q])
    return score


@helper
def touch_cells(space, t, action):
    """Act on the weights of the cells of a template and on its bias."""
    channels = space.cells.shape[1]
    act(action, space.firsts[t] * channels, space.firsts[t + 1] * channels)
    act(action, _bias(space, t), _bias(space, t) + 1)


def _touch_single(space, i, j, action):
    """Act on the weights that the potential of window j of block i reads."""
    t = place_of(space, space.image[i], j)[0]
    touch_cells(space, t, action)
    act(action, _geometry(space, t), _geometry(space, t) + SHARED_OF_CLASS)


SINGLES[WindowSpace] = _single
TOUCHES[WindowSpace] = _touch_single


@helper
def push_cells(space, i, j, amount, w):
    """Add the cells of window j of block i, and its bias, to w."""
    m, channels = space.image[i], space.cells.shape[1]
    t, level, y, x = place_of(space, m, j)
    cells, length = space.cells.reshape(space.cells.size), space.widths[t] * channels
    under = (space.levels.cells[level] + y * space.levels.shapes[level, 1] + x) * channels
    own, factor = space.firsts[t] * channels, w.dtype.type(amount * space.unit)
    for _ in range(space.heights[t]):
        row, weights = cells[under : under + length], w[own : own + length]
        if space.mirrored[i]:
            _add_mirrored_row(factor, row, space.mirror, weights)
        else:
            _add_row(factor, row, weights)
        own += length
        under += space.levels.shapes[level, 1] * channels
    w[_bias(space, t)] += w.dtype.type(amount * space.bias)


def _push_single(space, i, j, amount, w):
    """Add the features of window j of block i."""
    push_cells(space, i, j, amount, w)
    start = _geometry(space, place_of(space, space.image[i], j)[0])
    measures = _measures(space, i, j)
    for q in range(MEASURES):
        _write(w, start + q * KNOTS, measures[q], amount * space.geometry)


PUSHES[WindowSpace] = _push_single
_push_window = helper(_push_single)


def _push(space, i, s, size, least, w):
    for j in range(count_windows(space, i)):
        if abs(s[j]) > least:
            _push_window(space, i, j, s[j], w)


def _n_windows(space, i, s):
    return count_windows(space, i)


def ask_for_nothing(space, i):
    """Cells are read in the order of memory."""


def no_square(space, i):
    """Blocks have more than one row."""
    return 0.0


def touch_all(space, i, action):
    """Act on all weights."""
    act(action, 0, action.v.shape[0])


@functools.cache
def _functions() -> SpaceFunctions:
    """What compiled code does with w."""
    return SpaceFunctions(
        ask_for_nothing, _pull, _push, through_weights(_pull, _push), no_square,
        _n_windows, _n_windows, touch_all, single=_single,
    )  # fmt: skip


@kernel
def _write_edges(space, i, out):
    for j in range(out.shape[0]):
        out[j, 0], out[j, 1], out[j, 2], out[j, 3] = edges_of(space, i, j)


@kernel
def _write_cells(space, i, windows, out):
    """The cells that lie under the template of each window, mirrored where block i is."""
    m, channels = space.image[i], space.cells.shape[1]
    for k in range(windows.shape[0]):
        t, level, y, x = place_of(space, m, windows[k])
        columns, first = space.levels.shapes[level, 1], space.levels.cells[level]
        for dy in range(space.heights[t]):
            for dx in range(space.widths[t]):
                source = (_source(space, i, t, dy, dx) - space.firsts[t]) * channels
                cell = first + (y + dy) * columns + x + dx
                for c in range(channels):
                    q = space.mirror[c] if space.mirrored[i] else c
                    out[k, source + q] = space.unit * space.cells[cell, c]


@kernel
def _write_features(space, i, windows, out):
    for k in range(windows.shape[0]):
        _push_window(space, i, windows[k], 1.0, out[k])


def _scoring(functions):
    pull = functions.pull

    def score(space, i, w, work):
        pull(space, i, w, work)

    return score


class WindowFeatures(Features):
    """Features of the windows of images.

    Parameters
    ----------
    pyramids : sequence of Pyramid
        One for each block. Those that differ only in being mirrored, and share their cells, are
        kept once.
    templates : Templates
    dtype : type, default=float32
        Of w and of potentials while training.
    """

    def __init__(
        self, pyramids: Sequence[Pyramid], templates: Templates, dtype: type = np.float32
    ) -> None:
        self.templates = templates
        self.dtype = dtype
        first = pyramids[0]
        keys = [_image_of(p) for p in pyramids]
        owners = dict(zip(keys, pyramids, strict=True))
        numbers = {key: m for m, key in enumerate(owners)}
        images = list(owners.values())
        _check_alike(images)
        shapes = np.concatenate([p.shapes for p in images]).astype(np.int64)
        heights = templates.rows + 2 * templates.border
        widths = templates.columns + 2 * templates.border
        cells = one_array([p.cells for p in images])
        levels = _Levels(
            offsets_of([len(p.shapes) for p in images]),
            shapes,
            np.concatenate([p.steps for p in images]),
            offsets_of(shapes.prod(axis=1)),
        )
        self._lay_out(
            WindowSpace(
                cells, float(first.unit), first.mirror.astype(np.int64), int(first.margin), levels,
                np.array([p.size for p in images], dtype=np.float64),
                heights, widths, offsets_of(heights * widths), templates.classes,
                templates.border, float(templates.bias), float(templates.geometry),
                _first_windows(levels, heights, widths),
                np.array([numbers[key] for key in keys], dtype=np.int64),
                np.array([p.mirrored for p in pyramids]), 0, 0,
            )
        )  # fmt: skip

    def _lay_out(self, space: WindowSpace) -> None:
        """Have these images and blocks."""
        channels, n_cells = space.cells.shape[1], int(space.firsts[-1])
        n_templates = len(space.heights)
        counts = _window_counts(space)
        largest = int(space.levels.shapes.prod(axis=1).max())
        most = int(counts.max(initial=1))
        self.window_counts = counts[space.image]
        self._space = space._replace(most=most, largest=largest)
        self.n_features = n_cells * channels + n_templates + self._n_shared()
        self.size = -(-self.n_features // 16) * 16
        self.reads = self.size
        widest = int((space.heights * space.widths).max())
        room = n_cells * channels + largest * (channels + 1 + widest)
        self.n_potentials = most + max(room, most)

    def _n_shared(self) -> int:
        """How many weights follow those of the templates and their biases."""
        return SHARED_OF_CLASS * self.templates.n_classes

    def rounding(self, w: np.ndarray, dtype: type) -> float:
        """How far a potential that is computed in this precision may be off, at most."""
        cells = int((self._space.heights * self._space.widths).max())
        unit = 2.0 * (self._space.cells.shape[1] + cells + 2) * float(np.finfo(dtype).eps)
        return unit * float(np.linalg.norm(w)) * float(self.lengths().max())

    def view(self, data):
        """The space itself."""
        return self._space

    @property
    def space(self) -> WindowSpace:
        """What compiled code knows."""
        return self._space

    def functions(self, structure):
        """Those of windows."""
        return _functions()

    def edges(self, i: int, first: int | None = None) -> np.ndarray:
        """The box of each window of block i, or of the first ones, shape (n, 4)."""
        space, edges = self._space, self.stored_edges(i, first)
        if not space.mirrored[i]:
            return edges
        return mirrored_edges(edges, space.sizes[space.image[i], 0])

    def stored_edges(self, i: int, first: int | None = None) -> np.ndarray:
        """The same in the image whose cells are stored, where block i is its mirror image."""
        out = np.empty((self.window_counts[i] if first is None else first, 4))
        _write_edges(self._space, i, out)
        return out

    def scores(self, i: int, w: np.ndarray, work: np.ndarray) -> np.ndarray:
        """The potential of each window of block i, a view of `work`, which has room for them."""
        specialise(_scoring, self.functions(None), True)(self.view(()), i, w, work)
        return work[: self.window_counts[i]]

    def templates_at(self, i: int) -> np.ndarray:
        """The number of the template of each window of block i."""
        space = self._space
        m, n_templates = int(space.image[i]), len(space.heights)
        first, last = space.levels.starts[m], space.levels.starts[m + 1]
        begin = n_templates * first + m
        ends = space.windows[begin : begin + n_templates * (last - first) + 1]
        return np.repeat(np.repeat(np.arange(n_templates), last - first), np.diff(ends))

    def cells_under(self, i: int, windows: np.ndarray, out: np.ndarray) -> None:
        """Write the features under the template of some windows of one template, a row for each."""
        _write_cells(self._space, i, windows, out)

    def vectors(self, i: int, windows: np.ndarray) -> np.ndarray:
        """All features of some windows, in the layout of w."""
        out = np.zeros((len(windows), self.size))
        _write_features(self._space, i, windows, out)
        return out[:, : self.n_features]

    def lengths(self) -> np.ndarray:
        """A bound on the length of the features of any window of each block."""
        space = self._space
        squares = np.einsum("rc,rc->r", space.cells, space.cells, dtype=np.float64)
        starts = space.levels.cells[space.levels.starts[:-1]]
        most = np.maximum.reduceat(squares, starts)
        cells = int((space.heights * space.widths).max())
        rest = space.bias**2 + MEASURES * space.geometry**2
        return np.sqrt(cells * space.unit**2 * most + rest)[space.image]

    def take(self, blocks):
        """These blocks, with copies of their images alone."""
        space, levels = self._space, self._space.levels
        images, image = np.unique(space.image[blocks], return_inverse=True)
        n_levels = np.diff(levels.starts)[images]
        own = ranges(levels.starts[images], n_levels)
        first, last = levels.cells[levels.starts[images]], levels.cells[levels.starts[images + 1]]
        n_templates = len(space.heights)
        starts = n_templates * levels.starts[images] + images
        taken = copy.copy(self)
        taken._lay_out(
            space._replace(
                cells=space.cells[ranges(first, last - first)],
                levels=_Levels(
                    offsets_of(n_levels), levels.shapes[own], levels.steps[own],
                    offsets_of(levels.shapes[own].prod(axis=1)),
                ),
                sizes=space.sizes[images],
                windows=space.windows[ranges(starts, n_templates * n_levels + 1)],
                image=image.astype(np.int64),
                mirrored=space.mirrored[blocks],
            )
        )  # fmt: skip
        return taken


def _image_of(pyramid: Pyramid) -> tuple:
    """What is the same in an image and its mirror image, and in no other."""
    arrays = (pyramid.shapes, pyramid.steps, pyramid.size, pyramid.mirror)
    content = [(array.dtype.str, array.tobytes()) for array in map(np.asarray, arrays)]
    return id(pyramid.cells), *content, pyramid.margin, pyramid.unit


def _check_alike(pyramids: Sequence[Pyramid]) -> None:
    """Refuse images whose cells mean other things than those of the first image."""
    first = pyramids[0]
    for i, pyramid in enumerate(pyramids):
        for what, own, wanted in (
            ("channels", pyramid.cells.shape[1], first.cells.shape[1]),
            ("cells of margin", pyramid.margin, first.margin),
            ("for the unit of its numbers", pyramid.unit, first.unit),
            ("for its channels in the mirrored image", [*pyramid.mirror], [*first.mirror]),
        ):
            if own != wanted:
                raise InvalidData(
                    f"the features of image {i} have {own} {what}, and those of image 0 {wanted}: "
                    "extract all in the same way"
                )


def _first_windows(levels: _Levels, heights: np.ndarray, widths: np.ndarray) -> np.ndarray:
    """The number of the first window of each template and level, image by image, and their end."""
    found = []
    for m in range(len(levels.starts) - 1):
        shapes = levels.shapes[levels.starts[m] : levels.starts[m + 1]]
        rows = np.maximum(shapes[None, :, 0] - heights[:, None] + 1, 0)
        columns = np.maximum(shapes[None, :, 1] - widths[:, None] + 1, 0)
        found.append(offsets_of((rows * columns).ravel()))
    return np.concatenate(found)


def _window_counts(space: WindowSpace) -> np.ndarray:
    """How many windows each image has."""
    starts = space.levels.starts
    ends = len(space.heights) * starts[1:] + np.arange(len(starts) - 1)
    return space.windows[ends]
