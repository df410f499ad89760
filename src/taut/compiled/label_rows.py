"""Labels as rows of integers: comparing and copying them in compiled code."""

from __future__ import annotations

from taut.compiled.jit import helper


@helper
def same(a, b):
    """Whether two labels of one block are equal."""
    t = 0
    while t < a.shape[0] and a[t] == b[t]:
        t += 1
    return t == a.shape[0]


@helper
def is_among(labels, count, label):
    """Whether a label is one of the first `count` rows."""
    q = 0
    while q < count and not same(labels[q], label):
        q += 1
    return q < count


@helper
def copy(label, out):
    """Write a label into another row."""
    for t in range(out.shape[0]):
        out[t] = label[t]
