"""Labels that do not come from the argmax which is held against them.

An argmax that never returns some label is right among those that it does return, and no answer of
its own says otherwise. The truths of other blocks may: where one of them beats the argmax of a
block, either the argmax is wrong, or that truth is no label of this block. A structure that lists
its labels tells which, and so does an argmax that returns the label where weights favour it.
Otherwise nobody but the user knows, and all that is certified is the objective over the labels that
the argmax returns: a `Doubt` says so.
"""

from __future__ import annotations

import reprlib
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

CLOSELY, CLOSELY_SHARE = 16, 16  # blocks that are looked at more closely in the end: one in 16
MOST_DOUBTS = 2  # labels of which it is found out whether the argmax returns them
_FAVOUR = 1e3  # by how much more than the losses differ, a label is to be the best


class Doubt(NamedTuple):
    """A label that beats the argmax of a block, and may or may not be a label of it."""

    name: str
    block: int
    label: str
    excess: float

    @classmethod
    def of(cls, structure: Any, block: int, label: Any, excess: float) -> Doubt:
        """About a structure."""
        return cls(type(structure).__name__, block, reprlib.repr(label), excess)

    def __str__(self) -> str:
        return (
            f"{self.name}.argmax never returns {self.label} for example {self.block}, where its "
            f"score + loss would be {self.excess:.3g} above that of what it returns. If that is a "
            "label of this example, argmax is wrong, and the objective higher; list the labels of "
            "an example to have that tested"
        )


class Findings(NamedTuple):
    """What an audit at the end of a fit leaves of the upper bound.

    The shortfall is by how much sum_i C_i hinge_i is too low where an argmax errs by so little that
    it may work in single precision: that of the audited blocks, taken as that of all.
    """

    doubt: Doubt | None = None
    shortfall: float = 0.0

    @classmethod
    def of(cls, doubt: Doubt | None, short: dict[int, float], weight: np.ndarray) -> Findings:
        """From how far the argmax of each audited block falls short of labels that it has."""
        audited = list(short)
        some = float(weight[audited].sum())
        excess = float(weight[audited] @ np.array(list(short.values())))
        return cls(doubt, excess * (float(weight.sum()) / some) if some > 0.0 else 0.0)


def worse(a: Doubt | None, b: Doubt | None) -> Doubt | None:
    """The doubt of larger excess."""
    return max((d for d in (a, b) if d is not None), key=lambda d: d.excess, default=None)


def alike(truth: Any, label: Any) -> bool:
    """Whether a label is another than a truth, and of its kind and size."""
    if truth is label:
        return False
    if isinstance(truth, Number) and isinstance(label, Number):
        return truth != label
    if type(truth) is not type(label):
        return False
    if isinstance(truth, np.ndarray):
        return truth.shape == label.shape and not np.array_equal(truth, label)
    return not isinstance(truth, list | tuple) or len(truth) == len(label)


def favouring(phi: np.ndarray, other: np.ndarray, loss: float) -> np.ndarray:
    """Weights under which features phi score far above others, whatever the losses."""
    towards = phi - other
    return _FAVOUR * (1.0 + loss) / max(float(towards @ towards), 1e-300) * towards
