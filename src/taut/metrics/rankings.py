"""Measures of rankings."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from taut.data.arrays import as_numbers
from taut.data.queries import as_queries, as_relevances, check_k, discounts, gains, shared_worth
from taut.data.weights import check_sample_weight


def ndcg(
    y: Any,
    scores: Any,
    *,
    k: int | None = 10,
    groups: Any = None,
    lengths: ArrayLike | None = None,
    sample_weight: Any = None,
) -> float:
    """Mean normalised discounted cumulative gain of rankings by score.

    DCG = sum over the documents of a query of (2^relevance - 1) / log2(1 + rank), over the ranks
    1..k that falling scores give; documents of equal score share what their ranks are worth. NDCG
    is DCG by the DCG of the ranking by relevance, and 1 for a query without relevant documents,
    which no ranking can spoil.

    Parameters
    ----------
    y : list of relevance lists, or one relevance per document
        Numbers >= 0, such as 0 to 4.
    scores : list of score lists, or one score per document
    k : int or None, default=10
        Ranks that count; None for all.
    groups : array of shape (n_documents,), optional
        The query of each document; queries are numbered by their first documents.
    lengths : array of int, optional
        Documents of each query, which stand together. Without both, all are of one query.
    sample_weight : array of shape (n_queries,), optional

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from taut.metrics import ndcg
    >>> ndcg([[2, 0, 1], [1, 0]], [[3.0, 2.0, 1.0], [0.5, 0.1]])
    0.98197...
    """
    if groups is None and lengths is None and np.ndim(scores[0]) > 0:
        lengths, scores = [len(part) for part in scores], np.concatenate(list(scores))
    values = as_numbers(scores, "scores").reshape(-1, 1)
    queries = as_queries(values, groups, lengths, "scores")
    relevance = as_relevances(y, queries)
    weight = check_sample_weight(sample_weight, len(queries.offsets) - 1, unit="query")
    return mean_ndcg(relevance, queries.matrix[:, 0], queries.offsets, k, weight)


def mean_ndcg(
    relevance: np.ndarray,
    scores: np.ndarray,
    offsets: np.ndarray,
    k: int | None,
    weight: np.ndarray,
) -> float:
    """As `ndcg`, of stacked arrays that have been checked."""
    check_k(k)
    gain, worth = gains(relevance), discounts(int(np.diff(offsets).max()), k)
    found, best = (
        np.add.reduceat(gain * shared_worth(keys, offsets, worth), offsets[:-1])
        for keys in (scores, relevance)
    )
    values = np.divide(found, best, out=np.ones(len(best)), where=best > 0.0)
    # Sums of the same terms in another order may differ in their last digits.
    return float(np.average(np.minimum(values, 1.0), weights=weight))
