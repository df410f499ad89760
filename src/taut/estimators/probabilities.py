"""Probabilities of the classes of single rows."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.utils.metaestimators import _safe_split

from taut.binding import CompiledData
from taut.data.arrays import Checked, Matrix
from taut.data.labels import as_labels, hold_out
from taut.data.source import Source
from taut.data.targets import number_labels
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import estimator
from taut.estimators.distributions import LabelDistribution
from taut.estimators.linear import LinearEstimator
from taut.estimators.online import Plan, takes_sources
from taut.inference.marginals import check_temperature
from taut.inference.temperature import likeliest_temperature
from taut.problem import Problem
from taut.result import Status
from taut.spaces.expansion import KernelExpansion
from taut.streamed import StreamedProblem
from taut.structures import Multiclass


@estimator
class ClassProbabilities(LinearEstimator, LabelDistribution):
    """Classifiers of rows that give probabilities as soon as they have a temperature."""

    calibrate: float | None = None

    @staticmethod
    def _by_class(values: np.ndarray) -> np.ndarray:
        """Values of the columns of weights, as values of the classes."""
        return values

    def _train_rows(
        self,
        structure: Any,
        matrix: Matrix,
        targets: np.ndarray,
        weight: np.ndarray,
        coef_shape: tuple[int, int],
        codes: np.ndarray,
        sample_weight: Any,
        facts: dict[str, Any],
    ) -> dict[str, Any]:
        """Fitted attributes from checked rows, with a temperature if `calibrate` asks for one.

        The temperature is that of a second model, which has not seen the rows that are held out.
        They count as if there were one more of them, with the others' scores and of any class: a
        few rows without a mistake would otherwise make the model sure of everything.
        """
        counts = check_sample_weight(sample_weight, len(codes))
        self._check_share(codes[counts > 0.0])
        fitted = self._train(structure, Checked(matrix), targets, weight, coef_shape, facts)
        # Models of a path differ in their weights, and whoever interrupts wants no second fit.
        interrupted = fitted["certificate_"].status is Status.INTERRUPTED
        if self.calibrate is None or self._keeps_end or interrupted:
            return fitted
        held = counts > 0.0
        # A seed of its own, after the one of `_train`: weights are the same without it.
        rng = np.random.default_rng(self._seed())
        held[held] = hold_out(codes[held], float(self.calibrate), rng)
        other = self._copy(warm_start=False, checkpoint=None, callbacks=())
        seen, out = np.flatnonzero(~held), np.flatnonzero(held)
        rows, _ = _safe_split(self, matrix, None, seen)
        part = other._train(
            structure, Checked(rows), targets[seen], weight[seen], coef_shape, facts
        )
        other.__dict__.update(part)
        rows, _ = _safe_split(self, matrix, None, out, seen)
        likelihoods = other._row_likelihoods(rows, codes[out], doubt=1.0 / len(out))
        return fitted | {"temperature_": likeliest_temperature(likelihoods, counts[held])}

    def _check_share(self, codes: np.ndarray) -> None:
        """Refuse what is no share of rows, or holds out none of these."""
        share: Any = self.calibrate
        if share is None:
            return
        if not isinstance(share, Real) or not 0.0 < float(share) < 1.0:
            raise InvalidData(
                f"calibrate = {share!r}: give the share of rows that is held out to find a "
                "temperature, between 0 and 1, or None"
            )
        # How many are held out does not depend on the seed.
        if not hold_out(codes, float(share), np.random.default_rng(0)).any():
            raise InvalidData(
                f"calibrate = {share} holds out none of {len(codes)} rows, since one of each class "
                "is kept: give a larger share or more rows"
            )

    def _streamed(self, source: Source, plan: Plan) -> StreamedProblem:
        if self.calibrate is not None:
            raise InvalidData(
                f"calibrate = {self.calibrate!r} holds out rows in memory, and these data come "
                "part by part: give None, and call fit_temperature(X, y) with other rows"
            )
        return super()._streamed(source, plan)

    @property
    def predict_proba(self) -> Callable[[Any], np.ndarray]:
        """The probability of each class, (n, n_classes): a method of X.

        There once a temperature is known: by the parameter `calibrate`, or by `fit_temperature`.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from taut import MulticlassSVM
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MulticlassSVM(calibrate=0.3, random_state=0).fit(X, y)
        >>> model.predict_proba(X[::50]).round(1)
        array([[1., 0., 0.],
               [0., 1., 0.],
               [0., 0., 1.]])
        """
        self._need_temperature("predict_proba")
        return self._fitted_marginals

    @property
    def predict_log_proba(self) -> Callable[[Any], np.ndarray]:
        """The logarithm of `predict_proba`, finite where that is 0: a method of X."""
        self._need_temperature("predict_log_proba")
        return self._fitted_logarithms

    def _need_temperature(self, name: str) -> None:
        # scikit-learn asks by hasattr whether there are probabilities.
        if not hasattr(self, "temperature_"):
            raise AttributeError(
                f"{type(self).__name__} has no {name} before a temperature is known: call "
                "fit_temperature(X, y) with rows that fit has not seen, or fit with calibrate=0.2"
            )

    @takes_sources
    def _fitted_marginals(self, X: Any) -> np.ndarray:
        return self._marginals(X, self.temperature_)

    @takes_sources
    def _fitted_logarithms(self, X: Any) -> np.ndarray:
        return self._logarithms(X, self.temperature_)

    def _marginals(self, X: Any, temperature: Any, **layout: Any) -> np.ndarray:
        return np.exp(self._logarithms(X, temperature, **layout))

    def _logarithms(self, X: Any, temperature: Any, **layout: Any) -> np.ndarray:
        """Logarithms of the probabilities of the classes."""
        scores = self._by_class(self._scores(X, **layout))
        return log_softmax(scores / check_temperature(temperature), axis=1)

    def _log_likelihoods(
        self, X: Any, y: Any, **layout: Any
    ) -> tuple[int, Callable[[float], np.ndarray]]:
        matrix = self._matrix(X, **layout)
        n = matrix.shape[0]
        return n, self._row_likelihoods(matrix, number_labels(as_labels(y, n), self.classes_))

    def _row_likelihoods(
        self, matrix: Matrix, codes: np.ndarray, doubt: float = 0.0
    ) -> Callable[[float], np.ndarray]:
        """The log-probabilities of the classes of checked rows, by temperature.

        With a `doubt`, that much of the mean over all classes is added.
        """
        scores = self._by_class(self._row_scores(matrix)).astype(np.float64)
        rows = np.arange(len(codes))

        def log_likelihoods(temperature: float) -> np.ndarray:
            logarithms = log_softmax(scores / temperature, axis=1)
            return logarithms[rows, codes] + doubt * logarithms.mean(axis=1)

        return log_likelihoods

    def _bound(self, X: Any, y: Any = None) -> tuple[CompiledData, np.ndarray]:
        matrix = self._matrix(X)
        codes = None if y is None else number_labels(as_labels(y, matrix.shape[0]), self.classes_)
        return self._form.bound(
            self, Multiclass(len(self.classes_), bias=1.0), Checked(matrix), codes
        )

    def _position_weights(self) -> np.ndarray:
        return self._by_class(np.vstack([self.coef_.T, self.intercept_])).ravel()

    def _position_scores(self, expansion: KernelExpansion) -> KernelExpansion:
        point = expansion.point
        coefficients, intercept = (
            self._by_class(values) for values in (point.coefficients, point.intercept[None])
        )
        by_class = point._replace(coefficients=coefficients, intercept=intercept[0])
        return KernelExpansion(expansion.kernel, by_class)

    def _row_classes(self, problem: Problem) -> np.ndarray | None:
        return np.asarray(problem.y, dtype=np.int64)

    def _by_example(self, values: np.ndarray, offsets: np.ndarray, X: Any) -> np.ndarray:
        return values

    @staticmethod
    def _ranked(
        labels: np.ndarray, scores: np.ndarray, offsets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        return labels.T, scores
