"""Latent parts of labels: impute them, solve the convex problem that is left, and again.

The latent objective is a difference of convex functions,

    F(w) = 1/2 |w|^2 + sum_i C_i [ max_yz (loss_i(y, z) + <w, phi_i(y, z)>)
                                   - max_z <w, phi_i(y_i, z)> ].

With the latent parts of the truths fixed it becomes an ordinary, convex problem B. B(w) >= F(w) for
every w, with equality where these latent parts are the best ones. So with those of w_t-1 in B_t,

    F(w_t) <= B_t(w_t) <= B_t(w_t-1) = F(w_t-1)

as soon as w_t is at least as good for B_t as w_t-1, which a round makes sure of: F never rises.
What it reaches is a point that no further round improves by more than `round_tol`, not the minimum
of F; the certificate of a round is about B_t.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taut.binding import complete
from taut.checks import check_number
from taut.compiled.jit import clock, compile_seconds
from taut.console.interrupts import catch_interrupt, closing_all
from taut.console.notices import one_of_each_kind
from taut.console.progress import looks_on
from taut.data.chunks import Chunk
from taut.data.source import Source
from taut.errors import InvalidData
from taut.problem import Belonging, Problem
from taut.result import (
    GO_ON,
    OVER_RETURNED,
    Certificate,
    History,
    Record,
    Result,
    Round,
    Rounds,
    Status,
    nothing_proved,
    relative,
)
from taut.solvers import Solver
from taut.solving import fingerprint_of, solve
from taut.storage.digest import digest_of
from taut.storage.stored import Stored, check, check_size, number, restore_generator
from taut.streamed import StreamedProblem
from taut.training.checkpoint import Checkpoint, CheckpointFile, Fingerprint
from taut.training.loop import Callback

#: What the certificate of an alternation is about.
CONVEX_PART = "the convex problem with the latent values fixed"

_ROUNDING = 1e-12  # relative difference of two sums of the same terms
_NO_TIME = 1e-9  # seconds left to a round after the last: it ends after a few visits
_CUT_SHORT = (Status.INTERRUPTED, Status.TIME_LIMIT, Status.CALLBACK, Status.OUT_OF_MEMORY)


class LatentProblem:
    """Data whose truths have a latent part, and the convex problems that come of it.

    `first` are X and y of the first convex problem, which must not lie below the latent objective
    anywhere; by default X with y completed without weights. All else is as for `taut.Problem`, with
    a structure that has `complete`.
    """

    def __init__(
        self, structure: Any, X: Any, y: Any, *, first: tuple[Any, Any] | None = None, **others: Any
    ) -> None:
        self.structure, self.X, self.y = structure, X, y
        self._first, self._others = first, others

    def first(self) -> Problem:
        """The problem to begin with."""
        X, y = self._first or (self.X, complete(self.structure, self.X, self.y))
        return Problem(self.structure, X, y, **self._others)

    def at(self, w: np.ndarray) -> Problem:
        """The problem with the latent parts that are best under w."""
        n_jobs, space = self._others.get("n_jobs", 1), self._others.get("space")
        y = complete(self.structure, self.X, self.y, w, n_jobs, space)
        return Problem(self.structure, self.X, y, **self._others)

    def belonging(self) -> Belonging:
        """What rounds rest on: the first problem, and the data of those after it."""
        first = self.first().belonging()()
        return first._replace(data=digest_of(first.data, self.X, self.y))


class StreamedLatentProblem(LatentProblem):
    """The same for the blocks of a source, whose latent parts are imputed as they are read.

    `impute` turns a chunk and w, or None before the first round, into a chunk whose targets are
    truths with their latent parts. All else is as for `taut.StreamedProblem`: its `recoding` tells
    imputations apart that the first chunk may not.
    """

    def __init__(
        self,
        structure: Any,
        source: Source,
        impute: Callable[[Chunk, np.ndarray | None], Chunk],
        **others: Any,
    ) -> None:
        self.structure, self.source, self.impute = structure, source, impute
        self._others = others

    def first(self) -> Problem:
        """The problem to begin with."""
        return self._imputed(None)

    def at(self, w: np.ndarray) -> Problem:
        """The problem with the latent parts that are best under w."""
        return self._imputed(w)

    def _imputed(self, w: np.ndarray | None) -> Problem:
        return StreamedProblem(
            self.structure, self.source, recode=lambda chunk: self.impute(chunk, w), **self._others
        )

    def belonging(self) -> Belonging:
        """What rounds rest on: each problem is that of all data."""
        return self.first().belonging()()


@dataclass(frozen=True)
class LatentResult:
    """The outcome of `alternate`.

    The certificate is that of the last round's convex problem, at w; time and counts are those of
    all rounds, and so are the passes of the history. `problem` has the latent parts that are best
    under w.
    """

    w: np.ndarray
    certificate: Certificate
    history: History
    rounds: Rounds
    problem: Problem


def check_rounds(max_rounds: int, round_tol: float) -> None:
    """Refuse what no alternation could end at."""
    check_number("max_rounds", max_rounds)
    check_number("round_tol", round_tol)
    if not max_rounds >= 1:
        raise InvalidData(f"max_rounds = {max_rounds}: it must be at least 1")
    if not 0.0 <= round_tol < math.inf:
        raise InvalidData(f"round_tol = {round_tol}: it must be 0 or more, and finite")


def alternate(
    latent: LatentProblem,
    solver: Solver | None = None,
    *,
    max_rounds: int = 20,
    round_tol: float = 1e-3,
    tol: float = 1e-3,
    max_iter: int = 1000,
    time_limit: float | None = None,
    callbacks: Iterable[Callback] = (),
    checkpoint: Checkpoint | str | os.PathLike | None = None,
    start: np.ndarray | None = None,
    random_state: int | np.random.Generator | None = None,
    check: bool = True,
) -> LatentResult:
    """Impute and solve until the latent objective falls by less than `round_tol`.

    Settings are as for `taut.solve`, in each round, with a `time_limit` for all together; records
    count passes and time from the first round on, and checkpoints have whole rounds. `round_tol` is
    a relative fall in a round; the alternation also ends when no latent value changes. `start` are
    weights at which the first latent values are imputed: the result is no worse than these.
    """
    check_rounds(max_rounds, round_tol)
    callbacks = list(callbacks)
    run = _Alternation(latent, start, tol, np.random.default_rng(random_state))
    file = None
    with ExitStack() as stack:
        if checkpoint is not None:
            fingerprint = run.fingerprint(solver, start)
            file = stack.enter_context(CheckpointFile(checkpoint, fingerprint))
            file.resume(run)
            run.reopen(max_rounds, round_tol)
        stack.enter_context(closing_all(callbacks))
        stack.enter_context(one_of_each_kind())
        interrupted = stack.enter_context(catch_interrupt())
        started = clock()
        began = started - run.seconds
        status = run.verdict(max_rounds, round_tol)
        while status is None:
            left = time_limit
            if time_limit is not None and run.certificate is not None:
                left = max(time_limit - (clock() - started), _NO_TIME)
            result = solve(
                run.problem, solver, tol=tol, max_iter=max_iter, time_limit=left,
                callbacks=[run.counting_on(callback) for callback in callbacks],
                keep_state=False, random_state=run.rng, check=check,
            )  # fmt: skip
            run.take(result, began)
            status = run.verdict(max_rounds, round_tol)
            if result.certificate.status in _CUT_SHORT:
                status = result.certificate.status
            else:
                if file is not None and (status is not None or file.due()):
                    file.save_if_possible(run.snapshot)
                if status is None and interrupted.is_set():
                    status = Status.INTERRUPTED
    return run.result(status)


class _Counting:
    """A callback for records that are counted in another way."""

    def __init__(self, callback: Callback, counted: Callable[[Record], Record]) -> None:
        self.callback, self.counted = callback, counted
        self.changes_nothing = looks_on(callback)
        self.begin = getattr(callback, "begin", lambda run: None)

    def __call__(self, record: Record) -> object:
        return self.callback(self.counted(record))


class _Alternation:
    """The best w so far, the convex problem at it, and what led there."""

    def __init__(
        self,
        latent: LatentProblem,
        start: np.ndarray | None,
        tol: float,
        rng: np.random.Generator,
    ) -> None:
        self.compiled = compile_seconds()  # before the first round
        self.latent = latent
        self.tol = tol
        self.rng = rng
        self.w = start
        self.problem = latent.first()
        self.objective = math.inf
        if start is not None:
            if len(start) != self.problem.n_features:
                raise InvalidData(
                    f"start has {len(start)} weights, the data have {self.problem.n_features} "
                    "joint features: start from weights of the same features, or from none"
                )
            self.problem = latent.at(start)
            self.objective = self.problem.primal(start)
        self.before = math.inf  # the objective before the last round
        self.certificate: Certificate | None = None
        self.advice = "raise it, or tol"
        self.history = History()
        self.rounds = Rounds()
        self.oracle_calls = 0
        self.seconds = 0.0

    def counted_on(self, record: Record) -> Record:
        """A record of the round under way, counted from the first round on."""
        return replace(
            record,
            iteration=record.iteration + len(self.history),
            seconds=record.seconds + self.seconds,
            oracle_calls=record.oracle_calls + self.oracle_calls,
        )

    def counting_on(self, callback: Callback) -> Callback:
        """The callback without its `close`, which is for the end of the last round."""
        return _Counting(callback, self.counted_on)

    def take(self, result: Result, began: float) -> None:
        """Accept a round's w unless it is worse than the one before."""
        certificate = result.certificate
        records = [self.counted_on(record) for record in result.history]
        primal, problem = certificate.primal, self.problem
        if self.w is None or primal <= self.objective * (1.0 + _ROUNDING):
            self.w = result.w
            self.problem = self.latent.at(self.w)
        else:  # better for this problem, whose dual bound holds for every w
            certificate = replace(
                certificate, primal=self.objective, penalty=problem.penalty(self.w)
            )
            if certificate.status is Status.MAX_ITER and certificate.relative_gap <= self.tol:
                certificate = replace(certificate, status=Status.CONVERGED)
        self.certificate, self.before = certificate, self.objective
        self.advice = result.advice
        self.objective = self.problem.primal(self.w)
        self.history.records += records
        self.oracle_calls += certificate.oracle_calls + problem.n_blocks
        changed = self.problem.n_changed(problem)
        self.seconds = clock() - began
        self.rounds.records.append(
            Round(
                number=len(self.rounds) + 1,
                objective=self.objective,
                primal=primal,
                dual=certificate.dual,
                changed=changed,
                passes=certificate.passes,
                seconds=self.seconds,
            )
        )

    def reopen(self, max_rounds: int, round_tol: float) -> None:
        """Make the last round again if it ended the alternation: no file proves its certificate."""
        if self.rounds and (self._settled(round_tol) or len(self.rounds) >= max_rounds):
            self.rounds.records.pop()

    def _settled(self, round_tol: float) -> bool:
        """Whether the last round changed nothing, or too little for another one."""
        fall = self.before - self.objective
        return self.rounds.records[-1].changed == 0 or fall <= round_tol * self.before < math.inf

    def verdict(self, max_rounds: int, round_tol: float) -> Status | None:
        """Whether the rounds so far end the alternation."""
        if self.certificate is None:
            return None
        if self._settled(round_tol):
            return self.certificate.status
        return Status.MAX_ROUNDS if len(self.rounds) >= max_rounds else None

    def result(self, status: Status) -> LatentResult:
        """What the caller gets."""
        assert self.certificate is not None
        assert self.w is not None
        in_round = status is Status.MAX_ITER  # the limit is one of each round
        primal = self.certificate.primal
        message = status.value.format(
            relative_gap=self.certificate.relative_gap,
            tol=self.tol,
            passes=self.certificate.passes if in_round else len(self.history),
            seconds=self.seconds,
            rounds=len(self.rounds),
            changed=self.rounds.records[-1].changed,
            rounding=relative(primal, primal, self.certificate.rounding),
            advice=self.advice,
            again=GO_ON,
        )
        over = OVER_RETURNED if self.certificate.of.endswith(OVER_RETURNED) else ""
        doubt = f" {self.certificate.doubt}" if over else ""
        message += nothing_proved(primal, self.certificate.dual)
        certificate = replace(
            self.certificate,
            status=status,
            message=f"{message} The bounds are those of {CONVEX_PART}{over}, not of the latent "
            f"one.{doubt}",
            oracle_calls=self.oracle_calls,
            passes=len(self.history),
            seconds=self.seconds,
            of=CONVEX_PART + over,
            compile_seconds=compile_seconds() - self.compiled,
        )
        return LatentResult(self.w, certificate, self.history, self.rounds, self.problem)

    def fingerprint(self, solver: Solver | None, start: np.ndarray | None) -> Fingerprint:
        """What a checkpoint must belong to."""
        weights = self.problem.weight_digest
        shared = fingerprint_of(self.latent.belonging(), weights, solver)
        return {"kind": "latent", "start": digest_of(start).hex()} | shared

    def snapshot(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All that is needed to go on after the last round."""
        assert self.certificate is not None
        assert self.w is not None
        meta = {
            "random": self.rng.bit_generator.state,
            "history": self.history.to_dict(),
            "rounds": self.rounds.to_dict(),
            "numbers": {name: str(getattr(self, name)) for name in _NUMBERS},
        }
        return {"w": self.w}, meta

    def resume(self, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> None:
        """Go on from a snapshot, or refuse it.

        Its certificate cannot be proved again, because the dual variables of a round are not kept:
        one more round, which begins at w, gives one.
        """
        check(arrays, {"w": Stored("f8", (self.problem.n_features,))})
        check_size("w", arrays["w"])
        self.w = arrays["w"]
        self.problem = self.latent.at(self.w)
        self.objective = self.problem.primal(self.w)
        self.history = History.from_dict(meta["history"])
        self.rounds = Rounds.from_dict(meta["rounds"])
        for name in _NUMBERS:
            kind = type(getattr(self, name))
            setattr(self, name, number(meta["numbers"][name], kind, name, 0.0))
        restore_generator(self.rng, meta["random"])


_NUMBERS = ("before", "oracle_calls", "seconds")
