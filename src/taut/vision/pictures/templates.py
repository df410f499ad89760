"""Pictures of templates on histograms of oriented gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taut.data.arrays import as_numbers, check_finite
from taut.errors import InvalidData
from taut.vision.pictures.backend import pyplot

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
        _draw_strokes(panel, strengths / largest)
    if colours is not None:
        panels[2].imshow(colours, extent=(0, columns, rows, 0), interpolation="nearest")
    return ax


def _strengths(weights: np.ndarray) -> np.ndarray:
    """How strong each orientation of each cell is: (rows, columns, orientations)."""
    parts = np.maximum(weights[:, :, :_STROKES], 0.0)
    return parts.reshape(*weights.shape[:2], -1, _LINES).sum(axis=2)


def _draw_strokes(ax: Any, strengths: np.ndarray) -> None:
    """A stroke for each orientation of each cell, bright ones above dark ones."""
    from matplotlib.collections import LineCollection

    row, column, k = np.nonzero(strengths > 0.0)
    values = strengths[row, column, k]
    order = np.argsort(values, kind="stable")
    # The gradient of orientation k points to 180 / 9 k degrees, from right to down.
    angle = k[order] * np.pi / _LINES
    along = 0.45 * np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    middle = np.stack([column[order] + 0.5, row[order] + 0.5], axis=1)
    size = ax.figure.get_size_inches()[1] * 72.0 / strengths.shape[0]
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
