"""What a compiled function depends on: its code, and all that it reads outside itself.

Numba takes the values of globals, of enclosed names and of attributes of modules into machine code,
and the functions that a function calls with them. A kernel on disk is therefore found by a digest
of all of these, and a kernel in memory is valid as long as the values are what they were.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import hashlib
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from taut.errors import InvalidStructure

#: Packages whose functions do not change while they are installed; of taut the stamp of its cache
#: tells (`taut.compiled.jit`).
_INSTALLED = {"taut", "numba", "llvmlite", "numpy", "scipy", "math", "cmath", "builtins"}

_values: weakref.WeakKeyDictionary[Callable, dict[str, bytes]] = weakref.WeakKeyDictionary()


@functools.cache
def source_digest(function: Callable) -> str:
    """A digest of a function with its file, and of all that it reads, as it is when first asked."""
    source = Path(function.__code__.co_filename)
    digest = hashlib.sha256(f"{function.__module__}.{function.__qualname__} ".encode())
    digest.update(_code(function.__code__))
    digest.update(source.read_bytes() if source.is_file() else b"")
    for name, token in _read(function, set(), files=True):
        digest.update(f"{name}=".encode() + token + b";")
    return digest.hexdigest()


def check_unchanged(function: Callable) -> None:
    """Refuse a function that reads another value than when it was first seen in this process.

    What was compiled since has the old one, and what is compiled later would have the new one.
    """
    now = dict(_read(function, set(), files=False))
    before = _values.setdefault(function, now)
    changed = sorted(name for name in now if now[name] != before.get(name))
    if changed:
        raise InvalidStructure(
            f"{function.__qualname__} reads {', '.join(changed)}, and compiled code still has the "
            "value that was there before: give what changes to the structure and put it into the "
            "data that `encode` returns, or start a new process"
        )


def _read(function: Callable, seen: set[int], files: bool) -> Iterator[tuple[str, bytes]]:
    """Names that a function reads, with digests of their values."""
    if id(function) in seen:
        return
    seen.add(id(function))
    names = sorted(set(_names(function.__code__)))
    given = function.__globals__
    found = [(name, given[name]) for name in names if name in given]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is not filled yet
            found.append((name, cell.cell_contents))
    for name, value in found:
        for place, own in _attributes(name, value, names):
            inner = getattr(own, "py_func", own)
            if isinstance(inner, types.FunctionType):
                if _is_installed(inner.__module__):
                    yield place, inner.__qualname__.encode()
                else:
                    yield place, _function(inner) if files else b""
                    yield from _read(inner, seen, files)
            else:
                yield place, _token(own)


def _attributes(name: str, value: Any, names: list[str]) -> Iterator[tuple[str, Any]]:
    """The value itself, or those of a module's attributes that code of these names may read."""
    if not isinstance(value, types.ModuleType):
        yield name, value
    elif not _is_installed(value.__name__):
        for inner in names:
            if inner in vars(value) and not isinstance(vars(value)[inner], types.ModuleType):
                yield f"{value.__name__}.{inner}", vars(value)[inner]


def _function(function: types.FunctionType) -> bytes:
    source = Path(function.__code__.co_filename)
    text = source.read_bytes() if source.is_file() else b""
    return hashlib.sha256(_code(function.__code__) + text).digest()


def _token(value: Any) -> bytes:
    """What tells a value that machine code can contain from others of its type."""
    if isinstance(value, np.ndarray):
        content = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return f"{value.dtype.str} {value.shape} {content}".encode()
    if isinstance(value, tuple | list):
        return b"(" + b",".join(map(_token, value)) + b")"
    if isinstance(value, str | bytes | bool | int | float | complex | np.generic | None):
        return f"{type(value).__name__} {value!r}".encode()
    if isinstance(value, enum.EnumMeta):
        members: dict[str, enum.Enum] = dict(value.__members__)
        return repr({name: member.value for name, member in members.items()}).encode()
    name = getattr(value, "__qualname__", type(value))
    return f"{type(value).__module__}.{name} {getattr(value, '_fields', '')}".encode()


def _names(code: types.CodeType) -> Iterator[str]:
    """All names that a piece of code looks up, with those of code inside it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _code(code: types.CodeType) -> bytes:
    """What a piece of code does, with its constants; code typed at a prompt has no file."""
    parts = [code.co_code, repr(code.co_names).encode()]
    for constant in code.co_consts:
        inner = isinstance(constant, types.CodeType)
        parts.append(_code(constant) if inner else repr(constant).encode())
    return b" ".join(parts)


def _is_installed(module: str | None) -> bool:
    return (module or "").partition(".")[0] in _INSTALLED
