"""Two candidates per block, above and below: epsilon-insensitive regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.errors import InvalidData
from taut.structures.scalar import SignedRows


class Regression(SignedRows):
    """The loss max(0, |y_i - <w, (x_i, bias)>| - epsilon).

    Label 0 is the truth with phi = 0. Candidate 1 has psi = (x, bias) and the loss y - epsilon: it
    violates where the prediction is too low. Candidate -1 has psi = -(x, bias) and the loss
    -y - epsilon. Because epsilon >= 0 at most one of both violates at any w, so the largest
    violation, which shares one slack, is the sum of the hinges of two blocks of one candidate each.

    Parameters
    ----------
    epsilon : float, default=0.1
        Half the width of the band in which errors cost nothing, >= 0.
    bias : float, default=0.0
        Value of a constant feature appended to each row; 0 appends none.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Regression
    >>> X, y = np.array([[1.0], [2.0]]), np.array([2.0, 4.0])
    >>> problem = Problem(Regression(epsilon=0.5), X, y, C=10.0)
    >>> solve(problem, tol=1e-8, random_state=0).w.round(3)
    array([1.75])
    """

    signed_losses = True

    def __init__(self, epsilon: float = 0.1, bias: float = 0.0) -> None:
        super().__init__(bias)
        if not 0.0 <= epsilon < np.inf:
            raise InvalidData(f"epsilon = {epsilon}: it must be 0 or more, and finite")
        self.epsilon = epsilon

    def _targets(self, y: Any, n: int) -> tuple[np.ndarray, ...]:
        """Numbers y; each row is its own psi."""
        targets = np.zeros(n) if y is None else np.asarray(y, dtype=np.float64)
        if targets.shape != (n,) or not np.isfinite(targets).all():
            raise InvalidData(
                f"y has shape {targets.shape}, X has {n} rows: give one finite number to each row"
            )
        return np.ones(n), targets, np.full(n, self.epsilon)

    def decode(self, labels, offsets):
        """The sign of each prediction: predictions themselves are scores, not labels."""
        return -labels

    @property
    def all_labels(self):
        """Both candidates: the truth's weight is what remains of C_i."""
        return np.array([[1], [-1]], dtype=np.int32)

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """The candidate that violates, else the truth."""
        error = loss_weight * data[0][i, 1] - work[0]
        violation = abs(error) - loss_weight * data[0][i, 2]
        label[0] = (1 if error > 0.0 else -1) if violation > 0.0 else 0
        return max(violation, 0.0)

    @staticmethod
    def loss(data, i, label):
        """The target times the label, less epsilon for a candidate."""
        return label[0] * data[0][i, 1] - abs(label[0]) * data[0][i, 2]

    @staticmethod
    def exact_step(data, i, work, square, weight, stiffness, alpha, statistics):
        """Newton step in beta = alpha[0] - alpha[1], drawn in by epsilon, within [-weight, weight].

        Weight on both candidates costs epsilon twice and moves nothing: one of them has none.
        """
        target, epsilon = data[0][i, 1], data[0][i, 2]
        error = target - work[0]
        gap = (
            weight * max(abs(error) - epsilon, 0.0)
            - alpha[0] * (error - epsilon)
            + alpha[1] * (error + epsilon)
        )
        beta = alpha[0] - alpha[1]
        pull = error + beta * (square / stiffness)  # the error if the block had no weight
        excess = stiffness * (abs(pull) - epsilon)
        if excess <= 0.0:
            size = 0.0
        elif excess >= weight * square:  # also where psi = 0
            size = weight
        else:
            size = excess / square
        up = size if pull > 0.0 else 0.0
        down = size - up
        spent = size - alpha[0] - alpha[1]
        move = up - down - beta
        alpha[0] = up
        alpha[1] = down
        statistics[0] = -move
        return gap, move * target - spent * epsilon, move**2 * square
