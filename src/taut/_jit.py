"""Compilation: one set of options, one on-disk cache that is never stale, function pointers.

Numba invalidates a cached function when the file that defines it changes, not when a helper in
another file does. The caches made here are stamped with all of taut's files that hold compiled code
as well, so an edit to any of them recompiles what may depend on it.
"""

from __future__ import annotations

import functools
import hashlib
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import sigutils
from numba.core.caching import FunctionCache
from numba.core.ccallback import CFunc

from taut.errors import CacheUnavailable

# Function pointers have been in numba for years; the notice would meet every user at every fit.
warnings.filterwarnings("ignore", message="First-class function type feature is experimental")

_OPTIONS = {"fastmath": True, "error_model": "numpy", "boundscheck": False}


@functools.cache
def _package_stamp() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        text = source.read_bytes()
        if b"_jit" in text or b"_linalg" in text:
            digest.update(f"{source.name} {len(text)} ".encode() + text)
    return digest.hexdigest()


class _Cache(FunctionCache):
    """A numba function cache whose freshness also covers the sources of this package."""

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        own = self._cache_file._source_stamp
        self._cache_file._source_stamp = (own, _package_stamp())


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

    def __init__(self, function: Callable) -> None:
        self._function = function

    @functools.cached_property
    def _cache(self) -> Any:
        try:
            return _Cache(self._function)
        except RuntimeError as error:
            # Code typed at a prompt has no file to be cached beside; that is nothing to warn about.
            if not self._function.__code__.co_filename.startswith("<"):
                _warn_once(str(error))
            return numba.core.caching.NullCache()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def kernel(function: Callable) -> Callable:
    """Compile `function` on first use, without the GIL, cached on disk."""
    dispatcher = numba.njit(nogil=True, **_OPTIONS)(function)
    dispatcher._cache = _LazyCache(function)
    return dispatcher


@functools.cache
def pointer(function: Callable, signature: Any) -> CFunc:
    """Compile `function` for `signature` into a function pointer that kernels can call."""
    args, result = sigutils.normalize_signature(signature)
    compiled = CFunc(function, (args, result), locals={}, options=dict(_OPTIONS))
    compiled._cache = _LazyCache(function)
    compiled.compile()
    return compiled
