"""One call of an online estimator: passes over some data, from where its model stands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np

from taut.compiled.lanes import aligned_zeros
from taut.console.notices import warn_once
from taut.console.progress import StepRecord, step_line
from taut.data.arrays import as_sequences
from taut.data.labels import as_label_sequences, is_nested
from taut.errors import InvalidData, InvalidType, NotConverged
from taut.estimators.beginning import (
    beginning_of,
    check_columns_of_rows,
    columns_of_rows,
    known_beginning,
)
from taut.estimators.forms import KERNEL, form_of
from taut.estimators.learning_curve import LearningCurve
from taut.problem import Problem
from taut.result import Record, Status
from taut.solvers import FunctionalDescent
from taut.solving import OnlineRun
from taut.spaces.expansion import KernelPoint
from taut.spaces.features import Features
from taut.spaces.kernel import through_kernel
from taut.structures.abilities import ability
from taut.structures.base import CompiledStructure, Structure


def check_structure(structure: Any) -> None:
    """Refuse what is no structure, and those whose hinges say nothing of predictions."""
    name = type(structure).__name__
    if not isinstance(structure, Structure | CompiledStructure):
        raise InvalidType(
            f"structure = {structure!r}: give a structure, such as taut.structures.Chain(5), or "
            "leave it out for rows with classes"
        )
    if ability(structure, "signed_losses"):
        raise InvalidData(
            f"structure = {name} has losses below zero, which are constraints and no errors to "
            "learn from one subset after the other: use RegressionSVM for numbers, or "
            "taut.solve(taut.Problem(structure, X, y))"
        )
    if not ability(structure, "scores_predict"):
        raise InvalidData(
            f"structure = {name} predicts by something else than its highest score: give the "
            "structure without it, or use taut.solve(taut.Problem(structure, X, y))"
        )


def in_form(structure: Any, X: Any, y: Any = None) -> tuple[Any, Any]:
    """Lists of matrices, and of the labels of their rows, stacked where a structure takes that."""
    stacks = isinstance(structure, CompiledStructure) and not structure.takes_examples
    if not stacks or not isinstance(X, list | tuple) or not all(map(_is_matrix, X)):
        return X, y
    matrix, offsets = as_sequences(X)
    n = len(offsets) - 1
    if isinstance(y, list | tuple | np.ndarray) and len(y) and is_nested(y, n):
        labels = as_label_sequences(y, offsets)
        y = labels if labels.dtype.kind != "O" else np.array(labels.tolist())
    return (matrix, offsets), y


def _is_matrix(x: Any) -> bool:
    return (x.ndim if hasattr(x, "ndim") else np.ndim(x)) == 2


def warn_of_interrupt() -> None:
    """Say that a model has not seen all that it was given."""
    warn_once("interrupted: the model is that of the steps so far", NotConverged)


class Part(NamedTuple):
    """Data of a call.

    Attributes
    ----------
    structure, X, y, weight
        As of `taut.Problem`.
    facts : dict
        Fitted attributes that are no weights: columns and classes of rows.
    idle : bool
        Whether no example has weight.
    """

    structure: Any
    facts: dict[str, Any]
    X: Any
    y: Any
    weight: Any
    idle: bool


class _Passing(Problem):
    """Data that are gone through and not looked at again: nothing is to be proved of them."""

    repeatable = False


class Course:
    """Passes over the data of one call of `fit` or `partial_fit`.

    With a kernel the rows of the data come first, and behind them the support rows that the model
    had before. Their coefficients are those of the model: `last_` of w after the last step, and
    `dual_coef_` of the average.

    Parameters
    ----------
    model : OnlineSVM
        With the attributes of the calls so far.
    part : Part
    solver : FunctionalDescent
    seed : int
    """

    def __init__(self, model: Any, part: Part, solver: FunctionalDescent, seed: int) -> None:
        self.model = model
        self.known = hasattr(model, "last_")
        self.kernel = form_of(model.kernel) is KERNEL
        self.begun = known_beginning(model) if self.known else beginning_of(model)
        space = self._space() if self.kernel else None
        self.problem = _Passing(
            part.structure, part.X, part.y, 1.0, part.weight, model._threads(), space=space
        )
        calls = model.n_calls_ if self.known else 0
        rng = np.random.default_rng([seed, calls])
        self._run = OnlineRun(self.problem, solver, 1e-3, rng)
        self.state: Any = self._run.run.state
        self.calls = calls + 1
        if self.known:
            self._go_on()

    def _space(self) -> Callable[[Features], Features]:
        model = self.model
        kernel = model.kernel_ if self.known else self.begun["begun_kernel_"]
        support = model.support_vectors_ if self.known else None
        return through_kernel(
            kernel, cache=model.cache, whole=0, n_jobs=model._threads(), support=support
        )

    def _go_on(self) -> None:
        """Have w, its average and the counters of the model."""
        model, data, state = self.model, self.problem.data, self.state
        check_columns_of_rows(model, data)
        size = self._known_average().size
        wanted = data.n_features - self._in_front
        if model.last_.size != size or wanted != size:
            raise InvalidData(
                f"the model so far has {size} weights, and these data would have {wanted}: give "
                "the features, and the structure, of the first call"
            )
        ahead = np.zeros(self._in_front)
        data.assign(state.w, np.concatenate([ahead, model.last_]))
        if state.average is not None:
            average = aligned_zeros(len(state.w), np.float64)
            data.assign(average, np.concatenate([ahead, self._known_average()]))
            state.average = average
        state.step, state.seen = model.n_steps_, model.n_seen_
        state.evaluations = model.n_evaluations_

    @property
    def _in_front(self) -> int:
        """Coefficients of the rows of this call, which come before those of the support rows."""
        if not self.kernel:
            return 0
        features: Any = self.problem.data
        features = features.blocks.features
        return (features.n_rows - len(self.model.support_)) * features.columns

    def _known_average(self) -> np.ndarray:
        model = self.model
        if not self.kernel:
            return model._joint_weights()
        return np.concatenate([model.dual_coef_.T.ravel(), model._tail()])

    def go(self) -> bool:
        """A pass; whether it came to its end."""
        line = step_line(self.model.verbose, type(self.model).__name__)

        def show(record: Record) -> None:
            last = self.state.steps[-1]
            line(
                StepRecord(
                    record.iteration, last.seen, last.with_loss, last.square, last.n_support,
                    record.seconds,
                )
            )  # fmt: skip

        with closing(line):
            result = self._run.go_on([show])
        return result.certificate.status is not Status.INTERRUPTED

    def attributes(self, coef_shape: Any) -> dict[str, Any]:
        """The fitted attributes after the passes so far."""
        data, state = self.problem.data, self.state
        last = data.unpad(state.w)
        average = last if state.average is None else data.unpad(state.average)
        form = self._support(last, average) if self.kernel else {"last_": last}
        if not self.kernel:
            form |= self.model._attributes(average, coef_shape)
        if self.model.structure is not None:
            form |= columns_of_rows(data)
        curve = self.model.learning_curve_ if self.known else LearningCurve()
        return (
            form
            | self.begun
            | {
                "n_steps_": state.step,
                "n_seen_": state.seen,
                "n_calls_": self.calls,
                "n_evaluations_": state.evaluations + int(data.evaluations),
                "learning_curve_": curve.extended(state.steps),
            }
        )

    def _support(self, last: np.ndarray, average: np.ndarray) -> dict[str, Any]:
        """Of the rows that have coefficients, in the order in which they came."""
        model, bound = self.model, self.problem.data
        data: Any = bound
        features = data.blocks.features
        n, columns = features.n_rows, features.columns
        n_before = len(model.support_) if self.known else 0
        n_new, rows_so_far = n - n_before, model.n_rows_ if self.known else 0
        order = np.concatenate([np.arange(n_new, n), np.arange(n_new)])
        numbers = np.arange(rows_so_far, rows_so_far + n_new)
        if self.known:
            numbers = np.concatenate([model.support_, numbers])
        b, own = (v[: n * columns].reshape(n, columns)[order] for v in (average, last))
        kept = np.flatnonzero(b.any(axis=1) | own.any(axis=1))
        point = KernelPoint.of(features, average, order=order[kept], numbers=numbers[kept])
        return KERNEL.fitted(model, features.kernel, point, rows_so_far + n_new) | {
            "last_": np.concatenate([own[kept].ravel(), last[n * columns :]])
        }
