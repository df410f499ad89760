"""Learning from data that are read part by part: from files, from streams, and by `partial_fit`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import chain, pairwise
from typing import Any, NamedTuple, Self, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.data.arrays import as_sequences, offsets_of
from taut.data.chunks import Chunk
from taut.data.inflow import Inflow
from taut.data.labels import as_label_sequences
from taut.data.source import Source
from taut.errors import InvalidData
from taut.estimators.base import Estimator, StructuralEstimator, as_solver, estimator
from taut.estimators.forms import linear_only
from taut.estimators.tables import refuse_beside, refuse_other_columns, spread, takes_tables
from taut.readers.tables import Table, widened
from taut.solvers import SOLVERS, OnlineCache, Solver
from taut.solving import OnlineRun
from taut.streamed import StreamedProblem


class Plan(NamedTuple):
    """How an estimator learns from chunks.

    `recode` gives a chunk the targets and weights that the structure takes, and `recoding` tells it
    from others; `facts` are fitted attributes that do not depend on w.
    """

    structure: Any
    recode: Callable[[Chunk], Chunk]
    coef_shape: tuple[int, int] | None
    facts: dict[str, Any]
    recoding: bytes = b""


class Given(NamedTuple):
    """A chunk in the form in which users give data; `layout` is what methods take besides X."""

    X: Any
    y: Any
    weight: np.ndarray
    layout: dict[str, Any]


class Answers(NamedTuple):
    """Predictions beside the truths, the weights of blocks, and where those of each block begin."""

    predicted: np.ndarray
    truth: np.ndarray
    weight: np.ndarray
    offsets: np.ndarray

    @classmethod
    def joined(cls, parts: Sequence[Answers]) -> Answers:
        """Those of all parts, one after the other."""
        predicted, truth, weight = (
            np.concatenate([part[place] for part in parts]) for place in range(3)
        )
        sizes = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(predicted, truth, weight, offsets_of(sizes))

    @classmethod
    def of_blocks(cls, predicted: np.ndarray, truth: np.ndarray, weight: np.ndarray) -> Answers:
        """One of each block."""
        return cls(predicted, truth, weight, np.arange(len(predicted) + 1))


@estimator
class PartByPart(Estimator):
    """Estimators whose answers to a source are those to its chunks."""

    def _chunks(self, source: Source) -> Iterator[Given]:
        """The chunks of a source, in the form in which `predict` and `score` take data."""
        check_is_fitted(self)
        refuse_other_columns(self, getattr(source, "feature_names", None), "the source")
        n_features = getattr(self, "n_features_in_", None) if source.lacks_zeros else None
        with closing(source.chunks()) as chunks:
            for chunk in chunks:
                if n_features is not None:
                    chunk = replace(chunk, X=widened(chunk.X, n_features, "the source"))
                yield self._given(chunk, source.labels(chunk))

    def _given(self, chunk: Chunk, labels: Any) -> Given:
        weight = chunk.sample_weight
        weight = np.ones(chunk.n_blocks) if weight is None else weight
        if chunk.offsets is None:
            return Given(chunk.X, labels, weight, {})
        if self._parts_of == "rows":
            raise InvalidData(
                f"the source holds sequences, and {type(self).__name__} takes rows: write the rows "
                "by themselves, or use an estimator of sequences"
            )
        return Given(chunk.X, labels, weight, {"lengths": np.diff(chunk.offsets)})

    def _joined(self, parts: Sequence[tuple[Given, Any]]) -> Any:
        """The answers to all chunks in the form of those to one."""
        return np.concatenate([values for _, values in parts])

    def _labelled_chunks(self, source: Source) -> Iterator[Given]:
        for given in self._chunks(source):
            if given.y is None:
                raise InvalidData(
                    "the source has no targets to compare predictions with: write them with the "
                    "data"
                )
            yield given

    def _answer(self, X: Any, y: Any, sample_weight: Any, **layout: Any) -> Answers:
        """Predictions for data in memory, beside the truths."""
        raise NotImplementedError

    def _answers(self, X: Any, y: Any, sample_weight: Any, **layout: Any) -> Answers:
        """The same, also for a source, which has targets and weights of its own."""
        if not isinstance(X, Source):
            return self._answer(X, y, sample_weight, **layout)
        refuse_beside({"y": y, "sample_weight": sample_weight, **layout})
        return Answers.joined(
            [
                self._answer(given.X, given.y, None, **given.layout)._replace(weight=given.weight)
                for given in self._labelled_chunks(X)
            ]
        )


def answers_to(model: Any, data: Table | Source) -> Answers:
    """What a fitted model answers for a table or a source, beside the truths."""
    brought: dict[str, Any] = {"y": None, "sample_weight": None}
    if isinstance(data, Table):
        data, brought = spread(model, data, ["y", "sample_weight", "groups", "lengths"])
    found: Answers = model._answers(data, **brought)
    return found


F = TypeVar("F", bound=Callable[..., Any])


def takes_sources(method: F) -> F:
    """Let a method of a `PartByPart` take a source: its answers chunk by chunk, joined.

    It takes tables as well.
    """
    whole = takes_tables(method)

    @functools.wraps(method)
    def answer(self: PartByPart, X: Any, **layout: Any) -> Any:
        if not isinstance(X, Source):
            return whole(self, X, **layout)
        refuse_beside(layout)
        parts = [(given, method(self, given.X, **given.layout)) for given in self._chunks(X)]
        return self._joined(parts)

    return cast(F, answer)


def real_targets(source: Source) -> Callable[[Chunk], Chunk]:
    """A recoding to targets that are numbers."""

    def recode(chunk: Chunk) -> Chunk:
        y = source.labels(chunk)  # not their codes, which would be numbers too
        if not isinstance(y, np.ndarray) or y.dtype.kind not in "if":
            raise InvalidData(
                "the targets are missing or no numbers: write the data with the numbers to be "
                "learned"
            )
        return replace(chunk, y=y.astype(np.float64, copy=False))

    return recode


@estimator
class OnlineEstimator(PartByPart, StructuralEstimator):
    """Estimators whose `fit` takes data in memory or a source, and that have `partial_fit`."""

    def __getstate__(self) -> dict[str, Any]:
        # The state of partial_fit is bound to this process; the model is not.
        return {name: value for name, value in super().__getstate__().items() if name != "_online"}

    def _plan(self, source: Source) -> Plan:
        """How to learn from the chunks of a source."""
        raise NotImplementedError

    def _streamed(self, source: Source, plan: Plan) -> StreamedProblem:
        return StreamedProblem(
            plan.structure, source, self.C, self._threads(), self._regularizer(plan.coef_shape),
            plan.recode, plan.recoding,
        )  # fmt: skip

    def _fit_source(self, source: Source, **others: Any) -> Self:
        """Fit all blocks of a source, which has targets and weights of its own."""
        refuse_beside(others)
        self._needs_parts()
        options, plan = self._options(), self._plan(source)
        self._describe(lambda w, of: plan.facts | self._attributes(w, plan.coef_shape))
        w, fitted = self._solve(self._streamed(source, plan), options)
        return self._keep(fitted | plan.facts | self._attributes(w, plan.coef_shape))

    @linear_only
    @takes_tables
    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Go on learning with more data, which need not be kept.

        What was learned from the data of earlier calls stays in the state of the solver; `fit`
        begins anew, and so does a model that was copied, pickled or saved. Parameters are those of
        the first call. The certificate is an estimate, since the data cannot be looked at again.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : array-like, optional
            All labels that may ever occur, at the first call; by default those of its `y`.

        Returns
        -------
        self
        """
        self._needs_parts()
        options, solver = self._options(), self._fed_solver()
        online: _Online | None = getattr(self, "_online", None)
        if online is None:
            inflow = Inflow(self._parts_of, classes, type(self).__name__)
            inflow.feed(X, y, sample_weight)
            plan = self._plan(inflow)
            problem = self._streamed(inflow, plan)
            run = OnlineRun(problem, solver, self.tol, options["random_state"])
            online = _Online(inflow, plan, problem, run)
        else:
            online.inflow.feed(X, y, sample_weight, check=online.problem.bind)
        result = online.run.go_on(options["callbacks"], self.time_limit)
        return self._keep(
            self._facts(result)
            | online.plan.facts
            | self._attributes(result.w, online.plan.coef_shape)
            | {"_online": online}
        )

    def _fed_solver(self) -> Solver:
        """The solver of `partial_fit`, which must take data as they come."""
        solver = as_solver(self.solver) or OnlineCache()
        if not solver.can_be_fed:
            names = sorted(name for name, known in SOLVERS.items() if known.can_be_fed)
            raise InvalidData(
                f"solver = {self.solver!r} needs all data at once: for partial_fit use 'auto' or "
                f"one of {', '.join(map(repr, names))}"
            )
        return solver


