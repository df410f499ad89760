"""Sequence labelling."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.binding import CompiledData
from taut.checks import check_choice, check_flag
from taut.data.arrays import Checked, as_sequences, holds_sequences
from taut.data.labels import as_label_sequences, class_index
from taut.data.sequences import unstacked
from taut.data.source import Source
from taut.data.targets import number_labels
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import columns_of, estimator
from taut.estimators.distributions import LabelDistribution, normalizes
from taut.estimators.explained_sequences import ExplainedSequences
from taut.estimators.extracting import Extracting, top_pairs
from taut.estimators.online import Answers, OnlineSequences, Plan, takes_sources
from taut.estimators.tables import takes_tables
from taut.metrics import LabelPairs
from taut.spaces.expansion import KernelExpansion
from taut.structures import Chain

_METRICS = {
    "accuracy": LabelPairs.position_accuracy,
    "sequence": LabelPairs.sequence_accuracy,
    "chunk_f1": LabelPairs.chunk_f1,
}


@estimator
class ChainSVM(Extracting, ExplainedSequences, OnlineSequences, LabelDistribution):
    """Labels for the positions of sequences: weights per label, and per pair of neighbours.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max_y [loss(y_i, y) - score(y_i) + score(y)] with
    score(y) = sum_t <coef[y_t], x_t> + transition[y_t-1, y_t].

    Parameters
    ----------
    {training}
    loss : "hamming" or "mean_hamming", default="hamming"
        Number of wrong labels in a sequence, or their share.
    boundary : bool, default=False
        Add weights for the labels of the first and of the last position.
    {features}

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
    transition_ : ndarray of shape (n_labels, n_labels)
        Weight of each pair of neighbours, previous label first.
    start_, end_ : ndarray of shape (n_labels,)
        Weights of first and last labels; zero without `boundary`.
    classes_ : ndarray of shape (n_labels,)
    temperature_ : float
        What `fit_temperature` has found, for `predict_marginals`.
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import ChainSVM
    >>> X = [np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])]
    >>> y = [["noun", "verb", "noun"], ["verb", "noun"]]
    >>> model = ChainSVM(C=10.0, random_state=0).fit(X, y)
    >>> [list(labels) for labels in model.predict(X)] == y
    True
    """

    loss: str = "hamming"
    boundary: bool = False

    _takes_sparse = _needs_y = True

    @takes_tables
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None) -> Self:
        """Fit sequences.

        Parameters
        ----------
        X : list of (length, n_features) arrays or CSR, one stacked matrix, or Source
            A source has labels of its own. With `features`, what that takes, such as a list of
            sequences of tokens, or one list of tokens with `lengths`.
        y : list of label sequences, or one stacked sequence
            Labels of any hashable type.
        sample_weight : array of shape (n_sequences,), optional
        lengths : array of int, optional
            Lengths of the sequences of a stacked X; without it, X is one sequence.
        """
        if isinstance(X, Source):
            return self._fit_source(X, y=y, sample_weight=sample_weight, lengths=lengths)
        extracted: dict[str, Any] = {}
        if self.features is not None:
            X, extracted = self._extract_to_fit(unstacked(X, lengths))
            lengths = None
        matrix, offsets = as_sequences(X, lengths)
        self._need(y)
        classes, codes = class_index(as_label_sequences(y, offsets))
        weight = check_sample_weight(sample_weight, len(offsets) - 1, unit="sequence")
        columns = columns_of(X, matrix) | extracted | {"classes_": classes}
        structure, shape = self._structure(len(classes)), (len(classes), matrix.shape[1])
        rows = (Checked(matrix), offsets)
        return self._keep(self._train(structure, rows, codes, weight, shape, columns))

    def top_transitions(
        self, n: int = 10, *, against: bool = False
    ) -> list[tuple[Any, Any, float]]:
        """The pairs of neighbouring labels with the largest weights.

        Parameters
        ----------
        n : int, default=10
        against : bool, default=False
            Those with the smallest weights instead.

        Returns
        -------
        list of (previous label, label, weight)
            Without those whose weight is zero or of the other sign.

        Examples
        --------
        >>> from taut import ChainSVM
        >>> X, y = [[[1.0], [1.0], [1.0]]], [["a", "b", "a"]]
        >>> model = ChainSVM(C=10.0, random_state=0).fit(X, y)
        >>> sorted(pair[:2] for pair in model.top_transitions(2))
        [('a', 'b'), ('b', 'a')]
        """
        check_is_fitted(self)
        return top_pairs(self.classes_, self.transition_, n, against)

    def _structure(self, n_labels: int) -> Chain:
        check_flag("boundary", self.boundary)
        return Chain(n_labels, normalizes(self.loss), bool(self.boundary))

    def _plan(self, source: Source) -> Plan:
        n, classes = source.n_features or 0, source.classes
        if classes is None:
            raise InvalidData("ChainSVM needs labels, and the targets of the source are none")
        classes = class_index(classes)[0]
        return Plan(
            self._structure(len(classes)),
            lambda chunk: replace(chunk, y=source.codes(chunk)),
            (len(classes), n),
            {"classes_": classes, "n_features_in_": n},
        )

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        labels, features = coef_shape
        nodes, tail = np.split(w, [features * labels])
        coef = np.ascontiguousarray(nodes.reshape(features, labels).T)
        return {"coef_": coef} | self._tail_attributes(tail, labels)

    @takes_sources
    def predict(self, X: Any, *, lengths: Any = None) -> list[np.ndarray] | np.ndarray:
        """The best labels: one array per sequence, or one stacked array for a stacked X."""
        labels, offsets = self._labels(X, lengths)
        return self._by_example(labels, offsets, X, lengths=lengths)

    @takes_tables
    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        lengths: Any = None,
        metric: str = "accuracy",
    ) -> float:
        """How good predictions are, between 0 and 1.

        Parameters
        ----------
        X, y, lengths
            As for `fit`; a source has labels and weights of its own.
        sample_weight : array of shape (n_sequences,), optional
        metric : "accuracy", "sequence" or "chunk_f1", default="accuracy"
            Share of positions whose label is right, share of sequences whose labels are all right,
            or F1 of the chunks that BIO tags mark; see `taut.metrics`.
        """
        check_choice("metric", metric, sorted(_METRICS))
        predicted, truth, weight, offsets = self._answers(X, y, sample_weight, lengths=lengths)
        return _METRICS[metric](LabelPairs(truth, predicted, offsets, weight))

    def _answer(
        self, X: Any, y: Any, sample_weight: Any, *, lengths: Any = None, **layout: Any
    ) -> Answers:
        predicted, offsets = self._labels(X, lengths)
        truth = as_label_sequences(y, offsets)
        weight = check_sample_weight(sample_weight, len(offsets) - 1, unit="sequence")
        return Answers(predicted, truth, weight, offsets)

    def _labels(self, X: Any, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
        """The best labels of all sequences, stacked, and where each sequence begins."""
        data, w = self._bound(X, lengths=lengths)
        codes = data.labels(w.astype(data.dtype, copy=False), self._threads())
        return self.classes_[codes], data.blocks.offsets

    def _bound(
        self, X: Any, y: Any = None, *, lengths: Any = None
    ) -> tuple[CompiledData, np.ndarray]:
        check_is_fitted(self)
        if hasattr(self, "features_"):
            X, lengths = self._extracted(unstacked(X, lengths)), None
        matrix, offsets = as_sequences(X, lengths)
        self._check_columns(X, matrix)
        codes = None if y is None else number_labels(as_label_sequences(y, offsets), self.classes_)
        structure = Chain(len(self.classes_), boundary=True)
        return self._form.bound(self, structure, (Checked(matrix), offsets), codes)

    def _by_example(
        self, values: np.ndarray, offsets: np.ndarray, X: Any, *, lengths: Any = None
    ) -> list[np.ndarray] | np.ndarray:
        return np.split(values, offsets[1:-1]) if holds_sequences(X, lengths) else values

    def _position_weights(self) -> np.ndarray:
        return np.concatenate([self.coef_.T.ravel(), self._position_tail()])

    def _position_scores(self, expansion: KernelExpansion) -> KernelExpansion:
        return expansion.with_tail(self._position_tail())

    def _position_tail(self) -> np.ndarray:
        """The weights of a chain that has those of first and last labels."""
        return np.concatenate([self.transition_.ravel(), self.start_, self.end_])

    def _tail_attributes(self, tail: np.ndarray, columns: int) -> dict[str, np.ndarray]:
        pairs, ends = np.split(tail, [columns * columns])
        start, end = ends.reshape(2, columns) if len(ends) else np.zeros((2, columns))
        return {
            "transition_": pairs.reshape(columns, columns).copy(),
            "start_": start.copy(),
            "end_": end.copy(),
        }

    def _tail(self) -> np.ndarray:
        tail = self._position_tail()
        return tail if self.boundary else tail[: self.transition_.size]

    def _joint_weights(self) -> np.ndarray:
        """W of the fitted attributes: the inverse of `_attributes`."""
        return np.concatenate([self.coef_.T.ravel(), self._tail()])
