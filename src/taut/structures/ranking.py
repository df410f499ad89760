"""Documents of queries, to be ranked by score: the hinge over pairs, and NDCG."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.rows import as_rows
from taut.data.arrays import take_runs
from taut.data.queries import (
    Queries,
    as_relevances,
    check_k,
    discounts,
    gains,
    levels,
    shared_worth,
)
from taut.errors import InvalidData
from taut.spaces.features import RowFeatures
from taut.spaces.labels import part
from taut.structures.base import Blocks, CompiledStructure, as_stacked

_MOST_PAIRS = 2**31 - 1


@helper
def _sort_falling(order, keys):
    """Sort the documents 0..n - 1 by falling keys into `order`: a heap, smallest key on top."""
    size = order.shape[0]
    for d in range(size):
        order[d] = d
    start = size // 2
    last = size
    while last > 1:
        if start > 0:
            start -= 1
        else:
            last -= 1
            order[0], order[last] = order[last], order[0]
        parent = start
        child = 2 * parent + 1
        moved = order[parent]
        while child < last:
            if child + 1 < last and keys[order[child + 1]] < keys[order[child]]:
                child += 1
            if keys[order[child]] >= keys[moved]:
                break
            order[parent] = order[child]
            parent = child
            child = 2 * parent + 1
        order[parent] = moved


class _Ranking(CompiledStructure):
    """Blocks are queries: a potential is the score of a document."""

    allocates = False
    takes_checked = True

    def _stacked(self, X: Any, y: Any) -> tuple[RowFeatures, np.ndarray, np.ndarray]:
        """The features, the offsets of the queries, and the relevances; 0 without any."""
        matrix, offsets = as_stacked(X)
        relevance = np.zeros(offsets[-1])
        if y is not None:
            relevance = as_relevances(y, Queries(matrix, offsets))
        places = np.column_stack([offsets[:-1], offsets[1:]])
        rows = as_rows(matrix, dense_above=0.2)
        return RowFeatures(matrix, rows, places=places), offsets, relevance

    def lengths(self, blocks):
        """Those of all documents; none counts for more than 1."""
        return blocks.features.summed_lengths(blocks.data.offsets)

    def decode(self, labels, offsets):
        """One array of integers per query."""
        return np.split(labels, offsets[1:-1])


class PairData(NamedTuple):
    """What the oracles of `PairwiseRanking` read."""

    offsets: np.ndarray
    level: np.ndarray  # how many lower relevances a document's query has
    n_levels: np.ndarray


class PairwiseRanking(_Ranking):
    """The hinges of all pairs of a query's documents, of which one is more relevant.

    A query costs sum over pairs (a, b), a more relevant than b, of max(0, 1 - <w, x_a - x_b>).
    That is the largest violation among the subsets S of its pairs, where psi(S) is the sum of
    x_a - x_b and the loss is the number of pairs, so a query is one block whatever the number of
    pairs. A label is psi's coefficients, one integer per document, and the loss.

    X is a stacked matrix and the offsets of its queries, y the stacked relevances.

    Cost of an oracle call: a product of w and each document, a sort of their scores, and two walks
    through them for each relevance of the query but the lowest.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import PairwiseRanking
    >>> X, offsets = np.array([[0.0], [2.0], [1.0]]), np.array([0, 3])
    >>> problem = Problem(PairwiseRanking(), (X, offsets), np.array([0, 2, 1]), C=1.0)
    >>> solve(problem, tol=1e-6, random_state=0).w.round(3)
    array([1.])
    """

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Rows and offsets X with relevances y >= 0; without y no pair is known."""
        features, offsets, relevance = self._stacked(X, y)
        level, n_levels = levels(relevance, offsets)
        _check_pairs(level, n_levels, offsets)
        return self._blocks(features, offsets, level, n_levels)

    def take(self, blocks, which):
        """Queries with all their documents."""
        rows, offsets = take_runs(blocks.data.offsets, which)
        features = blocks.features.compacted(which, blocks.data.offsets)
        data = blocks.data
        return self._blocks(features, offsets, data.level[rows], data.n_levels[which])

    def _blocks(
        self, features: Any, offsets: np.ndarray, level: np.ndarray, n_levels: np.ndarray
    ) -> Blocks:
        n = len(offsets) - 1
        return Blocks(
            data=PairData(offsets, level, n_levels),
            features=features,
            offsets=offsets + np.arange(n + 1),
            truth=np.zeros(offsets[-1] + n, dtype=np.int32),
            work_size=3 * int(np.diff(offsets).max()),
        )

    def lengths(self, blocks):
        """Those of all documents, each in a pair with all others."""
        return super().lengths(blocks) * np.diff(blocks.data.offsets)

    def valid_labels(self, blocks, owner, labels):
        """Numbers that pairs can add up to: of each document, in sum, and of all pairs."""
        sizes = np.diff(blocks.offsets)[owner]
        starts = np.cumsum(sizes) - sizes
        ends = starts + sizes - 1
        wide = labels.astype(np.int64)
        n_pairs, most = wide[ends], (sizes - 1) * (sizes - 2) // 2
        wide[ends] = 0
        gained = np.add.reduceat(np.maximum(wide, 0), starts)
        bounded = np.maximum.reduceat(np.abs(wide), starts) < sizes - 1
        balanced = np.add.reduceat(wide, starts) == 0
        return bounded & balanced & (n_pairs >= gained) & (n_pairs <= most)

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """All pairs whose hinge is positive, counted in walks through the sorted scores.

        Both walks of a level compare the same stored numbers, so they count the same pairs.
        """
        first, size = data.offsets[i], data.offsets[i + 1] - data.offsets[i]
        order, level = label[:size], data.level[first : first + size]
        count, bound = work[size : 2 * size], work[2 * size : 3 * size]
        _sort_falling(order, work[:size])
        for d in range(size):
            count[d] = 0.0
            bound[d] = work[d] - loss_weight
        n_pairs = 0
        for own in range(1, data.n_levels[i]):  # of the better documents
            ahead = 0
            wrong = 0
            for p in range(size):
                a = order[p]
                if level[a] == own:
                    while ahead < size and work[order[ahead]] > bound[a]:
                        wrong += level[order[ahead]] < own
                        ahead += 1
                    count[a] += wrong
                    n_pairs += wrong
            behind = size - 1
            wrong = 0
            for p in range(size - 1, -1, -1):
                b = order[p]
                if level[b] < own:
                    while behind >= 0 and work[b] > bound[order[behind]]:
                        wrong += level[order[behind]] == own
                        behind -= 1
                    count[b] -= wrong
        for d in range(size):
            label[d] = count[d]
        label[size] = n_pairs
        value = loss_weight * label[size]
        for d in range(size):
            value -= label[d] * work[d]
        return value

    @staticmethod
    def loss(data, i, label):
        """The number of pairs."""
        return float(label[label.shape[0] - 1])

    @staticmethod
    def parts(data, i, label, each):
        """Each document against the pairs that it is ahead in."""
        total = 0.0
        for d in range(label.shape[0] - 1):
            total += part(each, d, -1.0 * label[d])
        return total


