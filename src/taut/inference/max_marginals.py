"""Max-marginals of a sequence: the highest score of any labels that have label k at position t.

The best way from the left to each label, and the best way to its right, add up to it: two passes of
dynamic programming. The difference between the best labels with a label and the best without it is
the margin by which that one position is decided.
"""

from __future__ import annotations

from taut.compiled.jit import kernel

_NOTHING = -1e300  # below any score; not infinite: compiled code may assume that no number is


@kernel
def max_marginals(nodes, pairs, ends, truth, pair_bonus, end_bonus, right, out):
    """out[t, k] = the highest score of labels with k at t; `right` is room of the same shape.

    Scores are sums of nodes[t, k], pairs[j, k] and ends[0, first] + ends[1, last]; each pair and
    each end that is not that of `truth` adds its bonus.
    """
    length, n_labels = nodes.shape
    last = length - 1
    for k in range(n_labels):
        out[0, k] = nodes[0, k] + ends[0, k] + (end_bonus if k != truth[0] else 0.0)
        right[last, k] = ends[1, k] + (end_bonus if k != truth[last] else 0.0)
    for t in range(1, length):
        for k in range(n_labels):
            best = _NOTHING
            for j in range(n_labels):
                other = j != truth[t - 1] or k != truth[t]
                value = out[t - 1, j] + pairs[j, k] + (pair_bonus if other else 0.0)
                best = max(best, value)
            out[t, k] = best + nodes[t, k]
    for t in range(last - 1, -1, -1):
        for j in range(n_labels):
            best = _NOTHING
            for k in range(n_labels):
                other = j != truth[t] or k != truth[t + 1]
                value = right[t + 1, k] + nodes[t + 1, k] + pairs[j, k]
                value += pair_bonus if other else 0.0
                best = max(best, value)
            right[t, j] = best
    for t in range(length):
        for k in range(n_labels):
            out[t, k] += right[t, k]
