"""Whose turn it is: the order of visits, and how many fit between two questions."""

from __future__ import annotations

from taut._jit import kernel
from taut.xorshift import below, stepped

_SECONDS_BETWEEN_QUESTIONS = 0.1


@kernel
def shuffle(order, seed):
    """Random order; the seed is not 0."""
    x = seed
    for last in range(order.shape[0] - 1, 0, -1):
        x = stepped(x)
        other = below(x, last + 1)
        order[last], order[other] = order[other], order[last]


class Pace:
    """How many visits to make without asking whether to go on: those of a tenth of a second."""

    def __init__(self) -> None:
        self.visits = 64

    def adapt(self, done: int, seconds: float) -> None:
        """Learn from so many visits that took so long."""
        fitting = done * _SECONDS_BETWEEN_QUESTIONS / max(seconds, 1e-6)
        self.visits = int(min(max(fitting, 1), 100 * self.visits))
