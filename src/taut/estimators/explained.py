"""Estimators that explain answers, find wrong labels and bound their leave-one-out error."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError

from taut.data.arrays import Matrix, offsets_of
from taut.data.sequences import Sequences
from taut.data.source import Source
from taut.duals.support import DualSupport, LabelsInUse
from taut.errors import InvalidData
from taut.estimators.base import StructuralEstimator
from taut.estimators.forms import KERNEL
from taut.estimators.tables import spread
from taut.explanations.classes import TrainedClasses
from taut.explanations.rows import KernelledRows, LinearRows, Rows
from taut.explanations.sequences import TrainedSequences
from taut.readers.tables import Table
from taut.spaces.regularizer import Prior

_ROUNDING = 1e-9  # relative, of sums of dual variables
_SAME = 1e-6  # relative difference of objectives of the same model and data


class NoDuals(InvalidData, AttributeError):
    """A model has no dual variables; scikit-learn asks by hasattr whether it has."""


class Explained(StructuralEstimator):
    """What models with dual variables tell about their training examples."""

    dual_support_: DualSupport
    classes_: np.ndarray

    _keeps_support = True

    @property
    def influence_(self) -> np.ndarray:
        """How much of its weight C_i each training example has in use, between 0 and 1.

        Examples without influence could be left out, and the model would stay as it is.
        """
        return self._support("influence_").influence

    def _support(self, what: str) -> DualSupport:
        """The dual variables of the fit."""
        if not hasattr(self, "certificate_"):
            raise NotFittedError(f"{type(self).__name__} has no {what} before it is fitted")
        if "dual_support_" not in vars(self):
            raise NoDuals(
                f"this {type(self).__name__} has no {what}: that needs the dual variables of each "
                "training example. Call fit with data in memory and a solver that keeps them, such "
                "as 'dual_coordinate'; partial_fit, data read part by part, compress and points "
                "between two of a path leave none"
            )
        return self.dual_support_

    def _in_use(self, what: str, n: int) -> LabelsInUse:
        """The labels with dual weight, for training data of n examples."""
        support = self._support(what)
        in_use = support.in_use
        if in_use is None:
            raise NoDuals(
                f"this {type(self).__name__} has no {what}: its solver keeps sums of dual "
                "variables only, not one for each label; use solver='dual_coordinate'"
            )
        if support.n_blocks != n:
            raise InvalidData(
                f"the training data have {n} examples, and the model was fitted to "
                f"{support.n_blocks}: give the data that fit was given"
            )
        if in_use.labels.max(initial=0) >= len(self.classes_):
            raise InvalidData(
                f"the model has dual variables of {in_use.labels.max() + 1} classes, and "
                f"{len(self.classes_)} classes: give a model as fit left it"
            )
        return in_use

    def _known_prior(self) -> Prior | None:
        """The prior of a linear model."""
        if self._form is KERNEL:
            return None
        shape = self._coef_shape()
        return self._regularizer(shape).check(len(self._joint_weights()))

    def _plain_mean(self, what: str) -> np.ndarray | None:
        """The prior mean, where the regulariser is otherwise 1/2 |w - mean|^2."""
        prior = self._known_prior()
        if prior is not None and not prior.trivial:
            raise InvalidData(
                f"{what} is for models without prior_precision and nonneg, in whose metric "
                "training examples are compared otherwise: leave both out"
            )
        return None if prior is None else prior.mean

    def _rows(self, matrix: Matrix, bias: float) -> Rows:
        """Training rows as the model compares them."""
        if self._form is KERNEL:
            return KernelledRows(self.kernel_, matrix, bias**2)
        return LinearRows(matrix, bias**2)

    def _check_trained(self, trained: TrainedClasses | TrainedSequences) -> None:
        """Refuse other data than those of the fit: nothing would be true of the model."""
        used = np.bincount(trained.in_use.block, trained.in_use.coef, len(trained.weight))
        beyond = used > trained.weight * (1.0 + _ROUNDING)
        if beyond.any():
            i = int(np.argmax(beyond))
            raise InvalidData(
                f"the dual variables of example {i} sum to {used[i]:g}, more than its weight "
                f"C_i = {trained.weight[i]:g}: give the weights that fit was given, and a model as "
                "fit left it, with the same C"
            )
        stated = self.certificate_.primal
        found = trained.penalty + float(trained.weight @ trained.slacks)
        if not abs(found - stated) <= _SAME * max(stated, self.certificate_.penalty):
            raise InvalidData(
                f"the objective of the model is {found:g} on these data, and its certificate says "
                f"{stated:g}: give X, y and weights that fit was given, and a model as fit left it"
            )

    def _refuse_rounded(self, what: str) -> None:
        """Refuse what is proved by the weights that the certificate is about."""
        if hasattr(self, "certificate_") and self.certificate_.is_of_rounded:
            raise InvalidData(
                f"{what} is proved by the weights that the fit ended with, and these were rounded "
                "when the model was saved: call it before save(path, dtype='float32'), or fit again"
            )

    @abstractmethod
    def _trained(self, what: str, X: Any, y: Any, fit_params: dict[str, Any]) -> Any:
        """The training data as the model sees them."""

    def _checked(self, what: str, X: Any, y: Any, fit_params: dict[str, Any]) -> Any:
        self._support(what)
        if isinstance(X, Source):
            raise InvalidData(f"{what} needs training data in memory: give X and y as arrays")
        self._need(y)
        trained = self._trained(what, X, y, fit_params)
        self._check_trained(trained)
        return trained


def both(model: Any, training: Any) -> tuple[Any, Any]:
    """X and y of training data."""
    if isinstance(training, Table):
        rows, brought = spread(model, training, ["y", "lengths"])
        lengths = brought.get("lengths")
        return rows if lengths is None else Sequences(rows, offsets_of(lengths)), brought["y"]
    if not isinstance(training, tuple | list) or len(training) != 2:
        raise InvalidData(
            "training must be a pair (X, y), or what taut.read returned: give what fit was given"
        )
    return training[0], training[1]


def refuse_others(what: str, fit_params: dict[str, Any]) -> None:
    """Refuse what fit does not take."""
    if fit_params:
        raise InvalidData(f"{what} does not take {sorted(fit_params)[0]!r}: leave it out")