def _check_pairs(level: np.ndarray, n_levels: np.ndarray, offsets: np.ndarray) -> None:
    """Refuse queries with more pairs than a label can count."""
    first, lengths = np.cumsum(n_levels) - n_levels, np.diff(offsets)
    sizes = np.bincount(np.repeat(first, lengths) + level).astype(np.float64)
    pairs = 0.5 * (lengths.astype(np.float64) ** 2 - np.add.reduceat(sizes**2, first))
    if pairs.max() > _MOST_PAIRS:
        i = int(pairs.argmax())
        raise InvalidData(
            f"query {i} has {lengths[i]} documents, which make {pairs[i]:.0f} pairs, more than "
            f"{_MOST_PAIRS}: divide it, or leave out some of its documents"
        )


class RankData(NamedTuple):
    """What the oracles of `NdcgRanking` read."""

    offsets: np.ndarray
    gain: np.ndarray  # of each document, by the DCG of its query's best ranking
    share: np.ndarray  # of each document in what the ranks of its relevance are worth
    one_level: np.ndarray  # whether a query's documents are all equally relevant
    worth: np.ndarray  # of each rank
    k: int


@helper
def _worth(data, row, rank):
    """Of a rank; a document without one has its share of those that its relevance deserves."""
    return data.worth[rank] if rank >= 0 else data.share[row]


