"""What a sampler is, and the one that finds the argmax alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from taut.binding import CompiledData, Data, PythonData
from taut.errors import MissingOracle
from taut.structures.abilities import bounded_argmax
from taut.structures.base import Oracles


class Sampler(ABC):
    """A way to choose labels, for compiled structures and for plain ones.

    Compiled code around it makes no arrays: it gets `room` from `room`, and calls

        count = sample(data, i, work, loss_weight, seed, room, found, values)

    after `pull`, which writes labels into the rows of `found`, the argmax of score +
    loss_weight * loss first, their score + loss_weight * loss into `values`, and returns how many
    there are: at least 1, at most len(values). Rows are as long as the labels of block i. No label
    is written twice. `seed`, an int64 >= 0, is another one in each visit. The scores in `work` stay
    as they are.

    Solvers get theirs from `as_sampler`.
    """

    name: ClassVar[str]

    def suited(self, data: Data) -> Sampler:
        """The form of this sampler for data bound to a structure: itself, unless said otherwise.

        Raises
        ------
        MissingOracle
            The structure does not have what the sampler needs.
        """
        return self

    def n_labels(self, data: Data, wanted: int) -> int:
        """How many labels there are at most, for data bound to a structure, if `wanted` are."""
        return wanted

    def room(self, data: CompiledData, count: int, dtype: Any) -> tuple:
        """What `sample` of one thread works in, for up to `count` labels and w of this type.

        It belongs to these data: blocks are known by their number. Nothing unless said otherwise.
        """
        return ()

    @property
    @abstractmethod
    def make(self) -> Callable[[Oracles], Callable]:
        """What builds `sample` around the oracles; equal samplers have the same one."""

    @abstractmethod
    def labels(
        self, data: PythonData, i: int, w: np.ndarray, count: int, rng: np.random.Generator
    ) -> tuple[list[Any], float]:
        """The same for a plain structure: labels, and by how much the first may miss the best.

        w are the user's weights.
        """


def _argmax_alone(operations):
    argmax = operations.argmax

    def sample(data, i, work, loss_weight, seed, room, found, values):
        values[0] = argmax(data, i, work, loss_weight, found[0])
        return 1

    return sample


class Argmax(Sampler):
    """The argmax alone."""

    name = "argmax"
    make = staticmethod(_argmax_alone)

    def n_labels(self, data, wanted):
        """One."""
        return 1

    def labels(self, data, i, w, count, rng):
        """The argmax of the structure."""
        label, error = bounded_argmax(data.structure, data.X[i], w, data.truth[i])
        return [label], error


ARGMAX = Argmax()


def missing(sampler: Sampler, data: Data, needs: dict[type, str], instead: str) -> MissingOracle:
    """The error of a sampler that needs something of a structure, compiled or plain."""
    structure = type(data.structure).__name__
    needed = next(words for kind, words in needs.items() if isinstance(data, kind))
    return MissingOracle(
        f'sampler="{sampler.name}" needs {needed}, which {structure} does not have: '
        f"write it, or use {instead}"
    )


#: What samplers look for, in the words of an error.
ALL_LABELS = {
    CompiledData: "all_labels, an int32 array with a label per row",
    PythonData: "a method labels(x) that returns all labels of an example",
}
BEST_LABELS = {
    CompiledData: "the scores of single labels at positions, Blocks.n_labels and label_stride",
    PythonData: "a method m_best(x, w, truth, count) that returns the best labels in order",
}
EITHER = {
    CompiledData: "all_labels, or Blocks.n_labels and label_stride",
    PythonData: "a method labels(x), or m_best(x, w, truth, count)",
}
OWN_SAMPLE = {
    CompiledData: "sample(data, i, work, loss_weight, seed, found)",
    PythonData: "a method sample(x, w, truth, count) that returns labels",
}
