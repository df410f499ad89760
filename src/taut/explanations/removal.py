"""Where w can go when one training block is left out: a ball that surely holds the new optimum.

With block i left out the problem is to minimise P_i(w) = g(w) + sum_{j != i} C_j hinge_j(w), with
g(w) = 1/2 |w - m|^2; its dual is D_i(a) = sum_{j != i} l_j - g*(sum_{j != i} v_j), where
v_j = sum_y a_jy psi_j(y), l_j = sum_y a_jy loss_j(y), and g*(U) = <m, U> + 1/2 |U|^2. Let w' be its
optimum, w any weights, a any feasible dual variables of the whole problem, U = sum_j v_j.

Without those of block i, a is feasible there; it belongs to the weights u = m + U - v_i. P_i is
1-strongly convex, so that P_i(w) - P_i(w') >= 1/2 |w - w'|^2. As C_j hinge_j >= l_j - <w', v_j> at
w', and by the Fenchel-Young inequality for g, whose excess there is 1/2 |u - w'|^2,

    P_i(w') - D_i(a) >= g(w') + g*(U - v_i) - <w', U - v_i> = 1/2 |u - w'|^2.

The sum of both, with |w - w'|^2 + |u - w'|^2 = 2 |w' - c|^2 + 1/2 |w - u|^2 at c = (w + u) / 2, is

    |w' - c|^2 <= P_i(w) - D_i(a) - 1/4 |w - u|^2 =: r^2.

Nothing here needs w or a to be optimal: the gap that a fit ends with is part of r. At the optimum
w = m + U, so P(w) = D(a) and C_i hinge_i(w) = l_i - <w, v_i>, which leaves r = 1/2 |v_i| and
c = w - 1/2 v_i. Any label y then has <w', psi(y)> >= <c, psi(y)> - r |psi(y)|. For two classes that
is the margin - a_i |x_i|^2, the bound of Jaakkola and Haussler (1999); here it holds for any
labels, with any losses, and for what a solver really returns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Removals:
    """What is known of all blocks of a trained problem, as inner products with what it ended with.

    Attributes
    ----------
    penalty : float
        g(w).
    hinges, losses : ndarray of shape (n_blocks,)
        C_i hinge_i(w), and l_i.
    on_w, on_dual, on_mean : ndarray of shape (n_blocks,)
        <w, v_i>, <m + U, v_i> and <m, v_i>.
    squares : ndarray of shape (n_blocks,)
        |v_i|^2.
    rounding : float
        How far rounding may have moved the gap of the fit, besides that of the sums here.
    """

    penalty: float
    hinges: np.ndarray
    losses: np.ndarray
    on_w: np.ndarray
    on_dual: np.ndarray
    on_mean: np.ndarray
    squares: np.ndarray
    rounding: float

    @property
    def gap(self) -> float:
        """P(w) - D(a)."""
        conjugate = self.on_mean.sum() + 0.5 * self._square
        return float(self.penalty + self.hinges.sum() - self.losses.sum() + conjugate)

    @property
    def _square(self) -> float:
        """|U|^2."""
        return float((self.on_dual - self.on_mean).sum())

    def radii(self) -> np.ndarray:
        """The radius r of each block's ball, rounded up."""
        moved = self.on_dual - self.on_mean
        # Of the gap without block i: what leaves the primal, and what the dual loses.
        gaps = self.gap - self.hinges + self.losses - self.on_dual + 0.5 * self.squares
        apart = 2.0 * self.penalty - 2.0 * (self.on_w - self.on_mean).sum() + self._square
        apart = apart + 2.0 * (self.on_w - self.on_dual) + self.squares
        terms = (self.hinges, self.losses, self.on_w, self.on_dual, self.on_mean, moved)
        size = self.penalty + sum(float(np.abs(term).sum()) for term in terms)
        slop = self.rounding + 8.0 * np.finfo(np.float64).eps * (
            (8.0 + np.sqrt(len(gaps))) * size + self.squares
        )
        return np.sqrt(np.maximum(gaps + slop - 0.25 * np.maximum(apart - slop, 0.0), 0.0))
