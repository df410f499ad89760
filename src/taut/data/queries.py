"""Queries with documents: rows that belong together, their relevances, and what these are worth."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taut.data.arrays import Matrix, as_matrix, as_numbers, as_sequences, check_finite
from taut.data.labels import as_label_sequences, as_labels, distinct
from taut.errors import InvalidData

_LARGEST = 500.0  # relevance whose gain, summed over many documents, is still a finite number


class Queries(NamedTuple):
    """Rows of all queries one after the other: query i has rows offsets[i]:offsets[i + 1].

    `order` says which of the given rows each one is; None where they are as given.
    """

    matrix: Matrix
    offsets: np.ndarray
    order: np.ndarray | None = None


def as_queries(
    X: Any, groups: Any = None, lengths: ArrayLike | None = None, name: str = "X"
) -> Queries:
    """Stack the documents of queries into one matrix.

    X is a list of matrices, or stacked with `lengths`, as for `as_sequences`; or stacked with the
    query of each row in `groups`, of any hashable type and in any order. Queries are then numbered
    by their first rows.

    Examples
    --------
    >>> as_queries([[1.0], [2.0], [3.0]], groups=["b", "a", "b"])
    Queries(matrix=array([[1.], [3.], [2.]]), offsets=array([0, 2, 3]), order=array([0, 2, 1]))
    """
    if groups is None:
        return Queries(*as_sequences(X, lengths, name))
    if lengths is not None:
        raise InvalidData("both groups and lengths are given: give one of them")
    matrix = as_matrix(X, name)
    order, offsets = _group(groups, matrix.shape[0])
    # Rows of a CSR matrix that are picked out come in the plain layout, as dense ones do.
    return Queries(matrix if order is None else matrix[order], offsets, order)


def _group(groups: Any, n: int) -> tuple[np.ndarray | None, np.ndarray]:
    """The order that puts the rows of each group together, None if they are, and the offsets."""
    codes = distinct(as_labels(groups, n, "groups"), "groups")[1]
    _, first, codes = np.unique(codes, return_index=True, return_inverse=True)
    codes = np.argsort(np.argsort(first))[codes]
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes))])
    order = np.argsort(codes, kind="stable")
    return (None if (np.diff(order) == 1).all() else order), offsets


def as_relevances(y: Any, queries: Queries, name: str = "y") -> np.ndarray:
    """Relevances, finite numbers >= 0, of all rows in the order of the queries' rows.

    Given as a list of relevance lists, or one relevance per row in the order of the given rows.

    Examples
    --------
    >>> as_relevances([2, 0, 1], as_queries([[1.0], [2.0], [3.0]], groups=["b", "a", "b"]))
    array([2., 1., 0.])
    """
    if queries.order is None:
        given = as_label_sequences(y, queries.offsets, name)
    else:
        given = as_labels(y, len(queries.order), name)
    relevance = as_numbers(given, name).astype(np.float64, copy=False)
    check_finite(relevance, name)
    wrong = (relevance < 0.0) | (relevance > _LARGEST)
    if wrong.any():
        row = int(np.argmax(wrong))
        fault = "negative" if relevance[row] < 0.0 else f"more than {_LARGEST:g}"
        raise InvalidData(
            f"{name}[{row}] = {relevance[row]:g} is {fault}: give relevances such as 0 to 4, whose "
            "gain is 2^relevance - 1"
        )
    return relevance if queries.order is None else relevance[queries.order]


def gains(relevance: np.ndarray) -> np.ndarray:
    """What documents are worth: 2^relevance - 1."""
    return np.expm1(np.log(2.0) * relevance)


def discounts(n: int, k: int | None = None) -> np.ndarray:
    """What the first n ranks are worth: 1 / log2(2 + rank), counted from 0, and 0 from rank k on.

    Examples
    --------
    >>> discounts(4, k=3).round(3)
    array([1.   , 0.631, 0.5  , 0.   ])
    """
    rank = np.arange(n)
    return np.where(rank < (n if k is None else k), 1.0 / np.log2(2.0 + rank), 0.0)


def _ties(keys: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All rows by query and falling key; where rows of equal keys begin, and how many they are."""
    query = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((-keys, query))
    falls = keys[order][1:] != keys[order][:-1]
    first = np.flatnonzero(np.concatenate([[True], falls | (query[1:] != query[:-1])]))
    return order, first, np.diff(first, append=len(keys))


def shared_worth(keys: np.ndarray, offsets: np.ndarray, worth: np.ndarray) -> np.ndarray:
    """What the ranks by falling keys are worth to the rows of each query; equal keys share.

    Examples
    --------
    >>> shared_worth(np.array([1.0, 3.0, 1.0, 7.0]), np.array([0, 3, 4]), np.array([5.0, 3.0, 2.0]))
    array([2.5, 5. , 2.5, 5. ])
    """
    order, first, size = _ties(keys, offsets)
    rank = np.arange(len(keys)) - np.repeat(offsets[:-1], np.diff(offsets))
    shared = np.empty(len(keys))
    shared[order] = np.repeat(np.add.reduceat(worth[rank], first) / size, size)
    return shared


def levels(relevance: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many lower relevances the query of each row has, and how many each query has at all.

    Examples
    --------
    >>> levels(np.array([2.0, 0.5, 2.0, 1.0, 7.0]), np.array([0, 4, 5]))
    (array([2, 0, 2, 1, 0], dtype=int32), array([3, 1], dtype=int32))
    """
    order, first, size = _ties(relevance, offsets)
    group = np.repeat(np.arange(len(first), dtype=np.int32), size)
    last = group[offsets[1:] - 1]
    level = np.empty(len(relevance), dtype=np.int32)
    level[order] = np.repeat(last, np.diff(offsets)) - group
    return level, last - group[offsets[:-1]] + 1


def check_k(k: Any) -> None:
    """Refuse what is no number of ranks."""
    if k is not None and not (isinstance(k, Integral) and int(k) >= 1):
        raise InvalidData(f"k = {k!r}: give the number of ranks that count, or None for all")
