"""Blocks of which a cache has the dual variables, and not the features."""

from __future__ import annotations

import numpy as np

from taut.engines.naming import Arrays
from taut.engines.part import Part

_OBJECT = 150  # bytes of an array without its items, and of a reference to it


def resting_size(where: np.ndarray, duals: Arrays) -> int:
    """Bytes of the dual variables of blocks that rest, and of where in their chunk they are."""
    return sum(array.nbytes + _OBJECT for array in (where, *duals.values())) + _OBJECT


class Resting:
    """Dual variables of blocks that rest, by chunk, and what they add up to."""

    def __init__(self) -> None:
        # By number of the chunk: positions of the blocks in it, and their dual variables.
        self.groups: dict[int, list[tuple[np.ndarray, Arrays]]] = {}
        self.vector: np.ndarray | None = None  # their sum a psi, while there are any
        self.loss = 0.0  # their sum a loss

    @property
    def n_blocks(self) -> int:
        """How many rest."""
        return sum(len(where) for found in self.groups.values() for where, _ in found)

    @property
    def nbytes(self) -> int:
        """Memory of their dual variables; the sum is counted among the vectors."""
        return sum(resting_size(*group) for found in self.groups.values() for group in found)

    def add(self, part: Part, size: int) -> None:
        """Add what a part has to the sums, of w's size."""
        if self.vector is None:
            self.vector = np.zeros(size)
        self.loss += part.sum_up(self.vector)

    def subtract(self, part: Part) -> None:
        """Take what a part has out of the sums."""
        assert self.vector is not None
        self.loss -= part.subtract(self.vector)

    def put(self, number: int, where: np.ndarray, duals: Arrays) -> None:
        """Let the blocks at some positions of a chunk rest; the sums are somebody else's."""
        self.groups.setdefault(number, []).append((where, duals))

    def wake(self, number: int, part: Part) -> None:
        """Give the blocks of a chunk that rested their dual variables back."""
        found = self.groups.pop(number, [])
        for where, arrays in found:
            part.put(where, arrays)
        if found:
            self.subtract(part)
            if not self.groups:  # nor what rounding left of their sums
                self.vector, self.loss = None, 0.0
