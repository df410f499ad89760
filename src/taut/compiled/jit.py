"""Compilation: one set of options, one on-disk cache that is never stale, oracles compiled in.

Numba invalidates a cached function when the file that defines it changes, not when a helper in
another file does. The caches made here are stamped with all of taut's files that hold compiled code
as well, so an edit to any of them recompiles what may depend on it.

A loop over blocks calls the oracles of a structure, and calls through pointers would cost as much
as a small oracle. `specialise` compiles the loop anew with the oracles inside it instead; on disk
it is found again by the sources of these oracles.

Compiling takes seconds where training takes a moment. So the time it takes is kept apart (`clock`),
and users are told about it when it is long.
"""

from __future__ import annotations

import functools
import hashlib
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core import event as events
from numba.core.caching import FunctionCache, NullCache
from numba.core.errors import NumbaError, UnsupportedBytecodeError

from taut.compiled.compile_errors import invalid_structure
from taut.compiled.linking import FROM_PYTHON, INSIDE
from taut.compiled.sources import source_digest
from taut.console.progress import announce, newest
from taut.errors import CacheUnavailable

if numba.config.DISABLE_JIT:
    raise ImportError(
        "NUMBA_DISABLE_JIT is set, and taut's loops work in vector registers, which Python does "
        "not have: unset it"
    )

_OPTIONS = {"nogil": True, "fastmath": True, "error_model": "numpy", "boundscheck": False}
#: No array is made or returned: each one unpacked from a tuple would otherwise be counted, by an
#: atomic instruction, which took three quarters of the time of small oracles.
_ALLOCATES_NOTHING = {"_nrt": False}
#: What Python needs to call a function takes a third of the time of compiling a small one.
_INSIDE = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "pipeline_class": INSIDE}
_OUTSIDE = {"no_cfunc_wrapper": True, "pipeline_class": FROM_PYTHON}

_LONG = 1.0  # seconds of compiling after which the user is told
_PAUSE = 5.0  # seconds without compiling after which the user is told again, as in each new fit


class _Compilation(events.Listener):
    """The time that this process has spent compiling, by whichever thread.

    Numba compiles under a lock, so events of two threads do not mix. Functions that are compiled
    for others are part of these.
    """

    def __init__(self) -> None:
        # What is over, and since when more is under way: one tuple, for threads that read it.
        self.state: tuple[float, float | None] = 0.0, None
        self._depth = 0
        self._over = -float("inf")  # when the last one was
        self._before = 0.0  # what was spent before those that users are told of together
        self._told = False
        self._fit: int | None = None  # which one they belong to
        self._outermost: dict[str, Any] = {}

    @property
    def seconds(self) -> float:
        spent, since = self.state
        return spent if since is None else spent + time.perf_counter() - since

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            now = time.perf_counter()
            fit = newest()
            if fit != self._fit or now - self._over > _PAUSE:
                self._before, self._told, self._fit = self.seconds, False, fit
            self.state = self.state[0], now
            self._outermost = event.data
        self.tell_if_long()

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._over = time.perf_counter()
            self.state = self.seconds, None
            self._outermost = {}

    def tell_if_long(self) -> None:
        """Announce what is being compiled, unless it is code of others."""
        if self._told or self._depth == 0 or self.seconds - self._before < _LONG:
            return
        cache = getattr(self._outermost["dispatcher"], "_cache", None)
        if isinstance(cache, _LazyCache):
            self._told = True
            numbers = next(_real_numbers(self._outermost["args"]), "")
            announce(f"{numbers}, {'once on this machine' if cache.keeps else 'for this process'}")


class _Steps(events.Listener):
    """Compiling one function takes many steps: between them there is time to tell the user."""

    def on_start(self, event: Any) -> None:
        _compilation.tell_if_long()

    def on_end(self, event: Any) -> None:
        pass


def _real_numbers(arguments: Any) -> Iterator[str]:
    """What arrays of real numbers among the arguments hold, which may be tuples of arrays."""
    for item in arguments:
        if isinstance(item, numba.types.BaseTuple):
            yield from _real_numbers(item)
        elif isinstance(getattr(item, "dtype", None), numba.types.Float):
            yield f" for {item.dtype}"


_compilation = _Compilation()
events.register("numba:compile", _compilation)
events.register("numba:run_pass", _Steps())


def compile_seconds() -> float:
    """How long this process has been compiling so far."""
    return _compilation.seconds


def clock() -> float:
    """Seconds on a clock that stands still while this process compiles."""
    spent, since = _compilation.state
    return (time.perf_counter() if since is None else since) - spent


@functools.cache
def _package_stamp() -> str:
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        text = source.read_bytes()
        if any(name in text for name in (b"taut.compiled", b"numba")):
            digest.update(f"{source.name} {len(text)} ".encode() + text)
    return digest.hexdigest()


