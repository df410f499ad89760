"""The moving centre: an inexact proximal point around any dual ascent.

Block ascent on the dual of P is slow where blocks compete: each step is exact for its block and too
long for all of them together. Each pass therefore works on

    P(w) + kappa/2 |w - z|^2,        w = (U + kappa z) / (1 + kappa),     U = sum a psi,

whose blocks are stiffer by 1 + kappa and compete less, and between passes the centre z moves to w.
The dual variables stay feasible for the original problem, and U = (1 + kappa) w - kappa z gives its
dual value, so the certificate stays exact:

    P(w) - D(a) = sum of the blocks' gaps at w + kappa^2/2 |w - z|^2.
"""

from __future__ import annotations

import numpy as np

_PATIENCE = 40
_GAIN = 0.98


class MovingCentre:
    """The centre z with its strength kappa; `stiffness` is 1 + kappa."""

    def __init__(self, n_features: int) -> None:
        self.kappa = 0.0
        self.z = np.zeros(n_features)
        self.best_gap = np.inf
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

    def strengthen(self, kappa: float, w: np.ndarray) -> None:
        """Change kappa; the dual point stays and the centre moves to w."""
        U = self.dual_vector(w)
        self.kappa = kappa
        self.z[:] = w
        self.place(U, w)

    def move(self, w: np.ndarray) -> None:
        """Move the centre to w, and w with it as the dual point demands."""
        if self.kappa == 0.0:
            return
        step = w - self.z
        self.z[:] = w
        w += self.kappa / self.stiffness * step

    def watch(self, gap: float, w: np.ndarray) -> None:
        """Weaken a centre under which the gap does not fall."""
        if gap < _GAIN * self.best_gap:
            self.best_gap, self.waited = gap, 0
            return
        self.waited += 1
        if self.kappa > 0.0 and self.waited > _PATIENCE:
            self.strengthen(self.kappa / 3.0 if self.kappa > 1.0 else 0.0, w)
            self.best_gap, self.waited = gap, 0

    def settings(self) -> dict[str, float | str]:
        """Everything but z, as JSON values."""
        return {"kappa": self.kappa, "best_gap": str(self.best_gap), "waited": self.waited}

    def resume(self, z: np.ndarray, settings: dict[str, float | str]) -> None:
        """Go on from z and `settings()`."""
        self.z[:] = z
        self.kappa = float(settings["kappa"])
        self.best_gap = float(settings["best_gap"])
        self.waited = int(settings["waited"])
