"""Readers of taut's own estimators."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.certification import linear_models
from taut.certification.given import Given, Reading
from taut.certification.machine import Effort, ProblemMachine
from taut.certification.report import MachineBounds, NoBound
from taut.problem import Problem
from taut.result import Certificate

_SAME = 1e-9  # relative difference of two values of one objective


@dataclass(frozen=True)
class OwnMachine(ProblemMachine):
    """A problem with a certificate, which holds for these data if its primal value is theirs."""

    certificate: Certificate

    def bounds(self, effort: Effort) -> MachineBounds:
        """By the certificate, or by a solve where it is that of other data, or an estimate."""
        own = self.certificate
        primal = self.problem.primal(self.w)
        same = abs(primal - own.primal) <= _SAME * max(primal, own.primal) + own.rounding
        if not (same and own.exact and np.isfinite(own.dual)):
            return super().bounds(effort)
        dual = max(own.dual - own.rounding, 0.0)
        note = "its certificate, whose primal value is that of these data"
        return MachineBounds(self.name, self.problem.n_blocks, primal, primal, dual, note)


def _is_plain(model: Any) -> bool:
    """Whether weights have no prior and no signs."""
    free = model.nonneg is False or not np.any(model.nonneg)
    return model.prior_mean is None and model.prior_precision is None and free


def _linear(model: Any, given: Given) -> tuple[Any, ...]:
    """X, weights of rows, of columns, and the constant column."""
    X = given.matrix(int(model.n_features_in_))
    constant = float(model.intercept_scaling) if model.fit_intercept else 0.0
    bias = float(np.ravel(model.intercept_)[0])
    return X, given.weights(X.shape[0]), np.atleast_2d(model.coef_), bias, constant


def read_binary(model: Any, given: Given) -> Reading:
    """BinarySVM: as any linear model with a hinge, unless it has a prior or margins."""
    check_is_fitted(model)
    if not _is_plain(model) or given.fit_params:
        return read_estimator(model, given)
    given.only_data(type(model).__name__)
    X, weight, W, bias, constant = _linear(model, given)
    codes = given.codes(model.classes_, X.shape[0])
    factors = given.class_factors(model.class_weight, model.classes_, codes, weight)
    machines = linear_models.one_vs_rest(
        X, [str(label) for label in model.classes_.tolist()], codes, model.C * weight, factors, W,
        np.array([bias]), constant=constant, squared=False,
    )  # fmt: skip
    return Reading(type(model).__name__, linear_models.in_words("hinge", False, False), machines)


def read_regression(model: Any, given: Given) -> Reading:
    """RegressionSVM: as any linear model with its loss, unless it has a prior."""
    check_is_fitted(model)
    if not _is_plain(model) or given.fit_params:
        return read_estimator(model, given)
    given.only_data(type(model).__name__)
    X, weight, W, bias, constant = _linear(model, given)
    machines = linear_models.regression(
        X, given.targets(X.shape[0]), float(model.epsilon), model.C * weight, W[0], bias,
        constant=constant, squared=False,
    )  # fmt: skip
    words = linear_models.in_words("insensitive", False, False)
    return Reading(type(model).__name__, words, machines)


def read_estimator(model: Any, given: Given) -> Reading:
    """Any estimator with a convex objective, by the problem that it makes of the data."""
    check_is_fitted(model)
    params = dict(given.fit_params)
    if given.sample_weight is not None:
        params["sample_weight"] = given.sample_weight
    machine = OwnMachine(
        "all", _problem(model, given, params), model._joint_weights(), model.certificate_
    )
    of = model.certificate_.of
    return Reading(type(model).__name__, of, [machine])


def _problem(model: Any, given: Given, params: dict[str, Any]) -> Problem:
    """What the estimator minimises on these data, as one pass over them leaves it."""
    quiet = {
        "callbacks": (), "checkpoint": None, "verbose": 0, "warm_start": False, "max_iter": 1,
        "solver": "auto",
    }  # fmt: skip
    if "calibrate" in model.get_params(deep=False):
        quiet["calibrate"] = None
    other = model._copy(**quiet)
    other._keeps_end = True
    other.fit(given.X, given.y, **params)
    return other._end.problem


def refuse_latent(model: Any, given: Given) -> Reading:
    """Estimators with latent variables."""
    check_is_fitted(model)
    raise NoBound(
        "its objective is not convex: latent variables are chosen with the weights. Its "
        "certificate_ is that of the convex problem of the last round"
    )


READERS: dict[str, Callable[[Any, Given], Reading]] = {
    "Alternating": refuse_latent,
    "BinarySVM": read_binary,
    "RegressionSVM": read_regression,
    "StructuralEstimator": read_estimator,
}
