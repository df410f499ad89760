"""What to do about a run that ended before its gap was small enough, measured on the run itself."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.result import History, Status

_STIFF = 1e3  # mean C_i |psi_i|^2 above which many runs need more than a thousand passes
_EASY = 1e2  # below which few need more than some hundred
_SPREAD = 1e3  # ratio of the sizes of columns above which scaling them is worthwhile
_ROWS = 10_000  # rows whose values are looked at
_LEAST = 20  # passes from which a rate can be told
_FAR = 2  # times the passes so far: what lies beyond is no forecast
_SLOWER = 0.8  # ratio of two rates below which the fall is one that slows down

_AT_THIS_RATE = "at this rate"
_LIMITS = {Status.MAX_ITER: "max_iter", Status.TIME_LIMIT: "time_limit"}


def advice(
    status: Status, history: History, tol: float, curvature: Callable[[], float], X: Any
) -> str:
    """What to change so that the same fit reaches `tol`, as the end of a sentence.

    There is nothing to say unless a limit was the reason of its end. `curvature` returns the mean
    of C_i |psi_i|^2; the columns of X are measured where it is a matrix.
    """
    if status not in _LIMITS:
        return ""
    more = _more(_LIMITS[status], history, tol)
    stiff = curvature()
    if stiff > _STIFF and _AT_THIS_RATE not in more:
        smallest, largest, scaler = _column_sizes(X)
        if largest > _SPREAD * smallest:
            return (
                f"the features have sizes from {smallest:.2g} to {largest:.2g}: scale them, e.g. "
                f"with sklearn.preprocessing.{scaler}"
            )
        return (
            f"C times the squared length of the features is {stiff:.1g} on average, and training "
            f"is fast below {_EASY:g}: lower C, or scale the features"
        )
    return more


def _column_sizes(X: Any) -> tuple[float, float, str]:
    """The least and the largest size of a column, zeros aside, and which scaler suits them."""
    while isinstance(X, tuple) and X:
        X = X[0]
    if not (sp.issparse(X) or (isinstance(X, np.ndarray) and X.dtype.kind in "fiu")) or X.ndim != 2:
        return 1.0, 1.0, ""
    rows = X[:: X.shape[0] // _ROWS + 1]
    if sp.issparse(X):
        squares = rows.multiply(rows).sum(axis=0)
    else:
        squares = np.einsum("ij,ij->j", rows, rows, dtype=np.float64)
    counts = (rows != 0.0).sum(axis=0)
    sizes = np.sqrt(np.ravel(squares) / np.maximum(np.ravel(counts), 1))
    sizes = sizes[sizes > 0.0]
    scaler = "MaxAbsScaler" if sp.issparse(X) else "StandardScaler"
    return (sizes.min(), sizes.max(), scaler) if len(sizes) else (1.0, 1.0, scaler)


def _more(limit: str, history: History, tol: float) -> str:
    """By how much to raise a limit, where the gap falls steadily."""
    passes, gaps = history["iteration"], np.minimum.accumulate(history["relative_gap"])
    n = len(passes)
    if n < _LEAST or tol <= 0.0 or not 0.0 < gaps[-1] < math.inf:
        return f"raise {limit}, or tol"
    thirds = [n // 3, 2 * n // 3, n - 1]
    logs, at = np.log(np.minimum(gaps[thirds], 1e300)), passes[thirds]
    if at[0] == at[1] or at[1] == at[2]:  # long passes, of which parts are recorded
        return f"raise {limit}, or tol"
    falls = -np.diff(logs) / np.diff(at)
    if falls.min() <= 0.0:
        return f"the gap has stopped falling: raise tol, or try another solver, or raise {limit}"
    to_fall, now = max(logs[-1] - math.log(tol), 0.0), passes[-1]
    left = to_fall / falls[1]
    if falls[1] < _SLOWER * falls[0]:  # like a power of the number of passes
        power = (logs[1] - logs[2]) / math.log(at[2] / at[1])
        left = now * math.expm1(min(to_fall / power, 50.0))
    if left > _FAR * now or falls.max() > 3.0 * falls.min():
        return f"raise {limit}, or tol"
    left = math.ceil(float(f"{max(left, 2.0):.2g}"))
    seconds = left * float(history["seconds"][-1]) / now
    amount = f"{left} more passes" if limit == "max_iter" else f"{seconds:.2g} more seconds"
    return f"raise {limit}, or tol; {_AT_THIS_RATE} about {amount} are needed"
