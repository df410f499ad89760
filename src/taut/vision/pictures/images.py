"""Pictures of boxes on images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np

from taut.data.arrays import as_matrix, show
from taut.errors import InvalidData
from taut.vision.annotations import as_boxes
from taut.vision.boxes import Boxes, Detections, overlaps
from taut.vision.images import read_image
from taut.vision.pictures.backend import COLOURS, pyplot

TRUTH = "white"


def plot_boxes(
    image: Any,
    truths: Any = None,
    detections: Detections | None = None,
    ax: Any = None,
    *,
    top: int | None = 5,
) -> Any:
    """Draw an image with the boxes that are true and those that were found.

    True boxes are white and dashed, ignored ones dotted. Those that were found are in a colour for
    each class, with class and score. True boxes are named if there are several classes, or if none
    were found. Needs matplotlib.

    Parameters
    ----------
    image : path, array of shape (height, width) or (height, width, channels), or Pillow image
        As for `taut.vision.images.read_image`.
    truths : Boxes, or list of (class, left, top, right, bottom), optional
        What is in the image, in any form of `taut.vision.as_boxes`.
    detections : Detections, optional
        What was found in it.
    ax : matplotlib Axes, optional
        Where to draw; new ones by default.
    top : int or None, default=5
        How many detections are drawn, those of the highest scores; None for all.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.pictures import plot_boxes
    >>> truths = Boxes(np.array([[5, 5, 30, 25]]), np.array(["cat"]), np.array([False]))
    >>> ax = plot_boxes(np.zeros((40, 60, 3), dtype=np.uint8), truths)  # doctest: +SKIP
    """
    pixels = read_image(image)
    drawn = _check(truths, detections, top, "")
    ax = image_axes(pixels) if ax is None else ax
    colours = _colours_of([drawn])
    _draw(ax, pixels, drawn, colours, 1.8)
    ax.figure.draw_without_rendering()
    _add_labels(ax, drawn, colours, 9.0)
    return ax


def plot_image_grid(
    images: Sequence[Any],
    truths: Sequence[Any] | None = None,
    detections: Sequence[Detections] | None = None,
    columns: int = 4,
    *,
    limit: int = 16,
    top: int | None = 3,
) -> Any:
    """Draw images side by side, each as `plot_boxes` does.

    Parameters
    ----------
    images : list of images or paths
    truths : list with one item per image, optional
        What is in each image, each as for `plot_boxes`.
    detections : list of Detections, optional
        What was found in each.
    columns : int, default=4
        Images in a row.
    limit : int, default=16
        How many images are drawn, the first ones.
    top : int or None, default=3
        How many detections are drawn in each image.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.pictures import plot_image_grid
    >>> images = [np.zeros((40, 60, 3), dtype=np.uint8)] * 6
    >>> figure = plot_image_grid(images, columns=3)  # doctest: +SKIP
    """
    for name, number in (("columns", columns), ("limit", limit)):
        check_count(name, number)
    for name, boxes in (("truths", truths), ("detections", detections)):
        if boxes is not None and len(boxes) != len(images):
            raise InvalidData(
                f"{name} has {len(boxes)} images, images has {len(images)}: give {name} of each"
            )
    n = min(len(images), limit)
    if n == 0:
        raise InvalidData("images is empty: give at least one")
    drawn = [
        _check(
            None if truths is None else truths[i],
            None if detections is None else detections[i],
            top,
            f"[{i}]",
        )
        for i in range(n)
    ]
    pixels = [read_image(image) for image in images[:n]]
    figure, axes = grid_of(pixels, columns)
    colours = _colours_of(drawn)
    for ax, image, shown in zip(axes, pixels, drawn, strict=True):
        _draw(ax, image, shown, colours, 1.5)
    _add_legend(figure, drawn, colours)
    figure.draw_without_rendering()
    for ax, shown in zip(axes, drawn, strict=True):
        _add_labels(ax, shown, colours, 7.5)
    return figure


def grid_of(pixels: Sequence[np.ndarray], columns: int) -> tuple[Any, list[Any]]:
    """A figure with axes for each of some images, in rows of so many."""
    n = len(pixels)
    columns = min(columns, n)
    rows = [pixels[first : first + columns] for first in range(0, n, columns)]
    # Portraits are shrunk rather than let all others of their row swim in white.
    heights = [min(max(p.shape[0] / p.shape[1] for p in row), 1.25) for row in rows]
    width = 12.0 / max(columns, 3)
    figure, axes = pyplot().subplots(
        len(rows),
        columns,
        figsize=(width * columns, width * sum(heights) + 0.35),
        height_ratios=heights,
        squeeze=False,
        layout="constrained",
    )
    for ax in axes.flat[n:]:
        ax.set_axis_off()
    return figure, list(axes.flat[:n])


def image_axes(pixels: np.ndarray) -> Any:
    """New axes for one image."""
    height, width = pixels.shape[:2]
    scale = 6.0 / max(height, width)
    return pyplot().subplots(figsize=(width * scale, height * scale), layout="constrained")[1]


def show_pixels(ax: Any, pixels: np.ndarray) -> None:
    """An image from its upper left corner, without anything around it."""
    height, width = pixels.shape[:2]
    ax.imshow(pixels, extent=(0, width, height, 0), interpolation="antialiased")
    ax.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[])
    for spine in ax.spines.values():
        spine.set_visible(False)


def _check(
    truths: Any, detections: Detections | None, top: int | None, place: str
) -> tuple[Boxes, Detections]:
    """The boxes to draw in an image, checked."""
    if top is not None:
        check_count("top", top)
    nothing = np.empty((0, 4)), np.empty(0, dtype=object), np.empty(0)
    there = Boxes(*nothing) if truths is None else truths
    if isinstance(there, list | tuple | np.ndarray) and not isinstance(there, Boxes | Detections):
        (there,) = as_boxes([there], 1)
    found = Detections(*nothing) if detections is None else detections
    there = Boxes(*_columns(there, ("edges", "classes", "ignored"), f"truths{place}"))
    found = Detections(*_columns(found, ("edges", "classes", "scores"), f"detections{place}"))
    order = np.argsort(-found.scores, kind="stable")[:top]
    return there, Detections(*(values[order] for values in found))


def _columns(boxes: Any, names: Sequence[str], name: str) -> list[np.ndarray]:
    """The fields of the boxes of an image, as arrays of one length."""
    missing = [part for part in names if not hasattr(boxes, part)]
    if missing:
        raise InvalidData(
            f"{name} is a {type(boxes).__name__} without {', '.join(missing)}: give a Boxes or "
            "Detections of taut.vision.boxes"
        )
    found = [np.asarray(getattr(boxes, part)) for part in names]
    lengths = [len(values) for values in found]
    if found[0].size == 0 and not any(lengths):
        found[0] = np.empty((0, 4))
    elif found[0].shape != (lengths[0], 4) or len(set(lengths)) > 1:
        raise InvalidData(
            f"{name} has edges of the shape {found[0].shape} and {lengths[1:]} {names[1:]}: give "
            "four edges, a class and the rest for each box"
        )
    else:
        as_matrix(found[0], f"{name}.edges")
    return found


def check_count(name: str, value: Any) -> None:
    """Refuse what is no number of things to draw."""
    if not isinstance(value, Integral) or value < 1:
        raise InvalidData(f"{name} = {show(value)}: give a whole number, at least 1")


def _colours_of(drawn: Iterable[tuple[Boxes, Detections]]) -> dict[Any, str]:
    """A colour for each class."""
    names = {str(name) for boxes in drawn for part in boxes for name in part.classes}
    return {name: COLOURS[k % len(COLOURS)] for k, name in enumerate(sorted(names))}


def _draw(
    ax: Any, pixels: np.ndarray, boxes: tuple[Boxes, Detections], colours: dict[Any, str],
    line: float,
) -> None:  # fmt: skip
    """An image with its boxes, the best one above all others."""
    truths, detections = boxes
    show_pixels(ax, pixels)
    for edges, ignored in zip(truths.edges, truths.ignored, strict=True):
        _add_box(ax, edges, TRUTH, line, ":" if ignored else (0, (4, 3)))
    for edges, name in zip(detections.edges[::-1], detections.classes[::-1], strict=True):
        _add_box(ax, edges, colours[str(name)], line, "-")


def _add_box(ax: Any, edges: np.ndarray, colour: str, width: float, style: Any) -> None:
    """A line on a wider dark one, so that it is seen on any ground."""
    from matplotlib.patches import Rectangle

    left, top, right, bottom = edges.tolist()
    for shade, wide, dashes, opacity in (
        ("black", width + 1.2, "-", 0.55),
        (colour, width, style, 1.0),
    ):
        ax.add_patch(
            Rectangle(
                (left, top), right - left, bottom - top, fill=False, edgecolor=shade,
                linewidth=wide, linestyle=dashes, alpha=opacity,
            )
        )  # fmt: skip


def _add_labels(
    ax: Any, boxes: tuple[Boxes, Detections], colours: dict[Any, str], size: float
) -> None:
    """Class and score of each box, in one of its corners, the best box first, apart if possible.

    The layout of the figure must be settled.
    """
    truths, detections = boxes
    labels = [
        (edges, f"{name} {score:.2f}", colours[str(name)], False)
        for edges, name, score in zip(*detections, strict=True)
    ]
    if len(colours) > 1 or not labels:
        pairs = zip(truths.edges, truths.classes, strict=True)
        labels += [(edges, str(name), TRUTH, True) for edges, name in pairs]
    limits = np.array([ax.get_xlim()[1], ax.get_ylim()[0]])
    # Pixels of the image in a point of the picture.
    unit = limits[0] / ax.get_window_extent().width * ax.figure.dpi / 72.0
    taken = np.empty((0, 4))
    for edges, text, colour, at_bottom in labels:
        extent = unit * size * np.array([0.53 * len(text) + 0.4, 1.5])
        places = _corners(edges, extent, limits, at_bottom)
        free = np.flatnonzero(overlaps(places, taken).max(axis=1, initial=0.0) == 0.0)
        place = places[free[0] if len(free) else 0]
        taken = np.vstack([taken, place])
        ax.text(
            *((place[:2] + place[2:]) / 2.0),
            text,
            ha="center",
            va="center_baseline",
            fontsize=size,
            color="black",
            bbox={"boxstyle": "square,pad=0.15", "facecolor": colour, "edgecolor": "none"},
            in_layout=False,
        )


def _corners(
    edges: np.ndarray, extent: np.ndarray, limits: np.ndarray, at_bottom: bool
) -> np.ndarray:
    """Where the label of a box may be, within the image: the first is best."""
    (left, top), (right, bottom) = np.clip(edges.reshape(2, 2), 0.0, limits)
    right, bottom = right - extent[0], bottom - extent[1]
    to_right = left + right + extent[0] > limits[0]
    sides = (right, left) if to_right else (left, right)
    heights = [*top + extent[1] * np.arange(4), *bottom - extent[1] * np.arange(4)]
    heights = heights[4:] + heights[:4] if at_bottom else heights
    corners = np.array([(x, y) for y in heights for x in sides])
    corners = np.clip(corners, 0.0, np.maximum(limits - extent, 0.0))
    return np.hstack([corners, corners + extent])


def _add_legend(
    figure: Any, drawn: Sequence[tuple[Boxes, Detections]], colours: dict[Any, str]
) -> None:
    """What lines stand for, below all images."""
    from matplotlib.lines import Line2D

    ignored = np.concatenate([truths.ignored for truths, _ in drawn]).astype(bool)
    found = sorted({str(name) for _, detections in drawn for name in detections.classes})
    shown: list[tuple[str, str, Any]] = [("true", "0.45", (0, (3, 2)))] * bool((~ignored).any())
    shown += [("ignored", "0.45", ":")] * bool(ignored.any())
    shown += [(f"found: {name}", colours[name], "-") for name in found]
    lines = [
        Line2D([], [], color=colour, linestyle=style, linewidth=2.0, label=label)
        for label, colour, style in shown
    ]
    if lines:
        figure.legend(handles=lines, loc="outside lower center", ncols=8, frameon=False)
