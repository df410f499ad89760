"""Measures of label sequences."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from taut.data.arrays import as_offsets
from taut.data.labels import are_right, as_label_sequences, is_nested, share_right
from taut.data.weights import check_sample_weight
from taut.errors import InvalidData


def position_accuracy(
    y: Any, predicted: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None
) -> float:
    """Share of positions whose label is right.

    Parameters
    ----------
    y : list of label sequences, or one label per position
    predicted : list of label sequences, or one label per position
    lengths : array of int, optional
        Lengths of the sequences of stacked labels; without it, they are one sequence.
    sample_weight : array of shape (n_sequences,), optional
        Weight of each position of a sequence.

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from taut.metrics import position_accuracy
    >>> position_accuracy([["a", "b", "b"], ["a"]], [["a", "b", "a"], ["a"]])
    0.75
    """
    return LabelPairs.check(y, predicted, lengths, sample_weight).position_accuracy()


def sequence_accuracy(
    y: Any, predicted: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None
) -> float:
    """Share of sequences whose labels are all right.

    Parameters
    ----------
    y, predicted, lengths
        As for `position_accuracy`.
    sample_weight : array of shape (n_sequences,), optional

    Returns
    -------
    float
        Between 0 and 1.

    Examples
    --------
    >>> from taut.metrics import sequence_accuracy
    >>> sequence_accuracy([["a", "b", "b"], ["a"]], [["a", "b", "a"], ["a"]])
    0.5
    """
    return LabelPairs.check(y, predicted, lengths, sample_weight).sequence_accuracy()


def chunk_f1(
    y: Any, predicted: Any, *, lengths: ArrayLike | None = None, sample_weight: Any = None
) -> float:
    """F1 of the chunks that BIO tags mark, by the rules of the CoNLL-2000 task.

    Tags are "O" outside of chunks, "B-TYPE" where a chunk begins, "I-TYPE" where it goes on; the
    type may be left out. An "I-TYPE" that continues no chunk of its type, since it comes first,
    after "O" or after another type, begins a chunk, in the truth as in predictions. The end of a
    sequence ends a chunk. A chunk is right if the truth has one of the same type, beginning and
    end. F1 is 2 right / (true + predicted) over the chunks of all types and sequences together,
    the harmonic mean of precision and recall; 1 if there are no chunks, true or predicted.

    Parameters
    ----------
    y, predicted, lengths
        As for `position_accuracy`.
    sample_weight : array of shape (n_sequences,), optional
        What each chunk of a sequence counts.

    Returns
    -------
    float
        Between 0 and 1.

    Raises
    ------
    InvalidData
        A label is no such tag.

    Examples
    --------
    >>> from taut.metrics import chunk_f1
    >>> y = [["B-NP", "I-NP", "O", "B-VP"], ["B-NP"]]
    >>> chunk_f1(y, [["B-NP", "I-NP", "O", "O"], ["I-NP"]])
    0.8
    """
    return LabelPairs.check(y, predicted, lengths, sample_weight).chunk_f1()


class LabelPairs(NamedTuple):
    """True and predicted labels of sequences, stacked and checked, with a weight per sequence."""

    truth: np.ndarray
    predicted: np.ndarray
    offsets: np.ndarray
    weight: np.ndarray

    @classmethod
    def check(cls, y: Any, predicted: Any, lengths: Any, sample_weight: Any) -> LabelPairs:
        """From what users give."""
        y = np.asarray(y) if hasattr(y, "__array__") else y
        nested = is_nested(y, len(y) if lengths is None else len(lengths))
        if nested and lengths is None:
            lengths = [len(labels) for labels in y]
        offsets = as_offsets(lengths, sum(map(len, y)) if nested else len(y), "y")
        return cls(
            as_label_sequences(y, offsets),
            as_label_sequences(predicted, offsets, "predicted", "y"),
            offsets,
            check_sample_weight(sample_weight, len(offsets) - 1, unit="sequence"),
        )

    def position_accuracy(self) -> float:
        """The function of this name."""
        weight = np.repeat(self.weight, np.diff(self.offsets))
        return share_right(self.predicted, self.truth, weight)

    def sequence_accuracy(self) -> float:
        """The function of this name."""
        right = are_right(self.predicted, self.truth)
        whole = np.logical_and.reduceat(right, self.offsets[:-1])
        return float(np.average(whole, weights=self.weight))

    def chunk_f1(self) -> float:
        """The function of this name."""
        right = marked = 0.0
        true_tags = _split_tags(self.truth, "y")
        predicted_tags = _split_tags(self.predicted, "predicted")
        for (start, stop), weight in zip(pairwise(self.offsets), self.weight.tolist(), strict=True):
            true, predicted = (
                set(_chunks(tags[start:stop])) for tags in (true_tags, predicted_tags)
            )
            right += weight * len(true & predicted)
            marked += weight * (len(true) + len(predicted))
        return 2.0 * right / marked if marked > 0.0 else 1.0


def _split_tags(labels: np.ndarray, name: str) -> list[tuple[str, str]]:
    """B, I or O and the type of each tag."""
    tags = []
    for t, tag in enumerate(labels.tolist()):
        place, _, kind = tag.partition("-") if isinstance(tag, str) else ("", "", "")
        if place not in ("B", "I") and tag != "O":
            raise InvalidData(
                f"{name} has the label {tag!r} at position {t}: chunks are marked by 'O', "
                "'B-TYPE' and 'I-TYPE'; measure other labels by their accuracy"
            )
        tags.append((place, kind))
    return tags


def _chunks(tags: list[tuple[str, str]]) -> Iterator[tuple[int, int, str]]:
    """Beginning, end and type of each chunk of a sequence."""
    start, inside = 0, None
    for t, (place, kind) in enumerate([*tags, ("O", "")]):
        if inside is not None and (place != "I" or kind != inside):
            yield start, t, inside
            inside = None
        if inside is None and place != "O":
            start, inside = t, kind
