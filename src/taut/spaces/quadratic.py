"""The regulariser where the dual lives: 1/2 |w - shift|^2 with w >= lower, and its conjugate.

Passes add to v = shift + U, U = sum a psi, and the weights that belong to it are w = max(v, lower):
v is never clipped in place, because U, and the dual value with it, could not be read off it again.

    g(w)  = 1/2 |w - shift|^2  for w >= lower
    g*(U) = max_w <U, w> - g(w) = <U, u> - 1/2 |u - shift|^2,     u = max(shift + U, lower)

    P(w) = g(w) + sum_i C_i hinge_i(w),        D(a) = sum a loss - g*(U)

With a centre z of strength kappa (`taut.engines.centre`), v = (shift + U + kappa z) / (1 + kappa).

Each function reads its vectors once: beside a pass over sparse rows, w is the larger part of the
traffic, and a temporary vector costs as much as w itself.
"""

from __future__ import annotations

import numpy as np

from taut.compiled.jit import kernel


@kernel
def _survey(w, z, kappa, U):
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
    return 0.5 * square, 0.5 * kappa * kappa * distance, move


@kernel
def _move(w, z, share):
    for j in range(w.shape[0]):
        x = w[j]
        w[j] = x + share * (x - z[j])
        z[j] = x


@kernel
def _place(w, z, kappa, U):
    for j in range(w.shape[0]):
        w[j] = (U[j] + kappa * z[j]) / (1.0 + kappa)


class Quadratic:
    """g(w) = 1/2 |w|^2, where points are vectors of weights."""

    #: Whether points are weights, and inner products are taken number by number.
    of_weights: bool = True

    def covector(self, v: np.ndarray) -> np.ndarray:
        """The vector whose products with others, number by number, are the inner products of v."""
        return v

    def dot(self, a: np.ndarray, b: np.ndarray) -> float:
        """The inner product of two points."""
        return float(a @ self.covector(b))

    def value(self, v: np.ndarray) -> float:
        """G of the weights that belong to v."""
        return float(0.5 * (v @ v))

    def conjugate(self, U: np.ndarray) -> float:
        """g*(U)."""
        return float(0.5 * (U @ U))

    def magnitude(self, U: np.ndarray) -> float:
        """The summed sizes of the terms of `conjugate`, at most."""
        return float(U @ U)

    def survey(
        self, v: np.ndarray, z: np.ndarray, kappa: float, U: np.ndarray
    ) -> tuple[float, float, float]:
        """U of v; return g*(U), g(w) + g*(U) - <U, w> >= 0, and how far U moved, squared."""
        return _survey(v, z, kappa, U)

    def move(self, v: np.ndarray, z: np.ndarray, old: float, new: float) -> None:
        """Put the centre at w, and v where the same U and a centre of strength `new` have it."""
        _move(v, z, old / (1.0 + new))

    def place(self, v: np.ndarray, z: np.ndarray, kappa: float, U: np.ndarray) -> None:
        """Set v for a dual point given by U."""
        _place(v, z, kappa, U)

    def point(self, v: np.ndarray) -> np.ndarray:
        """The weights that belong to v, where planes are evaluated: the gradient of g*."""
        return v

    def along(self, v: np.ndarray, factor: float) -> tuple[float, float]:
        """g* of `factor` times the dual vector that v belongs to, and its slope in `factor`."""
        square = float(v @ v)
        return 0.5 * factor * factor * square, factor * square

    def highest_along(self, v: np.ndarray, loss: float, limit: float) -> tuple[float, float]:
        """The best factor up to `limit` for dual variables whose summed loss and v are given.

        Returns it and the dual value there. The dual is concave in the factor, and its slope is
        linear where w has no bounds: the root of the line through the slopes at both ends is then
        the best, and a feasible choice in any case.
        """
        factor = limit
        conjugate, rise = self.along(v, limit)
        end = loss - rise
        if end < 0.0:
            begin = loss - self.along(v, 0.0)[1]
            factor = limit * begin / (begin - end) if begin > 0.0 else 0.0
            conjugate, _ = self.along(v, factor)
        return factor, float(factor * loss - conjugate)

    def dual_vector(self, v: np.ndarray, factor: float, U: np.ndarray) -> None:
        """U = `factor` times the dual vector that v belongs to."""
        np.multiply(v, factor, out=U)

    def rescale(self, v: np.ndarray, factor: float) -> None:
        """Multiply the dual vector that v belongs to."""
        v *= factor