def _renamed(function: Callable, variant: str = "") -> Callable:
    """The same function with its digest in its name.

    Two functions of one name, compiled by two processes and loaded by a third, would have the same
    symbols, and the one that is loaded first would be called in the place of the other.
    """
    copy = types.FunctionType(function.__code__, function.__globals__, closure=function.__closure__)
    copy.__module__, copy.__doc__ = function.__module__, function.__doc__
    copy.__defaults__, copy.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    copy.__qualname__ = f"{function.__qualname__}_{source_digest(function)[:16]}{variant}"
    return copy


class _Cache(FunctionCache):
    """A numba function cache whose freshness also covers the sources of this package.

    A kernel with oracles inside is told from others by the digest in its name: numba would compare
    the compiled objects that it encloses, which are new in each process.
    """

    def __init__(self, function: Callable) -> None:
        super().__init__(function)
        own = self._cache_file._source_stamp
        self._cache_file._source_stamp = (own, _package_stamp())

    def _index_key(self, sig: Any, codegen: Any) -> tuple:
        if self._py_func.__closure__ is None:
            return super()._index_key(sig, codegen)
        return (sig, codegen.magic_tuple(), self._py_func.__qualname__)


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
            return NullCache()

    @property
    def keeps(self) -> bool:
        """Whether compiled code is found again by the next process."""
        return not isinstance(self._cache, NullCache)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def kernel(function: Callable) -> Callable:
    """Compile `function` on first use, without the GIL, cached on disk; it makes no arrays.

    Compiled functions that call it have it as a `helper`.
    """
    dispatcher = _dispatcher(_renamed(function) if function.__closure__ else function)
    inside: Any = helper(function)
    # By these two a dispatcher answers compiled callers.
    dispatcher.get_call_template = inside.get_call_template
    dispatcher.get_overload = inside.get_overload
    return dispatcher


def _dispatcher(function: Callable) -> Any:
    dispatcher = numba.njit(**_OPTIONS, **_ALLOCATES_NOTHING, **_OUTSIDE)(function)
    dispatcher._cache = _LazyCache(function)
    return dispatcher


_to_inline: weakref.WeakSet[Callable] = weakref.WeakSet()


def inline_always(function: Callable) -> Callable:
    """Let `helper` compile `function` into its callers, whatever LLVM thinks of its size.

    For what each visit calls with many arguments, such as a space: copying them took 5 % of the
    time of words.
    """
    _to_inline.add(function)
    return function


@functools.cache
def helper(function: Callable, allocates: bool = False, bounded: bool = False) -> Callable:
    """Compile `function` as a part of compiled functions that call it; Python cannot.

    Where it is `bounded`, an index outside an array raises an IndexError, and NaN stays NaN.
    """
    options = _OPTIONS | {"boundscheck": bounded, "fastmath": not bounded, "_nrt": allocates}
    options["forceinline"] = function in _to_inline
    variant = "a" * allocates + "b" * bounded
    dispatcher = numba.njit(**options, **_INSIDE)(_renamed(function, variant))

    def refuse(*arguments: Any, **keywords: Any) -> Any:
        # There is no machine code to call.
        raise TypeError(f"{function.__name__} is called by compiled functions alone, not by Python")

    dispatcher._compile_for_args = refuse
    return dispatcher


def inlined(function: Callable) -> Callable:
    """Compile `function` as a part of its compiled callers, whatever LLVM thinks of its size.

    For steps between two functions of many arguments: each call would copy all of them.
    """
    return numba.njit(**_OPTIONS, **_INSIDE, **_ALLOCATES_NOTHING, forceinline=True)(function)


def view(function: Callable) -> Callable:
    """Compile `function`, which returns a view of its arguments, into its compiled callers."""
    return numba.njit(inline="always", **_OPTIONS, **_INSIDE, **_ALLOCATES_NOTHING)(function)


@functools.cache
def around(make: Callable, *settings: Any) -> Callable:
    """`make` with settings, the same function each time: `specialise` finds kernels by it."""

    def build(operations: Any) -> Callable:
        return make(operations, *settings)

    return build


@functools.cache
def specialise(
    make: Callable, oracles: Any, allocates: bool = False, bounded: bool = False
) -> Callable:
    """The kernel that `make` builds around the oracles, a named tuple; None stays None."""
    inside = (oracle and helper(oracle, allocates, bounded) for oracle in oracles)
    dispatcher = _dispatcher(_renamed(make(type(oracles)(*inside))))
    # The dispatcher looks this method up when it is called with types that it has not seen yet.
    compile_for = dispatcher._compile_for_args

    def compile_or_explain(*arguments: Any, **keywords: Any) -> Any:
        try:
            return compile_for(*arguments, **keywords)
        except (NumbaError, UnsupportedBytecodeError) as error:
            explained = invalid_structure(str(error), dispatcher.py_func)
            if explained is None:
                raise
            raise explained from error

    dispatcher._compile_for_args = compile_or_explain
    return dispatcher
