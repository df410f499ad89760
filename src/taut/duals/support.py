"""What a fit keeps of its dual variables: the blocks that have any, and on which labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from taut.storage.stored import Stored, check, require

_LARGEST = 2**48  # number of blocks that a file may name
_ROUNDING = 1e-9  # relative, by which dual variables may exceed a block's weight


class LabelsInUse(NamedTuple):
    """Labels that have dual weight, beside the truths, one after the other.

    Attributes
    ----------
    block : ndarray of int64
        The block of each, in rising order.
    coef : ndarray of float64
        The dual variable of each, > 0.
    offsets : ndarray of int64
        Where the numbers of each begin in `labels`, and at last where they end.
    labels : ndarray of int32
    """

    block: np.ndarray
    coef: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True, eq=False, repr=False)
class DualSupport:
    """Blocks with dual weight on labels other than their truths.

    Attributes
    ----------
    n_blocks : int
        Of the training data.
    blocks : ndarray of int64
        Those with weight, in rising order.
    share : ndarray of float64
        How much of its C_i each has in use, between 0 and 1.
    in_use : LabelsInUse or None
        On which labels; None where the dual variables are not kept label by label.

    Examples
    --------
    >>> from taut import BinarySVM
    >>> BinarySVM(random_state=0).fit([[-9.0], [-0.5], [0.5], [9.0]], [0, 0, 1, 1]).dual_support_
    DualSupport: 2 of 4 blocks have dual weight, 2 of them all they may have
    """

    n_blocks: int
    blocks: np.ndarray
    share: np.ndarray
    in_use: LabelsInUse | None

    @classmethod
    def of(cls, used: np.ndarray, weight: np.ndarray, in_use: LabelsInUse | None) -> Self:
        """From how much of the blocks' weights is in use."""
        blocks = np.flatnonzero(used > 0.0)
        return cls(len(weight), blocks, np.minimum(used[blocks] / weight[blocks], 1.0), in_use)

    @property
    def influence(self) -> np.ndarray:
        """The share of every block, 0 where it has no dual weight."""
        out = np.zeros(self.n_blocks)
        out[self.blocks] = self.share
        return out

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DualSupport):
            return NotImplemented
        own, others = self.arrays(), other.arrays()
        same = self.n_blocks == other.n_blocks and own.keys() == others.keys()
        return same and all(np.array_equal(own[name], others[name]) for name in own)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        whole = int((self.share > 1.0 - _ROUNDING).sum())
        return (
            f"DualSupport: {len(self.blocks)} of {self.n_blocks} blocks have dual weight, "
            f"{whole} of them all they may have"
        )

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays by name."""
        labels = {} if self.in_use is None else self.in_use._asdict()
        return {"blocks": self.blocks, "share": self.share} | labels

    @classmethod
    def of_arrays(cls, n_blocks: int, arrays: Mapping[str, np.ndarray]) -> Self:
        """The inverse of `arrays`; refuses what no fit can have kept."""
        require(isinstance(n_blocks, int) and 0 < n_blocks < _LARGEST, "no number of blocks")
        m = len(arrays["blocks"])
        expected = {
            "blocks": Stored("i8", (m,), 0, n_blocks - 1),
            "share": Stored("f8", (m,), 0.0, 1.0),
        }
        check(arrays, expected)
        require((np.diff(arrays["blocks"]) > 0).all(), "blocks with dual weight do not rise")
        in_use = None
        if "coef" in arrays:
            in_use = LabelsInUse(*(arrays[name] for name in LabelsInUse._fields))
            p, size = len(in_use.coef), len(in_use.labels)
            expected = {
                "block": Stored("i8", (p,), 0, n_blocks - 1),
                "coef": Stored("f8", (p,), 0.0),
                "offsets": Stored("i8", (p + 1,), 0, size),
                "labels": Stored("i4", (size,), 0),
            }
            check(in_use._asdict(), expected)
            known = np.isin(in_use.block, arrays["blocks"]).all()
            require(known and (np.diff(in_use.block) >= 0).all(), "labels of other blocks")
            ends = in_use.offsets[0] == 0 and in_use.offsets[-1] == size
            require(ends and (np.diff(in_use.offsets) > 0).all(), "labels in use do not follow")
        return cls(n_blocks, arrays["blocks"], arrays["share"], in_use)
