"""Work in parts of a fraction of a second, between which one asks whether to go on."""

from __future__ import annotations

import time
from collections.abc import Iterator

from taut.solvers.base import KeepGoing

_SECONDS_BETWEEN_QUESTIONS = 0.1
_FIRST = 64  # blocks of the first part, when nothing is known about the time that they take


class Pace:
    """How many blocks take as long as one may go without asking."""

    def __init__(self) -> None:
        self.size = _FIRST

    def ranges(self, n: int, keep_going: KeepGoing) -> Iterator[tuple[int, int]]:
        """First and last + 1 of parts that cover 0..n, or fewer if asked to stop."""
        first = 0
        while first < n:
            started = time.perf_counter()
            last = min(first + self.size, n)
            yield first, last
            if not keep_going():
                return
            seconds = max(time.perf_counter() - started, 1e-6)
            fitting = (last - first) * _SECONDS_BETWEEN_QUESTIONS / seconds
            self.size = int(min(max(fitting, 1), 100 * self.size))
            first = last
