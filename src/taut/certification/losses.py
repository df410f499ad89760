"""Losses of single rows as functions of their scores, with their conjugates.

Every loss here is a sum of two ramps in the residual r = target - score, one for scores that are
too low and one for scores that are too high:

    cost_i(r) = up_i ramp(r - epsilon) + low_i ramp(-r - epsilon)

with ramp(z) = max(0, z) or its square. The hinge has one of the two, with the sign of the row as
its target and epsilon = 0; the epsilon-insensitive loss has both. The ramps are maxima over beta in
a box,

    cost_i(r) = max_beta  beta r - epsilon |beta| - beta^2 / (4 weight)

without the last term for plain ramps, so that for all beta in their boxes

    D(beta) = sum_i [beta_i target_i - epsilon |beta_i| - beta_i^2 / (4 weight_i)] - 1/2 |f_beta|^2

is at most P(f) = 1/2 |f|^2 + sum_i cost_i. With a free bias this holds where sum_i beta_i = 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Losses(ABC):
    """The losses of some rows.

    Attributes
    ----------
    target : ndarray of shape (n,)
    epsilon : float
    up, low : ndarray of shape (n,)
        Weights of the ramps for scores that are too low, and too high.
    """

    target: np.ndarray
    epsilon: float
    up: np.ndarray
    low: np.ndarray

    def excess(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By how much scores are too low, and too high."""
        residual = self.target - scores
        return np.maximum(residual - self.epsilon, 0.0), np.maximum(-residual - self.epsilon, 0.0)

    def linear_part(self, beta: np.ndarray) -> tuple[float, float]:
        """The part of D that grows like beta, and the summed size of its terms."""
        own, band = beta * self.target, self.epsilon * np.abs(beta)
        return float((own - band).sum()), float((np.abs(own) + band).sum())

    def _breaks(self, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Biases where a ramp begins or ends, sorted; its weight; whether it falls before."""
        falling, rising = self.up > 0.0, self.low > 0.0
        points = np.concatenate(
            [
                (self.target - self.epsilon - scores)[falling],
                (self.target + self.epsilon - scores)[rising],
            ]
        )
        weights = np.concatenate([self.up[falling], self.low[rising]])
        falls = np.arange(len(points)) < np.count_nonzero(falling)
        order = np.argsort(points, kind="stable")
        return points[order], weights[order], falls[order]

    @abstractmethod
    def cost(self, scores: np.ndarray) -> np.ndarray:
        """The loss of each row."""

    @abstractmethod
    def multipliers(self, scores: np.ndarray) -> np.ndarray:
        """The beta that attain the costs: minus the slopes of the losses."""

    @abstractmethod
    def box(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest beta of each row."""

    @abstractmethod
    def curvature(self) -> tuple[np.ndarray, np.ndarray]:
        """q in the term -q beta^2 / 2 of D, for beta above 0 and below."""

    def square_part(self, beta: np.ndarray) -> float:
        """The sum of q beta^2."""
        above, below = self.curvature()
        return float((np.where(beta > 0.0, above, below) * beta**2).sum())

    @abstractmethod
    def best_bias(self, scores: np.ndarray) -> float:
        """The b that minimises the summed cost of scores + b."""


class PlainLosses(Losses):
    """Ramps that grow like the excess."""

    def cost(self, scores):
        """Weights times excesses."""
        over, under = self.excess(scores)
        return self.up * over + self.low * under

    def multipliers(self, scores):
        """At a corner of the box, or 0."""
        over, under = self.excess(scores)
        return np.where(over > 0.0, self.up, 0.0) - np.where(under > 0.0, self.low, 0.0)

    def box(self):
        """The weights."""
        return -self.low, self.up

    def curvature(self):
        """None."""
        zeros = np.zeros(len(self.target))
        return zeros, zeros

    def best_bias(self, scores):
        """Where the slope, which rises at each break, is no longer negative."""
        points, weights, falls = self._breaks(scores)
        if len(points) == 0:
            return 0.0
        slopes = np.cumsum(weights) - weights[falls].sum()
        enough = slopes >= 0.0
        return float(points[np.argmax(enough) if enough.any() else -1])


class SquaredLosses(Losses):
    """Ramps that grow like the square of the excess."""

    def cost(self, scores):
        """Weights times squared excesses."""
        over, under = self.excess(scores)
        return self.up * over**2 + self.low * under**2

    def multipliers(self, scores):
        """Twice the weighted excess."""
        over, under = self.excess(scores)
        return 2.0 * (self.up * over - self.low * under)

    def box(self):
        """A half line for hinges, all numbers for both ramps."""
        return np.where(self.low > 0.0, -np.inf, 0.0), np.where(self.up > 0.0, np.inf, 0.0)

    def curvature(self):
        """1 / (2 weight); where there is no ramp, beta cannot be."""
        halves = [
            np.divide(0.5, weight, out=np.zeros(len(weight)), where=weight > 0.0)
            for weight in (self.up, self.low)
        ]
        return halves[0], halves[1]

    def best_bias(self, scores):
        """The zero of the slope, which is linear between breaks."""
        points, weights, falls = self._breaks(scores)
        if len(points) == 0:
            return 0.0
        down, rise = np.where(falls, weights, 0.0), np.where(falls, 0.0, weights)

        def sums(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """Over the falling ramps from each break on, and the rising ones up to it."""
            return np.cumsum((down * values)[::-1])[::-1], np.cumsum(rise * values)

        (falling, rising), (far, near) = sums(np.ones(len(points))), sums(points)
        slopes = points * (falling + rising) - far - near
        k = int(np.argmax(slopes >= 0.0)) if (slopes >= 0.0).any() else len(points) - 1
        # Up to this break all ramps from it on still fall, and those before it rise.
        weight = falling[k] + (rising[k - 1] if k else 0.0)
        moment = far[k] + (near[k - 1] if k else 0.0)
        return float(moment / weight) if weight > 0.0 else float(points[k])


def hinges(signs: np.ndarray, weight: np.ndarray, squared: bool = False) -> Losses:
    """weight_i max(0, 1 - sign_i score_i), or its square."""
    kind = SquaredLosses if squared else PlainLosses
    up, low = np.where(signs > 0.0, weight, 0.0), np.where(signs > 0.0, 0.0, weight)
    return kind(signs, 0.0, up, low)


def insensitive(
    target: np.ndarray, epsilon: float, weight: np.ndarray, squared: bool = False
) -> Losses:
    """weight_i max(0, |target_i - score_i| - epsilon), or its square."""
    kind = SquaredLosses if squared else PlainLosses
    return kind(target, epsilon, weight, weight)
