"""What a plain structure has answered so far, against which its later answers are held.

Bounds rest on laws that only the user's code can keep. Each test here costs a small part of the
call that it watches, and finds what a spot check before training cannot: laws that are broken on
some blocks, or at some weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.errors import InvalidStructure
from taut.structures._examples import PRECISION

_AUDITED = 8  # blocks of which other labels are tried in an audit, or one in _SHARE
_SHARE = 64
_LISTED = 32  # labels of each, where they are listed


def audited(n_blocks: int, rng: np.random.Generator, least: int = _AUDITED) -> np.ndarray:
    """Some blocks, other ones each time."""
    return rng.permutation(n_blocks)[: max(least, n_blocks // _SHARE)]


class Witness:
    """The memory of one structure bound to some blocks.

    Parameters
    ----------
    structure : Structure
    n_blocks, n_features : int
    """

    def __init__(self, structure: Any, n_blocks: int, n_features: int) -> None:
        self.name = type(structure).__name__
        self.labels = getattr(structure, "labels", None)
        self.rng = np.random.default_rng(0)
        self._probe = self.rng.normal(size=n_features)
        self._marks = np.full(n_blocks, np.nan)  # of the features of truths, at the first call
        self.lengths = np.zeros(n_blocks)
        self._costliest: dict[int, tuple[float, Any]] = {}

    def is_new(self, i: int) -> bool:
        """Whether the features of block i's truth have not been seen."""
        return bool(np.isnan(self._marks[i]))

    def see_truth(self, i: int, features: np.ndarray, loss: float) -> None:
        """Take the features of a truth, and its loss, at the first call."""
        if loss > PRECISION:
            raise InvalidStructure(
                f"{self.name}.loss of example {i} is {loss:g} for the truth itself: return 0 there"
            )
        self._marks[i], self.lengths[i] = features @ self._probe, np.linalg.norm(features)

    def see_truth_again(self, i: int, features: np.ndarray) -> None:
        """Compare the features of a truth with those of the first call."""
        change = abs(features @ self._probe - self._marks[i])
        if change > PRECISION * (1.0 + self.lengths[i]):
            raise InvalidStructure(
                f"{self.name}.features of example {i} and its truth are not those of an earlier "
                "call: return the same for the same input, without chance or state, and leave the "
                "example as it is"
            )

    def see_label(self, i: int, label: Any, loss: float) -> None:
        """Remember the costliest label: an argmax that forgets the loss falls below it."""
        if loss > self._costliest.get(i, (0.0, None))[0]:
            self._costliest[i] = loss, label

    def rivals(self, i: int) -> list[Any]:
        """Labels of block i that an argmax must not fall below."""
        return [self._costliest[i][1]] if i in self._costliest else []

    def listed(self, x: Any) -> list[Any]:
        """Some labels that the structure lists for an example, if it does."""
        labels = [] if self.labels is None else list(self.labels(x))
        return [labels[k] for k in self.rng.permutation(len(labels))[:_LISTED].tolist()]

    def check_best(self, i: int, value: float, size: float, rival: float) -> None:
        """Refuse an argmax whose value, of terms of this summed size, is below a known one."""
        if value + PRECISION * (1.0 + size + abs(rival)) < rival:
            raise InvalidStructure(
                f"{self.name}.argmax of example {i} returns a label whose score + loss is "
                f"{rival - value:.3g} below that of another one: return the label of highest "
                "score + loss, with the loss when a truth is given; taut.check_structure tests it"
            )
