"""Training examples whose labels are most likely wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from taut.explanations.classes import TrainedClasses
from taut.explanations.sequences import TrainedSequences
from taut.explanations.span import falls

_SHOWN = 5  # examples or positions, in text


class SuspectPositions(NamedTuple):
    """Positions of sequences, the most suspect first.

    Attributes
    ----------
    example, position : ndarray of int64
        Which sequence, and where in it.
    margin : ndarray of float64
        By how much the best labels with the given one at the position beat those without it.
    given, answer : ndarray
        The given label, and the best other one.
    """

    example: np.ndarray
    position: np.ndarray
    margin: np.ndarray
    given: np.ndarray
    answer: np.ndarray


@dataclass(frozen=True, repr=False)
class Suspects:
    """All training examples, the one whose label is most likely wrong first.

    Attributes
    ----------
    examples : ndarray of int64
        Numbers of training examples.
    margin : ndarray of float64
        By how much the given label beats the best other one; of rows, as far as can be told of a
        model that was trained without the row. Examples are in this order.
    slack : ndarray of float64
        Their hinges at w.
    influence : ndarray of float64
        The shares of C_i that their dual variables have in use.
    given, answer : ndarray, or list of ndarray
        The given label, and the one that the model would give by these margins.
    positions : SuspectPositions or None
        Of sequences, the same of each position.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from taut import MulticlassSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2
    >>> suspects = MulticlassSVM(random_state=0).fit(X, y).suspects(X, y)
    >>> print(suspects.examples[0], suspects.given[0], suspects.answer[0])
    7 2 0
    """

    examples: np.ndarray
    margin: np.ndarray
    slack: np.ndarray
    influence: np.ndarray
    given: np.ndarray | list[np.ndarray]
    answer: np.ndarray | list[np.ndarray]
    positions: SuspectPositions | None = None

    def __len__(self) -> int:
        return len(self.examples)

    def __repr__(self) -> str:
        wrong = int((self.margin < 0.0).sum())
        lines = [f"Suspects: {wrong} of {len(self)} examples would be answered otherwise"]
        if self.positions is None:
            where = [f"example {i}" for i in self.examples[:_SHOWN]]
            rows = zip(where, self.margin, self.given, self.answer, strict=False)
        else:
            found = self.positions
            places = zip(found.example[:_SHOWN], found.position, strict=False)
            where = [f"example {i}, position {t}" for i, t in places]
            rows = zip(where, found.margin, found.given, found.answer, strict=False)
        for place, margin, given, answer in rows:
            other = f", rather {answer!s}" if given != answer else ""
            lines.append(f"  {place}: {given!s}{other} (margin {margin:.3g})")
        return "\n".join(lines)


def of_classes(trained: TrainedClasses, influence: np.ndarray, classes: np.ndarray) -> Suspects:
    """The rows in the order of their margins without them.

    Where a model that was trained without a row cannot be told from the directions that other rows
    keep, as in texts, all that the row's own dual variables add to its scores is taken away.
    """
    fall = falls(trained)
    scores = trained.scores - (trained.own if fall is None else fall)
    margin = trained.lead(scores).min(axis=1)
    order = np.argsort(margin, kind="stable")
    return Suspects(
        order, margin[order], trained.slacks[order], influence[order],
        classes[trained.truth[order]], classes[scores[order].argmax(axis=1)],
    )  # fmt: skip


def of_sequences(trained: TrainedSequences, influence: np.ndarray, classes: np.ndarray) -> Suspects:
    """The sequences, and all their positions, by margins at w.

    What a sequence adds to its own scores is left in: it is spread over all its labels, and
    taking it away would make more of the right ones suspect than of the wrong ones.
    """
    n = len(influence)
    at_positions, others = np.empty(len(trained.truth)), np.empty_like(trained.truth)
    answers = []
    for sequence in trained:
        i, places = sequence.number, np.arange(len(sequence.truth))
        own = slice(trained.offsets[i], trained.offsets[i + 1])
        best = sequence.scores.best(sequence.truth)
        given = best[places, sequence.truth].copy()
        # Labels that are best at each position are those of the best sequence, but for ties.
        answers.append(classes[best.argmax(axis=1)])
        best[places, sequence.truth] = -np.inf
        others[own] = best.argmax(axis=1)
        at_positions[own] = given - best.max(axis=1)
    margin = np.minimum.reduceat(at_positions, trained.offsets[:-1])
    order, by_position = np.argsort(margin, kind="stable"), np.argsort(at_positions, kind="stable")
    example = np.repeat(np.arange(n), np.diff(trained.offsets))[by_position]
    positions = SuspectPositions(
        example, by_position - trained.offsets[example], at_positions[by_position],
        classes[trained.truth[by_position]], classes[others[by_position]],
    )  # fmt: skip
    given_labels = np.split(classes[trained.truth], trained.offsets[1:-1])
    return Suspects(
        order, margin[order], trained.slacks[order], influence[order],
        [given_labels[i] for i in order], [answers[i] for i in order], positions,
    )  # fmt: skip
