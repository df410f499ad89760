"""One convex problem of a model, as a reader describes it, and its bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from taut.certification.ascent import Ascent
from taut.certification.dual_points import dual_bound, feasible, primal_bound
from taut.certification.interior_point import InteriorPoint, is_affordable
from taut.certification.losses import Losses
from taut.certification.report import MachineBounds, NoBound
from taut.certification.spaces import KernelSpace, LinearSpace, Point
from taut.compiled.jit import clock
from taut.errors import InvalidData
from taut.problem import Bound, Problem
from taut.result import THE_OBJECTIVE
from taut.solving import solve

_FEW_PASSES = 20  # of dual ascent, before an interior point is tried
_MOST_STEPS = 100  # of an interior point: more of them mean that rounding stands in its way


class Effort(NamedTuple):
    """How sharp a bound to seek where it takes work, and how much of it."""

    tol: float
    max_iter: int
    time_limit: float | None


class Machine(Protocol):
    """What readers make of a model: one for each problem that it solves."""

    @property
    def name(self) -> str:
        """Which machine: the classes that it tells apart, or "all"."""

    def bounds(self, effort: Effort) -> MachineBounds:
        """The primal value at the model, and a lower bound of the optimum."""


def _report(
    machine: Any,
    primal: Bound,
    best: float,
    dual: Bound,
    note: str,
    *,
    scale: float = 1.0,
    caveat: str = "",
) -> MachineBounds:
    """Bounds in the units of the model's own objective, which is never negative."""
    lower = max(dual.value - dual.rounding, 0.0)
    if not lower <= primal.value + primal.rounding:
        raise NoBound(
            f"what should be a lower bound of {machine.name}, {scale * lower:g}, is above its "
            f"objective, {scale * primal.value:g}: its kernel is not positive definite on these "
            "data"
        )
    best = min(best, primal.value)
    return MachineBounds(
        machine.name, machine.losses.target.size, scale * primal.value, scale * best,
        scale * lower, note, caveat, scale * primal.rounding,
    )  # fmt: skip


def _check_finite(name: str, *values: Any) -> None:
    """Refuse a model that has diverged."""
    if not all(np.isfinite(value).all() for value in values):
        raise NoBound(f"{name} has weights or a bias that are infinite or NaN: its training failed")


def _primal(machine: Any, point: Point, bias: float) -> Bound:
    """The objective of a model."""
    primal = primal_bound(machine.losses, point, bias)
    if not math.isfinite(primal.value + primal.rounding):
        raise NoBound(f"the objective of {machine.name} is too large a number to compute with")
    return primal


def _unsharp(gap: float) -> str:
    """A note on a bound that was given up on."""
    return f"; not sharp, {gap:.2g} of the gap may be the bound's"


def _passes(number: int) -> str:
    return f"{number} pass{'es' * (number > 1)}"


@dataclass(frozen=True)
class KernelMachine:
    """Dual coefficients of rows, and a free bias: the bound is that of these coefficients.

    Attributes
    ----------
    name : str
    space : KernelSpace
    losses : Losses
    coefficients : ndarray of shape (n,)
        f = sum_i coefficients_i k(x_i, .).
    bias : float
    caveat : str
        What the bound depends on, as a sentence.
    """

    name: str
    space: KernelSpace
    losses: Losses
    coefficients: np.ndarray
    bias: float
    caveat: str = ""

    def bounds(self, effort: Effort) -> MachineBounds:
        """By the model's own coefficients, made feasible."""
        _check_finite(self.name, self.coefficients, self.bias)
        beta = feasible(self.coefficients, self.losses, True)
        own, point = self.space.of_coefficients(self.coefficients, beta)
        primal = _primal(self, own, self.bias)
        best = primal_bound(self.losses, own, self.losses.best_bias(own.scores))
        dual, factor = dual_bound(self.losses, point, beta, True)
        note = "own dual coefficients"
        moved = float(np.abs(factor * beta - self.coefficients).sum())
        if moved > 1e-6 * float(np.abs(self.coefficients).sum()):
            note += ", made feasible"
        return _report(self, primal, best.value, dual, note, caveat=self.caveat)


@dataclass(frozen=True)
class LinearMachine:
    """Weights of columns: dual variables are read off the losses, and improved if need be.

    Attributes
    ----------
    name : str
    space : LinearSpace
    losses : Losses
    weights : ndarray of shape (n_columns,)
    bias : float
        Of all scores. Without `free` it is that of the space's constant column.
    free : bool
        Whether the bias is not regularised.
    scale : float
        The model's own objective is that of the losses times this number.
    """

    name: str
    space: LinearSpace
    losses: Losses
    weights: np.ndarray
    bias: float
    free: bool = False
    scale: float = 1.0

    def bounds(self, effort: Effort) -> MachineBounds:
        """By the slopes of the losses at w; dual ascent from there; an interior point."""
        _check_finite(self.name, self.weights, self.bias)
        constant = self.space.constant
        if self.bias != 0.0 and not self.free and constant == 0.0:
            raise InvalidData(
                f"{self.name} has the intercept {self.bias:g} and is said to be without "
                "(fit_intercept=False, or bias -1 in a file): give the model as it was trained"
            )
        tail = self.bias / constant if constant else 0.0
        own = self.space.of_weights(self.weights, tail)
        bias = self.bias if self.free else 0.0
        primal = _primal(self, own, bias)
        search = _Search(self, primal.value)
        if self.free:
            bias = search.best_bias(own)
        search.look(self.losses.multipliers(own.scores + bias))
        note = "slopes of the losses at w"
        if search.gap > effort.tol:
            note = search.sharpen(effort, bias)
            if search.gap > effort.tol:
                note += _unsharp(search.gap)
        return _report(self, primal, search.best, search.dual, note, scale=self.scale)


