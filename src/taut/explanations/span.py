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

_MOST = 2500  # directions: a matrix of them is inverted
_AT_ONCE = 2000  # rows whose falls are computed at a time
_RIDGE = 1e-9  # of the mean squared length of a direction: there may be more than features
_TINY = 1e-300
_AT_BOUND = 1e-6  # of C_i


class _Directions(NamedTuple):
    """Differences of psi that w keeps its products with: a row of x, and factors of its columns."""

    row: np.ndarray
    factors: np.ndarray


def falls(trained: TrainedClasses) -> np.ndarray | None:
    """By how much each row's own scores fall when it is left out.

    None where there are too many directions to invert their matrix.
    """
    found = _directions(trained)
    if len(found.row) > _MOST:
        return None
    out = trained.own.copy()
    if len(found.row) == 0:
        return out
    rows, place = np.unique(found.row, return_inverse=True)
    gram = trained.rows.products(rows, rows)[np.ix_(place, place)]
    gram *= found.factors @ found.factors.T
    gram.flat[:: len(gram) + 1] += max(_RIDGE * float(np.trace(gram)) / len(gram), _TINY)
    inverse = scipy.linalg.cho_solve(scipy.linalg.cho_factor(gram), np.eye(len(gram)))
    in_use = np.unique(trained.in_use.block)
    for first in range(0, len(in_use), _AT_ONCE):
        some = in_use[first : first + _AT_ONCE]
        across = trained.rows.products(rows, some)[place]
        own = found.row[:, None] == some
        across[own] = 0.0  # a row's own directions leave with it
        moved = inverse @ (across * (found.factors @ trained.coefficients[some].T))
        for i in np.flatnonzero(own.any(axis=0)):
            mine = np.flatnonzero(own[:, i])
            among = inverse[np.ix_(mine, mine)]
            moved[:, i] -= inverse[:, mine] @ np.linalg.solve(among, moved[mine, i])
        out[some] -= (across * moved).T @ found.factors
    return out


def _directions(trained: TrainedClasses) -> _Directions:
    """Those of all rows that have more than one label in use, the truth counting where it is."""
    in_use = np.unique(trained.in_use.block)
    used = np.bincount(trained.in_use.block, trained.in_use.coef, len(trained.truth))
    edges = np.searchsorted(trained.in_use.block, [in_use, in_use + 1])
    rows: list[int] = []
    factors = [np.empty((0, trained.scores.shape[1]))]
    for i, first, last in zip(in_use, *edges, strict=True):
        labels = trained.in_use.labels[first:last]
        psi = np.zeros((len(labels), trained.scores.shape[1]))
        amounts = trained.factors[i, labels]
        psi[np.arange(len(labels)), labels] = -amounts
        psi[:, trained.truth[i]] += amounts
        psi *= trained.seen
        tight = psi if used[i] < (1.0 - _AT_BOUND) * trained.weight[i] else psi[1:] - psi[0]
        rows += [i] * len(tight)
        factors.append(tight)
    return _Directions(np.array(rows, dtype=np.int64), np.concatenate(factors))
