"""Whether a kernel is positive semidefinite on some rows: without that there is no certificate.

P(w) - D(a) is a sum of squares in the geometry of the kernel. Where its matrix has a negative
eigenvalue, one of these squares is negative, and what looks like a lower bound is none.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from taut.errors import InvalidData
from taut.kernels.base import Kernel, KernelRows
from taut.kernels.combined import Multiple
from taut.kernels.given import Precomputed

_MOST = 1000  # rows whose matrix is decomposed
_HEIGHT = 512  # rows of a given matrix that are looked at together
_ROUNDING = 32.0  # units in the last place, for each row


def check_definite(kernel: Kernel, rows: KernelRows, rng: np.random.Generator) -> int:
    """Refuse a kernel whose matrix over some of the rows has a negative eigenvalue.

    Of a matrix that was given, all pairs of rows are looked at where some rows are not.

    Returns
    -------
    int
        How many rows were looked at; all, where the kernel itself says that it is definite.
    """
    if kernel.definite:
        return rows.n
    some = np.arange(rows.n)
    if rows.n > _MOST:
        if _is_matrix(kernel):
            _check_pairs(kernel, rows)
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
            f"{_remedy(kernel, smallest, scale, len(some))}"
        )
    return len(some)


def _is_matrix(kernel: Kernel) -> bool:
    """Whether values are looked up, so that all of them are known."""
    return (
        _is_matrix(kernel.kernel) if isinstance(kernel, Multiple) else type(kernel) is Precomputed
    )


def _check_pairs(kernel: Kernel, rows: KernelRows) -> None:
    """Refuse a matrix of which two rows alone have a negative eigenvalue: k_ij^2 > k_ii k_jj."""
    diagonal = rows.diagonal().astype(np.float64)
    allowed = _ROUNDING * _MOST * float(np.finfo(rows.dtype).eps) * np.abs(diagonal).max()
    roots = np.sqrt(np.maximum(diagonal + allowed, 0.0))  # whose products cannot overflow
    everything = slice(None)
    for first in range(0, rows.n, _HEIGHT):
        own = slice(first, min(first + _HEIGHT, rows.n))
        block = np.empty((own.stop - first, rows.n), dtype=rows.dtype)
        rows.block(own, rows, everything, block)
        limit = roots[own, None] * roots * (1.0 + 1e-12)
        wrong = np.abs(block) > limit
        if wrong.any():
            p, j = np.unravel_index(int(wrong.argmax()), wrong.shape)
            i = first + p
            found = f"k({i}, {i}) = {diagonal[i]:g}"
            if i != j:
                found += f", k({j}, {j}) = {diagonal[j]:g} and k({i}, {j}) = {block[p, j]:g}"
            raise InvalidData(
                f"{kernel!r} is not positive definite: rows {i} and {j} have {found}, but "
                "k(x, z)^2 <= k(x, x) k(z, z) and k(x, x) >= 0 hold for all kernels, so no model "
                f"can be certified; correct these values, or {_CLIP}"
            )


_CLIP = "clip the negative eigenvalues of the matrix to 0, or shift all by adding to its diagonal"


def _remedy(kernel: Kernel, smallest: float, scale: float, n: int) -> str:
    more = f"add at least {-1.1 * smallest:.2g} to the diagonal of a precomputed matrix"
    if -smallest <= _ROUNDING * n * float(np.finfo(np.float32).eps) * scale:
        more = f"values rounded to float32 look so: compute them in float64, or {more}"
    if -smallest < 1e-3 * scale:
        return f"{more}, or use a kernel that is definite, such as VonMises for angles"
    if kernel.of_matrix:
        return (
            f"{_CLIP} (by at least {-1.1 * smallest:.2g}), or use a kernel that is definite, such "
            "as VonMises for angles"
        )
    return (
        "use a kernel that is definite, such as VonMises for angles instead of a Gaussian of their "
        "differences, RBF for rows, or a product of such kernels"
    )
