"""Models with a kernel that have fewer rows, and a certificate that is still true."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from taut.errors import InvalidData
from taut.estimators.forms import KERNEL
from taut.problem import Problem
from taut.result import Certificate, Status
from taut.solving import solve
from taut.spaces.compressed import Selection
from taut.spaces.expansion import KernelPoint
from taut.spaces.kernel import KernelFeatures

_SAME = 1e-6  # relative difference of objectives of the same model and data
_PRECISE = 0.1  # of what an objective may rise by, to which coefficients are fitted again
_FINE, _FINEST = 1e-4, 1e-7  # relative gaps of these fits, at most and at least
_CLOSE = 1.05  # factor between two numbers of rows that are not told apart


class _Candidate(NamedTuple):
    """Coefficients of all rows and the tail, their objective, and the rounding of that."""

    w: np.ndarray
    primal: float
    rounding: float


class _Found(Exception):
    """The problem that a fit would solve."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem


def training_problem(model: Any, X: Any, y: Any, fit_params: dict[str, Any]) -> Problem:
    """The problem that the model was fitted to, with the kernel that it has."""

    def stop(problem: Problem, options: dict[str, Any]) -> Any:
        raise _Found(problem)

    other = model._copy(kernel=model.kernel_, checkpoint=None, callbacks=())
    other._solve = stop
    try:
        other.fit(X, y, **fit_params)
    except _Found as found:
        return found.problem
    raise InvalidData(
        f"{type(model).__name__} is no model of one convex problem: its certificate cannot be kept "
        "with fewer rows"
    )


def compressed(
    model: Any, X: Any, y: Any, n_support: Any, tol: Any, fit_params: dict[str, Any]
) -> Any:
    """A model of fewer rows; see `StructuralEstimator.compress`."""
    if model._form is not KERNEL:
        raise InvalidData(
            "compress is for models with a kernel on rows, such as kernel='rbf', and this "
            f"{type(model).__name__} has none: it leaves out support rows, which predictions take "
            "time for"
        )
    most = _as_count(n_support, tol, len(model.support_))
    problem = training_problem(model, X, y, fit_params)
    run = _Compression(model, problem, most)
    found = run.smallest(float(tol)) if n_support is None else run.best(most, _FINE)
    features = run.features
    point = KernelPoint.of(features, found.w, model._row_classes(problem))
    own = KERNEL.fitted(model, features.kernel, point, features.n_rows)
    certificate = run.certificate(found, len(point.support))
    return model._copy()._with_attributes(own, {"certificate_": certificate})


def _as_count(n_support: Any, tol: Any, n: int) -> int:
    """How many rows there may be, at most."""
    if (n_support is None) == (tol is None):
        raise InvalidData(
            "compress needs one of n_support, how many rows to keep, and tol, by how much the "
            "objective may rise relative to what it is"
        )
    if n_support is None:
        if not isinstance(tol, Real) or not 0.0 < float(tol) < np.inf:
            raise InvalidData(f"tol = {tol!r}: give a positive number, such as 0.01 for 1 %")
        return n
    if isinstance(n_support, Integral) and int(n_support) >= 1:
        return min(int(n_support), n)
    if isinstance(n_support, Real) and 0.0 < float(n_support) < 1.0:
        return max(int(float(n_support) * n), 1)
    raise InvalidData(
        f"n_support = {n_support!r}: give the number of rows to keep, at least 1, or their share "
        "between 0 and 1"
    )


class _Compression:
    """The rows of a model in the order of their worth, and the best points of the first ones."""

    def __init__(self, model: Any, problem: Problem, most: int) -> None:
        self.model, self.problem = model, problem
        data: Any = problem.data
        self.features: KernelFeatures = data.blocks.features
        self.w = KERNEL.point(model)
        self._check()
        self.selection = Selection(self.features, self.w, most)
        self.oracle_calls = problem.n_blocks

    def _check(self) -> None:
        """Refuse data that the certificate is not about."""
        model, features = self.model, self.features
        if model.certificate_.is_of_rounded:
            raise InvalidData(
                "the weights of the model were rounded when it was saved, and its certificate is "
                "that of before: call compress before save(path, dtype='float32'), or fit again"
            )
        advice = "give X, y and weights that fit was given"
        if features.n_rows != model.n_rows_:
            raise InvalidData(
                f"X has {features.n_rows} rows, the model was fitted to {model.n_rows_}: {advice}"
            )
        if not features.kernel.of_matrix:
            rows: Any = features.X[model.support_]
            if rows.shape != model.support_vectors_.shape or (rows != model.support_vectors_).sum():
                raise InvalidData(
                    "support_vectors_ of the model are not the rows of X that support_ names: "
                    + advice
                )
        stated, found = model.certificate_.primal, self.problem.primal(self.w)
        if not abs(found - stated) <= _SAME * stated:
            raise InvalidData(
                f"the objective of the model is {found:g} here, and its certificate says "
                f"{stated:g}: {advice}, and a model as fit left it"
            )

    def best(self, n: int, tol: float) -> _Candidate:
        """The best known point of the first n rows.

        Of the projection of w, and of what minimises the objective among all points of these rows.
        """
        n, given = min(n, len(self.selection.chosen)), self.problem
        if n == 0:
            return self._candidate(self.w)
        restricted = Problem(
            given.structure, given.X, given.y, given.C, given.sample_weight, given.n_jobs,
            space=self.selection.span(n),
        )  # fmt: skip
        fitted = solve(restricted, tol=tol, keep_state=False, random_state=0, check=False)
        self.oracle_calls += fitted.certificate.oracle_calls
        points = [self.selection.projected(n), self.selection.in_span(fitted.w, n)]
        return min(map(self._candidate, points), key=lambda candidate: candidate.primal)

    def _candidate(self, w: np.ndarray) -> _Candidate:
        """A point with its objective, by all oracles."""
        self.oracle_calls += self.problem.n_blocks
        return _Candidate(w, *self.problem.primal_bound(self.problem.scaled(w)))

    def smallest(self, tol: float) -> _Candidate:
        """The point of about the fewest rows with an objective that rises by no more than tol."""
        goal = self.model.certificate_.primal * (1.0 + tol)
        precise = min(max(_PRECISE * tol, _FINEST), _FINE)
        found = self._candidate(self.w)
        low, high = 0, len(self.selection.chosen)
        n = max(high // 64, 1)
        while low * _CLOSE + 1 < high:
            candidate = self.best(n, precise)
            if candidate.primal <= goal:
                found, high = candidate, n
            else:
                low = n
            # Doubled while nothing is good enough: problems of few rows are solved fast.
            n = min(2 * n, (low + high + 1) // 2) if low == n else (low + high) // 2
        return found

    def certificate(self, found: _Candidate, n_support: int) -> Certificate:
        """The new objective against the lower bound of before, which holds for every w."""
        before = self.model.certificate_
        after = replace(
            before,
            primal=found.primal,
            penalty=self.problem.penalty(found.w),
            status=Status.COMPRESSED,
            oracle_calls=before.oracle_calls + self.oracle_calls,
            rounding=before.rounding + found.rounding,
        )
        message = Status.COMPRESSED.value.format(
            before=len(self.model.support_), after=n_support,
            rise=100.0 * (found.primal / before.primal - 1.0) if before.primal > 0.0 else 0.0,
            relative_gap=after.relative_gap,
        )  # fmt: skip
        return replace(after, message=message)
