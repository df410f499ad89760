"""Estimators that make the features of their data themselves, and what their weights are called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from taut.data.arrays import Matrix
from taut.errors import InvalidData, InvalidType
from taut.estimators.base import estimator
from taut.estimators.online import OnlineEstimator

Weighted = list[tuple[str, float]]


@estimator
class Extracting(OnlineEstimator):
    """Estimators with a parameter `features`, which makes rows of numbers of what X is."""

    features: Any = None

    classes_: ClassVar[Any]
    features_: ClassVar[Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.features is not None:
            tags.input_tags.two_d_array = tags.input_tags.sparse = False
        return tags

    def _extract_to_fit(self, X: Any) -> tuple[Any, dict[str, Any]]:
        """The features of training data, and what is fitted by them."""
        if self.features is None:
            return X, {}
        if isinstance(self.features, type) or not hasattr(self.features, "fit_transform"):
            raise InvalidType(
                f"features = {self.features!r}: give an extractor such as "
                "taut.features.SequenceFeatures(), or None where X has features already"
            )
        extractor = clone(self.features)
        return extractor.fit_transform(X), {"features_": extractor}

    def _extracted(self, X: Any) -> Any:
        """The features of X, as the fit made them."""
        return self.features_.transform(X) if hasattr(self, "features_") else X

    def _matrix(self, X: Any, **how: Any) -> Matrix:
        check_is_fitted(self)
        return super()._matrix(self._extracted(X), **how)

    def _needs_parts(self) -> None:
        super()._needs_parts()
        if self.features is not None:
            raise InvalidData(
                f"features = {self.features!r} looks at all data before training, and these come "
                "part by part: give them in memory, or fit the extractor, transform each part, and "
                "leave features out"
            )

    def _column_names(self) -> Any:
        if hasattr(self, "features_"):
            return self.features_.get_feature_names_out()
        return super()._column_names()

    def _feature_names(self) -> Callable[[int], str]:
        """The name of each column."""
        names = self._column_names()
        return names.__getitem__ if names is not None else lambda column: f"x{column}"

    def _label_weights(self) -> np.ndarray:
        """The weights that speak for each class, (n_classes, n_features)."""
        return np.vstack([-self.coef_, self.coef_]) if len(self.coef_) == 1 else self.coef_

    def top_features(self, n: int = 10, *, against: bool = False) -> dict[Any, Weighted]:
        """The features that speak most for each label.

        Parameters
        ----------
        n : int, default=10
            How many for each label.
        against : bool, default=False
            Those that speak most against it instead.

        Returns
        -------
        dict
            Of each label, pairs of a feature's name and its weight, the largest first. Names are
            those of `features`, of the columns of the data frame that was fitted, or x0, x1, ...
            Features whose weight is zero or of the other sign are left out.

        Examples
        --------
        >>> from taut import MulticlassSVM
        >>> from taut.features import TextFeatures
        >>> X, y = ["good film", "very good", "bad film", "very bad"], ["+", "+", "-", "-"]
        >>> model = MulticlassSVM(features=TextFeatures(), random_state=0).fit(X, y)
        >>> [name for name, weight in model.top_features(1)["+"]]
        ['good']
        """
        check_is_fitted(self)
        count, sign = _as_count(n), -1.0 if against else 1.0
        name = self._feature_names()
        return {
            label: [(str(name(j)), float(row[j])) for j in _largest(sign * row, count)]
            for label, row in zip(self.classes_.tolist(), self._label_weights(), strict=True)
        }


def top_pairs(
    classes: np.ndarray, weights: np.ndarray, n: int, against: bool
) -> list[tuple[Any, Any, float]]:
    """The n pairs of classes with the largest weights, or with the smallest."""
    labels = classes.tolist()
    places = _largest((-1.0 if against else 1.0) * weights.ravel(), _as_count(n))
    pairs = (divmod(place, len(labels)) for place in places)
    return [(labels[i], labels[j], float(weights[i, j])) for i, j in pairs]


def _as_count(n: Any) -> int:
    if isinstance(n, bool) or not isinstance(n, Integral) or n < 1:
        raise InvalidData(f"n = {n!r}: give the number of features to name, an integer >= 1")
    return int(n)


def _largest(values: np.ndarray, n: int) -> Iterable[int]:
    """Places of the n largest positive values, the largest first."""
    kept = min(n, len(values))
    places = np.argpartition(-values, kept - 1)[:kept]
    places = places[np.lexsort((places, -values[places]))]
    return [int(place) for place in places if values[place] > 0.0]
