"""Sums of labels in a visit, which take one inner product for each label.

A visit compares labels with what its block had, and with what it has added by then, never with each
other. Both are sums of psi = phi(truth) - phi(label).
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.lanes import aligned_zeros
from taut.spaces.labels import Alone, Lifted, Onto, ProductRoom, Scatter, push_single

OLD, NEW, LAST = 0, 1, 2  # the rows of `SumRoom`


class SumRoom(NamedTuple):
    """Two sums of psi, and one psi, for inner products with labels.

    The rows are what a block had, what a visit adds, and the psi that is measured: as statistics,
    with what `lift` makes of them; or, where potentials are computed one by one, as vectors like w,
    the last of which is phi(truth) in between.
    """

    products: ProductRoom
    statistics: np.ndarray
    lifted: np.ndarray
    reach: np.ndarray  # what `lift` returned
    vectors: np.ndarray

    @classmethod
    def of(cls, products: ProductRoom, features: Any, alone: bool) -> SumRoom:
        """Room for blocks with these features; `alone` says how potentials are computed."""
        dtype, n = products.scratch.dtype, features.n_potentials
        sizes = (0, 0, features.size) if alone else (n, n, 0)
        statistics, lifted, vectors = (aligned_zeros(3 * k, dtype).reshape(3, k) for k in sizes)
        return cls(products, statistics, lifted, np.zeros(2), vectors)


class SumFunctions(NamedTuple):
    """What is done with such sums of block i."""

    hold: Any  # (i, statistics, size, room) -> |v0|^2: the first sum is v0, of these statistics
    start: Any  # (data, i, own, room): the second is 0, and psi are differences from `own`
    along: Any  # (data, i, label, row, room): the inner product of a sum with phi(label)
    measure: Any  # (data, i, own, label, room) -> <psi, phi(own)>, |psi|^2
    add: Any  # (data, i, own, label, amount, room): add to the second the psi measured last
    shrink: Any  # (i, factor, room): multiply the second


def sums_of(operations: Any) -> SumFunctions:
    """Functions for sums of labels, which take one inner product for each label."""
    if operations.single is not None:
        return _sums_alone(operations.parts)
    return _sums_lifted(operations.parts, operations.lift, operations.n_all)


@functools.cache
def _sums_lifted(parts, lift, n_all):
    def hold(i, statistics, size, room):
        old, lifted = room.statistics[OLD], room.lifted[OLD]
        for p in range(size):
            old[p] = statistics[p]
        end, factor = lift(room.products.space, i, old, size, room.products.scratch, lifted)
        room.reach[0], room.reach[1] = end, factor
        total, rest = 0.0, 0.0
        for p in range(end):
            total += old[p] * lifted[p]
        for p in range(end, size):
            rest += old[p] * old[p]
        return total + factor * rest

    def start(data, i, own, room):
        new, lifted = room.statistics[NEW], room.lifted[NEW]
        for p in range(n_all(room.products.space, i, new)):
            new[p] = 0.0
            lifted[p] = 0.0

    def along(data, i, label, row, room):
        end, factor = int(room.reach[0]), room.reach[1]
        return parts(data, i, label, Lifted(room.lifted[row], room.statistics[row], end, factor))

    def measure(data, i, own, label, room):
        psi, lifted = room.statistics[LAST], room.lifted[LAST]
        size = n_all(room.products.space, i, psi)
        parts(data, i, own, Scatter(psi, psi, size, 0, 1.0))
        parts(data, i, label, Scatter(psi, psi, size, 0, -1.0))
        end, factor = lift(room.products.space, i, psi, size, room.products.scratch, lifted)
        room.reach[0], room.reach[1] = end, factor
        each = Lifted(lifted, psi, end, factor)
        right = parts(data, i, own, each)
        square = right - parts(data, i, label, each)
        parts(data, i, own, Scatter(psi, psi, size, 0, -1.0))
        parts(data, i, label, Scatter(psi, psi, size, 0, 1.0))
        return right, square

    def add(data, i, own, label, amount, room):
        new, lifted = room.statistics[NEW], room.lifted[NEW]
        size = n_all(room.products.space, i, new)
        parts(data, i, own, Scatter(new, new, size, 0, amount))
        parts(data, i, label, Scatter(new, new, size, 0, -amount))
        last, factor = room.lifted[LAST], new.dtype.type(amount)
        for p in range(int(room.reach[0])):
            lifted[p] += factor * last[p]

    def shrink(i, factor, room):
        new, lifted = room.statistics[NEW], room.lifted[NEW]
        for p in range(n_all(room.products.space, i, new)):
            new[p] *= factor
            lifted[p] *= factor

    return SumFunctions(*map(helper, (hold, start, along, measure, add, shrink)))


@functools.cache
def _sums_alone(parts):
    """No label works on whole vectors: it has few of the weights."""

    def hold(i, statistics, size, room):
        old, total = room.vectors[OLD], 0.0
        for j in range(old.shape[0]):
            old[j] = 0.0
        for p in range(size):
            if statistics[p] != 0.0:
                push_single(room.products.space, i, p, statistics[p], old)
        for j in range(old.shape[0]):
            total += old[j] * old[j]
        return total

    def start(data, i, own, room):
        new, truth = room.vectors[NEW], room.vectors[LAST]
        for j in range(new.shape[0]):
            new[j] = 0.0
            truth[j] = 0.0
        parts(data, i, own, Onto(room.products.space, i, truth, 1.0))

    def along(data, i, label, row, room):
        return parts(data, i, label, Alone(room.products.space, i, room.vectors[row]))

    def measure(data, i, own, label, room):
        space, psi = room.products.space, room.vectors[LAST]
        parts(data, i, label, Onto(space, i, psi, -1.0))
        right = parts(data, i, own, Alone(space, i, psi))
        square = right - parts(data, i, label, Alone(space, i, psi))
        parts(data, i, label, Onto(space, i, psi, 1.0))
        return right, square

    def add(data, i, own, label, amount, room):
        space, new = room.products.space, room.vectors[NEW]
        parts(data, i, own, Onto(space, i, new, amount))
        parts(data, i, label, Onto(space, i, new, -amount))

    def shrink(i, factor, room):
        new = room.vectors[NEW]
        for j in range(new.shape[0]):
            new[j] *= new.dtype.type(factor)

    return SumFunctions(*map(helper, (hold, start, along, measure, add, shrink)))
