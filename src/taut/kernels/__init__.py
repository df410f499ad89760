"""Kernels: functions of two rows, each one class, that `kernel=` of the estimators takes.

>>> from taut.kernels import RBF, Linear
>>> RBF(gamma=0.1) + 0.5 * Linear()
Sum(RBF(gamma=0.1), Multiple(kernel=Linear(), factor=0.5))
"""

from __future__ import annotations

from typing import Any

from taut.errors import InvalidData, InvalidType
from taut.kernels.angles import AngleFunction, GaussianLabels, SectorLabels, VonMisesLabels
from taut.kernels.base import Kernel, KernelRows
from taut.kernels.columns import Chi2, Intersection, Laplacian
from taut.kernels.combined import Multiple, Product, Sum
from taut.kernels.definite import check_definite
from taut.kernels.given import Function, Precomputed
from taut.kernels.labels import ClassSimilarity, LabelKernel
from taut.kernels.pair_stores import Pair
from taut.kernels.pairs import PairFunction, PairKernel, PairProduct
from taut.kernels.products import RBF, Linear, Polynomial, VonMises

__all__ = [
    "RBF",
    "AngleFunction",
    "Chi2",
    "ClassSimilarity",
    "Function",
    "GaussianLabels",
    "Intersection",
    "Kernel",
    "KernelRows",
    "LabelKernel",
    "Laplacian",
    "Linear",
    "Multiple",
    "Pair",
    "PairFunction",
    "PairKernel",
    "PairProduct",
    "Polynomial",
    "Precomputed",
    "Product",
    "SectorLabels",
    "Sum",
    "VonMises",
    "VonMisesLabels",
    "as_kernel",
    "check_definite",
]

#: By name: the kernel with gamma, degree and coef0 of an estimator.
_NAMED = {
    "linear": lambda gamma, degree, coef0: Linear(),
    "rbf": lambda gamma, degree, coef0: RBF(gamma),
    "laplacian": lambda gamma, degree, coef0: Laplacian(gamma),
    "polynomial": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "poly": lambda gamma, degree, coef0: Polynomial(degree, gamma, coef0),
    "intersection": lambda gamma, degree, coef0: Intersection(),
    "chi2": lambda gamma, degree, coef0: Chi2(gamma),
    "von_mises": lambda gamma, degree, coef0: VonMises(1.0 if isinstance(gamma, str) else gamma),
    "precomputed": lambda gamma, degree, coef0: Precomputed(),
}


def as_kernel(
    kernel: Any, gamma: float | str = "scale", degree: float = 3, coef0: float = 0.0
) -> Kernel:
    """A kernel by its name, or one that is given; a function of two blocks of rows becomes one.

    Parameters
    ----------
    kernel : str, Kernel or callable
        "linear", "rbf", "laplacian", "polynomial" or "poly", "intersection", "chi2", "von_mises"
        or "precomputed".
    gamma, degree, coef0
        Of kernels by name. For "von_mises" a number gamma is kappa.

    Examples
    --------
    >>> from taut.kernels import as_kernel
    >>> as_kernel("rbf", gamma=0.5)
    RBF(gamma=0.5)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str):
        if kernel not in _NAMED:
            raise InvalidData(
                f"kernel = {kernel!r}: give one of {', '.join(map(repr, _NAMED))}, a kernel of "
                "taut.kernels, or a function of two blocks of rows"
            )
        return _NAMED[kernel](gamma, degree, coef0)
    if isinstance(kernel, type) or not callable(kernel):
        raise InvalidType(
            f"kernel = {kernel!r}: give a name such as 'rbf', an object such as "
            "taut.kernels.RBF(gamma=0.1), or a function of two blocks of rows"
        )
    return Function(kernel)
