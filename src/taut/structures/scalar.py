"""One candidate per block: binary classification, and regression as two blocks per example."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut._jit import helper
from taut._lanes import prefetch
from taut._linalg import add_row, as_rows, n_rows, prefetch_rows, row_dot, squared_norms, touch_rows
from taut._scaling import act
from taut.data.arrays import as_matrix
from taut.errors import InvalidData
from taut.structures.base import Blocks, CompiledStructure


@helper
def _margin(data, i, w):
    rows, points, bias = data
    if bias != 0.0:
        return points[i, 0] * (row_dot(rows, i, w) + bias * w[w.shape[0] - 1])
    return points[i, 0] * row_dot(rows, i, w)


@helper
def _subtract(data, i, scale, w):
    """W -= scale sign (x, bias)."""
    rows, points, bias = data
    scale *= -points[i, 0]
    add_row(rows, i, scale, w)
    if bias != 0.0:
        w[w.shape[0] - 1] += scale * bias


class Scalar(CompiledStructure):
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

    allocates = False
    takes_checked = True

    def __init__(self, bias: float = 0.0) -> None:
        self.bias = bias

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Rows X with signs y (-1, +1); all margins are 1."""
        X = as_matrix(X)
        rows = as_rows(X, dense_above=0.2)
        n = n_rows(rows)
        signs = np.ones(n) if y is None else np.asarray(y, dtype=np.float64)
        if signs.shape != (n,) or (np.abs(signs) != 1.0).any():
            raise InvalidData(
                f"y has shape {signs.shape}, X has {n} rows: give -1 or +1 to each row"
            )
        # Sign, margin and |(x, bias)|^2 of a block side by side: visits come in random order.
        points = np.column_stack([signs, np.ones(n), squared_norms(rows) + self.bias**2])
        return Blocks(
            data=(rows, points, float(self.bias)),
            n_features=X.shape[1] + (self.bias != 0.0),
            offsets=np.arange(n + 1),
            truth=np.zeros(n, dtype=np.int32),
            dtype=X.dtype.type,
            mean_reads=rows[0].size // n,
        )

    def decode(self, labels, offsets):
        """+1 where the truth's score (0) is at least the candidate's, else -1."""
        return 1 - 2 * labels

    @property
    def all_labels(self):
        """The candidate alone: the truth's weight is what remains of C_i."""
        return np.ones((1, 1), dtype=np.int32)

    @staticmethod
    def prefetch(data, i):
        """The block's numbers and its row."""
        prefetch(data[1], 3 * i)
        prefetch_rows(data[0], i, i + 1)

    @staticmethod
    def touch(data, i, action):
        """The row's features and the bias."""
        touch_rows(data[0], i, i + 1, 1, action)
        if data[2] != 0.0:
            act(action, action.v.shape[0] - 1, action.v.shape[0])

    @staticmethod
    def prepare(data, i, w, work):
        """work[0] = <w, psi>."""
        work[0] = _margin(data, i, w)

    @staticmethod
    def argmax(data, i, w, work, loss_weight, label):
        """The candidate when it violates, else the truth."""
        violation = loss_weight * data[1][i, 1] - work[0]
        label[0] = 1 if violation > 0.0 else 0
        return max(violation, 0.0)

    @staticmethod
    def loss(data, i, label):
        """The required margin, for the candidate."""
        return data[1][i, 1] * label[0]

    @staticmethod
    def score(data, i, w, work, label):
        """-<w, psi> for the candidate, 0 for the truth."""
        return -work[0] * label[0]

    @staticmethod
    def add_features(data, i, labels, scales, w):
        """W -= sign (x, bias) for the candidate."""
        total = 0.0
        for q in range(scales.shape[0]):
            total += scales[q] * labels[q, 0]
        _subtract(data, i, total, w)

    @staticmethod
    def add_change(data, i, change, factor, work, w):
        """W -= sign (x, bias) for the candidate."""
        _subtract(data, i, factor * change[0], w)

    @staticmethod
    def inner(data, i, a, b):
        """|(x, bias)|^2 when both are the candidate."""
        return data[1][i, 2] * a[0] * b[0]

    @staticmethod
    def exact_step(data, i, work, weight, stiffness, alpha, change):
        """Newton step in one variable, clipped to [0, weight]."""
        margin = data[1][i, 1]
        norm = data[1][i, 2]
        violation = margin - work[0]
        gap = weight * max(violation, 0.0) - alpha[0] * violation
        if norm > 0.0:
            new = min(max(alpha[0] + violation * (stiffness / norm), 0.0), weight)
        else:  # psi = 0: the dual is linear in alpha
            new = weight if violation > 0.0 else 0.0
        change[0] = new - alpha[0]
        alpha[0] = new
        return gap, change[0] * margin, change[0] ** 2 * norm
