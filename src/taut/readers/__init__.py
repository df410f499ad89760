"""Files of data: formats, one file each, and what reads them.

`read` gives all of a file in memory, `open_file` a source that reads it part by part. Both ask the
registry (`taut.readers.registry`) for the `Format` of a file, and let it read the file's bytes
(`DataFile`) as parts (`Part`). A new format is one file with a subclass of `Format`, and one line
in the registry. Names are loaded when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taut.readers.base import Format, Part
    from taut.readers.files import DataFile
    from taut.readers.reading import open_file, read
    from taut.readers.registry import FORMATS
    from taut.readers.sources import FileSource
    from taut.readers.tables import Table

_HOME = {
    "FORMATS": "registry",
    "DataFile": "files",
    "FileSource": "sources",
    "Format": "base",
    "Part": "base",
    "Table": "tables",
    "open_file": "reading",
    "read": "reading",
}

__all__ = [
    "FORMATS",
    "DataFile",
    "FileSource",
    "Format",
    "Part",
    "Table",
    "open_file",
    "read",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'taut.readers' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"taut.readers.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
