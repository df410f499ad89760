"""Ways out of a run: Ctrl-C as an event, and callbacks that are closed in the end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def closing_all(callbacks: Iterable[Any]) -> Iterator[None]:
    """Close the callbacks that can be closed, in the end."""
    try:
        yield
    finally:
        for callback in callbacks:
            getattr(callback, "close", lambda: None)()


_events: dict[Any, threading.Event] = {}  # of the handlers that are in place, one within another


@contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event, so that no pass is torn apart; the second one raises.

    Of runs within a run the outer one learns of it too: the inner may have been about to end.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event  # signals only reach the main thread
        return

    def handle(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    previous = signal.signal(signal.SIGINT, handle)
    outer = _events.get(previous)
    _events[handle] = event
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, previous)
        del _events[handle]
        if outer is not None and event.is_set():
            outer.set()
