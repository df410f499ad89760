"""What estimators of single rows share: one score per column of weights, and the intercept."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.checks import check_flag, check_number
from taut.data.arrays import Matrix
from taut.errors import InvalidData
from taut.estimators.base import Estimator, estimator
from taut.estimators.online import OnlineEstimator


@estimator
class RowScores(Estimator):
    """Scores <coef, x> + intercept, the intercept being the weight of a constant feature."""

    fit_intercept: bool = True
    intercept_scaling: float = 1.0

    _takes_sparse = True

    @property
    def _bias(self) -> float:
        """Value of the constant feature."""
        check_flag("fit_intercept", self.fit_intercept)
        if not self.fit_intercept:
            return 0.0
        check_number("intercept_scaling", self.intercept_scaling)
        if not 0.0 < self.intercept_scaling < np.inf:
            raise InvalidData(
                f"intercept_scaling = {self.intercept_scaling}: it must be positive and finite "
                "when fit_intercept is True"
            )
        return float(self.intercept_scaling)

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        """`coef_` and `intercept_` from w, which is (features and bias) x columns."""
        columns = coef_shape[0]
        W = w.reshape(-1, columns)
        if not self.fit_intercept:
            return {"coef_": W.T, "intercept_": np.zeros(columns)}
        return {"coef_": W[:-1].T, "intercept_": self.intercept_scaling * W[-1]}

    def _joint_weights(self) -> np.ndarray:
        """W of the fitted attributes."""
        W = np.atleast_2d(self.coef_).T
        if self.fit_intercept:
            W = np.vstack([W, self.intercept_ / self.intercept_scaling])
        return W.ravel()

    def _intercepts(self) -> np.ndarray:
        return self.intercept_

    def _scores(self, X: Any) -> np.ndarray:
        """Scores of all columns, of the type of X."""
        check_is_fitted(self)
        return self._form.scores(self, X)

    def _row_scores(self, matrix: Matrix) -> np.ndarray:
        """Scores of all columns of checked rows."""
        return self._form.row_scores(self, matrix)


@estimator
class LinearEstimator(OnlineEstimator, RowScores):
    """Such scores, from training to a certified gap."""
