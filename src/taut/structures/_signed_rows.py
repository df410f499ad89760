"""What structures share whose candidates are a row of the data times a number."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from taut.compiled.lanes import prefetch
from taut.compiled.rows import as_rows
from taut.data.arrays import as_matrix
from taut.spaces.features import RowFeatures
from taut.spaces.parts import part
from taut.structures.base import Blocks, CompiledStructure


class SignedRows(CompiledStructure):
    """Blocks of one row each: phi(x, label) = -label sign (x, bias), and label 0 is the truth.

    The candidates, `all_labels`, are numbers other than 0, so psi = label sign (x, bias).
    """

    allocates = False
    takes_checked = True

    def __init__(self, bias: float = 0.0) -> None:
        self.bias = bias

    @abstractmethod
    def _targets(self, y: Any, n: int) -> tuple[np.ndarray, ...]:
        """The sign of each of n rows, and further numbers that its losses are made of."""

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Rows X with one number y each."""
        X = as_matrix(X)
        rows = as_rows(X, dense_above=0.2)
        n = X.shape[0]
        signs, *others = self._targets(y, n)
        # A block's numbers side by side: visits come in random order.
        points = np.column_stack([signs, *others])
        return Blocks(
            data=(points,), features=RowFeatures(X, rows, bias=self.bias), offsets=np.arange(n + 1),
            truth=np.zeros(n, dtype=np.int32),
        )  # fmt: skip

    def take(self, blocks, which):
        """Rows and their numbers."""
        return replace(
            blocks, data=(blocks.data[0][which],), features=blocks.features.compacted(which),
            offsets=np.arange(len(which) + 1), truth=blocks.truth[which],
        )  # fmt: skip

    def lengths(self, blocks):
        """|(x, bias)|; candidates are -1 and 1."""
        return np.sqrt(blocks.features.norms)

    @staticmethod
    def prefetch(data, i):
        """The block's numbers."""
        prefetch(data[0], data[0].shape[1] * i)

    @staticmethod
    def parts(data, i, label, each):
        """The row, against its sign for a candidate of 1."""
        return part(each, 0, -data[0][i, 0] * label[0])
