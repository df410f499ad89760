"""Priors as users of estimators give them: in the shape of `coef_`, or a fitted model."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg
from sklearn.exceptions import NotFittedError

from taut.data.arrays import as_numbers
from taut.errors import InvalidData
from taut.spaces.regularizer import Prior, Regularizer


class CoefRegularizer(Regularizer):
    """A regulariser in terms of `coef_`, whose transpose is the first part of w.

    What w has beside it (intercepts, transitions) has the prior mean 0, the precision 1 and no
    bound, unless arrays of the length of w are given. Without a shape, `coef_` is w itself.
    """

    coef_shape: tuple[int, int]

    def __init__(
        self, mean: Any, precision: Any, nonneg: Any, coef_shape: tuple[int, int] | None
    ) -> None:
        super().__init__(mean, precision, nonneg)
        self.given_shape = coef_shape

    def check(self, n: int) -> Prior:
        """The prior of n weights."""
        self.coef_shape = self.given_shape or (1, n)
        return Regularizer(self._mean(n), self._precision(n), self._nonneg(n)).check(n)

    def _mean(self, n: int) -> Any:
        if self.mean is None:
            return None
        model = getattr(self.mean, "estimator", self.mean)  # of a FrozenEstimator
        if not hasattr(model, "_joint_weights"):
            return self._joint("prior_mean", _finite("prior_mean", self.mean), n, 0.0)
        if hasattr(model, "dual_coef_"):
            raise InvalidData(
                "prior_mean is a model with a kernel, whose weights are not written down: give a "
                "linear model"
            )
        try:
            w = model._joint_weights()
        except AttributeError as error:
            raise NotFittedError(
                f"prior_mean = {model!r} is not fitted: fit it first, and freeze it with "
                "sklearn.frozen.FrozenEstimator where models are cloned"
            ) from error
        if len(w) != n:
            raise InvalidData(
                f"prior_mean is a model of {len(w)} weights, this one has {n}: fit both with the "
                "same features, classes and fit_intercept"
            )
        return w

    def _precision(self, n: int) -> Any:
        if self.precision is None:
            return None
        given = _finite("prior_precision", self.precision)
        size = int(np.prod(self.coef_shape))
        if given.shape == (size, size) and size < n and given.shape != self.coef_shape:
            return scipy.linalg.block_diag(given, np.eye(n - size))
        if given.shape == (n, n) and given.shape != self.coef_shape:
            return given
        return self._joint("prior_precision", given, n, 1.0)

    def _nonneg(self, n: int) -> Any:
        mask = np.asarray(self.nonneg)
        if mask.ndim == 0 and mask.dtype == bool and mask:
            mask = np.full(self.coef_shape, mask)
        return self._joint("nonneg", mask, n, False)

    def _joint(self, name: str, array: np.ndarray, n: int, rest: Any) -> np.ndarray:
        """W from an array in the shape of `coef_`; numbers and w itself stay as they are."""
        size = int(np.prod(self.coef_shape))
        if array.ndim == 0 or (array.shape == (n,) and n != size):
            return array
        if array.shape != self.coef_shape and (
            array.size != size or array.ndim != 1 or 1 not in self.coef_shape
        ):
            shapes = f"{self.coef_shape}" + f" or ({n},)" * (n != size)
            raise InvalidData(
                f"{name} has shape {array.shape}: give an array in the shape of coef_, {shapes}, "
                "or one number"
            )
        coef = self._flat(array.reshape(self.coef_shape))
        return np.concatenate([coef, np.full(n - size, rest, dtype=array.dtype)])

    @staticmethod
    def _flat(coef: np.ndarray) -> np.ndarray:
        """The first part of w."""
        return coef.T.ravel()


def _finite(name: str, given: Any) -> np.ndarray:
    """Numbers, all of them finite."""
    numbers = as_numbers(given, name)
    for place in np.argwhere(~np.isfinite(numbers)):
        where = f"[{', '.join(map(str, place))}]" if len(place) else ""
        raise InvalidData(f"{name}{where} = {numbers[tuple(place)]:g}: give finite numbers")
    return numbers


class LabelMajorRegularizer(CoefRegularizer):
    """The same where `coef_` itself, label by label, is the first part of w."""

    @staticmethod
    def _flat(coef: np.ndarray) -> np.ndarray:
        return coef.ravel()


class AttractingRegularizer(LabelMajorRegularizer):
    """The same, with no negative weight after those of `coef_`, whatever else is bounded."""

    def _nonneg(self, n: int) -> Any:
        mask = super()._nonneg(n)
        # What is no mask is refused where masks are checked.
        return mask | (np.arange(n) >= np.prod(self.coef_shape)) if mask.dtype == bool else mask
