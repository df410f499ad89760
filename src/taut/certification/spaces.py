"""Where the functions of a machine live: weights of columns, or coefficients of a kernel's rows.

All products are computed in float64, with the summed sizes of their terms, from which follows how
far rounding may have moved them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np

from taut.data.arrays import Matrix
from taut.kernels import Function, Kernel, KernelRows, Multiple, Product, Sum
from taut.problem import rounding_of

_ROOM = 64_000_000  # bytes of a block of a kernel matrix


class Point(NamedTuple):
    """A function f: |f|^2 and f(x_i), each with the summed size of the terms it is made of."""

    square: float
    square_size: float
    scores: np.ndarray
    sizes: np.ndarray

    def times(self, factor: float) -> Point:
        """The function times a positive number."""
        return Point(
            factor**2 * self.square, factor**2 * self.square_size, factor * self.scores,
            factor * self.sizes,
        )  # fmt: skip


class Space(ABC):
    """Rows, and the functions sum_i beta_i k(x_i, .) of them."""

    n: int

    @abstractmethod
    def of_coefficients(self, *betas: np.ndarray) -> list[Point]:
        """The functions that belong to each beta."""


class LinearSpace(Space):
    """Rows of columns, and a constant column whose weight is regularised like the others.

    Parameters
    ----------
    X : ndarray or CSR matrix of float64
    constant : float
        The value of the constant column; 0 for none.
    """

    def __init__(self, X: Matrix, constant: float) -> None:
        self.X = X
        self.constant = constant
        self.n = X.shape[0]
        self._size = abs(X)

    def of_weights(self, w: np.ndarray, tail: float) -> Point:
        """The function of weights of columns, and of the constant one."""
        last = self.constant * tail
        return Point(
            float(w @ w) + tail**2, float(w @ w) + tail**2, self.X @ w + last,
            self._size @ np.abs(w) + abs(last),
        )  # fmt: skip

    def of_coefficients(self, *betas):
        """By the weights that the coefficients sum up to."""
        return [self._of(beta) for beta in betas]

    def _of(self, beta: np.ndarray) -> Point:
        w, tail = self.X.T @ beta, self.constant * float(beta.sum())
        sizes = self._size.T @ np.abs(beta)
        tail_size = abs(self.constant) * float(np.abs(beta).sum())
        point = self.of_weights(w, tail)
        # |U|^2 errs by twice U times the error of U.
        return point._replace(
            square_size=2.0 * float(np.abs(w) @ sizes + abs(tail) * tail_size),
            sizes=self._size @ sizes + abs(self.constant) * tail_size,
        )


def _has_functions(kernel: Kernel) -> bool:
    """Whether a user's function has a part in it."""
    if isinstance(kernel, Sum | Product):
        return any(map(_has_functions, kernel.kernels))
    return (
        _has_functions(kernel.kernel)
        if isinstance(kernel, Multiple)
        else (isinstance(kernel, Function))
    )


class KernelSpace(Space):
    """Rows of a kernel; blocks of its matrix are computed when they are needed, and dropped.

    Parameters
    ----------
    kernel : Kernel
    rows : KernelRows
        In float64.
    """

    def __init__(self, kernel: Kernel, rows: KernelRows) -> None:
        self.kernel = kernel
        self.rows = rows
        self.n = rows.n
        # As sizes of terms whose rounding is the error of a value.
        one = rounding_of(1.0, self.n)
        error, self._relative = rows.error, 0.0
        if not np.isfinite(error):
            if kernel.definite and not _has_functions(kernel):
                # No value is known at all, but for what all values of the kernel are at most.
                error = 2.0 * float(rows.diagonal().max(initial=0.0))
            else:
                # Nobody knows what a user's function does; a unit in the last place is the least.
                error, self._relative = 0.0, float(np.finfo(np.float64).eps) / one
        self._error = error / one

    def take(self, rows: np.ndarray) -> KernelSpace:
        """Some of the rows alone."""
        return KernelSpace(self.kernel, self.rows.take(rows))

    def of_coefficients(self, *betas):
        """All of them by one computation of the columns that any of them has."""
        joint = np.column_stack(betas)
        support = np.flatnonzero(joint.any(axis=1))
        own, sizes = joint[support], np.abs(joint[support])
        scores, spread = np.zeros(joint.shape), np.zeros(joint.shape)
        step = max(1, _ROOM // (8 * max(1, len(support))))
        for first in range(0, self.n if len(support) else 0, step):
            some = slice(first, min(first + step, self.n))
            block = np.empty((some.stop - first, len(support)))
            self.rows.block(some, self.rows, support, block)
            scores[some] = block @ own
            np.abs(block, out=block)
            spread[some] = (1.0 + self._relative) * (block @ sizes)
            spread[some] += self._error * sizes.sum(axis=0)
        return [
            Point(float(b @ s), float(np.abs(b) @ z), s, z)
            for b, s, z in zip(betas, scores.T, spread.T, strict=True)
        ]
