"""A classifier that learns from one subset after the other, without a constant C."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from numbers import Integral
from threading import Event
from typing import Any, Self

import numpy as np
from sklearn.utils import _safe_indexing

from taut.binding import bind
from taut.checks import check_flag, check_number
from taut.console.interrupts import catch_interrupt
from taut.console.notices import warn
from taut.data.arrays import as_matrix
from taut.data.labels import (
    as_labels,
    class_index,
    class_weights,
    distinct,
    hold_out,
)
from taut.data.source import Source
from taut.data.targets import number_labels
from taut.data.weights import as_weights, check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import columns_of, estimator
from taut.estimators.beginning import STRUCTURE, check_beginning
from taut.estimators.course import Course, Part, check_structure, in_form, warn_of_interrupt
from taut.estimators.early_stopping import Checks, check_validation
from taut.estimators.forms import LINEAR, form_of
from taut.estimators.online_answers import OnlineAnswers
from taut.estimators.tables import takes_tables
from taut.problem import Problem, check_factor
from taut.solvers import FunctionalDescent
from taut.solvers._subsets import is_count
from taut.structures import Multiclass, Scalar

_COLUMNS = ("n_features_in_", "feature_names_in_")


@estimator
class OnlineSVM(OnlineAnswers):
    """An SVM without C, by stochastic functional descent: for streams, and where C is not searched.

    Each step takes a subset of the examples and adds to w what it lacks on them, by a small problem
    that is solved to a certified gap. What comes out is the average of w over the steps. There is
    no objective that it minimises, and so no certificate; see docs/functional_descent.md.

    Parameters
    ----------
    structure : CompiledStructure, optional
        What a label is, such as `taut.structures.Chain(5)`; X and y are then in the form that it
        takes, and where that is stacked rows with offsets, lists of matrices and of their labels
        will do. By default y has classes of rows.
    kernel, gamma, degree, coef0, cache
        As of `BinarySVM`.
    epochs : int, default=2
        Passes over the data of `fit`; `partial_fit` makes one.
    subset : int or float, default=50
        Examples of a step, or their share of the data.
    schedule, rate, factor, order, precision, bounds, averaging
        As of `taut.solvers.FunctionalDescent`; with `averaging` the model is always the average.
    budget : int, optional
        Support rows that the model may have, with a kernel.
    overflow : {{"merge", "remove"}}, default="merge"
        What happens to support rows beyond the budget.
    C : float, optional
        A reference: `primal_` is then the objective of `BinarySVM` or `MulticlassSVM` with this C.
        For data in memory.
    early_stopping : bool, default=False
        Stop `fit` when the score on validation data has not risen for `n_iter_no_change` passes,
        and keep the best model.
    validation_fraction : float, default=0.1
        Share of the rows that `early_stopping` keeps for that, where `fit` is given none.
    n_iter_no_change : int, default=2
    fit_intercept, intercept_scaling
        As of `BinarySVM`.
    class_weight : dict or "balanced", optional
        "balanced" is for `fit` with data in memory.
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
        What each step of the model found: examples seen, the share with a loss, |u|^2, the gap of
        its problem, evaluations of the kernel, support rows; and errors on validation data, also
        after passes that `early_stopping` undid.
    n_seen_ : int
        Examples in all steps.
    primal_ : float
        The objective at the reference C, after `fit` with one; with `early_stopping` that of the
        rows which were not held out. `partial_fit` leaves none.

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
        return FunctionalDescent(
            subset=self.subset, schedule=self.schedule, rate=self.rate, factor=self.factor,
            order=self.order, precision=self.precision, bounds=self.bounds,
            averaging=self.averaging, budget=self.budget, overflow=self.overflow,
            epochs=self.epochs, n_total=n_total,
        )  # fmt: skip

    def _check(self) -> None:
        self._solver(None)
        check_number("verbose", self.verbose)
        if not is_count(self.n_iter_no_change):
            raise InvalidData(
                f"n_iter_no_change = {self.n_iter_no_change!r}: give a whole number from 1 on"
            )
        check_flag("early_stopping", self.early_stopping)
        check_number("validation_fraction", self.validation_fraction)
        if not 0.0 < self.validation_fraction < 1.0:
            raise InvalidData(
                f"validation_fraction = {self.validation_fraction}: give a share between 0 and 1"
            )
        if self.C is not None:
            check_number("C", self.C)
            check_factor(float(self.C))
        if self.structure is not None:
            check_structure(self.structure)

    # Learning

    @takes_tables
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
        part = model._part(X, y, sample_weight)
        checks = self._checks(validation, part.facts)
        with catch_interrupt() as interrupted:
            course = model._course(part, None)
            for _ in range(self.epochs):
                course.go()
                model = self._with(course.attributes(model._shape_of(part.facts)) | part.facts)
                asked_to_stop = self._pass_over(model._fitted())
                if checks.stop(model) or asked_to_stop or interrupted.is_set():
                    break
            fitted = checks.fitted(model)
            if self.C is not None:
                fitted["primal_"] = self._with(fitted)._primal(course.problem)
        if interrupted.is_set():
            warn_of_interrupt()
        return self._take(fitted)

    @takes_tables
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Go on learning, by one pass over more data, which need not be kept.

        A model that was saved and loaded goes on as if it had not been, if `random_state` is an
        integer.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array-like, optional
            All labels that may ever occur, at the first call; by default those of its `y`.
        """
        self._check()
        self._refuse_of_parts(None)
        model = self._with(self._fitted())
        if hasattr(self, "n_seen_"):
            check_beginning(model)
        if classes is not None and self.structure is None:
            given = class_index(classes, "classes")[0]
            before = getattr(model, "classes_", given)
            if set(given.tolist()) != set(before.tolist()):
                raise InvalidData(
                    f"classes = {given.tolist()}, and the model so far has {before.tolist()}: name "
                    "all labels at the first call, or begin anew with fit"
                )
            model.classes_ = before
        fitted, whole = model._passed(X, y, sample_weight, None)
        if not whole:
            warn_of_interrupt()
        return self._take(fitted)

    def save(
        self, path: str | os.PathLike, *, dtype: Any = None, sparse: bool | str = False
    ) -> None:
        """Write the fitted model to one file, as of `BinarySVM`; read it with `taut.load`.

        Parameters
        ----------
        path : str or path
            An existing file is replaced as a whole.
        dtype : "float32", optional
            Store the weights in single precision, without their objective `primal_`.
        sparse : bool or "auto", default=False
            Store only the weights that are not zero, and where they are.
        """
        super().save(path, dtype=dtype, sparse=sparse)
        if not isinstance(self.random_state, Integral | None):
            warn(
                f"random_state = {self.random_state!r} is no part of the file, and the loaded "
                "model has None: partial_fit goes on by other subsets there; give an integer",
                RuntimeWarning,
            )

    def _refuse_of_parts(self, n_total: int | None) -> None:
        """Refuse settings that need to know more of the data than a part of them."""
        if self.schedule == "linear" and n_total is None:
            raise InvalidData(
                "schedule = 'linear' divides by the number of examples n, which parts do not tell: "
                "give schedule='power', rate=1.0 and factor=1/n, such as factor=1e-5"
            )
        if isinstance(self.class_weight, str):
            raise InvalidData(
                f"class_weight = {self.class_weight!r} is of all rows, and these come part by "
                "part: give a dict of factors by class"
            )

    def _passed(
        self, X: Any, y: Any, sample_weight: Any, n_total: int | None
    ) -> tuple[dict[str, Any], bool]:
        """The fitted attributes after a pass over these data, and whether it came to its end."""
        part = self._part(X, y, sample_weight)
        if part.idle:
            return self._fitted() | part.facts, True
        course = self._course(part, n_total)
        whole = course.go()
        return course.attributes(self._shape_of(part.facts)) | part.facts, whole

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
        if self.early_stopping and validation is None:
            raise InvalidData("early_stopping on a source needs validation=(X, y)")
        if self.C is not None:
            raise InvalidData(
                f"C = {self.C} asks for an objective over all data, and these come part by part: "
                "leave it out, or give them in memory"
            )
        self._refuse_of_parts(source.n_blocks)
        model = self
        model.classes_ = class_index(source.classes)[0]
        columns = {} if source.n_features is None else {"n_features_in_": source.n_features}
        checks = self._checks(validation, {"classes_": model.classes_} | columns)
        with catch_interrupt() as interrupted:
            for _ in range(self.epochs):
                model = model._read(source, interrupted)
                if checks.stop(model) or interrupted.is_set():
                    break
            fitted = checks.fitted(model)
        if interrupted.is_set():
            warn_of_interrupt()
        return fitted

    def _read(self, source: Source, interrupted: Event) -> Self:
        """The model after the parts of a source, or after those that came before an interrupt."""
        model = self
        try:
            with closing(source.chunks()) as chunks:
                for chunk in chunks:
                    if chunk.offsets is not None:
                        raise InvalidData("the source holds sequences, and OnlineSVM takes rows")
                    if not interrupted.is_set():
                        labels, weight = source.labels(chunk), chunk.sample_weight
                        fitted, _whole = model._passed(chunk.X, labels, weight, source.n_blocks)
                        model = self._with(fitted)
                    if interrupted.is_set():
                        break
        except KeyboardInterrupt:  # a second one, such as while a source lets wait
            interrupted.set()
        if not hasattr(model, "n_seen_"):
            if interrupted.is_set():
                raise KeyboardInterrupt
            raise InvalidData("all examples of the source have weight 0: there is nothing to learn")
        return model

    def _checks(self, validation: Any, facts: dict[str, Any]) -> Checks:
        """What looks at validation data after each pass; refuses those that it could not score."""
        if validation is not None:
            check_validation(validation, facts)
        return Checks(validation, self.n_iter_no_change if self.early_stopping else None)

    def _refuse_beside_source(self, *given: Any) -> None:
        if any(value is not None for value in given):
            raise InvalidData("a source has targets and weights of its own: leave out yours")

    def __sklearn_is_fitted__(self) -> bool:
        # A first part without weight leaves the columns and the classes alone.
        return hasattr(self, "n_seen_")

    def _with(self, fitted: dict[str, Any]) -> Self:
        """A model with these attributes: a call that fails leaves this one as it was."""
        model = type(self)(**self.get_params(deep=False))
        model.__dict__.update(fitted)
        return model

    def _fitted(self) -> dict[str, Any]:
        own = vars(self).items()
        return {name: value for name, value in own if name.endswith("_") or name == STRUCTURE}

    def _split(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any, Any]:
        """Rows to learn from, and rows to validate on."""
        if self.structure is not None:
            raise InvalidData(
                "early_stopping with a structure needs data to validate on: give "
                "fit(X, y, validation=(X_held_out, y_held_out))"
            )
        self._need(y)
        matrix = as_matrix(X)
        codes = class_index(as_labels(y, matrix.shape[0]))[1]
        weight = check_sample_weight(sample_weight, len(codes), unit="row of X")
        held = hold_out(codes, self.validation_fraction, np.random.default_rng(self._seed()))
        if not held.any():
            raise InvalidData(
                f"validation_fraction = {self.validation_fraction} of the rows of each class is "
                "none: give a larger share, or fit(X, y, validation=(X_held_out, y_held_out))"
            )
        # Rows without weight are not learned from, and all others keep their numbers.
        others = _safe_indexing(X, np.flatnonzero(held)), as_labels(y, len(codes))[held]
        return X, y, np.where(held, 0.0, weight), others

    def _part(self, X: Any, y: Any, sample_weight: Any) -> Part:
        """Data to learn from, checked as far as their form goes."""
        self._need(y)
        if self.structure is None:
            return self._rows(X, y, sample_weight)
        X, y = in_form(self.structure, X, y)
        idle = sample_weight is not None and not np.any(sample_weight)
        if idle:
            known = hasattr(self, "n_seen_")
            data = self._bound(X, y)[0] if known else bind(self.structure, X, y)
            as_weights(sample_weight, data.n_blocks, unit="example")
        return Part(self.structure, {}, X, y, sample_weight, idle)

    def _course(self, part: Part, n_total: int | None) -> Course:
        """Passes over some data from where this model stands."""
        return Course(self, part, self._solver(n_total), self._seed())

    def _rows(self, X: Any, y: Any, sample_weight: Any) -> Part:
        """Rows with classes, checked, and what is known of their columns."""
        matrix = as_matrix(X)
        if hasattr(self, "n_features_in_"):
            self._check_columns(X, matrix)
            columns = {n: v for n, v in vars(self).items() if n in _COLUMNS}
        else:
            columns = columns_of(X, matrix)
        labels = as_labels(y, matrix.shape[0])
        classes = getattr(self, "classes_", None)
        if classes is None:
            if len(distinct(labels)[0]) == 1:
                raise InvalidData(
                    f"y has one class alone, {labels.tolist()[0]!r}: name all labels that may come "
                    "in partial_fit(X, y, classes=...), or give rows of at least two classes"
                )
            classes, codes = class_index(labels)
        else:
            codes = number_labels(labels, classes)
        given = 1.0 if sample_weight is None else sample_weight
        weight = as_weights(given, len(codes))
        weight = weight * class_weights(self.class_weight, classes, codes, weight)[codes]
        facts, idle = columns | {"classes_": classes}, not weight.any()
        if len(classes) == 2:
            return Part(Scalar(self._bias), facts, matrix, 2.0 * codes - 1.0, weight, idle)
        structure = Multiclass(len(classes), bias=self._bias)
        return Part(structure, facts, matrix, codes, weight, idle)

    def _shape_of(self, facts: dict[str, Any]) -> tuple[int, int] | None:
        if self.structure is not None:
            return None
        n_classes = len(facts["classes_"])
        return (1 if n_classes == 2 else n_classes), int(facts["n_features_in_"])

    def _primal(self, problem: Problem) -> float:
        """The objective at the reference C."""
        assert self.C is not None
        return float(problem.with_factor(float(self.C)).primal(self._form.point(self)))
