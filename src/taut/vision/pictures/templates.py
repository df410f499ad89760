"""Pictures of templates on histograms of oriented gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taut.data.arrays import as_numbers, check_finite
from taut.errors import InvalidData
from taut.vision.joints import as_limbs
from taut.vision.pictures.backend import COLOURS, pyplot

_LINES = 9  # orientations over 180 degrees
_STROKES = 3 * _LINES  # two directions of each, and the orientation itself
_GRADIENTS = 31


def plot_template(template: ArrayLike, ax: Any = None) -> Any:
    """Draw the weights of a template on histograms of oriented gradients.

    Each cell has a stroke for each orientation, along the edge that it stands for, which is across
    the gradient. Its brightness is the sum of the positive weights of the two directions and of the
    orientation. Negative weights have a panel of their own, to the same scale. A third panel shows
    which colours are preferred over grey, where there are channels of them.

    Parameters
    ----------
    template : array of shape (rows, columns, n_channels)
        Weights. The first 18 channels are directions, the next 9 orientations, the next 4 are not
        drawn. Colours follow if there are 3 more, red, green and blue, or 6 more, the opposite
        pairs of `taut.vision.hog.HogPyramid`.
    ax : matplotlib Axes, optional
        Where to draw the panels; new ones by default.

    Returns
    -------
    matplotlib Axes
        Those around the panels, which are its `child_axes`.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.pictures import plot_template
    >>> ax = plot_template(np.random.default_rng(0).normal(size=(6, 4, 31)))  # doctest: +SKIP
    """
    weights = as_numbers(template, "template").astype(np.float64)
    if weights.ndim != 3 or weights.shape[2] < _STROKES or 0 in weights.shape:
        raise InvalidData(
            f"template has the shape {weights.shape}: give weights of the shape (rows, columns, "
            f"channels), with at least {_STROKES} channels"
        )
    check_finite(weights.reshape(-1, weights.shape[2]), "template")
    rows, columns = weights.shape[:2]
    positive, negative = (_strengths(side) for side in (weights, -weights))
    colours = _preferred_colours(weights[:, :, _GRADIENTS:])
    titles = ["positive", "negative"] + ["colour"] * (colours is not None)
    plt = pyplot()
    if ax is None:
        wide = max(3.6 * min(columns / rows, 2.0), 1.5)
        ax = plt.subplots(
            figsize=((wide + 0.15) * len(titles), wide * rows / columns + 0.5), layout="constrained"
        )[1]
    ax.set_axis_off()
    share = 1.0 / len(titles)
    panels = [ax.inset_axes((k * share + 0.01, 0.0, share - 0.02, 1.0)) for k in range(len(titles))]
    largest = max(positive.max(), negative.max()) or 1.0
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title, fontsize=10)
        panel.set(xlim=(0, columns), ylim=(rows, 0), xticks=[], yticks=[], aspect="equal")
        panel.set_facecolor("black")
    for panel, strengths in zip(panels, (positive, negative), strict=False):
        size = panel.figure.get_size_inches()[1] * 72.0 / rows
        _draw_strokes(panel, strengths / largest, size)
    if colours is not None:
        panels[2].imshow(colours, extent=(0, columns, rows, 0), interpolation="nearest")
    return ax


def _strengths(weights: np.ndarray) -> np.ndarray:
    """How strong each orientation of each cell is: (rows, columns, orientations)."""
    parts = np.maximum(weights[:, :, :_STROKES], 0.0)
    return parts.reshape(*weights.shape[:2], -1, _LINES).sum(axis=2)


def _draw_strokes(
    ax: Any, strengths: np.ndarray, size: float, corner: tuple[float, float] = (0.0, 0.0)
) -> None:
    """A stroke for each orientation of each cell, bright ones above dark ones.

    A cell has about `size` points of the picture, and the first one begins at x and y of `corner`.
    """
    from matplotlib.collections import LineCollection

    row, column, k = np.nonzero(strengths > 0.0)
    values = strengths[row, column, k]
    order = np.argsort(values, kind="stable")
    # The gradient of orientation k points to 180 / 9 k degrees, from right to down.
    angle = k[order] * np.pi / _LINES
    along = 0.45 * np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    middle = np.stack([column[order] + 0.5, row[order] + 0.5], axis=1) + corner
    ax.add_collection(
        LineCollection(
            list(np.stack([middle - along, middle + along], axis=1)),
            colors=[(v, v, v) for v in values[order]],
            linewidths=np.clip(size / 12.0, 0.6, 3.0),
            capstyle="butt",
        )
    )


def _preferred_colours(weights: np.ndarray) -> np.ndarray | None:
    """Colours between 0 and 1 that differ from grey as weights do; None without such channels."""
    if weights.shape[2] == 3:
        differences = weights
    elif weights.shape[2] == 6:
        light, red, yellow = np.moveaxis(weights[:, :, ::2] - weights[:, :, 1::2], 2, 0)
        # Solved for red, green and blue: their mean, red - green, (red + green) / 2 - blue.
        warm = light + yellow / 3.0
        differences = np.stack([warm + red / 2.0, warm - red / 2.0, warm - yellow], axis=2)
    else:
        return None
    return 0.5 + 0.5 * differences / (np.abs(differences).max() or 1.0)


def plot_parts(
    templates: ArrayLike, places: ArrayLike, limbs: ArrayLike = (), ax: Any = None
) -> Any:
    """Draw the templates of all parts of an object where the parts usually are.

    Positive weights are strokes, as by `plot_template`, to the same scale in all parts. Lines join
    the parts that are held together.

    Parameters
    ----------
    templates : array-like of shape (n_parts, rows, columns, n_channels)
        Weights, with channels as for `plot_template`.
    places : array-like of shape (n_parts, 2)
        x and y of the middle of each part, in cells.
    limbs : array-like of int, shape (n_limbs, 2), optional
        Pairs of parts.
    ax : matplotlib Axes, optional
        Where to draw; new ones by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.pictures import plot_parts
    >>> weights = np.random.default_rng(0).normal(size=(2, 5, 5, 31))
    >>> ax = plot_parts(weights, [[0, 0], [0, 6]], [[0, 1]])  # doctest: +SKIP
    """
    weights = as_numbers(templates, "templates").astype(np.float64)
    if weights.ndim != 4 or weights.shape[3] < _STROKES or 0 in weights.shape:
        raise InvalidData(
            f"templates has the shape {weights.shape}: give weights of the shape (n_parts, rows, "
            f"columns, channels), with at least {_STROKES} channels"
        )
    check_finite(weights.reshape(-1, weights.shape[3]), "templates")
    n_parts, rows, columns = weights.shape[:3]
    middles = np.asarray(as_numbers(places, "places"), dtype=np.float64)
    if middles.shape != (n_parts, 2):
        raise InvalidData(
            f"places has the shape {middles.shape}: give x and y of each of the {n_parts} parts"
        )
    check_finite(middles, "places")
    ends = as_limbs(limbs, n_parts)
    corners = middles - [columns / 2.0, rows / 2.0]
    low, high = corners.min(axis=0) - 0.5, corners.max(axis=0) + [columns + 0.5, rows + 0.5]
    width, height = high - low
    if ax is None:
        scale = 7.0 / max(width, height)
        ax = pyplot().subplots(figsize=(width * scale, height * scale), layout="constrained")[1]
    ax.set(xlim=(low[0], high[0]), ylim=(high[1], low[1]), xticks=[], yticks=[], aspect="equal")
    ax.set_facecolor("black")
    strengths = [_strengths(own) for own in weights]
    largest = max(own.max() for own in strengths) or 1.0
    size = ax.figure.get_size_inches()[1] * 72.0 / height
    for own, corner in zip(strengths, corners.tolist(), strict=True):
        _draw_strokes(ax, own / largest, size, (corner[0], corner[1]))
    for pair in ends:
        ax.plot(*middles[pair].T, color=COLOURS[0], linewidth=1.5, alpha=0.8)
    ax.plot(*middles.T, linestyle="none", marker="o", markersize=4, color=COLOURS[0])
    return ax
