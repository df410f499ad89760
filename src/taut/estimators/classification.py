"""Classifiers of single rows: binary and multiclass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin

from taut.checks import check_choice
from taut.data.arrays import Matrix, as_matrix
from taut.data.chunks import Chunk
from taut.data.labels import as_labels, class_index, class_weights, share_right
from taut.data.source import Source
from taut.data.weights import check_margin, check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import columns_of, estimator
from taut.estimators.costs import CostSensitive
from taut.estimators.explained_classes import ExplainedBinary, ExplainedCosts
from taut.estimators.extracting import Extracting
from taut.estimators.linear import LinearEstimator
from taut.estimators.online import Answers, Plan, takes_sources
from taut.estimators.probabilities import ClassProbabilities
from taut.estimators.tables import takes_tables
from taut.problem import Problem
from taut.structures import Multiclass, Scalar, SlackRescaled

_RESCALINGS = ("margin", "slack")


def _signs(codes: np.ndarray, margin: np.ndarray | None) -> np.ndarray:
    """-1 and +1, beside the margins if there are any."""
    signs = 2.0 * codes - 1.0
    return signs if margin is None else np.column_stack([signs, margin])


@estimator
class LinearClassifier(ClassifierMixin, LinearEstimator):
    """What the two classifiers of rows share."""

    class_weight: dict | str | None = None

    def _blocks(
        self, X: Any, y: Any, sample_weight: Any
    ) -> tuple[Matrix, np.ndarray, np.ndarray, np.ndarray]:
        """Checked rows, classes, class codes and weights."""
        matrix = as_matrix(X)
        return matrix, *self._labelled(y, matrix.shape[0], sample_weight)

    def _labelled(
        self, y: Any, n: int, sample_weight: Any, unit: str = "row"
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Classes, class codes and weights of n rows, or of what else has a class."""
        self._need(y)
        classes, codes = class_index(as_labels(y, n, unit=unit))
        weight = check_sample_weight(sample_weight, n, unit=f"{unit} of X")
        weight = weight * class_weights(self.class_weight, classes, codes, weight)[codes]
        return classes, codes, weight

    def _two(self, classes: np.ndarray) -> np.ndarray:
        """The classes, if they are two."""
        if len(classes) != 2:
            raise InvalidData(
                f"Only binary classification is supported by {type(self).__name__}, y has "
                f"{len(classes)} classes: use MulticlassSVM, or LatentMulticlassSVM for bags"
            )
        return classes

    def _class_factors(self, source: Source, classes: np.ndarray) -> np.ndarray:
        """Factors on the weights of a source's blocks, by class."""
        factors = np.ones(len(classes))
        if self.class_weight is None:
            return factors
        balanced = self.class_weight == "balanced"
        if balanced and not source.repeatable:
            raise InvalidData(
                "class_weight = 'balanced' takes a reading of its own, and these data can be "
                "read only once: give a dict of weights by class"
            )
        sums = source.class_sums() if balanced else factors
        return class_weights(self.class_weight, classes, np.arange(len(classes)), sums)

    @staticmethod
    def _recode(source: Source, factors: np.ndarray) -> Callable[[Chunk], Chunk]:
        """Class codes as targets, and weights by class."""

        def recode(chunk: Chunk) -> Chunk:
            codes = source.codes(chunk)
            weight = 1.0 if chunk.sample_weight is None else chunk.sample_weight
            return replace(chunk, y=codes, sample_weight=weight * factors[codes])

        return recode

    def _classes_of(self, source: Source) -> np.ndarray:
        """The classes of a source, at least two."""
        classes = source.classes
        if classes is None:
            raise InvalidData(
                f"{type(self).__name__} needs classes, and the targets of the source are real "
                "numbers or missing: use RegressionSVM, or write labels"
            )
        return class_index(classes)[0]

    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        raise NotImplementedError

    @takes_tables
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of rows whose class is right; a source has targets and weights of its own."""
        # scikit-learn's accuracy sorts labels, which labels of any type need not allow.
        return share_right(*self._answers(X, y, sample_weight)[:3])

    def _answer(self, X: Any, y: Any, sample_weight: Any, **layout: Any) -> Answers:
        predicted = self.predict(X)
        weight = check_sample_weight(sample_weight, len(predicted))
        return Answers.of_blocks(predicted, as_labels(y, len(predicted)), weight)


@estimator
class BinarySVM(Extracting, ExplainedBinary, ClassProbabilities, LinearClassifier):
    """Linear binary classifier with the hinge loss.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max(0, 1 - y_i <w, (x_i, bias)>), the intercept
    being regularised like the rest.

    Parameters
    ----------
    {training}
    {intercept}
    {class_weight}
    {calibrate}
    {features}

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    classes_ : ndarray of shape (2,)
    temperature_ : float
        What `calibrate` or `fit_temperature` has found, for `predict_proba`.
    {fitted}

    Examples
    --------
    >>> from taut import BinarySVM
    >>> model = BinarySVM(C=10.0, random_state=0)
    >>> model = model.fit([[0.0], [1.0], [3.0], [4.0]], ["low", "low", "high", "high"])
    >>> model.predict([[0.5], [3.5]])
    array(['low', 'high'], dtype='<U4')
    >>> model.certificate_.relative_gap <= 1e-3
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @takes_tables
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, margin: Any = None) -> Self:
        """Fit rows X to two classes y.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features), or Source
            A source, such as `taut.data.open_shards(path)`, has targets of its own. With
            `features`, what that takes.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors on C.
        margin : array-like of shape (n,), optional
            The margin that is asked for each row, >= 0; 1 by default.
        """
        if isinstance(X, Source):
            return self._fit_source(X, y=y, sample_weight=sample_weight, margin=margin)
        X, extracted = self._extract_to_fit(X)
        matrix, classes, codes, weight = self._blocks(X, y, sample_weight)
        columns = columns_of(X, matrix) | extracted | {"classes_": self._two(classes)}
        targets = _signs(codes, margin if margin is None else check_margin(margin, len(codes)))
        fitted = self._train_rows(
            Scalar(self._bias), matrix, targets, weight, (1, matrix.shape[1]), codes, sample_weight,
            columns,
        )  # fmt: skip
        return self._keep(fitted)

    def _plan(self, source: Source) -> Plan:
        classes = self._two(self._classes_of(source))
        factors, n = self._class_factors(source, classes), source.n_features or 0
        weighted = self._recode(source, factors)

        def recode(chunk: Chunk) -> Chunk:
            chunk = weighted(chunk)
            return replace(chunk, y=_signs(np.asarray(chunk.y), chunk.margin))

        return Plan(
            Scalar(self._bias), recode, (1, n), {"classes_": classes, "n_features_in_": n},
            factors.tobytes(),
        )  # fmt: skip

    @staticmethod
    def _by_class(values: np.ndarray) -> np.ndarray:
        return np.pad(values, ((0, 0), (1, 0)))

    def _row_classes(self, problem: Problem) -> np.ndarray:
        signs = problem.y.reshape(len(problem.y), -1)[:, 0]  # beside margins, if there are any
        return (signs > 0.0).astype(np.int64)

    @takes_sources
    def decision_function(self, X: Any) -> np.ndarray:
        """Signed scores: positive for `classes_[1]`."""
        return self._scores(X)[:, 0]

    @takes_sources
    def predict(self, X: Any) -> np.ndarray:
        """The class of each row."""
        second = self.decision_function(X) > 0.0
        return self.classes_[second.astype(np.intp)]


