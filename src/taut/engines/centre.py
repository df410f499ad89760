"""The moving centre: an inexact proximal point around any dual ascent.

Block ascent on the dual of P is slow where blocks compete: each step is exact for its block and too
long for all of them together. Each pass therefore works on

    P(w) + kappa/2 |w - z|^2,        w = (U + kappa z) / (1 + kappa),     U = sum a psi,

whose blocks are stiffer by 1 + kappa and compete less, and between passes the centre z moves to w.
The dual variables stay feasible for the original problem, and U = (1 + kappa) w - kappa z gives its
dual value, so the certificate stays exact:

    P(w) - D(a) = sum of the blocks' gaps at w + kappa^2/2 |w - z|^2.

With a prior or bounds the last term is that of `taut.spaces.quadratic`.

How strong it should be shows in the moves of U. Blocks that compete undo each other's steps, and
the move of a pass is then short beside what its visits would add up to if they were orthogonal;
under a centre that is too strong all steps point the same way. `next_strength` steers between.
"""

from __future__ import annotations

import math

import numpy as np

from taut.spaces.quadratic import Quadratic
from taut.storage.stored import check, require, vector

# Squared move of a pass over the summed squared moves of its visits, where kappa is left alone.
# Measured: the best of six settings on six data sets, one seed, no held-out evidence.
_GOOD_ALIGNMENT = (0.25, 1.0)
# Passes in which kappa changes quickly. Measured, as the alignment.
_SEARCHING = 10
# By what kappa changes in these passes. Measured, as the alignment.
_FAST = 1.5
# By what it changes later. Chosen by hand.
_SLOW = 1.03
# Kappa below which moving the centre costs more than it brings. Chosen by hand.
_WORTHWHILE = 0.3
# Times the mean of C_i |psi_i|^2: the largest kappa. Chosen by hand.
_LARGEST = 2.0
# What passes must leave of the best gap to count as a gain for the centre. Chosen by hand.
_GAIN = 0.98
# Passes without gain before the centre is weakened. Chosen by hand.
_PATIENCE = 40
# By what kappa and its limit are divided then. Chosen by hand.
_WEAKENING = 3.0


class MovingCentre:
    """The centre z with its strength kappa; `stiffness` is 1 + kappa."""

    def __init__(self, w: np.ndarray, quadratic: Quadratic) -> None:
        self.quadratic = quadratic
        self.z = np.zeros(len(w), dtype=w.dtype)
        self.U = np.zeros(len(w), dtype=w.dtype)  # the dual vector as of the last survey
        self.kappa = 0.0
        self.wanted = 0.0  # kappa as the rule has it, worthwhile or not
        self.limit = math.inf
        self.first_limit = math.inf
        self.passes = 0
        self.best_gap = math.inf
        self.waited = 0

    @property
    def begun(self) -> bool:
        """Whether there is a first strength."""
        return math.isfinite(self.limit)

    @property
    def stiffness(self) -> float:
        """By how much a block's curvature is divided."""
        return 1.0 + self.kappa

    def widen(self) -> None:
        """The vectors in float64."""
        self.z, self.U = self.z.astype(np.float64), self.U.astype(np.float64)

    def survey(self, w: np.ndarray) -> tuple[float, float, float]:
        """g*(U) of the dual point that belongs to w, by how much w misses it, and the move of U.

        The second is g(w) + g*(U) - <U, w>, without bounds and prior 1/2 |w - U|^2; the third is
        the squared distance of U from where the last survey found it.
        """
        return self.quadratic.survey(w, self.z, self.kappa, self.U)

    def hot_start(self, w: np.ndarray, curvature: float) -> None:
        """Begin at weights that are good for a similar problem; passes then stay near."""
        self.z[:] = w
        self.kappa = self.first_strength(curvature)

    def place(self, U: np.ndarray, w: np.ndarray) -> None:
        """Set w for a dual point given by U."""
        self.quadratic.place(w, self.z, self.kappa, U)

    def move(self, w: np.ndarray, kappa: float) -> None:
        """Move the centre to w, and w with it as the dual point and the new strength demand."""
        if self.kappa > 0.0 or kappa > 0.0:
            self.quadratic.move(w, self.z, self.kappa, kappa)
        self.kappa = kappa

    def first_strength(self, curvature: float) -> float:
        """Kappa to begin with, where `curvature` is the mean of C_i |psi_i|^2.

        The root is only where the search begins: it was right on usps and sector, and up to some
        hundred times too small elsewhere. The limit is twice the curvature.
        """
        self.limit = self.first_limit = _LARGEST * max(1.0, curvature)
        self.wanted = math.sqrt(curvature)
        return self._worthwhile()

    def _worthwhile(self) -> float:
        return self.wanted if self.wanted >= _WORTHWHILE else 0.0

    def next_strength(self, alignment: float, gap: float) -> float:
        """Kappa by how the last pass's visits added up; weakened if nothing helps."""
        self.passes += 1
        factor = _FAST if self.passes <= _SEARCHING else _SLOW
        low, high = _GOOD_ALIGNMENT
        if alignment < low:
            self.wanted = min(factor * self.wanted, self.limit)
        elif alignment > high:
            self.wanted /= factor
        self.waited += 1
        if gap < _GAIN * self.best_gap:
            self.best_gap, self.waited = gap, 0
        elif self.waited > _PATIENCE:
            self.wanted = self.limit = self.wanted / _WEAKENING
            self.best_gap, self.waited = gap, 0
        return self._worthwhile()

    def new_problem(self) -> None:
        """Blocks have come in: the gap that there was is no measure of progress any more."""
        self.best_gap, self.waited, self.limit = math.inf, 0, self.first_limit

    def settings(self) -> dict[str, float]:
        """Everything but the vectors."""
        return {name: getattr(self, name) for name in _SETTINGS}

    def resume(self, z: np.ndarray, U: np.ndarray, settings: dict[str, float]) -> None:
        """Go on from z, U and `settings()`."""
        check({"centre": z, "U": U}, {"centre": vector(len(self.z)), "U": vector(len(self.U))})
        for name in ("kappa", "wanted", "passes", "waited"):
            require(math.isfinite(settings[name]), f"{name} of the centre is not finite")
        self.z[:] = z
        self.U[:] = U
        for name in _SETTINGS:
            setattr(self, name, settings[name])


_SETTINGS = ("kappa", "wanted", "limit", "first_limit", "passes", "best_gap", "waited")
