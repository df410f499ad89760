"""What a user sees while a model trains: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import itertools
import logging
import math
import multiprocessing
import os
import sys
import threading
import time
import weakref
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

News = TypeVar("News")

_log = logging.getLogger("taut")
_REFRESH_SECONDS = 0.1  # between two drawings of a live line
_FIRST_SECONDS, _PLAIN_SECONDS = 1.0, 5.0  # until the first plain line, and between two of them

_lock = threading.RLock()  # fits may run in several threads
_numbers = itertools.count()
_open: weakref.WeakValueDictionary[int, Line] = weakref.WeakValueDictionary()  # oldest first
_drawing: weakref.WeakSet[LiveDisplay] = weakref.WeakSet()  # at most one


def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):  # not on Windows
    # A thread that held it does not exist in a forked process, and would never let go.
    os.register_at_fork(after_in_child=_renew_lock)


class Display(ABC):
    """Where a line is shown, and how often."""

    first_after: float
    every: float

    @abstractmethod
    def show(self, line: Text) -> None:
        """Show a line."""

    def close(self) -> None:
        """Leave the last line where it is."""


class LiveDisplay(Display):
    """One line of a terminal that is drawn again and again. A terminal has one at a time."""

    first_after, every = 0.0, _REFRESH_SECONDS

    def __init__(self, console: Console) -> None:
        self.console = console
        self._live: Live | None = None
        _drawing.add(self)

    @staticmethod
    def current() -> LiveDisplay | None:
        """The one that draws now."""
        return next(iter(_drawing), None)

    def show(self, line: Text) -> None:
        """Draw it in the place of the one before."""
        if self._live is None:
            from rich.live import Live

            # Passes set the pace: a refreshing thread would have nothing new to show. What a
            # callback prints goes above the line, unless it goes into a file.
            to_terminal = sys.stdout is not None and sys.stdout.isatty()
            self._live = Live(console=self.console, auto_refresh=False, redirect_stdout=to_terminal)
            self._live.start()
        self._live.update(line, refresh=True)

    def close(self) -> None:
        """Leave the terminal to others."""
        if self._live is not None:
            self._live.stop()
        _drawing.discard(self)


class PlainDisplay(Display):
    """Lines one below the other, for notebooks, pipes, log files and worker processes."""

    first_after, every = _FIRST_SECONDS, _PLAIN_SECONDS

    def __init__(self, title: str) -> None:
        self.title = title

    def show(self, line: Text) -> None:
        """Write it below the others."""
        _write(f"{self.title}: {line.plain}")


class Line(ABC, Generic[News]):
    """Callback that shows one line for what it is called with; the last one stays after `close`.

    A line that is not `visible` only knows what is being trained, `title`. It is drawn on standard
    error, unless a console is given.
    """

    changes_nothing = True

    def __init__(
        self, *, title: str = "taut", visible: bool = True, console: Console | None = None
    ) -> None:
        self.title, self.visible = title, visible
        self._console = console
        self._display: Display | None = None
        self._latest: News | None = None  # that is not shown
        self._due = -math.inf
        self._number = next(_numbers)
        with _lock:
            _open[self._number] = self
        self._opened = time.monotonic()

    @abstractmethod
    def _line(self, record: News) -> Text:
        """What to show."""

    def _new_display(self) -> Display:
        """A live one if this is a terminal that nobody draws on."""
        if LiveDisplay.current() is not None or (self._console is None and not _is_terminal()):
            return PlainDisplay(self.title)
        # Importing rich takes longer than importing taut, and most fits are silent.
        from rich.console import Console

        return LiveDisplay(self._console or Console(stderr=True))

    def __call__(self, record: News) -> None:
        """Take what is new; show it unless something was shown just before."""
        if not self.visible:
            return
        self._latest = record
        now = time.monotonic()
        with _lock:
            if self._display is None:
                self._display = self._new_display()
                self._due = self._opened + self._display.first_after
            if now >= self._due:
                self._due = now + self._display.every
                self._display.show(self._line(record))
                self._latest = None

    def close(self) -> None:
        """Show what was last new and give the terminal back. Further calls do nothing."""
        with _lock:
            _open.pop(self._number, None)
            if self._display is not None:
                if self._latest is not None:
                    self._display.show(self._line(self._latest))
                self._display.close()
            self._display = self._latest = None


class ProgressLine(Line[Any]):
    """One line per `taut.Record`: objectives, gap against the tolerance, speed, time.

    A gap that is an estimate is marked ``~``; a value that the solver does not have is ``-``.
    """

    def __init__(self, tol: float, **shown: Any) -> None:
        super().__init__(**shown)
        self.tol = tol

    def _line(self, record: Any) -> Text:
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
    """How far a walk over C has come; `fold` is empty where there is only one."""

    fold: str
    C: float
    C_min: float
    C_max: float
    points: int
    gap: float
    seconds: float


class WalkLine(Line[WalkRecord]):
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


class StepRecord(NamedTuple):
    """How far an online learner has come, and what its last step found."""

    iteration: int
    seen: int
    with_loss: float
    square: float
    n_support: int
    seconds: float


class StepLine(Line[StepRecord]):
    """One line per pass of an online learner, or part of one: there is no gap to tell."""

    def _line(self, record: StepRecord) -> Text:
        from rich.text import Text

        support = f"  {record.n_support} support rows" if record.n_support else ""
        return Text(
            f"pass {record.iteration}  {record.seen} examples  {record.with_loss:.1%} with a loss"
            f"  |u|^2 {record.square:.2g}{support}  {_duration(record.seconds)}",
            no_wrap=True,
            overflow="crop",
        )


def looks_on(callback: Any) -> bool:
    """Whether a callback is known to change no data."""
    return getattr(callback, "changes_nothing", False) is True


def progress_line(verbose: int, tol: float, title: str = "taut") -> ProgressLine:
    """The `ProgressLine` of a fit to the relative gap `tol`, visible from verbose=1 on."""
    return ProgressLine(tol, title=title, visible=_is_wanted(verbose))


def step_line(verbose: int, title: str = "taut") -> StepLine:
    """The `StepLine` of a call of an online learner."""
    return StepLine(title=title, visible=_is_wanted(verbose))


def walk_line(verbose: int, title: str = "taut") -> WalkLine:
    """The `WalkLine` of a path."""
    return WalkLine(title=title, visible=_is_wanted(verbose))


def announce(what: str) -> None:
    """Tell the user that code is being compiled; `what` follows the name of what is trained.

    The logger `taut` always gets it. Standard error gets it where a fit is verbose, and otherwise
    only where somebody waits in front of it: on a terminal or in a notebook.
    """
    with _lock:
        lines = list(_open.values())
    text = f"compiling {lines[-1].title if lines else 'taut'}{what}"
    _log.info(text)
    if any(line.visible for line in lines) or _is_watched():
        _write(text)


def newest() -> int | None:
    """The number of the fit that began last among those under way."""
    with _lock:
        return max(_open, default=None)


def _is_wanted(verbose: int) -> bool:
    # Standard error is None under interpreters without a console, such as pythonw.
    return verbose >= 1 and sys.stderr is not None


def _is_terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and not _is_worker()


def _is_worker() -> bool:
    """Whether this process is one of several that may write to the same terminal."""
    return multiprocessing.parent_process() is not None


def _is_watched() -> bool:
    in_notebook = type(sys.stderr).__module__.startswith("ipykernel.")
    return _is_terminal() or (in_notebook and not _is_worker())


def _write(text: str) -> None:
    """A whole line on standard error, above the line that is drawn there if there is one."""
    with _lock:
        drawn = LiveDisplay.current()
        if drawn is not None:
            drawn.console.print(text, highlight=False, markup=False, soft_wrap=True)
        elif sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()


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
