import io
import math
import subprocess
import sys
from types import SimpleNamespace

import pytest
from rich.console import Console

from taut import progress
from taut.progress import ProgressLine, progress_line


def record(iteration=1, **changes):
    fields = {
        "seconds": 2.0,
        "primal": 12.5,
        "dual": 10.0,
        "gap": 2.5,
        "relative_gap": 0.2,
        "exact": True,
        "oracle_calls": 3000,
    }
    return SimpleNamespace(iteration=iteration, **(fields | changes))


@pytest.fixture
def console():
    return Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None)


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=0.0)
    monkeypatch.setattr(progress.time, "monotonic", lambda: now.seconds)
    return now


def written(console):
    return console.file.getvalue()


def drawn(record, console, tol=1e-3):
    line = ProgressLine(tol, console=console)
    line(record)
    line.close()
    return written(console)


def test_line_shows_every_quantity(console):
    text = drawn(record(iteration=7), console)
    assert "pass 7  primal 12.5  dual 10  gap 2.0e-01 > 1e-03  1.5k calls/s  2.0 s" in text


def test_last_record_is_drawn_although_it_came_too_early(console, clock):
    line = ProgressLine(1e-3, console=console)
    for iteration in range(1, 6):
        line(record(iteration))
    line.close()
    text = written(console)
    assert "pass 1 " in text
    assert "pass 5 " in text
    assert not any(f"pass {iteration} " in text for iteration in (2, 3, 4))


def test_at_most_ten_refreshes_a_second(console, clock):
    line = ProgressLine(1e-3, console=console)
    for iteration in range(1000):
        clock.seconds = iteration / 1000
        line(record(iteration))
    refreshes = written(console).count("pass")
    assert 8 <= refreshes <= 10


def test_the_line_is_replaced_and_then_left_in_place(console, clock):
    line = ProgressLine(1e-3, console=console)
    for iteration in range(3):
        clock.seconds = iteration
        line(record(iteration))
    before = written(console)
    assert "\n" not in before
    assert before.count("\r\x1b[2K") >= 2
    line.close()
    assert written(console).removesuffix("\x1b[?25h").endswith("2.0 s\n")


def test_close_is_idempotent_and_silent_without_records(console):
    line = ProgressLine(1e-3, console=console)
    line.close()
    assert written(console) == ""
    line(record())
    line.close()
    once = written(console)
    line.close()
    assert written(console) == once
    assert once.count("\x1b[?25l") == once.count("\x1b[?25h")


def test_narrow_terminals_get_one_line():
    narrow = Console(file=io.StringIO(), force_terminal=True, width=30, color_system=None)
    assert drawn(record(), narrow).count("\n") == 1


def test_estimates_are_marked(console):
    assert "gap ~2.0e-01 >" in drawn(record(exact=False), console)


def test_reached_tolerance_is_shown(console):
    assert "gap 5.0e-04 <= 1e-03" in drawn(record(relative_gap=5e-4), console)


def test_missing_certificate_is_not_invented(console):
    missing = record(dual=-math.inf, gap=math.inf, relative_gap=math.nan, exact=False)
    assert "dual -  gap - >" in drawn(missing, console)


@pytest.mark.parametrize(
    ("calls", "seconds", "text"),
    [
        (10, 0.0, "- calls/s"),
        (0, 1.0, "0 calls/s"),
        (12, 1.0, "12 calls/s"),
        (999, 1.0, "999 calls/s"),
        (9996, 10.0, "1k calls/s"),
        (1234, 1.0, "1.23k calls/s"),
        (2_500_000, 1.0, "2.5M calls/s"),
        (7_000_000_000_000, 1.0, "7e+03G calls/s"),
    ],
)
def test_rate(calls, seconds, text):
    assert progress._rate(calls, seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0.0 s"), (59.94, "59.9 s"), (59.96, "1:00"), (123, "2:03"), (3723, "1:02:03")],
)
def test_duration(seconds, text):
    assert progress._duration(seconds) == text


@pytest.mark.parametrize(
    ("verbose", "terminal", "shown"),
    [(0, True, False), (1, False, False), (1, True, True), (2, True, True)],
)
def test_shown_only_when_asked_for_and_seen(monkeypatch, verbose, terminal, shown):
    stream = io.StringIO()
    stream.isatty = lambda: terminal
    monkeypatch.setattr(sys, "stderr", stream)
    assert isinstance(progress_line(verbose, 1e-3), ProgressLine) == shown


def test_no_standard_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert progress_line(1, 1e-3) is None


def test_importing_does_not_import_rich():
    code = "import sys, taut.progress; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
