"""Readers of taut's own estimators.

The certificate that a model carries is not read. It is that of the data, weights and parameters of
its fit, and nothing shows whether these are what is given here: without the rows whose hinges are
zero, for example, the primal value stays the same and the optimum falls. The bound is sought anew,
for the problem that the model's parameters make of the data: as for any linear model where rows
have one score, else by a solve.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from taut.certification.given import Given, Reading
from taut.certification.linear_models import in_words
from taut.certification.losses import Losses, hinges, insensitive
from taut.certification.machine import LinearMachine, ProblemMachine
from taut.certification.report import NoBound
from taut.certification.spaces import LinearSpace
from taut.data.source import Source
from taut.errors import InvalidData
from taut.features import Extractor
from taut.features.stored import same_extractors
from taut.problem import Problem

_SAME = 1e-6  # relative difference of the numbers of a model that rounding may explain
_OF_NO_PROBLEM = ("certificate_", "reading_")  # attributes that another fit may leave otherwise
_ADVICE = "give X, y and what else fit was given, and a model as fit left it"


class _Found(NamedTuple):
    """A problem, a model's point of it, and whether it has neither a prior nor signs."""

    problem: Problem
    w: np.ndarray
    plain: bool


def read_estimator(model: Any, given: Given) -> Reading:
    """Any estimator with a convex objective, by the problem that it makes of the data."""
    return _to_solve(model, _problem_of(model, given))


def _to_solve(model: Any, found: _Found) -> Reading:
    objective = "1/2 |w|^2" if found.plain else "regulariser of w, with its prior and signs,"
    objective += " + sum_i C_i max_y [loss_i(y) - score_i(y_i) + score_i(y)]"
    return Reading(type(model).__name__, objective, [ProblemMachine("all", found.problem, found.w)])


def _read_rows(model: Any, given: Given, loss: str, losses_of: Callable[[Any], Losses]) -> Reading:
    """An estimator whose rows have one score, by its losses where it is linear in the columns."""
    found = _problem_of(model, given)
    problem: Any = found.problem
    linear = found.plain and problem.comes_as == "whole" and problem.space is None
    extracted = getattr(model, "features", None) is not None
    if not linear or extracted or problem.y.ndim > 1:  # beside margins
        return _to_solve(model, found)
    space = LinearSpace(given.matrix(int(model.n_features_in_)), model._bias)
    bias, weights = float(model.intercept_[0]), np.ravel(model.coef_)
    machine = LinearMachine("all", space, losses_of(problem), weights, bias)
    return Reading(type(model).__name__, in_words(loss, False, False), [machine])


def read_binary(model: Any, given: Given) -> Reading:
    """BinarySVM: a hinge of each row."""
    return _read_rows(
        model, given, "hinge", lambda problem: hinges(problem.y, problem.block_weight)
    )


def read_regression(model: Any, given: Given) -> Reading:
    """RegressionSVM: an epsilon-insensitive loss of each row."""
    return _read_rows(
        model, given, "insensitive",
        lambda problem: insensitive(problem.y, problem.structure.epsilon, problem.block_weight),
    )  # fmt: skip


def _problem_of(model: Any, given: Given) -> _Found:
    """The problem that fit would solve, if the model can be its outcome."""
    check_is_fitted(model)
    given.only_data(type(model).__name__, of_taut=True)
    if getattr(getattr(model, "structure", None), "points", "weights") == "pairs":
        raise NoBound(
            "its weights are coefficients of pairs that belong to one fit: see certificate_, or "
            "use explicit=True"
        )
    w = model._form.point(model)
    problem, refitted = _as_if_fitted(model, given, w)
    _compare(vars(model), vars(refitted))
    prior = problem.data.prior
    return _Found(problem, w, prior.trivial and not prior.mean.any())


def _as_if_fitted(model: Any, given: Given, w: np.ndarray) -> tuple[Problem, Any]:
    """The problem that `fit` makes of the data, and the model that it leaves if it ends at w."""
    # A model that has coefficients keeps its kernel with gamma as a number.
    settings = {
        "kernel": getattr(model, "kernel_", "linear"), "checkpoint": None, "callbacks": (),
        "random_state": 0,
    }  # fmt: skip
    if "calibrate" in model.get_params(deep=False):
        settings["calibrate"] = None
    other = model._copy(**settings)
    problems: list[Problem] = []

    def end_at_once(problem: Problem, options: dict[str, Any]) -> tuple[np.ndarray, dict[str, Any]]:
        if problem.n_features != len(w):
            raise InvalidData(
                f"fit would look for {problem.n_features} numbers on these data, the model has "
                f"{len(w)}: there are other rows, columns or classes than in its training; "
                f"{_ADVICE}"
            )
        problems.append(problem)
        return w, {"certificate_": model.certificate_}

    other._solve, other._keep = end_at_once, other._take
    params = dict(given.fit_params)
    if given.sample_weight is not None:
        params["sample_weight"] = given.sample_weight
    if not isinstance(given.X, Source):
        params["y"] = given.y
    elif given.y is not None:
        params["y"] = given.y  # which `fit` refuses beside a source
    other.fit(given.X, **params)
    return problems[0], other


def _compare(own: dict[str, Any], refitted: dict[str, Any]) -> None:
    """Refuse a model whose attributes are others than a fit to the data leaves with the same w."""
    for name, value in refitted.items():
        if not name.endswith("_") or name in _OF_NO_PROBLEM or name not in own:
            continue
        if not _equal(own[name], value):
            raise InvalidData(
                f"{name} of the model is not what fit leaves with these data and parameters: "
                f"{_ADVICE}"
            )


def _equal(own: Any, other: Any) -> bool:
    """Whether two attributes are the same; numbers but for rounding."""
    if sp.issparse(own) or sp.issparse(other):
        return own.shape == other.shape and not (own != other).sum()
    if isinstance(own, Extractor):
        return isinstance(other, Extractor) and same_extractors(own, other)
    if not isinstance(own, np.ndarray):
        return repr(own) == repr(other)
    other = np.asarray(other)
    if own.shape != other.shape:
        return False
    if own.dtype.kind == other.dtype.kind == "f":
        size = np.abs(own[np.isfinite(own)]).max(initial=0.0)
        return bool(np.allclose(own, other, rtol=_SAME, atol=_SAME * size, equal_nan=True))
    return own.tolist() == other.tolist()


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
