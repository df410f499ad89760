"""The two forms of a model: weights of features, or coefficients of training rows in a kernel."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot

from taut.binding import bind
from taut.data.arrays import Matrix
from taut.errors import InvalidData
from taut.kernels import as_kernel
from taut.spaces.expansion import KernelExpansion, KernelPoint
from taut.spaces.features import Features
from taut.spaces.kernel import through_kernel


class Form(ABC):
    """What of an estimator depends on the form of its weights."""

    @abstractmethod
    def space(self, model: Any, structure: Any) -> Callable[[Features], Features] | None:
        """What turns linear features into those that are trained on."""

    @abstractmethod
    def regularizer(self, model: Any, coef_shape: tuple[int, int] | None) -> Any:
        """The regulariser that the parameters ask for."""

    @abstractmethod
    def attributes(
        self, model: Any, w: np.ndarray, coef_shape: tuple[int, int] | None, problem: Any
    ) -> dict[str, Any]:
        """The fitted attributes that a point of a problem consists of."""

    @abstractmethod
    def point(self, model: Any) -> np.ndarray:
        """The inverse of `attributes`."""

    @abstractmethod
    def mixed(self, model: Any, other: Any, share: float) -> dict[str, Any]:
        """The fitted attributes of the point between those of two models of the same data."""

    @abstractmethod
    def scores(self, model: Any, X: Any) -> np.ndarray:
        """Scores of rows that are not checked yet, one for each column."""

    @abstractmethod
    def row_scores(self, model: Any, matrix: Matrix) -> np.ndarray:
        """The same of checked rows."""

    @abstractmethod
    def bound(self, model: Any, structure: Any, X: Any, y: Any = None) -> tuple[Any, np.ndarray]:
        """New data bound to a structure, and the weights to predict them with."""


class LinearForm(Form):
    """`coef_`, and what else w consists of."""

    def space(self, model, structure):
        """Features as they are."""

    def regularizer(self, model, coef_shape):
        """Priors and signs."""
        return model._regularizer(coef_shape)

    def attributes(self, model, w, coef_shape, problem):
        """As the estimator lays them out."""
        return model._attributes(w, coef_shape)

    def point(self, model):
        """W itself."""
        return model._joint_weights()

    def mixed(self, model, other, share):
        """Of the mixed weights."""
        w = (1.0 - share) * self.point(model) + share * self.point(other)
        return model._attributes(w, model._coef_shape())

    def scores(self, model, X):
        """NaN and infinity in X show in the scores, which are far fewer."""
        scores = self.row_scores(model, model._matrix(X, finite=False))
        if not np.isfinite(scores).all():
            model._matrix(X)
        return scores

    def row_scores(self, model, matrix):
        """<coef, x>, and the intercepts where there are any."""
        with np.errstate(invalid="ignore", over="ignore"):
            coef = model.coef_.T.astype(matrix.dtype, copy=False)
            scores = safe_sparse_dot(matrix, coef, dense_output=True)
            scores += model._intercepts().astype(matrix.dtype, copy=False)
        return scores

    def bound(self, model, structure, X, y=None):
        """With the weights of the labels at positions."""
        return bind(structure, X, y), model._position_weights()


class KernelForm(Form):
    """`dual_coef_` of the rows `support_vectors_`, `intercept_`, and the tail as it is."""

    def space(self, model, structure):
        """Through the kernel that the parameters mean, in working sets where that is possible."""
        kernel = as_kernel(model.kernel, model.gamma, model.degree, model.coef0)
        model._check_kernel(kernel)
        in_sets = model._works_on_rows() and getattr(structure, "can_take", False)
        whole: int | str = 0 if in_sets else "cache"
        return through_kernel(kernel, cache=model.cache, whole=whole, n_jobs=model._threads())

    def regularizer(self, model, coef_shape):
        """None: there are no weights to regularise one by one."""
        given = [name for name in ("prior_mean", "prior_precision") if _is_given(model, name)]
        if np.any(model.nonneg):
            given.append("nonneg")
        if given:
            raise InvalidData(
                f"{given[0]} is about single weights, which a kernel does not have: leave it out, "
                "or use kernel='linear'"
            )

    def attributes(self, model, w, coef_shape, problem):
        """What is not zero."""
        features = problem.data.blocks.features
        point = KernelPoint.of(features, w, model._row_classes(problem))
        return self.fitted(model, features.kernel, point, features.n_rows)

    def fitted(self, model: Any, kernel: Any, point: KernelPoint, n_rows: int) -> dict[str, Any]:
        """The fitted attributes of a point."""
        coefficients = np.ascontiguousarray(point.coefficients.T)
        fitted = {
            "kernel_": kernel,
            "support_": point.support,
            "dual_coef_": coefficients,
            "intercept_": point.intercept,
            "n_rows_": int(n_rows),
        }
        if point.vectors is not None:
            fitted["support_vectors_"] = point.vectors
        if point.classes is not None:
            fitted["support_classes_"] = point.classes
        return fitted | model._tail_attributes(point.tail, len(coefficients))

    def support_point(self, model: Any) -> KernelPoint:
        """The point that the fitted attributes are."""
        return KernelPoint(
            model.support_, getattr(model, "support_vectors_", None), model.dual_coef_.T,
            model.intercept_, model._tail(), getattr(model, "support_classes_", None),
        )  # fmt: skip

    def point(self, model):
        """The coefficients of all training rows."""
        return self.support_point(model).spread(model.n_rows_)

    def mixed(self, model, other, share):
        """Of all rows that have coefficients in either model."""
        point = self.support_point(model).mixed(self.support_point(other), share)
        return self.fitted(model, model.kernel_, point, model.n_rows_)

    def expansion(self, model: Any) -> KernelExpansion:
        """The fitted attributes as what scores rows; rows are prepared once for each fit.

        Users may move the intercept, and change numbers in place: nothing of either is copied.
        """
        attributes = model.dual_coef_, model.intercept_
        *known, expansion = vars(model).get("_expansion", (None, None, None))
        if not all(map(operator.is_, attributes, known)):
            expansion = KernelExpansion(model.kernel_, self.support_point(model))
            model._expansion = *attributes, expansion
        return expansion

    def scores(self, model, X):
        """Of checked rows: kernels may hide infinity."""
        return self.row_scores(model, model._matrix(X))

    def row_scores(self, model, matrix):
        """By the expansion."""
        return self.expansion(model).scores(matrix, model._threads())

    def bound(self, model, structure, X, y=None):
        """With the potentials of the rows."""
        expansion = model._position_scores(self.expansion(model))
        space = expansion.scored(model._threads())
        return bind(structure, X, y, space=space), expansion.point.tail


LINEAR, KERNEL = LinearForm(), KernelForm()


def _is_given(model: Any, name: str) -> bool:
    return getattr(model, name) is not None


class _NoWeights:
    """`coef_` where nothing is fitted, or where w is not written down."""

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is not None and hasattr(model, "dual_coef_"):
            raise AttributeError(
                f"{owner.__name__} with kernel={model.kernel!r} has no coef_: its features are not "
                "written down; see dual_coef_ and support_vectors_"
            )
        raise AttributeError(f"{owner.__name__} has no coef_ before it is fitted")


class _LinearOnly:
    """A method that models with a kernel do not have, and why."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is None:
            return self.method
        if form_of(model.kernel) is KERNEL:
            raise AttributeError(
                f"{owner.__name__} with kernel={model.kernel!r} has no {self.method.__name__}: a "
                "kernel compares all rows with each other; call fit with all of them, or use "
                "kernel='linear'"
            )
        return self.method.__get__(model, owner)


