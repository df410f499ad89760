"""Weights through a regulariser: what compiled code does where a block touches w.

Solvers add to a vector v in which the regulariser is 1/2 |v - shift|^2; potentials are made of the
user's weights w = R^-1 max(v, lower), where R'R is the prior's precision. A visit computes w only
where its block reads it, and carries only what it adds back to v.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from taut.compiled.linking import CHOSEN
from taut.compiled.rows import COMPILED_ONLY, Rows, operation


class Diagonal(NamedTuple):
    """R^-1 as its diagonal, and bounds of v; `weights` and `sums` are room for one thread."""

    inverse: np.ndarray
    lower: np.ndarray
    weights: np.ndarray
    sums: np.ndarray


class Full(NamedTuple):
    """R^-1 as a matrix; there are no bounds."""

    matrix: np.ndarray
    weights: np.ndarray
    sums: np.ndarray


class ScaledSpace(NamedTuple):
    """A space of weights, with what turns v into them."""

    inside: tuple
    scaling: Any
    rises: np.ndarray  # by how much the scaling raises the curvature of each block's exact step


class UnscaledSpace(NamedTuple):
    """The same where R is the identity and bounds do not count: v is w."""

    inside: tuple


class Reading(NamedTuple):
    """Compute w from v."""

    scaling: Any
    v: np.ndarray


class Adding(NamedTuple):
    """Add what is in `sums` to v, and clear it."""

    scaling: Any
    v: np.ndarray


def _read_diagonal(action, first, last):
    scaling, v = action
    for j in range(first, last):
        scaling.weights[j] = max(v[j], scaling.lower[j]) * scaling.inverse[j]


def _add_diagonal(action, first, last):
    scaling, v = action
    for j in range(first, last):
        v[j] += scaling.inverse[j] * scaling.sums[j]
        scaling.sums[j] = 0.0


def _read_full(action, first, last):
    scaling, v = action
    for j in range(first, last):
        total = 0.0
        for k in range(v.shape[0]):
            total += scaling.matrix[j, k] * v[k]
        scaling.weights[j] = total


def _add_full(action, first, last):
    scaling, v = action
    for j in range(first, last):
        amount = scaling.sums[j]
        if amount != 0.0:
            for k in range(v.shape[0]):
                v[k] += scaling.matrix[j, k] * amount
            scaling.sums[j] = 0.0


_FUNCTIONS = {
    (Reading, Diagonal): _read_diagonal,
    (Adding, Diagonal): _add_diagonal,
    (Reading, Full): _read_full,
    (Adding, Full): _add_full,
}


def act(action: Reading | Adding, first: int, last: int) -> None:
    """Do it for the weights first..last - 1; twice does no more than once."""
    raise TypeError(COMPILED_ONLY)


@overload(act, strict=False, jit_options=CHOSEN)
def _choose(action, first, last):
    return _FUNCTIONS[action.instance_class, action.types[0].instance_class]


def _dense_touch(rows, first, last, stride, action):
    act(action, 0, rows[0].shape[1] * stride)


def _csr_touch(rows, first, last, stride, action):
    _data, indices, indptr = rows
    for p in range(indptr[first], indptr[last]):
        act(action, indices[p] * stride, (indices[p] + 1) * stride)


@operation(_dense_touch, _csr_touch)
def touch_rows(rows: Rows, first: int, last: int, stride: int, action: Any) -> None:
    """Act on the weights of the features that rows first..last - 1 have."""
    raise TypeError(COMPILED_ONLY)
