"""An interior point for linear machines of few columns, on which coordinate ascent is too slow.

Where columns have very different scales, or C is large, coordinate ascent takes more passes than
anybody waits for. The number of steps of an interior point hardly depends on either. One step costs
the products of all pairs of columns, n d^2, and a Cholesky factor of d x d (Ferris and Munson,
2002, with the predictor and corrector of Mehrotra, 1992).

The dual of `taut.certification.losses` with one variable v >= 0 for each ramp, of sign s:

    min_v  1/2 |Z'v|^2 + sum_k q_k v_k^2 / 2 - gain_k v_k,   v_k <= cap_k,   Z_k = s_k x_k

Its conditions, with w as the multipliers of penalty * w = Z'v, where a free bias has penalty 0:

    Z w + q v - gain - low + high = 0,   low v = 0,   high (cap - v) = 0,   low, high >= 0
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp

from taut.certification.losses import Losses
from taut.certification.spaces import LinearSpace

_MOST_COLUMNS = 1000  # whose pairs are multiplied in each step
_REST = 0.005  # of the way to the boundary, which no step takes
_RIDGE = 1e-14  # of the scaled matrix's diagonal


def is_affordable(space: LinearSpace) -> bool:
    """Whether there are so few columns that steps are cheap."""
    return space.X.shape[1] <= _MOST_COLUMNS


class InteriorPoint:
    """Steps towards the best dual variables of a linear machine.

    Parameters
    ----------
    space : LinearSpace
    losses : Losses
    free : bool
        Whether there is a bias that is not regularised.
    """

    def __init__(self, space: LinearSpace, losses: Losses, free: bool) -> None:
        X: Any = space.X
        n, d = X.shape
        last = np.full((n, 1), 1.0 if free else space.constant)
        if free or space.constant:
            X = sp.csr_array(sp.hstack([X, last])) if sp.issparse(X) else np.hstack([X, last])
        self.X = X
        self.penalty = np.ones(X.shape[1])
        self.penalty[d:] = 0.0 if free else 1.0
        up, low = np.flatnonzero(losses.up > 0.0), np.flatnonzero(losses.low > 0.0)
        self.row = np.concatenate([up, low])
        self.sign = np.concatenate([np.ones(len(up)), -np.ones(len(low))])
        lower, upper = losses.box()
        self.cap = np.concatenate([upper[up], -lower[low]])
        above, below = losses.curvature()
        self.q = np.concatenate([above[up], below[low]])
        self.gain = self.sign * losses.target[self.row] - losses.epsilon
        self.capped = np.isfinite(self.cap)
        # In the middle of a box; of a half line about where the loss of w = 0 has its slope.
        size = np.maximum(np.abs(self.gain), 1e-3)
        halves = np.divide(size, self.q, out=np.zeros(len(size)), where=~self.capped)
        self.v = np.where(self.capped, 0.5 * np.where(self.capped, self.cap, 0.0), halves)
        # Kept by itself: the difference of cap and v has no digits where both are near.
        self.room = np.where(self.capped, self.cap - self.v, 1.0)
        self.w = np.zeros(X.shape[1])
        slope = self.q * self.v - self.gain
        spread = float(np.abs(self.gain).max(initial=1e-3))
        self.low = np.maximum(slope, 0.0) + spread
        self.high = np.where(self.capped, np.maximum(-slope, 0.0) + spread, 0.0)

    @property
    def beta(self) -> np.ndarray:
        """The dual variables of the rows."""
        return np.bincount(self.row, self.sign * self.v, minlength=self.X.shape[0])

    def step(self) -> bool:
        """One step; False where rounding allows none."""
        with np.errstate(all="ignore"):  # what is not finite ends the steps
            return self._step()

    def _step(self) -> bool:
        room = self.room
        theta = self.q + self.low / self.v + self.high / room
        try:
            factor = self._factor(1.0 / theta)
        except (np.linalg.LinAlgError, ValueError):
            return False
        slope = self._scores(self.w) + self.q * self.v - self.gain
        lack = self._sums(self.v) - self.penalty * self.w
        pairs = float(self.low @ self.v + self.high @ room)
        count = len(self.v) + np.count_nonzero(self.capped)
        shift_low = shift_high = np.zeros(len(self.v))
        for corrects in (False, True):
            # The slopes of the bounds cancel: -slope + low - high, and -low + high of their pairs.
            right = -slope + shift_low / self.v - shift_high / room
            dw = factor(self._sums(right / theta) + lack)
            dv = (right - self._scores(dw)) / theta
            dlow = shift_low / self.v - self.low - self.low / self.v * dv
            dhigh = np.where(
                self.capped, shift_high / room - self.high + self.high / room * dv, 0.0
            )
            if not all(np.isfinite(change).all() for change in (dw, dv, dlow, dhigh)):
                return False
            droom = np.where(self.capped, -dv, 0.0)
            moves = (self.v, dv), (room, droom), (self.low, dlow), (self.high, dhigh)
            length = min(_reach(values, change) for values, change in moves)
            if corrects:
                break
            after = float(
                (self.low + length * dlow) @ (self.v + length * dv)
                + (self.high + length * dhigh) @ (room + length * droom)
            )
            wanted = (after / pairs) ** 3 * pairs / count if pairs > 0.0 else 0.0
            shift_low = wanted - dlow * dv
            shift_high = np.where(self.capped, wanted + dhigh * dv, 0.0)
        length *= 1.0 - _REST
        self.v, self.room = self.v + length * dv, self.room + length * droom
        self.low, self.high = self.low + length * dlow, self.high + length * dhigh
        self.w = self.w + length * dw
        return length > 1e-10

    def _scores(self, w: np.ndarray) -> np.ndarray:
        """Z w."""
        return self.sign * (self.X @ w)[self.row]

    def _sums(self, v: np.ndarray) -> np.ndarray:
        """Z'v."""
        return self.X.T @ np.bincount(self.row, self.sign * v, minlength=self.X.shape[0])

    def _factor(self, weight: np.ndarray) -> Any:
        """What solves with penalty + Z' diag(weight) Z."""
        roots = np.sqrt(np.bincount(self.row, weight, minlength=self.X.shape[0]))
        if sp.issparse(self.X):
            rows = sp.csr_array(sp.diags_array(roots) @ self.X)
            matrix = (rows.T @ rows).toarray()
        else:
            rows = self.X * roots[:, None]
            matrix = rows.T @ rows
        matrix[np.diag_indices_from(matrix)] += self.penalty
        # Columns of any scale; without a row that sees it, a free bias is anything.
        scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal(), np.finfo(float).tiny))
        matrix *= np.outer(scale, scale)
        matrix[np.diag_indices_from(matrix)] += _RIDGE
        cholesky = scipy.linalg.cho_factor(matrix, overwrite_a=True)
        return lambda right: (
            scale * scipy.linalg.cho_solve(cholesky, scale * right, check_finite=False)
        )


def _reach(values: np.ndarray, change: np.ndarray) -> float:
    """The longest step, at most 1, after which no value is negative."""
    falls = change < 0.0
    return float((values[falls] / -change[falls]).min(initial=1.0))
