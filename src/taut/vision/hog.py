"""Histograms of oriented gradients of an image at several sizes."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from taut.checks import check_flag, check_number
from taut.compiled.jit import helper, kernel
from taut.errors import InvalidData, InvalidType
from taut.vision.pyramid import Pyramid
from taut.vision.resizing import check_image, planes_of, resized

DIRECTIONS = 18
#: Bins of a histogram: the directions, and straight up and straight down, which lie between two.
BINS = DIRECTIONS + 2
GRADIENT_CHANNELS = DIRECTIONS + DIRECTIONS // 2 + 4
COLOUR_CHANNELS = 6
#: What 255 stands for. Directions end at 0.4 and halves of brightness at 0.5.
_CEILING = 0.5
_LEAST_STEP = 1.01
_MOST_SCALES = 2000  # more than steps of 1.01 from the largest image to nothing
_LONGEST = 2**15  # pixels of a side of a resized image


@dataclass(frozen=True)
class HogPyramid:
    """Histograms of oriented gradients, and colours, of an image at several sizes.

    At each scale the image is resized to a whole number of cells in each direction, whatever that
    does to its aspect, so that no rim is lost and the map of the mirror image is the mirrored map.
    A cell has 31 channels of gradients, each between 0 and 0.5:

    - 18: how much gradient there is in each direction of a whole turn,
    - 9: the same of lines, where opposite directions are one,
    - 4: the sum over directions, by which of the four blocks around the cell is the unit of
      contrast.

    With `colour` 6 follow: how much the mean of the cell is lighter and darker than mid grey, more
    red than green and more green than red, more yellow than blue and more blue than yellow, with 1
    for black to white and no more than 0.5. So zeros in all channels are mid grey without
    gradients, and that is what the cells of the margin are: empty.

    Parameters
    ----------
    cell : int, default=8
        Height and width of a cell in pixels of the resized image.
    scales : array-like of float, optional
        Factors by which the image is resized, above 1 for objects that are smaller than a template.
        By default `largest` and down from there by `step` as long as `fewest` allows.
    margin : int, default=0
        Empty cells on each side of a map.
    colour : bool, default=True
        Whether there are channels of colour.
    step : float, default=2 ** 0.25
        Factor from one scale to the next.
    largest : float, default=1
        The largest scale.
    fewest : int, default=3
        Cells that a map has at least in each direction, without the margin. Smaller scales are left
        out.
    stretches : array-like of float, default=(1,)
        At each scale the image is resized once for each of these, to a height that is larger, and a
        width that is smaller, by the root of it. So windows of one shape hold boxes of several.

    References
    ----------
    P. F. Felzenszwalb, R. B. Girshick, D. McAllester and D. Ramanan. Object detection with
    discriminatively trained part-based models. PAMI 2010.

    Examples
    --------
    >>> image = np.zeros((48, 64, 3), dtype=np.uint8)
    >>> pyramid = HogPyramid(margin=1).extract(image)
    >>> pyramid.shapes.tolist()
    [[8, 10], [7, 9], [6, 8], [6, 7], [5, 6], [5, 5]]
    >>> pyramid.steps[0]
    array([8., 8.])
    """

    cell: int = 8
    scales: Any = None
    margin: int = 0
    colour: bool = True
    step: float = 2.0**0.25
    largest: float = 1.0
    fewest: int = 3
    stretches: Any = (1.0,)

    def __post_init__(self) -> None:
        check_count("cell", self.cell, 2)
        check_count("margin", self.margin, 0)
        check_count("fewest", self.fewest, 1)
        check_flag("colour", self.colour)
        check_number("step", self.step)
        if not _LEAST_STEP <= self.step < math.inf:
            raise InvalidData(
                f"step = {self.step}: give the factor between two scales, at least {_LEAST_STEP}"
            )
        check_number("largest", self.largest)
        if not 0.0 < self.largest < math.inf:
            raise InvalidData(f"largest = {self.largest}: give a scale above 0")
        if self.scales is not None:
            object.__setattr__(self, "scales", _as_factors("scales", self.scales))
        object.__setattr__(self, "stretches", _as_factors("stretches", self.stretches))

    @property
    def n_channels(self) -> int:
        """How many channels a cell has."""
        return GRADIENT_CHANNELS + COLOUR_CHANNELS * bool(self.colour)

    @property
    def mirror(self) -> np.ndarray:
        """Which channel each is in the mirrored image."""
        turned = (DIRECTIONS // 2 - np.arange(DIRECTIONS)) % DIRECTIONS
        lines = DIRECTIONS + turned[: DIRECTIONS // 2] % (DIRECTIONS // 2)
        blocks = DIRECTIONS + DIRECTIONS // 2 + np.array([1, 0, 3, 2])
        colours = np.arange(GRADIENT_CHANNELS, self.n_channels)
        return np.concatenate([turned, lines, blocks, colours]).astype(np.int32)

    def extract(self, image: np.ndarray) -> Pyramid:
        """Extract the features of an image.

        Parameters
        ----------
        image : ndarray of uint8, shape (height, width, 3)
            Red, green and blue.

        Returns
        -------
        Pyramid
            Of bytes.

        Raises
        ------
        InvalidData
            It is no such image, or too small for `fewest` cells at any scale.
        """
        image = check_image(image)
        height, width = image.shape[:2]
        grids = self._grids(height, width)
        rows, columns = grids.T
        shapes = (grids + 2 * self.margin).astype(np.int32)
        ends = np.cumsum(shapes.prod(axis=1, dtype=np.int64))
        cells = np.zeros((ends[-1], self.n_channels), dtype=np.uint8)
        levels = np.split(cells, ends[:-1])
        room = _Room(int(rows.max()), int(columns.max()), self.cell)
        planes = planes_of(image)
        made = [planes]
        # From the largest level to the smallest: each is made of the smallest one that has twice
        # its size, or nearly.
        for level in np.argsort(-rows * columns, kind="stable"):
            high, wide = rows[level] * self.cell, columns[level] * self.cell
            fitting = [p for p in made if p.shape[1] >= 1.9 * high and p.shape[2] >= 1.9 * wide]
            source = min(fitting, key=np.size, default=planes)
            made.append(resized(source, int(high), int(wide)))
            room.describe(made[-1], self, levels[level])
        steps = np.stack([width / columns, height / rows], axis=1)
        size = np.array([width, height], dtype=np.float64)
        return Pyramid(
            cells, shapes, steps, size, self.margin, _CEILING / np.iinfo(np.uint8).max, self.mirror
        )

    def _grids(self, height: int, width: int) -> np.ndarray:
        """Rows and columns of cells of each level, without margins."""
        grids = self._all_grids(height, width)
        large = (grids >= self.fewest).all(axis=1)
        if not large.any():
            raise InvalidData(
                f"the image of {width} x {height} pixels has fewer than {self.fewest} cells of "
                f"{self.cell} pixels in a direction at every scale; leave it out, or give a "
                "larger one, larger scales or fewer cells"
            )
        longest = grids.max() * self.cell
        if longest > _LONGEST:
            raise InvalidData(
                f"at the largest scale the image of {width} x {height} pixels has {longest:g} "
                f"pixels on a side, more than {_LONGEST}; give smaller scales"
            )
        return grids[large].astype(np.int64)

    def has_cells(self, height: int, width: int) -> bool:
        """Whether images of this size have `fewest` cells in each direction at some scale."""
        return bool((self._all_grids(height, width) >= self.fewest).all(axis=1).any())

    def _all_grids(self, height: int, width: int) -> np.ndarray:
        """Rows and columns of cells at each scale and stretch, however few."""
        scales = self.scales
        if scales is None:
            scales = self.largest * self.step ** -np.arange(_MOST_SCALES, dtype=np.float64)
        roots = np.sqrt(self.stretches)
        sides = np.stack([height * roots, width / roots], axis=1)
        with np.errstate(over="ignore"):
            grids = np.floor(np.multiply.outer(scales, sides) / self.cell + 0.5)
        return grids.reshape(-1, 2)


def check_count(name: str, value: Any, low: int) -> None:
    """Refuse what is no whole number, or below the least that there may be."""
    if not isinstance(value, int | np.integer) or isinstance(value, bool):
        raise InvalidType(f"{name} = {value!r}: give a whole number")
    if value < low:
        raise InvalidData(f"{name} = {value}: give at least {low}")


def _as_factors(name: str, given: Any) -> tuple[float, ...]:
    """Factors of sizes, or InvalidData."""
    factors = np.atleast_1d(np.asarray(given, dtype=np.float64))
    usable = factors.ndim == 1 and len(factors) and np.isfinite(factors).all()
    if not usable or factors.min() <= 0.0:
        raise InvalidData(f"{name} = {given!r:.200}: give at least one factor, finite and above 0")
    return tuple(factors.tolist())


class _Room:
    """Arrays that the kernels work in, large enough for all levels of an image."""

    def __init__(self, rows: int, columns: int, cell: int) -> None:
        width = columns * cell
        self.votes = np.empty((rows + 2) * (columns + 2) * BINS, dtype=np.float32)
        self.sums = np.empty((3, columns), dtype=np.float32)
        self.energy = np.empty((rows + 2) * (columns + 2), dtype=np.float32)
        self.line = np.empty((columns + 2) * BINS, dtype=np.float32)
        self.gradients = np.empty(width, dtype=np.float32)
        self.directions = np.empty(width, dtype=np.int32)

    def describe(self, planes: np.ndarray, settings: HogPyramid, out: np.ndarray) -> None:
        """Write the features of a level's planes into its cells."""
        cell, margin = settings.cell, settings.margin
        rows, columns = planes.shape[1] // cell, planes.shape[2] // cell
        n = (rows + 2) * (columns + 2)
        votes = self.votes[: n * BINS].reshape(rows + 2, -1)
        energy = self.energy[:n].reshape(rows + 2, -1)
        vote(planes, cell, bins(), self.gradients, self.directions, self.line, votes)
        place = out.reshape(rows + 2 * margin, columns + 2 * margin, -1)
        inside = place[margin : margin + rows, margin : margin + columns]
        scale = np.float32(np.iinfo(np.uint8).max / _CEILING)
        _normalise(votes, energy, scale, inside)
        if settings.colour:
            _average(planes, cell, self.directions, self.sums, scale, inside)


