"""What estimators with latent values share: their rounds, and bags of rows of which one decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.binding import complete
from taut.checks import check_choice
from taut.data.arrays import Checked, Matrix, as_matrix, as_sequences, holds_sequences
from taut.data.chunks import Chunk
from taut.data.labels import as_labels, share_right
from taut.data.source import Source
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import columns_of, estimator
from taut.estimators.classification import LinearClassifier
from taut.estimators.forms import KERNEL, form_of
from taut.estimators.online import Answers, OnlineEstimator
from taut.estimators.tables import refuse_beside, takes_tables
from taut.latent.alternation import LatentProblem, StreamedLatentProblem, alternate
from taut.problem import Problem
from taut.structures.bags import STARTS, first_bags
from taut.structures.base import as_stacked


@estimator
class Alternating(OnlineEstimator):
    """Rounds that impute the latent values and solve the rest."""

    max_rounds: int = 20
    round_tol: float = 1e-3

    @property
    def partial_fit(self) -> Any:
        """Not there: rounds go over all data again and again."""
        raise AttributeError(f"{type(self).__name__} has no partial_fit: its rounds need all data")

    @property
    def compress(self) -> Any:
        """Not there: the certificate is that of the last round's latent values alone."""
        raise AttributeError(
            f"{type(self).__name__} has no compress: its certificate is that of latent values that "
            "fewer rows would change"
        )

    def _alternate(
        self,
        kind: Callable[..., LatentProblem],
        coef_shape: tuple[int, int] | None,
        facts: dict[str, Any] | None,
        *data: Any,
        **more: Any,
    ) -> tuple[Problem, dict[str, Any]]:
        """The problem of the last latent parts, and all fitted attributes but these parts.

        `facts` are those that do not depend on w, or None where more is needed to predict.
        """
        form = form_of(self.kernel)
        problem = kind(
            *data, C=self.C, n_jobs=self._threads(), regularizer=form.regularizer(self, coef_shape),
            **more,
        )  # fmt: skip
        options, fitted_before = self._options(), {"coef_", "dual_coef_"} & vars(self).keys()
        if facts is not None:
            self._describe(lambda w, of: form.attributes(self, w, coef_shape, of) | facts)
        result = alternate(
            problem,
            max_rounds=self.max_rounds,
            round_tol=self.round_tol,
            start=self._form.point(self) if self.warm_start and fitted_before else None,
            **options,
        )
        fitted = self._facts(result) | {"rounds_": result.rounds}
        own = form.attributes(self, result.w, coef_shape, result.problem)
        return result.problem, fitted | own | (facts or {})


