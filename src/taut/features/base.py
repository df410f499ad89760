"""What all extractors share: columns that are learned or hashed, and their names."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from taut.checks import check_choice
from taut.errors import InvalidData
from taut.features.columns import Columns, Hashed, Vocabulary, matrix_of
from taut.features.occurrences import Occurrences

_DTYPES = ("float32", "float64")
_MOST_COLUMNS = 2**31 - 1


class Extractor(TransformerMixin, BaseEstimator):
    """Base of what makes features of text, tokens and dictionaries.

    A subclass writes `_occurrences`, and `_prepare` where it learns more than columns.

    Attributes
    ----------
    columns_ : Columns
        The names of the features that are kept, or the number of columns that names are hashed to.
    """

    min_count: int
    hashing: int | None
    dtype: str
    columns_: Columns

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "columns_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        tags.requires_fit = True
        return tags

    def _occurrences(self, X: Any) -> tuple[Occurrences, Any]:
        """Which features the rows of X have, and how `_shaped` shall lay the rows out."""
        raise NotImplementedError

    def _shaped(self, matrix: sp.csr_array, layout: Any) -> Any:
        """The matrix of all rows as `transform` returns it."""
        return matrix

    def _prepare(self, X: Any) -> Any:
        """Learn what must be known before features; X, perhaps in another form."""
        return X

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn which features there are.

        Parameters
        ----------
        X : list
            See the class.
        y : ignored

        Returns
        -------
        self
        """
        self._learn(self._prepare(X))
        return self

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """`fit` and `transform`, with one look at the data."""
        matrix = self._matrix(*self._learn(self._prepare(X)))
        self.columns_.forget_places()  # what is trained next needs the memory
        return matrix

    def transform(self, X: Any) -> Any:
        """The features of X; those that `fit` did not keep are left out.

        Parameters
        ----------
        X : list
            See the class.

        Returns
        -------
        CSR
        """
        check_is_fitted(self)
        return self._matrix(*self._occurrences(X))

    def _learn(self, X: Any) -> tuple[Occurrences, Any]:
        self._check_settings()
        found, layout = self._occurrences(X)
        if self.hashing is None:
            self.columns_ = Vocabulary.learn(found, int(self.min_count))
        else:
            self.columns_ = Hashed(int(self.hashing))
        return found, layout

    def _matrix(self, found: Occurrences, layout: Any) -> Any:
        return self._shaped(matrix_of(found, self.columns_, np.dtype(self.dtype)), layout)

    def _check_settings(self) -> None:
        _check_integer("min_count", self.min_count, 1)
        check_choice("dtype", self.dtype, _DTYPES)
        if self.hashing is None:
            return
        _check_integer("hashing", self.hashing, 1)
        if self.min_count != 1:
            raise InvalidData(
                f"min_count = {self.min_count} is given beside hashing = {self.hashing}: hashed "
                "features have no names to count; give min_count=1 or hashing=None"
            )

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns.

        Parameters
        ----------
        input_features : ignored

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        return np.array(self.columns_.names(), dtype=object)

    @property
    def n_features_out_(self) -> int:
        """How many columns there are."""
        check_is_fitted(self)
        return self.columns_.n_columns


def _check_integer(name: str, value: Any, low: int) -> None:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not low <= value <= _MOST_COLUMNS:
        raise InvalidData(f"{name} = {value!r}: give an integer from {low} to {_MOST_COLUMNS}")
