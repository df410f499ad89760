"""Regression."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score

from taut.checks import check_number
from taut.data.arrays import Checked, Matrix, as_matrix
from taut.data.source import Source
from taut.data.targets import as_real_targets
from taut.data.weights import check_sample_weight
from taut.estimators.base import columns_of, estimator
from taut.estimators.linear import LinearEstimator
from taut.estimators.online import Answers, Plan, real_targets, takes_sources
from taut.estimators.tables import takes_tables
from taut.structures import Regression


@estimator
class RegressionSVM(RegressorMixin, LinearEstimator):
    """Linear regression with the epsilon-insensitive loss.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max(0, |y_i - <w, (x_i, bias)>| - epsilon), the
    intercept being regularised like the rest.

    Parameters
    ----------
    {training}
    epsilon : float, default=0.0
        Errors up to this size cost nothing. In units of y.
    {intercept}

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : ndarray of shape (1,)
    {fitted}

    Examples
    --------
    >>> from taut import RegressionSVM
    >>> model = RegressionSVM(C=100.0, tol=1e-6, random_state=0)
    >>> model = model.fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> model.predict([[3.0]]).round(2)
    array([7.])
    """

    epsilon: float = 0.0

    @takes_tables
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit rows X to numbers y.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features), or Source
            A source, such as `taut.data.open_shards(path)`, has targets of its own.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors on C.
        """
        if isinstance(X, Source):
            return self._fit_source(X, y=y, sample_weight=sample_weight)
        matrix, targets, weight = self._blocks(X, y, sample_weight)
        columns, shape = columns_of(X, matrix), (1, matrix.shape[1])
        fitted = self._train(self._structure(), Checked(matrix), targets, weight, shape, columns)
        return self._keep(fitted)

    def _structure(self) -> Regression:
        check_number("epsilon", self.epsilon)
        return Regression(float(self.epsilon), self._bias)

    def _plan(self, source: Source) -> Plan:
        n = source.n_features or 0
        return Plan(self._structure(), real_targets(source), (1, n), {"n_features_in_": n})

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        attributes = super()._attributes(w, coef_shape)
        return attributes | {"coef_": attributes["coef_"][0]}

    def _blocks(self, X: Any, y: Any, sample_weight: Any) -> tuple[Matrix, np.ndarray, np.ndarray]:
        """Checked rows, targets and weights."""
        matrix = as_matrix(X)
        self._need(y)
        targets = as_real_targets(y, matrix.shape[0])
        return matrix, targets, check_sample_weight(sample_weight, len(targets))

    @takes_tables
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R^2, the share of the variance of y that is explained.

        A source has targets and weights of its own.
        """
        predicted, truth, weight, _ = self._answers(X, y, sample_weight)
        return float(r2_score(truth, predicted, sample_weight=weight))

    def _answer(self, X: Any, y: Any, sample_weight: Any, **layout: Any) -> Answers:
        predicted = self.predict(X)
        weight = check_sample_weight(sample_weight, len(predicted))
        return Answers.of_blocks(predicted, as_real_targets(y, len(predicted)), weight)

    @takes_sources
    def predict(self, X: Any) -> np.ndarray:
        """The predicted number of each row."""
        return self._scores(X).reshape(-1)
