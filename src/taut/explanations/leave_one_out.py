"""The leave-one-out error without training again: a bound, and an estimate."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taut.explanations.classes import TrainedClasses
from taut.explanations.sequences import Potentials, Sequence, TrainedSequences
from taut.explanations.span import falls

_ROUNDING = 1e-12  # relative to scores: a margin must exceed it


@dataclass(frozen=True, repr=False)
class LeaveOneOut:
    """How often a model errs on an example that it was trained without.

    Attributes
    ----------
    bound : float
        The share of examples on which the model may err: the true leave-one-out error of the
        optimum is not above it.
    estimate : float or None
        About the true error, but no bound: all other rows are taken to stay as tight as they are
        (Vapnik and Chapelle's span rule, for any number of classes). None where too many labels are
        in use, as in texts, and of sequences.
    at_optimum : float
        What `bound` would be if the fit had reached the optimum exactly. Where it is much lower,
        a smaller `tol` pays.
    safe : ndarray of bool
        Which examples are surely answered correctly.
    position_bound : float or None
        Of sequences, the share of positions at which the model may err.
    xi_alpha : float or None
        Of two classes and margins of 1, Joachims' estimate: the share with
        2 alpha_i R^2 + xi_i >= 1.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.preprocessing import scale
    >>> from taut import MulticlassSVM
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MulticlassSVM(C=0.1, tol=1e-8, random_state=0).fit(scale(X), y)
    >>> model.leave_one_out_error(scale(X), y)
    LeaveOneOut: an error of at most 28 %, about 5.33 %
    """

    bound: float
    estimate: float | None
    at_optimum: float
    safe: np.ndarray
    position_bound: float | None = None
    xi_alpha: float | None = None

    def __repr__(self) -> str:
        text = f"LeaveOneOut: an error of at most {100.0 * self.bound:.3g} %"
        if self.estimate is not None:
            text += f", about {100.0 * self.estimate:.3g} %"
        if self.at_optimum < self.bound:
            text += f"; with a smaller tol at most {100.0 * self.at_optimum:.3g} % could be proved"
        return text


def of_classes(trained: TrainedClasses, binary: bool) -> LeaveOneOut:
    """The leave-one-out error of rows with a class each.

    A label errs where its score reaches that of the truth: ties count as errors.
    """
    removals = trained.removals()
    centre = 0.5 * (trained.scores + trained.dual_scores - trained.own)
    safe = _safe(trained, centre, removals.radii())
    optimal = trained.scores - 0.5 * trained.own
    at_optimum = _safe(trained, optimal, 0.5 * np.sqrt(removals.squares))
    fall = falls(trained)
    right = None if fall is None else trained.lead(trained.scores - fall).min(axis=1) > 0.0
    xi_alpha = None
    if binary and (trained.losses.max(axis=1) == 1.0).all():
        alpha = np.abs(trained.coefficients[:, 1])
        reached = 2.0 * alpha * trained.squares.max() + trained.slacks >= 1.0
        xi_alpha = float(reached.mean())
    return LeaveOneOut(
        _share(safe),
        None if right is None else _share(right),
        _share(at_optimum | safe),
        safe,
        None,
        xi_alpha,
    )


def _safe(trained: TrainedClasses, centre: np.ndarray, radii: np.ndarray) -> np.ndarray:
    """Which rows have a positive margin everywhere in their balls."""
    surplus = trained.lead(centre) - radii[:, None] * trained.lengths
    size = np.abs(trained.scores).max(axis=1) + np.abs(trained.own).max(axis=1)
    return surplus.min(axis=1) > _ROUNDING * size


def of_sequences(trained: TrainedSequences) -> LeaveOneOut:
    """The leave-one-out error of sequences, of which each wrong label is an error.

    |psi(y)| is at most the sum of the lengths of its parts: |x_t| sqrt(2) for each wrong label,
    sqrt(2) for each other pair and end. So the best labels that could beat the truth are found by
    dynamic programming, with these lengths times the radius added to the potentials.
    """
    removals = trained.removals()
    radii, optimal = removals.radii(), 0.5 * np.sqrt(removals.squares)
    n = len(radii)
    safe, at_optimum = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
    doubtful = 0
    for sequence in trained:
        i, own = sequence.number, trained.own(sequence)
        dual = trained.at(trained.dual_scores, sequence)
        both = sequence.scores.plus(dual, 1.0).plus(own, -1.0)
        centre = Potentials(*(0.5 * values for values in both))
        middle = sequence.scores.plus(own, -0.5)
        reach = _reach(trained, sequence, centre, radii[i])
        doubtful += int((reach >= 0.0).sum())
        safe[i] = (reach < 0.0).all()
        at_optimum[i] = safe[i] or (_reach(trained, sequence, middle, optimal[i]) < 0.0).all()
    return LeaveOneOut(_share(safe), None, _share(at_optimum), safe, doubtful / len(trained.truth))


def _reach(
    trained: TrainedSequences, sequence: Sequence, centre: Potentials, radius: float
) -> np.ndarray:
    """By how much labels that are wrong at each position may beat the truth within a ball."""
    first, last = trained.offsets[sequence.number], trained.offsets[sequence.number + 1]
    truth, places = sequence.truth, np.arange(last - first)
    step = np.sqrt(2.0) * radius
    nodes = centre.nodes + step * trained.lengths[first:last, None]
    nodes[places, truth] = centre.nodes[places, truth]
    best = centre._replace(nodes=nodes).best(truth, step, step if trained.boundary else 0.0)
    best[places, truth] = -np.inf
    score = centre.score(truth)
    size = np.abs(centre.nodes).sum() + np.abs(centre.pairs).sum()
    return best.max(axis=1) - score + _ROUNDING * size


def _share(right: np.ndarray) -> float:
    """The share of those that are not."""
    return float((~right).mean())
