"""Validation data: what they must be, errors on them after each pass, and when to stop by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.data.arrays import as_matrix
from taut.data.labels import as_labels
from taut.data.targets import number_labels
from taut.errors import InvalidData
from taut.estimators.learning_curve import LearningCurve


def check_validation(validation: Any, facts: dict[str, Any]) -> None:
    """Refuse data that a model could not be scored on, before it is trained.

    `facts` are what is known of the columns and classes of rows; nothing of other data.
    """
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InvalidData(
            f"validation is of type {type(validation).__name__}: give a pair, (X, y), of data to "
            "score the model on"
        )
    X, y = validation
    if y is None:
        raise InvalidData("validation has no targets: give a pair, (X, y)")
    if "classes_" not in facts:
        return
    matrix = as_matrix(X, name="X of validation")
    width = facts.get("n_features_in_", matrix.shape[1])
    if matrix.shape[1] != width:
        raise InvalidData(
            f"X of validation has {matrix.shape[1]} features, and X has {width}: give the same "
            "columns"
        )
    labels = as_labels(y, matrix.shape[0], name="y of validation")
    number_labels(labels, facts["classes_"], name="y of validation")


class Checks:
    """Errors on validation data after each pass, and the best model if one stops by them."""

    def __init__(self, validation: Any, patience: int | None) -> None:
        self.validation, self.patience = validation, patience
        self._found: list[tuple[int, float]] = []
        self._best: dict[str, Any] | None = None

    def stop(self, model: Any) -> bool:
        """Look at a model; whether passes have not helped for long enough."""
        if self.validation is None:
            return False
        error = model._error(*self.validation)
        errors = [known for _seen, known in self._found]
        self._found.append((model.n_seen_, error))
        if self.patience is None:
            return False
        if error < min(errors, default=np.inf):
            self._best = model._fitted()
        errors.append(error)
        return len(errors) - 1 - int(np.argmin(errors)) >= self.patience

    def fitted(self, model: Any) -> dict[str, Any]:
        """The attributes of the best model, or of the last one, with all errors in the curve.

        The curve has the steps of this model, and no later ones.
        """
        fitted = self._best or model._fitted()
        curve: LearningCurve = fitted["learning_curve_"]
        for seen, error in self._found:
            curve = curve.validated(seen, error)
        return fitted | {"learning_curve_": curve}