class NdcgRanking(_Ranking):
    """Rankings of a query's documents, with the loss 1 - NDCG@k.

    A label is the rank of each document, counted from 0, and k for all from rank k on. Rank r is
    worth c(r) = 1 / log2(2 + r), and nothing from k on; a document's gain is 2^relevance - 1. Then

        phi(x, label) = sum_d c(rank_d) x_d,        DCG(label) = sum_d c(rank_d) gain_d,

    and NDCG is DCG by that of the ranking by relevance, which is the truth; where documents are
    equally relevant it gives each the mean of what their ranks are worth, and is written as ranks
    of -1. The label of highest score ranks documents by <w, x_d>. In general the loss-augmented one
    is a linear assignment problem (Le and Smola; Chapelle, Le and Smola); with the weights c of the
    measure itself it is the ranking by <w, x_d> - gain_d / DCG(truth), found by sorting. A query
    whose documents are all equally relevant has no label but its truth, and no influence.

    X is a stacked matrix and the offsets of its queries, y the stacked relevances.

    Parameters
    ----------
    k : int or None, default=10
        Ranks that count; None for all.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import NdcgRanking
    >>> X, offsets = np.array([[0.0], [2.0], [1.0]]), np.array([0, 3])
    >>> problem = Problem(NdcgRanking(), (X, offsets), np.array([0, 2, 1]), C=1.0)
    >>> result = solve(problem, tol=1e-6, random_state=0)
    >>> problem.data.predict(result.w)
    [array([2, 0, 1], dtype=int32)]
    """

    def __init__(self, k: int | None = 10) -> None:
        check_k(k)
        self.k = k

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Rows and offsets X with relevances y >= 0; without y, for prediction only."""
        features, offsets, relevance = self._stacked(X, y)
        sizes, worth = np.diff(offsets), self._worth(offsets)[0]
        share = shared_worth(relevance, offsets, worth)
        gain = gains(relevance)
        ideal = np.add.reduceat(gain * share, offsets[:-1])
        one_level = (levels(relevance, offsets)[1] == 1) & (y is not None)
        ideal[one_level | (ideal == 0.0)] = np.inf
        gain /= np.repeat(ideal, sizes)
        return self._blocks(features, offsets, gain, share, one_level)

    def take(self, blocks, which):
        """Queries with all their documents."""
        data = blocks.data
        rows, offsets = take_runs(data.offsets, which)
        features = blocks.features.compacted(which, data.offsets)
        return self._blocks(
            features, offsets, data.gain[rows], data.share[rows], data.one_level[which]
        )

    def _worth(self, offsets: np.ndarray) -> tuple[np.ndarray, int]:
        """What the ranks of the longest query are worth, and how many count."""
        longest = int(np.diff(offsets).max())
        k = longest if self.k is None else min(int(self.k), longest)
        return discounts(longest + 1, k), k

    def _blocks(
        self,
        features: Any,
        offsets: np.ndarray,
        gain: np.ndarray,
        share: np.ndarray,
        one_level: np.ndarray,
    ) -> Blocks:
        worth, k = self._worth(offsets)
        return Blocks(
            data=RankData(offsets, gain, share, one_level, worth, k),
            features=features,
            offsets=offsets,
            truth=np.full(offsets[-1], -1, dtype=np.int32),
            work_size=2 * int(np.diff(offsets).max()),
        )

    def valid_labels(self, blocks, owner, labels):
        """Each rank below k once, and k for all other documents."""
        sizes = np.diff(blocks.offsets)[owner]
        starts = np.cumsum(sizes) - sizes
        label = np.repeat(np.arange(len(owner)), sizes)
        ranks = labels[np.lexsort((labels, label))]
        expected = np.minimum(np.arange(len(labels)) - starts[label], blocks.data.k)
        return np.logical_and.reduceat(ranks == expected, starts)

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """By falling score less gain: a document earns this times what its rank is worth."""
        first, size = data.offsets[i], label.shape[0]
        if data.one_level[i]:
            for d in range(size):
                label[d] = -1
        else:
            earned = work[size : 2 * size]
            for d in range(size):
                earned[d] = work[d] - loss_weight * data.gain[first + d]
            _sort_falling(label, earned)
            for rank in range(size):
                earned[label[rank]] = rank
            for d in range(size):
                label[d] = min(earned[d], data.k)
        value = 0.0
        for d in range(size):
            worth = _worth(data, first + d, label[d])
            lost = data.share[first + d] - worth
            value += worth * work[d] + loss_weight * data.gain[first + d] * lost
        return value

    @staticmethod
    def loss(data, i, label):
        """1 - NDCG@k."""
        first = data.offsets[i]
        total = 0.0
        for d in range(label.shape[0]):
            lost = data.share[first + d] - _worth(data, first + d, label[d])
            total += data.gain[first + d] * lost
        return max(total, 0.0)

    @staticmethod
    def parts(data, i, label, each):
        """The documents, each times what its rank is worth."""
        first = data.offsets[i]
        total = 0.0
        for d in range(label.shape[0]):
            total += part(each, d, _worth(data, first + d, label[d]))
        return total