@functools.cache
def bins() -> np.ndarray:
    """The bin of each gradient of bytes, by 511 (dy + 255) + dx + 255.

    Bin k is the direction at 20 k degrees. Gradients straight up and down lie between two of them,
    and have bins of their own, which are shared out: so no side is preferred.
    """
    steps = np.arange(-255, 256)
    dy, dx = np.meshgrid(steps, steps, indexing="ij")
    turns = np.arctan2(dy, dx) / (2.0 * np.pi) * DIRECTIONS
    numbers = np.floor(turns + 0.5).astype(np.int64) % DIRECTIONS
    numbers[(dx == 0) & (dy > 0)] = DIRECTIONS
    numbers[(dx == 0) & (dy < 0)] = DIRECTIONS + 1
    return numbers.astype(np.uint8).ravel()


@helper
def _differentiate(planes, y, gradients, directions):
    """The gradient of each pixel of a row in the colour in which it is largest."""
    for c in range(3):
        above, row, below = planes[c, y - 1], planes[c, y], planes[c, y + 1]
        for x in range(1, row.shape[0] - 1):
            dx = np.int32(row[x + 1]) - np.int32(row[x - 1])
            dy = np.int32(below[x]) - np.int32(above[x])
            length = math.sqrt(np.float32(dx * dx + dy * dy))
            number = np.int32(511) * dy + dx + np.int32(255 * 512)
            larger = c == 0 or length > gradients[x]
            gradients[x] = length if larger else gradients[x]
            directions[x] = number if larger else directions[x]


