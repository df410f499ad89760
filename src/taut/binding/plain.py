"""Plain-Python structures bound to data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from taut.binding.witness import Witness, audited
from taut.data.arrays import LARGEST
from taut.errors import InvalidData, InvalidStructure
from taut.regularizer import Prior, Regularizer
from taut.structures.base import Structure, bounded_argmax


def plain(data: Any) -> Any:
    """Data as it is indexed by number: a data frame is by name."""
    return data.to_numpy() if hasattr(data, "to_numpy") else data


class PythonData:
    """A plain-Python structure bound to data; its weights have no padding."""

    dtype = np.float64

    def __init__(
        self,
        structure: Structure,
        X: Any,
        y: Any = None,
        regularizer: Regularizer | Prior | None = None,
    ) -> None:
        self.structure = structure
        self.X, self.truth = plain(X), plain(y)
        self.n_blocks = len(X)
        if self.n_blocks == 0:
            raise InvalidData("X has 0 sample(s), a minimum of 1 is required: give some examples")
        if y is not None and len(y) != len(X):
            raise InvalidData(f"X has {len(X)} examples, y has {len(y)}: give one label to each")
        if isinstance(structure, Structure):
            self.X = structure.examples(self.X, self.truth)
        if y is None:
            return
        self.n_features = self.size = self.reads = len(self.features(0, self.truth[0]))
        self.prior = (regularizer or Regularizer()).check(self.n_features)
        self.witness = Witness(structure, self.n_blocks, self.n_features)

    @staticmethod
    def pad(w: np.ndarray) -> np.ndarray:
        """The weights as they are."""
        return w

    unpad = pad

    def arrays(self) -> Iterator[np.ndarray]:
        """The features of the truths."""
        for i in range(self.n_blocks):
            yield self.features(i, self.truth[i])

    def content(self) -> Iterator[Any]:
        """The examples, their truths and the features of these, for a digest."""
        for i, features in enumerate(self.arrays()):
            yield from (self.X[i], self.truth[i], features)

    def features(self, i: int, label: Any) -> np.ndarray:
        """phi(x_i, label), checked."""
        # A copy: a structure may fill and return one array in all calls.
        features = np.array(self.structure.features(self.X[i], label), dtype=np.float64)
        if features.ndim != 1:
            raise InvalidData(
                f"{type(self.structure).__name__}.features of example {i} has shape "
                f"{features.shape}: return a 1-D array"
            )
        if len(features) != getattr(self, "n_features", len(features)):
            raise InvalidData(
                f"{type(self.structure).__name__}.features of example {i} has {len(features)} "
                f"values for label {label!r}, {self.n_features} for the truth of example 0: return "
                "arrays of one length"
            )
        if not (np.abs(features) <= LARGEST).all():
            raise InvalidData(
                f"{type(self.structure).__name__}.features of example {i} contains NaN, infinity "
                f"or numbers beyond {LARGEST:g}: check the example, and what features makes of it"
            )
        return features

    def plane(self, i: int, label: Any) -> tuple[np.ndarray, float]:
        """psi, in the scaled space, and loss of a label of block i."""
        return next(self.planes(i, [label]))

    def planes(self, i: int, labels: Iterable[Any]) -> Iterator[tuple[np.ndarray, float]]:
        """The same of each label."""
        for psi, loss in self.differences(i, labels):
            yield self.prior.plane(psi), loss

    def differences(self, i: int, labels: Iterable[Any]) -> Iterator[tuple[np.ndarray, float]]:
        """psi = phi(truth) - phi(label) as it is, and loss of each label of block i."""
        right = self._right(i)
        for label in labels:
            loss = self.loss(i, label)
            self.witness.see_label(i, label, loss)
            yield right - self.features(i, label), loss

    def loss(self, i: int, label: Any) -> float:
        """The loss of a label of block i, checked."""
        loss = float(self.structure.loss(self.truth[i], label))
        if not 0.0 <= loss <= LARGEST:
            raise InvalidStructure(
                f"{type(self.structure).__name__}.loss of example {i} is {loss}: losses are >= 0, "
                f"and at most {LARGEST:g}"
            )
        return loss

    def _right(self, i: int) -> np.ndarray:
        """The features of the truth of block i."""
        right = self.features(i, self.truth[i])
        if self.witness.is_new(i):
            self.witness.see_truth(i, right, self.loss(i, self.truth[i]))
        else:
            self.witness.see_truth_again(i, right)
        return right

    def worst(self, i: int, v: np.ndarray) -> tuple[np.ndarray, float, float]:
        """psi and loss of the label that the loss-augmented oracle finds, and its error.

        The error is how far the largest violation may at most lie above that of the label.
        """
        label, error = self.worst_label(i, v)
        return *self.plane(i, label), error

    def worst_label(self, i: int, v: np.ndarray) -> tuple[Any, float]:
        """The label that the loss-augmented oracle finds for block i, and its error."""
        w = self.prior.weights(v)
        label, error = bounded_argmax(self.structure, self.X[i], w, self.truth[i])
        return label, self.checked(i, error)

    def checked(self, i: int, error: float) -> float:
        """The error of an oracle on block i, if it is one."""
        if not 0.0 <= error < np.inf:
            raise InvalidData(
                f"{type(self.structure).__name__}.bounded_argmax of example {i} returns the error "
                f"{error}: errors are >= 0 and finite"
            )
        return error

    def point(self, v: np.ndarray) -> np.ndarray:
        """Where planes are to be evaluated: v within its bounds."""
        return v if self.prior.trivial else np.maximum(v, self.prior.lower())

    def hinges(self, w: np.ndarray, n_jobs: int = 1, loss_weight: float = 1.0) -> np.ndarray:
        """The largest violation of each block at w, from above where the oracle is not exact.

        Python holds the GIL, and its oracles weigh no losses: the last two have no effect.
        """
        return self._evaluated(w)[0]

    def evaluate(
        self, v: np.ndarray, weight: np.ndarray, n_jobs: int = 1, share: float = 0.0
    ) -> tuple[float, float]:
        """sum_i C_i hinge_i, and the same of the sizes of the terms of the scores behind hinges."""
        hinges, sizes = self._evaluated(v)
        return float(weight @ hinges), float(weight @ sizes)

    def _evaluated(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The hinges, and the summed sizes of the terms of the scores behind them."""
        point = self.point(w)
        values, sizes = np.empty((2, self.n_blocks))
        for i in range(self.n_blocks):
            rivals = self.witness.rivals(i)
            psi, loss, error = self.worst(i, w)
            values[i], sizes[i] = loss - psi @ point + error, np.abs(psi) @ np.abs(point)
            self._compare(i, point, values[i], sizes[i], rivals)
        for i in audited(self.n_blocks, self.witness.rng).tolist():
            others = [*self.predict_one(i, w), *self.witness.listed(self.X[i])]
            self._compare(i, point, values[i], sizes[i], others)
        # Where the truth is best, the scores of others were about as large as its own.
        satisfied = sizes == 0.0
        norm = np.linalg.norm(self.prior.weights(w))
        sizes[satisfied] = 2.0 * norm * self.witness.lengths[satisfied]
        return np.maximum(values, 0.0), sizes

    def _compare(
        self, i: int, point: np.ndarray, value: float, size: float, rivals: list[Any]
    ) -> None:
        """Refuse an argmax of block i that is worse than other labels."""
        for psi, loss in self.planes(i, rivals):
            self.witness.check_best(i, value, size, loss - psi @ point)

    def add_worst(
        self,
        w: np.ndarray,
        weight: np.ndarray,
        n_jobs: int,
        first: int,
        last: int,
        psi: np.ndarray,
        sums: np.ndarray,
    ) -> None:
        """Add the planes of highest violation at w of blocks first..last, times their weights.

        psi gets the sum of C_i psi_i, sums[0] that of C_i loss_i, sums[1] that of C_i hinge_i, from
        above where the oracle is not exact; blocks without violation add nothing.
        """
        point = self.point(w)
        for i in (first + np.flatnonzero(weight[first:last])).tolist():
            own, loss, error = self.worst(i, w)
            value = loss - own @ point
            sums[1] += weight[i] * max(value + error, 0.0)
            if value > 0.0:
                psi += weight[i] * own
                sums[0] += weight[i] * loss

    def remember(self, memory: dict[int, Any], number: int) -> None:
        """Go on with the memory of a chunk of this number, if there is any: what was answered."""
        self.witness = memory.setdefault(number, self.witness)

    def predict_one(self, i: int, v: np.ndarray) -> list[Any]:
        """The highest scoring label of block i, where that is what a structure predicts."""
        predicts = getattr(self.structure, "scores_predict", True)
        return [self.structure.argmax(self.X[i], self.prior.weights(v))] if predicts else []

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> list[Any]:
        """The highest scoring label of each block."""
        return [self.structure.argmax(x, w) for x in self.X]

    def prediction_losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each block's prediction against its truth."""
        pairs = zip(self.truth, self.predict(w), strict=True)
        return np.array([self.structure.loss(truth, label) for truth, label in pairs])

    def n_changed(self, other: Any) -> int:
        """Blocks whose truth has other features in other data of the same blocks."""
        pairs = zip(self.arrays(), other.arrays(), strict=True)
        return sum(not np.array_equal(mine, others) for mine, others in pairs)
