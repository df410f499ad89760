"""Labels that a structure chooses itself, or a function of the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taut.compiled.jit import around, helper
from taut.sampling._planes import led_by_argmax
from taut.sampling.base import OWN_SAMPLE, Sampler, missing
from taut.spaces.labels import score_of


def _with_values(operations, draw):
    """A sample around a function that writes labels alone."""
    score, loss = score_of(operations), operations.loss

    def sample(data, i, work, loss_weight, seed, room, found, values):
        count = draw(data, i, work, loss_weight, seed, found)
        for q in range(count):
            values[q] = score(data, i, work, found[q]) + loss_weight * loss(data, i, found[q])
        return count

    return sample


def _drawn_by_structure(operations):
    return _with_values(operations, operations.sample)


class Own(Sampler):
    """What the structure's own `sample` chooses."""

    name = "own"
    make = staticmethod(_drawn_by_structure)

    def suited(self, data):
        """Itself, where there is such a method."""
        if not data.draws_labels:
            raise missing(self, data, OWN_SAMPLE, 'sampler="auto" or your own function')
        return self

    def labels(self, data, i, w, count, rng):
        """What the method returns, up to the number wanted."""
        labels = list(data.structure.sample(data.X[i], w, data.truth[i], count))
        return led_by_argmax(data, i, w, labels, count, "sample")


@dataclass(frozen=True)
class Given(Sampler):
    """What a function chooses: the argmax first, and no label twice.

    Parameters
    ----------
    function : callable
        For a compiled structure `function(data, i, work, loss_weight, seed, found)`, as `sample`
        of `taut.CompiledStructure`; Numba compiles it. For a plain one
        `function(structure, x, w, truth, count)`, which returns a list of labels.
    allocates : bool, default=True
        Whether a compiled function makes arrays. If not, say so: calls then cost less.
    """

    function: Callable[..., Any]
    allocates: bool = True

    name = "given"

    @property
    def make(self):
        """Around the function."""
        # Numba's own compiled functions are compiled again, with the options of kernels.
        own = getattr(self.function, "py_func", self.function)
        return around(_with_values, helper(own, self.allocates))

    def labels(self, data, i, w, count, rng):
        """What the function returns, up to the number wanted."""
        labels = list(self.function(data.structure, data.X[i], w, data.truth[i], count))
        name = getattr(self.function, "__name__", "the sampler's function")
        return led_by_argmax(data, i, w, labels, count, name)
