"""Passes over the tables of a junction tree, for compiled oracles; see `taut.inference.junction`.

`tables` is an array in which those of a graph begin at `at`. Going up, each clique sends a number
for each labelling of its neighbours to its parent, which adds it to its scores; going down, it gets
the probability of that labelling from there.
"""

from __future__ import annotations

import math

from taut.compiled.jit import helper
from taut.inference.means import least_of


@helper
def _send(trees, clique, first, n_labels, tables, at, r, message):
    """Add the message of row r to the parent's scores; what remains if there is no parent."""
    parent = trees.parents[clique]
    if parent < 0:
        return message
    start = at + trees.tables[first + parent] + r % n_labels
    lift = trees.places[trees.lifts[clique] + r // n_labels]
    spread = trees.spreads[clique]
    for s in range(trees.n_spread[clique]):
        tables[start + (lift + trees.places[spread + s]) * n_labels] += message
    return 0.0


@helper
def _receive(trees, clique, first, n_labels, tables, at, r):
    """The probability of row r, by the parent's table."""
    parent = trees.parents[clique]
    if parent < 0:
        return 1.0
    start = at + trees.tables[first + parent] + r % n_labels
    lift = trees.places[trees.lifts[clique] + r // n_labels]
    spread = trees.spreads[clique]
    total = 0.0
    for s in range(trees.n_spread[clique]):
        total += tables[start + (lift + trees.places[spread + s]) * n_labels]
    return total


@helper
def row_of(trees, clique, n_labels, label):
    """The row that a labelling of the whole graph has in a clique."""
    row = 0
    for p in range(trees.near_starts[clique], trees.near_starts[clique + 1]):
        row = row * n_labels + label[trees.near[p]]
    return row


@helper
def _best(tables, row, n_labels):
    best = 0
    for k in range(1, n_labels):
        if tables[row + k] > tables[row + best]:
            best = k
    return best


@helper
def maximise(trees, first, n_labels, tables, at, label):
    """The labelling of highest score by the potentials in `tables`, and that score."""
    total = 0.0
    for c in range(label.shape[0]):
        clique = first + c
        start = at + trees.tables[clique]
        for r in range(trees.n_rows[clique]):
            row = start + r * n_labels
            highest = tables[row + _best(tables, row, n_labels)]
            total += _send(trees, clique, first, n_labels, tables, at, r, highest)
    for c in range(label.shape[0] - 1, -1, -1):
        clique = first + c
        row = at + trees.tables[clique] + row_of(trees, clique, n_labels, label) * n_labels
        label[trees.nodes[clique]] = _best(tables, row, n_labels)
    return total


@helper
def _divide(tables, row, n_labels):
    """Make probabilities of a row of numbers >= 0; equal ones if there is nothing to divide."""
    total = 0.0
    for k in range(n_labels):
        total += tables[row + k]
    known = total > least_of(tables)
    for k in range(n_labels):
        tables[row + k] = tables[row + k] / total if known else 1.0 / n_labels


@helper
def _soften(tables, row, n_labels, temperature, base):
    """Make a row of scores probabilities given the row; temperature log of the sum before that."""
    top = tables[row]
    for k in range(1, n_labels):
        top = max(top, tables[row + k])
    prior = 0.0
    if base.shape[0] > 0:
        for k in range(n_labels):
            prior += base[row + k]
    least = least_of(tables)
    known = prior > least
    total = 0.0
    for k in range(n_labels):
        value = math.exp((tables[row + k] - top) / temperature)
        if known:
            value *= max(base[row + k] / prior, least)
        tables[row + k] = value
        total += value
    for k in range(n_labels):
        tables[row + k] /= total
    if base.shape[0] > 0 and not known:
        total /= n_labels
    return top + temperature * math.log(total)


@helper
def condition(trees, first, n_nodes, n_labels, tables, at, temperature, base):
    """Make probabilities of a node given its neighbours of potentials; temperature log of the sum.

    `base` is empty, or a mean, whose tables begin at the same place.
    """
    total = 0.0
    for c in range(n_nodes):
        clique = first + c
        start = at + trees.tables[clique]
        for r in range(trees.n_rows[clique]):
            row = start + r * n_labels
            message = _soften(tables, row, n_labels, temperature, base)
            total += _send(trees, clique, first, n_labels, tables, at, r, message)
    return total


@helper
def condition_again(trees, first, n_nodes, n_labels, tables, at):
    """The same of tables of joint probabilities, consistent or not."""
    for c in range(n_nodes):
        clique = first + c
        start = at + trees.tables[clique]
        for r in range(trees.n_rows[clique]):
            _divide(tables, start + r * n_labels, n_labels)


@helper
def join(trees, first, n_nodes, n_labels, mean, stride):
    """Joint probabilities of the cliques of conditional ones, and those of the nodes before.

    Nodes have `stride` numbers each, zeros after their labels.
    """
    at = n_nodes * stride
    for c in range(n_nodes - 1, -1, -1):
        clique = first + c
        node = trees.nodes[clique] * stride
        for k in range(stride):
            mean[node + k] = 0.0
        start = at + trees.tables[clique]
        for r in range(trees.n_rows[clique]):
            share = _receive(trees, clique, first, n_labels, mean, at, r)
            row = start + r * n_labels
            for k in range(n_labels):
                mean[row + k] *= share
                mean[node + k] += mean[row + k]
