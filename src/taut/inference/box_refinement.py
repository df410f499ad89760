"""Boxes nearer to objects than windows are: edges by ridge regression on what is under a window."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from taut.data.arrays import offsets_of
from taut.spaces.windows import WindowFeatures
from taut.vision.boxes import Boxes, overlaps, paired_overlaps

MOST_IMAGES = 200  # that a refinement is learned from
_NEAR = 0.6  # overlap of windows that a refinement is learned from
_OF_EACH = 14  # windows of each object, those of highest score
_FOLDS = 4
NO_REFINEMENT = np.zeros((4, 1))  # whatever the templates are
_STRENGTHS = (1.0, 10.0, 100.0, 1000.0)


def offsets_between(edges: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """What leads from each box to another: moves of its centre, and logarithms of its growth.

    Examples
    --------
    >>> import numpy as np
    >>> box, wanted = np.array([[0.0, 0.0, 10.0, 10.0]]), np.array([[1.0, 0.0, 11.0, 20.0]])
    >>> offsets_between(box, wanted).round(2)
    array([[0.1 , 0.5 , 0.  , 0.69]])
    >>> moved(box, offsets_between(box, wanted)).round(6)
    array([[ 1.,  0., 11., 20.]])
    """
    size, new = edges[:, 2:] - edges[:, :2], wanted[:, 2:] - wanted[:, :2]
    shift = (wanted[:, :2] + wanted[:, 2:] - edges[:, :2] - edges[:, 2:]) / (2.0 * size)
    return np.hstack([shift, np.log(new / size)])


def moved(edges: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The boxes that offsets lead to; no side grows or shrinks by more than a factor of two."""
    size = edges[:, 2:] - edges[:, :2]
    centre = (edges[:, :2] + edges[:, 2:]) / 2.0 + np.clip(offsets[:, :2], -0.5, 0.5) * size
    half = size * np.exp(np.clip(offsets[:, 2:], -np.log(2.0), np.log(2.0))) / 2.0
    return np.hstack([centre - half, centre + half])


def fit_refinement(features: WindowFeatures, truths: Sequence[Boxes], w: np.ndarray) -> np.ndarray:
    """Coefficients of the offsets, for the cells of all templates and a constant of each.

    For each object the windows near to it that score highest at w. How strongly coefficients are
    regularised is chosen by folds of the images, and no refinement is one of the choices: the
    coefficients are then zero.

    Parameters
    ----------
    features : WindowFeatures
        Of the training images.
    truths : list of Boxes
        With numbers for classes.
    w : ndarray
        Weights of windows, padded.

    Returns
    -------
    ndarray of shape (4, n_cells * n_channels + n_templates)
    """
    space = features.space
    n_templates, channels = len(space.heights), space.cells.shape[1]
    near = _near_windows(features, truths, w)
    out = np.zeros((4, int(space.firsts[-1]) * channels + n_templates))
    for t in range(n_templates):
        rows = [found for found in near if found.template == t]
        if rows:
            own = slice(int(space.firsts[t]) * channels, int(space.firsts[t + 1]) * channels)
            counts = [len(row.windows) for row in rows]
            image = np.repeat([space.image[row.block] for row in rows], counts)
            boxes = np.concatenate([row.edges for row in rows])
            wanted = np.concatenate([row.wanted for row in rows])
            under = functools.partial(_cells_under, features, rows, own.stop - own.start)
            out[:, own], out[:, -n_templates + t] = _chosen(image, under, boxes, wanted)
    return out


def _cells_under(features: WindowFeatures, rows: list[_Near], size: int) -> np.ndarray:
    """What is under the windows, a row for each."""
    ends = offsets_of([len(row.windows) for row in rows])
    cells = np.empty((ends[-1], size), dtype=np.float32)
    for row, first, last in zip(rows, ends[:-1], ends[1:], strict=True):
        features.cells_under(row.block, row.windows, cells[first:last])
    return cells


class _Near(NamedTuple):
    """Windows of one template that are near to an object."""

    block: int
    template: int
    windows: np.ndarray
    edges: np.ndarray
    wanted: np.ndarray


