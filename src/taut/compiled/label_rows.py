"""Labels as rows of integers: comparing and copying them in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from taut.compiled.jit import helper, view


class Listed(NamedTuple):
    """All labels of each block: those of block i begin at row starts[step * i].

    Where all blocks have the same labels, step is 0.
    """

    rows: np.ndarray
    starts: np.ndarray
    step: int

    @classmethod
    def same(cls, labels: np.ndarray) -> Listed:
        """The same for all blocks."""
        rows = np.ascontiguousarray(labels, dtype=np.int32)
        return cls(rows, np.array([0, len(rows)]), 0)

    @classmethod
    def of_blocks(cls, labels: Sequence[np.ndarray]) -> Listed:
        """Those of each block, rows of one size."""
        rows = np.ascontiguousarray(np.vstack(labels), dtype=np.int32)
        return cls(rows, np.append(0, np.cumsum([len(own) for own in labels])), 1)

    @property
    def most(self) -> int:
        """How many a block has at most."""
        return int(np.diff(self.starts).max())

    def own(self, i: int) -> np.ndarray:
        """Those of block i."""
        start, stop = self.starts[self.step * i], self.starts[self.step * i + 1]
        return self.rows[start:stop]


@view
def listed_labels(listed, i):
    """The labels of block i, in compiled code."""
    start, stop = listed.starts[listed.step * i], listed.starts[listed.step * i + 1]
    return listed.rows[start:stop]


@helper
def same(a, b):
    """Whether two labels of one block are equal."""
    t = 0
    while t < a.shape[0] and a[t] == b[t]:
        t += 1
    return t == a.shape[0]


@helper
def is_among(labels, count, label):
    """Whether a label is one of the first `count` rows."""
    q = 0
    while q < count and not same(labels[q], label):
        q += 1
    return q < count


@helper
def copy(label, out):
    """Write a label into another row."""
    for t in range(out.shape[0]):
        out[t] = label[t]
