"""Sums, products and multiples of kernels."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from taut.checks import check_positive
from taut.data.arrays import Matrix
from taut.kernels.base import Kernel, KernelRows


def _unit(dtype: np.dtype) -> float:
    """The largest relative error of a rounded number."""
    return 0.5 * float(np.finfo(dtype).eps)


class _CombinedRows(KernelRows):
    """Rows as each of several kernels reads them."""

    def __init__(self, combined: _Combined, each: list[KernelRows]) -> None:
        self.combined = combined
        self.each = each
        self.n = each[0].n
        self.dtype = each[0].dtype

    def block(self, own, other, others, out):
        """One after the other, by a second block."""
        assert isinstance(other, _CombinedRows)
        self.each[0].block(own, other.each[0], others, out)
        second = np.empty_like(out)
        for mine, theirs in zip(self.each[1:], other.each[1:], strict=True):
            mine.block(own, theirs, others, second)
            self.combined.join(out, second, out=out)

    def diagonal(self):
        """Joined in the same way."""
        out = self.each[0].diagonal()
        for rows in self.each[1:]:
            out = self.combined.join(out, rows.diagonal())
        return out

    def take(self, rows):
        """Of each."""
        return _CombinedRows(self.combined, [each.take(rows) for each in self.each])

    def astype(self, dtype):
        """Of each."""
        return _CombinedRows(self.combined, [each.astype(dtype) for each in self.each])

    @property
    def cheap(self):
        """Where all are."""
        return all(each.cheap for each in self.each)

    @property
    def largest(self):
        """What the join makes of the largest of all."""
        return float(functools.reduce(self.combined.join, (each.largest for each in self.each)))

    @property
    def error(self):
        """What the join makes of the errors of all, and the rounding of what is joined."""
        with np.errstate(over="ignore", invalid="ignore"):
            errors = [each.error for each in self.each]
            if not np.isfinite(errors).all():
                return float("inf")
            # The true values may be as far beyond the computed ones as these are off.
            largest = np.array([each.largest for each in self.each]) + errors
            joined, error = largest[0], np.float64(errors[0])
            for more, own in zip(largest[1:], errors[1:], strict=True):
                error = self.combined.join_errors(joined, error, more, own)
                joined = self.combined.join(joined, more)
                error += _unit(self.dtype) * (joined + error)
        return float("inf") if np.isnan(error) else float(error)

    @property
    def nbytes(self):
        """Of all."""
        return sum(each.nbytes for each in self.each)


class _Combined(Kernel):
    """Several kernels of the same rows."""

    join: Any
    join_maps: Any
    join_errors: Any  # of values up to a and b, which are off by d and e: a, d, b, e

    def __init__(self, *kernels: Kernel) -> None:
        # What is already of this kind is not nested.
        same = [k.kernels if type(k) is type(self) else (k,) for k in kernels]
        self.kernels: tuple[Kernel, ...] = tuple(kernel for group in same for kernel in group)

    @property
    def definite(self) -> bool | None:
        """Where all are."""
        return True if all(kernel.definite for kernel in self.kernels) else None

    @property
    def finite(self):
        """Where all are."""
        return all(kernel.finite for kernel in self.kernels)

    def finite_map(self, x):
        """Of the maps of all."""
        return functools.reduce(self.join_maps, (k.finite_map(x) for k in self.kernels))

    def resolved(self, X: Matrix) -> Kernel:
        """Each."""
        return type(self)(*(kernel.resolved(X) for kernel in self.kernels))

    def check_rows(self, X, like=None):
        """By each."""
        own = like.each if isinstance(like, _CombinedRows) else [None] * len(self.kernels)
        for kernel, rows in zip(self.kernels, own, strict=True):
            kernel.check_rows(X, rows)

    @property
    def of_matrix(self) -> bool:
        """Where it is for all: then no rows are kept."""
        return all(kernel.of_matrix for kernel in self.kernels)

    def kept(self, vectors, numbers, dtype):
        """For each."""
        each = [kernel.kept(vectors, numbers, dtype) for kernel in self.kernels]
        return _CombinedRows(self, each)

    @classmethod
    def of_settings(cls, settings):
        """From the kernels."""
        return cls(*settings["kernels"])

    def prepared(self, X, dtype, like=None):
        """For each."""
        own = like.each if isinstance(like, _CombinedRows) else [None] * len(self.kernels)
        pairs = zip(self.kernels, own, strict=True)
        return _CombinedRows(self, [kernel.prepared(X, dtype, rows) for kernel, rows in pairs])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.kernels))})"


class Sum(_Combined):
    """k(x, z) = k_1(x, z) + k_2(x, z) + ..., written ``k_1 + k_2``.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Linear, Sum
    >>> Sum(Linear(), Linear())(np.array([[3.0]]))
    array([[18.]])
    """

    join = staticmethod(np.add)
    join_maps = staticmethod(lambda one, other: np.concatenate([one, other]))
    join_errors = staticmethod(lambda a, d, b, e: d + e)


class Product(_Combined):
    """k(x, z) = k_1(x, z) k_2(x, z) ..., written ``k_1 * k_2``.

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Linear, Product
    >>> Product(Linear(), Linear())(np.array([[3.0]]))
    array([[81.]])
    """

    join = staticmethod(np.multiply)
    join_maps = staticmethod(np.kron)
    join_errors = staticmethod(lambda a, d, b, e: a * e + b * d + d * e)


class _MultipleRows(KernelRows):
    """Rows of a kernel, and the factor."""

    def __init__(self, kernel: Multiple, rows: KernelRows) -> None:
        self.kernel = kernel
        self.rows = rows
        self.factor = kernel.factor
        self.n = rows.n
        self.dtype = rows.dtype

    def block(self, own, other, others, out):
        """Times the factor."""
        assert isinstance(other, _MultipleRows)
        self.rows.block(own, other.rows, others, out)
        out *= out.dtype.type(self.factor)

    def diagonal(self):
        """Times the factor."""
        return self.factor * self.rows.diagonal()

    def take(self, rows):
        """With the same factor."""
        return _MultipleRows(self.kernel, self.rows.take(rows))

    def astype(self, dtype):
        """With the same factor."""
        return _MultipleRows(self.kernel, self.rows.astype(dtype))

    @property
    def cheap(self):
        """As the rows."""
        return self.rows.cheap

    @property
    def largest(self):
        """Times the factor."""
        return self.factor * self.rows.largest

    @property
    def error(self):
        """Times the factor, which is rounded, too, as the products are."""
        with np.errstate(over="ignore", invalid="ignore"):
            error = np.float64(self.rows.error)
            if not np.isfinite(error):
                return float("inf")
            largest = self.rows.largest
            if not np.isfinite(largest):  # of powers, whose errors are several units of their size
                return float(2.0 * self.factor * error)
            return float(self.factor * (error + 3.0 * _unit(self.dtype) * (largest + error)))

    @property
    def nbytes(self):
        """Of the rows."""
        return self.rows.nbytes


class Multiple(Kernel):
    """A positive number times a kernel, written ``2.0 * kernel``.

    Parameters
    ----------
    kernel : Kernel
    factor : float

    Examples
    --------
    >>> import numpy as np
    >>> from taut.kernels import Linear
    >>> (2.0 * Linear())(np.array([[3.0]]))
    array([[18.]])
    """

    def __init__(self, kernel: Kernel, factor: float) -> None:
        self.kernel = kernel
        self.factor = check_positive("the factor of a kernel", factor)

    @property
    def definite(self) -> bool | None:
        """As the kernel."""
        return self.kernel.definite

    @property
    def finite(self):
        """As the kernel."""
        return self.kernel.finite

    def finite_map(self, x):
        """Times the root of the factor."""
        return np.sqrt(self.factor) * self.kernel.finite_map(x)

    def resolved(self, X: Matrix) -> Kernel:
        """Of the kernel."""
        return Multiple(self.kernel.resolved(X), self.factor)

    def check_rows(self, X, like=None):
        """By the kernel."""
        self.kernel.check_rows(X, like.rows if isinstance(like, _MultipleRows) else None)

    @property
    def of_matrix(self) -> bool:
        """As the kernel."""
        return self.kernel.of_matrix

    def kept(self, vectors, numbers, dtype):
        """For the kernel."""
        return _MultipleRows(self, self.kernel.kept(vectors, numbers, dtype))

    def prepared(self, X, dtype, like=None):
        """For the kernel."""
        own = like.rows if isinstance(like, _MultipleRows) else None
        return _MultipleRows(self, self.kernel.prepared(X, dtype, own))
