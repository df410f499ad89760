"""Whether arrays are as they were: hashes of their words near the speed of memory, no digests.

Four chains of multiplications, one for every fourth word. No change by chance or by arithmetic in
place keeps them; somebody who means to can do it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.compiled.jit import helper, kernel

_WORD = 8  # bytes


_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(29)


@helper
def _mixed(state, word):
    state = (state ^ word) * _ODD
    return state ^ (state >> _SHIFT)


@kernel
def _mix(words, states):
    """Let each word change one of four states; their products do not wait for each other."""
    a, b, c, d = states[0], states[1], states[2], states[3]
    n = words.shape[0] - words.shape[0] % 4
    for k in range(0, n, 4):
        a = _mixed(a, words[k])
        b = _mixed(b, words[k + 1])
        c = _mixed(c, words[k + 2])
        d = _mixed(d, words[k + 3])
    for k in range(n, words.shape[0]):
        a = _mixed(a, words[k])
    states[0], states[1], states[2], states[3] = a, b, c, d


def checksum(arrays: Iterable[np.ndarray]) -> bytes:
    """A hash of each of some arrays.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.storage.checksum import checksum
    >>> a = np.arange(5.0)
    >>> before = checksum([a])
    >>> a[[0, 1]] = a[[1, 0]]
    >>> checksum([a]) == before
    False
    """
    hashes = []
    for array in arrays:
        flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        whole = len(flat) - len(flat) % _WORD
        last = np.zeros(_WORD, dtype=np.uint8)
        last[: len(flat) - whole] = flat[whole:]
        states = np.arange(1, 5, dtype=np.uint64)
        if whole:
            _mix(flat[:whole].view(np.uint64), states)
        _mix(last.view(np.uint64), states)
        hashes.append(states.tobytes())
    return b"".join(hashes)


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
