"""The step of dynamic programming over sequences: the best way to each label."""

from __future__ import annotations

from taut.compiled.jit import helper
from taut.compiled.lanes import load, maximum, shift, store, width, zeros


@helper
def _max_plus_strip(work, before, T, stride, n_labels, zero, to, k):
    """A strip of labels k of `max_plus`, in registers while j runs; the next label."""
    best = shift(load(zero, work, T + k), work[before])
    for j in range(1, n_labels):
        best = maximum(best, shift(load(zero, work, T + j * stride + k), work[before + j]))
    store(best, work, to + k)
    return k + width(zero)


@helper
def max_plus(work, before, T, stride, n_labels, to):
    """work[to + k] = max_j work[before + j] + T[j, k], where T begins at work[T]."""
    unit = width(zeros(work, 1))
    k = 0
    while k + 4 * unit <= stride:
        k = _max_plus_strip(work, before, T, stride, n_labels, zeros(work, 4), to, k)
    if k + 3 * unit <= stride:
        _max_plus_strip(work, before, T, stride, n_labels, zeros(work, 3), to, k)
    elif k + 2 * unit <= stride:
        _max_plus_strip(work, before, T, stride, n_labels, zeros(work, 2), to, k)
    elif k < stride:
        _max_plus_strip(work, before, T, stride, n_labels, zeros(work, 1), to, k)
