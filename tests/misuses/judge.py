"""Whether a certificate is true, by enumeration of all labels; shares no code with the library.

Everything that is called false here is proved to be: a weight vector whose objective is below the
dual bound, or an objective of the returned weights that is not the one reported.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from reference import solve_prior_qp, solve_qp

ACCURACY = 1e-9  # of sums of numbers of ordinary size, relative to their magnitudes


@dataclass
class Objective:
    """P(w) = 1/2 (w - mean)' precision (w - mean) + sum_i C_i max(0, max_y [l_i - <w, psi_i>](y)).

    `psi[i]` has a row, `losses[i]` a number for each label of block i. `errors` is by how much a
    primal bound may exceed P(w) on purpose, where oracles state an error.
    """

    psi: list
    losses: list
    weights: np.ndarray
    mean: np.ndarray | None = None
    precision: np.ndarray | None = None
    nonneg: np.ndarray | None = None
    errors: float = 0.0
    _best: tuple[float, float] | None = field(default=None, repr=False)

    @property
    def has_prior(self) -> bool:
        return any(part is not None for part in (self.mean, self.precision, self.nonneg))

    @property
    def n_features(self) -> int:
        return self.psi[0].shape[1]

    def prior(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, full precision and mask."""
        d = self.n_features
        mean = np.zeros(d) if self.mean is None else self.mean
        precision = np.ones(d) if self.precision is None else np.asarray(self.precision, float)
        nonneg = np.zeros(d, bool) if self.nonneg is None else self.nonneg
        return mean, precision if precision.ndim == 2 else np.diag(precision), nonneg

    def penalty(self, w: np.ndarray) -> float:
        """The regulariser's part of P(w)."""
        mean, precision, _nonneg = self.prior()
        return 0.5 * float((w - mean) @ precision @ (w - mean))

    def value(self, w: np.ndarray) -> tuple[float, float]:
        """P(w), and the sum of the magnitudes of what it is the sum of."""
        _mean, precision, nonneg = self.prior()
        if (w[nonneg] < 0).any():
            return math.inf, math.inf
        penalty = self.penalty(w)
        total, size = [penalty], [penalty, 0.5 * float(np.abs(w) @ np.abs(precision) @ np.abs(w))]
        for psi, loss, weight in zip(self.psi, self.losses, self.weights, strict=True):
            scores = psi @ w
            total.append(weight * max(0.0, float(np.max(loss - scores))))
            size.append(weight * float(np.max(np.abs(loss)) + np.max(np.abs(psi) @ np.abs(w))))
        return math.fsum(total), math.fsum(size)

    def best(self) -> tuple[float, float]:
        """The least P that an interior point finds, and its accuracy: no bound may lie above."""
        if self._best is None:
            candidates = [np.zeros(self.n_features)]
            try:
                if self.has_prior:
                    mean, precision, nonneg = self.prior()
                    candidates.append(np.where(nonneg, np.maximum(mean, 0.0), mean))
                    w = solve_prior_qp(
                        self.psi, self.losses, self.weights, mean, precision, nonneg
                    )[1]
                else:
                    w = solve_qp(self.psi, self.losses, self.weights)[1]
                candidates.append(w)
            except (RuntimeError, ValueError):
                pass
            value, size = min(self.value(w) for w in candidates)
            self._best = value, ACCURACY * value + 1e-3 * ACCURACY * size
        return self._best


