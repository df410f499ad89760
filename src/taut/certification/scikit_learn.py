"""Readers of scikit-learn's models, and of those that have their attributes."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from taut.certification import kernel_models, linear_models
from taut.certification.given import Given, Reading, kernel_space
from taut.certification.report import NoBound
from taut.data.arrays import Matrix
from taut.data.labels import class_weights
from taut.errors import InvalidData

#: Whether "balanced" means the weights of rows, as in scikit-learn 1.7 and later, or their number.
_COUNTS_WEIGHTS = "sample_weight" in signature(compute_class_weight).parameters
_SGD_HINGES = {"hinge": False, "squared_hinge": True}
_SGD_INSENSITIVE = {"epsilon_insensitive": False, "squared_epsilon_insensitive": True}


def _names(classes: np.ndarray) -> list[str]:
    return [str(label) for label in classes.tolist()]


def _columns(model: Any) -> Any:
    """The names of columns in the training, or None."""
    return getattr(model, "feature_names_in_", None)


def _rows_of_kernel_model(model: Any, given: Given) -> tuple[Matrix, np.ndarray]:
    """X and the weights of its rows."""
    check_is_fitted(model)
    given.only_data(type(model).__name__)
    n, columns = model.shape_fit_
    X = given.matrix(int(columns), int(n), _columns(model))
    return X, given.weights(int(n))


def _support(model: Any, X: Matrix, weight: np.ndarray) -> np.ndarray:
    """The rows of the support vectors, which must be what the model has kept of them."""
    own = np.asarray(model.support_)
    # LIBSVM leaves out rows without weight, and then counts those that are left; oneDAL does not.
    counted = np.flatnonzero(weight > 0.0)
    candidates = [counted[own], own] if own.max(initial=0) < len(counted) else [own]
    vectors = model.support_vectors_
    if vectors.shape[0] == 0 or vectors.shape[1] != X.shape[1]:  # a matrix was given, or a function
        return candidates[0]
    for rows in candidates:
        differing = _differing(X[rows], vectors)
        if differing is None:
            return rows
    raise InvalidData(
        f"row {own[differing]} of X is not the support vector that the model has kept of it: give "
        "X as it was given to the training, the same rows in the same order and with the same "
        "preprocessing"
    )


def _differing(rows: Matrix, vectors: Any) -> int | None:
    """The first row that is another, or None."""
    if sp.issparse(rows) and sp.issparse(vectors):
        unequal = np.diff(sp.csr_array(rows != vectors).indptr) > 0
    else:
        unequal = (_dense(rows) != _dense(vectors)).any(axis=1)
    return int(np.argmax(unequal)) if unequal.any() else None


def read_svc(model: Any, given: Given) -> Reading:
    """SVC: a machine for each two classes."""
    X, weight = _rows_of_kernel_model(model, given)
    codes = given.codes(model.classes_, X.shape[0])
    support = _support(model, X, weight)
    space, caveat = kernel_space(model.kernel, model._gamma, model.degree, model.coef0, X)
    # Of two classes the second is the positive one in public attributes.
    sign = -1.0 if len(model.classes_) == 2 else 1.0
    coefficients = _dense(model.dual_coef_)
    machines = kernel_models.one_vs_one(
        space, caveat, _names(model.classes_), codes, model.C * weight * model.class_weight_[codes],
        support, sign * coefficients, sign * np.asarray(model.intercept_),
    )  # fmt: skip
    return Reading(type(model).__name__, kernel_models.HINGES, machines)


def _dense(matrix: Any) -> np.ndarray:
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    return np.asarray(dense, dtype=np.float64)


def read_svr(model: Any, given: Given) -> Reading:
    """SVR."""
    X, weight = _rows_of_kernel_model(model, given)
    targets = given.targets(X.shape[0])
    support = _support(model, X, weight)
    space, caveat = kernel_space(model.kernel, model._gamma, model.degree, model.coef0, X)
    machines = kernel_models.regression(
        space, caveat, targets, float(model.epsilon), model.C * weight, support,
        _dense(model.dual_coef_)[0], float(np.ravel(model.intercept_)[0]),
    )  # fmt: skip
    return Reading(type(model).__name__, kernel_models.INSENSITIVE, machines)


def _rows_of_linear_model(model: Any, given: Given) -> tuple[Matrix, np.ndarray]:
    """X and the weights of its rows; there is no way to tell whether they are those of training."""
    check_is_fitted(model)
    given.only_data(type(model).__name__)
    X = given.matrix(int(np.atleast_2d(model.coef_).shape[1]), names=_columns(model))
    return X, given.weights(X.shape[0])


def _need_l2(model: Any) -> None:
    if model.penalty != "l2":
        raise NoBound(
            f"its penalty is {model.penalty!r}: dual points are known for penalty='l2' alone"
        )


def _weights(model: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights of columns and biases, one of each for a machine."""
    W = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    return W, np.broadcast_to(np.ravel(np.asarray(model.intercept_, dtype=np.float64)), (n,))


