"""How far margins fall when their row is left out, as long as all others stay as tight as they are.

Rows whose hinge has a kink at w keep w on a face, on which violations of all their labels in use
stay equal; leaving out another row moves w only within the complement of these directions. So v_i
falls out of w but for what is in their span (Vapnik and Chapelle 2000, for two classes). That no
other row changes sides is an assumption: the answer is an estimate and no bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from taut.explanations.classes import TrainedClasses

_MOST = 5000  # rows with dual weight: a matrix of them is made
_RIDGE = 1e-9  # of the mean squared length of a direction: there may be more than features
_AT_BOUND = 1e-6  # of C_i


class _Directions(NamedTuple):
    """Differences of psi that w keeps its products with: a row of x, and factors of its columns."""

    row: np.ndarray
    factors: np.ndarray


def falls(trained: TrainedClasses) -> np.ndarray | None:
    """By how much each row's own scores fall when it is left out; None where rows are too many."""
    in_use = np.unique(trained.in_use.block)
    if len(in_use) > _MOST:
        return None
    out = np.zeros_like(trained.scores)
    if len(in_use) == 0:
        return out
    products, c = trained.rows.products(in_use), trained.coefficients[in_use]
    out[in_use] = trained.own[in_use]
    found = _directions(trained, in_use)
    if len(found.row) == 0:
        return out
    gram = products[np.ix_(found.row, found.row)] * (found.factors @ found.factors.T)
    gram.flat[:: len(gram) + 1] += max(_RIDGE * float(np.trace(gram)) / len(gram), 1e-300)
    inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram), np.eye(len(gram)))
    across = products[found.row]
    across[np.arange(len(found.row)), found.row] = 0.0  # a row's own directions leave with it
    moved = inverse @ (across * (found.factors @ c.T))
    ends = np.searchsorted(found.row, np.arange(len(in_use) + 1))
    for i in np.flatnonzero(np.diff(ends)):
        own = slice(ends[i], ends[i + 1])
        moved[:, i] -= inverse[:, own] @ np.linalg.solve(inverse[own, own], moved[own, i])
    out[in_use] -= (across * moved).T @ found.factors
    return out


def _directions(trained: TrainedClasses, in_use: np.ndarray) -> _Directions:
    """Those of all rows that have more than one label in use, the truth counting where it is."""
    used = np.bincount(trained.in_use.block, trained.in_use.coef, len(trained.truth))
    edges = np.searchsorted(trained.in_use.block, [in_use, in_use + 1])
    rows, factors = [], []
    for place, (i, first, last) in enumerate(zip(in_use, *edges, strict=True)):
        labels = trained.in_use.labels[first:last]
        psi = np.zeros((len(labels), trained.scores.shape[1]))
        amounts = trained.factors[i, labels]
        psi[np.arange(len(labels)), labels] = -amounts
        psi[:, trained.truth[i]] += amounts
        psi *= trained.seen
        tight = psi if used[i] < (1.0 - _AT_BOUND) * trained.weight[i] else psi[1:] - psi[0]
        rows += [place] * len(tight)
        factors.append(tight)
    return _Directions(np.array(rows, dtype=np.int64), np.concatenate(factors))
