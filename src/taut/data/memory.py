"""Amounts of memory: as users write them, and as objects take them."""

import contextlib
import ctypes
import functools
import math
import mmap
import re
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.errors import InvalidData

_MMAP_THRESHOLD = -3  # glibc's number of the option
_LARGE = 1 << 18  # bytes from which an array is worth pages of its own

_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
}


def as_bytes(size: int | str, name: str = "size") -> int:
    """Read an amount of memory, at least one byte; errors call it `name`.

    A number of bytes, or a number with a unit: B, kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB,
    TiB (powers of 1024).

    Examples
    --------
    >>> as_bytes("500MB")
    500000000
    >>> as_bytes("1.5 KiB")
    1536
    """
    count = None
    if isinstance(size, int | np.integer) and not isinstance(size, bool):
        count = int(size)
    elif isinstance(size, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*", size)
        if match and match[2] in _UNITS:
            count = round(float(match[1]) * _UNITS[match[2]])
    if count is None or count < 1:
        raise InvalidData(
            f"{name} = {size!r} is no amount of memory; give bytes as an integer >= 1, or text "
            f"such as '500MB' with one of the units {', '.join(_UNITS)}"
        )
    return count


def size_of(value: Any) -> int:
    """Estimate the bytes that an object and all that it refers to take.

    Arrays count with their data; containers and attributes are followed, each object once, and so
    are arrays that begin at the same place.

    Examples
    --------
    >>> size_of([np.zeros(1000), np.zeros(500)]) // 1000
    12
    """
    total = 0
    seen: set[int] = set()
    # A stack of its own: examples may nest deeper than Python recurses.
    waiting = [value]
    while waiting:
        item = waiting.pop()
        # Arrays by where their items are: several may be views of the same.
        key = item.ctypes.data if isinstance(item, np.ndarray) and item.size else id(item)
        if key in seen:
            continue
        seen.add(key)
        if isinstance(item, np.ndarray):
            total += item.nbytes
            if item.dtype == object:
                waiting.extend(item.flat)
        elif sp.issparse(item):
            waiting.extend(vars(item).values())
        else:
            total += sys.getsizeof(item)
            if isinstance(item, Mapping):
                waiting.extend(item.keys())
                waiting.extend(item.values())
            elif isinstance(item, list | tuple | set | frozenset):
                waiting.extend(item)
            elif hasattr(item, "__dict__") and not isinstance(item, type):
                waiting.extend(vars(item).values())
    return total


@functools.cache
def return_large_arrays() -> None:
    """Let the C library return large arrays to the system when they are freed.

    glibc keeps freed arrays below a size that it raises by itself, up to 32 MB: where arrays of
    many sizes come and go, a process can grow to twice what is in use. Other libraries need no
    telling.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _LARGE)


def return_freed_memory() -> None:
    """Let the C library return all pages that are free now, those between small arrays too."""
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def taken_when_written(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of zeros whose memory is taken page by page, as it is written to.

    numpy asks for huge pages, each of which is cleared as a whole when the first of its numbers is
    written: that took half of the time of small kernel problems.

    Examples
    --------
    >>> from taut.data.memory import taken_when_written
    >>> taken_when_written((10_000, 10_000), "f8")[-1, -1]
    np.float64(0.0)
    """
    size = math.prod(shape)
    nbytes = max(size * np.dtype(dtype).itemsize, 1)
    if hasattr(mmap, "MAP_PRIVATE"):  # or forked processes would write into each other's
        room = mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            with contextlib.suppress(OSError):  # kernels without huge pages
                room.madvise(mmap.MADV_NOHUGEPAGE)
    else:
        room = mmap.mmap(-1, nbytes)
    return np.frombuffer(room, dtype=dtype, count=size).reshape(shape)