@estimator
class BagClassifier(LinearClassifier, Alternating):
    """Classes of bags of rows, by the best row of each.

    What differs is said by five small methods: what is known of the classes, how many columns of
    weights they have, the structure, which bags have a latent row, and the truths as the structure
    takes them.
    """

    start: str = "mean"

    _parts_of = "sequences"
    _takes_single_rows = True

    def _known(self, classes: np.ndarray) -> dict[str, Any]:
        """The fitted attributes that follow from the classes, if they can be told apart."""
        raise NotImplementedError

    def _columns(self, n_classes: int) -> int:
        """Columns of weights."""
        raise NotImplementedError

    def _structure(self, known: dict[str, Any]) -> Any:
        """A structure with `complete`."""
        raise NotImplementedError

    def _latent_in(self, codes: np.ndarray) -> np.ndarray:
        """Whether bags of these classes have a row that decides alone."""
        raise NotImplementedError

    def _truths(self, codes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Truths of these classes because of these rows."""
        raise NotImplementedError

    @takes_tables
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None) -> Self:
        """Fit bags to classes.

        Parameters
        ----------
        X : list of (n_rows, n_features) arrays or CSR, one stacked matrix, or Source
            A source has a label of its own for each bag.
        y : array of shape (n_bags,)
            Labels of any hashable type.
        sample_weight : array of shape (n_bags,), optional
        lengths : array of int, optional
            Numbers of rows of the bags of a stacked X; without it, each row is a bag.
        """
        check_choice("start", self.start, STARTS)
        if isinstance(X, Source):
            return self._fit_source(X, y=y, sample_weight=sample_weight, lengths=lengths)
        matrix, offsets = as_bags(X, lengths)
        classes, codes, weight = self._labelled(y, len(offsets) - 1, sample_weight, "bag")
        known = self._known(classes)
        facts = columns_of(X, matrix) | known
        return self._keep(self._fit_bags(matrix, offsets, codes, weight, facts))

    def _fit_bags(
        self,
        matrix: Matrix,
        offsets: np.ndarray,
        codes: np.ndarray,
        weight: np.ndarray,
        facts: dict[str, Any],
    ) -> dict[str, Any]:
        """The fitted attributes, from checked data."""
        structure = self._structure(facts)
        shape = self._columns(len(facts["classes_"])), matrix.shape[1]
        X, y = (Checked(matrix), offsets), self._truths(codes, np.zeros_like(codes))
        first = self._first(matrix, offsets, codes, self._seed())
        last, fitted = self._alternate(
            LatentProblem, shape, facts, structure, X, y, sample_weight=weight, first=first,
            space=form_of(self.kernel).space(self, structure),
        )  # fmt: skip
        latent = np.asarray(last.y, dtype=np.intp).reshape(len(codes), -1)[:, -1]
        return fitted | {"latent_": latent[self._latent_in(codes)]}

    def _first(
        self, matrix: Matrix, offsets: np.ndarray, codes: np.ndarray, seed: int
    ) -> tuple[tuple[Checked, np.ndarray], np.ndarray]:
        """Bags and truths of the first round."""
        if self.start == "mean" and form_of(self.kernel) is KERNEL:
            raise InvalidData(
                f"start = 'mean' begins with means of rows, and kernel = {self.kernel!r} has "
                "features whose means are those of no row: give start='first' or start='random'"
            )
        X, rows = first_bags(matrix, offsets, self._latent_in(codes), self.start, seed)
        return X, self._truths(codes, rows)

    def _fit_source(self, source: Source, **others: Any) -> Self:
        refuse_beside(others)
        self._needs_parts()
        classes, n = self._classes_of(source), source.n_features or 0
        known = self._known(classes)
        structure, shape = self._structure(known), (self._columns(len(classes)), n)
        factors, seed = self._class_factors(source, classes), self._seed()
        weighted = self._recode(source, factors)

        def impute(chunk: Chunk, w: np.ndarray | None) -> Chunk:
            chunk = weighted(chunk)
            codes = np.asarray(chunk.y)
            if w is None:
                (rows, ends), y = self._first(*as_stacked(chunk.examples), codes, seed)
                return replace(chunk, X=rows.matrix, offsets=ends, y=y)
            y = self._truths(codes, np.zeros_like(codes))
            return replace(chunk, y=np.asarray(complete(structure, chunk.examples, y, w)))

        _, fitted = self._alternate(
            StreamedLatentProblem, shape, known | {"n_features_in_": n}, structure, source, impute,
            recoding=factors.tobytes(),
        )  # fmt: skip
        return self._keep(fitted)

    def predict(self, X: Any, *, lengths: Any = None) -> np.ndarray:
        """The class of each bag."""
        raise NotImplementedError

    @takes_tables
    def score(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, lengths: Any = None
    ) -> float:
        """Share of bags whose class is right; a source has labels and weights of its own."""
        return share_right(*self._answers(X, y, sample_weight, lengths=lengths)[:3])

    def _answer(
        self, X: Any, y: Any, sample_weight: Any, *, lengths: Any = None, **layout: Any
    ) -> Answers:
        predicted = self.predict(X, lengths=lengths)
        weight = check_sample_weight(sample_weight, len(predicted), unit="bag")
        return Answers.of_blocks(predicted, as_labels(y, len(predicted), unit="bag"), weight)

    def _bag_scores(self, X: Any, lengths: Any) -> tuple[np.ndarray, np.ndarray]:
        """Scores of the rows of all bags, and where each bag begins."""
        check_is_fitted(self)
        matrix, offsets = as_bags(X, lengths)
        self._check_columns(X, matrix)
        return self._row_scores(matrix), offsets


def as_bags(X: Any, lengths: Any) -> tuple[Matrix, np.ndarray]:
    """Bags as one matrix, and where each begins; rows without lengths are bags of one."""
    if lengths is not None or holds_sequences(X):
        return as_sequences(X, lengths)
    matrix = as_matrix(X)
    return matrix, np.arange(matrix.shape[0] + 1)
