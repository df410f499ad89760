"""A point of a kernel's space with fewer support rows, made while training goes on."""

from __future__ import annotations

import numpy as np

from taut.spaces.kernel import KernelFeatures

_STEPS = 50  # of conjugate gradients, at most
_ENOUGH = 1e-3  # of the first residual, that may be left
_STIFF = 1e-5  # of the mean of k(x, x), that is added to the diagonal


class SupportBudget:
    """Leaves at most so many rows with coefficients, those with the longest terms of the sums.

    What the others have is dropped, or w is projected onto the span of the rows that stay, in which
    it then moves least: their coefficients change by the d that solves K_kept d = K_kept,others b.

    Parameters
    ----------
    features : KernelFeatures
    most : int
    merges : bool
        Whether to project; otherwise terms are dropped.
    """

    def __init__(self, features: KernelFeatures, most: int, merges: bool) -> None:
        self.features, self.most, self.merges = features, most, merges
        self._matrix = features.second_matrix()

    def shrink(self, w: np.ndarray, *others: np.ndarray) -> None:
        """Drop the same rows from some points.

        The potentials of w are brought up to date. Those of others are left behind, until
        somebody asks for them (`Features.settle`): they would take as long again.
        """
        features = self.features
        coefficients = [features.shares(point)[1] for point in (w, *others)]
        b = np.vstack(coefficients)
        support = np.flatnonzero(b.any(axis=0))
        excess = len(support) - self.most
        if excess <= 0:
            return
        length = (b[:, support] ** 2).sum(axis=0) * features.norms[support]
        order = np.argpartition(length, excess - 1)
        dropped, kept = np.sort(support[order[:excess]]), np.sort(support[order[excess:]])
        changed, new = dropped, np.zeros((len(b), excess))
        if self.merges:
            moved = b[:, kept] + self._projected(b[:, dropped], dropped, kept)
            changed, new = np.concatenate([dropped, kept]), np.hstack([new, moved])
        own, *rest = np.split(new, len(coefficients))
        features.set_coefficients(changed, own, w)
        for target, values in zip(coefficients[1:], rest, strict=True):
            target[:, changed] = values

    def _projected(self, b: np.ndarray, dropped: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """The coefficients of kept rows that come nearest to those of dropped ones."""
        if self._matrix.cache is not self.features.cache:  # which has been widened
            self._matrix = self.features.second_matrix()
        members, matrix = self._matrix.hold(np.union1d(kept, dropped))
        place = np.empty(self.features.n_rows, dtype=np.int64)
        place[members] = np.arange(len(members))
        rows = matrix[place[kept]]
        K = np.ascontiguousarray(rows[:, place[kept]])
        K[np.diag_indices_from(K)] += K.dtype.type(_STIFF * float(K.diagonal().mean()))
        return _solve(K, b.astype(K.dtype) @ rows[:, place[dropped]].T)


def _solve(K: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Rows x with x K = right, nearly, each by conjugate gradients."""
    x, left = np.zeros(right.shape), right.astype(np.float64)
    along, square = left.copy(), (left**2).sum(axis=1)
    first = square.copy()
    for _ in range(_STEPS):
        if (square <= _ENOUGH**2 * first).all():
            break
        product = (along.astype(K.dtype) @ K).astype(np.float64)
        curve = (along * product).sum(axis=1)
        step = np.divide(square, curve, out=np.zeros_like(square), where=curve > 0.0)
        x += step[:, None] * along
        left -= step[:, None] * product
        before, square = square, (left**2).sum(axis=1)
        share = np.divide(square, before, out=np.zeros_like(square), where=before > 0.0)
        along = left + share[:, None] * along
    return x
