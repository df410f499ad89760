"""Classifiers of rows that explain themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from taut.data.labels import as_labels
from taut.data.targets import number_labels
from taut.data.weights import check_margin
from taut.duals.support import LabelsInUse
from taut.errors import InvalidData
from taut.estimators.explained import Explained, both, refuse_others
from taut.estimators.forms import KERNEL
from taut.estimators.tables import takes_tables
from taut.explanations import Explanation, LeaveOneOut, Suspects, leave_one_out, suspects
from taut.explanations.classes import TrainedClasses, class_statistics
from taut.explanations.difference import Difference, by_examples, by_support_rows
from taut.explanations.report import ExampleTable
from taut.explanations.sequences import TailStatistics
from taut.readers.tables import Table

_NO_TAIL = TailStatistics(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


class ExplainedClasses(Explained):
    """Of rows with a class each."""

    _bias: float
    _row_scores: Any
    _by_class: Any
    _blocks: Any

    def explain(self, x: Any, training: tuple[Any, Any] | Table | None = None) -> Explanation:
        """Why a row has its class, and not the second best one.

        Parameters
        ----------
        x : array of shape (n_features,), or matrix or data frame of one row
        training : (X, y), optional
            What `fit` was given. A linear model does not keep its training data, and tells what
            they add to the answer only where they are given again; one with a kernel has its
            support rows, and needs nothing.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from taut import MulticlassSVM
        >>> X, y = load_iris(return_X_y=True)
        >>> model = MulticlassSVM(random_state=0).fit(X, y)
        >>> why = model.explain(X[70], training=(X, y))
        >>> print(why.answer, why.runner_up)
        2 1
        >>> parts = why.features.contribution.sum() + why.intercept
        >>> by_examples = why.examples.contribution.sum() + why.prior + why.remainder
        >>> bool(abs(parts - why.margin) < 1e-9 and abs(by_examples - why.margin) < 1e-9)
        True
        """
        check_is_fitted(self)
        row = x if hasattr(x, "columns") or sp.issparse(x) else np.atleast_2d(np.asarray(x))
        matrix = self._matrix(row)
        if matrix.shape[0] != 1:
            raise InvalidData(f"x has {matrix.shape[0]} rows: give one row to explain")
        matrix = matrix.astype(np.float64)
        scores = self._by_class(self._row_scores(matrix))[0]
        answer, runner_up = (int(k) for k in np.argsort(-scores, kind="stable")[:2])
        nodes = np.zeros((1, len(scores)))
        nodes[0, answer], nodes[0, runner_up] = 1.0, -1.0
        nodes = nodes[:, -self._n_columns :]
        difference = Difference(matrix, nodes, np.empty(0), self._bias)
        margin = float(scores[answer] - scores[runner_up])
        names = self._column_names()
        features = None if self._form is KERNEL else difference.features(self.coef_, names)
        table, prior = self._example_table(difference, training)
        explained = 0.0 if table is None else float(table.contribution.sum())
        return Explanation(
            self.classes_[answer], self.classes_[runner_up],
            (float(scores[answer]), float(scores[runner_up])), margin, features,
            float(nodes[0] @ self.intercept_), None, None, table, prior,
            margin - explained - prior if table is not None else 0.0,
        )  # fmt: skip

    @property
    def _n_columns(self) -> int:
        """Columns of weights: two classes of a `BinarySVM` share one, that of the second."""
        return len(self.intercept_)

    def _example_table(
        self, difference: Difference, training: tuple[Any, Any] | Table | None
    ) -> tuple[ExampleTable | None, float]:
        """What training examples add, and what the prior does."""
        if self._form is KERNEL:
            expansion = KERNEL.expansion(self)
            return by_support_rows(difference, expansion, self._bias**2), 0.0
        if training is None:
            return None, 0.0
        X, y = both(self, training)
        matrix = self._matrix(X)
        in_use = self._in_use("explain(x, training=...)", matrix.shape[0])
        truth = number_labels(as_labels(y, matrix.shape[0]), self.classes_)
        in_use = self._of_classes(in_use, truth)
        statistics = class_statistics(in_use, truth, self._losses(truth, None)[1])
        prior = self._known_prior()
        assert prior is not None
        return by_examples(
            difference.psi(), prior, matrix, self._bias, np.arange(len(truth) + 1),
            sp.csr_array(statistics[:, -self._n_columns :]), _NO_TAIL, in_use,
        )  # fmt: skip

    def _losses(self, codes: np.ndarray, margin: Any) -> tuple[np.ndarray, np.ndarray]:
        """Losses of all classes of each row, and the factors on what the truth leads by."""
        raise NotImplementedError

    def _of_classes(self, in_use: LabelsInUse, codes: np.ndarray) -> LabelsInUse:
        """Labels with dual weight as codes of classes."""
        return in_use

    def _trained(self, what, X, y, fit_params):
        margin = fit_params.pop("margin", None)
        matrix = self._matrix(X)
        mean, in_use = self._plain_mean(what), self._in_use(what, matrix.shape[0])
        _, classes, codes, weight = self._blocks(X, y, fit_params.pop("sample_weight", None))
        refuse_others(what, fit_params)
        if len(classes) != len(self.classes_) or (classes != self.classes_).any():
            raise InvalidData(
                f"y has other classes than the model ({self.classes_.tolist()!r:.100}): give the y "
                "that fit was given"
            )
        matrix = matrix.astype(np.float64, copy=False)
        scores = self._by_class(self._row_scores(matrix))
        mean_scores = np.zeros_like(scores)
        if mean is not None and mean.any():
            own = self._attributes(mean, self._coef_shape())
            mean_scores = self._by_class(np.asarray(matrix @ own["coef_"].T) + own["intercept_"])
        seen = np.ones(scores.shape[1])
        seen[: scores.shape[1] - self._n_columns] = 0.0
        losses, factors = self._losses(codes, margin)
        return TrainedClasses(
            self._rows(matrix, self._bias), codes, losses, factors, self.C * weight, scores,
            mean_scores, seen, self._of_classes(in_use, codes), self.certificate_.penalty,
            self.certificate_.rounding,
        )  # fmt: skip

    @takes_tables
    def suspects(self, X: Any, y: Any = None, **fit_params: Any) -> Suspects:
        """Training rows whose labels are most likely wrong, the most suspect first.

        A row that is labelled wrongly pulls the model its way, and so looks better than it is. What
        its own dual variables add to its scores is known, and what other rows would not add in its
        place is taken away before the rows are put in the order of their margins.

        Parameters
        ----------
        X, y, **fit_params
            What `fit` was given.

        Returns
        -------
        Suspects

        Examples
        --------
        >>> from taut import BinarySVM
        >>> X, y = [[-2.0], [-1.0], [-3.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1, 1, 1]
        >>> suspects = BinarySVM(C=0.1, random_state=0).fit(X, y).suspects(X, y)
        >>> print(suspects.examples[0], suspects.given[0], suspects.answer[0])
        2 1 0
        """
        trained = self._checked("suspects", X, y, dict(fit_params))
        return suspects.of_classes(trained, self.influence_, self.classes_)

    @takes_tables
    def leave_one_out_error(self, X: Any, y: Any = None, **fit_params: Any) -> LeaveOneOut:
        """How often the model would err on a row that it is trained without; no training again.

        The bound holds for the optimum of the problem without each row, with the same C_i and the
        same kernel, whatever the gap of this fit is; but the gap widens it. Fit with a small `tol`,
        such as 1e-9.

        Parameters
        ----------
        X, y, **fit_params
            What `fit` was given.

        Returns
        -------
        LeaveOneOut

        Examples
        --------
        >>> from sklearn.datasets import load_wine
        >>> from sklearn.preprocessing import scale
        >>> from taut import MulticlassSVM
        >>> X, y = load_wine(return_X_y=True)
        >>> model = MulticlassSVM(C=0.01, tol=1e-8, random_state=0).fit(scale(X), y)
        >>> model.leave_one_out_error(scale(X), y).bound < 0.1
        True
        """
        self._refuse_rounded("leave_one_out_error")
        trained = self._checked("leave_one_out_error", X, y, dict(fit_params))
        return leave_one_out.of_classes(trained, binary=self._n_columns == 1)


class ExplainedBinary(ExplainedClasses):
    """Of rows with one of two classes, and a margin each."""

    def _losses(self, codes, margin):
        n = len(codes)
        asked = np.ones(n) if margin is None else check_margin(margin, n)
        losses = np.tile(asked[:, None], (1, 2))
        losses[np.arange(n), codes] = 0.0
        return losses, np.ones((n, 2))

    def _of_classes(self, in_use, codes):
        # The only candidate of a row is that its class is the other one.
        return in_use._replace(labels=1 - codes[in_use.block])


class ExplainedCosts(ExplainedClasses):
    """Of rows with one of several classes, and costs of mistakes."""

    cost_: np.ndarray
    cost: Any
    rescaling: str

    def _losses(self, codes, margin):
        losses = self.cost_[codes]
        slack = self.rescaling == "slack" and self.cost is not None
        return losses, losses if slack else np.ones_like(losses)
