"""What a fit returns: the weights, a certificate, a status that explains itself, the history."""

from __future__ import annotations

import enum
import functools
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple, Self, SupportsIndex, overload

import numpy as np

from taut.console.tables import html_table
from taut.storage.stored import check_types, require

#: What a certificate is about unless it says otherwise.
THE_OBJECTIVE = "the objective"
#: What follows the name of an objective whose labels are known from an argmax alone, where labels
#: of other examples would make it higher.
OVER_RETURNED = ", over the labels that argmax returns"
#: What follows the name of an objective whose value is that of weights which were rounded later.
BEFORE_ROUNDING = ", at the weights before they were rounded"


#: What to do about a run that was interrupted.
GO_ON = "Fit again with warm_start=True to go on"


class Status(enum.Enum):
    """Why training stopped; the value is the sentence shown to the user."""

    def __repr__(self) -> str:
        return f"Status.{self.name}"

    CONVERGED = "The relative gap {relative_gap:.2g} is within tol={tol:g}."
    MAX_ITER = (
        "Stopped after max_iter={passes} passes with relative gap {relative_gap:.2g} > "
        "tol={tol:g}: {advice}."
    )
    TIME_LIMIT = (
        "Stopped by time_limit after {seconds:.1f} s with relative gap {relative_gap:.2g} > "
        "tol={tol:g}: {advice}."
    )
    MAX_ROUNDS = (
        "Stopped after max_rounds={rounds} rounds, the last of which changed {changed} latent "
        "values: raise max_rounds, or round_tol."
    )
    INTERRUPTED = (
        "Interrupted after {passes} passes with relative gap {relative_gap:.2g}: this is the best "
        "model so far. {again}."
    )
    CALLBACK = (
        "Stopped by a callback after {passes} passes with relative gap {relative_gap:.2g}, "
        "tol={tol:g}."
    )
    READ_ONCE = (
        "The data could be read only once: the relative gap {relative_gap:.2g} is an estimate. "
        "Give data that can be read again to get proven bounds."
    )
    OUT_OF_MEMORY = (
        "Stopped after {passes} passes with relative gap {relative_gap:.2g} > tol={tol:g}: the "
        "dual variables alone have outgrown the solver's memory. This is the best model so far; "
        "raise memory, or lower C."
    )
    SETTLED = (
        "A whole pass changed nothing: this solver cannot bring the relative gap below "
        "{relative_gap:.2g}, tol={tol:g}. Try another solver."
    )
    COMPRESSED = (
        "Compressed from {before} to {after} support rows, by which the objective changed by "
        "{rise:+.2g} %; the relative gap is {relative_gap:.2g}."
    )
    STALLED = (
        "Floating-point numbers prove no relative gap below {relative_gap:.2g}, of which rounding "
        "may be {rounding:.2g}; tol={tol:g} asks for less: scale the features, lower C, or raise "
        "tol."
    )


