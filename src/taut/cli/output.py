"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

import numpy as np

from taut.errors import InvalidData
from taut.storage.text import text_file


def plain(value: Any) -> Any:
    """A value of numpy as one of Python that JSON has; infinity and NaN are None."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, np.ndarray):
        return [plain(entry) for entry in value.tolist()]
    if isinstance(value, Mapping):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def to_json(value: Any) -> str:
    """One line of JSON."""
    return json.dumps(plain(value), ensure_ascii=False)


def print_facts(facts: Mapping[str, Any], as_json: bool) -> None:
    """Names and values, below each other or as JSON."""
    if as_json:
        print(to_json(facts))
        return
    flat = dict(_flat(facts))
    width = max(map(len, flat), default=0)
    for name, value in flat.items():
        print(f"{name:<{width}}  {_shown(value)}")


def _flat(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


def _shown(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, list | tuple | np.ndarray):
        shown = [_shown(entry) for entry in list(value)[:10]]
        return ", ".join(shown) + (", ..." if len(value) > len(shown) else "")
    return str(value)


@contextlib.contextmanager
def written_to(path: str | None) -> Iterator[TextIO]:
    """A text file that appears as a whole, or standard output."""
    if path is None or path == "-":
        yield sys.stdout
        sys.stdout.flush()
        return
    with text_file(path) as file:
        yield file


def check_writable(path: str | None) -> None:
    """Refuse, before long work, a path that cannot become a file."""
    if path is None:
        return
    if os.path.isdir(path):
        raise InvalidData(f"{path} is a folder: give the path of a file")
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise InvalidData(f"{path}: there is no folder {folder}; create it, or give another path")
    if not os.access(folder, os.W_OK):
        raise InvalidData(f"{path}: the folder {folder} cannot be written to; give another path")


def write_lines(path: str | None, lines: Iterable[str]) -> None:
    """Write lines to a file, or to standard output."""
    with written_to(path) as file:
        for line in lines:
            file.write(f"{line}\n")