@estimator
class MulticlassSVM(
    Extracting, ExplainedCosts, CostSensitive, ClassProbabilities, LinearClassifier
):
    """Linear multiclass classifier (Crammer and Singer) with any cost matrix.

    Minimises P(W) = 1/2 |W|^2 + C sum_i weight_i max_k [cost(y_i, k) - <w_yi - w_k, (x_i, bias)>].

    Parameters
    ----------
    {training}
    cost : array of shape (n_classes, n_classes), tree or path, optional
        cost[i, j] of answering `classes_[j]` where `classes_[i]` is right; 0/1 by default. Or a
        tree with the classes as leaves, in a form that `taut.structures.tree_cost` takes: the cost
        is the height of the lowest common ancestor, 1 within the smallest groups. Or the path of a
        CSV file, see `taut.structures.load_cost`. Trees and files may name further classes; lists
        of rows of numbers are matrices.
    rescaling : "margin" or "slack", default="margin"
        What a cost multiplies: the margin that is asked for, or what is missing of a margin of 1,
        max_k cost(y_i, k) (1 - <w_yi - w_k, (x_i, bias)>). The same where all costs are 0 or 1.
    {intercept}
    {class_weight}
    {calibrate}
    {features}

    Attributes
    ----------
    coef_ : ndarray of shape (n_classes, n_features)
    intercept_ : ndarray of shape (n_classes,)
    classes_ : ndarray of shape (n_classes,)
    cost_ : ndarray of shape (n_classes, n_classes)
        The costs that training saw.
    temperature_ : float
        What `calibrate` or `fit_temperature` has found, for `predict_proba`.
    {fitted}

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from taut import MulticlassSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVM(C=1.0, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95, model.certificate_.relative_gap <= 1e-3
    (True, True)
    """

    rescaling: str = "margin"

    @takes_tables
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit rows X to classes y.

        Parameters
        ----------
        X : array-like or sparse of shape (n, n_features), or Source
            A source, such as `taut.data.open_shards(path)`, has targets of its own. With
            `features`, what that takes.
        y : array-like of shape (n,)
        sample_weight : array-like of shape (n,), optional
            Factors on C.
        """
        if isinstance(X, Source):
            return self._fit_source(X, y=y, sample_weight=sample_weight)
        X, extracted = self._extract_to_fit(X)
        matrix, classes, codes, weight = self._blocks(X, y, sample_weight)
        known = self._known(classes) | extracted
        structure, shape = self._structure(known["cost_"]), (len(classes), matrix.shape[1])
        facts = columns_of(X, matrix) | known
        fitted = self._train_rows(
            structure, matrix, codes, weight, shape, codes, sample_weight, facts
        )
        return self._keep(fitted)

    def _structure(self, cost: np.ndarray) -> Any:
        check_choice("rescaling", self.rescaling, _RESCALINGS)
        structure = Multiclass(len(cost), cost, self._bias)
        slack = self.rescaling == "slack" and self.cost is not None
        return SlackRescaled(structure) if slack else structure

    def _plan(self, source: Source) -> Plan:
        classes, n = self._classes_of(source), source.n_features or 0
        factors, known = self._class_factors(source, classes), self._known(classes)
        return Plan(
            self._structure(known["cost_"]), self._recode(source, factors), (len(classes), n),
            known | {"n_features_in_": n}, factors.tobytes(),
        )  # fmt: skip

    @takes_sources
    def decision_function(self, X: Any) -> np.ndarray:
        """Scores of all classes; for two classes the second's lead over the first."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @takes_sources
    def predict(self, X: Any) -> np.ndarray:
        """The class of highest score of each row."""
        best = self._scores(X).argmax(axis=1)
        return self.classes_[best]

    @takes_tables
    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, metric: str = "accuracy"
    ) -> float:
        """How good predictions are; higher is better.

        Parameters
        ----------
        X, y
            As for `fit`; a source has targets and weights of its own.
        sample_weight : array-like of shape (n,), optional
        metric : "accuracy", "cost" or "hierarchical_f1", default="accuracy"
            Share of rows whose class is right, the mean cost of the answers times -1, or F1 of the
            groups that they are in, for which `cost` must be a tree; see `taut.metrics`.
        """
        return self._measure(metric, *self._answers(X, y, sample_weight)[:3])
