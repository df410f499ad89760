"""Random numbers in compiled code: beside cheap visits, drawing from numpy's would show."""

from __future__ import annotations

import numpy as np

from taut.compiled.jit import helper


@helper
def scrambled(seed):
    """A state from which random numbers begin; neighbouring seeds have unlike ones (splitmix)."""
    x = np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (x ^ (x >> np.uint64(31))) | np.uint64(1)


@helper
def stepped(x):
    """The next state, by xorshift; never zero."""
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    return x


@helper
def below(x, n):
    """A number of 0..n - 1 from a state."""
    return np.int64(((x >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
