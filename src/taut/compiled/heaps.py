"""Heaps whose lowest value is on top: numbers, and what each of them belongs to."""

from __future__ import annotations

import numpy as np

from taut.compiled.jit import helper


@helper
def exchange(values, places, a, b):
    """Exchange two entries."""
    values[a], values[b] = values[b], values[a]
    places[a], places[b] = places[b], places[a]


@helper
def sink(values, places, top, count):
    """Move an entry down to where it belongs."""
    value, place = values[top], places[top]
    while 2 * top + 1 < count:
        child = 2 * top + 1
        if child + 1 < count:  # without a branch: which one is lower is hard to predict
            child += np.int64(values[child + 1] < values[child])
        if value <= values[child]:
            break
        values[top], places[top] = values[child], places[child]
        top = child
    values[top], places[top] = value, place


@helper
def heap(values, places, count):
    """Make a heap of entries in any order."""
    for top in range(count // 2 - 1, -1, -1):
        sink(values, places, top, count)
