"""Plain-Python structures bound to data."""

from __future__ import annotations

import reprlib
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.binding.abilities import PlainAbilities
from taut.binding.other_labels import (
    CLOSELY,
    CLOSELY_SHARE,
    MOST_DOUBTS,
    Doubt,
    Findings,
    favouring,
    worse,
)
from taut.binding.witness import Witness, audited
from taut.binding.written import WrittenFeatures
from taut.errors import InvalidData, InvalidStructure, InvalidType
from taut.spaces.quadratic import Quadratic
from taut.spaces.regularizer import Prior, Regularizer
from taut.storage.checksum import arrays_in
from taut.storage.stored import LARGEST
from taut.structures._examples import same
from taut.structures.abilities import ability, bounded_argmax, is_users, loss_of
from taut.structures.base import Structure

_LISTED = 64  # blocks whose truths a list of labels is asked for
_PREDICTED = 8  # of which the prediction is asked for


def plain(data: Any) -> Any:
    """Data as it is indexed by number: a frame is by name, and a sparse matrix has no length."""
    if sp.issparse(data):
        rows = sp.csr_array(data)
        return [rows[[i]] for i in range(rows.shape[0])]
    return data.to_numpy() if hasattr(data, "to_numpy") else data


class _Answers(NamedTuple):
    """The largest violations of all blocks at a point, and the sizes of their terms."""

    point: np.ndarray
    values: np.ndarray
    sizes: np.ndarray


