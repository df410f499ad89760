"""One live line on the terminal while a model trains."""

from __future__ import annotations

import math
import sys
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

__all__ = ["ProgressLine", "WalkLine", "WalkRecord", "progress_line", "walk_line"]

News = TypeVar("News")

_REFRESH_SECONDS = 0.1


class _Record(Protocol):
    """What the training loop hands to its callbacks after each pass."""

    @property
    def iteration(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def primal(self) -> float: ...
    @property
    def dual(self) -> float: ...
    @property
    def gap(self) -> float: ...
    @property
    def relative_gap(self) -> float: ...
    @property
    def exact(self) -> bool: ...
    @property
    def oracle_calls(self) -> int: ...


class LiveLine(ABC, Generic[News]):
    """Callback that redraws one line for what it is called with; the last one stays after `close`.

    Parameters
    ----------
    console : rich.console.Console, optional
        Where to draw; standard error by default.
    """

    def __init__(self, *, console: Console | None = None) -> None:
        # Importing rich takes longer than importing taut, and most fits are silent.
        from rich.console import Console

        self._console = Console(stderr=True) if console is None else console
        self._live: Live | None = None
        self._latest: News | None = None
        self._drawn = -math.inf

    @abstractmethod
    def _line(self, record: News) -> Text:
        """What to draw."""

    def __call__(self, record: News) -> None:
        """Take what is new; redraw unless the last drawing is too recent."""
        self._latest = record
        now = time.monotonic()
        if now - self._drawn < _REFRESH_SECONDS:
            return
        self._drawn = now
        if self._live is None:
            from rich.live import Live

            # Passes set the pace: a refreshing thread would have nothing new to show.
            self._live = Live(console=self._console, auto_refresh=False)
            self._live.start()
        self._live.update(self._line(record), refresh=True)

    def close(self) -> None:
        """Draw what was last new and give the terminal back. Further calls do nothing."""
        live, self._live = self._live, None
        if live is None or self._latest is None:
            return
        live.update(self._line(self._latest))
        live.stop()
        self._drawn = -math.inf


class ProgressLine(LiveLine[_Record]):
    """One line per pass: objectives, gap against tolerance, speed, time.

    A gap that is an estimate is marked ``~``; a value that the solver does not have is ``-``.

    Parameters
    ----------
    tol : float
        Relative gap at which training stops.
    console : rich.console.Console, optional
        Where to draw; standard error by default.
    """

    def __init__(self, tol: float, *, console: Console | None = None) -> None:
        super().__init__(console=console)
        self.tol = tol

    def _line(self, record: _Record) -> Text:
        from rich.text import Text

        reached = record.relative_gap <= self.tol
        gap = _number(record.relative_gap, ".1e")
        mark = "" if record.exact or gap == "-" else "~"
        # Cropped, not wrapped: a second line would scroll at every refresh of a narrow terminal.
        return Text.assemble(
            f"pass {record.iteration}  primal {_number(record.primal, '.6g')}"
            f"  dual {_number(record.dual, '.6g')}  ",
            (
                f"gap {mark}{gap} {'<=' if reached else '>'} {self.tol:.0e}",
                "green" if reached and record.exact else "yellow",
            ),
            f"  {_rate(record.oracle_calls, record.seconds)}  {_duration(record.seconds)}",
            no_wrap=True,
            overflow="crop",
        )


class WalkRecord(NamedTuple):
    """How far a walk over C has come; `fold` is empty where there is but one."""

    fold: str
    C: float
    C_min: float
    C_max: float
    points: int
    gap: float
    seconds: float


class WalkLine(LiveLine[WalkRecord]):
    """One line per solve of a regularisation path: how far it has come, the gap it proves, time."""

    def _line(self, record: WalkRecord) -> Text:
        from rich.text import Text

        span = math.log(record.C_max / record.C_min)
        done = math.log(record.C / record.C_min) / span if span > 0.0 else 1.0
        return Text(
            f"{record.fold}C {record.C:.3g} of {record.C_min:g} .. {record.C_max:g}  {done:.0%}  "
            f"{record.points} solves  gap {_number(record.gap, '.1e')}  "
            f"{_duration(record.seconds)}",
            no_wrap=True,
            overflow="crop",
        )


def progress_line(verbose: int, tol: float) -> ProgressLine | None:
    """Return a `ProgressLine` if one was asked for and somebody can see it, else None.

    Parameters
    ----------
    verbose : int
        Verbosity of the fit; a line is drawn from 1 on.
    tol : float
        Relative gap at which training stops.

    Returns
    -------
    ProgressLine or None
        None also when standard error is not a terminal, so that log files stay clean.
    """
    return ProgressLine(tol) if _is_seen(verbose) else None


def walk_line(verbose: int) -> WalkLine | None:
    """Return a `WalkLine` if one was asked for and somebody can see it, else None."""
    return WalkLine() if _is_seen(verbose) else None


def _is_seen(verbose: int) -> bool:
    # Standard error is None under interpreters without a console, such as pythonw.
    return verbose >= 1 and sys.stderr is not None and sys.stderr.isatty()


def _number(value: float, spec: str) -> str:
    return format(value, spec) if math.isfinite(value) else "-"


def _rate(calls: int, seconds: float) -> str:
    """Oracle calls per second with three figures and a metric prefix."""
    if seconds <= 0:
        return "- calls/s"
    rate = calls / seconds
    for prefix in ("", "k", "M"):
        # 999.5 is the first number that three figures round up to the next prefix.
        if rate < 999.5:
            return f"{rate:.3g}{prefix} calls/s"
        rate /= 1000
    return f"{rate:.3g}G calls/s"


def _duration(seconds: float) -> str:
    """Seconds as ``1.2 s``, ``2:03`` or ``1:02:03``."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
