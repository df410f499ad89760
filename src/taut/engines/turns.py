"""Whose turn it is: the order of visits, and how many fit between two questions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import numpy as np

from taut.compiled.jit import kernel
from taut.compiled.xorshift import below, stepped

KeepGoing = Callable[[], bool]

_SECONDS_BETWEEN_QUESTIONS = 0.1
_SECONDS_BETWEEN_REPORTS = 1.0


def until_report(keep_going: KeepGoing) -> KeepGoing:
    """The same question, to which the answer is also no when it is time for a report."""
    began = time.perf_counter()
    return lambda: keep_going() and time.perf_counter() - began < _SECONDS_BETWEEN_REPORTS


def draw_seed(rng: np.random.Generator) -> np.uint64:
    """A number, not zero, from which a pass draws its order and samples."""
    return rng.integers(1, 2**63, dtype=np.uint64)


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

    def ranges(self, n: int, keep_going: KeepGoing) -> Iterator[tuple[int, int]]:
        """First and last + 1 of parts that cover 0..n, or fewer if asked to stop."""
        last = 0
        while last < n:
            started = time.perf_counter()
            first, last = last, min(last + self.visits, n)
            yield first, last
            if not keep_going():
                return
            self.adapt(last - first, time.perf_counter() - started)

    def adapt(self, done: int, seconds: float) -> None:
        """Learn from so many visits that took so long."""
        fitting = done * _SECONDS_BETWEEN_QUESTIONS / max(seconds, 1e-6)
        self.visits = int(min(max(fitting, 1), 100 * self.visits))
