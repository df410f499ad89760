"""Estimators that explain answers, find wrong labels and bound their leave-one-out error."""

from __future__ import annotations

from abc import abstractmethod
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from taut.data.arrays import Matrix, as_matrix, as_sequences
from taut.data.labels import as_label_sequences, as_labels
from taut.data.source import Source
from taut.data.targets import number_labels
from taut.data.weights import check_margin, check_sample_weight
from taut.duals.support import DualSupport, LabelsInUse
from taut.errors import InvalidData
from taut.estimators.base import StructuralEstimator
from taut.estimators.forms import KERNEL, LINEAR
from taut.explanations import Explanation, LeaveOneOut, Suspects, leave_one_out, suspects
from taut.explanations.classes import TrainedClasses, class_statistics
from taut.explanations.difference import Difference, by_examples, by_support_rows
from taut.explanations.report import ExampleTable, PositionTable, TransitionTable
from taut.explanations.rows import KernelledRows, LinearRows, Rows
from taut.explanations.sequences import (
    Potentials,
    TailStatistics,
    TrainedSequences,
    position_statistics,
    tail_statistics,
)
from taut.spaces.regularizer import Prior

_SAME = 1e-6  # relative difference of objectives of the same model and data
_NO_TAIL = TailStatistics(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


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
            raise _NoDuals(
                f"this {type(self).__name__} has no {what}: that needs the dual variables of each "
                "training example. Call fit with data in memory and a solver that keeps them, such "
                "as 'dual_coordinate'; partial_fit, data read part by part, compress and points "
                "between two of a path leave none"
            )
        return self.dual_support_

    def _in_use(self, what: str, n: int) -> LabelsInUse:
        """The labels with dual weight, for training data of n examples."""
        support = self._support(what)
        if support.in_use is None:
            raise _NoDuals(
                f"this {type(self).__name__} has no {what}: its solver does not keep dual variables "
                "label by label, only sums of them; use solver='dual_coordinate'"
            )
        if support.n_blocks != n:
            raise InvalidData(
                f"the training data have {n} examples, and the model was fitted to "
                f"{support.n_blocks}: give the data that fit was given"
            )
        return support.in_use

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
        stated = self.certificate_.primal
        found = trained.penalty + float(trained.weight @ trained.slacks)
        if not abs(found - stated) <= _SAME * max(stated, self.certificate_.penalty):
            raise InvalidData(
                f"the objective of the model is {found:g} on these data, and its certificate says "
                f"{stated:g}: give X, y and weights that fit was given, and a model as fit left it"
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


class _NoDuals(InvalidData, AttributeError):
    """A model has no dual variables; scikit-learn asks by hasattr whether it has."""


class ExplainedClasses(Explained):
    """Of rows with a class each."""

    _bias: float
    _row_scores: Any
    _by_class: Any
    _blocks: Any

    def explain(self, x: Any, training: tuple[Any, Any] | None = None) -> Explanation:
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
        1 2
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
        names = getattr(self, "feature_names_in_", None)
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
        self, difference: Difference, training: tuple[Any, Any] | None
    ) -> tuple[ExampleTable | None, float]:
        """What training examples add, and what the prior does."""
        if self._form is KERNEL:
            expansion = KERNEL.expansion(self)
            return by_support_rows(difference, expansion, self._bias**2), 0.0
        if training is None:
            return None, 0.0
        X, y = _both(training)
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
        _refuse(what, fit_params)
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
            mean_scores = self._by_class(
                np.asarray(matrix @ own["coef_"].T) + own["intercept_"]
            )
        seen = np.ones(scores.shape[1])
        seen[: scores.shape[1] - self._n_columns] = 0.0
        losses, factors = self._losses(codes, margin)
        return TrainedClasses(
            self._rows(matrix, self._bias), codes, losses, factors, self.C * weight, scores,
            mean_scores, seen, self._of_classes(in_use, codes), self.certificate_.penalty, self.certificate_.rounding,
        )  # fmt: skip

    def suspects(self, X: Any, y: Any, **fit_params: Any) -> Suspects:
        """Training rows whose labels are most likely wrong, the most suspect first.

        A row that is labelled wrongly pulls the model its way, and so looks better than it is. What
        its own dual variables add to its scores is known, and is taken away before the rows are put
        in the order of their margins.

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
        >>> suspects = BinarySVM(random_state=0).fit(X, y).suspects(X, y)
        >>> suspects.examples[0], suspects.given[0], suspects.answer[0]
        (np.int64(2), np.int64(1), np.int64(0))
        """
        trained = self._checked("suspects", X, y, dict(fit_params))
        return suspects.of_classes(trained, self.influence_, self.classes_)

    def leave_one_out_error(self, X: Any, y: Any, **fit_params: Any) -> LeaveOneOut:
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
        >>> model = MulticlassSVM(C=0.1, tol=1e-8, random_state=0).fit(scale(X), y)
        >>> model.leave_one_out_error(scale(X), y).bound < 0.1
        True
        """
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


class ExplainedSequences(Explained):
    """Of sequences with a label for each position."""

    boundary: bool
    _bound: Any
    _position_tail: Any
    _tail: Any
    loss: str

    def explain(self, x: Any, training: tuple[Any, Any] | None = None) -> Explanation:
        """Why a sequence has its labels, and not the second best ones.

        Parameters
        ----------
        x : array or CSR of shape (length, n_features)
            One sequence.
        training : (X, y), optional
            What `fit` was given, with X a list of sequences. A linear model does not keep its
            training data, and tells what they add to the answer only where they are given again.

        Returns
        -------
        Explanation

        Examples
        --------
        >>> import numpy as np
        >>> from taut import ChainSVM
        >>> noun, verb = [1.0, -1.0], [-1.0, 1.0]
        >>> X = [np.array([noun, verb, noun]), np.array([verb, noun])]
        >>> y = [["noun", "verb", "noun"], ["verb", "noun"]]
        >>> why = ChainSVM(random_state=0).fit(X, y).explain(X[0], training=(X, y))
        >>> list(map(str, why.answer))
        ['noun', 'verb', 'noun']
        >>> bool(why.margin > 0.0), len(why.positions.margin)
        (True, 3)
        """
        check_is_fitted(self)
        data, w = self._bound(x)
        codes, scores = data.m_best(w.astype(data.dtype, copy=False), 2, 1)
        answer, runner_up = codes.astype(np.int64)
        matrix, _ = as_sequences(x, None)
        matrix = matrix.astype(np.float64, copy=False)
        potentials = self._potentials(matrix, self._joint_tail())
        best = potentials.best(answer)
        places, n_labels = np.arange(len(answer)), len(self.classes_)
        highest = best[places, answer].copy()
        best[places, answer] = -np.inf
        positions = PositionTable(
            self.classes_[answer], self.classes_[best.argmax(axis=1)], highest - best.max(axis=1)
        )
        nodes = np.zeros((len(answer), n_labels))
        nodes[places, answer] += 1.0
        nodes[places, runner_up] -= 1.0
        transitions, tail = self._transitions(answer, runner_up, potentials)
        difference = Difference(matrix, nodes, tail, 0.0)
        names = getattr(self, "feature_names_in_", None)
        features = None if self._form is KERNEL else difference.features(self.coef_, names)
        margin = potentials.score(answer) - potentials.score(runner_up)
        table, prior = self._example_table(difference, training)
        explained = 0.0 if table is None else float(table.contribution.sum())
        return Explanation(
            self.classes_[answer], self.classes_[runner_up],
            (potentials.score(answer), potentials.score(runner_up)), margin, features, 0.0,
            transitions, positions, table, prior,
            margin - explained - prior if table is not None else 0.0,
        )  # fmt: skip

    def _joint_tail(self) -> tuple[np.ndarray, np.ndarray]:
        """The weights of pairs, and those of first and last labels."""
        return self.transition_, np.stack([self.start_, self.end_])

    def _potentials(self, matrix: Matrix, tail: tuple[np.ndarray, np.ndarray]) -> Potentials:
        """Potentials of rows of float64 under w."""
        nodes = self._form.row_scores(self, matrix)
        return Potentials(nodes, *(values.astype(np.float64) for values in tail))

    def _transitions(
        self, answer: np.ndarray, runner_up: np.ndarray, potentials: Potentials
    ) -> tuple[TransitionTable, np.ndarray]:
        """Where pairs and ends of two sequences differ, and their statistics in the tail."""
        n_labels, classes = len(self.classes_), self.classes_.tolist()
        tail = np.zeros((n_labels + 2 * bool(self.boundary)) * n_labels)
        table: list[tuple[int, tuple, tuple, float]] = []
        weights = np.concatenate([values.ravel() for values in potentials[1:]])
        own, others = (self._tail_places(labels) for labels in (answer, runner_up))
        for (position, labels, place), (_, other_labels, other) in zip(own, others, strict=True):
            if place != other:
                tail[place] += 1.0
                tail[other] -= 1.0
                names = (tuple(classes[k] for k in pair) for pair in (labels, other_labels))
                table.append((position, *names, float(weights[place] - weights[other])))
        columns = [list(column) for column in zip(*table, strict=True)] or [[], [], [], []]
        position, first, second, contribution = columns
        found = TransitionTable(
            np.array(position, dtype=np.int64), first, second, np.array(contribution)
        )
        return found, tail

    def _tail_places(self, labels: np.ndarray) -> list[tuple[int, tuple, int]]:
        """Positions, labels and places in the tail of the pairs and ends of a sequence."""
        n_labels, codes = len(self.classes_), labels.tolist()
        found: list[tuple[int, tuple, int]] = [
            (t + 1, (j, k), j * n_labels + k) for t, (j, k) in enumerate(pairwise(codes))
        ]
        if self.boundary:
            found.insert(0, (0, (codes[0],), n_labels**2 + codes[0]))
            found.append((len(codes), (codes[-1],), n_labels * (n_labels + 1) + codes[-1]))
        return found

    def _example_table(
        self, difference: Difference, training: tuple[Any, Any] | None
    ) -> tuple[ExampleTable | None, float]:
        """What training examples add; and what the prior, or with a kernel the tail, does."""
        if self._form is KERNEL:
            table = by_support_rows(difference, KERNEL.expansion(self), 0.0)
            return table, float(difference.tail @ self._tail())
        if training is None:
            return None, 0.0
        X, y = _both(training)
        matrix, offsets = as_sequences(X, None)
        self._check_columns(X, matrix)
        in_use = self._in_use("explain(x, training=...)", len(offsets) - 1)
        truth = number_labels(as_label_sequences(y, offsets), self.classes_)
        known = in_use, offsets, truth, len(self.classes_)
        prior = self._known_prior()
        assert prior is not None
        return by_examples(
            difference.psi(), prior, matrix, 0.0, offsets, position_statistics(*known),
            tail_statistics(*known, bool(self.boundary)), in_use,
        )  # fmt: skip

    def _trained(self, what, X, y, fit_params):
        matrix, offsets = as_sequences(X, fit_params.pop("lengths", None))
        self._check_columns(X, matrix)
        n = len(offsets) - 1
        weight = check_sample_weight(fit_params.pop("sample_weight", None), n, unit="sequence")
        _refuse(what, fit_params)
        mean, in_use = self._plain_mean(what), self._in_use(what, n)
        truth = number_labels(as_label_sequences(y, offsets), self.classes_).astype(np.int64)
        matrix = matrix.astype(np.float64, copy=False)
        scores = self._potentials(matrix, self._joint_tail())
        zero = Potentials(*(np.zeros_like(values) for values in scores))
        if mean is not None and mean.any():
            own = self._attributes(mean, self._coef_shape())
            nodes = np.asarray(matrix @ own["coef_"].T)
            zero = Potentials(nodes, own["transition_"], np.stack([own["start_"], own["end_"]]))
        sizes = np.diff(offsets)
        unit = 1.0 / sizes if self.loss == "mean_hamming" else np.ones(n)
        return TrainedSequences(
            self._rows(matrix, 0.0), offsets, truth, unit, self.C * weight, scores, zero,
            bool(self.boundary), in_use, self.certificate_.penalty, self.certificate_.rounding,
        )  # fmt: skip

    def suspects(self, X: Any, y: Any, **fit_params: Any) -> Suspects:
        """Training sequences and positions whose labels are most likely wrong.

        What the dual variables of a sequence add to its own scores is known, and is taken away
        before margins are compared: a model that has learned a wrong label is else too sure of it.

        Parameters
        ----------
        X, y, **fit_params
            What `fit` was given.

        Returns
        -------
        Suspects
            With `positions`.

        Examples
        --------
        >>> import numpy as np
        >>> from taut import ChainSVM
        >>> noun, verb = [1.0, -1.0], [-1.0, 1.0]
        >>> X = [np.array([noun, verb, noun]), np.array([verb, noun]), np.array([noun, verb])]
        >>> y = [["noun", "verb", "noun"], ["verb", "noun"], ["noun", "noun"]]
        >>> suspects = ChainSVM(C=0.1, random_state=0).fit(X, y).suspects(X, y)
        >>> suspects.positions.example[0], suspects.positions.position[0]
        (np.int64(2), np.int64(1))
        """
        trained = self._checked("suspects", X, y, dict(fit_params))
        return suspects.of_sequences(trained, self.influence_, self.classes_)

    def leave_one_out_error(self, X: Any, y: Any, **fit_params: Any) -> LeaveOneOut:
        """How often the model would err on a sequence that it is trained without.

        A sequence counts as an error if any of its labels is wrong. The bound holds for the optimum
        without each sequence, with the same C_i; a small `tol` keeps it tight.

        Parameters
        ----------
        X, y, **fit_params
            What `fit` was given.

        Returns
        -------
        LeaveOneOut
            With `position_bound`, the share of positions that may be wrong.

        Examples
        --------
        >>> import numpy as np
        >>> from taut import ChainSVM
        >>> noun, verb = [1.0, -1.0], [-1.0, 1.0]
        >>> X = [np.array([noun, verb])] * 5 + [np.array([verb, noun])] * 5
        >>> y = [["noun", "verb"]] * 5 + [["verb", "noun"]] * 5
        >>> model = ChainSVM(C=0.02, tol=1e-8, random_state=0).fit(X, y)
        >>> model.leave_one_out_error(X, y).bound
        0.0
        """
        trained = self._checked("leave_one_out_error", X, y, dict(fit_params))
        return leave_one_out.of_sequences(trained)


def _both(training: Any) -> tuple[Any, Any]:
    """X and y of training data."""
    if not isinstance(training, tuple | list) or len(training) != 2:
        raise InvalidData("training must be a pair (X, y): give what fit was given")
    return training[0], training[1]


def _refuse(what: str, fit_params: dict[str, Any]) -> None:
    """Refuse what fit does not take."""
    if fit_params:
        raise InvalidData(f"{what} does not take {sorted(fit_params)[0]!r}: leave it out")
