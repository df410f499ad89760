"""Machines of models that consist of dual coefficients of training rows."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from taut.certification.given import check_coefficients
from taut.certification.losses import hinges, insensitive
from taut.certification.machine import KernelMachine
from taut.certification.spaces import KernelSpace

#: The objectives in words.
HINGES = "1/2 |f|^2 + sum_i C_i max(0, 1 - y_i (f(x_i) + b)), b free"
INSENSITIVE = "1/2 |f|^2 + sum_i C_i max(0, |y_i - f(x_i) - b| - epsilon), b free"


def one_vs_one(
    space: KernelSpace,
    caveat: str,
    names: list[str],
    codes: np.ndarray,
    weight: np.ndarray,
    support: np.ndarray,
    coefficients: np.ndarray,
    biases: np.ndarray,
) -> list[KernelMachine]:
    """A machine for each two classes, in the layout of LIBSVM.

    Parameters
    ----------
    codes, weight : ndarray of shape (n,)
        Classes and C_i of all rows.
    support : ndarray of shape (n_support,)
        Rows that have coefficients.
    coefficients : ndarray of shape (n_classes - 1, n_support)
        A row of class i has that against class j > i in row j - 1, that against j < i in row j.
    biases : ndarray
        One for each pair, which is positive for its first class.
    """
    machines = []
    of_support = codes[support]
    for (i, j), bias in zip(combinations(range(len(names)), 2), biases, strict=True):
        beta = np.zeros(len(codes))
        beta[support[of_support == i]] = coefficients[j - 1, of_support == i]
        beta[support[of_support == j]] = coefficients[i, of_support == j]
        rows = np.flatnonzero((codes == i) | (codes == j))
        losses = hinges(np.where(codes[rows] == i, 1.0, -1.0), weight[rows])
        name = f"{names[i]} or {names[j]}"
        check_coefficients(beta[rows], losses, rows, name)
        own = space if len(rows) == space.n else space.take(rows)
        machines.append(KernelMachine(name, own, losses, beta[rows], float(bias), caveat))
    return machines


def regression(
    space: KernelSpace,
    caveat: str,
    targets: np.ndarray,
    epsilon: float,
    weight: np.ndarray,
    support: np.ndarray,
    coefficients: np.ndarray,
    bias: float,
) -> list[KernelMachine]:
    """The one machine of a support vector regression."""
    beta = np.zeros(len(targets))
    beta[support] = coefficients
    losses = insensitive(targets, epsilon, weight)
    check_coefficients(beta, losses, np.arange(len(targets)), "the regression")
    return [KernelMachine("all", space, losses, beta, bias, caveat)]
