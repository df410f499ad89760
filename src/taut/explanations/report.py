"""Why a model answers as it does: what a score difference is the sum of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

_SHOWN = 5  # rows of each table, in text


class FeatureTable(NamedTuple):
    """What the features of the example add to the margin, the largest contribution first.

    Attributes
    ----------
    position, feature : ndarray of int64
        Where in the example, and which column. The position is 0 where examples are single rows.
    name : ndarray of str
        The column's name, "x3" without names.
    value, weight, contribution : ndarray of float64
        The feature's value, by how much the weights of the two labels differ, and the product.
    """

    position: np.ndarray
    feature: np.ndarray
    name: np.ndarray
    value: np.ndarray
    weight: np.ndarray
    contribution: np.ndarray


class TransitionTable(NamedTuple):
    """What pairs of neighbouring labels add to the margin where the two answers differ.

    Attributes
    ----------
    position : ndarray of int64
        Of the second label of the pair; 0 and the length are those of first and last labels.
    answer, runner_up : list of tuple
        The pair in each of the two; a tuple of one label at the ends.
    contribution : ndarray of float64
    """

    position: np.ndarray
    answer: list[tuple]
    runner_up: list[tuple]
    contribution: np.ndarray


class ExampleTable(NamedTuple):
    """What training examples add to the margin, the largest contribution first.

    Attributes
    ----------
    example : ndarray of int64
        Numbers of training examples; with a kernel on sequences, of their rows one after the other.
    contribution : ndarray of float64
        Their dual variables times their inner products with the example.
    """

    example: np.ndarray
    contribution: np.ndarray


class PositionTable(NamedTuple):
    """By how much the label of each position is decided.

    Attributes
    ----------
    answer, alternative : ndarray
        The label, and the one of the best sequence that has another label there.
    margin : ndarray of float64
        The difference of the scores of these two sequences.
    """

    answer: np.ndarray
    alternative: np.ndarray
    margin: np.ndarray


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why an example is labelled as it is, and not as the second best labels say.

    The margin is the sum of the contributions of features, transitions and the intercept. It is
    also that of the contributions of training examples, the prior and the remainder.

    Attributes
    ----------
    answer, runner_up : label, or ndarray of labels
        The best and the second best labels.
    scores : tuple of float
        Of both.
    margin : float
        Their difference.
    features : FeatureTable or None
        None with a kernel, whose features are not written down.
    intercept : float
        What the intercepts add to the margin.
    transitions : TransitionTable or None
        Of sequences.
    positions : PositionTable or None
        Of sequences.
    examples : ExampleTable or None
        Of linear models only where `training` was given.
    prior : float
        What the prior mean adds to the margin; with a kernel on sequences, what transitions do.
    remainder : float
        What is left of the margin. A linear model is near to what its dual variables sum up to, and
        the nearer the smaller its gap is. With `nonneg` the bounds of weights are part of it.

    Examples
    --------
    >>> from taut import BinarySVM
    >>> model = BinarySVM(random_state=0).fit([[0.0, 1.0], [2.0, 1.0]], ["no", "yes"])
    >>> why = model.explain([2.0, 1.0])
    >>> print(why.answer, why.runner_up, why.features.name[0], round(why.margin, 1))
    yes no x0 1.0
    """

    answer: Any
    runner_up: Any
    scores: tuple[float, float]
    margin: float
    features: FeatureTable | None
    intercept: float
    transitions: TransitionTable | None
    positions: PositionTable | None
    examples: ExampleTable | None
    prior: float
    remainder: float

    def __repr__(self) -> str:
        lines = [
            f"Explanation: {_shown(self.answer)} rather than {_shown(self.runner_up)}, by a margin "
            f"of {self.margin:.4g}"
        ]
        if self.features is not None:
            table, several = self.features, self.positions is not None
            lines += _rows(
                "features", len(table.contribution),
                lambda r: f"{table.name[r]} = {table.value[r]:.4g}"
                + (f" at position {table.position[r]}" if several else ""),
                table.contribution,
            )  # fmt: skip
        if self.intercept:
            lines.append(f"  intercept {self.intercept:+.4g}")
        if self.transitions is not None:
            pairs = self.transitions
            lines += _rows(
                "transitions", len(pairs.contribution),
                lambda r: f"{_joined(pairs.answer[r])} rather than {_joined(pairs.runner_up[r])}"
                f" at position {pairs.position[r]}",
                pairs.contribution,
            )  # fmt: skip
        if self.examples is not None:
            known = self.examples
            lines += _rows(
                "training examples", len(known.contribution),
                lambda r: f"example {known.example[r]}", known.contribution,
            )  # fmt: skip
            lines.append(f"  prior {self.prior:+.4g}, remainder {self.remainder:+.4g}")
        return "\n".join(lines)


def _rows(what: str, n: int, text: Callable[[int], str], contribution: np.ndarray) -> Iterable[str]:
    """The first rows of a table."""
    yield f"  {what} ({n}):"
    for r in range(min(n, _SHOWN)):
        yield f"    {contribution[r]:+.4g}  {text(r)}"


def _shown(labels: Any) -> str:
    return " ".join(map(str, labels)) if isinstance(labels, np.ndarray) else str(labels)


def _joined(labels: tuple) -> str:
    return "-".join(map(str, labels))
