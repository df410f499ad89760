"""The moving centre: an inexact proximal point around any dual ascent.

Block ascent on the dual of P is slow where blocks compete: each step is exact for its block and too
long for all of them together. Each pass therefore works on

    P(w) + kappa/2 |w - z|^2,        w = (U + kappa z) / (1 + kappa),     U = sum a psi,

whose blocks are stiffer by 1 + kappa and compete less, and between passes the centre z moves to w.
The dual variables stay feasible for the original problem, and U = (1 + kappa) w - kappa z gives its
dual value, so the certificate stays exact:

    P(w) - D(a) = sum of the blocks' gaps at w + kappa^2/2 |w - z|^2.

How strong it should be shows in the moves of U. Blocks that compete undo each other's steps, and
the move of a pass is then short beside what its visits would add up to if they were orthogonal;
under a centre that is too strong all steps point the same way. `adapt` steers between the two.
"""

from __future__ import annotations

import math

import numpy as np

#: Squared move of a pass over the summed squared moves of its visits, where kappa is left alone.
_GOOD_ALIGNMENT = (0.25, 1.0)
_SEARCHING = 10  # passes in which kappa changes quickly
_FAST, _SLOW = 1.5, 1.03
_PATIENCE = 40  # passes without a gain of 2 % before the centre is weakened
_GAIN = 0.98


class MovingCentre:
    """The centre z with its strength kappa; `stiffness` is 1 + kappa."""

    def __init__(self, n_features: int) -> None:
        self.z = np.zeros(n_features)
        self.kappa = 0.0
        self.limit = math.inf
        self.passes = 0
        self.best_gap = math.inf
        self.waited = 0

    @property
    def stiffness(self) -> float:
        """By how much a block's curvature is divided."""
        return 1.0 + self.kappa

    def dual_vector(self, w: np.ndarray) -> np.ndarray:
        """U of the dual point that belongs to w."""
        return self.stiffness * w - self.kappa * self.z

    def place(self, U: np.ndarray, w: np.ndarray) -> None:
        """Set w for a dual point given by U."""
        np.divide(U + self.kappa * self.z, self.stiffness, out=w)

    def begin(self, curvature: float, w: np.ndarray) -> None:
        """Choose the first kappa, where `curvature` is the mean of C_i |psi_i|^2.

        The root is only where the search begins: it was right on usps and sector, and up to some
        hundred times too small elsewhere. The limit is twice the curvature.
        """
        self.limit = 2.0 * max(1.0, curvature)
        self.strengthen(math.sqrt(curvature), w)

    def strengthen(self, kappa: float, w: np.ndarray) -> None:
        """Change kappa while w and the dual point stay: the centre's distance from w gives way."""
        if kappa > 0.0:
            self.z[:] = w + self.kappa / kappa * (self.z - w)
        self.kappa = kappa

    def move(self, w: np.ndarray) -> None:
        """Move the centre to w, and w with it as the dual point demands."""
        if self.kappa > 0.0:
            step = w - self.z
            self.z[:] = w
            w += self.kappa / self.stiffness * step

    def adapt(self, alignment: float, gap: float, w: np.ndarray) -> None:
        """Steer kappa by how the last pass's visits added up, and weaken it if nothing helps."""
        self.passes += 1
        factor = _FAST if self.passes <= _SEARCHING else _SLOW
        low, high = _GOOD_ALIGNMENT
        if alignment < low:
            self.strengthen(min(factor * self.kappa, self.limit), w)
        elif alignment > high:
            self.strengthen(self.kappa / factor, w)
        self.waited += 1
        if gap < _GAIN * self.best_gap:
            self.best_gap, self.waited = gap, 0
        elif self.waited > _PATIENCE:
            self.limit = self.kappa / 3.0
            self.strengthen(self.limit, w)
            self.best_gap, self.waited = gap, 0

    def settings(self) -> dict[str, float]:
        """Everything but z."""
        return {name: getattr(self, name) for name in _SETTINGS}

    def resume(self, z: np.ndarray, settings: dict[str, float]) -> None:
        """Go on from z and `settings()`."""
        self.z[:] = z
        for name in _SETTINGS:
            setattr(self, name, settings[name])


_SETTINGS = ("kappa", "limit", "passes", "best_gap", "waited")