@estimator
class OnlineSequences(OnlineEstimator):
    """The same, where blocks are sequences of rows."""

    _parts_of = "sequences"

    def _given(self, chunk: Chunk, labels: Any) -> Given:
        if chunk.offsets is None:
            raise InvalidData(
                f"the source holds rows, and {type(self).__name__} takes sequences: write lists of "
                "matrices"
            )
        given = super()._given(chunk, labels)
        nested = None if labels is None else np.split(np.asarray(labels), chunk.offsets[1:-1])
        return given._replace(y=nested)

    def _joined(self, parts: Sequence[tuple[Given, Any]]) -> list[np.ndarray]:
        return list(
            chain.from_iterable(
                np.split(values, np.cumsum(given.layout["lengths"])[:-1]) for given, values in parts
            )
        )

    @linear_only
    @takes_tables
    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        *,
        lengths: Any = None,
    ) -> Self:
        """Go on learning with more sequences; see `OnlineEstimator.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight, lengths
            As for `fit`.
        classes : array-like, optional
            All labels that may ever occur, at the first call; by default those of its `y`.

        Returns
        -------
        self
        """
        self._needs_parts()
        matrix, offsets = as_sequences(X, lengths)
        self._need(y)
        labels, pairs = as_label_sequences(y, offsets), list(pairwise(offsets))
        return super().partial_fit(
            [matrix[start:stop] for start, stop in pairs],
            [labels[start:stop] for start, stop in pairs],
            classes,
            sample_weight,
        )


class _Online(NamedTuple):
    """What partial_fit keeps between calls."""

    inflow: Inflow
    plan: Plan
    problem: StreamedProblem
    run: OnlineRun
