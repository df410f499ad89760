"""Kernels on angles: which directions, or poses, are alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from taut.checks import check_positive
from taut.data.angles import as_angles, nearest_angles, turns
from taut.errors import InvalidData, InvalidType
from taut.kernels.given import checked_values
from taut.kernels.labels import LabelKernel, Labels

_MOST_TERMS = 10_000
_ROUNDING = 32.0  # units in the last place, for each angle


def _as_angles(labels: Labels) -> np.ndarray:
    """Labels as angles."""
    advice = "give finite numbers as labels, or aspect=, a function of a label that returns one"
    return as_angles(labels, "the kernel on angles", advice)


class VonMisesLabels(LabelKernel):
    """exp(kappa (cos(a - b) - 1)) of labels that are angles in radians.

    Positive definite on the circle for every kappa, unlike a Gaussian of the difference of angles.

    Parameters
    ----------
    kappa : float, default=1.0
    precision : float, default=1e-9
        Of `finite_map`: what the Fourier terms that it leaves out sum to at most.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import VonMisesLabels
    >>> kernel, angles = VonMisesLabels(2.0), np.array([0.0, 1.0, np.pi])
    >>> kernel.between(angles, angles).round(3)
    array([[1.   , 0.399, 0.018],
           [0.399, 1.   , 0.046],
           [0.018, 0.046, 1.   ]])
    >>> L = kernel.map(angles, 1e-6)
    >>> L.shape, bool(np.abs(L @ L.T - kernel.between(angles, angles)).max() < 1e-6)
    ((3, 17), True)
    """

    def __init__(self, kappa: float = 1.0, precision: float = 1e-9) -> None:
        self.kappa = check_positive("kappa", kappa)
        self.precision = check_positive("precision", precision)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kappa={self.kappa:g})"

    finite = True

    def finite_map(self, labels):
        """`map`, to the precision."""
        return self.map(labels, self.precision)

    def between(self, labels: Labels, others: Labels) -> np.ndarray:
        """By the cosines of differences."""
        angles, more = _as_angles(labels), _as_angles(others)
        return np.exp(self.kappa * (np.cos(angles[:, None] - more) - 1.0))

    def map(self, angles: Any, precision: float = 1e-9) -> np.ndarray:
        """The Fourier terms 1, cos(m a), sin(m a), scaled so that their inner products are k.

        k = exp(-kappa) [I_0(kappa) + 2 sum_m I_m(kappa) cos(m (a - b))]; terms beyond the last sum
        to at most `precision`. They are there for any angle, and no grid enters.

        Parameters
        ----------
        angles : array of shape (n,)
        precision : float, default=1e-9

        Returns
        -------
        ndarray of shape (n, 2 m + 1)
        """
        tolerated = check_positive("precision", precision)
        sizes = [float(scipy.special.ive(0, self.kappa))]
        while 1.0 - sum(sizes) > tolerated and len(sizes) < _MOST_TERMS:
            size = 2.0 * float(scipy.special.ive(len(sizes), self.kappa))
            if size < np.finfo(float).eps:  # the rest is lost in rounding
                break
            sizes.append(size)
        turns = np.outer(_as_angles(angles), np.arange(1, len(sizes)))
        both = np.stack([np.cos(turns), np.sin(turns)], axis=2).reshape(len(turns), -1)
        scale = np.sqrt(np.repeat(sizes[1:], 2))
        return np.hstack([np.full((len(turns), 1), np.sqrt(sizes[0])), both * scale])


class GaussianLabels(LabelKernel):
    """exp(-kappa d^2 / 2) of labels that are angles in radians, with d from 0 to pi between them.

    Like `VonMisesLabels` where d is small, but not positive definite on the circle: certificates
    need `check_angles`, which most kappa and grids fail.

    Parameters
    ----------
    kappa : float, default=1.0

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import GaussianLabels
    >>> GaussianLabels(2.0).between([0.0], [0.0, np.pi, 2 * np.pi]).round(3)
    array([[1., 0., 1.]])
    """

    def __init__(self, kappa: float = 1.0) -> None:
        self.kappa = check_positive("kappa", kappa)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(kappa={self.kappa:g})"

    def between(self, labels: Labels, others: Labels) -> np.ndarray:
        """By the squares of differences."""
        turned = turns(_as_angles(labels)[:, None], _as_angles(others))
        return np.exp(-0.5 * self.kappa * turned**2)


class SectorLabels(LabelKernel):
    """1 for two angles in the same sector of the circle, else 0: a template for each sector.

    Sector k of n is around the angle 2 pi k / n.

    Parameters
    ----------
    n : int
        Sectors.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import SectorLabels
    >>> SectorLabels(4).between([0.1], [-0.1, 1.5, 2 * np.pi])
    array([[1., 0., 1.]])
    """

    finite = True

    def __init__(self, n: int) -> None:
        if check_positive("n", n) != int(n):
            raise InvalidData(f"n = {n}: give a whole number of sectors")
        self.n = int(n)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.n})"

    def finite_map(self, labels):
        """1 for the sector of an angle."""
        return np.eye(self.n)[self._sectors(labels)]

    def between(self, labels: Labels, others: Labels) -> np.ndarray:
        """By the numbers of sectors."""
        own, more = self._sectors(labels), self._sectors(others)
        return (own[:, None] == more).astype(np.float64)

    def _sectors(self, labels: Any) -> np.ndarray:
        return nearest_angles(_as_angles(labels), self.n)


class AngleFunction(LabelKernel):
    """A user's kernel on angles.

    Parameters
    ----------
    function : callable
        function(angles, others) of two arrays of radians returns the matrix of each of the one with
        each of the others.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import AngleFunction
    >>> kernel = AngleFunction(lambda a, b: 1.0 + np.cos(a[:, None] - b))
    >>> kernel.between([0.0], [0.0, np.pi])
    array([[2., 0.]])
    """

    def __init__(self, function: Callable) -> None:
        if not callable(function):
            raise InvalidType(f"function = {function!r}: give a function of two arrays of angles")
        self.function = function

    def __repr__(self) -> str:
        return f"the kernel {getattr(self.function, '__name__', repr(self.function))} on angles"

    def between(self, labels: Labels, others: Labels) -> np.ndarray:
        """What the function returns, checked."""
        angles, more = _as_angles(labels), _as_angles(others)
        given = self.function(angles, more)
        values = checked_values(repr(self), given, len(angles), len(more), "angles")
        return values.astype(np.float64, copy=False)


def check_angles(kernel: LabelKernel, angles: np.ndarray) -> np.ndarray:
    """The matrix of a kernel over a grid of angles, or InvalidData if that is not semidefinite.

    Examples
    --------
    >>> from taut.data.angles import grid_of
    >>> from taut.kernels import GaussianLabels, VonMisesLabels
    >>> from taut.kernels.angles import check_angles
    >>> check_angles(VonMisesLabels(0.2), grid_of(16)).shape
    (16, 16)
    >>> check_angles(GaussianLabels(0.2), grid_of(16))
    Traceback (most recent call last):
    taut.errors.InvalidData: GaussianLabels(kappa=0.2) is not positive semidefinite on 16 angles...
    """
    matrix = kernel.between(angles, angles)
    if np.abs(matrix - matrix.T).max() > 1e-9 * np.abs(matrix).max():
        raise InvalidData(f"{kernel!r} is not symmetric: return the same for (a, b) and (b, a)")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest < -_ROUNDING * len(angles) * float(np.finfo(float).eps) * np.abs(matrix).max():
        raise InvalidData(
            f"{kernel!r} is not positive semidefinite on {len(angles)} angles: its smallest "
            f"eigenvalue is {smallest:.2g}, so no model can be certified; use VonMisesLabels "
            '("von_mises"), exp(kappa (cos d - 1)), which is definite for every kappa'
        )
    return matrix
