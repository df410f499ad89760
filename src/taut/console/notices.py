"""Warnings that come once per fit, at the line of the user's code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Waiting = dict[type[Warning], list[str]]

_waiting: ContextVar[Waiting | None] = ContextVar("waiting", default=None)


def warn(message: str, category: type[Warning]) -> None:
    """Warn whoever called taut."""
    warnings.warn(message, category, stacklevel=_levels())


def warn_once(message: str, category: type[Warning]) -> None:
    """The same, in the end where many solves are one to the user (`one_of_each_kind`)."""
    waiting = _waiting.get()
    if waiting is None:
        warn(message, category)
    else:
        waiting.setdefault(category, []).append(message)


@contextmanager
def one_of_each_kind() -> Iterator[None]:
    """Keep what `warn_once` is given until the end, and give the last of each class then."""
    if _waiting.get() is not None:
        yield
        return
    waiting: Waiting = {}
    token = _waiting.set(waiting)
    try:
        yield
    finally:
        _waiting.reset(token)
    for category, messages in waiting.items():
        others = f" (The last of {len(messages)} such warnings.)" if len(messages) > 1 else ""
        warn(messages[-1] + others, category)


def _levels() -> int:
    """The stacklevel for `warnings.warn`, called by our caller, of the first frame outside taut."""
    package = __name__.partition(".")[0]
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_inner(frame.f_globals.get("__name__", ""), package):
        frame, level = frame.f_back, level + 1
    return level


def _is_inner(name: str, package: str) -> bool:
    # Between two functions of ours there may be a context manager of the standard library, or
    # scikit-learn's way to let its callbacks look on.
    return name.partition(".")[0] in (package, "contextlib") or name.startswith("sklearn.callback.")
