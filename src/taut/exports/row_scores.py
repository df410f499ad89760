"""Linear models of rows as one matrix of scores, whatever estimator they are of."""

from __future__ import annotations

from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.errors import InvalidData, InvalidType
from taut.estimators import BinarySVM, MulticlassSVM, OnlineSVM, RegressionSVM
from taut.estimators.base import Estimator


class RowScores(NamedTuple):
    """Scores `coef @ x + intercept`, and what they stand for.

    One score is that of the second of two classes against the first, or without classes the
    predicted number itself; of several the largest says the class. `constant` is the value of the
    feature whose weights the intercepts are, or 0.
    """

    coef: np.ndarray
    intercept: np.ndarray
    classes: np.ndarray | None
    constant: float

    @property
    def is_of_two(self) -> bool:
        """Whether one score tells two classes apart."""
        return self.classes is not None and len(self.coef) == 1


def row_scores(model: Any) -> RowScores:
    """The scores of a fitted model.

    Raises
    ------
    InvalidData
        The model has a kernel, or learned a structure.
    InvalidType
        Its predictions are not made of scores of single rows.
    """
    classes = _classes_of(model)
    check_is_fitted(model)
    if "dual_coef_" in vars(model):
        raise InvalidData(
            f"{type(model).__name__} has kernel_ = {model.kernel_!r}: its scores are sums over "
            "support rows, which the format does not have; fit with kernel='linear', or on "
            "features that approximate the kernel, such as sklearn.kernel_approximation.Nystroem"
        )
    constant = model._bias
    if not constant and model.intercept_.any():
        constant = 1.0  # the parameter was changed after the fit
    coef = np.atleast_2d(model.coef_).astype(np.float64)
    return RowScores(coef, model.intercept_.astype(np.float64), classes, constant)


@singledispatch
def _classes_of(model: Any) -> np.ndarray | None:
    """The classes that scores tell apart, or None for a number."""
    if isinstance(model, type):
        raise InvalidType(f"model = {model.__name__} is a class: give a fitted model")
    hint = "" if isinstance(model, Estimator) else "; of a pipeline or a search, give the last step"
    raise InvalidType(
        f"model is of type {type(model).__name__}: scores of single rows are those of fitted "
        f"BinarySVM, MulticlassSVM, RegressionSVM and OnlineSVM{hint}"
    )


@_classes_of.register(BinarySVM)
@_classes_of.register(MulticlassSVM)
def _(model: Any) -> np.ndarray | None:
    check_is_fitted(model)
    return model.classes_


@_classes_of.register
def _(model: OnlineSVM) -> np.ndarray | None:
    check_is_fitted(model)
    if model.structure is not None:
        raise InvalidData(
            f"OnlineSVM has learned {type(model.structure).__name__}, whose labels are not classes "
            "of rows: the format has no place for them"
        )
    return model.classes_


@_classes_of.register
def _(model: RegressionSVM) -> np.ndarray | None:
    return None