def linear_only(method: Callable[..., Any]) -> Any:
    """Let models with a kernel not have a method."""
    return _LinearOnly(method)


def form_of(kernel: Any) -> Form:
    """The form that a parameter asks for: "linear" by name is that of weights."""
    return LINEAR if kernel is None or (isinstance(kernel, str) and kernel == "linear") else KERNEL


@dataclass(kw_only=True, eq=False, repr=False)
class HasKernel:
    """The parameters of kernels, and what models with one have."""

    kernel: Any = "linear"
    gamma: float | str = "scale"
    degree: float = 3
    coef0: float = 0.0
    cache: int | str = "500MB"

    coef_ = _NoWeights()

    @property
    def _form(self) -> Form:
        """That of the fitted attributes."""
        return KERNEL if "dual_coef_" in vars(self) else LINEAR

    @property
    def n_support_(self) -> np.ndarray:
        """How many training rows have coefficients; of classifiers, for each class."""
        if self._form is LINEAR:
            raise AttributeError(
                f"{type(self).__name__} has no n_support_: no kernel was fitted, see coef_"
            )
        fitted = vars(self)
        if "support_classes_" not in fitted:
            return np.array([len(fitted["support_"])])
        return np.bincount(fitted["support_classes_"], minlength=len(fitted["classes_"]))

    def _row_classes(self, problem: Any) -> np.ndarray | None:
        """The class of each row of a problem, where rows have one."""
        return None

    def _check_kernel(self, kernel: Any) -> None:
        """Refuse a kernel together with parameters that are about weights."""

    def _tail_attributes(self, tail: np.ndarray, columns: int) -> dict[str, Any]:
        """The fitted attributes that are the weights which all blocks share."""
        return {}

    def _tail(self) -> np.ndarray:
        """The inverse of `_tail_attributes`."""
        return np.empty(0)

    def _position_scores(self, expansion: KernelExpansion) -> KernelExpansion:
        """What scores labels at positions, where it is not what scores the columns."""
        return expansion

    def _needs_parts(self) -> None:
        """Refuse data that come part by part."""
        if form_of(self.kernel) is KERNEL:
            raise InvalidData(
                f"kernel = {self.kernel!r} compares all rows with each other, and these data come "
                "part by part: give them in memory, or use kernel='linear'"
            )
