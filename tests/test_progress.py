import gc
import io
import logging
import math
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import taut
from taut.console import progress
from taut.console.progress import ProgressLine, WalkRecord, announce, progress_line, walk_line


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


class Stream(io.StringIO):
    """Standard error of a terminal or of something else, and what was written to it at once."""

    def __init__(self, terminal=False):
        super().__init__()
        self.terminal, self.writes = terminal, []

    def isatty(self):
        return self.terminal

    def write(self, text):
        self.writes.append(text)
        return super().write(text)


@pytest.fixture(scope="module")
def few_objects():
    """Let collections pass by what the tests of other files have left, which is much."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def stream(monkeypatch, few_objects):
    """Standard error that is no terminal; no line of another test is open."""
    gc.collect()
    progress._open.clear()
    stream = Stream()
    # Not sys itself, whose streams pytest sets anew when the test begins.
    monkeypatch.setattr(progress, "sys", SimpleNamespace(stderr=stream, stdout=Stream()))
    return stream


@pytest.mark.parametrize(("verbose", "visible"), [(0, False), (1, True), (2, True)])
def test_visible_when_asked_for(stream, verbose, visible):
    for line in (progress_line(verbose, 1e-3), walk_line(verbose)):
        assert line.visible == visible
    line = progress_line(verbose, 1e-3, "RankSVM")
    line(record())
    line.close()
    assert stream.getvalue().startswith("RankSVM: pass 1 ") == visible


def test_plain_lines_where_there_is_no_terminal(stream, clock):
    line = progress_line(1, 1e-3, "ChainSVM")
    for tenth in range(125):
        clock.seconds = tenth / 10
        line(record(tenth))
    line.close()
    lines = stream.getvalue().splitlines()
    assert [text.split()[2] for text in lines] == ["10", "60", "110", "124"]
    assert lines[0] == (
        "ChainSVM: pass 10  primal 12.5  dual 10  gap 2.0e-01 > 1e-03  1.5k calls/s  2.0 s"
    )
    assert all(text.endswith("\n") for text in stream.writes)  # whole lines: fits may be many


def test_short_fits_have_one_plain_line(stream, clock):
    line = walk_line(1, "RankSVM")
    for C in (1.0, 2.0, 4.0):
        line(WalkRecord("", C, 1.0, 4.0, 2, 0.01, 0.5))
    line.close()
    assert stream.getvalue() == "RankSVM: C 4 of 1 .. 4  100%  2 solves  gap 1.0e-02  0.5 s\n"


def test_worker_processes_do_not_draw(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Stream(terminal=True))
    monkeypatch.setattr(progress.multiprocessing, "parent_process", lambda: "the parent")
    line = progress_line(1, 1e-3)
    line(record())
    line.close()
    assert sys.stderr.getvalue().startswith("taut: pass 1 ")
    assert "\x1b" not in sys.stderr.getvalue()


def test_of_several_lines_one_is_drawn(console, clock, stream):
    drawn, other = (ProgressLine(1e-3, console=console, title=title) for title in ("A", "B"))
    drawn(record(1))
    clock.seconds = 2.0
    other(record(2))
    other.close()
    drawn.close()
    text = written(console)
    assert text.count("B: pass 2 ") == 1
    assert "pass 1 " in text.removesuffix("\x1b[?25h").splitlines()[-1]
    assert not stream.getvalue()
    again = ProgressLine(1e-3, console=console)  # the terminal is free again
    again(record(3))
    again.close()
    assert "\npass 3" in written(console).replace("\x1b[?25l", "").replace("\x1b[?25h", "")


def test_fits_in_threads_write_whole_lines(stream):
    X, y = np.eye(3), np.arange(3)

    def fit(C):
        return taut.MulticlassSVM(C, verbose=1, random_state=0).fit(X, y).certificate_.passes

    with ThreadPoolExecutor(4) as pool:
        passes = list(pool.map(fit, [0.1, 1.0, 2.0, 3.0, 4.0, 5.0]))
    last = [line for line in stream.getvalue().splitlines() if "<=" in line]
    assert sorted(int(line.split()[2]) for line in last) == sorted(passes)


def test_what_callbacks_print_stays_in_its_file(monkeypatch, console):
    monkeypatch.setattr(sys, "stdout", Stream())
    line = ProgressLine(1e-3, console=console)
    line(record())
    sys.stdout.write("mine")
    line.close()
    assert sys.stdout.getvalue() == "mine"


# Compilation


def test_long_compilations_are_logged_and_silent_in_pipes(stream, caplog):
    with caplog.at_level(logging.INFO, "taut"):
        line = progress_line(0, 1e-3, "ChainSVM")
        announce(" for float64, once on this machine")
        line.close()
        announce(", once on this machine")
    assert [record.getMessage() for record in caplog.records] == [
        "compiling ChainSVM for float64, once on this machine",
        "compiling taut, once on this machine",
    ]
    assert not stream.getvalue()


@pytest.mark.parametrize("kind", ["terminal", "notebook", "verbose"])
def test_long_compilations_are_announced_where_somebody_waits(stream, monkeypatch, kind):
    outer, line = walk_line(int(kind == "verbose"), "BinarySVM"), progress_line(0, 1e-3, "TreeSVM")
    stream.terminal = kind == "terminal"
    if kind == "notebook":
        monkeypatch.setattr(Stream, "__module__", "ipykernel.iostream")
    announce(", once on this machine")
    line.close()
    outer.close()
    assert stream.getvalue() == "compiling TreeSVM, once on this machine\n"


def test_no_standard_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    line = progress_line(1, 1e-3)
    line(record())
    line.close()
    announce(", once on this machine")


def test_lines_that_are_never_closed_are_forgotten(stream):
    assert progress.newest() is None
    line = progress_line(0, 1e-3, "ChainSVM")
    assert progress.newest() == line._number
    del line
    gc.collect()
    assert progress.newest() is None


def test_lines_are_counted_under_the_lock():
    opened, closed = threading.Event(), threading.Event()

    def fit():
        line = progress.progress_line(0, 1.0)
        opened.set()
        line.close()
        closed.set()

    thread = threading.Thread(target=fit)
    with progress._lock:
        thread.start()
        assert not opened.wait(0.1)
    thread.join()
    assert closed.is_set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on Windows")
def test_a_fork_while_a_thread_draws_leaves_no_lock():
    code = """if True:
        import os, signal, threading, warnings
        from taut.console import progress

        held, over = threading.Event(), threading.Event()

        def draw():
            with progress._lock:
                held.set()
                over.wait()

        threading.Thread(target=draw).start()
        held.wait()
        warnings.simplefilter("ignore")
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            progress.newest()
            os._exit(0)
        over.set()
        raise SystemExit(os.waitpid(child, 0)[1])
    """
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_importing_does_not_import_rich():
    code = "import sys, taut.console.progress; sys.exit('rich' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
