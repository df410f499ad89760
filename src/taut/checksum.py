"""Whether arrays are as they were: sums of their words at the speed of memory, no digests.

Chance does not change data in a way that keeps both sums; somebody who means to can do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut._jit import kernel

_WORD = 8  # bytes


@kernel
def _add_up(words, sums):
    """Add the words, and the sums of all words up to each, which tells their order; both wrap."""
    total, running = sums[0], sums[1]
    for k in range(words.shape[0]):
        total += words[k]
        running += total
    sums[0] = total
    sums[1] = running


def checksum(arrays: Iterable[np.ndarray]) -> bytes:
    """Two sums over each of some arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.checksum import checksum
    >>> a = np.arange(5.0)
    >>> before = checksum([a])
    >>> a[[0, 1]] = a[[1, 0]]
    >>> checksum([a]) == before
    False
    """
    sums = []
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        whole = len(flat) - len(flat) % _WORD
        last = np.zeros(_WORD, dtype=np.uint8)
        last[: len(flat) - whole] = flat[whole:]
        pair = np.zeros(2, dtype=np.uint64)
        if whole:
            _add_up(flat[:whole].view(np.uint64), pair)
        _add_up(last.view(np.uint64), pair)
        sums.append(pair.tobytes())
    return b"".join(sums)


def arrays_in(value: Any) -> Iterator[np.ndarray]:
    """The arrays of numbers that data as users give them consist of, as far as they are any."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        yield value
    elif isinstance(value, list | tuple | np.ndarray):
        for item in value.flat if isinstance(value, np.ndarray) else value:
            yield from arrays_in(item)
    elif sp.issparse(value):
        for name in ("data", "indices", "indptr"):
            yield from arrays_in(getattr(value, name, None))
