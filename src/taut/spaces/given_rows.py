"""The rows of linear features in the form in which the user gave them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.compiled.rows import n_rows
from taut.data.arrays import Matrix
from taut.errors import InvalidData
from taut.spaces.features import Features, RowFeatures


def rows_alone(features: Features) -> RowFeatures:
    """The same features, if rows of the data are all that goes through a kernel."""
    if not isinstance(features, RowFeatures):
        raise InvalidData(
            "a kernel was given for a structure whose features are not rows of the data: write "
            "encode with RowFeatures, or leave the kernel out"
        )
    if features.tail_rows is not None:
        raise InvalidData(
            "a kernel was given for graphs whose edges have features: leave the features of "
            "edges out, or the kernel"
        )
    return features


def given_rows(features: RowFeatures) -> Matrix:
    """All rows, dense or CSR as they were given: users' functions may take one of them alone."""
    rows, width = features.rows, features.n_rows - (features.bias != 0.0)
    if len(rows) == 1:
        return sp.csr_array(rows[0]) if features.sparse else rows[0]
    matrix = sp.csr_array(rows, shape=(n_rows(rows), width))
    return matrix if features.sparse else matrix.toarray()


def stacked(X: Matrix, more: Any) -> Matrix:
    """Rows, and more of them below; sparse if the first ones are."""
    if X.shape[1] != more.shape[1]:
        raise InvalidData(
            f"X has {X.shape[1]} columns, and the rows that training goes on from have "
            f"{more.shape[1]}: give the columns of the first call"
        )
    if sp.issparse(X):
        return sp.csr_array(sp.vstack([X, sp.csr_array(more)], format="csr"), dtype=X.dtype)
    return np.vstack([X, more.toarray() if sp.issparse(more) else more]).astype(X.dtype, copy=False)
