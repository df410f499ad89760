"""Visual words: descriptors by the nearest of some centres, and counts of them in boxes."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from taut.checks import check_choice
from taut.compiled.jit import helper, kernel
from taut.data.arrays import offsets_of
from taut.errors import InvalidData
from taut.vision.descriptors import DenseDescriptors
from taut.vision.hog import check_count
from taut.vision.images import list_images, read_image

_BLOCK = 1024  # descriptors that are compared with all words at once
_MOST_LEVELS = 6
_NORMS = ("l1", "l2")


class WordMap(NamedTuple):
    """The visual words of one image: words[i, j] is at the point (x[j], y[i])."""

    words: np.ndarray  # (n_rows, n_columns), int32
    x: np.ndarray  # (n_columns,), float64, ascending: pixels from the left edge of the image
    y: np.ndarray  # (n_rows,), float64, ascending: pixels from its upper edge
    size: np.ndarray  # (2,), float64: width and height of the image in pixels
    n_words: int  # how many there are to choose from


class VisualWords:
    """A vocabulary of visual words: centres of clusters of the descriptors of training images.

    Parameters
    ----------
    n_words : int, default=1000
        Size of the vocabulary.
    descriptors : DenseDescriptors, optional
        What is described, and on which grid. By default patches of 8 x 8 pixels every 4 pixels.
    per_image : int, default=500
        How many descriptors of each image clusters are sought in, drawn at random.
    random_state : int, default=0
        Seed of the drawing and of the clusters.

    Attributes
    ----------
    centres_ : ndarray of float32, shape (n_words, n_features)

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> images = [rng.integers(0, 256, (40, 48, 3), dtype=np.uint8) for _ in range(3)]
    >>> words = VisualWords(n_words=5).fit(images)
    >>> words.transform(images[0]).words.shape
    (9, 11)
    """

    def __init__(
        self,
        n_words: int = 1000,
        descriptors: DenseDescriptors | None = None,
        *,
        per_image: int = 500,
        random_state: int = 0,
    ) -> None:
        self.n_words = n_words
        self.descriptors = descriptors
        self.per_image = per_image
        self.random_state = random_state

    def fit(self, images: Any) -> VisualWords:
        """Find the words.

        Parameters
        ----------
        images : iterable of images as `read_image` takes them, or path of a folder
            One is in memory at a time.

        Returns
        -------
        VisualWords
            Itself.

        Raises
        ------
        InvalidData
            An image cannot be used, or there are fewer descriptors than words.
        """
        from sklearn.cluster import MiniBatchKMeans

        if isinstance(images, np.ndarray) and images.ndim == 3:
            raise InvalidData("images is one image: give a list of images, [image]")
        if isinstance(images, str | os.PathLike):
            images = list_images(images)
        check_count("n_words", self.n_words, 1)
        check_count("per_image", self.per_image, 1)
        check_count("random_state", self.random_state, 0)
        rng = np.random.default_rng(self.random_state)
        drawn = []
        for i, given in enumerate(images):
            image = read_image(given, name=f"image {i}")
            found = self._grid.extract(image).values.reshape(-1, self._grid.n_features)
            which = rng.permutation(len(found))[: self.per_image]
            drawn.append(found[np.sort(which)])
        sample = np.concatenate([np.empty((0, self._grid.n_features), dtype=np.float32), *drawn])
        n_different = len(np.unique(sample, axis=0))
        if n_different < self.n_words:
            raise InvalidData(
                f"{len(drawn)} images have {n_different} different descriptors among those drawn, "
                f"fewer than n_words = {self.n_words}; give more images, a larger per_image or a "
                "smaller n_words"
            )
        clusters = MiniBatchKMeans(
            self.n_words, random_state=self.random_state, n_init=1, batch_size=4096
        ).fit(sample)
        self.centres_ = np.ascontiguousarray(clusters.cluster_centers_, dtype=np.float32)
        return self

    def transform(self, image: Any) -> WordMap:
        """Give each point of the grid of an image the nearest word.

        Parameters
        ----------
        image : path, array or whatever else `read_image` takes

        Returns
        -------
        WordMap
        """
        if not hasattr(self, "centres_"):
            raise InvalidData("there are no words yet: call fit first")
        described = self._grid.extract(read_image(image))
        found = described.values.reshape(-1, self.centres_.shape[1])
        # Of |d - c|^2 what depends on the word c is |c|^2 - 2 d.c.
        squares = 0.5 * np.einsum("ij,ij->i", self.centres_, self.centres_)
        words = np.empty(len(found), dtype=np.int32)
        for start in range(0, len(found), _BLOCK):
            block = slice(start, start + _BLOCK)
            products = found[block] @ self.centres_.T
            words[block] = np.subtract(products, squares, out=products).argmax(axis=1)
        return WordMap(
            words.reshape(described.values.shape[:2]),
            described.x,
            described.y,
            described.size,
            len(self.centres_),
        )

    @property
    def _grid(self) -> DenseDescriptors:
        return DenseDescriptors() if self.descriptors is None else self.descriptors


def histogram(word_map: WordMap, box: ArrayLike, levels: int = 1) -> np.ndarray:
    """Count the words in each cell of a spatial pyramid of one box.

    Parameters
    ----------
    word_map : WordMap
    box : array-like, shape (4,)
        Left, top, right and bottom edge in pixels.
    levels : int, default=1
        1 counts in the whole box, 2 in its four quarters as well (5 cells), 3 in sixteen parts as
        well (21 cells).

    Returns
    -------
    ndarray of float64, shape (n_cells, n_words)

    See Also
    --------
    histograms : For many boxes; says where cells end and which comes when.

    Examples
    --------
    >>> x = y = np.array([2.0, 6.0])
    >>> word_map = WordMap(np.array([[0, 1], [1, 1]], np.int32), x, y, np.array([8.0, 8.0]), 2)
    >>> histogram(word_map, [0, 0, 8, 8], levels=2)
    array([[1., 3.],
           [1., 0.],
           [0., 1.],
           [0., 1.],
           [0., 1.]])
    """
    counts = histograms(word_map, np.asarray(box, dtype=np.float64).reshape(1, -1), levels)
    return counts.toarray().reshape(-1, word_map.n_words)


def histograms(
    word_map: WordMap, boxes: ArrayLike, levels: int = 1, normalise: str | None = None
) -> sp.csr_array:
    """Count the words in each cell of a spatial pyramid of boxes of one image.

    A point is in a box, and in a cell, if it is not left of its left edge and left of its right
    one, and the same from above to below: the cells of a level share out the points of the box. A
    cell of one level is cut into four of the next in the middle between its edges, rounded down to
    whole pixels.

    Parameters
    ----------
    word_map : WordMap
    boxes : array-like, shape (n_boxes, 4)
        Left, top, right and bottom edges in pixels.
    levels : int, default=1
        1 counts in the whole box, 2 in its four quarters as well (5 cells), 3 in sixteen parts as
        well (21 cells).
    normalise : {None, "l1", "l2"}, default=None
        Divide each row by its sum, or by its length, unless it is all zeros.

    Returns
    -------
    csr_array of float64, shape (n_boxes, n_cells * n_words)
        The cells of a row are the whole box, then those of each further level, row by row.

    Raises
    ------
    InvalidData
        Boxes have another shape, are not finite or end before they begin, or `levels` is none of
        1 to 6.

    Examples
    --------
    >>> x = y = np.array([2.0, 6.0])
    >>> word_map = WordMap(np.array([[0, 1], [1, 1]], np.int32), x, y, np.array([8.0, 8.0]), 2)
    >>> histograms(word_map, [[0, 0, 8, 8], [0, 0, 8, 4]]).toarray()
    array([[1., 3.],
           [1., 1.]])
    """
    edges = _check_boxes(word_map, boxes)
    check_count("levels", levels, 1)
    if levels > _MOST_LEVELS:
        raise InvalidData(f"levels = {levels}: give at most {_MOST_LEVELS}")
    if normalise is not None:
        check_choice("normalise", normalise, _NORMS)
    n_cells = (4**levels - 1) // 3
    rows = _finest_cells(edges[:, 1], edges[:, 3], word_map.y, levels)
    columns = _finest_cells(edges[:, 0], edges[:, 2], word_map.x, levels)
    counts = np.zeros(n_cells * word_map.n_words, dtype=np.int32)
    words = np.ascontiguousarray(word_map.words, dtype=np.int32)
    given = words, word_map.n_words, rows, columns, levels, counts
    # First how many numbers each box has, then the numbers.
    sizes = np.empty(len(edges), dtype=np.int64)
    _count(*given, sizes, np.empty(0, dtype=np.int32), np.empty(0))
    indptr = offsets_of(sizes)
    indices, data = np.empty(indptr[-1], dtype=np.int32), np.empty(indptr[-1])
    _count(*given, sizes, indices, data)
    found = sp.csr_array((data, indices, indptr), shape=(len(edges), len(counts)))
    found.has_canonical_format = True
    if normalise is not None:
        lengths = np.sqrt((found**2).sum(axis=1)) if normalise == "l2" else found.sum(axis=1)
        found.data /= np.repeat(lengths, np.diff(found.indptr))
    return found


def _check_boxes(word_map: WordMap, boxes: ArrayLike) -> np.ndarray:
    """Edges as numbers; compiled code will follow words and points without bounds checks."""
    words = word_map.words
    if words.shape != (len(word_map.y), len(word_map.x)):
        raise InvalidData(
            f"word_map has words of shape {words.shape} at {len(word_map.y)} x {len(word_map.x)} "
            "points; give one word for each"
        )
    if words.size and not 0 <= words.min() <= words.max() < word_map.n_words:
        raise InvalidData(f"word_map has words outside 0..{word_map.n_words - 1}")
    edges = np.asarray(boxes, dtype=np.float64)
    if edges.ndim != 2 or edges.shape[1] != 4:
        raise InvalidData(
            f"boxes have shape {edges.shape}; give left, top, right and bottom of each, (n, 4)"
        )
    wrong = ~(np.isfinite(edges).all(axis=1) & (edges[:, :2] <= edges[:, 2:]).all(axis=1))
    if wrong.any():
        number = int(np.argmax(wrong))
        raise InvalidData(
            f"box {number} is {edges[number].tolist()}; give finite edges, left before right and "
            "top before bottom"
        )
    return edges


def _finest_cells(low: np.ndarray, high: np.ndarray, points: np.ndarray, levels: int) -> np.ndarray:
    """The first point of each part of the finest level, and the end: (n_boxes, parts + 1)."""
    cuts = np.stack([low, high], axis=1)
    for _ in range(levels - 1):
        finer = np.empty((len(cuts), 2 * cuts.shape[1] - 1))
        finer[:, ::2] = cuts
        finer[:, 1::2] = np.floor((cuts[:, :-1] + cuts[:, 1:]) / 2.0)
        # Edges that are no whole numbers may lie above one that was rounded down.
        cuts = np.maximum.accumulate(finer, axis=1)
    return np.searchsorted(points, cuts)


@helper
def _first_cell(level):
    """How many cells there are in the levels before."""
    return ((1 << (2 * level)) - 1) // 3


@kernel
def _count(words, n_words, rows, columns, levels, counts, sizes, indices, data):
    """Count the words of all cells of each box; write the counts if there is room for them.

    `counts` are zeros before and after.
    """
    parts = rows.shape[1] - 1
    end = 0
    for box in range(rows.shape[0]):
        different = 0
        for p in range(parts):
            for i in range(rows[box, p], rows[box, p + 1]):
                for q in range(parts):
                    for j in range(columns[box, q], columns[box, q + 1]):
                        for level in range(levels):
                            shift = levels - 1 - level
                            cell = _first_cell(level) + ((p >> shift) << level) + (q >> shift)
                            place = cell * n_words + words[i, j]
                            different += counts[place] == 0
                            counts[place] += 1
        sizes[box] = different
        if data.shape[0] > 0:
            for place in range(counts.shape[0]):
                if counts[place] > 0:
                    indices[end] = place
                    data[end] = counts[place]
                    end += 1
        for place in range(counts.shape[0]):
            counts[place] = 0
