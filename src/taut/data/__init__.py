"""Where blocks come from: arrays and streams.

Names are loaded when they are first used, so that importing `taut.data` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taut.data.chunks import Chunk
    from taut.data.source import Source
    from taut.data.streams import Stream

_HOME = {
    "Chunk": "chunks",
    "Source": "source",
    "Stream": "streams",
}

__all__ = ["Chunk", "Source", "Stream"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'taut.data' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"taut.data.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