def _near_windows(features: WindowFeatures, truths: Sequence[Boxes], w: np.ndarray) -> list[_Near]:
    """For each object those that score highest at w."""
    found = []
    work = np.empty(features.n_potentials, dtype=w.dtype)
    for i, truth in enumerate(truths):
        known = np.flatnonzero(~truth.ignored)
        if not len(known):
            continue
        edges, wanted, templates = features.edges(i), truth.edges[known], features.templates_at(i)
        scores = features.scores(i, w, work)
        common = overlaps(edges, wanted)
        common[features.templates.classes[templates][:, None] != truth.classes[known]] = 0.0
        for j in range(len(known)):
            near = np.flatnonzero(common[:, j] >= _NEAR)
            near = near[np.argsort(-scores[near], kind="stable")[:_OF_EACH]]
            for t in np.unique(templates[near]).tolist():
                own = near[templates[near] == t]
                target = np.broadcast_to(wanted[j], (len(own), 4))
                found.append(_Near(i, t, own, edges[own], target))
    return found


def refined(
    features: WindowFeatures, i: int, windows: np.ndarray, refinement: np.ndarray
) -> np.ndarray:
    """The boxes that windows of block i lead to, within the image."""
    space, edges = features.space, features.edges(i)[windows]
    templates, channels = features.templates_at(i)[windows], space.cells.shape[1]
    n_templates = len(space.heights)
    offsets = np.empty((len(windows), 4))
    for t in np.unique(templates):
        own = templates == t
        cells = slice(int(space.firsts[t]) * channels, int(space.firsts[t + 1]) * channels)
        under = np.empty((int(own.sum()), cells.stop - cells.start), dtype=np.float32)
        features.cells_under(i, windows[own], under)
        offsets[own] = under @ refinement[:, cells].T + refinement[:, -n_templates + t]
    size = np.tile(space.sizes[space.image[i]], 2)
    return np.clip(moved(edges, offsets), 0.0, size)


def _chosen(
    image: np.ndarray, under: Callable[[], np.ndarray], boxes: np.ndarray, wanted: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and constants of the strength that brings boxes nearest in held-out images.

    `under` returns the cells under each box. They are asked for twice, and not kept in between.
    """
    targets = offsets_between(boxes, wanted)
    cells = under()
    products, size = cells @ cells.T, cells.shape[1]
    del cells
    images, numbers = np.unique(image, return_inverse=True)
    fold = np.random.default_rng(0).permutation(len(images))[numbers] % _FOLDS
    best, strength = float(paired_overlaps(boxes, wanted).mean()), None
    if len(images) >= 2 * _FOLDS:
        gained = np.zeros(len(_STRENGTHS))
        for held in range(_FOLDS):
            kept, out = np.flatnonzero(fold != held), np.flatnonzero(fold == held)
            fits = _ridges(products[np.ix_(kept, kept)], targets[kept], _STRENGTHS)
            for s, (dual, constant) in enumerate(fits):
                offsets = products[np.ix_(out, kept)] @ dual + constant
                shifted = moved(boxes[out], offsets)
                gained[s] += paired_overlaps(shifted, wanted[out]).sum() / len(boxes)
        if gained.max() > best:
            strength = _STRENGTHS[int(gained.argmax())]
    if strength is None:
        return np.zeros((4, size)), np.zeros(4)
    ((dual, constant),) = _ridges(products, targets, (strength,))
    return dual.T.astype(np.float32) @ under(), constant


def _ridges(
    products: np.ndarray, targets: np.ndarray, strengths: tuple[float, ...]
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Coefficients of rows, which add up to 0, and constants, for each strength.

    Rows are far longer than they are many, so all is done by their inner products.
    """
    mean, centre = products.mean(axis=0, dtype=np.float64), targets.mean(axis=0)
    found = []
    for strength in strengths:
        # In place and in LAPACK's order: copies of these would be most of the memory of a fit.
        centred = products.T.astype(np.float64, order="F")
        centred -= mean
        centred -= mean[:, None] - mean.mean()
        centred[np.diag_indices_from(centred)] += strength
        factor = cho_factor(centred, overwrite_a=True, check_finite=False)
        dual = cho_solve(factor, targets - centre, check_finite=False)
        found.append((dual, centre - mean @ dual))
    return found
