"""Expectations over the labels of a chain: sum-product, and what is linear in its marginals.

A mean is the marginals of the positions, (length, stride), and after them those of neighbouring
pairs, (length - 1, n_labels, stride), the previous label first. Forward, each position but the last
is eliminated: its messages are sums over its labels, whose terms, divided by their sum, are the
probabilities of its labels given the next one. Backward these become marginals. So all parts of a
mean agree by construction, and sums are taken relative to their largest terms at any temperature.
"""

from __future__ import annotations

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.lanes import (
    add,
    divide,
    exponential,
    load,
    maximum,
    multiply,
    multiply_add,
    shift,
    store,
    total,
    width,
    zeros,
)
from taut.inference.means import least_of
from taut.inference.viterbi import max_plus


@helper
def _eliminate_strip(zero, k, work, before, largest, T, cold, base, here, table, data, mean):
    """A strip of labels k: mean[table + j, k] = p(j | k) of the previous label; the next strip.

    work[largest + k] is replaced by the message to k, still without temperature times logarithm.
    """
    stride, n_labels = data.stride, data.n_labels
    rate = shift(zero, work.dtype.type(-cold))
    top = load(zero, work, largest + k)
    least = shift(zero, least_of(mean))
    share = zero
    if base.shape[0] > 0:
        share = divide(
            shift(zero, work.dtype.type(1.0)), maximum(load(zero, base, here + k), least)
        )
    sums = zero
    for j in range(n_labels):
        place = j * stride + k
        score = shift(load(zero, work, T + place), work[before + j])
        # The difference first, not below zero: rounding errors, divided by a small temperature,
        # would overflow.
        lag = maximum(multiply_add(score, work.dtype.type(-1.0), top), zero)
        term = exponential(multiply(lag, rate))
        if base.shape[0] > 0:
            known = multiply(load(zero, base, table + place), share)
            term = multiply(term, maximum(known, least))
        store(term, mean, table + place)
        sums = add(sums, term)
    store(sums, work, largest + k)
    inverse = divide(shift(zero, work.dtype.type(1.0)), sums)
    for j in range(n_labels):
        place = table + j * stride + k
        store(multiply(load(zero, mean, place), inverse), mean, place)
    return k + width(zero)


@helper
def _eliminate(work, before, coming, T, temperature, base, here, table, data, mean):
    """work[coming + k] = the message to label k from all labels of the position before."""
    stride, unit = data.stride, width(zeros(work, 1))
    cold = 1.0 / temperature
    # Messages are the largest term plus temperature times the logarithm of a sum; the largest terms
    # wait in the room that the next position's best scores take later.
    largest = before + stride
    max_plus(work, before, T, stride, data.n_labels, coming)
    for k in range(stride):
        work[largest + k] = work[coming + k]
    k = 0
    while k + 3 * unit <= stride:
        k = _eliminate_strip(
            zeros(work, 3), k, work, before, largest, T, cold, base, here, table, data, mean
        )
    if k + 2 * unit <= stride:
        _eliminate_strip(
            zeros(work, 2), k, work, before, largest, T, cold, base, here, table, data, mean
        )
    elif k < stride:
        _eliminate_strip(
            zeros(work, 1), k, work, before, largest, T, cold, base, here, table, data, mean
        )
    for k in range(data.n_labels):
        work[coming + k] += temperature * np.log(work[largest + k])


@helper
def _descend(data, length, mean):
    """Marginals from those of the last position and the conditional probabilities before it."""
    stride, n_labels = data.stride, data.n_labels
    zero = zeros(mean, 1)
    for t in range(length - 1, 0, -1):
        here = t * stride
        table = length * stride + (t - 1) * n_labels * stride
        for j in range(n_labels):
            sums = zero
            for k in range(0, stride, width(zero)):
                place = table + j * stride + k
                part = multiply(load(zero, mean, place), load(zero, mean, here + k))
                store(part, mean, place)
                sums = add(sums, part)
            mean[here - stride + j] = total(sums)
        for j in range(n_labels, stride):
            mean[here - stride + j] = 0.0


@helper
def add_ends(work, here, ends, stride, t, length):
    """Add the scores of first and last labels to the scores at position t, if it is at an end."""
    if t == 0:
        for k in range(stride):
            work[here + k] += work[ends + k]
    if t == length - 1:
        for k in range(stride):
            work[here + k] += work[ends + stride + k]


