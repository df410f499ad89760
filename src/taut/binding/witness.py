"""What a plain structure has answered so far, against which its later answers are held.

Bounds rest on laws that only the user's code can keep. Each test here costs a small part of the
call that it watches, and finds what a spot check before training cannot: laws that are broken on
some blocks, or at some weights.
"""

from __future__ import annotations

import copy
from typing import Any, NoReturn

import numpy as np

from taut.binding.other_labels import alike
from taut.errors import InvalidStructure
from taut.structures._examples import PRECISION, same
from taut.structures.abilities import ability

_AUDITED = 2  # blocks of which other labels are tried whenever P is evaluated, at least
_COMPARED = 64  # blocks of which the costliest label is tried then, or one in four
_LISTED = 32  # labels of each audited block, where they are listed
_RETURNED = 8  # labels to remember of each block
_KNOWN = 64  # labels to remember, of whatever block
_STRANGERS = 8  # of which a block is held against some


def audited(
    n_blocks: int, rng: np.random.Generator, least: int = _AUDITED, share: int = 64
) -> np.ndarray:
    """Some blocks, other ones each time: one in `share`, and not less than some."""
    return rng.permutation(n_blocks)[: max(least, n_blocks // share)]


def _has_hash(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


class Witness:
    """The memory of one structure bound to some blocks."""

    def __init__(self, structure: Any, n_blocks: int, n_features: int) -> None:
        self.name = type(structure).__name__
        self.labels = ability(structure, "labels")
        self.rng = np.random.default_rng(0)
        self._probe = self.rng.normal(size=n_features)
        # Of the features of truths, at the first call
        self._marks: list[float | None] = [None] * n_blocks
        self.lengths = np.zeros(n_blocks)
        self._costliest: dict[int, tuple[float, Any]] = {}
        self._returned: dict[int, dict[Any, None]] = {}
        self._known: dict[Any, None] = {}
        self._hashable = True

    def is_new(self, i: int) -> bool:
        """Whether the features of block i's truth have not been seen."""
        return self._marks[i] is None

    def see_truth(self, i: int, features: np.ndarray, loss: float, length: float) -> None:
        """Take the features of a truth, its loss, and their length, at the first call."""
        if loss > PRECISION:
            raise InvalidStructure(
                f"{self.name}.loss of example {i} is {loss:g} for the truth itself: return 0 there"
            )
        self._marks[i], self.lengths[i] = float(features @ self._probe), length

    def see_truth_again(self, i: int, features: np.ndarray) -> None:
        """Compare the features of a truth with those of the first call."""
        change = abs(float(features @ self._probe) - (self._marks[i] or 0.0))
        if change > PRECISION and change > PRECISION * (1.0 + self.lengths[i]):
            raise InvalidStructure(
                f"{self.name}.features of example {i} and its truth are not those of an earlier "
                "call: return the same for the same input, without chance or state, and leave the "
                "example as it is"
            )

    def see_label(self, i: int, label: Any, loss: float) -> None:
        """Remember a label that surely is one of block i, and whether it is the costliest.

        An argmax that forgets the loss falls below that.
        """
        if loss > self._costliest.get(i, (0.0, None))[0]:
            # A structure may fill and return one list or array in all calls.
            self._costliest[i] = loss, label if _has_hash(label) else copy.deepcopy(label)
        if self._hashable:
            self.know(label, self._returned.setdefault(i, {}))

    def know(self, label: Any, own: dict[Any, None] | None = None) -> None:
        """Remember a label, of whatever block, and of one block; none that has no hash."""
        try:
            if len(self._known) < _KNOWN:
                self._known[label] = None
            if own is not None and len(own) < _RETURNED:
                own[label] = None
        except TypeError:
            self._hashable = False

    def rivals(self, i: int) -> list[Any]:
        """The costliest label of block i, if it had any: an argmax must not fall below it."""
        return [self._costliest[i][1]] if i in self._costliest else []

    def returned(self, i: int) -> list[Any]:
        """Labels of block i that are remembered."""
        return [*self.rivals(i), *self._returned.get(i, ())]

    def compared(self, n_blocks: int) -> np.ndarray:
        """Which blocks are held against these when P is evaluated, others each time."""
        chosen = np.zeros(n_blocks, dtype=bool)
        chosen[audited(n_blocks, self.rng, _COMPARED, 4)] = True
        return chosen

    def listed(self, x: Any) -> list[Any]:
        """Some labels that the structure lists for an example, if it does."""
        labels = [] if self.labels is None else list(self.labels(x))
        return [labels[k] for k in self.rng.permutation(len(labels))[:_LISTED].tolist()]

    def lists(self, x: Any, label: Any) -> bool:
        """Whether the structure lists a label for an example."""
        return self.labels is not None and any(same(label, other) for other in self.labels(x))

    def others(self, truths: Any) -> list[Any]:
        """Labels that some block has or was given, each once as far as that is fast to tell."""
        if self._hashable:
            try:
                distinct = list(dict.fromkeys([*truths, *self._known]))
                return [distinct[k] for k in self.rng.permutation(len(distinct))[:_KNOWN].tolist()]
            except TypeError:
                self._hashable = False
        return [truths[k] for k in self.rng.permutation(len(truths))[:_KNOWN].tolist()]

    def strangers(self, truth: Any, others: list[Any]) -> list[Any]:
        """Some labels that are like a truth in kind and may be labels of its example."""
        like = [label for label in others if alike(truth, label)]
        return [like[k] for k in self.rng.permutation(len(like))[:_STRANGERS].tolist()]

    def check_best(
        self, i: int, value: float, size: float, rival: float, label: str = "another one"
    ) -> None:
        """Refuse an argmax whose value, of terms of this summed size, is below a label's."""
        if self.beats(value, size, rival):
            self.refuse(i, rival - value, label)

    def refuse(self, i: int, excess: float, label: str) -> NoReturn:
        """Refuse the argmax of block i, which a label exceeds by so much."""
        raise InvalidStructure(
            f"{self.name}.argmax of example {i} returns a label whose score + loss is "
            f"{excess:.3g} below that of {label}: return the label of highest "
            "score + loss, with the loss when a truth is given; taut.check_structure tests it"
        )

    @staticmethod
    def beats(value: float, size: float, rival: float) -> bool:
        """Whether a value, of terms of some summed size, is surely below another."""
        return value + PRECISION * (1.0 + size + abs(rival)) < rival
