"""Ranking of the documents of queries."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from taut.checks import check_choice
from taut.data.arrays import Checked, as_sequences, holds_sequences
from taut.data.queries import Queries, as_queries, as_relevances, check_k
from taut.data.source import Source
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import columns_of, estimator
from taut.estimators.online import Answers, OnlineSequences, Plan, real_targets, takes_sources
from taut.estimators.tables import takes_tables
from taut.metrics import mean_ndcg
from taut.structures import NdcgRanking, PairwiseRanking

_LOSSES = ["ndcg", "pairwise"]


@estimator
class RankSVM(OnlineSequences):
    """Scores by which the more relevant documents of a query come first.

    Minimises P(w) = 1/2 |w|^2 + C sum_q weight_q loss_q(w), where the loss of query q is

    - "pairwise": the sum of max(0, 1 - <w, x_a - x_b>) over its pairs of documents (a, b) of which
      a is more relevant, so that queries count by their numbers of pairs;
    - "ndcg": max over its rankings r of 1 - NDCG@k(r) - <w, phi(truth) - phi(r)>, an upper bound on
      what the ranking by <w, x> lacks of NDCG@k = 1. See `taut.structures.NdcgRanking`.

    There is no intercept: it would change no ranking. With a kernel, `support_` counts documents in
    the order of their queries.

    Parameters
    ----------
    {training}
    loss : "pairwise" or "ndcg", default="pairwise"
    k : int or None, default=10
        Ranks that count in the loss "ndcg" and in `score`; None for all.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    {fitted}

    Examples
    --------
    >>> import numpy as np
    >>> from taut import RankSVM
    >>> X = np.array([[0.0], [2.0], [1.0], [5.0], [4.0]])
    >>> model = RankSVM(C=1.0, random_state=0).fit(X, [0, 2, 1, 1, 0], groups=[7, 7, 7, 3, 3])
    >>> model.predict(X).argsort()
    array([0, 2, 1, 4, 3])
    >>> model.score(X, [0, 2, 1, 1, 0], groups=[7, 7, 7, 3, 3])
    1.0
    """

    loss: str = "pairwise"
    k: int | None = 10

    _takes_sparse = _needs_y = True

    @takes_tables
    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        lengths: Any = None,
    ) -> Self:
        """Fit queries.

        Parameters
        ----------
        X : list of (n_documents, n_features) arrays or CSR, one stacked matrix, or Source
            A source has relevances of its own.
        y : list of relevance lists, or one relevance per document
            Numbers >= 0, larger for more relevant documents.
        sample_weight : array of shape (n_queries,), optional
            Weights of queries, in the order of their first documents.
        groups : array of shape (n_documents,), optional
            The query of each row of a stacked X, of any hashable type and in any order.
        lengths : array of int, optional
            Rows of each query of a stacked X, which stand together. Without both, X is one query.
        """
        if isinstance(X, Source):
            return self._fit_source(
                X, y=y, sample_weight=sample_weight, groups=groups, lengths=lengths
            )
        queries, relevance, weight = self._blocks(X, y, sample_weight, groups, lengths)
        columns = columns_of(X, queries.matrix)
        if queries.order is not None and get_tags(self).input_tags.pairwise:
            raise InvalidData(
                "groups puts documents into another order, in which a precomputed kernel matrix "
                "does not have them: sort its rows and columns by query, and give lengths"
            )
        rows, shape = (Checked(queries.matrix), queries.offsets), (1, queries.matrix.shape[1])
        return self._keep(self._train(self._structure(), rows, relevance, weight, shape, columns))

    def _plan(self, source: Source) -> Plan:
        n = source.n_features or 0
        return Plan(self._structure(), real_targets(source), (1, n), {"n_features_in_": n})

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        return {"coef_": w}

    def _structure(self) -> NdcgRanking | PairwiseRanking:
        check_choice("loss", self.loss, _LOSSES)
        check_k(self.k)
        return NdcgRanking(self.k) if self.loss == "ndcg" else PairwiseRanking()

    def _blocks(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, lengths: Any
    ) -> tuple[Queries, np.ndarray, np.ndarray]:
        """Checked queries, relevances and weights."""
        queries = as_queries(X, groups, lengths)
        self._need(y)
        relevance = as_relevances(y, queries)
        n = len(queries.offsets) - 1
        return queries, relevance, check_sample_weight(sample_weight, n, unit="query")

    @takes_sources
    def predict(self, X: Any, *, lengths: Any = None) -> list[np.ndarray] | np.ndarray:
        """Scores: higher ones rank first; one array per query of a list, or one per stacked X."""
        check_is_fitted(self)
        matrix, offsets = as_sequences(X, lengths)
        self._check_columns(X, matrix)
        scores = self._scores(matrix)
        return np.split(scores, offsets[1:-1]) if holds_sequences(X, lengths) else scores

    @takes_tables
    def score(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        groups: Any = None,
        lengths: Any = None,
    ) -> float:
        """Mean NDCG@k over the queries; 1 for one without relevant documents.

        A source has relevances and weights of its own.
        """
        scores, relevance, weight, offsets = self._answers(
            X, y, sample_weight, groups=groups, lengths=lengths
        )
        return mean_ndcg(relevance, scores, offsets, self.k, weight)

    def _answer(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        *,
        groups: Any = None,
        lengths: Any = None,
        **layout: Any,
    ) -> Answers:
        check_is_fitted(self)
        queries, relevance, weight = self._blocks(X, y, sample_weight, groups, lengths)
        self._check_columns(X, queries.matrix)
        return Answers(self._scores(queries.matrix), relevance, weight, queries.offsets)

    def _scores(self, matrix: Any) -> np.ndarray:
        return self._form.row_scores(self, matrix).reshape(-1)

    def _joint_weights(self) -> np.ndarray:
        """W of the fitted attributes."""
        return self.coef_
