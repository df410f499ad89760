"""Training sequences with a label for each position, as a model and its dual variables see them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.data.arrays import ranges
from taut.duals.support import LabelsInUse
from taut.explanations.removal import Removals
from taut.explanations.rows import Rows
from taut.inference.max_marginals import max_marginals


class Potentials(NamedTuple):
    """Numbers for labels at positions, for pairs of neighbours, and for first and last labels."""

    nodes: np.ndarray
    pairs: np.ndarray
    ends: np.ndarray

    def plus(self, other: Potentials, factor: float) -> Potentials:
        """These and the others times a factor."""
        return Potentials(*(a + factor * b for a, b in zip(self, other, strict=True)))

    def dot(self, other: Potentials) -> float:
        """The inner product with others."""
        return float(sum((a * b).sum() for a, b in zip(self, other, strict=True)))

    def score(self, labels: np.ndarray) -> float:
        """The score of a sequence of labels."""
        nodes = self.nodes[np.arange(len(labels)), labels].sum()
        return float(nodes + self.tail_score(labels))

    def tail_score(self, labels: np.ndarray) -> float:
        """That of its pairs and ends."""
        pairs = self.pairs[labels[:-1], labels[1:]].sum()
        return float(pairs + self.ends[0, labels[0]] + self.ends[1, labels[-1]])

    def best(
        self, truth: np.ndarray, pair_bonus: float = 0.0, end_bonus: float = 0.0
    ) -> np.ndarray:
        """The highest score with each label at each position (`max_marginals`)."""
        nodes = np.ascontiguousarray(self.nodes)
        out, room = np.empty_like(nodes), np.empty_like(nodes)
        max_marginals(
            nodes, self.pairs, self.ends, truth.astype(np.int64), pair_bonus, end_bonus, room, out
        )
        return out


class TailStatistics(NamedTuple):
    """Statistics of pairs and ends: blocks, places in the tail of w, and amounts there."""

    block: np.ndarray
    place: np.ndarray
    amount: np.ndarray


def position_statistics(
    in_use: LabelsInUse, offsets: np.ndarray, truth: np.ndarray, n_labels: int
) -> sp.csr_array:
    """What U is made of at the positions of sequences: a row for each."""
    rows = ranges(offsets[in_use.block], np.diff(in_use.offsets))
    amounts = np.repeat(in_use.coef, np.diff(in_use.offsets))
    places = np.concatenate([rows, rows])
    columns = np.concatenate([in_use.labels, truth[rows]])
    values = np.concatenate([-amounts, amounts])
    found = sp.coo_array((values, (places, columns)), shape=(len(truth), n_labels)).tocsr()
    found.eliminate_zeros()
    return found


def tail_statistics(
    in_use: LabelsInUse, offsets: np.ndarray, truth: np.ndarray, n_labels: int, boundary: bool
) -> TailStatistics:
    """What it is made of at pairs and, with `boundary`, at ends."""
    sizes = np.diff(in_use.offsets)
    rows = ranges(offsets[in_use.block], sizes)
    first = np.zeros(len(rows), dtype=bool)
    first[in_use.offsets[:-1]] = True
    last = np.roll(first, -1)
    owner, coef = np.repeat(in_use.block, sizes), np.repeat(in_use.coef, sizes)
    parts = []
    for labels, sign in ((in_use.labels, -1.0), (truth[rows], 1.0)):
        labels = labels.astype(np.int64)
        inner = np.flatnonzero(~first)
        parts.append(
            (owner[inner], labels[inner - 1] * n_labels + labels[inner], sign * coef[inner])
        )
        for number, at in enumerate((first, last) if boundary else ()):
            place = (n_labels + number) * n_labels + labels[at]
            parts.append((owner[at], place, sign * coef[at]))
    return TailStatistics(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def _summed(place: np.ndarray, amount: np.ndarray, n_labels: int) -> tuple[np.ndarray, np.ndarray]:
    """Statistics of the tail as pairs and ends."""
    tail = np.bincount(place, amount, (n_labels + 2) * n_labels).astype(np.float64)
    pairs, ends = np.split(tail, [n_labels * n_labels])
    return pairs.reshape(n_labels, n_labels), ends.reshape(2, n_labels)


class Sequence(NamedTuple):
    """A training sequence.

    `scores` are the potentials under w.
    """

    number: int
    truth: np.ndarray
    scores: Potentials


@dataclass(frozen=True)
class TrainedSequences:
    """Sequences with a label for each position.

    Attributes
    ----------
    rows : Rows
        Of all sequences.
    offsets : ndarray of shape (n + 1,)
        Where the rows of each sequence begin.
    truth : ndarray of shape (n_rows,)
        Codes of labels.
    unit : ndarray of shape (n,)
        The loss of one wrong label.
    weight : ndarray of shape (n,)
        C_i.
    scores, mean_scores : Potentials
        Of all rows, under w and under the prior mean.
    boundary : bool
        Whether first and last labels have weights.
    in_use : LabelsInUse
        Labels with dual weight; their numbers are codes.
    penalty, rounding : float
        g(w), and how far rounding may have moved the gap.
    """

    rows: Rows
    offsets: np.ndarray
    truth: np.ndarray
    unit: np.ndarray
    weight: np.ndarray
    scores: Potentials
    mean_scores: Potentials
    boundary: bool
    in_use: LabelsInUse
    penalty: float
    rounding: float

    @cached_property
    def coefficients(self) -> sp.csr_array:
        """What U is made of at positions."""
        return position_statistics(self.in_use, self.offsets, self.truth, self.n_labels)

    @cached_property
    def _tails(self) -> tuple[TailStatistics, np.ndarray]:
        """What it is made of beside, and where that of each sequence begins."""
        tail = tail_statistics(self.in_use, self.offsets, self.truth, self.n_labels, self.boundary)
        order = np.argsort(tail.block, kind="stable")
        tail = TailStatistics(*(values[order] for values in tail))
        return tail, np.searchsorted(tail.block, np.arange(len(self.offsets)))

    @property
    def n_labels(self) -> int:
        """How many labels there are."""
        return self.scores.pairs.shape[0]

    def __iter__(self) -> Iterator[Sequence]:
        for i, (first, last) in enumerate(pairwise(self.offsets.tolist())):
            scores = self.scores._replace(nodes=self.scores.nodes[first:last])
            yield Sequence(i, self.truth[first:last], scores)

    def statistics(self, sequence: Sequence) -> Potentials:
        """v_i as statistics."""
        tail, begins = self._tails
        first, last = self.offsets[sequence.number : sequence.number + 2]
        own = slice(*begins[sequence.number : sequence.number + 2])
        nodes = self.coefficients[first:last].toarray()
        return Potentials(nodes, *_summed(tail.place[own], tail.amount[own], self.n_labels))

    def own(self, sequence: Sequence) -> Potentials:
        """What v_i adds to the potentials of the sequence itself."""
        statistics = self.statistics(sequence)
        if not statistics.nodes.any():
            return statistics
        rows = np.arange(*self.offsets[sequence.number : sequence.number + 2])
        return statistics._replace(nodes=self.rows.products(rows, rows) @ statistics.nodes)

    @cached_property
    def dual_scores(self) -> Potentials:
        """Potentials under the weights of the dual variables, m + U."""
        tail, _begins = self._tails
        pairs, ends = _summed(tail.place, tail.amount, self.n_labels)
        return self.mean_scores.plus(
            Potentials(self.rows.scores(self.coefficients), pairs, ends), 1.0
        )

    def at(self, potentials: Potentials, sequence: Sequence) -> Potentials:
        """Potentials of all rows as one sequence has them."""
        first, last = self.offsets[sequence.number], self.offsets[sequence.number + 1]
        return potentials._replace(nodes=potentials.nodes[first:last])

    @cached_property
    def lengths(self) -> np.ndarray:
        """The length of each row."""
        return np.sqrt(self.rows.squares())

    def hinge(self, sequence: Sequence) -> float:
        """The hinge of a sequence at w."""
        costs = np.full_like(sequence.scores.nodes, self.unit[sequence.number])
        costs[np.arange(len(costs)), sequence.truth] = 0.0
        augmented = sequence.scores._replace(nodes=sequence.scores.nodes + costs)
        highest = float(augmented.best(sequence.truth)[0].max())
        return max(highest - sequence.scores.score(sequence.truth), 0.0)

    @cached_property
    def slacks(self) -> np.ndarray:
        """The hinge of each sequence at w."""
        return np.array([self.hinge(sequence) for sequence in self])

    def removals(self) -> Removals:
        """What leaving out a sequence does."""
        block, sizes = self.in_use.block, np.diff(self.in_use.offsets)
        rows = ranges(self.offsets[block], sizes)
        owner = np.repeat(block, sizes)
        amounts = np.repeat(self.in_use.coef, sizes) * (self.in_use.labels != self.truth[rows])
        losses = self.unit * np.bincount(owner, amounts, len(self.unit))
        products = []
        for sequence in self:
            v, own = self.statistics(sequence), self.own(sequence)
            dual, mean = (self.at(p, sequence) for p in (self.dual_scores, self.mean_scores))
            products.append(
                [v.dot(potentials) for potentials in (sequence.scores, dual, mean, own)]
            )
        on_w, on_dual, on_mean, squares = np.array(products).T
        hinges = self.weight * self.slacks
        return Removals(
            self.penalty, hinges, losses, on_w, on_dual, on_mean, squares, self.rounding
        )
