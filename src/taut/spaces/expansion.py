"""w = sum_r A_r b_r over a few training rows, and the potentials of new rows under it."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.compiled.lanes import aligned_zeros
from taut.data.arrays import Matrix
from taut.errors import InvalidData
from taut.kernels import Kernel, KernelRows
from taut.kernels.base import EVERY
from taut.spaces.features import Features, RowFeatures, counted
from taut.spaces.given_rows import given_rows, rows_alone
from taut.spaces.kernel import FUNCTIONS, KernelFeatures, KernelView

_ROOM = 16_000_000  # bytes of kernel values that a thread has at a time
_LEAST = 16  # rows that are compared with the others at a time


class KernelPoint(NamedTuple):
    """A point of a kernel's space by what is not zero in it.

    Attributes
    ----------
    support : ndarray of int64
        Rows that have coefficients, in rising order.
    vectors : ndarray, CSR matrix or None
        These rows; None where X is the matrix of the kernel.
    coefficients : ndarray of shape (n_support, columns)
    intercept : ndarray of shape (columns,)
        What each row gets by the bias b: b^2 times the summed coefficients.
    tail : ndarray
        The weights that all blocks share.
    classes : ndarray of int64 or None
        The class of each support row, where rows have one.
    """

    support: np.ndarray
    vectors: Any
    coefficients: np.ndarray
    intercept: np.ndarray
    tail: np.ndarray
    classes: np.ndarray | None = None

    @classmethod
    def of(
        cls,
        features: KernelFeatures,
        w: np.ndarray,
        classes: np.ndarray | None = None,
        order: np.ndarray | None = None,
        numbers: np.ndarray | None = None,
    ) -> KernelPoint:
        """From the coefficients of all rows and the tail; no coefficient but 0 is dropped.

        Other rows than those with coefficients are kept where `order` says which, and in which
        order; `numbers` are what these rows are called then.
        """
        rows, tail = np.split(w, [features.n_rows * features.columns])
        b = rows.reshape(features.n_rows, features.columns)
        kept = np.flatnonzero(b.any(axis=1)) if order is None else order
        vectors = None if features.kernel.of_matrix else features.X[kept]
        return cls(
            kept if numbers is None else numbers, vectors, b[kept],
            features.constant * b.sum(axis=0), tail.copy(),
            None if classes is None else classes[kept],
        )  # fmt: skip

    def spread(self, n_rows: int) -> np.ndarray:
        """The inverse of `of`, for as many rows."""
        b = np.zeros((n_rows, self.coefficients.shape[1]))
        b[self.support] = self.coefficients
        return np.concatenate([b.ravel(), self.tail])

    def mixed(self, other: KernelPoint, share: float) -> KernelPoint:
        """The point between this one and another of the same rows."""
        numbers = np.concatenate([self.support, other.support])
        support, first, place = np.unique(numbers, return_index=True, return_inverse=True)
        b = np.zeros((len(support), self.coefficients.shape[1]))
        both = [(1.0 - share) * self.coefficients, share * other.coefficients]
        np.add.at(b, place, np.concatenate(both))
        vectors: Any = None
        if sp.issparse(self.vectors):
            vectors = sp.vstack([self.vectors, other.vectors], format="csr")[first]
        elif self.vectors is not None:
            vectors = np.vstack([self.vectors, other.vectors])[first]
        intercept, tail = (
            (1.0 - share) * mine + share * theirs
            for mine, theirs in ((self.intercept, other.intercept), (self.tail, other.tail))
        )
        classes = self.classes
        if classes is not None:
            classes = np.concatenate([classes, np.asarray(other.classes)])[first]
        return KernelPoint(support, vectors, b, intercept, tail, classes)


class KernelExpansion:
    """Scores of new rows: sum_r k(x, x_r) b_r + intercept.

    Parameters
    ----------
    kernel : Kernel
        Resolved.
    point : KernelPoint
    """

    def __init__(self, kernel: Kernel, point: KernelPoint) -> None:
        self.kernel = kernel
        self.point = point
        self._prepared: dict[np.dtype, KernelRows] = {}

    def with_tail(self, tail: np.ndarray) -> KernelExpansion:
        """The same rows with another tail."""
        other = copy.copy(self)
        other.point = self.point._replace(tail=tail)
        return other

    def _kept(self, dtype: np.dtype) -> KernelRows:
        """The support rows in one precision, made once."""
        if dtype not in self._prepared:
            support, vectors = self.point.support, self.point.vectors
            self._prepared[dtype] = self.kernel.kept(vectors, support, dtype)
        return self._prepared[dtype]

    def scores(self, X: Matrix, n_jobs: int = 1) -> np.ndarray:
        """Scores of checked rows in each column, (n_rows, columns), in the precision of X.

        Some rows at a time, so that memory stays small, and several of these at once.
        """
        b, intercept = (
            values.astype(X.dtype) for values in (self.point.coefficients, self.point.intercept)
        )
        n, n_support = X.shape[0], len(self.point.support)
        out = np.empty((n, b.shape[1]), dtype=X.dtype)
        out[:] = intercept
        if n_support == 0:
            return out
        rows = self._kept(X.dtype)
        vectors = self.point.vectors
        if vectors is not None and X.shape[1] != vectors.shape[1]:
            raise InvalidData(
                f"X has {X.shape[1]} columns, and the model was fitted to rows of "
                f"{vectors.shape[1]}: give the columns that fit saw"
            )
        self.kernel.check_rows(X, rows)
        height = max(_ROOM // (n_support * X.dtype.itemsize), _LEAST)
        if n_jobs > 1:
            height = min(height, -(-n // n_jobs))

        def add(first: int) -> None:
            own = slice(first, min(first + height, n))
            new = self.kernel.prepared(X[own], X.dtype, rows)
            block = np.empty((new.n, n_support), dtype=X.dtype)
            new.block(EVERY, rows, EVERY, block)
            out[own] += block @ b

        starts = range(0, n, height)
        if n_jobs == 1 or len(starts) == 1:
            for first in starts:
                add(first)
        else:
            with ThreadPoolExecutor(n_jobs) as pool:
                list(pool.map(add, starts))
        return out

    def values(self, X: Matrix) -> np.ndarray:
        """The kernel of a few checked rows with each support row, (n_rows, n_support)."""
        rows = self._kept(X.dtype)
        self.kernel.check_rows(X, rows)
        new = self.kernel.prepared(X, X.dtype, rows)
        block = np.empty((new.n, len(self.point.support)), dtype=X.dtype)
        new.block(EVERY, rows, EVERY, block)
        return block

    def scored(self, n_jobs: int = 1) -> Any:
        """What turns linear features of new data into `ScoredRows`, for `taut.binding.bind`."""

        def features(linear: Features) -> ScoredRows:
            own = rows_alone(linear)
            return ScoredRows(own, self.scores(given_rows(own), n_jobs))

        return features


class ScoredRows(Features):
    """Rows whose potentials are known: what is left of a point is the tail.

    Parameters
    ----------
    linear : RowFeatures
        The rows as a structure lays them out.
    scores : ndarray of shape (n_rows, columns)
        Their potentials.
    """

    def __init__(self, linear: RowFeatures, scores: np.ndarray) -> None:
        n, self._linear = len(scores), linear
        self.dtype, self.columns, self.stride = linear.dtype, linear.columns, linear.stride
        self.tail_stride = linear.tail_stride
        self._scores = scores.T.ravel()
        places = linear.places
        if places is None:
            places = np.column_stack([np.arange(n), np.arange(1, n + 1)])
        tail = linear.size - linear.n_rows * linear.stride
        self._tail_at = self.columns * n
        self.n_features = linear.tail[0] * linear.tail[1]
        self.size = self._tail_at + tail
        self.reads = self.stride
        self.n_potentials = int((places[:, 1] - places[:, 0]).max()) * self.stride + tail
        self._view = KernelView(
            np.empty((n, 0), dtype=np.float32), np.empty(0), counted(places), self.columns,
            self.stride, self._tail_at, tail,
        )  # fmt: skip

    def view(self, data):
        """Which rows are whose, without a matrix."""
        return self._view

    def functions(self, structure):
        """Those of a kernel's space, of which `pull` alone is of use."""
        return FUNCTIONS

    def take(self, blocks):
        """Nothing is trained here."""
        raise InvalidData("rows that are scored by a fitted model cannot be trained on: fit anew")

    def pad(self, w):
        """Potentials and the tail."""
        padded = aligned_zeros(self.size, w.dtype)
        padded[: self._tail_at] = self._scores
        given, place = self._linear.tail_shares(w, padded[self._tail_at :])
        place[:] = given
        return padded

    def unpad(self, w):
        """The tail alone."""
        out = np.empty(self.n_features)
        place, given = self._linear.tail_shares(out, w[self._tail_at :])
        place[:] = given
        return out
