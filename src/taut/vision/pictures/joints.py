"""Pictures of joints on images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taut.data.arrays import as_numbers
from taut.errors import InvalidData
from taut.vision.images import read_image
from taut.vision.joints import FoundJoints, as_limbs
from taut.vision.pictures.backend import COLOURS
from taut.vision.pictures.images import TRUTH, check_count, grid_of, image_axes, show_pixels


def plot_joints(
    image: Any,
    limbs: ArrayLike,
    truth: ArrayLike | None = None,
    found: FoundJoints | ArrayLike | None = None,
    ax: Any = None,
) -> Any:
    """Draw an image with the joints that are true and those that were found.

    Joints that are held together are joined by lines: true ones white and dashed, those that were
    found in colours. Joints that are not visible are left out. Needs matplotlib.

    Parameters
    ----------
    image : path, array of shape (height, width) or (height, width, channels), or Pillow image
        As for `taut.vision.images.read_image`.
    limbs : array-like of int, shape (n_limbs, 2)
        The pairs of joints that lines are drawn between, such as `Skeleton.limbs`.
    truth : array-like of shape (n_joints, 2) or (n_objects, n_joints, 2), optional
        x and y in pixels; NaN where a joint is not visible.
    found : FoundJoints, or array-like as truth, optional
    ax : matplotlib Axes, optional
        Where to draw; new ones by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.pictures import plot_joints
    >>> image = np.zeros((40, 60, 3), dtype=np.uint8)
    >>> ax = plot_joints(image, [[0, 1]], [[5, 5], [30, 25]])  # doctest: +SKIP
    """
    pixels, drawn = read_image(image), _check(limbs, truth, found, "")
    ax = image_axes(pixels) if ax is None else ax
    _draw(ax, pixels, drawn, 2.0)
    return ax


def plot_joint_grid(
    images: Sequence[Any],
    limbs: ArrayLike,
    truths: Sequence[ArrayLike] | None = None,
    found: Sequence[FoundJoints | ArrayLike] | None = None,
    columns: int = 4,
    *,
    limit: int = 16,
) -> Any:
    """Draw images side by side, each as `plot_joints` does.

    Parameters
    ----------
    images : list of images or paths
    limbs : array-like of int, shape (n_limbs, 2)
    truths, found : sequence, optional
        For each image what `plot_joints` takes: `FoundJoints` of one object in each image, as
        `PartSVM.predict` returns them, serve as they are.
    columns : int, default=4
        Images in a row.
    limit : int, default=16
        How many images are drawn, the first ones.

    Returns
    -------
    matplotlib Figure

    Examples
    --------
    >>> import numpy as np
    >>> from taut.vision.pictures import plot_joint_grid
    >>> images = [np.zeros((40, 60, 3), dtype=np.uint8)] * 6
    >>> figure = plot_joint_grid(images, [[0, 1]], columns=3)  # doctest: +SKIP
    """
    for name, number in (("columns", columns), ("limit", limit)):
        check_count(name, number)
    n = min(len(images), limit)
    if n == 0:
        raise InvalidData("images is empty: give at least one")
    there = _by_image("truths", truths, len(images))
    answers = _by_image("found", found, len(images))
    drawn = [_check(limbs, there[i], answers[i], f"[{i}]") for i in range(n)]
    pixels = [read_image(image) for image in images[:n]]
    figure, axes = grid_of(pixels, columns)
    for ax, image, own in zip(axes, pixels, drawn, strict=True):
        _draw(ax, image, own, 1.6)
    return figure


def _by_image(name: str, given: Any, n: int) -> list[Any]:
    """What belongs to each image."""
    if given is None:
        return [None] * n
    if isinstance(given, FoundJoints):
        given = np.where(given.visible[:, :, None], given.joints, np.nan)
    if len(given) != n:
        raise InvalidData(f"{name} is of {len(given)} images, images has {n}: give {name} of each")
    return list(given)


def _check(
    limbs: Any, truth: Any, found: Any, place: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Limbs, and the joints of all true objects and of those that were found, checked."""
    there, answers = _objects(truth, f"truth{place}"), _objects(found, f"found{place}")
    fewest = min((joints.shape[1] for joints in (there, answers) if len(joints)), default=None)
    ends = np.empty((0, 2), dtype=np.int64) if fewest is None else as_limbs(limbs, fewest)
    return ends, there, answers


def _objects(given: Any, name: str) -> np.ndarray:
    """Joints of objects, NaN where they are not visible."""
    if given is None:
        return np.empty((0, 1, 2))
    if isinstance(given, FoundJoints):
        given = np.where(given.visible[:, :, None], given.joints, np.nan)
    joints = np.asarray(as_numbers(given, name), dtype=np.float64)
    joints = joints[None] if joints.ndim == 2 else joints
    if joints.ndim != 3 or joints.shape[2] != 2:
        raise InvalidData(
            f"{name} has shape {joints.shape}: give x and y of each joint, (n_joints, 2)"
        )
    return joints


def _draw(
    ax: Any, pixels: np.ndarray, drawn: tuple[np.ndarray, np.ndarray, np.ndarray], width: float
) -> None:
    """An image with the joints of its objects, those that were found above true ones."""
    limbs, truths, found = drawn
    show_pixels(ax, pixels)
    for objects, true in ((truths, True), (found, False)):
        for joints in objects:
            for k, pair in enumerate(limbs.tolist()):
                colour = TRUTH if true else COLOURS[k % len(COLOURS)]
                # A line on a wider dark one is seen on any ground.
                ax.plot(*joints[pair].T, color="black", linewidth=width + 1.2, alpha=0.55)
                ax.plot(
                    *joints[pair].T, color=colour, linewidth=width, linestyle="--" if true else "-"
                )
            ax.plot(
                *joints.T, linestyle="none", marker="o", markersize=2.0 * width,
                color=TRUTH if true else COLOURS[0], markeredgecolor="black", markeredgewidth=0.7,
            )  # fmt: skip
    height, wide = pixels.shape[:2]
    ax.set(xlim=(0, wide), ylim=(height, 0))
