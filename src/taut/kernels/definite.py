"""Whether a kernel is positive semidefinite on some rows: without that there is no certificate.

P(w) - D(a) is a sum of squares in the geometry of the kernel. Where its matrix has a negative
eigenvalue, one of these squares is negative, and what looks like a lower bound is none.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from taut.errors import InvalidData
from taut.kernels.base import Kernel, KernelRows

_MOST = 1000  # rows whose matrix is decomposed
_ROUNDING = 32.0  # units in the last place, for each row


def check_definite(kernel: Kernel, rows: KernelRows, rng: np.random.Generator) -> int:
    """Refuse a kernel whose matrix over some of the rows has a negative eigenvalue.

    Returns
    -------
    int
        How many rows were looked at; all, where the kernel itself says that it is definite.
    """
    if kernel.definite:
        return rows.n
    some = np.arange(rows.n)
    if rows.n > _MOST:
        some = np.sort(rng.choice(rows.n, _MOST, replace=False))
    matrix = np.empty((len(some), len(some)), dtype=rows.dtype)
    rows.block(some, rows, some, matrix)
    precise = matrix.astype(np.float64)
    lower = np.abs(precise - precise.T).max(initial=0.0)
    scale = max(float(np.abs(precise).max(initial=0.0)), np.finfo(float).tiny)
    allowed = _ROUNDING * len(some) * float(np.finfo(matrix.dtype).eps) * scale
    if lower > allowed:
        raise InvalidData(
            f"{kernel!r} is not symmetric: k(x, z) and k(z, x) differ by {lower:g} on the data; "
            "return a symmetric function of two rows"
        )
    smallest = float(scipy.linalg.eigvalsh(precise, subset_by_index=[0, 0])[0])
    if smallest < -allowed:
        raise InvalidData(
            f"{kernel!r} is not positive definite: the smallest eigenvalue of its matrix over "
            f"{len(some)} rows is {smallest:.3g}, so no model can be certified; "
            f"{_remedy(smallest, scale)}"
        )
    return len(some)


def _remedy(smallest: float, scale: float) -> str:
    if -smallest < 1e-3 * scale:
        return (
            f"add {-1.1 * smallest:.2g} to the diagonal of a precomputed matrix, or use a kernel "
            "that is definite, such as VonMises for angles"
        )
    return (
        "use a kernel that is definite, such as VonMises for angles instead of a Gaussian of their "
        "differences, RBF for rows, or a product of such kernels"
    )
