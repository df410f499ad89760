"""Candidates: a label is one of the rows that a block lists, or none of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from taut.checks import check_number
from taut.compiled.label_rows import Listed
from taut.compiled.rows import as_rows
from taut.data.arrays import as_numbers, offsets_of, ranges, take_runs
from taut.errors import InvalidData
from taut.spaces.features import RowFeatures
from taut.spaces.labels import part
from taut.structures.base import Blocks, CompiledStructure, as_stacked

NONE = -1


class CandidatesData(NamedTuple):
    """What the oracles read: losses of block i from offsets[i] on, that of none the last."""

    losses: np.ndarray
    offsets: np.ndarray
    none: int  # how many labels a block has beside its rows, 0 or 1


class Candidates(CompiledStructure):
    """One of the rows of each block, such as a window of an image or a translation of a text.

    A block is an example with a list of candidates, as many as it has, and each has a row of
    features and a loss. Label z has phi = (x_z, bias). With `none` there is one label more, -1,
    with phi = 0: none of the candidates. Joint features that are rows go through any kernel on
    rows: w is then a sum over candidates.

    Parameters
    ----------
    bias : float, default=0.0
        Value of a constant feature appended to each row; 0 appends none. It matters only with
        `none`: rows all have it.
    none : float, optional
        Allow none of the candidates, and what that costs where one of them is true.

    Examples
    --------
    Windows of two images, three and two of them, with histograms of two words. The second window of
    the first image is the object, and the first of the second:

    >>> import numpy as np
    >>> from taut import StructuredSVM
    >>> from taut.structures import Candidates
    >>> windows = np.array([[3.0, 1.0], [0.0, 4.0], [2.0, 2.0], [1.0, 3.0], [3.0, 0.0]])
    >>> X, losses = (windows, np.array([0, 3, 5])), np.array([0.8, 0.0, 0.5, 0.0, 1.0])
    >>> model = StructuredSVM(Candidates(), C=10.0, kernel="intersection", random_state=0)
    >>> model.fit(X, losses).predict(X)
    array([1, 0], dtype=int32)
    """

    allocates = False
    takes_checked = True

    def __init__(self, bias: float = 0.0, none: float | None = None) -> None:
        check_number("bias", bias)
        if none is not None:
            check_number("none", none)
            if not 0.0 <= none < np.inf:
                raise InvalidData(
                    f"none = {none}: give what choosing none of the candidates costs, a finite "
                    "number >= 0; or None where one of them has to be chosen"
                )
        self.bias = bias
        self.none = none

    def encode(self, X: Any, y: Any = None) -> Blocks:
        """Rows and losses of all candidates.

        X is a stacked matrix of all rows, and the offsets of the blocks: block i has the rows
        offsets[i] to offsets[i + 1]. y has the loss of each row. The truth is the first row of a
        block whose loss is 0; with `none`, a block without one has none for its truth.
        """
        _check_form(X)
        matrix, offsets = as_stacked(X)
        losses = np.zeros(matrix.shape[0]) if y is None else _as_losses(y, matrix.shape[0])
        truth = _truths(losses, offsets)
        if self.none is not None:
            losses = np.insert(losses, offsets[1:], np.where(truth == NONE, 0.0, self.none))
        elif (truth == NONE).any():
            i = int(np.argmax(truth == NONE))
            least = losses[offsets[i] : offsets[i + 1]].min()
            raise InvalidData(
                f"no candidate of block {i} has the loss 0, the least is {least:g}: subtract the "
                "least of each block, or give Candidates a number as none= if none of them may be "
                "true"
            )
        none = int(self.none is not None)
        places = np.column_stack([offsets[:-1], offsets[1:]])
        rows = as_rows(matrix, dense_above=0.2)
        return self._blocks(
            RowFeatures(matrix, rows, bias=self.bias, places=places),
            CandidatesData(losses, offsets + none * np.arange(len(offsets)), none),
            truth,
        )

    def take(self, blocks, which):
        """Blocks, with all their candidates."""
        data = blocks.data
        members, offsets = take_runs(data.offsets, which)
        features = blocks.features.compacted(which, offsets_of(_counts(data)))
        taken = CandidatesData(data.losses[members], offsets, data.none)
        return self._blocks(features, taken, blocks.truth[which])

    def _blocks(self, features: Any, data: CandidatesData, truth: np.ndarray) -> Blocks:
        return Blocks(data, features, np.arange(len(truth) + 1), truth)

    def lengths(self, blocks):
        """|(x, bias)| of the longest candidate."""
        starts = offsets_of(_counts(blocks.data))[:-1]
        return np.sqrt(np.maximum.reduceat(blocks.features.norms, starts))

    def listed(self, blocks):
        """All candidates of each block, and none where it is allowed."""
        data = blocks.data
        sizes = np.diff(data.offsets)
        labels = ranges(np.zeros(len(sizes), dtype=np.int64), sizes).astype(np.int32)
        if data.none:
            labels[data.offsets[1:] - 1] = NONE
        return Listed(labels[:, None], data.offsets, 1)

    def valid_labels(self, blocks, owner, labels):
        """Numbers of candidates that the blocks have."""
        inside = (labels >= 0) & (labels < _counts(blocks.data)[owner])
        return inside | (labels == NONE) if blocks.data.none else inside

    def decode(self, labels, offsets):
        """The number of the candidate of each block, from 0 on; -1 for none."""
        return labels

    @staticmethod
    def argmax(data, i, work, loss_weight, label):
        """The candidate of highest score plus weighted loss."""
        first = data.offsets[i]
        count = data.offsets[i + 1] - first - data.none
        best = NONE
        highest = loss_weight * data.losses[first + count] if data.none else -np.inf
        for z in range(count):
            value = work[z] + loss_weight * data.losses[first + z]
            best = z if value > highest else best
            highest = max(value, highest)
        label[0] = best
        return highest

    @staticmethod
    def loss(data, i, label):
        """The loss of the candidate."""
        if label[0] == NONE:
            return data.losses[data.offsets[i + 1] - 1]
        return data.losses[data.offsets[i] + label[0]]

    @staticmethod
    def parts(data, i, label, each):
        """The row; nothing for none."""
        if label[0] == NONE:
            return 0.0
        return part(each, label[0], 1.0)


def _counts(data: CandidatesData) -> np.ndarray:
    """How many candidates each block has."""
    return np.diff(data.offsets) - data.none


def _check_form(X: Any) -> None:
    """Refuse what is no pair of a matrix and offsets; their numbers are looked at later."""
    if not isinstance(X, tuple | list) or len(X) != 2:
        raise InvalidData(
            f"X is of type {type(X).__name__}: give a pair, a matrix with the rows of all "
            "candidates and the offsets of the blocks"
        )
    offsets = np.asarray(X[1])
    if offsets.ndim != 1 or len(offsets) < 2 or offsets.dtype.kind not in "iu":
        raise InvalidData(
            f"offsets have shape {offsets.shape} and dtype {offsets.dtype}: give one integer more "
            "than there are blocks, where each block begins and the number of rows"
        )


def _as_losses(y: Any, n_rows: int) -> np.ndarray:
    """The loss of each candidate."""
    losses = as_numbers(y, "y")
    if losses.shape != (n_rows,):
        raise InvalidData(
            f"y has shape {losses.shape}, and there are {n_rows} candidates: give the loss of each"
        )
    wrong = ~((losses >= 0.0) & (losses < np.inf))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidData(
            f"y[{row}] = {losses[row]} is no loss: give finite numbers >= 0, and 0 to the truth"
        )
    return losses.astype(np.float64)


def _truths(losses: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The first candidate of each block whose loss is 0; -1 where there is none."""
    right = np.append(np.flatnonzero(losses == 0.0), len(losses))
    first = right[np.searchsorted(right, offsets[:-1])]
    return np.where(first < offsets[1:], first - offsets[:-1], NONE).astype(np.int32)
