"""Feasible dual points, and the bounds that they prove."""

from __future__ import annotations

import math

import numpy as np

from taut.certification.losses import Losses
from taut.certification.spaces import Point
from taut.problem import Bound, rounding_of

_HALVINGS = 100  # of an interval of numbers: more than their digits


def feasible(beta: np.ndarray, losses: Losses, free: bool) -> np.ndarray:
    """The beta nearest to these within the boxes, and with sum 0 where there is a free bias.

    Coefficients that are 0 stay 0: the nearest point is that of the others.
    """
    lower, upper = losses.box()
    beta = np.clip(beta, lower, upper)
    if free and beta.any():
        support = np.flatnonzero(beta)
        beta[support] = _balanced(beta[support], lower[support], upper[support])
    return beta


def _balanced(beta: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The nearest point of a box with sum 0; the box contains 0."""
    # Shifted by its largest number a point has no positive sum, by its least no negative one.
    least, most = float(beta.min()), float(beta.max())
    if math.fsum(beta) != 0.0:
        for _ in range(_HALVINGS):
            shift = 0.5 * (least + most)
            if float(np.clip(beta - shift, lower, upper).sum()) > 0.0:
                least = shift
            else:
                most = shift
        beta = np.clip(beta - most, lower, upper)
    rest = math.fsum(beta)
    if rest != 0.0:  # rounding has left it; it goes where there is most room
        k = int(np.argmax(beta - lower if rest > 0.0 else upper - beta))
        beta[k] = min(max(beta[k] - rest, lower[k]), upper[k])
    return beta


def primal_bound(losses: Losses, point: Point, bias: float) -> Bound:
    """P of a function and a bias that is not regularised."""
    scores = point.scores + bias
    costs = losses.cost(scores)
    total = float(costs.sum())
    terms = point.sizes + np.abs(losses.target) + (losses.epsilon + abs(bias))
    # Scores at a break of the loss may in truth be on its other side.
    doubt = rounding_of(1.0, len(scores)) * terms
    slopes = np.maximum(
        np.abs(losses.multipliers(scores - doubt)), np.abs(losses.multipliers(scores + doubt))
    )
    magnitude = 0.5 * point.square_size + total + float(slopes @ terms)
    return Bound(0.5 * point.square + total, rounding_of(magnitude, len(scores)))


def dual_bound(losses: Losses, point: Point, beta: np.ndarray, free: bool) -> tuple[Bound, float]:
    """D of feasible dual variables times the factor that is best, and that factor.

    The point is the function of beta.
    """
    gain, sizes = losses.linear_part(beta)
    curved = losses.square_part(beta)
    steep = max(point.square, 0.0) + curved
    factor = _best_factor(losses, beta, gain, steep)
    value = factor * gain - 0.5 * factor**2 * steep
    magnitude = factor * sizes + 0.5 * factor**2 * (point.square_size + curved)
    rounding = rounding_of(magnitude, len(beta))
    if free:
        # One of the beta would have to change by the rest for the sum to be 0 exactly.
        rest = factor * abs(math.fsum(beta))
        above, below = losses.curvature()
        slopes = np.abs(losses.target) + losses.epsilon + factor * point.sizes
        slopes += factor * np.maximum(above, below) * np.abs(beta)
        rounding += rest * float(slopes.max(initial=0.0))
    return Bound(value, rounding), factor


def _best_factor(losses: Losses, beta: np.ndarray, gain: float, steep: float) -> float:
    """Where D(factor beta) is largest among the factors that are feasible."""
    if gain <= 0.0:
        return 0.0
    lower, upper = losses.box()
    edge = np.where(beta > 0.0, upper, -lower)
    used = beta != 0.0
    most = float((edge[used] / np.abs(beta[used])).min(initial=math.inf))
    # Rounded products must not leave the box.
    most = 1.0 if most <= 1.0 else most * (1.0 - 4.0 * np.finfo(np.float64).eps)
    return min(gain / steep if steep > 0.0 else math.inf, most)
