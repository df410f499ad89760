"""Compilation: one set of options, one on-disk cache that is never stale, oracles compiled in.

Numba invalidates a cached function when the file that defines it changes, not when a helper in
another file does. The caches made here are stamped with all of taut's files that hold compiled code
as well, so an edit to any of them recompiles what may depend on it.

A loop over blocks calls the oracles of a structure, and calls through pointers would cost as much
as a small oracle. `specialise` compiles the loop anew with the oracles inside it instead; on disk
it is found again by the sources of these oracles.
"""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache
from numba.core.serialize import dumps

from taut.errors import CacheUnavailable

_OPTIONS = {"nogil": True, "fastmath": True, "error_model": "numpy", "boundscheck": False}
#: No array is made or returned: each one unpacked from a tuple would otherwise be counted, by an
#: atomic instruction, which took three quarters of the time of small oracles.
_ALLOCATES_NOTHING = {"_nrt": False}
#: What Python needs to call a function takes a third of the time of compiling a small one.
_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


@functools.cache
def _package_stamp() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        text = source.read_bytes()
        if b"_jit" in text or b"_linalg" in text:
            digest.update(f"{source.name} {len(text)} ".encode() + text)
    return digest.hexdigest()


@functools.cache
def _source_digest(function: Callable) -> str:
    """A digest of a function with the file that it is in, and of what it has enclosed."""
    source = Path(function.__code__.co_filename)
    cells = tuple(cell.cell_contents for cell in function.__closure__ or ())
    digest = hashlib.sha256(f"{function.__module__}.{function.__qualname__} ".encode())
    digest.update(function.__code__.co_code + dumps(cells))
    digest.update(source.read_bytes() if source.is_file() else b"")
    return digest.hexdigest()


class _Cache(FunctionCache):
    """A numba function cache whose freshness also covers the sources of this package.

    A kernel with oracles inside is told from others by their sources: numba would compare the
    compiled objects, which are new in each process.
    """

    def __init__(self, function: Callable, inside: tuple[Callable, ...]) -> None:
        super().__init__(function)
        own = self._cache_file._source_stamp
        self._cache_file._source_stamp = (own, _package_stamp())
        self._inside = inside

    def _index_key(self, sig: Any, codegen: Any) -> tuple:
        if not self._inside:
            return super()._index_key(sig, codegen)
        return (sig, codegen.magic_tuple(), tuple(map(_source_digest, self._inside)))


@functools.cache
def _warn_once(reason: str) -> None:
    warnings.warn(
        f"compiled code cannot be kept on disk ({reason}): every process compiles anew. "
        "Set NUMBA_CACHE_DIR to a writable folder.",
        CacheUnavailable,
        stacklevel=4,
    )


class _LazyCache:
    """Stands in for a dispatcher's cache until the first compilation: imports stay cheap."""

    def __init__(self, function: Callable, inside: tuple[Callable, ...] = ()) -> None:
        self._function = function
        self._inside = inside

    @functools.cached_property
    def _cache(self) -> Any:
        try:
            return _Cache(self._function, self._inside)
        except RuntimeError as error:
            # Code typed at a prompt has no file to be cached beside; that is nothing to warn about.
            if not self._function.__code__.co_filename.startswith("<"):
                _warn_once(str(error))
            return numba.core.caching.NullCache()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def kernel(function: Callable) -> Callable:
    """Compile `function` on first use, without the GIL, cached on disk; it makes no arrays."""
    dispatcher = numba.njit(**_OPTIONS, **_ALLOCATES_NOTHING)(function)
    dispatcher._cache = _LazyCache(function)
    return dispatcher


@functools.cache
def helper(function: Callable, allocates: bool = False) -> Callable:
    """Compile `function` as a part of compiled functions that call it; Python cannot."""
    return numba.njit(**_OPTIONS, **_INSIDE, _nrt=allocates)(function)


def view(function: Callable) -> Callable:
    """Compile `function`, which returns a view of its arguments, into its compiled callers."""
    return numba.njit(inline="always", **_OPTIONS, **_INSIDE, **_ALLOCATES_NOTHING)(function)


@functools.cache
def specialise(make: Callable, oracles: Any, allocates: bool = False) -> Callable:
    """The kernel that `make` builds around the oracles, a named tuple; None stays None."""
    inside = (oracle and helper(oracle, allocates) for oracle in oracles)
    function = make(type(oracles)(*inside))
    dispatcher = numba.njit(**_OPTIONS, **_ALLOCATES_NOTHING)(function)
    dispatcher._cache = _LazyCache(function, tuple(filter(None, oracles)))
    return dispatcher
