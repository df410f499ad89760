"""Measures of predictions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taut.data.arrays import as_numbers, as_offsets
from taut.data.class_trees import as_tree, is_tree
from taut.data.costs import check_cost, load_cost
from taut.data.labels import are_right, as_label_sequences, as_labels, is_nested, share_right
from taut.data.queries import as_queries, as_relevances, check_k, discounts, gains, shared_worth
from taut.data.targets import number_labels
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData

__all__ = [
    "chunk_f1",
    "hierarchical_f1",
    "level_accuracy",
    "mean_cost",
    "ndcg",
    "position_accuracy",
    "sequence_accuracy",
]


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


def mean_cost(
    y: Any, predicted: Any, cost: Any, *, classes: Any = None, sample_weight: Any = None
) -> float:
    """Mean cost of answers.

    Parameters
    ----------
    y, predicted : array-like of shape (n,)
        Labels of any hashable type.
    cost : matrix, tree or path
        What the parameter `cost` of `taut.MulticlassSVM` takes: cost[truth, answer], a tree, whose
        cost is the height of the lowest common ancestor, or the path of a CSV file.
    classes : sequence, optional
        The labels of the rows of a matrix, or of the leaves of a list of parents, in order; 0, 1,
        ... by default. A tree that names its leaves needs none.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        0 where all answers are right.

    Raises
    ------
    InvalidData
        A label is none of the classes, or `cost` is none.

    Examples
    --------
    >>> from taut.metrics import mean_cost
    >>> tree = {"fish": ["ray", "trout"], "flowers": ["poppy", "rose"]}
    >>> mean_cost(["ray", "ray", "rose", "rose"], ["ray", "trout", "rose", "trout"], tree)
    0.75
    """
    if is_tree(cost):
        tree = as_tree(cost, "cost")
        named = tree.classes(classes)
        costs = tree.heights(named)
    else:
        given = load_cost(cost, classes) if isinstance(cost, str | os.PathLike) else cost
        costs = check_cost(given, None if classes is None else len(classes))
        named = np.arange(len(costs)) if classes is None else classes
    truth, answers, weight = _coded(y, predicted, named, sample_weight)
    return float(np.average(costs[truth, answers], weights=weight))


def level_accuracy(
    y: Any, predicted: Any, tree: Any, height: float, *, classes: Any = None,
    sample_weight: Any = None,
) -> float:  # fmt: skip
    """Share of answers that are right at a level of a tree of classes.

    An answer is right if it is in the same group of this height as the truth. Where a branch has no
    group of just this height, its largest lower one counts.

    Parameters
    ----------
    y, predicted : array-like of shape (n,)
    tree : dict, list, set, array or networkx graph
        As for `taut.structures.tree_cost`.
    height : float
        0 for the classes themselves, 1 for the groups in which nothing but classes is, and so on up
        to the height of the tree, at which all answers are right.
    classes : sequence, optional
        The labels of the leaves of a list of parents, in order; 0, 1, ... by default.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from taut.metrics import level_accuracy
    >>> tree = {"fish": ["ray", "trout"], "flowers": ["poppy", "rose"]}
    >>> y, predicted = ["ray", "ray", "rose", "rose"], ["ray", "trout", "rose", "trout"]
    >>> level_accuracy(y, predicted, tree, 0), level_accuracy(y, predicted, tree, 1)
    (0.5, 0.75)
    """
    level: Any = height
    if not isinstance(level, Real) or not float(level) >= 0.0:
        raise InvalidData(f"height = {level!r}: give a number >= 0, 0 for the classes themselves")
    checked = as_tree(tree, "tree")
    named = checked.classes(classes)
    truth, answers, weight = _coded(y, predicted, named, sample_weight)
    # Heights rise on the way up: two classes share a group of at most this height if the lowest
    # that they share is one.
    right = checked.heights(named)[truth, answers] <= float(level)
    return float(np.average(right, weights=weight))


def hierarchical_f1(
    y: Any, predicted: Any, tree: Any, *, classes: Any = None, sample_weight: Any = None
) -> float:
    """F1 of the groups that answers are in (Kiritchenko, Matwin and Famili 2005).

    A class stands for itself and all groups above it but the root, which is the lowest group that
    has all classes in it. F1 is 2 shared / (true + predicted), each counted over all answers
    together: the harmonic mean of hierarchical precision and recall.

    Parameters
    ----------
    y, predicted : array-like of shape (n,)
    tree : dict, list, set, array or networkx graph
        As for `taut.structures.tree_cost`.
    classes : sequence, optional
        The labels of the leaves of a list of parents, in order; 0, 1, ... by default.
    sample_weight : array-like of shape (n,), optional

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from taut.metrics import hierarchical_f1
    >>> tree = {"fish": ["ray", "trout"], "flowers": ["poppy", "rose"]}
    >>> hierarchical_f1(["ray", "ray", "rose", "rose"], ["ray", "trout", "rose", "trout"], tree)
    0.625
    """
    checked = as_tree(tree, "tree")
    named = checked.classes(classes)
    truth, answers, weight = _coded(y, predicted, named, sample_weight)
    shared = checked.shared(named)
    sizes = np.diagonal(shared)
    total = weight @ (sizes[truth] + sizes[answers])
    return float(2.0 * (weight @ shared[truth, answers]) / total)


def _coded(
    y: Any, predicted: Any, classes: Any, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truths and answers by class, and their weights."""
    n = len(y)
    if n == 0 or len(predicted) != n:
        raise InvalidData(
            f"y has {n} labels, predicted has {len(predicted)}: give an answer to each, and at "
            "least one"
        )
    plain = classes.tolist() if isinstance(classes, np.ndarray) else classes
    named = np.fromiter(plain, dtype=object)  # in any order, which sorted numbers are not
    truth, answers = (
        number_labels(as_labels(labels, n, name), named, name)
        for labels, name in ((y, "y"), (predicted, "predicted"))
    )
    return truth, answers, check_sample_weight(sample_weight, n, unit="label")


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
