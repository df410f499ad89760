"""A classifier that learns from one subset after the other, without a constant C."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import field
from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from taut.checks import check_flag
from taut.data.arrays import as_matrix
from taut.data.labels import as_labels, class_index, class_weights, share_right
from taut.data.source import Source
from taut.data.targets import number_labels
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import columns_of, estimator
from taut.estimators.course import Course
from taut.estimators.forms import LINEAR, form_of
from taut.estimators.learning_curve import LearningCurve
from taut.estimators.linear import RowScores
from taut.problem import Problem
from taut.solvers import FunctionalDescent
from taut.structures import Multiclass, Scalar

_COLUMNS = ("n_features_in_", "feature_names_in_")


@estimator
class OnlineSVM(ClassifierMixin, RowScores):
    """An SVM without C, by stochastic functional descent: for streams, and where C is not searched.

    Each step takes a subset of the examples and adds to w what it lacks on them, by a small problem
    that is solved to a certified gap. What comes out is the average of w over the steps. There is
    no objective that it minimises, and so no certificate; see docs/functional_descent.md.

    Parameters
    ----------
    structure : CompiledStructure, optional
        What a label is, such as `taut.structures.Chain(5)`; X and y are then in the form that it
        takes. By default y has classes of rows.
    kernel, gamma, degree, coef0, cache
        As of `BinarySVM`.
    epochs : int, default=2
        Passes over the data of `fit`; `partial_fit` makes one.
    subset : int or float, default=50
        Examples of a step, or their share of the data.
    schedule, rate, factor, order, precision, bounds, averaging
        As of `taut.solvers.FunctionalDescent`.
    budget : int, optional
        Support rows that the model may have, with a kernel.
    overflow : {{"merge", "remove"}}, default="merge"
        What happens to support rows beyond the budget.
    C : float, optional
        A reference: `primal_` is then the objective of `BinarySVM` or `MulticlassSVM` with this C.
    early_stopping : bool, default=False
        Stop `fit` when the score on validation data has not risen for `n_iter_no_change` passes,
        and keep the best model.
    validation_fraction : float, default=0.1
        Share of the rows that `early_stopping` keeps for that, where `fit` is given none.
    n_iter_no_change : int, default=2
    fit_intercept, intercept_scaling
        As of `BinarySVM`.
    class_weight : dict or "balanced", optional
    n_jobs, random_state, verbose
        As of `BinarySVM`.

    Attributes
    ----------
    classes_ : ndarray
    coef_, intercept_ : ndarray
        Without a kernel.
    support_, support_vectors_, dual_coef_, kernel_
        With a kernel; `support_` counts rows in the order in which they came.
    learning_curve_ : LearningCurve
        What each step found: examples seen, the share with a loss, |u|^2, evaluations of the
        kernel, support rows; and errors on validation data.
    n_seen_ : int
        Examples in all steps.
    primal_ : float
        The objective at the reference C, after `fit` with one.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import OnlineSVM
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(600, 2))
    >>> y = np.linalg.norm(X, axis=1) > 1.2
    >>> model = OnlineSVM(kernel="rbf", budget=40, random_state=0).fit(X[:300], y[:300])
    >>> model.score(X[300:], y[300:]) > 0.9, len(model.support_)
    (True, 40)
    >>> model = model.partial_fit(X[300:], y[300:])
    >>> model.n_seen_
    900
    """

    structure: Any = field(default=None, kw_only=False)
    epochs: int = 2
    subset: int | float = 50
    schedule: str | Callable[[int], float] = "constant"
    rate: float | None = None
    factor: float = 1.0
    order: str = "permuted"
    precision: float = 0.01
    bounds: str = "auto"
    averaging: bool = True
    budget: int | None = None
    overflow: str = "merge"
    C: float | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 2
    class_weight: dict | str | None = None

    def _solver(self, n_total: int | None) -> FunctionalDescent:
        if self.budget is not None and form_of(self.kernel) is LINEAR:
            raise InvalidData(
                f"budget = {self.budget} is a number of support rows, and kernel='linear' has "
                "none: leave it out, or give a kernel"
            )
        return FunctionalDescent(
            subset=self.subset, schedule=self.schedule, rate=self.rate, factor=self.factor,
            order=self.order, precision=self.precision, bounds=self.bounds,
            averaging=self.averaging, budget=self.budget, overflow=self.overflow, n_total=n_total,
        )  # fmt: skip

    def _check(self) -> None:
        for name in ("epochs", "n_iter_no_change"):
            value = getattr(self, name)
            if not isinstance(value, Integral) or value < 1:
                raise InvalidData(f"{name} = {value!r}: give a whole number from 1 on")
        for name in ("early_stopping", "averaging"):
            check_flag(name, getattr(self, name))
        if not 0.0 < self.validation_fraction < 1.0:
            raise InvalidData(
                f"validation_fraction = {self.validation_fraction}: give a share between 0 and 1"
            )

    # Learning

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, validation: Any = None
    ) -> Self:
        """Learn from nothing.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features), or Source
            Or what the structure takes. A source has targets of its own.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors on the losses of examples.
        validation : pair, optional
            X and y to score the model on after each pass.
        """
        self._check()
        model = self._with({})
        if isinstance(X, Source):
            self._refuse_beside_source(y, sample_weight)
            return self._take(model._fit_source(X, validation))
        if self.early_stopping and validation is None:
            X, y, sample_weight, validation = self._split(X, y, sample_weight)
        course, facts = model._course(X, y, sample_weight, None)
        checks = _Checks(validation, self.n_iter_no_change if self.early_stopping else None)
        for _ in range(self.epochs):
            whole = course.go()
            model = self._with(course.attributes(model._shape_of(facts)) | facts)
            if checks.stop(model) or not whole:
                break
        fitted = checks.fitted(model)
        if self.C is not None:
            fitted["primal_"] = self._with(fitted)._primal(course.problem)
        return self._take(fitted)

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Go on learning, by one pass over more data, which need not be kept.

        A model that was saved and loaded goes on as if it had not been.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array-like, optional
            All labels that may ever occur, at the first call; by default those of its `y`.
        """
        self._check()
        if self.schedule == "linear":
            raise InvalidData(
                "schedule = 'linear' divides by the number of examples, which parts do not tell: "
                "give a function of t, such as schedule=lambda t: t / 100_000"
            )
        model = self._with(self._fitted() if hasattr(self, "n_seen_") else {})
        if classes is not None and self.structure is None and not hasattr(model, "classes_"):
            model.classes_ = class_index(as_labels(classes, len(classes)))[0]
        return self._take(model._passed(X, y, sample_weight, None))

    def _passed(self, X: Any, y: Any, sample_weight: Any, n_total: int | None) -> dict[str, Any]:
        """The fitted attributes after one more pass, over these data."""
        course, facts = self._course(X, y, sample_weight, n_total)
        course.go()
        return course.attributes(self._shape_of(facts)) | facts

    def _fit_source(self, source: Source, validation: Any) -> dict[str, Any]:
        """The same after `epochs` passes over the parts of a source."""
        if self.structure is not None or source.classes is None:
            raise InvalidData(
                "OnlineSVM reads rows with classes from a source: feed other data by partial_fit"
            )
        again = "can be read only once" if form_of(self.kernel) is LINEAR else "come part by part"
        if self.epochs > 1 and not (source.repeatable and form_of(self.kernel) is LINEAR):
            raise InvalidData(
                f"epochs = {self.epochs}, and these data {again}: give epochs=1, or all of them in "
                "memory"
            )
        model = self
        checks = _Checks(validation, self.n_iter_no_change if self.early_stopping else None)
        if self.early_stopping and validation is None:
            raise InvalidData("early_stopping on a source needs validation=(X, y)")
        model.classes_ = class_index(source.classes)[0]
        for _ in range(self.epochs):
            with closing(source.chunks()) as chunks:
                for chunk in chunks:
                    if chunk.offsets is not None:
                        raise InvalidData("the source holds sequences, and OnlineSVM takes rows")
                    labels, weight = source.labels(chunk), chunk.sample_weight
                    model = self._with(model._passed(chunk.X, labels, weight, source.n_blocks))
            if checks.stop(model):
                break
        return checks.fitted(model)

    def _refuse_beside_source(self, *given: Any) -> None:
        if any(value is not None for value in given):
            raise InvalidData("a source has targets and weights of its own: leave out yours")

    def _with(self, fitted: dict[str, Any]) -> Self:
        """A model with these attributes: a call that fails leaves this one as it was."""
        model = type(self)(**self.get_params(deep=False))
        model.__dict__.update(fitted)
        return model

    def _fitted(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name.endswith("_")}

    def _split(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any]:
        """Rows to learn from, and rows to validate on."""
        if self.structure is not None:
            raise InvalidData(
                "early_stopping with a structure needs data to validate on: give "
                "fit(X, y, validation=(X_held_out, y_held_out))"
            )
        self._need(y)
        matrix = as_matrix(X)
        labels = as_labels(y, matrix.shape[0])
        order = np.random.default_rng(self._seed()).permutation(len(labels))
        n_held = min(max(round(self.validation_fraction * len(labels)), 1), len(labels) - 1)
        held, kept = np.sort(order[:n_held]), np.sort(order[n_held:])
        weight = None if sample_weight is None else np.asarray(sample_weight)[kept]
        return matrix[kept], labels[kept], weight, (matrix[held], labels[held])

    def _course(
        self, X: Any, y: Any, sample_weight: Any, n_total: int | None
    ) -> tuple[Course, dict[str, Any]]:
        """Passes over some data from where this model stands, and what of it is no weight."""
        self._need(y)
        facts: dict[str, Any] = {}
        if self.structure is not None:
            structure, targets, weight = self.structure, y, sample_weight
        else:
            structure, facts, X, targets, weight = self._rows(X, y, sample_weight)
        solver = self._solver(n_total)
        return Course(self, structure, X, targets, weight, solver, self._seed()), facts

    def _rows(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Any, dict[str, Any], Any, np.ndarray, np.ndarray]:
        """The structure of classes of rows, what is known of the columns, and checked data."""
        matrix = as_matrix(X)
        if hasattr(self, "n_features_in_"):
            self._check_columns(X, matrix)
            columns = {n: v for n, v in vars(self).items() if n in _COLUMNS}
        else:
            columns = columns_of(X, matrix)
        labels = as_labels(y, matrix.shape[0])
        classes = getattr(self, "classes_", None)
        if classes is None:
            classes, codes = class_index(labels)
        else:
            codes = number_labels(labels, classes)
        weight = check_sample_weight(sample_weight, len(codes), unit="row of X")
        weight = weight * class_weights(self.class_weight, classes, codes, weight)[codes]
        facts = columns | {"classes_": classes}
        if len(classes) == 2:
            return Scalar(self._bias), facts, matrix, 2.0 * codes - 1.0, weight
        return Multiclass(len(classes), bias=self._bias), facts, matrix, codes, weight

    def _shape_of(self, facts: dict[str, Any]) -> tuple[int, int] | None:
        if self.structure is not None:
            return None
        n_classes = len(facts["classes_"])
        return (1 if n_classes == 2 else n_classes), int(facts["n_features_in_"])

    def _primal(self, problem: Problem) -> float:
        """The objective at the reference C."""
        return float(problem.with_factor(float(self.C or 1.0)).primal(self._form.point(self)))

    # Answers

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        return {"coef_": w} if coef_shape is None else super()._attributes(w, coef_shape)

    def _joint_weights(self) -> np.ndarray:
        return self.coef_ if self.structure is not None else super()._joint_weights()

    _position_weights = _joint_weights

    def _tail_attributes(self, tail: np.ndarray, columns: int) -> dict[str, np.ndarray]:
        return {} if self.structure is None else {"tail_": tail}

    def _tail(self) -> np.ndarray:
        return np.empty(0) if self.structure is None else self.tail_

    def decision_function(self, X: Any) -> np.ndarray:
        """Signed scores, positive for `classes_[1]`, of two classes; else a score for each."""
        self._need_rows("decision_function")
        scores = self._scores(X)
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """The class of each row, or what the structure says of each example."""
        check_is_fitted(self)
        if self.structure is not None:
            data, w = self._form.bound(self, self.structure, X)
            return data.predict(w, self._threads())
        scores = self.decision_function(X)
        best = scores > 0.0 if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[np.asarray(best, dtype=np.intp)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of rows whose class is right; with a structure, minus the mean loss."""
        check_is_fitted(self)
        if self.structure is not None:
            data, w = self._form.bound(self, self.structure, X, y)
            return -float(np.mean(data.prediction_losses(w)))
        predicted = self.predict(X)
        weight = check_sample_weight(sample_weight, len(predicted))
        return share_right(predicted, as_labels(y, len(predicted)), weight)

    def _error(self, X: Any, y: Any = None) -> float:
        """Share of rows whose class is wrong; with a structure, the mean loss."""
        return (1.0 if self.structure is None else 0.0) - self.score(X, y)

    def _need_rows(self, method: str) -> None:
        if self.structure is not None:
            raise InvalidData(f"{method} is of classes of rows, and a structure was given")


class _Checks:
    """Errors on validation data after each pass, and the best model if one stops by them."""

    def __init__(self, validation: Any, patience: int | None) -> None:
        self.validation, self.patience = validation, patience
        self._found: list[tuple[int, float]] = []
        self._best: dict[str, Any] | None = None

    def stop(self, model: OnlineSVM) -> bool:
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

    def fitted(self, model: OnlineSVM) -> dict[str, Any]:
        """The attributes of the best model, or of the last one, with all errors in the curve."""
        last = model._fitted()
        curve: LearningCurve = last["learning_curve_"]
        for seen, error in self._found:
            curve = curve.validated(seen, error)
        return (self._best or last) | {"learning_curve_": curve}
