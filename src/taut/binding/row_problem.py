"""The problem of a few blocks of one row each, solved on the matrix of their rows.

    min_u  1/2 |u|^2 + sum_i C_i max(0, max_y loss_i(y) - <u, psi_i(y)>),

where blocks have one candidate each, psi_i = sign_i x_i, or classes, psi_i(y) = x_i (outer)
(e_truth - e_y). Steps are exact for all dual variables of a row. Rows that compete undo each
other's, so a centre moves around the sweeps, after each of them, as in `taut.engines.centre`; its
strength is the root of the mean of C_i |psi_i|^2. For 50 rows of 20 columns, with C_i |psi_i|^2
around 80, that made a quarter of the sweeps. All sweeps are in one compiled loop: called from
Python one by one, each took ten times as long.

Memory: the matrix, the square of the number of rows, or where features are few the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.jit import helper, kernel
from taut.compiled.xorshift import below, stepped
from taut.spaces.few_rows import FewRows, few_rows
from taut.structures.multiclass import project_on_simplex

_VISITS = 20_000  # between two questions whether to go on
_SWEEPS = 10_000  # at most: a solution that is less exact says so
_NOTHING = 1e-13  # of the terms of a row's gap: one that rounding explains
_MOST = 4096  # rows, beyond which their matrix takes more than 128 MB


class RowProblem(NamedTuple):
    """Rows, and what their labels are.

    Attributes
    ----------
    rows : FewRows
    truth : ndarray of int64
        The class of each row; -1 where rows have one candidate.
    signs : ndarray
        Of rows with one candidate.
    columns : int
        Of w.
    """

    rows: FewRows
    truth: np.ndarray
    signs: np.ndarray
    columns: int

    def solve(
        self,
        losses: np.ndarray,
        weight: np.ndarray,
        precision: float,
        seed: np.uint64,
        keep_going: Callable[[], bool],
    ) -> Solution:
        """The u of these losses, to a relative duality gap of `precision`, if there is time."""
        factor = self.rows.factor()
        by_features = factor is not None
        if factor is not None:
            M = factor * self.signs[:, None]
            squares = np.einsum("ij,ij->i", M, M)
        else:
            M = self.rows.gram()
            M *= self.signs[:, None]
            M *= self.signs
            squares = M.diagonal().copy()
        k, many = len(weight), self.columns > 1
        alpha, v = np.zeros((k, self.columns)), np.zeros((self.columns, M.shape[1]))
        if many:
            alpha[np.arange(k), self.truth] = weight
        strength = float(np.sqrt((1.0 + many) * (weight @ squares) / k))
        centre, order, f = v.copy(), np.arange(k), np.empty((2, self.columns))
        every, left = max(_VISITS // k, 1), _SWEEPS
        while left > 0:
            done, state = _sweeps(
                M, squares, by_features, losses, self.truth, weight, alpha, v, centre, strength,
                seed, precision, min(every, left), order, f,
            )  # fmt: skip
            seed = np.uint64(state)
            left -= every
            if done or not keep_going():
                break
        return self._appraised(M, by_features, losses, weight, alpha)

    def _appraised(
        self,
        M: np.ndarray,
        by_features: bool,
        losses: np.ndarray,
        weight: np.ndarray,
        alpha: np.ndarray,
    ) -> Solution:
        """What dual variables come to, summed up afresh."""
        rows, b = np.arange(len(weight)), alpha.copy()
        if self.columns > 1:
            b = -alpha
            b[rows, self.truth] = 0.0
            b[rows, self.truth] = -b.sum(axis=1)
        f = M @ (M.T @ b) if by_features else M @ b
        square = max(float((b * f).sum()), 0.0)
        scores = f[rows, self.truth][:, None] - f if self.columns > 1 else f
        hinges = np.maximum((losses - scores).max(axis=1), 0.0)
        dual = float((alpha * losses).sum()) - 0.5 * square
        gap = max(0.5 * square + float(weight @ hinges) - dual, 0.0)
        return Solution(self.signs[:, None] * b, square, gap)


class Solution(NamedTuple):
    """u by the coefficients of rows in each column, |u|^2, and the duality gap."""

    coefficients: np.ndarray
    square: float
    gap: float


def row_problem(data: Any, blocks: np.ndarray) -> RowProblem | None:
    """That of some blocks of bound data; None where they have another form, or are too many."""
    truth = np.full(len(blocks), -1)
    signs, columns = np.ones(len(blocks)), 1
    signed = data.signed_rows
    if signed is not None:
        signs = signed[0][blocks]
    elif _of_classes(data):
        truth, columns = data.blocks.truth[blocks].astype(np.int64), data.blocks.n_labels
    else:
        return None
    rows = few_rows(data.blocks.features, blocks)
    if rows is None or (len(blocks) > _MOST and rows.factor() is None):
        return None
    return RowProblem(rows, truth, signs, columns)


def _of_classes(data: Any) -> bool:
    """Whether a block has one position, whose labels are the columns of w, and all are listed."""
    blocks, listed = data.blocks, data.listed
    classes = np.arange(blocks.n_labels)[:, None]
    columns = getattr(blocks.features, "columns", 0)
    return (
        1 < blocks.n_labels == columns
        and len(blocks.truth) == blocks.n_blocks
        and listed.step == 0
        and np.array_equal(listed.rows, classes)
    )


@helper
def _pull(M, by_features, v, i, f):
    """The potentials of a row, for each column of w: v has those of all rows, or is w itself."""
    for k in range(v.shape[0]):
        if by_features:
            total = 0.0
            for u in range(v.shape[1]):
                total += M[i, u] * v[k, u]
            f[k] = total
        else:
            f[k] = v[k, i]


@helper
def _visit(M, squares, by_features, losses, truth, weight, alpha, v, stiffness, f, change, i):
    """The best step of all dual variables of a row, and what it does to v."""
    size, own, square = v.shape[0], truth[i], squares[i]
    _pull(M, by_features, v, i, f)
    if own < 0:
        violation = losses[i, 0] - f[0]
        new = weight[i] if violation > 0.0 else 0.0
        if square > 0.0:
            new = min(max(alpha[i, 0] + violation * (stiffness / square), 0.0), weight[i])
        change[0] = alpha[i, 0] - new
        alpha[i, 0] = new
    else:
        base, most, mean, best, terms = f[own], 0.0, 0.0, own, abs(f[own])
        for k in range(size):
            terms = max(terms, abs(losses[i, k]), abs(f[k]))
            change[k] = losses[i, k] + f[k] - base
            mean += alpha[i, k] * change[k]
            best = k if change[k] > most else best
            most = max(most, change[k])
        if weight[i] * most - mean <= _NOTHING * terms * weight[i]:
            return
        if square > 0.0:
            for k in range(size):
                change[k] = alpha[i, k] + stiffness / square * change[k]
            project_on_simplex(change, weight[i])
        else:
            for k in range(size):
                change[k] = weight[i] if k == best else 0.0
        for k in range(size):
            new = change[k]
            change[k] = new - alpha[i, k]
            alpha[i, k] = new
    for k in range(size):
        if change[k] != 0.0:
            amount = change[k] / stiffness
            for u in range(v.shape[1]):
                v[k, u] -= amount * M[i, u]


@helper
def _look(losses, truth, weight, alpha, f, i):
    """C_i hinge_i, sum a loss and sum a violation of a row of these potentials."""
    own, hinge, loss, mean = truth[i], 0.0, 0.0, 0.0
    for k in range(f.shape[0]):
        violation = losses[i, k] + (f[k] - f[own] if own >= 0 else -f[k])
        hinge = max(hinge, violation)
        loss += alpha[i, k] * losses[i, k]
        mean += alpha[i, k] * violation
    return weight[i] * hinge, loss, mean


@kernel
def _sweeps(
    M, squares, by_features, losses, truth, weight, alpha, v, centre, strength, seed, precision,
    limit, order, room,
):  # fmt: skip
    """Sweep over the rows until the relative gap is small, or so often; whether it is, and a seed.

    v is of the point that the centre is part of.
    """
    stiffness, x, f = 1.0 + strength, seed, room[0]
    for _ in range(limit):
        for last in range(order.shape[0] - 1, 0, -1):
            x = stepped(x)
            other = below(x, last + 1)
            order[last], order[other] = order[other], order[last]
        for p in range(order.shape[0]):
            _visit(
                M, squares, by_features, losses, truth, weight, alpha, v, stiffness, f, room[1],
                order[p],
            )  # fmt: skip
        # The point of the dual variables, and from there the next one with its centre.
        for k in range(v.shape[0]):
            for u in range(v.shape[1]):
                here = v[k, u]
                v[k, u] = here + strength * (here - centre[k, u])
                centre[k, u] = here
        hinges, loss, mean = 0.0, 0.0, 0.0
        for i in range(order.shape[0]):
            _pull(M, by_features, v, i, f)
            own = _look(losses, truth, weight, alpha, f, i)
            hinges += own[0]
            loss += own[1]
            mean += own[2]
        # The squared length of the point is what losses have beyond violations.
        if hinges - mean <= precision * (0.5 * (loss + mean)):
            return True, x
        for k in range(v.shape[0]):
            for u in range(v.shape[1]):
                v[k, u] = (v[k, u] + strength * centre[k, u]) / stiffness
    return False, x
