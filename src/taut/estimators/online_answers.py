"""What an `OnlineSVM` answers: classes of rows, or what its structure says of examples."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from taut.data.labels import as_labels, share_right
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import estimator
from taut.estimators.beginning import check_columns_of_rows, check_structure_known
from taut.estimators.course import check_structure, in_form
from taut.estimators.linear import RowScores
from taut.estimators.online import Answers, PartByPart, takes_sources
from taut.estimators.tables import takes_tables


@estimator
class OnlineAnswers(ClassifierMixin, PartByPart, RowScores):
    """Answers of weights that have columns for classes, or are those of a structure."""

    structure: Any = field(default=None, kw_only=False)

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        return {"coef_": w} if coef_shape is None else super()._attributes(w, coef_shape)

    def _joint_weights(self) -> np.ndarray:
        return self.coef_ if self.structure is not None else super()._joint_weights()

    _position_weights = _joint_weights

    def _tail_attributes(self, tail: np.ndarray, columns: int) -> dict[str, np.ndarray]:
        return {} if self.structure is None else {"tail_": tail}

    def _tail(self) -> np.ndarray:
        return np.empty(0) if self.structure is None else self.tail_

    @takes_sources
    def decision_function(self, X: Any) -> np.ndarray:
        """Signed scores, positive for `classes_[1]`, of two classes; else a score for each."""
        self._need_rows("decision_function")
        check_is_fitted(self)
        check_structure_known(self)
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    @takes_sources
    def predict(self, X: Any) -> Any:
        """The class of each row, or what the structure says of each example."""
        check_is_fitted(self)
        if self.structure is not None:
            data, w = self._bound(X)
            return data.predict(w, self._threads())
        scores = self.decision_function(X)
        best = scores > 0.0 if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[np.asarray(best, dtype=np.intp)]

    @takes_tables
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of rows whose class is right; with a structure, minus the mean loss.

        A source has targets and weights of its own.
        """
        check_is_fitted(self)
        if self.structure is not None:
            self._need(y)
            data, w = self._bound(X, y)
            losses = data.prediction_losses(w)
            weight = check_sample_weight(sample_weight, len(losses), unit="example")
            return -float(np.average(losses, weights=weight))
        return share_right(*self._answers(X, y, sample_weight)[:3])

    def _answer(self, X: Any, y: Any, sample_weight: Any, **layout: Any) -> Answers:
        predicted = self.predict(X)
        weight = check_sample_weight(sample_weight, len(predicted))
        return Answers.of_blocks(predicted, as_labels(y, len(predicted)), weight)

    def _bound(self, X: Any, y: Any = None) -> tuple[Any, np.ndarray]:
        """New data bound to the structure, and the weights to predict them with."""
        check_structure(self.structure)
        check_structure_known(self)
        X, y = in_form(self.structure, X, y)
        data, w = self._form.bound(self, self.structure, X, y)
        check_columns_of_rows(self, data)
        fits = len(w) == data.n_features
        if fits and hasattr(self, "dual_coef_"):
            fits = data.blocks.features.columns == len(self.dual_coef_)
        if not fits:
            raise InvalidData(
                f"{type(self.structure).__name__} has other weights for these data than the model "
                "has learned: give structure= as it was when the model was fitted, and X with the "
                "same features"
            )
        return data, w

    def _error(self, X: Any, y: Any = None) -> float:
        """Share of rows whose class is wrong; with a structure, the mean loss."""
        return (1.0 if self.structure is None else 0.0) - self.score(X, y)

    def _need_rows(self, method: str) -> None:
        if self.structure is not None:
            raise InvalidData(f"{method} is of classes of rows, and a structure was given")
