"""Ways out of a run: Ctrl-C as an event, and callbacks that are closed in the end."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple

# Packages that call `fit` again and again, and those of their modules that call it once.
_LOOPS = ("sklearn", "joblib", "imblearn", "optuna", "skopt", "multiprocessing.pool", "concurrent")
_CALL_ONCE = (
    "sklearn.base",
    "sklearn.callback",
    "sklearn.pipeline",
    "sklearn.compose",
    "sklearn.utils",
    "joblib.memory",
)


@contextmanager
def closing_all(callbacks: Iterable[Any]) -> Iterator[None]:
    """Close the callbacks that can be closed, in the end."""
    try:
        yield
    finally:
        for callback in callbacks:
            getattr(callback, "close", lambda: None)()


class _Caught(NamedTuple):
    """What a handler sets, and the handler that was there before it."""

    event: threading.Event
    previous: Any


_caught: dict[Any, _Caught] = {}  # by the handlers that are in place, one within another


@contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event, so that no pass is torn apart; the second one raises.

    Of runs within a run the outer one learns of it too: the inner may have been about to end. So
    does whoever runs fit after fit, such as a grid search: there the end of the run raises.
    """
    event = threading.Event()
    outer = None
    if threading.current_thread() is threading.main_thread():  # signals reach no other

        def handle(number: int, frame: Any) -> None:
            if event.is_set():
                raise KeyboardInterrupt
            event.set()

        previous = signal.signal(signal.SIGINT, handle)
        outer = _caught.get(previous)
        _caught[handle] = _Caught(event, previous)
        try:
            yield event
        finally:
            signal.signal(signal.SIGINT, previous)
            del _caught[handle]
    else:
        yield event
    if event.is_set():
        if outer is not None:
            outer.event.set()
        elif in_loop_of_others():
            raise KeyboardInterrupt


def in_loop_of_others() -> bool:
    """Whether a cross-validation, a search, an ensemble or the like is among the callers."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if _is_of(name, _LOOPS) and not _is_of(name, _CALL_ONCE):
            return True
        frame = frame.f_back
    return False


def _is_of(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def _give_back_signal() -> None:
    """In a process forked in the midst of a run: Ctrl-C ends it, as it ends others."""
    if signal.getsignal(signal.SIGINT) in _caught:
        signal.signal(signal.SIGINT, next(iter(_caught.values())).previous)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_give_back_signal)
