"""What structures that label the nodes of graphs share: the weights of pairs, and label codes.

w is laid out as node weights (K, d), label by label, then pair weights (d_e, G). With `tie`, the
table that says which of the G weights a pair of labels has, the score of a labelling y is

    sum_t <w_node[y_t], x_t> + sum_(u, v) sum_f edge_feature[f] w_pair[f, tie[y_u, y_v]].
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from taut.checks import check_choice
from taut.data.labels import as_label_sequences
from taut.errors import InvalidData
from taut.structures.base import as_codes


def _full(n_labels: int) -> np.ndarray:
    return np.arange(n_labels * n_labels).reshape(n_labels, n_labels)


def _symmetric(n_labels: int) -> np.ndarray:
    tie = np.zeros((n_labels, n_labels), dtype=np.int64)
    upper = np.triu_indices(n_labels)
    tie[upper] = tie.T[upper] = np.arange(len(upper[0]))
    return tie


def _potts(n_labels: int) -> np.ndarray:
    return np.eye(n_labels, dtype=np.int64) - 1


_TIES: dict[str, Callable[[int], np.ndarray]] = {
    "full": _full,
    "symmetric": _symmetric,
    "potts": _potts,
}


def tie_table(n_labels: int, pairwise: str) -> tuple[np.ndarray, int]:
    """Which weight each pair of labels has, and how many different ones there are.

    A weight for each ordered pair of labels, as the edge is given ("full"); for each unordered pair
    ("symmetric"); or one for all pairs of equal labels and none, -1, for the others ("potts").

    Examples
    --------
    >>> tie_table(2, "symmetric")
    (array([[0, 1],
           [1, 2]], dtype=int32), 3)
    >>> tie_table(2, "potts")
    (array([[ 0, -1],
           [-1,  0]], dtype=int32), 1)
    """
    check_choice("pairwise", pairwise, sorted(_TIES))
    if n_labels < 2:
        raise InvalidData(f"n_labels = {n_labels!r}: a node has one of at least 2 labels")
    tie = _TIES[pairwise](n_labels).astype(np.int32)
    return tie, int(tie.max()) + 1


def as_node_codes(y: Any, offsets: np.ndarray, n_labels: int) -> np.ndarray:
    """Label codes of all nodes from one array per graph or a stacked one; zeros without y."""
    if y is not None:
        y = as_label_sequences(y, offsets)
        if y.dtype == object and all(isinstance(label, Integral) for label in y):
            y = y.astype(np.int64)
    return as_codes(y, int(offsets[-1]), n_labels)
