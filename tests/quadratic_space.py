"""A second space: the features x (outer) x of rows, which are never written down.

A point is sum_r A_r b_r over all rows r of the data, kept as the coefficients b_r, and the tail of
w as it is, which blocks see as in the linear space. Whatever reads or adds to coordinates of w by
itself gives wrong answers here.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from taut.compiled.jit import helper, kernel
from taut.compiled.rows import n_rows, row_inner
from taut.spaces.features import Features
from taut.spaces.linear import (
    SpaceFunctions,
    pull_tail_rows,
    push_tail_rows,
    spill_tail,
    through_weights,
)
from taut.spaces.quadratic import Quadratic


class QuadraticView(NamedTuple):
    """What compiled code sees: block i has the rows places[i, 0] to places[i, 1]."""

    rows: tuple
    places: np.ndarray
    squares: np.ndarray
    stride: int
    tail_at: int
    tail: int


class TailRowsView(NamedTuple):
    """The same with rows of a second kind, through which block i sees the tail."""

    rows: tuple
    places: np.ndarray
    squares: np.ndarray
    stride: int
    tail_at: int
    tail: int
    tail_rows: tuple
    tail_stride: int
    tail_places: np.ndarray


def ask(space, i):
    """Nothing."""


@helper
def pull_rows(space, i, w, theta):
    """theta[t, k] = sum_r <x_t, x_r>^2 w[r, k]; where they end."""
    first, last = space.places[i, 0], space.places[i, 1]
    at = 0
    for t in range(first, last):
        for k in range(space.stride):
            theta[at + k] = 0.0
        for r in range(space.squares.shape[0]):
            product = row_inner(space.rows, t, r) ** 2
            for k in range(space.stride):
                theta[at + k] += product * w[r * space.stride + k]
        at += space.stride
    return at


@helper
def push_rows(space, i, s, least, w):
    """w[t, k] += s[t, k]; where they end."""
    first, stride = space.places[i, 0], space.stride
    own = (space.places[i, 1] - first) * stride
    for p in range(own):
        if abs(s[p]) > least:
            w[first * stride + p] += s[p]
    return own


def pull(space, i, w, theta):
    """Those of rows, then the tail."""
    at = pull_rows(space, i, w, theta)
    for p in range(space.tail):
        theta[at + p] = w[space.tail_at + p]


def push(space, i, s, size, least, w):
    """To those of rows, then to the tail if it is among the statistics."""
    own = push_rows(space, i, s, least, w)
    for p in range(own, size):
        w[space.tail_at + p - own] += s[p]


def pull_all(space, i, w, theta):
    """Those of rows of both kinds."""
    pull_tail_rows(space, i, w, theta, pull_rows(space, i, w, theta))


def push_all(space, i, s, size, least, w):
    """To those of rows of both kinds."""
    push_tail_rows(space, i, s, push_rows(space, i, s, least, w), least, w)


def square(space, i):
    """<x, x>^2."""
    return space.squares[space.places[i, 0]]


def n_own(space, i, s):
    """Those of the rows."""
    return (space.places[i, 1] - space.places[i, 0]) * space.stride


def n_all(space, i, s):
    """And of the tail."""
    return (space.places[i, 1] - space.places[i, 0]) * space.stride + space.tail


def n_rows_all(space, i, s):
    """Those of rows of both kinds."""
    count = space.tail_places[i, 1] - space.tail_places[i, 0]
    return (space.places[i, 1] - space.places[i, 0]) * space.stride + count * space.tail_stride


def touch(space, i, action):
    """Nothing: there is no prior."""


FUNCTIONS = SpaceFunctions(
    ask, pull, push, through_weights(pull, push), square, n_own, n_all, touch, spill_tail
)
TAIL_ROWS_FUNCTIONS = SpaceFunctions(
    ask, pull_all, push_all, through_weights(pull_all, push_all), square, n_rows_all, n_rows_all,
    touch,
)  # fmt: skip


@kernel
def _gram(rows, out):
    for r in range(out.shape[0]):
        for t in range(out.shape[0]):
            out[r, t] = row_inner(rows, r, t) ** 2


class QuadraticFeatures(Features):
    """Rows of linear features, by the squares of their inner products."""

    lifts = False

    def __init__(self, linear):
        n = n_rows(linear.rows)
        tail = linear.size - linear.n_rows * linear.stride
        places = linear.places
        if places is None:
            places = np.column_stack([np.arange(n), np.arange(1, n + 1)])
        self.gram = np.empty((n, n))
        _gram(linear.rows, self.gram)
        self.norms = np.diag(self.gram).copy()
        self.linear, self.stride = linear, linear.stride
        self.size = self.n_features = self.reads = n * linear.stride + tail
        self.n_potentials, self.dtype = linear.n_potentials, linear.dtype
        common = linear.rows, places, self.norms, linear.stride, n * linear.stride, tail
        self._view = QuadraticView(*common)
        self._functions = FUNCTIONS
        if linear.tail_rows is not None:
            more, more_places = linear.tail_rows
            self._view = TailRowsView(*common, more, linear.tail_stride, more_places)
            self._functions = TAIL_ROWS_FUNCTIONS

    def summed_lengths(self, offsets):
        """As linear features have."""
        own, linear = (
            np.add.reduceat(np.sqrt(norms), offsets[:-1])
            for norms in (self.norms, self.linear.norms)
        )
        return own + self.linear.summed_lengths(offsets) - linear

    def view(self, data):
        """Rows and places."""
        return self._view

    def functions(self, structure):
        """As above."""
        return self._functions

    def take(self, blocks):
        """Not asked for."""
        raise AssertionError

    def quadratic(self, prior):
        """In which inner products of points go through those of rows."""
        return GramQuadratic(self)


class GramQuadratic(Quadratic):
    """1/2 |w|^2 of w = sum_r A_r b_r."""

    of_weights = False

    def __init__(self, features):
        self.features = features

    def covector(self, v):
        """Each row's features with v, and the tail."""
        end = len(self.features.gram) * self.features.stride
        own = self.features.gram @ v[:end].astype(np.float64).reshape(len(self.features.gram), -1)
        return np.concatenate([own.ravel(), v[end:]])

    def value(self, v):
        """1/2 <v, v>."""
        return 0.5 * self.dot(v, v)

    def conjugate(self, U):
        """1/2 <U, U>."""
        return 0.5 * self.dot(U, U)

    def magnitude(self, U):
        """<U, U>."""
        return self.dot(U, U)

    def survey(self, v, z, kappa, U):
        """As for weights, by inner products."""
        step = v - z
        new = v + kappa * step
        moved = new - U
        U[:] = new
        return self.conjugate(new), 0.5 * kappa**2 * self.dot(step, step), self.dot(moved, moved)

    def along(self, v, factor):
        """As for weights."""
        square = self.dot(v, v)
        return 0.5 * factor * factor * square, factor * square


def explicit(X):
    """The same features, written down: all products of two columns."""
    return np.einsum("ij,ik->ijk", X, X).reshape(len(X), -1)