def read_linear_svc(model: Any, given: Given) -> Reading:
    """LinearSVC: a machine for each class against the rest, or one of all classes."""
    X, weight = _rows_of_linear_model(model, given)
    codes = given.codes(model.classes_, X.shape[0])
    counts = weight if _COUNTS_WEIGHTS else np.ones(len(codes))
    factors = class_weights(model.class_weight, model.classes_, codes, counts)
    constant = float(model.intercept_scaling) if model.fit_intercept else 0.0
    W, biases = _weights(model, np.atleast_2d(model.coef_).shape[0])
    name = type(model).__name__
    if model.multi_class == "crammer_singer":
        if len(W) == 1:  # of two classes the difference is kept, which the best weights halve
            W, biases = np.vstack([-0.5 * W, 0.5 * W]), np.array([-0.5, 0.5]) * biases
        tails = biases / constant if constant else np.zeros(len(W))
        machines = linear_models.crammer_singer(
            X, codes, model.C * weight * factors[codes], W, tails, constant
        )
        return Reading(name, linear_models.CRAMMER_SINGER, machines)
    _need_l2(model)
    squared = model.loss == "squared_hinge"
    return Reading(
        name,
        linear_models.in_words("hinge", squared, False),
        linear_models.one_vs_rest(
            X, _names(model.classes_), codes, model.C * weight, factors, W, biases,
            constant=constant, squared=squared,
        ),
    )  # fmt: skip


def read_linear_svr(model: Any, given: Given) -> Reading:
    """LinearSVR."""
    X, weight = _rows_of_linear_model(model, given)
    W, biases = _weights(model, 1)
    squared = model.loss == "squared_epsilon_insensitive"
    constant = float(model.intercept_scaling) if model.fit_intercept else 0.0
    machines = linear_models.regression(
        X, given.targets(X.shape[0]), float(model.epsilon), model.C * weight, W[0],
        float(biases[0]), constant=constant, squared=squared,
    )  # fmt: skip
    return Reading(
        type(model).__name__, linear_models.in_words("insensitive", squared, False), machines
    )


def _of_sgd(model: Any, losses: dict[str, bool]) -> tuple[bool, dict[str, Any]]:
    """Whether losses are squared, and what machines of stochastic gradient descent have in common.

    The objective is alpha / 2 |w|^2 + 1 / n sum_i weight_i loss_i.
    """
    _need_l2(model)
    if model.loss not in losses:
        raise NoBound(f"its loss is {model.loss!r}: dual points are known for {', '.join(losses)}")
    if model.early_stopping:
        raise NoBound("early_stopping=True holds out rows at random, and these are not known")
    if model.alpha <= 0.0 or model.learning_rate in ("pa1", "pa2"):
        raise NoBound("it minimises no objective with a penalty: its updates are passive-aggressive"
                      if model.alpha > 0.0 else "alpha = 0 leaves no penalty")  # fmt: skip
    free = bool(model.fit_intercept)
    squared = losses[model.loss]
    return squared, {"constant": 0.0, "squared": squared, "free": free, "scale": float(model.alpha)}


def read_sgd_classifier(model: Any, given: Given) -> Reading:
    """SGDClassifier with a hinge: a machine for each class against the rest."""
    X, weight = _rows_of_linear_model(model, given)
    squared, options = _of_sgd(model, _SGD_HINGES)
    codes = given.codes(model.classes_, X.shape[0])
    factors = class_weights(model.class_weight, model.classes_, codes, np.ones(len(codes)))
    W, biases = _weights(model, np.atleast_2d(model.coef_).shape[0])
    machines = linear_models.one_vs_rest(
        X, _names(model.classes_), codes, weight / (model.alpha * len(codes)), factors, W, biases,
        **options,
    )  # fmt: skip
    words = linear_models.in_words("hinge", squared, options["free"], "alpha/2")
    return Reading(type(model).__name__, words.replace("sum_i C_i", "1/n sum_i weight_i"), machines)


def read_sgd_regressor(model: Any, given: Given) -> Reading:
    """SGDRegressor with an epsilon-insensitive loss."""
    X, weight = _rows_of_linear_model(model, given)
    squared, options = _of_sgd(model, _SGD_INSENSITIVE)
    W, biases = _weights(model, 1)
    machines = linear_models.regression(
        X, given.targets(X.shape[0]), float(model.epsilon), weight / (model.alpha * X.shape[0]),
        W[0], float(biases[0]), **options,
    )  # fmt: skip
    words = linear_models.in_words("insensitive", squared, options["free"], "alpha/2")
    return Reading(type(model).__name__, words.replace("sum_i C_i", "1/n sum_i weight_i"), machines)


def refuse(reason: str) -> Callable[[Any, Given], Reading]:
    """A reader of models whose optimum cannot be bounded here."""

    def read(model: Any, given: Given) -> Reading:
        check_is_fitted(model)
        raise NoBound(reason)

    return read


_NU = "its objective has nu in place of C: taut knows no dual point for it"
READERS: dict[str, Callable[[Any, Given], Reading]] = {
    "SVC": read_svc,
    "SVR": read_svr,
    "LinearSVC": read_linear_svc,
    "LinearSVR": read_linear_svr,
    "SGDClassifier": read_sgd_classifier,
    "SGDRegressor": read_sgd_regressor,
    "NuSVC": refuse(_NU),
    "NuSVR": refuse(_NU),
    "OneClassSVM": refuse(_NU),
    "SGDOneClassSVM": refuse(_NU),
    "LogisticRegression": refuse("its loss is logistic: dual points are known for hinges alone"),
}
