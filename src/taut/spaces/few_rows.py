"""A few rows of the data: their inner products, and adding to points what they have for features.

Work on a few blocks of one row each needs no more of the space than that, however long w is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import take_rows
from taut.spaces.features import Features, RowFeatures
from taut.spaces.kernel import KernelFeatures


class FewRows(ABC):
    """Some rows, each the only one of its block."""

    @abstractmethod
    def gram(self) -> np.ndarray:
        """Their inner products with each other, in float64."""

    def factor(self) -> np.ndarray | None:
        """A matrix with these inner products of its rows, if it has few columns.

        The potentials of a row are then sooner computed than those of all rows brought up to date.
        """
        return None

    @abstractmethod
    def add(self, coefficients: np.ndarray, targets: list[tuple[np.ndarray, float]]) -> None:
        """Add sum_i x_i (outer) coefficients[i] to points, each time with a factor of its own."""


@singledispatch
def few_rows(features: Features, blocks: np.ndarray) -> FewRows | None:
    """The rows of some blocks; None where these are more than a row each, or something else."""
    return None


class _Linear(FewRows):
    def __init__(self, features: RowFeatures, blocks: np.ndarray) -> None:
        self._features = features
        rows = take_rows(features.rows, blocks)
        self._columns: Any = slice(0, features.n_rows - (features.bias != 0.0))
        self._rows: Any = rows[0].astype(np.float64, copy=False)
        if len(rows) == 3:
            # Only columns that occur: w may be a thousand times as long.
            _data, indices, indptr = rows
            self._columns, own = np.unique(indices, return_inverse=True)
            shape = len(blocks), len(self._columns)
            self._rows = sp.csr_array((self._rows, own.reshape(-1), indptr), shape=shape)

    def gram(self):
        """By products of rows, and of the constant feature."""
        products = self._rows @ self._rows.T
        if sp.issparse(products):
            products = products.toarray()
        return np.ascontiguousarray(products + self._features.bias**2, dtype=np.float64)

    def factor(self):
        """The rows, and their constant feature."""
        if sp.issparse(self._rows) or 4 * (self._rows.shape[1] + 1) >= len(self._rows):
            return None
        constant = np.full((len(self._rows), 1), self._features.bias)
        return np.hstack([self._rows, constant])

    def add(self, coefficients, targets):
        """In the columns of the rows, and of the constant feature."""
        features, columns = self._features, coefficients.shape[1]
        change = self._rows.T @ coefficients
        constant = features.bias * coefficients.sum(axis=0)
        for point, factor in targets:
            weights = point[: features.n_rows * features.stride].reshape(-1, features.stride)
            weights[self._columns, :columns] += factor * change
            if features.bias != 0.0:
                weights[-1, :columns] += factor * constant


class _Kernel(FewRows):
    def __init__(self, features: KernelFeatures, rows: np.ndarray) -> None:
        self._features, self._rows = features, rows

    def gram(self):
        """From the matrix of a working set."""
        members, matrix = self._features.matrix.hold(np.sort(self._rows))
        place = np.empty(self._features.n_rows, dtype=np.int64)
        place[members] = np.arange(len(members))
        own = place[self._rows]
        return matrix[np.ix_(own, own)].astype(np.float64)

    def add(self, coefficients, targets):
        """By rows of the matrix."""
        for point, factor in targets:
            known = self._features.shares(point)[1][:, self._rows]
            self._features.set_coefficients(self._rows, known + factor * coefficients.T, point)


@few_rows.register
def _(features: RowFeatures, blocks: np.ndarray) -> FewRows | None:
    alone = features.places is None and features.tail[0] == 0
    return _Linear(features, blocks) if alone else None


@few_rows.register
def _(features: KernelFeatures, blocks: np.ndarray) -> FewRows | None:
    places = features.places[blocks]
    alone = features.tail[0] == 0 and bool((places[:, 1] - places[:, 0] == 1).all())
    return _Kernel(features, places[:, 0]) if alone else None
