"""What solvers and samplers ask of data bound to a structure, compiled or plain."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from taut.structures.abilities import ability
from taut.structures.base import Blocks, CompiledStructure, Operations

_MARGINS = ("encode", "argmax", "loss", "parts")  # what margins are made of


class CompiledAbilities:
    """The answers of a compiled structure."""

    structure: CompiledStructure
    blocks: Blocks
    operations: Any
    listed: Any

    @property
    def signed_losses(self) -> bool:
        """Whether losses may be below zero."""
        return self.structure.signed_losses

    @property
    def signed_rows(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Signs and losses of blocks of one row and one candidate."""
        known = self.structure.knows_of("signed_rows", *_MARGINS)
        return self.structure.signed_rows(self.blocks) if known else None

    def slack(self, potentials: np.ndarray) -> np.ndarray | None:
        """How far the potentials of each row may be off while its block has no hinge."""
        known = self.structure.knows_of("slack", *_MARGINS)
        return self.structure.slack(self.blocks, potentials) if known else None

    @property
    def draws_labels(self) -> bool:
        """Whether the structure chooses labels itself."""
        return self.operations.sample is not None

    @property
    def lists_labels(self) -> bool:
        """Whether the structure can enumerate its labels."""
        return self.structure.lists_labels and self.listed.most > 0

    @property
    def bounds_residuals(self) -> bool:
        """Whether labels can have residual margins for losses, one by one."""
        return self.lists_labels

    @property
    def n_listed(self) -> int:
        """How many labels a block has at most, and the truth, which may be none of them."""
        return 1 + self.listed.most

    @property
    def has_positions(self) -> bool:
        """Whether a label is one of some for each of its positions."""
        return self.blocks.n_labels > 0

    ranks_labels = has_positions  # the best of them can be found in order, without enumeration

    @property
    def n_ranked(self) -> int:
        """How many labels the longest block has."""
        return self.blocks.n_labels**self.blocks.label_size


def _has(method: str) -> property:
    """Whether a plain structure has a method that it may leave out."""
    return property(lambda data: ability(data.structure, method) is not None)


class PlainAbilities:
    """The answers of a plain structure, of which nothing is compiled."""

    structure: Any
    X: Any
    operations = Operations(*(None,) * len(Operations._fields))
    lifts = True  # inner products of psi take no room
    signed_rows = None
    bounds_residuals = False
    has_positions = False
    n_ranked = sys.maxsize
    draws_labels, lists_labels, ranks_labels = _has("sample"), _has("labels"), _has("m_best")

    @property
    def signed_losses(self) -> bool:
        """Whether losses may be below zero."""
        return ability(self.structure, "signed_losses")

    @property
    def n_listed(self) -> int:
        """How many labels an example has at most, and the truth, which may be none of them."""
        return 1 + max(len(list(self.structure.labels(x))) for x in self.X)