class ExactObjective(Objective):
    """The same in rational arithmetic, for numbers of any size: no prior but a diagonal one."""

    def value(self, w: np.ndarray) -> tuple[float, float]:
        value = self.exact(w)
        return _nearest(value), 0.0

    def penalty(self, w: np.ndarray) -> float:
        return _nearest(self.exact(w, hinges=False))

    def exact(self, w: np.ndarray, hinges: bool = True) -> Fraction:
        """P(w), exactly, or the regulariser's part alone."""
        v = [Fraction(float(x)) for x in w]
        d = len(v)
        mean = [Fraction(0)] * d if self.mean is None else [Fraction(float(x)) for x in self.mean]
        precision = (
            [Fraction(1)] * d
            if self.precision is None
            else [Fraction(float(x)) for x in self.precision]
        )
        if self.nonneg is not None and any(x < 0 for x, b in zip(v, self.nonneg) if b):
            return Fraction(10) ** 400
        total = sum(p * (x - m) ** 2 for x, m, p in zip(v, mean, precision)) / 2
        if not hinges:
            return total
        for psi, losses, weight in zip(self.psi, self.losses, self.weights, strict=True):
            most = Fraction(0)
            for row, loss in zip(psi, losses):
                score = sum((x * Fraction(float(a)) for x, a in zip(v, row) if a), Fraction(0))
                most = max(most, _rational(loss) - score)
            total += _rational(weight) * most
        return total

    def best(self) -> tuple[float, float]:
        if self._best is None:
            candidates = [np.zeros(self.n_features), *self._scaled_solutions()]
            value = min(self.exact(w) for w in candidates if np.isfinite(w).all())
            self._best = _nearest(value), ACCURACY * _nearest(value)
        return self._best

    def _scaled_solutions(self) -> list[np.ndarray]:
        """Solutions in units in which features and P(0) are about 1."""
        if self.has_prior:
            mean = np.zeros(self.n_features) if self.mean is None else self.mean
            return [
                mean if self.nonneg is None else np.where(self.nonneg, np.maximum(mean, 0), mean)
            ]
        largest = max(float(np.abs(psi).max()) for psi in self.psi)
        shift = -math.frexp(largest)[1] if largest > 0 else 0
        most = max(abs(float(loss)) for block in self.losses for loss in block)
        unit = -math.frexp(most)[1] if most > 0 else 0
        # w = 2^shift v: <w, psi> = <v, 2^shift psi>, |w|^2 = 4^shift |v|^2. In units 2^-unit of the
        # losses v is 2^-unit u: P = 2^(2 shift - 2 unit) [1/2 |u|^2 + sum C' max(l' - <u, psi'>)].
        psi = [np.ldexp(block, shift) for block in self.psi]
        losses = [np.ldexp(np.array([float(x) for x in block]), unit) for block in self.losses]
        exponent = unit - 2 * shift
        weights = [_nearest(_rational(weight) * Fraction(2) ** exponent) for weight in self.weights]
        try:
            u = solve_qp(psi, losses, np.array(weights))[1]
        except (RuntimeError, ValueError, OverflowError, FloatingPointError):
            return []
        return [np.ldexp(u, shift - unit)]


def _rational(x: Any) -> Fraction:
    return x if isinstance(x, Fraction) else Fraction(float(x))


