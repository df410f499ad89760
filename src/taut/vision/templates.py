"""Templates of a detector: how many, of which shape, and at which scales they are looked for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from taut.errors import InvalidData
from taut.vision.boxes import Boxes
from taut.vision.hog import HogPyramid
from taut.vision.pyramid import Pyramid

_ROUNDS = 50  # of clustering aspect ratios, which are few
_FEWEST = 3  # cells on a side
_LARGEST_SCALE = 2.0  # by which images are enlarged at most
_OUTSIDE = 0.3  # of a template's side, which may lie outside the image


class Templates(NamedTuple):
    """Templates of windows, each of some rows and columns of cells and of a class."""

    rows: np.ndarray  # (n,), int64, without the border
    columns: np.ndarray
    classes: np.ndarray  # number of the class
    border: int = 1  # cells of context on each side, which are scored and not part of the box
    bias: float = 3.0  # the feature that the bias of a template is the weight of
    geometry: float = 1.0  # what the features of place and size are multiplied by

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(self.classes.max()) + 1


def templates_of(
    edges: np.ndarray, classes: np.ndarray, aspects: int, cells: int, border: int
) -> Templates:
    """Templates of the same area, whose shapes are those of the boxes of each class.

    Parameters
    ----------
    edges : ndarray of shape (n, 4)
        All training boxes.
    classes : ndarray of shape (n,)
        The numbers of their classes, from 0 on.
    aspects : int
        Most templates of a class: the aspect ratios of its boxes are clustered.
    cells : int
        About how many cells a template has.
    border : int
        Cells of context on each side.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.templates import templates_of
    >>> edges = np.array([[0, 0, 40, 20], [0, 0, 44, 20], [0, 0, 20, 40.0]])
    >>> templates = templates_of(edges, np.zeros(3, dtype=int), aspects=2, cells=32, border=1)
    >>> templates.rows, templates.columns
    (array([4, 8]), array([8, 4]))
    """
    found: list[tuple[int, int, int]] = []
    for number in range(int(classes.max()) + 1):
        own = edges[classes == number]
        if not len(own):
            raise InvalidData(f"class {number} has no boxes to make a template of: leave it out")
        ratios = np.log((own[:, 2] - own[:, 0]) / (own[:, 3] - own[:, 1]))
        shapes = {
            (
                max(_FEWEST, round(math.sqrt(cells / ratio))),
                max(_FEWEST, round(math.sqrt(cells * ratio))),
            )
            for ratio in np.exp(_centres(ratios, aspects))
        }
        found += [(*shape, number) for shape in sorted(shapes)]
    rows, columns, numbers = np.array(found, dtype=np.int64).T
    return Templates(rows, columns, numbers, border)


def stretches_of(edges: np.ndarray, aspects: int, cells: int) -> tuple[int, int, np.ndarray]:
    """One shape of template, and the stretches of images at which boxes of any shape have it.

    Parameters
    ----------
    edges : ndarray of shape (n, 4)
        All training boxes.
    aspects : int
        Most stretches: the aspect ratios of the boxes are clustered.
    cells : int
        About how many cells a template has.

    Returns
    -------
    rows, columns : int
    stretches : ndarray
        Of `HogPyramid`.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.templates import stretches_of
    >>> edges = np.array([[0, 0, 40, 20], [0, 0, 44, 20], [0, 0, 20, 20.0]])
    >>> rows, columns, stretches = stretches_of(edges, aspects=2, cells=36)
    >>> rows, columns, stretches.round(2)
    (5, 7, array([0.71, 1.5 ]))
    """
    ratios = np.log((edges[:, 2] - edges[:, 0]) / (edges[:, 3] - edges[:, 1]))
    centres = np.unique(_centres(ratios, aspects).round(6))
    ratio = math.exp(float(centres.mean()))
    rows = max(_FEWEST, round(math.sqrt(cells / ratio)))
    columns = max(_FEWEST, round(math.sqrt(cells * ratio)))
    return rows, columns, np.exp(centres) * rows / columns


def _centres(values: np.ndarray, count: int) -> np.ndarray:
    """The centres of clusters of numbers, beginning with their quantiles."""
    centres = np.quantile(values, (np.arange(count) + 0.5) / count)
    for _ in range(_ROUNDS):
        nearest = np.abs(values[:, None] - centres).argmin(axis=1)
        centres = np.array(
            [
                values[nearest == k].mean() if (nearest == k).any() else centre
                for k, centre in enumerate(centres)
            ]
        )
    return centres


def scales_of(edges: np.ndarray, cells: int, cell: int, step: float) -> np.ndarray:
    """Factors from an image to the levels at which templates are as large as the boxes.

    They begin with the smallest boxes, go down by `step`, and end with the largest. Images are
    enlarged at most twice: boxes smaller than half a template are not looked for.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.templates import scales_of
    >>> scales_of(np.array([[0, 0, 64, 64], [0, 0, 128, 128.0]]), cells=64, cell=8, step=1.5)
    array([1.03..., 0.68..., 0.45...])
    """
    sizes = np.sqrt((edges[:, 2] - edges[:, 0]) * (edges[:, 3] - edges[:, 1]))
    return scales_of_sizes(sizes, math.sqrt(cells) * cell, step)


def scales_of_sizes(sizes: np.ndarray, base: float, step: float) -> np.ndarray:
    """Factors from an image to the levels at which objects of these sizes are `base` pixels large.

    As of `scales_of`.
    """
    low = max(float(np.quantile(sizes, 0.02)) * 0.95, base / _LARGEST_SCALE)
    high = max(float(np.quantile(sizes, 0.99)) * 1.05, low)
    count = math.ceil(math.log(high / low) / math.log(step)) + 1
    return base / (low * step ** np.arange(count))


def margin_of(cells: int, border: int) -> int:
    """Cells around an image, for templates that reach beyond it."""
    return math.ceil(_OUTSIDE * math.sqrt(cells)) + border


class Frame(NamedTuple):
    """What is known before training: classes, templates, and how images are looked at."""

    classes: np.ndarray
    templates: Templates
    scales: np.ndarray
    cell: int  # side in pixels
    margin: int  # cells around an image
    colour: bool
    longest: int  # to which larger images are shrunk

    @classmethod
    def of_facts(
        cls, classes: np.ndarray, templates: np.ndarray, scales: np.ndarray, extraction: np.ndarray
    ) -> Frame:
        """The inverse of `facts`."""
        cell, margin, border, colour, longest = (int(value) for value in extraction)
        if border < 0 or longest < 1:
            raise InvalidData(
                f"extraction_ = {extraction.tolist()} has a negative border or no pixels: fit again"
            )
        rows, columns, numbers = templates.T
        known = Templates(rows, columns, numbers, border)
        return cls(classes, known, scales, cell, margin, bool(colour), longest)

    def extractor(self) -> HogPyramid:
        """What makes features of images."""
        return HogPyramid(
            cell=self.cell, scales=self.scales, margin=self.margin, colour=self.colour, fewest=2
        )

    def numbered(self, truth: Boxes) -> Boxes:
        """The same with numbers for classes; those that are only ignored are none of these."""
        known = np.isin(truth.classes, self.classes)
        numbers = np.where(known, np.searchsorted(self.classes, truth.classes), -1)
        return truth._replace(classes=numbers.astype(np.int64))

    def facts(self) -> dict[str, np.ndarray]:
        """The fitted attributes that it is."""
        templates = self.templates
        return {
            "classes_": self.classes,
            "templates_": np.column_stack([templates.rows, templates.columns, templates.classes]),
            "scales_": self.scales,
            "extraction_": np.array(
                [self.cell, self.margin, templates.border, self.colour, self.longest]
            ),
        }


def shown_boxes(frame: Frame, pyramids: Sequence[Pyramid], truths: Sequence[Boxes]) -> list[Boxes]:
    """The boxes of images and of their mirror images, with numbers for classes."""
    copies = len(pyramids) // len(truths)
    numbered = [frame.numbered(truth) for truth in truths for _ in range(copies)]
    return [
        truth.mirrored(p.size[0]) if p.mirrored else truth
        for truth, p in zip(numbered, pyramids, strict=True)
    ]
