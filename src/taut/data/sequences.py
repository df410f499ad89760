"""Sequences of rows that are stacked in one matrix."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.errors import InvalidData


class Sequences(Sequence[Any]):
    """A list of matrices, one for each sequence, that lie in one matrix.

    What takes a list of matrices takes this, without a look at each.

    Parameters
    ----------
    matrix : ndarray or CSR of shape (n_rows, n_features)
        The rows of all sequences.
    offsets : array of int, shape (n_sequences + 1,)
        Where each sequence begins, and the last one ends.

    Examples
    --------
    >>> stacked = Sequences(np.arange(6.0).reshape(3, 2), [0, 2, 3])
    >>> len(stacked), stacked[1]
    (2, array([[4., 5.]]))
    >>> len(stacked[:1])
    1
    """

    def __init__(self, matrix: Any, offsets: Any) -> None:
        self.matrix = matrix
        self.offsets = np.asarray(offsets, dtype=np.int64)
        ends = self.offsets
        if (
            len(ends) < 2
            or ends[0] != 0
            or ends[-1] != matrix.shape[0]
            or (np.diff(ends) < 1).any()
        ):
            raise InvalidData(
                f"offsets do not rise from 0 to the {matrix.shape[0]} rows of the matrix: give "
                "where each sequence begins, and the end of the last one"
            )

    @property
    def lengths(self) -> np.ndarray:
        """How many rows each sequence has."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        kind = "sparse" if sp.issparse(self.matrix) else "dense"
        rows, columns = self.matrix.shape
        return f"<{len(self)} sequences of {rows} {kind} rows with {columns} features>"

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            which = np.arange(len(self))[place]
            if len(which) == 0:
                return []
            rows = [np.arange(*self.offsets[i : i + 2]) for i in which.tolist()]
            ends = np.concatenate([[0], np.cumsum(self.lengths[which])])
            return Sequences(self.matrix[np.concatenate(rows)], ends)
        i = range(len(self))[place]
        return self.matrix[self.offsets[i] : self.offsets[i + 1]]

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))


def unstacked(items: Any, lengths: Any = None) -> Any:
    """Items that lie one behind the other as a list of sequences; without `lengths` as they are.

    Examples
    --------
    >>> unstacked(["the", "cat", "sat"], [2, 1])
    [['the', 'cat'], ['sat']]
    """
    if lengths is None:
        return items
    ends = np.cumsum(lengths).tolist()
    if not ends or ends[-1] != len(items) or min(lengths) < 1:
        raise InvalidData(
            f"lengths sum to {ends[-1] if ends else 0}, X has {len(items)} items: give the number "
            "of items of each sequence, at least 1"
        )
    return [items[end - n : end] for end, n in zip(ends, lengths)]
