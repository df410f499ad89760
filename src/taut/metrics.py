"""Measures of predictions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taut.data.arrays import as_numbers, as_offsets
from taut.data.labels import are_right, as_label_sequences, is_nested, share_right
from taut.data.queries import as_queries, as_relevances, check_k, discounts, gains, shared_worth
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData

__all__ = ["chunk_f1", "ndcg", "position_accuracy", "sequence_accuracy"]


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


def position_accuracy(
    y: Any, predicted: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None
) -> float:
    """Share of positions whose label is right.

    Parameters
    ----------
    y : list of label sequences, or one label per position
    predicted : list of label sequences, or one label per position
    lengths : array of int, optional
        Lengths of the sequences of stacked labels; without it, they are one sequence.
    sample_weight : array of shape (n_sequences,), optional
        Weight of each position of a sequence.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from taut.metrics import position_accuracy
    >>> position_accuracy([["a", "b", "b"], ["a"]], [["a", "b", "a"], ["a"]])
    0.75
    """
    return LabelPairs.check(y, predicted, lengths, sample_weight).position_accuracy()


def sequence_accuracy(
    y: Any, predicted: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None
) -> float:
    """Share of sequences whose labels are all right.

    Parameters
    ----------
    y, predicted, lengths
        As for `position_accuracy`.
    sample_weight : array of shape (n_sequences,), optional

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from taut.metrics import sequence_accuracy
    >>> sequence_accuracy([["a", "b", "b"], ["a"]], [["a", "b", "a"], ["a"]])
    0.5
    """
    return LabelPairs.check(y, predicted, lengths, sample_weight).sequence_accuracy()


def chunk_f1(
    y: Any, predicted: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None
) -> float:
    """F1 of the chunks that BIO tags mark, by the rules of the CoNLL-2000 task.

    Tags are "O" outside of chunks, "B-TYPE" where a chunk begins, "I-TYPE" where it goes on; the
    type may be left out. An "I-TYPE" that continues no chunk of its type, since it comes first,
    after "O" or after another type, begins a chunk, in the truth as in predictions. The end of a
    sequence ends a chunk. A chunk is right if the truth has one of the same type, beginning and
    end. F1 is 2 right / (true + predicted) over the chunks of all types and sequences together,
    the harmonic mean of precision and recall; 1 if there are no chunks, true or predicted.

    Parameters
    ----------
    y, predicted, lengths
        As for `position_accuracy`.
    sample_weight : array of shape (n_sequences,), optional
        What each chunk of a sequence counts.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    InvalidData
        A label is no such tag.

    Examples
    --------
    >>> from taut.metrics import chunk_f1
    >>> y = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP"]]
    >>> chunk_f1(y, [["B-NP", "I-NP", "O", "O"], ["I-NP"]])
    0.8
    """
    return LabelPairs.check(y, predicted, lengths, sample_weight).chunk_f1()


class LabelPairs(NamedTuple):
    """True and predicted labels of sequences, stacked and checked, with a weight per sequence."""

    truth: np.ndarray
    predicted: np.ndarray
    offsets: np.ndarray
    weight: np.ndarray

    @classmethod
    def check(cls, y: Any, predicted: Any, lengths: Any, sample_weight: Any) -> LabelPairs:
        """From what users give."""
        y = np.asarray(y) if hasattr(y, "__array__") else y
        nested = is_nested(y, len(y) if lengths is None else len(lengths))
        if nested and lengths is None:
            lengths = [len(labels) for labels in y]
        offsets = as_offsets(lengths, sum(map(len, y)) if nested else len(y), "y")
        return cls(
            as_label_sequences(y, offsets),
            as_label_sequences(predicted, offsets, "predicted", "y"),
            offsets,
            check_sample_weight(sample_weight, len(offsets) - 1, unit="sequence"),
        )

    def position_accuracy(self) -> float:
        """The function of this name."""
        weight = np.repeat(self.weight, np.diff(self.offsets))
        return share_right(self.predicted, self.truth, weight)

    def sequence_accuracy(self) -> float:
        """The function of this name."""
        right = are_right(self.predicted, self.truth)
        whole = np.logical_and.reduceat(right, self.offsets[:-1])
        return float(np.average(whole, weights=self.weight))

    def chunk_f1(self) -> float:
        """The function of this name."""
        right = marked = 0.0
        true_tags = _split_tags(self.truth, "y")
        predicted_tags = _split_tags(self.predicted, "predicted")
        for (start, stop), weight in zip(pairwise(self.offsets), self.weight.tolist(), strict=True):
            true, predicted = (
                set(_chunks(tags[start:stop])) for tags in (true_tags, predicted_tags)
            )
            right += weight * len(true & predicted)
            marked += weight * (len(true) + len(predicted))
        return 2.0 * right / marked if marked > 0.0 else 1.0


def _split_tags(labels: np.ndarray, name: str) -> list[tuple[str, str]]:
    """B, I or O and the type of each tag."""
    tags = []
    for t, tag in enumerate(labels.tolist()):
        place, _, kind = tag.partition("-") if isinstance(tag, str) else ("", "", "")
        if place not in ("B", "I") and tag != "O":
            raise InvalidData(
                f"{name} has the label {tag!r} at position {t}: chunks are marked by 'O', "
                "'B-TYPE' and 'I-TYPE'; measure other labels by their accuracy"
            )
        tags.append((place, kind))
    return tags


def _chunks(tags: list[tuple[str, str]]) -> Iterator[tuple[int, int, str]]:
    """Beginning, end and type of each chunk of a sequence."""
    start, inside = 0, None
    for t, (place, kind) in enumerate([*tags, ("O", "")]):
        if inside is not None and (place != "I" or kind != inside):
            yield start, t, inside
            inside = None
        if inside is None and place != "O":
            start, inside = t, kind