@kernel
def vote(planes, cell, numbers, gradients, directions, line, votes):
    """Let each pixel vote for its direction in the four cells around it, by how near they are.

    `votes` has a row and a column of cells on each side that are not in the image. The pixels at
    the edge of the image have no gradient. The other arrays are room to work in.
    """
    one = np.float32(1.0)
    for row in range(votes.shape[0]):
        for k in range(votes.shape[1]):
            votes[row, k] = 0.0
    for k in range(votes.shape[1]):
        line[k] = 0.0
    end = planes.shape[2] - 1
    middle = np.float32(0.5 if cell % 2 == 0 else 0.0)
    inverse = one / np.float32(cell)
    for y in range(1, planes.shape[1] - 1):
        _differentiate(planes, y, gradients, directions)
        # All pixels between the centres of two neighbours vote in these.
        for column in range(votes.shape[1] // BINS - 1):
            first = (column - 1) * cell + cell // 2
            for x in range(max(first, 1), min(first + cell, end)):
                share = (np.float32(x - first) + middle) * inverse
                at = column * BINS + numbers[directions[x]]
                line[at] += (one - share) * gradients[x]
                line[at + BINS] += share * gradients[x]
        place = (y + 0.5) / cell + 0.5
        row = int(place)
        share = np.float32(place - row)
        for k in range(votes.shape[1]):
            votes[row, k] += (one - share) * line[k]
            votes[row + 1, k] += share * line[k]
            line[k] = 0.0


@helper
def _share_out(votes, row, column):
    """Give the votes for straight up and down to the two directions that they lie between."""
    at = column * BINS
    half = np.float32(0.5)
    for turn in range(2):
        between = half * votes[row, at + DIRECTIONS + turn]
        below = at + turn * (DIRECTIONS // 2) + DIRECTIONS // 4
        votes[row, below] += between
        votes[row, below + 1] += between


@helper
def _byte(value):
    """A number >= 0 rounded to a byte."""
    return np.uint8(np.int32(min(value, np.float32(255.0)) + np.float32(0.5)))


@kernel
def _normalise(votes, energy, scale, out):
    """Divide the votes of each cell by the contrast of the four blocks of 2 x 2 cells around it."""
    half, clip, texture = np.float32(0.5), np.float32(0.2), np.float32(0.2357)
    one = np.float32(1.0)
    n_rows, n_columns = out.shape[0], out.shape[1]
    lines = DIRECTIONS // 2
    for row in range(1, n_rows + 1):
        for column in range(1, n_columns + 1):
            _share_out(votes, row, column)
            total = np.float32(0.0)
            at = column * BINS
            for k in range(lines):
                both = votes[row, at + k] + votes[row, at + lines + k]
                total += both * both
            energy[row, column] = total
        energy[row, 0] = energy[row, 1]
        energy[row, n_columns + 1] = energy[row, n_columns]
    for column in range(n_columns + 2):
        energy[0, column] = energy[1, column]
        energy[n_rows + 1, column] = energy[n_rows, column]
    for row in range(1, n_rows + 1):
        for column in range(1, n_columns + 1):
            at = column * BINS
            cell = out[row - 1, column - 1]
            near = energy[row - 1 : row + 2, column - 1 : column + 2]
            above = near[0, 1] + near[1, 1] + one
            below = near[2, 1] + near[1, 1] + one
            a = one / math.sqrt(below + near[2, 2] + near[1, 2])
            b = one / math.sqrt(below + near[2, 0] + near[1, 0])
            c = one / math.sqrt(above + near[0, 2] + near[1, 2])
            d = one / math.sqrt(above + near[0, 0] + near[1, 0])
            sum_a = sum_b = sum_c = sum_d = np.float32(0.0)
            for k in range(DIRECTIONS):
                v = votes[row, at + k]
                in_a, in_b = min(v * a, clip), min(v * b, clip)
                in_c, in_d = min(v * c, clip), min(v * d, clip)
                sum_a += in_a
                sum_b += in_b
                sum_c += in_c
                sum_d += in_d
                value = half * (in_a + in_b + in_c + in_d)
                cell[k] = _byte(value * scale)
            for k in range(lines):
                v = votes[row, at + k] + votes[row, at + lines + k]
                value = min(v * a, clip) + min(v * b, clip) + min(v * c, clip) + min(v * d, clip)
                cell[DIRECTIONS + k] = _byte(half * value * scale)
            first = DIRECTIONS + lines
            cell[first] = _byte(texture * sum_a * scale)
            cell[first + 1] = _byte(texture * sum_b * scale)
            cell[first + 2] = _byte(texture * sum_c * scale)
            cell[first + 3] = _byte(texture * sum_d * scale)


@helper
def _write_halves(cell, k, value, scale):
    """Write how far a number is above zero, and how far below."""
    zero = np.float32(0.0)
    cell[k] = _byte(max(value * scale, zero))
    cell[k + 1] = _byte(max(-value * scale, zero))


@kernel
def _average(planes, cell, line, sums, scale, out):
    """Write the colours of each cell.

    `line` is room for a number of each column of pixels, `sums` for three of each of cells.
    """
    half, third = np.float32(0.5), np.float32(1.0 / 3.0)
    share = np.float32(1.0 / (255.0 * cell * cell))
    for row in range(out.shape[0]):
        for c in range(3):
            plane = planes[c]
            for x in range(plane.shape[1]):
                line[x] = 0
            for y in range(row * cell, (row + 1) * cell):
                pixels = plane[y]
                for x in range(pixels.shape[0]):
                    line[x] += np.int32(pixels[x])
            for column in range(out.shape[1]):
                total = np.int32(0)
                for x in range(column * cell, (column + 1) * cell):
                    total += line[x]
                sums[c, column] = np.float32(total) * share
        for column in range(out.shape[1]):
            red, green, blue = sums[0, column], sums[1, column], sums[2, column]
            into = out[row, column]
            first = GRADIENT_CHANNELS
            _write_halves(into, first, (red + green + blue) * third - half, scale)
            _write_halves(into, first + 2, red - green, scale)
            _write_halves(into, first + 4, (red + green) * half - blue, scale)