def expect(data, i, work, temperature, loss_weight, base, mean):
    """Marginals of positions and pairs, by sum-product."""
    stride, n_labels = data.stride, data.n_labels
    first, length = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
    T = length * stride
    ends = T + n_labels * stride
    coming = ends + 2 * data.boundary * stride  # the message to each label at each position
    best = coming + length * stride  # and with the position's own score
    cost = work.dtype.type(loss_weight * data.unit[i])
    for t in range(length):
        here = t * stride
        if t == 0:
            for k in range(stride):
                work[best + k] = work[k] + cost
        else:
            table = length * stride + (t - 1) * n_labels * stride
            before = best + here - stride
            _eliminate(work, before, coming + here, T, temperature, base, here, table, data, mean)
            for k in range(stride):
                work[best + here + k] = work[coming + here + k] + work[here + k] + cost
        work[best + here + data.truth[first + t]] -= cost
        if data.boundary:
            add_ends(work, best + here, ends, stride, t, length)
    here = best + (length - 1) * stride
    last = (length - 1) * stride
    highest = work[here]
    for k in range(1, n_labels):
        highest = max(highest, work[here + k])
    least = least_of(mean)
    sums = 0.0
    for k in range(n_labels):
        mean[last + k] = np.exp((work[here + k] - highest) / temperature)
        if base.shape[0] > 0:
            mean[last + k] *= max(base[last + k], least)
        sums += mean[last + k]
    for k in range(n_labels):
        mean[last + k] /= sums
    for k in range(n_labels, stride):
        mean[last + k] = 0.0
    _descend(data, length, mean)
    return highest + temperature * np.log(sums)


def normalise(data, i, mean):
    """The distribution with the same conditional probabilities, summed up afresh."""
    stride, n_labels = data.stride, data.n_labels
    length = data.offsets[i + 1] - data.offsets[i]
    last = (length - 1) * stride
    least = np.finfo(mean.dtype).tiny  # beside less, shares are lost in rounding
    for step in range(length):
        # The last position, then the labels before each label of each next one.
        place, size, gap = (last, 1, 1) if step == 0 else (length * stride, stride, stride)
        place += max(step - 1, 0) * n_labels * stride
        for k in range(size):
            sums = 0.0
            for j in range(n_labels):
                sums += mean[place + j * gap + k]
            for j in range(n_labels):
                share = mean[place + j * gap + k] / sums if sums > least else 1.0 / n_labels
                mean[place + j * gap + k] = share
    _descend(data, length, mean)


def mean_of(data, i, label, mean):
    """1 for the label of each position and of each pair."""
    stride, n_labels = data.stride, data.n_labels
    length = label.shape[0]
    for p in range(mean.shape[0]):
        mean[p] = 0.0
    for t in range(length):
        mean[t * stride + label[t]] = 1.0
        if t > 0:
            row = length * stride + ((t - 1) * n_labels + label[t - 1]) * stride
            mean[row + label[t]] = 1.0


@helper
def _pair_sums(zero, data, length, p, mean):
    """A strip of the marginals of pairs of labels, from pair p on, summed over all neighbours.

    Numba takes an index that is a sum for one that may be negative, and plain loops over these
    tables took nine times as long.
    """
    nodes, size = length * data.stride, data.n_labels * data.stride
    sums = zero
    for t in range(length - 1):
        sums = add(sums, load(zero, mean, nodes + t * size + p))
    return sums


def mean_loss(data, i, mean):
    """What the labels other than the truth's have, position by position."""
    first, length = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
    value = 0.0
    for p in range(length * data.stride):
        value += mean[p]
    for t in range(length):
        value -= mean[t * data.stride + data.truth[first + t]]
    return value * data.unit[i]


def spread(data, i, mean, statistics):
    """The marginals of positions, of pairs summed over all neighbours, and of both ends."""
    stride = data.stride
    length = data.offsets[i + 1] - data.offsets[i]
    nodes, size = length * stride, data.n_labels * stride
    zero = zeros(mean, 1)
    for p in range(0, nodes, width(zero)):
        store(load(zero, mean, p), statistics, p)
    for p in range(0, size, width(zero)):
        store(_pair_sums(zero, data, length, p, mean), statistics, nodes + p)
    if data.boundary:
        for k in range(0, stride, width(zero)):
            store(load(zero, mean, k), statistics, nodes + size + k)
            store(load(zero, mean, nodes - stride + k), statistics, nodes + size + stride + k)