def _nearest(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf


@dataclass(frozen=True)
class Verdict:
    """What became of a case: one of `KINDS`, and what the case was."""

    kind: str
    note: str = ""


@dataclass(frozen=True)
class Labels:
    """What a fit could know about the labels 0, 1, ... of a user's structure.

    `returned[i]` are those that the argmax returned for block i, and its truth. `known` are those
    that are listed, the truth of any block, or were returned for any: a label outside of it does
    not exist for anybody but the judge.
    """

    returned: Sequence[set[int]]
    known: set[int]

    def over_returned(self, objective: Objective) -> Objective:
        """The objective over the labels that each block's argmax returns."""
        return self._over(objective, self.returned)

    def over_known(self, objective: Objective) -> Objective:
        """The objective without labels that nobody knows."""
        return self._over(objective, [self.known] * len(objective.psi))

    @staticmethod
    def _over(objective: Objective, labels: Sequence[set[int]]) -> Objective:
        rows = [sorted(k for k in own if k < len(p)) for own, p in zip(labels, objective.psi)]
        return replace(
            objective,
            psi=[p[own] for p, own in zip(objective.psi, rows)],
            losses=[c[own] for c, own in zip(objective.losses, rows)],
            _best=None,
        )


KINDS = (
    "control",  # nothing was wrong, and the certificate was recomputed
    "true",  # something was changed, and the certificate is true of what it is now
    "refused",  # by an exception of the library, or by the user's own code
    "estimate",  # `exact` is False
    "over returned",  # it says that it is that of the labels that argmax returns, and is
    "unknown label",  # true but for a label neither listed, nor a truth, nor ever returned
    "FALSE",
    "control refused",  # nothing was wrong, and it was refused
    "foreign",  # an exception that is not the library's
    "crash",
    "hang",
)
BAD = ("FALSE", "control refused", "foreign", "crash", "hang")


def fault(
    certificate: Any, w: np.ndarray, objective: Objective, tol: float, history: Iterable[Any] = ()
) -> str | None:
    """What is false about a certificate that claims to be exact; None if it is true."""
    primal, dual, status = certificate.primal, certificate.dual, certificate.status.name
    if not all(map(math.isfinite, (primal, dual, certificate.penalty))):
        return f"primal {primal}, dual {dual}, penalty {certificate.penalty}"
    if not np.isfinite(w).all():
        return "weights that are not finite"
    if (objective.prior()[2] & (w < 0)).any():
        return "negative weights where they must not be"
    value, size = objective.value(w)
    slack = ACCURACY * max(abs(value), abs(primal)) + 1e-3 * ACCURACY * size + 1e-305
    stated = getattr(certificate, "rounding", 0.0)  # by which it says that its bounds may be off
    if primal < value - slack - stated:
        return f"primal {primal:.12g} < P(w) = {value:.12g}"
    if primal > value + slack + stated + objective.errors and status != "STALLED":
        return f"primal {primal:.12g} > P(w) = {value:.12g}"
    penalty = objective.penalty(w)
    if not objective.errors and abs(certificate.penalty - penalty) > slack + stated:
        return f"penalty {certificate.penalty:.12g}, it is {penalty:.12g}"
    best, room = objective.best()
    best = min(best, value)
    highest = max([dual, *(record.dual for record in history if record.exact)])
    if highest > best + room + stated + 1e-305:
        return f"dual {highest:.12g} > {best:.12g}, which some w attains"
    if dual < -slack - stated and not objective.has_prior and status != "STALLED":
        return f"dual {dual:.12g} < 0"
    if status == "CONVERGED" and value > 0 and value - best > tol * value + room + slack:
        return f"CONVERGED at {value:.9g}, {best:.9g} can be had, tol={tol:g}"
    return None


def judged(
    model: Any,
    w: np.ndarray,
    objectives: list[Objective],
    tol: float,
    note: str,
    labels: Labels | None = None,
) -> Verdict:
    """The verdict on a model: true if it is right for one of the objectives that may be meant.

    Where `labels` are given, one that is not may still be right for fewer labels.
    """
    certificate = model.certificate_
    if not certificate.exact:
        return Verdict("estimate", note)
    faults = [fault(certificate, w, objective, tol, model.history_) for objective in objectives]
    if None in faults:
        return Verdict("true", note)
    if labels is not None:
        restricted = certificate.of.endswith("over the labels that argmax returns")
        fewer = labels.over_returned if restricted else labels.over_known
        for objective in map(fewer, objectives):
            if fault(certificate, w, objective, tol, model.history_) is None:
                return Verdict("over returned" if restricted else "unknown label", note)
    found = "; or ".join(dict.fromkeys(map(str, faults)))
    return Verdict("FALSE", f"{note}: {found} [{certificate.status.name}]")


def with_label(objective: Objective, where: Sequence, loss: float, psi: Sequence) -> Objective:
    """The same with one more label of some blocks."""
    return Objective(
        [np.vstack([p, q]) if b else p for p, q, b in zip(objective.psi, psi, where)],
        [np.append(c, loss) if b else c for c, b in zip(objective.losses, where)],
        objective.weights,
    )
