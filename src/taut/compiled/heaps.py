"""Heaps whose lowest value is on top: numbers, and what each of them belongs to."""

from __future__ import annotations

from taut.compiled.jit import helper


@helper
def exchange(values, places, a, b):
    """Exchange two entries."""
    values[a], values[b] = values[b], values[a]
    places[a], places[b] = places[b], places[a]


@helper
def sink(values, places, top, count):
    """Move an entry down to where it belongs."""
    while 2 * top + 1 < count:
        child = 2 * top + 1
        if child + 1 < count and values[child + 1] < values[child]:
            child += 1
        if values[top] <= values[child]:
            break
        exchange(values, places, top, child)
        top = child


@helper
def heap(values, places, count):
    """Make a heap of entries in any order."""
    for top in range(count // 2 - 1, -1, -1):
        sink(values, places, top, count)
