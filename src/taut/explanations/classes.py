"""Training rows with a class each, as a model and its dual variables see them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from taut.duals.support import LabelsInUse
from taut.explanations.removal import Removals
from taut.explanations.rows import Rows


def class_statistics(in_use: LabelsInUse, truth: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """c_ik of U = sum_ik c_ik x_i e_k', where psi_i(k) = factors[i, k] (e_truth - e_k) x_i."""
    block, labels = in_use.block, in_use.labels
    amounts = in_use.coef * factors[block, labels]
    out = np.zeros(factors.shape)
    np.subtract.at(out, (block, labels), amounts)
    np.add.at(out, (block, truth[block]), amounts)
    return out


@dataclass(frozen=True)
class TrainedClasses:
    """Rows with a class each.

    Attributes
    ----------
    rows : Rows
    truth : ndarray of shape (n,)
        Codes of classes.
    losses, factors : ndarray of shape (n, n_classes)
        A row violates by losses - factors times what the truth leads by.
    weight : ndarray of shape (n,)
        C_i.
    scores, mean_scores : ndarray of shape (n, n_classes)
        Under w, and under the prior mean.
    seen : ndarray of shape (n_classes,)
        1 for classes whose scores have weights, 0 for one whose score is always 0.
    in_use : LabelsInUse
        Classes with dual weight; their numbers are codes.
    penalty, rounding : float
        g(w), and how far rounding may have moved the gap.
    """

    rows: Rows
    truth: np.ndarray
    losses: np.ndarray
    factors: np.ndarray
    weight: np.ndarray
    scores: np.ndarray
    mean_scores: np.ndarray
    seen: np.ndarray
    in_use: LabelsInUse
    penalty: float
    rounding: float

    @cached_property
    def numbers(self) -> np.ndarray:
        """0, 1, ... n - 1."""
        return np.arange(len(self.truth))

    @cached_property
    def coefficients(self) -> np.ndarray:
        """What U = sum_ik c_ik x_i e_k' is made of."""
        return class_statistics(self.in_use, self.truth, self.factors) * self.seen

    @cached_property
    def squares(self) -> np.ndarray:
        """|x_i|^2 of each row."""
        return self.rows.squares()

    @cached_property
    def own(self) -> np.ndarray:
        """What each row adds to its own scores: <x_i e_k', v_i>."""
        return self.coefficients * self.squares[:, None]

    @cached_property
    def dual_scores(self) -> np.ndarray:
        """Scores under the weights of the dual variables, m + U."""
        return self.mean_scores + self.rows.scores(sp.csr_array(self.coefficients))

    def lead(self, scores: np.ndarray) -> np.ndarray:
        """What the truth's score has beyond that of each class; infinite beyond its own."""
        lead = scores[self.numbers, self.truth][:, None] - scores
        lead[self.numbers, self.truth] = np.inf
        return lead

    @cached_property
    def slacks(self) -> np.ndarray:
        """The hinge of each row at w."""
        lead = self.lead(self.scores)
        lead[self.numbers, self.truth] = 0.0
        return np.maximum((self.losses - self.factors * lead).max(axis=1), 0.0)

    @cached_property
    def lengths(self) -> np.ndarray:
        """|(e_truth - e_k) x_i| of each class."""
        both = self.seen[self.truth][:, None] + self.seen
        both[self.numbers, self.truth] = 0.0
        return np.sqrt(both * self.squares[:, None])

    def removals(self) -> Removals:
        """What leaving out a row does."""
        block, labels, c = self.in_use.block, self.in_use.labels, self.coefficients
        losses = np.bincount(block, self.in_use.coef * self.losses[block, labels], len(self.truth))
        return Removals(
            self.penalty, self.weight * self.slacks, losses, (c * self.scores).sum(axis=1),
            (c * self.dual_scores).sum(axis=1), (c * self.mean_scores).sum(axis=1),
            (c * self.own).sum(axis=1), self.rounding,
        )  # fmt: skip
