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


@contextmanager
def catch_interrupt() -> Iterator[threading.Event]:
    """Turn the first Ctrl-C into an event, so that no pass is torn apart; the second one raises."""
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event  # signals only reach the main thread
        return

    def handle(number: int, frame: Any) -> None:
        if event.is_set():
            raise KeyboardInterrupt
        event.set()

    previous = signal.signal(signal.SIGINT, handle)
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, previous)
