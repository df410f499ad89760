"""What structures share whose candidates are a row of the data times a number."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.lanes import prefetch
from taut.compiled.rows import add_row, as_rows, n_rows, prefetch_rows, row_dot, squared_norms
from taut.data.arrays import as_matrix
from taut.spaces.scaling import act
from taut.spaces.touching import touch_rows
from taut.structures.base import Blocks, CompiledStructure


@helper
def subtract(data, i, scale, w):
    """W -= scale sign (x, bias)."""
    rows, points, bias = data
    scale *= -points[i, 0]
    add_row(rows, i, scale, w)
    if bias != 0.0:
        w[w.shape[0] - 1] += scale * bias


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
        n = n_rows(rows)
        signs, *others = self._targets(y, n)
        # A block's numbers side by side: visits come in random order.
        points = np.column_stack([signs, squared_norms(rows) + self.bias**2, *others])
        return Blocks(
            data=(rows, points, float(self.bias)),
            n_features=X.shape[1] + (self.bias != 0.0),
            offsets=np.arange(n + 1),
            truth=np.zeros(n, dtype=np.int32),
            dtype=X.dtype.type,
            mean_reads=rows[0].size // n,
        )

    def lengths(self, blocks):
        """|(x, bias)|; candidates are -1 and 1."""
        return np.sqrt(blocks.data[1][:, 1])

    @staticmethod
    def prefetch(data, i):
        """The block's numbers and its row."""
        prefetch(data[1], data[1].shape[1] * i)
        prefetch_rows(data[0], i, i + 1)

    @staticmethod
    def touch(data, i, action):
        """The row's features and the bias."""
        touch_rows(data[0], i, i + 1, 1, action)
        if data[2] != 0.0:
            act(action, action.v.shape[0] - 1, action.v.shape[0])

    @staticmethod
    def pull(data, i, w, work):
        """work[0] = <w, sign (x, bias)>."""
        rows, points, bias = data
        if bias != 0.0:
            work[0] = points[i, 0] * (row_dot(rows, i, w) + bias * w[w.shape[0] - 1])
        else:
            work[0] = points[i, 0] * row_dot(rows, i, w)

    @staticmethod
    def score(data, i, work, label):
        """-<w, psi>."""
        return -work[0] * label[0]

    @staticmethod
    def add_features(data, i, labels, scales, w):
        """W -= the sum of psi."""
        total = 0.0
        for q in range(scales.shape[0]):
            total += scales[q] * labels[q, 0]
        subtract(data, i, total, w)

    @staticmethod
    def inner(data, i, a, b):
        """|(x, bias)|^2 times both numbers."""
        return data[1][i, 1] * a[0] * b[0]
