"""What the user gives beside a model: data, checked against what the model knows of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.certification.losses import Losses
from taut.certification.machine import Machine
from taut.certification.report import NoBound
from taut.certification.spaces import KernelSpace
from taut.data.arrays import Matrix, as_matrix, show
from taut.data.labels import as_labels, distinct
from taut.data.source import Source
from taut.data.targets import as_real_targets
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData
from taut.estimators.base import Estimator
from taut.estimators.tables import refuse_beside, refuse_other_columns, spread
from taut.kernels import Function, Kernel, as_kernel, check_definite
from taut.readers.tables import Table, table_of

_SLACK = 1e-6  # by which a coefficient may exceed C, relative to it


class Reading(NamedTuple):
    """What a reader makes of a model: a name for it, the objective in words, and its machines."""

    model: str
    objective: str
    machines: Sequence[Machine]


def of_files(model: Any, X: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """X and what is given beside it, from a table too; of a source, where models need memory."""
    own = isinstance(model, Estimator)
    if isinstance(X, Source) and own:
        refuse_other_columns(model, getattr(X, "feature_names", None), "the source")
    elif isinstance(X, Source):
        X = table_of(X)
    if not isinstance(X, Table):
        return X, given
    if own:
        rows, brought = spread(model, X, list(inspect.signature(type(model).fit).parameters))
    elif X.lengths is not None:
        raise InvalidData(f"{X.name} holds sequences, and the model is one of rows")
    else:
        rows, brought = X.X, {"y": X.y, "sample_weight": X.sample_weight}
    refuse_beside({name: given.get(name) for name in brought})
    return rows, given | brought


@dataclass(frozen=True)
class Given:
    """The arguments of `taut.certify` beside the model."""

    X: Any
    y: Any
    sample_weight: Any = None
    C: float | None = None
    epsilon: float | None = None
    class_weight: dict | str | None = None
    fit_params: dict[str, Any] = field(default_factory=dict)

    def only_data(self, model: str, *, of_taut: bool = False) -> None:
        """Refuse what the model knows itself."""
        extra = {"C": self.C, "epsilon": self.epsilon, "class_weight": self.class_weight}
        names = [name for name, value in extra.items() if value is not None]
        names += [] if of_taut else list(self.fit_params)
        if names:
            raise InvalidData(
                f"{model} got {', '.join(names)}: C, epsilon and class_weight are for models read "
                "from text files and further arguments for taut's own; this model has its own, "
                "leave them out"
            )

    def matrix(self, n_columns: int, n_rows: int | None = None, names: Any = None) -> Matrix:
        """X in float64, of the shape and with the names of columns of the training."""
        own = getattr(self.X, "columns", None)
        if names is not None and own is not None and list(own) != list(names):
            raise InvalidData(
                f"X has the columns {_some(own)}, the model was trained on {_some(names)}: give "
                "them in this order"
            )
        matrix = as_matrix(self.X)
        if matrix.shape[1] != n_columns:
            raise InvalidData(
                f"X has {matrix.shape[1]} columns, the model was trained on {n_columns}: give X as "
                "it was given to the training, with the same preprocessing"
            )
        if n_rows is not None and matrix.shape[0] != n_rows:
            raise InvalidData(
                f"X has {matrix.shape[0]} rows, the model was trained on {n_rows}: give its whole "
                "training data, bounds of other rows are not those of its objective"
            )
        return matrix.astype(np.float64, copy=False)

    def weights(self, n: int) -> np.ndarray:
        """The weights of the rows."""
        return check_sample_weight(self.sample_weight, n)

    def codes(self, classes: np.ndarray, n: int) -> np.ndarray:
        """The number of each row's class among those of the model."""
        values, places = distinct(as_labels(self.y, n))
        known = {label: k for k, label in enumerate(classes.tolist())}
        numbers = np.array([known.get(label, -1) for label in values.tolist()])
        names = ", ".join(map(repr, list(known)[:10])) + ", ..." * (len(known) > 10)
        if (numbers < 0).any():
            k = int(np.argmax(numbers < 0))
            row = int(np.argmax(places == k))
            raise InvalidData(
                f"y[{row}] = {show(values[k])} is no class of the model, which has {names}: give "
                "the labels that it was trained with"
            )
        missing = set(range(len(known))) - set(numbers.tolist())
        if missing:
            raise InvalidData(
                f"y has no row of class {show(classes[min(missing)])}, which the model was trained "
                "with: give its whole training data"
            )
        return numbers[places]

    def targets(self, n: int) -> np.ndarray:
        """The numbers to predict."""
        return as_real_targets(self.y, n)


def _some(names: Any) -> str:
    """The first few of many names."""
    shown = [repr(str(name)) for name in names[:5]]
    return ", ".join(shown) + ", ..." * (len(names) > 5)


def tanh_kernel(gamma: float, coef0: float) -> Callable:
    """tanh(gamma x'z + coef0) of two blocks of rows, which other packages call "sigmoid"."""

    def sigmoid(A: Any, B: Any) -> np.ndarray:
        products = A @ B.T
        dense = products.toarray() if sp.issparse(products) else products
        return np.tanh(gamma * dense + coef0)

    return sigmoid


def kernel_space(
    kernel: Any, gamma: float, degree: float, coef0: float, X: Matrix
) -> tuple[KernelSpace, str]:
    """The rows as the kernel sees them, and on what the bound depends; refuses indefinite ones."""
    if isinstance(kernel, str) and kernel == "sigmoid":
        own: Kernel = Function(tanh_kernel(gamma, coef0))
    else:
        own = as_kernel(kernel, gamma, degree, coef0)
    own = own.resolved(X)
    try:
        own.check_rows(X)
        rows = own.prepared(X, np.float64)
        tested = check_definite(own, rows, np.random.default_rng(0))
    except InvalidData as error:
        raise NoBound(str(error)) from error
    caveat = ""
    if tested < rows.n:
        caveat = (
            f"This holds if the kernel is positive definite, which was tested on {tested} of "
            f"{rows.n} rows."
        )
    return KernelSpace(own, rows), caveat


def check_coefficients(beta: np.ndarray, losses: Losses, rows: np.ndarray, what: str) -> None:
    """Refuse dual coefficients that no training with these weights and labels can have made.

    `rows` are the numbers of the rows in X.
    """
    lower, upper = losses.box()
    scale = np.maximum(upper, -lower)
    beyond = np.maximum(beta - upper, lower - beta) > _SLACK * scale
    if not beyond.any():
        return
    i = int(np.argmax(beyond))
    size = abs(beta[i])
    if size <= scale[i] * (1.0 + _SLACK):
        raise InvalidData(
            f"row {rows[i]} has the dual coefficient {beta[i]:g} in {what}, which has the sign of "
            "another label: give the y that the model was trained with, in the same order"
        )
    raise InvalidData(
        f"row {rows[i]} has a dual coefficient of size {size:g} in {what}, more than its weight "
        f"C_i = {scale[i]:g}: the model was trained with a larger weight; give the sample_weight "
        "of its training (for a text file also its C and class_weight)"
    )
