"""Which files are models."""

from __future__ import annotations

import os


def is_model(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as what `save` writes: the length of a header, and the header."""
    if os.path.isdir(path) or os.fspath(path) == "-":
        return False
    with open(path, "rb") as file:
        return file.read(10)[8:] == b'{"'
