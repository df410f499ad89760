"""Where blocks come from: arrays, files and streams.

Names are loaded when they are first used, so that importing `taut.data` stays cheap.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taut.data.chunks import Chunk
    from taut.data.sequences import Sequences
    from taut.data.shard_writer import write_shards
    from taut.data.shards import Shards, open_shards
    from taut.data.source import Source
    from taut.data.streams import Stream

_HOME = {
    "Chunk": "chunks",
    "Sequences": "sequences",
    "Shards": "shards",
    "Source": "source",
    "Stream": "streams",
    "open_shards": "shards",
    "write_shards": "shard_writer",
}

__all__ = ["Chunk", "Sequences", "Shards", "Source", "Stream", "open_shards", "write_shards"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'taut.data' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"taut.data.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