class PythonData(WrittenFeatures, PlainAbilities):
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
        if sp.issparse(X) and not getattr(structure, "takes_sparse", False):
            raise InvalidType(
                f"X is a sparse matrix, and {type(structure).__name__} takes examples one by one: "
                "give a list of its rows, or X.toarray()"
            )
        self.X, self.truth = plain(X), plain(y)
        self.n_blocks = len(self.X)
        if self.n_blocks == 0:
            raise InvalidData("X has 0 sample(s), a minimum of 1 is required: give some examples")
        if y is not None and len(y) != self.n_blocks:
            raise InvalidData(
                f"X has {self.n_blocks} examples, y has {len(y)}: give one label to each"
            )
        if isinstance(structure, Structure):
            self.X = structure.examples(self.X, self.truth)
        if y is None:
            return
        self._loss = loss_of(structure)
        self.size = self.reads = self.n_features = self._lay_out()
        self.prior = (regularizer or Regularizer()).check(self.n_features)
        self.quadratic = self._regularised()
        self.watches = self._is_watched()
        self.witness = Witness(structure, self.n_blocks, self.n_features)
        self._answers: deque[_Answers] = deque(maxlen=2)  # of w and of an average of it

    def _is_watched(self) -> bool:
        """Whether answers of oracles are a user's, and held against each other."""
        return is_users(self.structure) or ability(self.structure, "searches")

    def _lay_out(self) -> int:
        """The length of points."""
        return len(self.features(0, self.truth[0]))

    def _regularised(self) -> Quadratic:
        """The regulariser of points."""
        return self.prior.quadratic(self.pad)

    @staticmethod
    def pad(w: np.ndarray) -> np.ndarray:
        """The weights as they are."""
        return w

    unpad = pad

    comes_as = "whole"
    #: Whether points mean the same in another process.
    lasting = True

    def is_point(self, w: np.ndarray) -> bool:
        """Any vector is one."""
        return True

    #: On what a certificate depends that was not tested.
    condition = ""

    def settle(self, w: np.ndarray) -> None:
        """Nothing: a point is its weights."""

    def inexactness(self, w: np.ndarray, weight: np.ndarray) -> float:
        """Nothing: features are those that the user wrote down."""
        return 0.0

    def take(self, which: np.ndarray) -> None:
        """Nothing: examples are bound again."""

    def arrays(self) -> Iterator[np.ndarray]:
        """The features of the truths."""
        for i in range(self.n_blocks):
            yield self.features(i, self.truth[i])

    def watched(self, X: Any, y: Any) -> Iterator[np.ndarray]:
        """What must not change while a fit runs: the arrays that examples and truths consist of."""
        yield from arrays_in(list(self.X))
        yield from arrays_in(list(self.truth))

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
        if not np.abs(features).max(initial=0.0) <= LARGEST:
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
        loss = float(self._loss(self.X[i], self.truth[i], label))
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
            self.witness.see_truth(i, right, self.loss(i, self.truth[i]), self.length(right))
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
        w = self.weights(i, v)
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

    def hinges(self, w: np.ndarray, n_jobs: int = 1, loss_weight: float = 1.0) -> np.ndarray:
        """The largest violation of each block at w, from above where the oracle is not exact.

        Python holds the GIL, and its oracles weigh no losses: the last two have no effect.
        """
        return self._evaluated(w)[0]

    def evaluate(self, v: np.ndarray, weight: np.ndarray, n_jobs: int = 1) -> tuple[float, float]:
        """sum_i C_i hinge_i, and the same of the sizes of the terms of all scores."""
        hinges, sizes = self._evaluated(v)
        return float(weight @ hinges), float(weight @ sizes)

    def _evaluated(self, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The hinges, and the summed sizes of the terms of the scores behind them."""
        values, sizes = np.empty((2, self.n_blocks))
        compared = self.witness.compared(self.n_blocks) & self.watches
        for i in range(self.n_blocks):
            rivals = self.witness.rivals(i) if compared[i] else []
            label, error = self.worst_label(i, w)
            (value, sizes[i]), *others = self.values(i, [label, *rivals], w)
            values[i] = value + error
            self.witness.check_best(i, values[i], sizes[i], 0.0, "the truth")
            for (best, _size), rival in zip(others, rivals, strict=True):
                self.witness.check_best(i, values[i], sizes[i], best, reprlib.repr(rival))
        if self.watches:
            for i in audited(self.n_blocks, self.witness.rng).tolist():
                others = [*self.predict_one(i, w), *self.witness.listed(self.X[i])]
                self._compare(i, w, values[i], sizes[i], others)
        self._answers.append(_Answers(w.copy(), values, sizes.copy()))
        # Where the truth is best, the scores of others were about as large as its own.
        satisfied = sizes == 0.0
        sizes[satisfied] = (
            2.0 * self.length(self.prior.weights(w)) * self.witness.lengths[satisfied]
        )
        return np.maximum(values, 0.0), sizes

    def _compare(
        self, i: int, v: np.ndarray, value: float, size: float, rivals: list[Any]
    ) -> float:
        """Refuse an argmax of block i that is worse than other labels; how far it falls short."""
        most = 0.0
        for (rival, _size), label in zip(self.values(i, rivals, v), rivals, strict=True):
            self.witness.check_best(i, value, size, rival, reprlib.repr(label))
            most = max(most, rival - max(value, 0.0))
        return most

    def closing_audit(self, v: np.ndarray, weight: np.ndarray) -> Findings:
        """Hold the argmax of some blocks at the final v against all labels that there are to try.

        Labels that surely are a block's own refuse an argmax that they beat. Those of other blocks
        refuse it where it returns them at other weights; otherwise they leave a doubt.
        """
        if not self.watches:
            return Findings()
        short: dict[int, float] = {}
        doubt, open_doubts = None, 0
        others, point = self.witness.others(self.truth), self.point(v)
        chosen = audited(self.n_blocks, self.witness.rng, CLOSELY, CLOSELY_SHARE).tolist()
        # A list that lacks truths does not tell what is no label.
        spread = np.linspace(0, self.n_blocks - 1, min(_LISTED, self.n_blocks)).astype(int).tolist()
        complete = all(self.witness.lists(self.X[i], self.truth[i]) for i in {*chosen, *spread})
        for number, i in enumerate(chosen):
            right, (value, size) = self._right(i), self._answer(i, v)
            own = [*self.witness.returned(i), *self.witness.listed(self.X[i])]
            predicted = self.predict_one(i, v) if number < _PREDICTED else []
            short[i] = self._compare(i, v, value, size, [*own, *predicted])
            strangers = self.witness.strangers(self.truth[i], others)
            for label in strangers if open_doubts < MOST_DOUBTS else []:
                rival = self._stranger(i, right, label, point)
                if rival is None or not self.witness.beats(value, size + rival[1], rival[0]):
                    continue
                listed = self.witness.lists(self.X[i], label)
                if complete and not listed:
                    continue
                if listed or self._returns(i, label, v):
                    self.witness.refuse(i, rival[0] - value, reprlib.repr(label))
                doubt = worse(doubt, Doubt.of(self.structure, i, label, rival[0] - value))
                open_doubts += 1
        return Findings.of(doubt, short, weight)

    def _answer(self, i: int, v: np.ndarray) -> tuple[float, float]:
        """The largest violation of block i at v and the size of its terms, if possible as known."""
        for known in self._answers:
            if np.array_equal(known.point, v):
                return known.values[i], known.sizes[i]
        label, error = self.worst_label(i, v)
        value, size = next(iter(self.values(i, [label], v)))
        return value + error, size

    def _stranger(
        self, i: int, right: np.ndarray, label: Any, point: np.ndarray
    ) -> tuple[float, float] | None:
        """The violation of what may be no label of block i, with the size of its terms.

        None where the structure cannot say; `right` are the features of the truth.
        """
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                psi = self.prior.plane(right - self.features(i, label))
                return self.loss(i, label) - psi @ point, np.abs(psi) @ np.abs(point)
        except Exception:
            return None

    def _returns(self, i: int, label: Any, v: np.ndarray) -> bool:
        """Whether the oracle returns a label for block i at weights that favour it."""
        found, _error = self.worst_label(i, v)
        loss = self.loss(i, label) + self.loss(i, found)
        for other in (found, self.truth[i]):
            w = favouring(self.features(i, label), self.features(i, other), loss)
            w = np.maximum(w, self.prior.lower)
            for truth in ((self.truth[i],), ()):
                try:
                    seen = self.as_weights(i, w)
                    answer = bounded_argmax(self.structure, self.X[i], seen, *truth)[0]
                    if same(answer, label):
                        return True
                except Exception:
                    continue
        return False

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
        predicts = ability(self.structure, "scores_predict")
        return [self.structure.argmax(self.X[i], self.weights(i, v))] if predicts else []

    def predict(self, w: np.ndarray, n_jobs: int = 1) -> list[Any]:
        """The highest scoring label of each block."""
        return [self.structure.argmax(x, w) for x in self.X]

    def prediction_losses(self, w: np.ndarray) -> np.ndarray:
        """The loss of each block's prediction against its truth."""
        asked = zip(self.X, self.truth, self.predict(w), strict=True)
        return np.array([self._loss(x, truth, label) for x, truth, label in asked])

    def n_changed(self, other: Any) -> int:
        """Blocks whose truth has other features in other data of the same blocks."""
        pairs = zip(self.arrays(), other.arrays(), strict=True)
        return sum(not np.array_equal(mine, others) for mine, others in pairs)
