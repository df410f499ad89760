"""Labels of high violation that are little correlated, chosen one after the other."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from taut.binding import CompiledData, Data, Room
from taut.compiled.jit import around, helper, kernel
from taut.compiled.label_rows import copy
from taut.errors import InvalidData
from taut.sampling.base import EITHER, Sampler, missing
from taut.sampling.listed import Top
from taut.sampling.m_best import MBest
from taut.spaces.labels import ProductRoom, products_of, score_of

_CHOSEN = 2.0  # no cosine
_NOTHING = 1e-30


@kernel
def best_trade(violations, closest, price):
    """The label of highest violation - price * closest, among those that are not chosen."""
    best = -1
    highest = 0.0
    for q in range(violations.shape[0]):
        trade = violations[q] - price * closest[q]
        if closest[q] < _CHOSEN and (best < 0 or trade > highest):
            best = q
            highest = trade
    return best


class DiverseRoom(NamedTuple):
    """Room for the labels to choose from, numbered by q, and what the choice is made by."""

    source: tuple
    products: ProductRoom
    truth: np.ndarray
    offsets: np.ndarray
    diversity: float
    pool: np.ndarray
    values: np.ndarray
    violations: np.ndarray
    closest: np.ndarray  # the largest cosine with a label that is chosen
    with_truth: np.ndarray  # <phi(truth), phi(q)>
    squares: np.ndarray  # |psi(q)|^2
    row: np.ndarray


def _choice(operations, make):
    """From the labels of another sampler."""
    score, products = score_of(operations), products_of(operations)
    pooled = helper(make(operations))

    def sample(data, i, work, loss_weight, seed, room, found, values):
        """The best label, then repeatedly that of the best trade."""
        begin, end = room.offsets[i], room.offsets[i + 1]
        size, capacity = end - begin, room.values.shape[0]
        pool = room.pool[: capacity * size].reshape((capacity, size))
        count = pooled(data, i, work, loss_weight, seed, room.source, pool, room.values)
        own = room.truth[begin:end].reshape((1, size))
        base = score(data, i, work, own[0])
        row, inner = room.row, room.products
        products(data, i, own[0], own, inner, row)
        square_of_truth = row[0]
        products(data, i, own[0], pool[:count], inner, room.with_truth)
        for q in range(count):
            products(data, i, pool[q], pool[q : q + 1], inner, row)
            room.squares[q] = row[0] - 2.0 * room.with_truth[q] + square_of_truth
            room.violations[q] = room.values[q] - base
            room.closest[q] = -1.0
        price = room.diversity * max(room.violations[0], 0.0)
        chosen = 0
        q = 0
        while q >= 0 and chosen < values.shape[0]:
            copy(pool[q], found[chosen])
            values[chosen] = room.values[q]
            chosen += 1
            products(data, i, pool[q], pool[:count], inner, row)
            for p in range(count):
                inner_psi = row[p] - room.with_truth[p] - room.with_truth[q] + square_of_truth
                length = np.sqrt(max(room.squares[p] * room.squares[q], _NOTHING))
                room.closest[p] = max(room.closest[p], min(inner_psi / length, 1.0))
            room.closest[q] = _CHOSEN
            q = best_trade(room.violations[:count], room.closest[:count], price)
        return chosen

    return sample


@dataclass(frozen=True)
class Diverse(Sampler):
    """Labels of high violation that are little correlated, from some times as many.

    After the argmax it takes, again and again, the label of highest

        violation - diversity * violation of the argmax * the largest cosine of its psi

    with the psi of labels that it has taken, where psi = phi(truth) - phi(label). So a label that
    points where another one does already has to be violated as much more to be taken.

    Parameters
    ----------
    pool : int, default=4
        How many times as many labels as are wanted it chooses from.
    diversity : float, default=1.0
        The price of a cosine of 1, in violations of the argmax; 0 takes the pool in its order.
    source : Sampler, optional
        Where the pool comes from: `Top` by default, or `MBest` where labels are not listed.
    """

    pool: int = 4
    diversity: float = 1.0
    source: Sampler | None = None

    name = "diverse"

    def __post_init__(self) -> None:
        if self.pool < 1 or not 0.0 <= self.diversity < np.inf:
            raise InvalidData(
                f"Diverse has pool={self.pool} and diversity={self.diversity}: give a pool of at "
                "least 1 and a finite diversity >= 0"
            )

    def suited(self, data):
        """With a source that the structure allows."""
        if self.source is not None:
            return replace(self, source=self.source.suited(data))
        if data.lists_labels:
            return replace(self, source=Top())
        if data.ranks_labels:
            return replace(self, source=MBest())
        raise missing(self, data, EITHER, 'sampler="argmax" or your own function')

    @property
    def _source(self) -> Sampler:
        return Top() if self.source is None else self.source

    @property
    def make(self):
        """Around the source's."""
        return around(_choice, self._source.make)

    def n_labels(self, data: Data, wanted: int) -> int:
        """As many as the source has."""
        return self._source.n_labels(data, wanted)

    def room(self, data: CompiledData, count: int, dtype: Any) -> tuple:
        """Room for the source's labels and their inner products."""
        blocks, n = data.blocks, self._source.n_labels(data, self.pool * count)
        space = data.space(dtype, bounds=False, room=Room())
        return DiverseRoom(
            self._source.room(data, n, dtype),
            data.product_room(dtype, space),
            blocks.truth,
            blocks.offsets,
            float(self.diversity),
            np.empty(n * blocks.label_size, dtype=np.int32),
            *np.empty((6, n)),
        )

    def labels(self, data, i, w, count, rng):
        """The same from the planes of the source's labels."""
        labels, error = self._source.labels(data, i, w, self.pool * count, rng)
        pool, violations, gram = data.pool(i, labels, w)
        products = gram()
        lengths = np.sqrt(np.maximum(np.diagonal(products), 0.0))
        closest, price = np.full(len(pool), -1.0), self.diversity * max(violations[0], 0.0)
        chosen: list[int] = []
        q = 0
        while q >= 0 and len(chosen) < count:
            chosen.append(q)
            cosines = products[q] / np.sqrt(np.maximum((lengths * lengths[q]) ** 2, _NOTHING))
            closest = np.maximum(closest, cosines.clip(max=1.0))
            closest[q] = _CHOSEN
            q = best_trade(violations, closest, price)
        return [pool[k] for k in chosen], error
