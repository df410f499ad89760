"""Dual coordinate ascent for linear machines whose models come without dual variables.

The problem: maximise D(beta) of `taut.certification.losses` over the boxes, with the weights
U = sum_i beta_i x_i kept up to date. One pass visits all rows in random order and solves for one
beta_i exactly (Hsieh et al., 2008, for hinges; Ho and Lin, 2012, for regression). It costs one
product with the data and one sum over them. A free bias demands sum_i beta_i = 0: the term
offset sum_i beta_i + constant^2 / 2 (sum_i beta_i)^2 is subtracted from D, and after each pass the
offset, which tends to the bias, follows (the method of multipliers). Every beta is made feasible
before a bound is read off, so that the bound is true however far the ascent has come.
"""

from __future__ import annotations

import numpy as np

from taut.certification.losses import Losses
from taut.certification.spaces import LinearSpace
from taut.compiled.jit import kernel
from taut.compiled.rows import add_row, as_rows, row_dot, squared_norms

_LARGEST = 1e300  # in place of infinity, which compiled code may not meet


@kernel
def _sweep(rows, order, targets, epsilon, lower, upper, above, below, squares, numbers, beta, w):
    """Visit rows in this order; `numbers` are the constant column and the offset of scores."""
    constant, offset = numbers[0], numbers[1]
    last = w.shape[0] - 1
    for i in order:
        score = row_dot(rows, i, w) + constant * w[last] + offset
        old = beta[i]
        residual = targets[i] - score
        new = 0.0
        steep = squares[i] + above[i]
        rise = residual - epsilon - above[i] * old
        high = old + rise / steep if steep > 0.0 else upper[i] * (rise > 0.0)
        if high > 0.0:
            new = min(high, upper[i])
        else:
            steep = squares[i] + below[i]
            fall = residual + epsilon - below[i] * old
            deep = old + fall / steep if steep > 0.0 else lower[i] * (fall < 0.0)
            if deep < 0.0:
                new = max(deep, lower[i])
        change = new - old
        if change != 0.0:
            beta[i] = new
            add_row(rows, i, change, w)
            w[last] += change * constant


class Ascent:
    """Dual variables of a linear machine, and passes that improve them.

    Parameters
    ----------
    space : LinearSpace
    losses : Losses
    free : bool
        Whether there is a bias that is not regularised.
    beta : ndarray
        Where to start, within the boxes.
    bias : float
        A guess of the free bias.
    rng : Generator
    """

    def __init__(
        self,
        space: LinearSpace,
        losses: Losses,
        free: bool,
        beta: np.ndarray,
        bias: float,
        rng: np.random.Generator,
    ) -> None:
        X = space.X
        self.rows = as_rows(X, 0.2)
        self.losses, self.free, self.rng = losses, free, rng
        self.beta = beta.copy()
        squares = squared_norms(self.rows)
        constant = np.sqrt(squares.mean()) if free else space.constant
        self.squares = squares + constant**2
        self.numbers = np.array([constant, bias if free else 0.0])
        self.w = np.append(X.T @ beta, constant * beta.sum())
        self.box = tuple(np.clip(edge, -_LARGEST, _LARGEST) for edge in losses.box())

    def go(self, passes: int) -> None:
        """Some passes over all rows."""
        target, epsilon = self.losses.target, self.losses.epsilon
        above, below = self.losses.curvature()
        for _ in range(passes):
            order = self.rng.permutation(len(self.beta))
            _sweep(
                self.rows, order, target, epsilon, *self.box, above, below, self.squares,
                self.numbers, self.beta, self.w,
            )  # fmt: skip
            if self.free:
                self.numbers[1] += self.numbers[0] * self.w[-1]