class InnerQuadratic(Quadratic):
    """1/2 |w|^2 of points that are no weights: all goes through `dot`."""

    of_weights = False

    def value(self, v):
        """1/2 <v, v>."""
        return 0.5 * self.dot(v, v)

    def conjugate(self, U):
        """1/2 <U, U>."""
        return 0.5 * self.dot(U, U)

    def survey(self, v, z, kappa, U):
        """As for weights."""
        step = v - z
        new = v + kappa * step
        moved = new - U
        U[:] = new
        return self.conjugate(new), 0.5 * kappa**2 * self.dot(step, step), self.dot(moved, moved)

    def along(self, v, factor):
        """As for weights."""
        square = self.dot(v, v)
        return 0.5 * factor * factor * square, factor * square


@kernel
def _bounded_value(v, shift, lower):
    total = 0.0
    for j in range(v.shape[0]):
        total += (max(v[j], lower[j]) - shift[j]) ** 2
    return 0.5 * total


@kernel
def _bounded_conjugate(U, shift, lower):
    total = 0.0
    for j in range(U.shape[0]):
        u = max(shift[j] + U[j], lower[j])
        total += U[j] * u - 0.5 * (u - shift[j]) ** 2
    return total


@kernel
def _bounded_survey(v, z, kappa, shift, lower, U):
    conjugate = 0.0
    excess = 0.0
    move = 0.0
    for j in range(v.shape[0]):
        new = v[j] + kappa * (v[j] - z[j]) - shift[j]
        w = max(v[j], lower[j])
        u = max(shift[j] + new, lower[j])
        conjugate += new * u - 0.5 * (u - shift[j]) ** 2
        # g(w) + g*(U) - <U, w>, in a form that rounding leaves positive.
        excess += (u - w) * (new + shift[j] - 0.5 * (u + w))
        move += (new - U[j]) ** 2
        U[j] = new
    return conjugate, excess, move


@kernel
def _bounded_move(v, z, old, new, lower):
    for j in range(v.shape[0]):
        w = max(v[j], lower[j])
        v[j] = ((1.0 + old) * v[j] - old * z[j] + new * w) / (1.0 + new)
        z[j] = w


@kernel
def _bounded_place(v, z, kappa, shift, U):
    for j in range(v.shape[0]):
        v[j] = (shift[j] + U[j] + kappa * z[j]) / (1.0 + kappa)


@kernel
def _bounded_along(v, factor, shift, lower):
    conjugate = 0.0
    slope = 0.0
    for j in range(v.shape[0]):
        step = v[j] - shift[j]
        u = max(shift[j] + factor * step, lower[j])
        conjugate += factor * step * u - 0.5 * (u - shift[j]) ** 2
        slope += step * u
    return conjugate, slope


@kernel
def _bounded_rescale(v, factor, shift):
    for j in range(v.shape[0]):
        v[j] = shift[j] + factor * (v[j] - shift[j])


class BoundedQuadratic(Quadratic):
    """g(w) = 1/2 |w - shift|^2 for w >= lower."""

    def __init__(self, shift: np.ndarray, lower: np.ndarray) -> None:
        self.shift = shift
        self.lower = lower

    def value(self, v):
        """G of the weights that belong to v."""
        return float(_bounded_value(v, self.shift, self.lower))

    def conjugate(self, U):
        """g*(U)."""
        return float(_bounded_conjugate(U, self.shift, self.lower))

    def magnitude(self, U):
        """As for the plain quadratic."""
        u = np.maximum(self.shift + U, self.lower)
        return float(np.abs(U) @ np.abs(u) + 0.5 * ((u - self.shift) ** 2).sum())

    def survey(self, v, z, kappa, U):
        """As for the plain quadratic."""
        return _bounded_survey(v, z, kappa, self.shift, self.lower, U)

    def move(self, v, z, old, new):
        """The centre goes to w, which is within its bounds; v need not be."""
        _bounded_move(v, z, old, new, self.lower)

    def place(self, v, z, kappa, U):
        """Set v for a dual point given by U."""
        _bounded_place(v, z, kappa, self.shift, U)

    def point(self, v):
        """v within its bounds."""
        return np.maximum(v, self.lower)

    def along(self, v, factor):
        """As for the plain quadratic."""
        return _bounded_along(v, factor, self.shift, self.lower)

    def dual_vector(self, v, factor, U):
        """U = factor (v - shift)."""
        np.subtract(v, self.shift, out=U)
        U *= factor

    def rescale(self, v, factor):
        """v = shift + factor (v - shift)."""
        _bounded_rescale(v, factor, self.shift)
