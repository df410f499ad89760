"""A point of a kernel's space with fewer support rows, made while training goes on."""

from __future__ import annotations

import numpy as np

from taut.spaces.kernel import KernelFeatures


def shrink(features: KernelFeatures, w: np.ndarray, most: int, merges: bool) -> None:
    """Leave at most so many rows with coefficients, the longest terms of the sum.

    What the others have is lost, or moves to the row that is left whose multiple comes nearest:
    b k(x, z) is nearest to b_x k(x, .) as (b_x k(x, z) / k(z, z)) k(z, .).
    """
    b = features.shares(w)[1]
    support = np.flatnonzero(b.any(axis=0))
    excess = len(support) - most
    if excess <= 0:
        return
    worth = (b[:, support] ** 2).sum(axis=0) * features.norms[support]
    order = np.argpartition(worth, excess - 1)
    left = np.sort(support[order[excess:]])
    dropped = np.sort(support[order[:excess]])
    changed, new = dropped, np.zeros((len(b), excess))
    if merges:
        values = np.empty((excess, len(left)), dtype=features.rows.dtype)
        features.cache.compute(dropped, left, values)
        likeness = np.abs(values) / np.sqrt(features.norms[left])
        nearest = likeness.argmax(axis=1)
        shares = values[np.arange(excess), nearest] / features.norms[left[nearest]]
        moved = b[:, left].copy()
        for column, own in zip(moved, b[:, dropped]):
            np.add.at(column, nearest, own * shares)
        changed, new = np.concatenate([dropped, left]), np.hstack([new, moved])
    features.set_coefficients(changed, new, w)
