"""A structure whose losses are residual margins: what a fixed w leaves of them, label by label.

Given w, the residual margin of a label is

    rho_i(y) = min(loss_i(y) - <w, psi_i(y)>, max_y loss_i(y)),   and at least 0, if that is wanted,

and the problem in u with these losses asks u for what w lacks, but not for more than the losses
were. Its argmax does not decompose, hence the enumeration.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.label_rows import Listed, listed_labels, same
from taut.spaces.labels import Gather
from taut.structures._listed_laws import labels_of
from taut.structures.base import Blocks, CompiledStructure, Oracles


class ResidualData(NamedTuple):
    """What the oracles read: the data of the structure, all labels, and the losses of each."""

    inside: tuple
    listed: Listed
    losses: np.ndarray  # of shape (n_blocks, most labels)


class Residual(CompiledStructure):
    """A structure with a table of losses in the place of its own.

    Parameters
    ----------
    structure : CompiledStructure
        One that lists its labels.
    """

    signed_losses = True

    def __init__(self, structure: CompiledStructure) -> None:
        self.structure = structure
        self.allocates = structure.allocates  # type: ignore[misc]
        if not structure.lists_labels:
            raise structure.has_no_list()

    @property
    def oracles(self) -> Oracles:
        """The oracles, built around those of the structure."""
        return _tabulated(self.structure.oracles, self.structure.allocates)

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """The blocks of the structure, with losses of 0."""
        blocks = self.structure.encode(X, y)
        most = labels_of(self.structure, blocks).most
        return self.with_losses(blocks, np.zeros((blocks.n_blocks, most)))

    def with_losses(self, blocks, losses):
        """Blocks of the structure itself, whose labels get these losses."""
        data = ResidualData(blocks.data, labels_of(self.structure, blocks), losses)
        return dataclasses.replace(blocks, data=data, n_labels=0, mean_offsets=None)

    def listed(self, blocks: Blocks) -> Listed:
        """All labels of the structure."""
        return blocks.data.listed  # type: ignore[attr-defined]

    def decode(self, labels: np.ndarray, offsets: np.ndarray) -> Any:
        """Labels of the structure."""
        return self.structure.decode(labels, offsets)


def bounded(
    structure: CompiledStructure, blocks: Blocks, losses: np.ndarray
) -> tuple[CompiledStructure, Blocks]:
    """Blocks with other losses, and the structure that they are blocks of."""
    own = structure.with_losses(blocks, losses)
    if own is not None:
        return structure, own
    tabulated = Residual(structure)
    return tabulated, tabulated.with_losses(blocks, losses)


@functools.cache
def _tabulated(oracles: Oracles, allocates: bool) -> Oracles:
    """Oracles with losses from the table; cached, because kernels are found by them."""
    inside: Any = Oracles._make(oracle and helper(oracle, allocates) for oracle in oracles)
    own_prefetch, own_parts = inside.prefetch, inside.parts

    def prefetch(data, i):
        own_prefetch(data.inside, i)

    def loss(data, i, label):
        labels = listed_labels(data.listed, i)
        for k in range(labels.shape[0]):
            if same(labels[k], label):
                return data.losses[i, k]
        return 0.0

    def parts(data, i, label, each):
        return own_parts(data.inside, i, label, each)

    def argmax(data, i, work, loss_weight, label):
        """The best of all labels by score and loss."""
        labels = listed_labels(data.listed, i)
        best = 0
        highest = -np.inf
        for k in range(labels.shape[0]):
            score = own_parts(data.inside, i, labels[k], Gather(work))
            value = score + loss_weight * data.losses[i, k]
            if value > highest:
                best = k
                highest = value
        for t in range(label.shape[0]):
            label[t] = labels[best, t]
        return highest

    return Oracles(argmax, loss, parts, prefetch)
