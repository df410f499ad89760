"""What steps of an online estimator found, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np

from taut.solvers import DescentStep
from taut.storage.stored import require

_MOST = 4096  # points, beyond which every other one goes


@dataclass(frozen=True)
class LearningCurve:
    """Arrays of one length: a point for each step, of which older ones may have gone.

    Beyond 4096 points every second one goes, counted back from the newest, which stays. So of long
    runs older points are further apart.

    Attributes
    ----------
    seen : ndarray
        Examples in all steps so far.
    with_loss : ndarray
        The share of the step's examples with a violation, by weight, before the step.
    hinge : ndarray
        The mean largest violation of the step's examples, times weights, before the step.
    residual : ndarray
        The same of residual margins, as the step's problem had them.
    square : ndarray
        |u|^2 of what the step added.
    gap : ndarray
        The duality gap of the step's own problem, see `taut.solvers.functional_descent`.
    evaluations : ndarray
        Values of the kernel so far, 0 without one.
    n_support : ndarray
        Support rows after the step, 0 without a kernel.
    validation_seen, validation_error : ndarray
        How many examples had been seen, and the error on the validation data then: the share of
        wrong classes, or the mean loss of a structure.
    """

    seen: np.ndarray = field(default_factory=lambda: np.empty(0))
    with_loss: np.ndarray = field(default_factory=lambda: np.empty(0))
    hinge: np.ndarray = field(default_factory=lambda: np.empty(0))
    residual: np.ndarray = field(default_factory=lambda: np.empty(0))
    square: np.ndarray = field(default_factory=lambda: np.empty(0))
    gap: np.ndarray = field(default_factory=lambda: np.empty(0))
    evaluations: np.ndarray = field(default_factory=lambda: np.empty(0))
    n_support: np.ndarray = field(default_factory=lambda: np.empty(0))
    validation_seen: np.ndarray = field(default_factory=lambda: np.empty(0))
    validation_error: np.ndarray = field(default_factory=lambda: np.empty(0))

    def extended(self, steps: Sequence[DescentStep]) -> Self:
        """With what further steps found."""
        arrays = {
            name: np.append(getattr(self, name), [float(getattr(step, name)) for step in steps])
            for name in _OF_STEPS
        }
        while len(arrays["seen"]) > _MOST:
            arrays = {name: values[::-2][::-1] for name, values in arrays.items()}
        return replace(self, **arrays)

    def validated(self, seen: int, error: float) -> Self:
        """With the error on the validation data after so many examples."""
        return replace(
            self, validation_seen=np.append(self.validation_seen, float(seen)),
            validation_error=np.append(self.validation_error, error),
        )  # fmt: skip

    def to_dict(self) -> dict[str, Any]:
        """All arrays as lists."""
        return {item.name: getattr(self, item.name).tolist() for item in fields(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; refuses what it cannot have made."""
        names = [item.name for item in fields(cls)]
        require(isinstance(values, dict) and sorted(values) == sorted(names), "no learning curve")
        arrays = {name: np.asarray(given, dtype=np.float64) for name, given in values.items()}
        for group in (_OF_STEPS, _OF_VALIDATION):
            shapes = {arrays[name].shape for name in group}
            require(len(shapes) == 1 and len(shapes.pop()) == 1, "a curve of several lengths")
        require(all(np.isfinite(a).all() for a in arrays.values()), "a curve that is not finite")
        return cls(**arrays)


_OF_VALIDATION = ("validation_seen", "validation_error")
_OF_STEPS = tuple(item.name for item in fields(LearningCurve) if item.name not in _OF_VALIDATION)
