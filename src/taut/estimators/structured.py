"""Any structure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import field, replace
from itertools import chain
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taut.binding import Data
from taut.checks import check_flag
from taut.data.chunks import Chunk
from taut.data.source import Source
from taut.errors import InvalidData, InvalidType
from taut.estimators.base import estimator
from taut.estimators.online import Given, OnlineEstimator, Plan, takes_sources
from taut.estimators.tables import refuse_beside, takes_tables
from taut.streamed import examples_for, labels_for
from taut.structures.base import CompiledStructure


@estimator
class HasStructure:
    """The structure, as the first of the parameters, and whether to test it."""

    structure: Any = field(kw_only=False)
    check: bool = True


@estimator
class StructuredSVM(OnlineEstimator, HasStructure):
    """A structural SVM with a structure of your own.

    Minimises P(w) = 1/2 |w|^2 + C sum_i weight_i max_y [loss(y_i, y) - <w, psi_i(y)>].

    Parameters
    ----------
    structure : Structure or CompiledStructure
        What a label is: joint features, loss, and loss-augmented argmax.
    {training}
    check : bool, default=True
        Test the laws of a structure of your own on a few examples before training, with some tens
        of calls. `taut.check_structure` is the thorough test.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        The joint weights w.
    tail_ : ndarray
        With a kernel: the weights that all blocks share, such as those of pairs of labels.
    {fitted}

    Examples
    --------
    See `taut.Structure` for a structure in plain Python.

    >>> import numpy as np
    >>> from taut import StructuredSVM
    >>> from taut.structures import Multiclass
    >>> X = 2.0 * np.eye(3) - 1.0
    >>> model = StructuredSVM(Multiclass(3), C=1.0, random_state=0)
    >>> model = model.fit(X, np.array([0, 1, 2]))
    >>> model.predict(X)
    array([0, 1, 2], dtype=int32)
    """

    _parts_of = "examples"

    @takes_tables
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit examples X with labels y, in the form that the structure takes.

        A plain-Python structure takes sequences of examples and labels. X may be a source, such as
        `taut.data.Stream(parts, kind="examples")`, which has labels of its own.
        """
        if isinstance(X, Source):
            return self._fit_source(X, y=y, sample_weight=sample_weight)
        self._check(X, y)
        return self._keep(self._train(self.structure, X, y, sample_weight, None, {}))

    def _options(self) -> dict[str, Any]:
        check_flag("check", self.check)
        return super()._options() | {"check": self.check}

    def _plan(self, source: Source) -> Plan:
        _check_structure(self.structure)
        return Plan(self.structure, lambda chunk: replace(chunk, y=source.labels(chunk)), None, {})

    def _attributes(self, w: np.ndarray, coef_shape: Any) -> dict[str, np.ndarray]:
        return {"coef_": w}

    def _check(self, X: Any, y: Any) -> None:
        """Refuse what cannot be a structure, no examples, or no labels."""
        _check_structure(self.structure)
        _check_listed("X", X)
        self._need(y)
        _check_listed("y", y)

    @takes_sources
    def predict(self, X: Any) -> Any:
        """The label of highest score of each example."""
        data, w = self._bound(X)
        return data.predict(w, self._threads())

    @takes_tables
    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean loss of the predictions: higher is better.

        A source has labels and weights of its own.
        """
        if not isinstance(X, Source):
            return -float(np.mean(self._losses(X, y)))
        refuse_beside({"y": y})
        parts = [
            (self._losses(given.X, given.y), given.weight) for given in self._labelled_chunks(X)
        ]
        losses, weight = (np.concatenate(values) for values in zip(*parts, strict=True))
        return -float(np.average(losses, weights=weight))

    def _losses(self, X: Any, y: Any) -> np.ndarray:
        """The losses of the predictions for data in memory."""
        data, w = self._bound(X, y)
        return data.prediction_losses(w)

    def _given(self, chunk: Chunk, labels: Any) -> Given:
        weight = chunk.sample_weight
        weight = np.ones(chunk.n_blocks) if weight is None else weight
        labels = labels_for(self.structure, chunk, labels)
        return Given(examples_for(self.structure, chunk), labels, weight, {})

    def _joined(self, parts: Sequence[tuple[Given, Any]]) -> Any:
        answers = [values for _, values in parts]
        if all(isinstance(values, np.ndarray) for values in answers):
            return np.concatenate(answers)
        return list(chain.from_iterable(answers))

    def _joint_weights(self) -> np.ndarray:
        """W of the fitted attributes."""
        return self.coef_

    _position_weights = _joint_weights

    def _tail_attributes(self, tail: np.ndarray, columns: int) -> dict[str, np.ndarray]:
        return {"tail_": tail}

    def _tail(self) -> np.ndarray:
        return self.tail_

    def _bound(self, X: Any, y: Any = None) -> tuple[Data, np.ndarray]:
        """The structure and data of the length of the weights, and these."""
        check_is_fitted(self)
        _check_listed("X", X)
        data, w = self._form.bound(self, self.structure, X, y)
        n_features = getattr(data, "n_features", len(w))
        if n_features != len(w):
            raise InvalidData(
                f"X has {n_features} joint features, but {type(self).__name__} is expecting "
                f"{len(w)}: give the features that fit saw"
            )
        return data, w


def _check_listed(name: str, values: Any) -> None:
    """Refuse what does not hold examples in an order; what they are is the structure's business."""
    if not hasattr(values, "__len__") or isinstance(values, Mapping | Set):
        raise InvalidType(
            f"{name} is of type {type(values).__name__}: give a list of examples, or what else the "
            "structure takes; data that come part by part are a taut.data.Stream"
        )


def _check_structure(structure: Any) -> None:
    """Refuse what cannot be one; whether it keeps the laws is for `taut.check_structure` to say."""
    if isinstance(structure, type):
        raise InvalidData(
            f"structure = {structure.__name__} is a class: give an object, "
            f"{structure.__name__}(...)"
        )
    if isinstance(structure, CompiledStructure):
        return  # which refuses by itself to have no oracles, and may build them
    kind = "encode" if hasattr(structure, "encode") else "features"
    missing = [name for name in (kind, "loss", "argmax") if not hasattr(structure, name)]
    if missing:
        raise InvalidData(
            f"structure = {structure!r} has no {' and no '.join(missing)}: subclass taut.Structure"
        )
