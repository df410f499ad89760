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
under a centre that is too strong all steps point the same way. `next_strength` steers between.
"""

from __future__ import annotations

import math

import numpy as np

from taut._jit import kernel

#: Squared move of a pass over the summed squared moves of its visits, where kappa is left alone.
_GOOD_ALIGNMENT = (0.25, 1.0)
_SEARCHING = 10  # passes in which kappa changes quickly
_FAST, _SLOW = 1.5, 1.03
_PATIENCE = 40  # passes without a gain of 2 % before the centre is weakened
_GAIN = 0.98
_WORTHWHILE = 0.3  # kappa below which moving the centre costs more than it brings


# Each of these reads its vectors once: beside a pass over sparse rows, w is the larger part of the
# traffic, and a temporary vector costs as much as w itself.


@kernel
def _survey(w, z, kappa, U):
    """U = w + kappa (w - z); return |U|^2, |w - z|^2 and the squared move of U."""
    square = 0.0
    distance = 0.0
    move = 0.0
    for j in range(w.shape[0]):
        step = w[j] - z[j]
        u = w[j] + kappa * step
        change = u - U[j]
        square += u * u
        distance += step * step
        move += change * change
        U[j] = u
    return square, distance, move


@kernel
def _move(w, z, share):
    """Z = w, and w takes a share of the step with it."""
    for j in range(w.shape[0]):
        x = w[j]
        w[j] = x + share * (x - z[j])
        z[j] = x


@kernel
def _place(w, z, kappa, U):
    """W = (U + kappa z) / (1 + kappa)."""
    for j in range(w.shape[0]):
        w[j] = (U[j] + kappa * z[j]) / (1.0 + kappa)


class MovingCentre:
    """The centre z with its strength kappa; `stiffness` is 1 + kappa.

    Attributes
    ----------
    U : ndarray
        The dual vector as of the last `survey`.
    """

    def __init__(self, w: np.ndarray) -> None:
        self.z = np.zeros(len(w), dtype=w.dtype)
        self.U = np.zeros(len(w), dtype=w.dtype)
        self.kappa = 0.0
        self.wanted = 0.0  # kappa as the rule has it, worthwhile or not
        self.limit = math.inf
        self.passes = 0
        self.best_gap = math.inf
        self.waited = 0

    @property
    def stiffness(self) -> float:
        """By how much a block's curvature is divided."""
        return 1.0 + self.kappa

    def widen(self) -> None:
        """The vectors in float64."""
        self.z, self.U = self.z.astype(np.float64), self.U.astype(np.float64)

    def survey(self, w: np.ndarray) -> tuple[float, float, float]:
        """|U|^2 of the dual point that belongs to w, |w - U|^2, and how far U moved, squared."""
        square, distance, move = _survey(w, self.z, self.kappa, self.U)
        return square, self.kappa**2 * distance, move

    def place(self, U: np.ndarray, w: np.ndarray) -> None:
        """Set w for a dual point given by U."""
        _place(w, self.z, self.kappa, U)

    def move(self, w: np.ndarray, kappa: float) -> None:
        """Move the centre to w, and w with it as the dual point and the new strength demand."""
        if self.kappa > 0.0 or kappa > 0.0:
            _move(w, self.z, self.kappa / (1.0 + kappa))
        self.kappa = kappa

    def first_strength(self, curvature: float) -> float:
        """Kappa to begin with, where `curvature` is the mean of C_i |psi_i|^2.

        The root is only where the search begins: it was right on usps and sector, and up to some
        hundred times too small elsewhere. The limit is twice the curvature.
        """
        self.limit = 2.0 * max(1.0, curvature)
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
            self.wanted = self.limit = self.wanted / 3.0
            self.best_gap, self.waited = gap, 0
        return self._worthwhile()

    def settings(self) -> dict[str, float]:
        """Everything but the vectors."""
        return {name: getattr(self, name) for name in _SETTINGS}

    def resume(self, z: np.ndarray, U: np.ndarray, settings: dict[str, float]) -> None:
        """Go on from z, U and `settings()`."""
        self.z[:] = z
        self.U[:] = U
        for name in _SETTINGS:
            setattr(self, name, settings[name])


_SETTINGS = ("kappa", "wanted", "limit", "passes", "best_gap", "waited")
