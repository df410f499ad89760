"""`taut.certify`: bounds for any model that it can read."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from taut.certification import own, scikit_learn, text_models
from taut.certification.given import Given, Reading, of_files
from taut.certification.machine import Effort
from taut.certification.report import Certification, NoBound
from taut.checks import check_number
from taut.errors import InvalidData, InvalidType

Reader = Callable[[Any, Given], Reading]

#: Readers by the first part of a class's module, and by its name.
_READERS: dict[str, dict[str, Reader]] = {
    "taut": own.READERS,
    "sklearn": scikit_learn.READERS,  # and what is derived from it, as scikit-learn-intelex's are
}
_READ = (
    "SVC, SVR, LinearSVC, LinearSVR, SGDClassifier and SGDRegressor of scikit-learn and what is "
    "derived from them, taut's own estimators, and paths of model files of LIBSVM and LIBLINEAR"
)


def _reader_of(model: Any) -> Reader:
    """The reader of a model's class, or of the nearest one that it is derived from."""
    if isinstance(model, str | os.PathLike):
        return text_models.read_file
    if isinstance(model, type):
        raise InvalidType(f"model = {model.__name__} is a class: give a fitted model")
    for kind in type(model).__mro__:
        found = _READERS.get(kind.__module__.partition(".")[0], {}).get(kind.__name__)
        if found is not None:
            return found
    inner = ""
    if hasattr(model, "steps"):
        inner = "; of a pipeline, give the last step, and X as the steps before it transform it"
    elif hasattr(model, "best_estimator_"):
        inner = "; of a search, give its best_estimator_"
    elif hasattr(model, "estimators_"):
        inner = "; of several models in one, give each of its estimators_ with its own y"
    elif hasattr(model, "learning_curve_"):
        inner = ": it minimises no objective, and there is no optimum to compare it with"
    raise InvalidType(
        f"model is of type {type(model).__name__}, which certify cannot read{inner}. It reads "
        f"fitted {_READ}"
    )


def certify(
    model: Any,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    C: float | None = None,
    epsilon: float | None = None,
    class_weight: dict | str | None = None,
    tol: float = 1e-3,
    max_iter: int = 1000,
    time_limit: float | None = None,
    **fit_params: Any,
) -> Certification:
    """How far a fitted model is from the optimum of its own objective, whoever trained it.

    Parameters
    ----------
    model : fitted model, or path
        SVC, SVR, LinearSVC, LinearSVR, SGDClassifier or SGDRegressor of scikit-learn, any estimator
        of taut, or the path of a model file of LIBSVM or LIBLINEAR.
    X, y
        The data that the model was trained on: the same rows in the same order, with the same
        preprocessing. A source of data, or what `taut.read` returns, has a y of its own.
    sample_weight : array-like of shape (n,), optional
        That of the training.
    C, epsilon : float, optional
        Of model files, which do not store them.
    class_weight : dict or "balanced", optional
        Of model files: factors on C by class.
    tol : float, default=1e-3
        How sharp a bound to seek, relative to the objective, where the model does not bring its
        dual variables.
    max_iter : int, default=1000
        Passes over the data at most, to find one.
    time_limit : float, optional
        Seconds at most for it, for each machine of the model.
    **fit_params
        Further arguments of `fit` of taut's own estimators.

    Returns
    -------
    Certification
        Prints as a table, with a row for each machine of a one-vs-one or one-vs-rest model.

    Raises
    ------
    InvalidData
        X, y or sample_weight cannot be those of the training, or the model is not known.
    InvalidFile
        A model file is missing or damaged.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.svm import SVC
    >>> import taut
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> report = taut.certify(SVC(tol=1e-6).fit(X, y), X, y)
    >>> bool(0.0 <= report.relative_gap < 1e-5)
    True
    >>> report = taut.certify(SVC(kernel="sigmoid").fit(X, y), X, y)
    >>> report.message[:60]
    'No bound can be had because the kernel sigmoid is not positi'
    """
    effort = _effort(tol, max_iter, time_limit)
    reader = _reader_of(model)
    X, beside = of_files(model, X, {"y": y, "sample_weight": sample_weight} | fit_params)
    given = Given(X, beside.pop("y"), beside.pop("sample_weight"), C, epsilon, class_weight, beside)
    name = os.fspath(model) if isinstance(model, str | os.PathLike) else type(model).__name__
    try:
        reading = reader(model, given)
        with np.errstate(over="ignore", invalid="ignore"):  # objectives are looked at instead
            machines = tuple(machine.bounds(effort) for machine in reading.machines)
    except NoBound as reason:
        return Certification(str(name), (), reason=str(reason))
    return Certification(reading.model, machines, reading.objective)


def _effort(tol: float, max_iter: int, time_limit: float | None) -> Effort:
    check_number("tol", tol)
    check_number("max_iter", max_iter)
    if not 0.0 <= tol < math.inf:
        raise InvalidData(f"tol = {tol}: it must be 0 or more, and finite")
    if max_iter < 1:
        raise InvalidData(f"max_iter = {max_iter}: it must be at least 1")
    if time_limit is not None:
        check_number("time_limit", time_limit)
        if not time_limit > 0.0:
            raise InvalidData(f"time_limit = {time_limit}: it must be positive, or None")
    return Effort(float(tol), int(max_iter), time_limit)