class _Search:
    """The best bounds seen so far of a linear machine.

    Attributes
    ----------
    best : float
        The smallest objective.
    dual : Bound
        The largest lower bound.
    """

    def __init__(self, machine: LinearMachine, primal: float) -> None:
        self.machine = machine
        self.best = primal
        self.dual = Bound(0.0, 0.0)
        self.beta = np.zeros(machine.space.n)

    @property
    def gap(self) -> float:
        """How far apart the bounds of the optimum are, relative to the upper one."""
        return (self.best - self.dual.value) / self.best if self.best > 0.0 else 0.0

    def best_bias(self, point: Point) -> float:
        """The best free bias for a function, whose objective is taken note of."""
        losses = self.machine.losses
        bias = losses.best_bias(point.scores)
        self.best = min(self.best, primal_bound(losses, point, bias).value)
        return bias

    def look(self, beta: np.ndarray) -> None:
        """Read bounds off dual variables, made feasible."""
        losses, free = self.machine.losses, self.machine.free
        beta = feasible(beta, losses, free)
        point = self.machine.space.of_coefficients(beta)[0]
        dual, factor = dual_bound(losses, point, beta, free)
        if dual.value - dual.rounding > self.dual.value - self.dual.rounding:
            self.dual, self.beta = dual, factor * beta
        point = point.times(factor)
        if free:
            self.best_bias(point)
        else:
            self.best = min(self.best, primal_bound(losses, point, 0.0).value)

    def sharpen(self, effort: Effort, bias: float) -> str:
        """Work on the dual variables until the bound is sharp; what was done."""
        end = math.inf if effort.time_limit is None else clock() + effort.time_limit
        space, most = self.machine.space, effort.max_iter
        affordable = is_affordable(space)
        if affordable:  # about as many as take as long as the steps
            most = min(most, max(space.X.shape[1], _FEW_PASSES))
        passes = self._ascend(effort.tol, most, end, bias)
        note = f"dual ascent, {_passes(passes)}"
        steps = effort.max_iter - passes
        if affordable and steps > 0 and self.gap > effort.tol and clock() < end:
            steps = self._from_within(effort.tol, min(steps, _MOST_STEPS), end)
            note = f"interior point, {steps} step{'s' * (steps > 1)}"
        return note

    def _ascend(self, tol: float, most: int, end: float, bias: float) -> int:
        """Passes of dual ascent; how many there were."""
        machine = self.machine
        rng = np.random.default_rng(0)
        ascent = Ascent(machine.space, machine.losses, machine.free, self.beta, bias, rng)
        passes, step = 0, 1
        while passes < most and self.gap > tol and (passes == 0 or clock() < end):
            step = min(step, most - passes)
            ascent.go(step)
            passes += step
            self.look(ascent.beta)
            step = 1 + passes // 2
        return passes

    def _from_within(self, tol: float, most: int, end: float) -> int:
        """Steps of an interior point; how many there were."""
        machine = self.machine
        point = InteriorPoint(machine.space, machine.losses, machine.free)
        steps, goes_on = 0, True
        while goes_on and steps < most and self.gap > tol and (steps == 0 or clock() < end):
            goes_on = point.step()
            steps += 1
            self.look(point.beta)
        return steps


@dataclass(frozen=True)
class ProblemMachine:
    """A problem of taut's with weights: its optimum is bounded by solving it.

    Attributes
    ----------
    name : str
    problem : Problem
    w : ndarray
    """

    name: str
    problem: Problem
    w: np.ndarray

    def bounds(self, effort: Effort) -> MachineBounds:
        """By a solve to the tolerance that is asked for."""
        problem = self.problem
        if not problem.repeatable:
            raise NoBound("these data can be read only once, and a bound takes several readings")
        _check_finite(self.name, self.w)
        primal = problem.primal_bound(problem.scaled(self.w))
        result = solve(
            problem, tol=effort.tol, max_iter=effort.max_iter, time_limit=effort.time_limit,
            random_state=0, keep_state=False,
        )  # fmt: skip
        found = result.certificate
        if not (found.exact and math.isfinite(found.dual)):
            raise NoBound(f"a solve of its problem found none: {found.message}")
        note = f"solved anew, {_passes(found.passes)}"
        if found.relative_gap > effort.tol:
            note += _unsharp(found.relative_gap)
        best = min(primal.value, found.primal)
        dual = max(found.dual - found.rounding, 0.0)
        caveat = "" if found.of == THE_OBJECTIVE else f"The bounds are those of {found.of}."
        return MachineBounds(
            self.name, problem.n_blocks, primal.value, best, dual, note, caveat, primal.rounding
        )
