"""Estimators of sequences that explain themselves."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.data.arrays import Matrix, as_sequences
from taut.data.labels import as_label_sequences
from taut.data.targets import number_labels
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.explained import Explained, both, refuse_others
from taut.estimators.forms import KERNEL
from taut.estimators.tables import takes_tables
from taut.explanations import Explanation, LeaveOneOut, Suspects, leave_one_out, suspects
from taut.explanations.difference import Difference, by_examples, by_support_rows
from taut.explanations.report import ExampleTable, PositionTable, TransitionTable
from taut.explanations.sequences import (
    Potentials,
    TrainedSequences,
    position_statistics,
    tail_statistics,
)
from taut.readers.tables import Table


class ExplainedSequences(Explained):
    """Of sequences with a label for each position."""

    boundary: bool
    _bound: Any
    _position_tail: Any
    _tail: Any
    loss: str

    def explain(self, x: Any, training: tuple[Any, Any] | Table | None = None) -> Explanation:
        """Why a sequence has its labels, and not the second best ones.

        Parameters
        ----------
        x : array or CSR of shape (length, n_features)
            One sequence; of tokens, with `features=`, a list of one sequence, such as X[:1].
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
        matrix, offsets = as_sequences(self._extracted(x), None)
        if len(offsets) != 2:
            raise InvalidData(
                f"x holds {len(offsets) - 1} sequences, and explain takes one: give it as a list "
                "of one sequence, such as X[:1]"
            )
        data, w = self._bound(x)
        codes, _scores = data.m_best(w.astype(data.dtype, copy=False), 2, 1)
        answer, runner_up = codes.astype(np.int64)
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
        names = self._column_names()
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
        weights = np.concatenate([values.ravel() for values in potentials[1:]])
        both_places = zip(self._tail_places(answer), self._tail_places(runner_up), strict=True)
        differ = [(own, other) for own, other in both_places if own[2] != other[2]]
        for (_, _, place), (_, _, other) in differ:
            tail[place] += 1.0
            tail[other] -= 1.0
        found = TransitionTable(
            np.array([own[0] for own, _ in differ], dtype=np.int64),
            [tuple(classes[k] for k in own[1]) for own, _ in differ],
            [tuple(classes[k] for k in other[1]) for _, other in differ],
            np.array([weights[own[2]] - weights[other[2]] for own, other in differ]),
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
        self, difference: Difference, training: tuple[Any, Any] | Table | None
    ) -> tuple[ExampleTable | None, float]:
        """What training examples add; and what the prior, or with a kernel the tail, does."""
        if self._form is KERNEL:
            table = by_support_rows(difference, KERNEL.expansion(self), 0.0)
            return table, float(difference.tail @ self._tail())
        if training is None:
            return None, 0.0
        X, y = both(self, training)
        matrix, offsets = as_sequences(self._extracted(X), None)
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
        lengths = fit_params.pop("lengths", None)
        matrix, offsets = as_sequences(self._extracted(X), lengths)
        self._check_columns(X, matrix)
        n = len(offsets) - 1
        weight = check_sample_weight(fit_params.pop("sample_weight", None), n, unit="sequence")
        refuse_others(what, fit_params)
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

    @takes_tables
    def suspects(self, X: Any, y: Any = None, **fit_params: Any) -> Suspects:
        """Training sequences and positions whose labels are most likely wrong.

        In the order of their margins: by how much the best labels with the given one at a position
        beat those without it. A sequence is as suspect as the worst of its positions.

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
        >>> print(suspects.positions.example[0], suspects.positions.position[0])
        2 1
        """
        trained = self._checked("suspects", X, y, dict(fit_params))
        return suspects.of_sequences(trained, self.influence_, self.classes_)

    @takes_tables
    def leave_one_out_error(self, X: Any, y: Any = None, **fit_params: Any) -> LeaveOneOut:
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
        self._refuse_rounded("leave_one_out_error")
        trained = self._checked("leave_one_out_error", X, y, dict(fit_params))
        return leave_one_out.of_sequences(trained)
