"""One box of an image of visual words, or none: the best of all boxes, by branch and bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from taut.checks import check_choice, check_flag, check_number
from taut.compiled.jit import helper, view
from taut.data.arrays import offsets_of, take_runs
from taut.errors import InvalidData
from taut.inference.box_lengths import square_of
from taut.inference.box_scores import (
    WordImage,
    as_limits,
    as_words,
    check_vocabulary,
    draw_lines,
    integrate,
    n_cells_of,
    pull_words,
    push_words,
    room_of,
)
from taut.inference.box_search import NO_LIMIT, Goal, loss_of, search
from taut.inference.box_sets import SIZE, set_of
from taut.spaces.features import OwnFeatures
from taut.spaces.labels import Gather, part
from taut.structures.base import Blocks, CompiledStructure
from taut.vision.words import WordMap

Box = tuple[int, int, int, int]
_TURNED = [1, 0, 3, 2]  # searches have top, left, bottom, right


class WordBoxData(NamedTuple):
    """What the oracles read."""

    words: np.ndarray  # (all points, kinds), image by image
    starts: np.ndarray  # where the points of each image begin, and the last one's end
    shapes: np.ndarray  # rows and columns of each
    truth: np.ndarray  # (n, 4)
    squares: np.ndarray  # the tables of all images
    tables: np.ndarray  # where each begins, and the last one ends
    grains: np.ndarray
    fewest: np.ndarray
    limits: np.ndarray
    n_words: int
    levels: int
    divided: bool  # whether histograms are, by their length
    none: bool
    overlap: float


@view
def _image(data, i):
    """The image of block i, in compiled code."""
    first, last = data.starts[i], data.starts[i + 1]
    table, end = data.tables[i], data.tables[i + 1]
    return WordImage(
        data.words[first:last], data.shapes[i, 0], data.shapes[i, 1], data.n_words, data.levels,
        data.limits, data.squares[table:end], data.grains[i], data.fewest[i],
    )  # fmt: skip


def _found(data, i, work, loss_weight, found, values):
    """Write the best boxes of block i and what they are worth; how many there are."""
    image = _image(data, i)
    at = (4**data.levels - 1) // 3 * image.words.shape[0]
    integrate(image, work, work, at)
    goal = Goal(data.truth[i], loss_weight, data.none, data.overlap, -1, 0.0, 0.0, 0.0)
    return search(image, work, at, goal, NO_LIMIT, found, values)[0]


_best = helper(_found, True)


def _length(data, i, lines):
    """The length of the histogram of a box of block i, by its lines."""
    counts = np.zeros(data.n_words, np.int64)
    return math.sqrt(square_of(_image(data, i), lines, counts))


_length_of = helper(_length, True)


def _lines(levels, label):
    s, lines = np.empty(SIZE, np.int32), np.empty((4, 5), np.int64)
    set_of(label, s)
    draw_lines(s, levels, lines)
    return lines


_lines_of = helper(_lines, True)


def _walk(data, i, label, each):
    """Add up the parts of a label; see `WordBoxes.parts`."""
    if label[0] < 0:
        return 0.0
    lines, amount = _lines_of(data.levels, label), 1.0
    if data.divided:
        length = _length_of(data, i, lines)
        if length == 0.0:
            return 0.0
        amount = 1.0 / length
    width = data.shapes[i, 1]
    n_points = data.starts[i + 1] - data.starts[i]
    first, total = 0, 0.0
    for level in range(data.levels):
        step = 1 << (data.levels - 1 - level)
        for a in range(0, step << level, step):
            for b in range(0, step << level, step):
                for row in range(lines[0, a], lines[0, a + step]):
                    for column in range(lines[2, b], lines[2, b + step]):
                        total += part(each, first + row * width + column, amount)
                first += n_points
    return total


_score = helper(_walk, True)


class WordBoxes(CompiledStructure):
    """Where the object of an image is: a box on a grid of visual words, or none.

    A label is (left, top, right, bottom) in lines of the grid: the columns from `left` to
    `right` - 1 and the rows from `top` to `bottom` - 1. Its features are the histograms of the
    words inside, of the whole box and of its quarters and sixteenths, which end at the nearest
    lines of the grid, the earlier of two; optionally divided by their length, without which large
    boxes win. No box has none. The loss is 1 - intersection over union with the truth, counted in
    points of the grid; 0 if both are none, 1 if one is. All boxes of the grid are candidates, and
    the best is found by branch and bound.

    Parameters
    ----------
    n_words : int
        Size of the vocabulary.
    levels : {1, 2, 3}, default=1
        Of the pyramid, which has 1, 5 or 21 cells.
    normalise : {None, "l2"}, default=None
        Divide histograms by their length, as `taut.vision.histograms` does. Bounds of sums of
        absolute values, "l1" there, are not known.
    none : bool, default=False
        Whether an image may have no object.
    smallest, largest : tuple of int, optional
        Height and width of boxes in points of the grid.
    overlap : float, default=0.5
        Intersection over union that two labels of a visit may have at most, in solvers that work on
        several: each is the best of those that overlap none before it by more.
    table : int, default=2 ** 18
        Most numbers in the table of squared lengths that is kept for each image, four bytes each,
        where features are divided by these. More make searches shorter.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import WordBoxes
    >>> X = [np.zeros((4, 5), dtype=int), np.zeros((3, 6), dtype=int)]
    >>> X[0][1:3, 2:4] = X[1][0:2, 1:4] = 1
    >>> problem = Problem(WordBoxes(2), X, [(2, 1, 4, 3), (1, 0, 4, 2)], C=10.0)
    >>> result = solve(problem, tol=1e-8, random_state=0)
    >>> problem.data.predict(result.w)
    [(2, 1, 4, 3), (1, 0, 4, 2)]
    """

    takes_examples = True

    def __init__(
        self,
        n_words: int,
        levels: int = 1,
        normalise: str | None = None,
        none: bool = False,
        smallest: tuple[int, int] = (1, 1),
        largest: tuple[int, int] | None = None,
        overlap: float = 0.5,
        table: int = 1 << 18,
    ) -> None:
        check_vocabulary(n_words, levels)
        if normalise is not None:
            check_choice("normalise", normalise, ("l2",))
        check_flag("none", none)
        check_number("overlap", overlap)
        if not 0.0 <= overlap <= 1.0:
            raise InvalidData(f"overlap = {overlap!r}: give a number between 0 and 1")
        self.n_words = n_words
        self.levels = levels
        self.norm = normalise  # an oracle has the other name
        self.none = bool(none)
        self.smallest = smallest
        self.largest = largest
        self.overlap = float(overlap)
        self.table = table
        self._limits = as_limits(smallest, largest)

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """X has a `WordMap` or an integer array of words for each image, y a box or None for each.

        Words of arrays are those of `taut.inference.box_scores.WordImage`: one or some at each
        point of a grid, as many in all images.
        """
        images = [
            WordImage.of(
                as_words(self._words_of(words, i), self.n_words, f"X[{i}]"), self.n_words,
                self.levels, self.norm is not None, self.smallest, self.largest, self.table,
            )
            for i, words in enumerate(X)
        ]  # fmt: skip
        if not images:
            raise InvalidData("X has no images: give at least one")
        for i, image in enumerate(images):
            if image.words.shape[1] != images[0].words.shape[1]:
                raise InvalidData(
                    f"X[{i}] has {image.words.shape[1]} words at each point, X[0] has "
                    f"{images[0].words.shape[1]}: give as many in all images"
                )
            if image.n_boxes == 0 and not self.none:
                raise InvalidData(
                    f"X[{i}] has {image.n_rows} x {image.n_columns} points and no box as large as "
                    f"smallest = {self.smallest}: leave the image out, lower `smallest`, or set "
                    "none=True"
                )
        data = WordBoxData(
            words=np.concatenate([image.words for image in images]),
            starts=offsets_of([len(image.words) for image in images]),
            shapes=np.array([(image.n_rows, image.n_columns) for image in images]),
            truth=self._as_boxes(y, images),
            squares=np.concatenate([image.squares for image in images]),
            tables=offsets_of([len(image.squares) for image in images]),
            grains=np.array([image.grain for image in images]),
            fewest=np.array([image.fewest for image in images]),
            limits=self._limits,
            n_words=self.n_words,
            levels=self.levels,
            divided=self.norm is not None,
            none=self.none,
            overlap=self.overlap,
        )
        return self._blocks(data)

    def _words_of(self, given: Any, i: int) -> Any:
        """The array of words of image i."""
        if not isinstance(given, WordMap):
            return given
        if given.n_words != self.n_words:
            raise InvalidData(
                f"X[{i}] has words of a vocabulary of {given.n_words}, and n_words = "
                f"{self.n_words}: give words of one vocabulary"
            )
        return given.words

    def _as_boxes(self, y: Any, images: Sequence[WordImage]) -> np.ndarray:
        """Truths as rows of top, left, bottom and right, -1 for none."""
        truth = np.full((len(images), 4), -1, dtype=np.int32)
        if y is None:
            return truth
        if len(y) != len(images):
            raise InvalidData(f"y has {len(y)} boxes and X {len(images)} images: give one to each")
        for i, label in enumerate(y):
            if label is None:
                continue
            box = np.asarray(label)
            if box.shape != (4,) or box.dtype.kind not in "iu":
                raise InvalidData(
                    f"y[{i}] = {label!r}: give None, or left, top, right and bottom line as "
                    "integers"
                )
            truth[i] = box[_TURNED]
        shapes = np.array([(image.n_rows, image.n_columns) for image in images])
        absent = np.array([label is None for label in y])
        wrong = np.flatnonzero(~self._are_boxes(truth, shapes) & ~absent)
        if len(wrong):
            i = int(wrong[0])
            raise InvalidData(
                f"y[{i}] = {y[i]!r} is no box of X[{i}], which has {shapes[i, 0]} x {shapes[i, 1]} "
                f"points, of a size from {self.smallest} to {self.largest or 'any'}: give left, "
                "top, right and bottom line, bottom and right being behind the last points, or "
                "other sizes"
            )
        if absent.any() and not self.none:
            i = int(np.argmax(absent))
            raise InvalidData(f"y[{i}] is None: set none=True, or leave out images without object")
        return truth

    def _are_boxes(self, labels: np.ndarray, shapes: np.ndarray) -> np.ndarray:
        """Which rows are boxes, of allowed sizes, of grids of these shapes."""
        sizes = labels[:, 2:].astype(np.int64) - labels[:, :2]
        within = (labels[:, :2] >= 0).all(axis=1) & (labels[:, 2:] <= shapes).all(axis=1)
        allowed = (sizes >= self._limits[::2]) & (sizes <= self._limits[1::2])
        return within & allowed.all(axis=1)

    def _blocks(self, data: WordBoxData) -> Blocks:
        n_cells, n_points = n_cells_of(self.levels), np.diff(data.starts)
        rooms = [room_of(rows, columns, self.levels) for rows, columns in data.shapes.tolist()]
        n_potentials = int(n_cells * n_points.max())
        return Blocks(
            data=data,
            features=OwnFeatures(
                n_features=n_cells * self.n_words,
                n_potentials=n_potentials,
                reads=int(n_cells * n_points.mean()),
            ),
            offsets=4 * np.arange(len(n_points) + 1),
            truth=data.truth.ravel(),
            work_size=int((n_cells * n_points + rooms).max()),
        )

    def take(self, blocks, which):
        """Images with their words and tables."""
        data: Any = blocks.data
        points, starts = take_runs(data.starts, which)
        places, tables = take_runs(data.tables, which)
        return self._blocks(
            data._replace(
                words=data.words[points],
                starts=starts,
                shapes=data.shapes[which],
                truth=data.truth[which],
                squares=data.squares[places],
                tables=tables,
                grains=data.grains[which],
                fewest=data.fewest[which],
            )
        )

    def valid_labels(self, blocks, owner, labels):
        """Boxes of the image of an allowed size, and none where that is possible."""
        rows = labels.reshape(-1, 4)
        absent = self.none & (rows == -1).all(axis=1)
        return absent | self._are_boxes(rows, blocks.data.shapes[owner])

    def lengths(self, blocks):
        """All words of the image, in all levels; by the least length where they are divided."""
        data: Any = blocks.data
        words = self.levels * data.words.shape[1] * np.diff(data.starts).astype(np.float64)
        if self.norm is not None:
            words /= np.sqrt(self.levels * data.fewest)
        return words

    def decode(self, labels, offsets):
        """A tuple of four integers for each image, or None."""
        rows = labels.reshape(-1, 4)[:, _TURNED].tolist()
        return [None if row[0] < 0 else tuple(row) for row in rows]

    @staticmethod
    def pull(data, i, w, work):
        """The summed weights of the words at each point, cell by cell."""
        pull_words(_image(data, i), w, work)

    @staticmethod
    def push(data, i, statistics, w):
        """The transpose of `pull`."""
        push_words(_image(data, i), statistics, w)

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """The box of highest score + loss, by integral images behind the potentials."""
        values = np.empty(1)
        _best(data, i, work, loss_weight, label.reshape((1, 4)), values)
        return _score(data, i, label, Gather(work)) + loss_weight * loss_of(data.truth[i], label)

    @staticmethod
    def loss(data, i, label):
        """1 - intersection over union."""
        return loss_of(data.truth[i], label)

    @staticmethod
    def parts(data, i, label, each):
        """The points in each cell of the box, by one over its length where that is divided by."""
        return _score(data, i, label, each)

    @staticmethod
    def sample(data, i, work, loss_weight, seed, found):
        """The best boxes that overlap each other little, by greedy suppression."""
        return _best(data, i, work, loss_weight, found, np.empty(found.shape[0]))
