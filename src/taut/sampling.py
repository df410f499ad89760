"""Which labels of a block a visit works on: the argmax, and others beside it.

A sampler chooses, at some w, up to a given number of labels of a block, the loss-augmented argmax
first. Labels of high violation that are little correlated are worth most: they are what the block's
dual can gain from (Branson, Beijbom and Belongie, section 3.1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from taut.structures.base import Oracles, bounded_argmax


class Sampler(ABC):
    """A way to choose labels, for compiled structures and for plain ones.

    Compiled code around it makes no arrays: it gets `room` from `room`, and calls

        count = sample(data, i, w, work, loss_weight, seed, room, found, values)

    after `prepare`, which writes labels into the rows of `found`, the argmax of score +
    loss_weight * loss first, their score + loss_weight * loss into `values`, and returns how many
    there are: at least 1, at most len(values). No label is written twice. `seed` is another number
    in each visit. The scores in `work` stay as they are.
    """

    name: ClassVar[str]

    @abstractmethod
    def n_labels(self, data: Any, wanted: int) -> int:
        """How many labels there are at most, for data bound to a structure, if `wanted` are."""

    @abstractmethod
    def room(self, data: Any, count: int, dtype: Any) -> tuple:
        """What `sample` of one thread works in, for up to `count` labels and w of this type."""

    @property
    @abstractmethod
    def make(self) -> Callable[[Oracles], Callable]:
        """What builds `sample` around the oracles; equal samplers have the same one."""

    @abstractmethod
    def labels(
        self, data: Any, i: int, w: np.ndarray, count: int, rng: np.random.Generator
    ) -> tuple[list[Any], float]:
        """The same for a plain structure: labels, and by how much the first may miss the best.

        w are the user's weights.
        """


def _argmax_alone(oracles):
    argmax = oracles.argmax

    def sample(data, i, w, work, loss_weight, seed, room, found, values):
        values[0] = argmax(data, i, w, work, loss_weight, found[0])
        return 1

    return sample


class Argmax(Sampler):
    """The argmax alone."""

    name = "argmax"
    make = staticmethod(_argmax_alone)

    def n_labels(self, data, wanted):
        """One."""
        return 1

    def room(self, data, count, dtype):
        """None."""
        return ()

    def labels(self, data, i, w, count, rng):
        """The argmax of the structure."""
        label, error = bounded_argmax(data.structure, data.X[i], w, data.truth[i])
        return [label], error


ARGMAX = Argmax()
