"""What `taut.certify` returns: bounds of each machine of a model, and what they say in words."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from taut.result import relative, rounded_up

_TIMES = 10.0  # share of the optimum from which it is told as a factor


class NoBound(Exception):
    """Raised by readers of models whose optimum cannot be bounded; the text is the reason."""


@dataclass(frozen=True)
class MachineBounds:
    """Bounds of one machine of a model.

    Attributes
    ----------
    name : str
        Which machine: the classes that it tells apart, or "all".
    n : int
        Its training rows.
    primal : float
        The objective at the model's own weights and bias.
    best_primal : float
        The smallest objective that is known: with the best bias for the model's weights, or of
        weights that were found while the bound was sought.
    dual : float
        A lower bound of the optimum. What rounding may have done to it is subtracted, so that it
        is true.
    note : str
        Where the bound comes from.
    caveat : str
        What it depends on, as a sentence; "" where it holds as it is.
    rounding : float
        How far rounding may have moved `primal`, at most. It is part of the gap.
    """

    name: str
    n: int
    primal: float
    best_primal: float
    dual: float
    note: str = ""
    caveat: str = ""
    rounding: float = 0.0

    @property
    def gap(self) -> float:
        """primal - dual, and what rounding may hide of it."""
        return max(self.primal - self.dual, 0.0) + self.rounding

    @property
    def relative_gap(self) -> float:
        """gap / primal, and 0 for a machine whose objective is 0."""
        return relative(self.primal, self.dual, self.rounding)


@dataclass(frozen=True, repr=False)
class Certification:
    """How far a model is from the optimum of its own objective.

    Attributes
    ----------
    model : str
        What was certified.
    machines : tuple of MachineBounds
        One for each problem that the model consists of.
    objective : str
        What is minimised.
    reason : str
        Why no bound can be had; "" where there is one.

    Examples
    --------
    >>> from taut.certification.report import Certification, MachineBounds
    >>> machines = (MachineBounds("all", 100, 10.0, 9.998, 9.99, "own coefficients"),)
    >>> report = Certification("SVC", machines, "1/2 |w|^2 + sum_i C_i hinge_i")
    >>> round(report.relative_gap, 6)
    0.001
    >>> print(report)
    SVC: 1/2 |w|^2 + sum_i C_i hinge_i
    machine       rows        primal          best          dual  relative gap  bound
    all            100            10         9.998          9.99         0.001  own coefficients
    This model is within 0.11 % of its optimum.
    """

    model: str
    machines: tuple[MachineBounds, ...]
    objective: str = ""
    reason: str = ""

    @property
    def primal(self) -> float:
        """The summed objectives of all machines."""
        return self._sum("primal")

    @property
    def best_primal(self) -> float:
        """The summed smallest objectives that are known."""
        return self._sum("best_primal")

    @property
    def dual(self) -> float:
        """The summed lower bounds; minus infinity where there is none."""
        return -math.inf if self.reason else self._sum("dual")

    @property
    def rounding(self) -> float:
        """The summed rounding of all machines."""
        return self._sum("rounding")

    def _sum(self, name: str) -> float:
        if not self.machines:
            return math.nan
        return math.fsum(getattr(machine, name) for machine in self.machines)

    @property
    def gap(self) -> float:
        """primal - dual and rounding, of all machines together."""
        return math.inf if self.reason else max(self.primal - self.dual, 0.0) + self.rounding

    @property
    def relative_gap(self) -> float:
        """gap / primal, of all machines together."""
        return math.inf if self.reason else relative(self.primal, self.dual, self.rounding)

    @property
    def message(self) -> str:
        """What is proved, in words."""
        if self.reason:
            return f"No bound can be had because {self.reason}."
        # Each sentence once, in the order of the machines.
        caveats = dict.fromkeys(machine.caveat for machine in self.machines if machine.caveat)
        return " ".join([self._distance(), *caveats])

    def _distance(self) -> str:
        """How far above the optimum the objective is."""
        if self.gap == 0.0:
            return "This model is at its optimum."
        if self.dual <= 0.0:
            return (
                "The only lower bound so far is 0, which holds for every objective: nothing is "
                "proved about this model."
            )
        share = self.gap / self.dual
        if share < _TIMES:
            return f"This model is within {percent(share)} of its optimum{self._worst()}"
        if not math.isfinite(share):
            return "The lower bound is too near to 0 to prove anything about this model."
        times = rounded_up(1.0 + share)
        return f"The objective of this model is at most {times:g} times its optimum{self._worst()}"

    def _worst(self) -> str:
        if len(self.machines) == 1:
            return "."
        worst = max(self.machines, key=lambda machine: machine.relative_gap)
        return (
            f", all {len(self.machines)} machines taken together; the largest relative gap is "
            f"{worst.relative_gap:.2g}, of {worst.name}."
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON values; what is not finite is None."""
        names = ("primal", "best_primal", "dual", "gap", "relative_gap")
        totals = {name: getattr(self, name) for name in names}
        return {
            "model": self.model,
            "objective": self.objective,
            "message": self.message,
            **{name: value if math.isfinite(value) else None for name, value in totals.items()},
            "machines": [asdict(machine) for machine in self.machines],
        }

    def __repr__(self) -> str:
        return f"Certification of {self.model}: {self.message}"

    def __str__(self) -> str:
        head = f"{self.model}: {self.objective}" if self.objective else self.model
        if not self.machines:
            return f"{head}\n{self.message}"
        wide = max(7, *(len(machine.name) for machine in self.machines))
        rows = [_line(machine, machine.name, wide) for machine in self.machines]
        if len(rows) > 1:
            total = MachineBounds(
                "total", sum(m.n for m in self.machines), self.primal, self.best_primal, self.dual,
                rounding=self.rounding,
            )  # fmt: skip
            rows.append(_line(total, "total", wide))
        header = (
            f"{'machine':<{wide}}{'rows':>11}{'primal':>14}{'best':>14}{'dual':>14}"
            f"{'relative gap':>14}  bound"
        )
        return "\n".join([head, header, *rows, self.message])


def _line(machine: MachineBounds, name: str, wide: int) -> str:
    numbers = f"{machine.primal:>14.6g}{machine.best_primal:>14.6g}{machine.dual:>14.6g}"
    line = f"{name:<{wide}}{machine.n:>11}{numbers}{machine.relative_gap:>14.2g}  {machine.note}"
    return line.rstrip()


def percent(share: float) -> str:
    """A positive share as per cent, rounded up."""
    value = rounded_up(100.0 * share)
    return f"{value:.2g} %" if value < 100.0 else f"{value:.0f} %"