@dataclass(frozen=True, repr=False)
class Certificate:
    """Proof of quality: no w has an objective below `dual`, and the returned one has `primal`.

    Attributes
    ----------
    primal, dual : float
        P(w) = 1/2 |w|^2 + sum_i C_i hinge_i(w) at the returned w, and a lower bound on its minimum.
    penalty : float
        The regulariser's part of `primal`. The rest is C times the summed losses of w, so that
        penalty + (primal - penalty) C' / C is what w costs at any other C'.
    exact : bool
        Whether both come from exact oracles over all blocks. An inexact certificate is an estimate.
    status, message : Status, str
        Why training stopped, and the same in words with figures and what to change.
    oracle_calls, passes : int
        Loss-augmented inferences in all, and passes over the blocks (cached ones included).
    seconds : float
        Wall-clock time of the fit without compilation.
    peak_memory : int or None
        Largest resident size of the process so far, in bytes; None where the system does not tell.
    of : str
        Which objective the bounds belong to.
    rounding : float
        How far rounding may have moved `primal - dual`, at most. It is part of the gap.
    compile_seconds : float
        Time that the process spent compiling during the fit.
    doubt : str
        Where `of` ends in "over the labels that argmax returns": which label of which example may
        be missing. Part of `message`.

    Examples
    --------
    >>> from taut import Certificate, Status
    >>> certificate = Certificate(10.0, 9.99, 4.0, True, Status.CONVERGED, "", 5, 1, 0.1, None)
    >>> round(certificate.gap, 6), round(certificate.relative_gap, 6)
    (0.01, 0.001)
    >>> certificate
    Certificate: CONVERGED, objective 10, at most 0.11 % above the optimum, 1 pass, 0.1 s
    """

    primal: float
    dual: float
    penalty: float
    exact: bool
    status: Status
    message: str
    oracle_calls: int
    passes: int
    seconds: float
    peak_memory: int | None
    of: str = THE_OBJECTIVE
    rounding: float = 0.0
    compile_seconds: float = 0.0
    doubt: str = ""

    @property
    def gap(self) -> float:
        """primal - dual, and what rounding may hide of it."""
        return max(self.primal - self.dual, 0.0) + self.rounding

    @property
    def relative_gap(self) -> float:
        """gap / primal, and 0 for a problem whose optimum is 0."""
        return relative(self.primal, self.dual, self.rounding)

    def __repr__(self) -> str:
        which = "" if self.of == THE_OBJECTIVE else f" of {self.of}"
        parts = [
            f"Certificate: {self.status.name}",
            f"objective {self.primal:.6g}{which}",
            self._distance(),
            _count(self.passes, "pass", "passes"),
            f"{self.seconds:.2g} s",
        ]
        if self.compile_seconds >= 0.1:
            parts.append(f"and {self.compile_seconds:.2g} s of compilation")
        return ", ".join(parts)

    def _distance(self) -> str:
        """How far above the optimum the objective is."""
        if not math.isfinite(self.gap):
            return "no lower bound yet"
        bound = "at most" if self.exact else "about"
        if self.gap > 0.0 >= self.dual:
            so_far = "" if self.dual < 0.0 else ", of which 0 is the only lower bound so far"
            return f"{bound} {rounded_up(self.gap):.2g} above the optimum{so_far}"
        percent = 100.0 * self.gap / self.dual if self.gap > 0.0 else 0.0
        return f"{bound} {rounded_up(percent):.2g} % above the optimum"

    def _repr_html_(self) -> str:
        """The certificate as a table in notebooks."""
        rows = {
            "status": f"{self.status.name}: {self.message}",
            "objective": f"{self.primal:.6g}",
            "lower bound": f"{self.dual:.6g}",
            "relative gap": f"{rounded_up(self.relative_gap):.2g}, {self._distance()}",
            "bounds are": f"{'proven' if self.exact else 'estimates'}, of {self.of}",
            "passes": f"{self.passes} in {self.seconds:.2g} s",
        }
        return html_table("Certificate", rows)

    @property
    def is_of_rounded(self) -> bool:
        """Whether the weights were rounded after `primal` was computed."""
        return self.of.endswith(BEFORE_ROUNDING)

    def of_rounded(self, dtype: str, moved: float) -> Certificate:
        """What is known of the weights once they are rounded, by this share of their length.

        The lower bound holds for all weights; `primal` is that of before, and so an estimate.
        """
        if self.is_of_rounded:
            return self
        told = (
            f"{self.message} Then the weights were rounded to {dtype}, by {moved:.1g} of their "
            "length: the lower bound holds, and the objective is that of before. "
            "taut.certify(model, X, y) proves it anew."
        )
        return replace(self, exact=False, message=told, of=self.of + BEFORE_ROUNDING)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values."""
        return asdict(self) | {"status": self.status.name}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Certificate:
        """The inverse of `to_dict`; refuses what it cannot have made."""
        check_types(cls, values)
        return cls(**values | {"status": Status[values["status"]]})


def relative(primal: float, dual: float, rounding: float = 0.0) -> float:
    """The relative gap of two bounds, which rounding may have moved towards each other.

    Infinite while there is no primal bound. The optimum is at least 0, so rounding makes no more
    than 1 of it.
    """
    if math.isinf(primal) or math.isinf(dual):
        return math.inf
    gap = max(primal - dual, 0.0)
    return min(gap + rounding, max(gap, primal)) / primal if primal > 0.0 else 0.0


def nothing_proved(primal: float, dual: float) -> str:
    """A sentence about a relative gap of 1, which is no news of the model; else nothing."""
    if not primal > 0.0 >= dual:
        return ""
    return (
        " The lower bound is still 0, which holds for every objective: the relative gap is then 1, "
        "however good the model is."
    )


def meaning_of(primal: float, dual: float, of: str, doubt: str) -> str:
    """Sentences about what bounds mean that are not plainly those of the objective; or nothing."""
    which = "" if of == THE_OBJECTIVE else f" The bounds are those of {of}."
    return nothing_proved(primal, dual) + which + (f" {doubt}" if doubt else "")


@dataclass(frozen=True)
class Record:
    """The state of training after one pass.

    `primal` and `gap` are estimates from the pass itself unless `exact`; `dual` is always exact.
    """

    iteration: int
    seconds: float
    primal: float
    dual: float
    exact: bool
    oracle_calls: int
    stiffness: float

    @property
    def gap(self) -> float:
        """primal - dual."""
        return self.primal - self.dual

    @property
    def relative_gap(self) -> float:
        """(primal - dual) / primal."""
        return relative(self.primal, self.dual)


@dataclass(frozen=True)
class Round:
    """One round of an alternation: latent values fixed, the convex problem solved.

    Attributes
    ----------
    number : int
        From 1.
    objective : float
        The latent objective after the round, with the latent values that are best then.
    primal, dual : float
        The certified bounds of the round's convex problem.
    changed : int
        Latent values that are others after the round than those it was solved with.
    passes : int
        Passes over the data in the round.
    seconds : float
        Since the fit began.
    """

    number: int
    objective: float
    primal: float
    dual: float
    changed: int
    passes: int
    seconds: float


@dataclass(repr=False)
class History:
    """Records of all passes, as a list; `history["dual"]` is a column as an array.

    Examples
    --------
    >>> from taut import History, Record
    >>> history = History([Record(1, 0.1, 4.0, 1.0, False, 10, 1.0)])
    >>> history["gap"]
    array([3.])
    >>> history[-1].primal
    4.0
    >>> history
    History: 1 pass in 0.1 s, relative gap from 0.75 to 0.75
    """

    row: ClassVar[type] = Record
    records: list[Any] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.records)

    @overload
    def __getitem__(self, key: str) -> np.ndarray: ...
    @overload
    def __getitem__(self, key: slice) -> Self: ...
    @overload
    def __getitem__(self, key: SupportsIndex) -> Any: ...

    def __getitem__(self, key: str | slice | SupportsIndex) -> Any:
        if isinstance(key, str):
            return np.array([getattr(record, key) for record in self.records])
        return type(self)(self.records[key]) if isinstance(key, slice) else self.records[key]

    def __repr__(self) -> str:
        if not self.records:
            return "History: no passes"
        first, last = self.records[0], self.records[-1]
        return (
            f"History: {_count(len(self), 'pass', 'passes')} in {last.seconds:.2g} s, relative gap "
            f"from {first.relative_gap:.2g} to {last.relative_gap:.2g}"
        )

    def to_dict(self) -> dict[str, list]:
        """Columns as lists of JSON values."""
        return {
            column.name: [_finite(getattr(record, column.name)) for record in self.records]
            for column in fields(self.row)
        }

    @classmethod
    def from_dict(cls, columns: dict[str, list]) -> Self:
        """The inverse of `to_dict`, whatever the order of the columns."""
        names = [column.name for column in fields(cls.row)]
        lengths = {len(columns[name]) for name in names if isinstance(columns[name], list)}
        columns_agree = all(isinstance(columns[name], list) for name in names)
        require(columns_agree and len(lengths) == 1, f"columns of {cls.__name__} do not agree")
        rows = zip(*(columns[name] for name in names), strict=True)
        values: Iterator[list[Any]] = (
            [math.inf if value is None else value for value in row] for row in rows
        )
        found = [dict(zip(names, row, strict=True)) for row in values]
        for record in found:
            check_types(cls.row, record)
        return cls([cls.row(**record) for record in found])


class Rounds(History):
    """The rounds of an alternation; `rounds["objective"]` is a column as an array."""

    row = Round

    def __repr__(self) -> str:
        if not self.records:
            return "Rounds: no rounds"
        first, last = self.records[0], self.records[-1]
        return (
            f"Rounds: {_count(len(self), 'round', 'rounds')} in {last.seconds:.2g} s, objective "
            f"from {first.objective:.6g} to {last.objective:.6g}, {last.changed} latent values "
            "changed in the last"
        )


def rounded_up(value: float) -> float:
    """A bound with two figures; rounded down it would be none."""
    if value <= 0.0:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return math.ceil(value / unit * (1.0 - 1e-12)) * unit


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _finite(value: float) -> float | None:
    """JSON has no infinity: a pass that was cut short has no estimate of the primal."""
    return value if math.isfinite(value) else None


class DualPoint(NamedTuple):
    """Feasible dual variables, summed up: sum a loss, and U = sum a psi where passes work on it.

    D = loss_sum - g*(U). Sums of dual points are those of the summed dual variables.
    """

    loss_sum: float
    U: np.ndarray


@dataclass(frozen=True)
class Result:
    """The outcome of `taut.training.loop`.

    Attributes
    ----------
    w : ndarray
        The weights whose objective is certified.
    certificate : Certificate
    history : History
    state : dict of arrays
        The dual state, from which another solve can start (`start=`).
    read_state : callable
        Makes `state`.
    read_dual_point : callable
        Sums up the dual variables.
    read_support : callable
        Tells which blocks have dual weight (`taut.duals.support.DualSupport`); None where the
        solver keeps no dual variables of all blocks.
    advice : str
        What to change, where a limit ended the solve; `certificate.message` ends with it.
    """

    w: np.ndarray
    certificate: Certificate
    history: History
    read_state: Callable[[], dict[str, np.ndarray]] = field(repr=False)
    read_dual_point: Callable[[], DualPoint] = field(repr=False)
    advice: str = field(default="", repr=False)
    read_support: Callable[[], Any] = field(default=lambda: None, repr=False)

    @functools.cached_property
    def state(self) -> dict[str, np.ndarray]:
        """The dual state, read when asked for; digests of what it belongs to are part of it."""
        return self.read_state()


def peak_memory() -> int | None:
    """Largest resident size of this process so far, in bytes."""
    try:
        import resource
    except ImportError:  # not a Unix system
        return None
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return size if sys.platform == "darwin" else size * 1024
