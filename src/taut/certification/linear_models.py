"""Machines of models that consist of weights of columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.certification.losses import hinges, insensitive
from taut.certification.machine import LinearMachine, ProblemMachine
from taut.certification.spaces import LinearSpace
from taut.data.arrays import Matrix
from taut.problem import Problem
from taut.structures import Multiclass

CRAMMER_SINGER = "1/2 |W|^2 + sum_i C_i max_k [k != y_i] - <w_yi - w_k, (x_i, bias)>"


def in_words(loss: str, squared: bool, free: bool, scale: str = "") -> str:
    """The objective of a linear machine."""
    score = "(<w, x_i> + b)" if free else "<w, (x_i, bias)>"
    inside = f"1 - y_i {score}" if loss == "hinge" else f"|y_i - {score}| - epsilon"
    power, bias = "^2" * squared, ", b free" if free else ""
    return f"{scale or '1/2'} |w|^2 + sum_i C_i max(0, {inside}){power}{bias}"


def one_vs_rest(
    X: Matrix,
    names: list[str],
    codes: np.ndarray,
    weight: np.ndarray,
    factors: np.ndarray,
    W: np.ndarray,
    biases: np.ndarray,
    *,
    constant: float,
    squared: bool,
    free: bool = False,
    scale: float = 1.0,
) -> list[LinearMachine]:
    """A machine for each class against the rest, or one for two classes.

    Parameters
    ----------
    codes, weight : ndarray of shape (n,)
        Classes, and C_i without factors of classes.
    factors : ndarray of shape (n_classes,)
        With more than two classes, that of a class counts in its own machine alone.
    W : ndarray of shape (n_machines, n_columns)
        Positive for the second of two classes, or for the class itself.
    """
    space = LinearSpace(X, constant)
    options: dict[str, Any] = {"free": free, "scale": scale}
    if len(names) == 2:
        losses = hinges(2.0 * codes - 1.0, weight * factors[codes], squared)
        name = f"{names[0]} or {names[1]}"
        return [LinearMachine(name, space, losses, W[0], float(biases[0]), **options)]
    machines = []
    for k, name in enumerate(names):
        own = codes == k
        losses = hinges(np.where(own, 1.0, -1.0), weight * np.where(own, factors[k], 1.0), squared)
        bias = float(biases[k])
        machines.append(LinearMachine(f"{name} or not", space, losses, W[k], bias, **options))
    return machines


def regression(
    X: Matrix,
    targets: np.ndarray,
    epsilon: float,
    weight: np.ndarray,
    w: np.ndarray,
    bias: float,
    *,
    constant: float,
    squared: bool,
    free: bool = False,
    scale: float = 1.0,
) -> list[LinearMachine]:
    """The one machine of a linear regression."""
    losses = insensitive(targets, epsilon, weight, squared)
    space = LinearSpace(X, constant)
    return [LinearMachine("all", space, losses, w, bias, free, scale)]


def crammer_singer(
    X: Matrix, codes: np.ndarray, weight: np.ndarray, W: np.ndarray, tails: np.ndarray,
    constant: float,
) -> list[ProblemMachine]:  # fmt: skip
    """The one machine of all classes; `tails` are the weights of the constant column."""
    problem = Problem(Multiclass(len(W), bias=constant), X, codes, 1.0, weight)
    joint = np.column_stack([W, tails]) if constant else W
    return [ProblemMachine("all classes", problem, joint.T.ravel())]
