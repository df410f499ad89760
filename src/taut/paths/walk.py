"""A walk over C: which C to solve at, so that the solves prove a gap for all C between them.

Each solve begins where the last one ended. How far it is to the next one follows from how the gap
half way between the last two grew with their distance, like the square of the difference in log C.
What comes out is verified (`taut.paths.enclosure`), and a solve is added between two that do not
prove enough. Upwards, because solves are cheap at small C, and what they leave is a better start
for a larger C than the other way round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from taut.console.interrupts import catch_interrupt
from taut.console.notices import warn_once
from taut.console.progress import WalkLine, WalkRecord
from taut.errors import InvalidData, NotConverged, UncertainLabels
from taut.paths.enclosure import Node, mix, worst_between
from taut.result import Certificate, DualPoint, Status

_SOLVED = 0.5  # share of the gap that a solve may leave; the rest is for what lies between
_AIM = 0.9  # of the gap, that the next step is planned for
_FIRST = 0.1  # gap between solves whose C differ by a factor e, over the penalty's share of P
_CHANGE = 2.0  # factor between one step in log C and the next
_WIDEST = math.log(10.0)  # the longest step in log C
_NARROWEST = 1e-6  # the shortest
_MIXTURES = 64  # nodes between two solves, beyond which a solve is added


class Point(NamedTuple):
    """A solve of a path."""

    C: float
    model: Any
    certificate: Certificate


def in_doubt(points: Sequence[Point]) -> Certificate | None:
    """The certificate of a solve whose labels are uncertain, if there is one.

    All solves ask the same argmax: a label that one of them misses may be missing in the others.
    """
    return next((p.certificate for p in points if p.certificate.doubt), None)


class _Solve(NamedTuple):
    """A solve with what others begin from and are mixed with."""

    node: Node
    model: Any
    point: np.ndarray  # the weights in the form that passes work on, which is linear in them
    dual_point: DualPoint

    @classmethod
    def of(cls, model: Any) -> _Solve:
        C, certificate = float(model.C), model.certificate_
        losses = (certificate.primal - certificate.penalty) / C
        node = Node(C, certificate.penalty, losses, certificate.dual - certificate.rounding, 0)
        point = model._end.problem.scaled(model._form.point(model))
        return cls(node, model, point, model._end.dual_point)

    def mixed(self, other: _Solve, C: float) -> Node:
        """What a mixture of the two proves at a C between them."""
        a, b, problem = self.node, other.node, self.model._end.problem
        share = (C - a.C) / (b.C - a.C)
        loss_sum = mix(self.dual_point.loss_sum, other.dual_point.loss_sum, share)
        U = mix(self.dual_point.U, other.dual_point.U, share)
        dual = problem.dual_bound(loss_sum, U)
        rounding = sum(solve.model.certificate_.rounding for solve in (self, other))
        return Node(
            C,
            problem.quadratic.value(mix(self.point, other.point, share)),
            mix(a.losses, b.losses, share),
            dual.value - dual.rounding - rounding,
            a.left,
            share,
        )


class _Ended(Exception):
    """The walk is over before its end."""


class Walk:
    """Solves from C_min to C_max, and what came out, in words.

    The nodes are those of the solves and of mixtures of them, by rising C.
    """

    def __init__(
        self,
        estimator: Any,
        C_min: float,
        C_max: float,
        gap: float,
        callbacks: Sequence[Callable[[Point], object]] = (),
        line: WalkLine | None = None,
        fold: str = "",
    ) -> None:
        self.estimator = estimator
        self.C_min, self.C_max, self.gap = C_min, C_max, gap
        self.callbacks, self.line, self.fold = callbacks, line, fold
        self.points: list[Point] = []
        self.nodes: list[Node] = []
        self.message = ""
        self.worst = 0.0

    def go(self, X: Any, y: Any, fit_params: dict[str, Any]) -> None:
        """Walk until C_max is reached, Ctrl-C is pressed, or a callback wants no more."""
        self.began = time.monotonic()
        with catch_interrupt() as self.interrupted:
            try:
                self._walk(self._first(X, y, fit_params))
                end = "for every C"
            except _Ended as reason:
                end = f"up to C={self.points[-1].C:g}, where {reason}"
        self.message = f"The relative gap is within {self.worst:.2g} {end}."
        doubtful = in_doubt(self.points)
        if doubtful is not None:
            self.message += f" The bounds are those of {doubtful.of}. {doubtful.doubt}"

    def warn(self) -> None:
        """Warn of what a user should know of the walk, which its solves do not tell."""
        if self.shortfall:
            warn_once(self.shortfall, NotConverged)
        elif in_doubt(self.points) is not None:
            warn_once(self.message, UncertainLabels)

    @property
    def shortfall(self) -> str:
        """What to warn of: an interrupt, or solves that ended before they proved enough."""
        if self.interrupted.is_set() and self.C_max > self.points[-1].C:
            return self.message
        if self.worst <= self.gap:
            return ""
        last = max((point.certificate for point in self.points), key=lambda c: c.relative_gap)
        return f"{self.message} gap={self.gap:g} was asked for. The worst solve: {last.message}"

    def _first(self, X: Any, y: Any, fit_params: dict[str, Any]) -> _Solve:
        model = self.estimator._copy(
            C=self.C_min, tol=_SOLVED * self.gap, warm_start=True, checkpoint=None, verbose=0
        )
        model._keeps_end = True
        model.fit(X, y, **fit_params)
        if not model.certificate_.exact:
            raise InvalidData(
                "the data can be read only once, and a path goes over them again and again: give "
                "data that can be read again"
            )
        first = _Solve.of(model)
        self._accept(first, [])
        if model.certificate_.status is Status.INTERRUPTED:
            raise _Ended("it was interrupted")
        return first

    def _walk(self, here: _Solve) -> None:
        primal = here.node.penalty + here.node.C * here.node.losses
        rate = _FIRST * here.node.penalty / primal if primal > 0.0 else 0.0
        step = min(self._step(rate, here.node.gap), _WIDEST)
        while self.C_max > here.node.C:
            left = math.log(self.C_max / here.node.C)
            n = max(math.ceil(left / step - 1e-9), 1)
            there = self._solve(here, self.C_max if n == 1 else here.node.C * math.exp(left / n))
            wanted = self._step(self._rate(here, there), there.node.gap)
            step = min(max(wanted, step / _CHANGE), step * _CHANGE, _WIDEST)
            here = self._advance(here, there)

    def _step(self, rate: float, gap: float) -> float:
        """The step in log C after which the gap half way is expected to be what is aimed at.

        `gap` is what the last solve left; the next one is expected to leave what all did.
        """
        expected = sum(point.certificate.relative_gap for point in self.points) / len(self.points)
        left = _AIM * self.gap - 0.5 * (min(gap, _SOLVED * self.gap) + expected)
        return math.sqrt(max(left, 0.1 * self.gap) / rate) if rate > 0.0 else math.inf

    @staticmethod
    def _rate(a: _Solve, b: _Solve) -> float:
        """By how much the gap half way exceeds those at the ends, over the square of the step."""
        middle = a.mixed(b, 0.5 * (a.node.C + b.node.C))
        excess = middle.gap - 0.5 * (a.node.gap + b.node.gap)
        return max(excess, 0.0) / math.log(b.node.C / a.node.C) ** 2

    def _solve(self, here: _Solve, C: float) -> _Solve:
        """The solve at C from where another ended."""
        if self.interrupted.is_set():
            raise _Ended("it was interrupted")
        model = here.model._walk(C)
        if model.certificate_.status is Status.INTERRUPTED:
            raise _Ended("it was interrupted")
        return _Solve.of(model)

    def _advance(self, a: _Solve, b: _Solve) -> _Solve:
        """Accept b after a, with a solve between them where the two do not prove enough."""
        a = a._replace(node=a.node._replace(left=len(self.points) - 1))
        between, proved = self._between(a, b)
        as_good_as_asked = max(a.node.gap, b.node.gap) <= self.gap
        if not proved and as_good_as_asked and math.log(b.node.C / a.node.C) > _NARROWEST:
            middle = self._solve(a, math.sqrt(a.node.C * b.node.C))
            return self._advance(self._advance(a, middle), b)
        self._accept(b, between)
        return b

    def _between(self, a: _Solve, b: _Solve) -> tuple[list[Node], bool]:
        """Mixtures of two solves that prove the gap between them, and whether they do."""
        nodes, k = [a.node, b.node], 0
        while k < len(nodes) - 1:
            C, worst = worst_between(nodes[k], nodes[k + 1])
            if worst <= self.gap:
                k += 1
                continue
            mixture = a.mixed(b, C)
            if mixture.gap > self.gap or len(nodes) > _MIXTURES:
                return nodes[1:-1], False
            nodes.insert(k + 1, mixture)
        return nodes[1:-1], True

    def _accept(self, solve: _Solve, between: list[Node]) -> None:
        given, certificate = self.estimator, solve.model.certificate_
        model = solve.model._copy(warm_start=given.warm_start, verbose=given.verbose)
        new = [*between, solve.node._replace(left=len(self.points))]
        pairs = zip([*self.nodes[-1:], *new], new, strict=False) if self.nodes else [(new[0],) * 2]
        self.worst = max([self.worst, *(worst_between(a, b)[1] for a, b in pairs)])
        self.nodes += new
        self.points.append(Point(solve.node.C, model, certificate))
        answers = [callback(self.points[-1]) for callback in self.callbacks]
        if self.line is not None:
            seconds = time.monotonic() - self.began
            self.line(
                WalkRecord(
                    self.fold, solve.node.C, self.C_min, self.C_max, len(self.points), self.worst,
                    seconds,
                )
            )  # fmt: skip
        if any(answer is True for answer in answers) and self.C_max > solve.node.C:
            raise _Ended("a callback ended it")
