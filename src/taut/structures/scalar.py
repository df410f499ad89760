"""One candidate per block: the hinge of binary classification."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np

from taut.compiled.jit import helper
from taut.compiled.lanes import prefetch
from taut.compiled.rows import as_rows
from taut.data.arrays import as_matrix
from taut.errors import InvalidData
from taut.spaces.features import RowFeatures
from taut.spaces.labels import part
from taut.structures.base import Blocks, CompiledStructure


@helper
def step_of_one(loss, score, square, weight, stiffness, alpha):
    """Newton step in the weight of a candidate with <w, psi> = score and |psi|^2 = square.

    The weight is clipped to [0, weight]. Returns how it changed, and what
    `CompiledStructure.exact_step` does.
    """
    violation = loss - score
    gap = weight * max(violation, 0.0) - alpha[0] * violation
    if square > 0.0:
        new = min(max(alpha[0] + violation * (stiffness / square), 0.0), weight)
    else:  # psi = 0: the dual is linear in alpha
        new = weight if violation > 0.0 else 0.0
    change = new - alpha[0]
    alpha[0] = new
    return change, gap, change * loss, change**2 * square


class SignedRows(CompiledStructure):
    """Blocks of one row each: phi(x, label) = -label sign (x, bias), and label 0 is the truth.

    The candidates, `all_labels`, are numbers other than 0, so psi = label sign (x, bias).
    """

    allocates = False
    takes_checked = True

    def __init__(self, bias: float = 0.0) -> None:
        self.bias = bias

    @abstractmethod
    def _targets(self, y: Any, n: int) -> tuple[np.ndarray, ...]:
        """The sign of each of n rows, and further numbers that its losses are made of."""

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Rows X with one number y each."""
        X = as_matrix(X)
        rows = as_rows(X, dense_above=0.2)
        n = X.shape[0]
        signs, *others = self._targets(y, n)
        # A block's numbers side by side: visits come in random order.
        points = np.column_stack([signs, *others])
        return Blocks(
            data=(points,), features=RowFeatures(X, rows, bias=self.bias), offsets=np.arange(n + 1),
            truth=np.zeros(n, dtype=np.int32),
        )  # fmt: skip

    def take(self, blocks, which):
        """Rows and their numbers."""
        return replace(
            blocks, data=(blocks.data[0][which],), features=blocks.features.compacted(which),
            offsets=np.arange(len(which) + 1), truth=blocks.truth[which],
        )  # fmt: skip

    def lengths(self, blocks):
        """|(x, bias)|; candidates are -1 and 1."""
        return np.sqrt(blocks.features.norms)

    @staticmethod
    def prefetch(data, i):
        """The block's numbers."""
        prefetch(data[0], data[0].shape[1] * i)

    @staticmethod
    def parts(data, i, label, each):
        """The row, against its sign for a candidate of 1."""
        return part(each, 0, -data[0][i, 0] * label[0])


class Scalar(SignedRows):
    """The hinge max(0, margin_i - sign_i <w, (x_i, bias)>).

    Label 0 is the truth with phi = 0; label 1, the only candidate, has phi = -sign (x, bias), hence
    psi = sign (x, bias), and the required margin as its loss.

    Parameters
    ----------
    bias : float, default=0.0
        Value of a constant feature appended to each row; 0 appends none.

    Examples
    --------
    >>> import numpy as np
    >>> from taut import Problem, solve
    >>> from taut.structures import Scalar
    >>> problem = Problem(Scalar(), np.array([[2.0], [-1.0]]), np.array([1.0, -1.0]), C=1.0)
    >>> solve(problem, tol=1e-8, random_state=0).w.round(3)
    array([1.])
    """

    def _targets(self, y, n):
        """Signs y (-1, +1) with margin 1, or signs and margins as two columns."""
        given = np.ones(n) if y is None else np.asarray(y, dtype=np.float64)
        signs, margins = given.T if given.ndim == 2 else (given, np.ones(len(given)))
        if signs.shape != (n,) or (np.abs(signs) != 1.0).any() or not (margins >= 0.0).all():
            raise InvalidData(
                f"y has shape {given.shape}, X has {n} rows: give -1 or +1 to each row, or that "
                "and a margin >= 0"
            )
        return signs, margins

    def decode(self, labels, offsets):
        """+1 where the truth's score (0) is at least the candidate's, else -1."""
        return 1 - 2 * labels

    def slack(self, blocks, potentials):
        """What the score has beyond the margin."""
        signs, margins = blocks.data[0].T
        return signs * potentials[0] - margins

    def signed_rows(self, blocks):
        """Signs and margins."""
        signs, margins = blocks.data[0].T
        return signs, margins

    def with_losses(self, blocks, losses):
        """Losses are margins."""
        return replace(blocks, data=(np.column_stack([blocks.data[0][:, 0], losses[:, 0]]),))

    @property
    def all_labels(self):
        """The candidate alone: the truth's weight is what remains of C_i."""
        return np.ones((1, 1), dtype=np.int32)

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """The candidate when it violates, else the truth."""
        violation = loss_weight * data[0][i, 1] - data[0][i, 0] * work[0]
        label[0] = 1 if violation > 0.0 else 0
        return max(violation, 0.0)

    @staticmethod
    def loss(data, i, label):
        """The required margin, for the candidate."""
        return data[0][i, 1] * label[0]

    @staticmethod
    def exact_step(data, i, work, square, weight, stiffness, alpha, statistics):
        """The one variable, exactly."""
        sign, margin = data[0][i, 0], data[0][i, 1]
        change, gap, loss, length = step_of_one(
            margin, sign * work[0], square, weight, stiffness, alpha
        )
        statistics[0] = -sign * change
        return gap, loss, length
