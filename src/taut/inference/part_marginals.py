"""Probabilities of the places of parts that springs hold together in a tree, by sum-product.

With p(label) proportional to exp(score / temperature), messages are those of
`taut.inference.part_trees` with sums in place of maxima. A spring is a product of a function of the
column and one of the row, so that the sum over a child's places is one over columns, then one over
rows: as many terms for each place as the level has rows and columns. All is in logarithms, which
neither overflow nor make what is unlikely impossible.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from taut.compiled.jit import helper, kernel
from taut.inference.distance_transforms import Spring
from taut.inference.part_trees import PartTree


class PartMarginals(NamedTuple):
    """Probabilities of the windows of an image and of invisible parts."""

    windows: np.ndarray  # of each window: that its part is there, with its aspect
    hidden: np.ndarray  # of each part: that it is invisible
    log_partition: float  # the logarithm of the sum of exp(score / temperature) over all labels


class Potentials(NamedTuple):
    """What an image's labels are scored by, divided by the temperature."""

    windows: np.ndarray
    tail: np.ndarray
    starts: np.ndarray  # (templates, levels): the first window of each
    grids: np.ndarray  # (levels, 2): rows and columns of places
    side: float  # -1 in mirrored images, whose columns count down


@helper
def _smooth_along(line, size, spring, out):
    for x in range(size):
        top = -1e300
        for q in range(size):
            step = q - x - spring.shift
            top = max(top, line[q] - (spring.bend * step + spring.slope) * step)
        total = 0.0
        for q in range(size):
            step = q - x - spring.shift
            total += math.exp(line[q] - (spring.bend * step + spring.slope) * step - top)
        out[x] = top + math.log(total)


@kernel
def _smooth_grid(values, across, down, middle, line, room, out):
    """out[x] = log of the sum of exp(value - springs) over all places, seen from each place."""
    rows, columns = values.shape
    for y in range(rows):
        _smooth_along(values[y], columns, across, middle[y])
    for x in range(columns):
        for y in range(rows):
            line[y] = middle[y, x]
        _smooth_along(line, rows, down, room)
        for y in range(rows):
            out[y, x] = room[y]


def part_marginals(tree: PartTree, potentials: Potentials) -> PartMarginals:
    """The probabilities of all windows of an image.

    The label without visible parts belongs to no level, and counts once.

    Parameters
    ----------
    tree : PartTree
    potentials : Potentials

    Returns
    -------
    PartMarginals
    """
    levels = [_Level(tree, potentials, n) for n in range(len(potentials.grids))]
    nothing = levels[0].nothing(tree.order[0])
    log_partition = float(logsumexp([nothing, *(level.visible() for level in levels)]))
    windows = np.zeros(len(potentials.windows))
    owners = np.zeros(len(windows), dtype=np.int64)
    for n, level in enumerate(levels):
        level.pass_down()
        for p in range(len(tree.parents)):
            for t in level.templates(p):
                belief = level.above[t] + level.below[t] - log_partition
                first = potentials.starts[t, n]
                windows[first : first + belief.size] = np.exp(belief.ravel())
                owners[first : first + belief.size] = p
    seen = np.bincount(owners, windows, minlength=len(tree.parents))
    return PartMarginals(windows, np.maximum(1.0 - seen, 0.0), log_partition)


class _Level:
    """The sums of one level: of what hangs below each part, and of all else above it."""

    def __init__(self, tree: PartTree, potentials: Potentials, number: int) -> None:
        self.tree, self.tail, self.side = tree, potentials.tail, potentials.side
        shape = tuple(potentials.grids[number].tolist())
        size = shape[0] * shape[1]
        self.below = [
            potentials.windows[first : first + size].reshape(shape).copy()
            for first in potentials.starts[:, number]
        ]
        self.above = [np.zeros(shape) for _ in self.below]
        n_parts = len(tree.parents)
        self.hidden_below = self.tail[:n_parts].copy()
        self.hidden_above = np.zeros(n_parts)
        self.messages: dict[int, np.ndarray] = {}  # of each part to its parent, by the aspects
        self.free = np.zeros(n_parts)  # to its parent where that is invisible
        self._middle, self._line = np.empty(shape), (np.empty(shape[0]), np.empty(shape[0]))
        self._pass_up()

    def templates(self, p: int) -> range:
        """The templates of a part."""
        return range(self.tree.firsts[p], self.tree.firsts[p + 1])

    def _pairs(self, c: int) -> np.ndarray:
        """The weights of the aspects of a part for each of its parent's, invisible ones last."""
        counts = np.diff(self.tree.firsts)
        shape = (counts[self.tree.parents[c]] + 1, counts[c] + 1)
        first = self.tree.pairs[c]
        return self.tail[first : first + shape[0] * shape[1]].reshape(shape)

    def _smooth(self, values: np.ndarray, t: int, sign: float) -> np.ndarray:
        """The sum over a part's places seen from its parent's, or with sign -1 the reverse."""
        out = np.empty_like(values)
        if not values.size:
            return out
        first, (x, y) = self.tree.springs[t], self.tree.anchors[t].tolist()
        bend_x, slope_x, bend_y, slope_y = self.tail[first : first + 4].tolist()
        side = sign * self.side
        _smooth_grid(
            np.ascontiguousarray(values),
            Spring(bend_x, side * slope_x, side * x), Spring(bend_y, sign * slope_y, sign * y),
            self._middle, *self._line, out,
        )  # fmt: skip
        return out

    def _pass_up(self) -> None:
        for c in self.tree.order[:0:-1].tolist():
            p, pairs = int(self.tree.parents[c]), self._pairs(c)
            seen = [self._smooth(self.below[t], t, 1.0) for t in self.templates(c)]
            sums = [_total(self.below[t]) for t in self.templates(c)]
            messages = []
            for a, t in enumerate(self.templates(p)):
                terms = [pairs[a, b] + own for b, own in enumerate(seen)]
                terms.append(np.full_like(self._middle, pairs[a, -1] + self.hidden_below[c]))
                messages.append(logsumexp(terms, axis=0))
                self.below[t] += messages[-1]
            self.messages[c] = np.array(messages)
            self.free[c] = logsumexp(pairs[-1] + np.array([*sums, self.hidden_below[c]]))
            self.hidden_below[p] += self.free[c]

    def pass_down(self) -> None:
        """Sum up all that is above each part."""
        for c in self.tree.order[1:].tolist():
            p, pairs = int(self.tree.parents[c]), self._pairs(c)
            rest = [
                self.above[t] + self.below[t] - message
                for t, message in zip(self.templates(p), self.messages[c], strict=True)
            ]
            hidden = self.hidden_above[p] + self.hidden_below[p] - self.free[c]
            for b, t in enumerate(self.templates(c)):
                terms = np.array([pairs[a, b] + own for a, own in enumerate(rest)])
                held = self._smooth(logsumexp(terms, axis=0), t, -1.0)
                self.above[t] = np.logaddexp(held, pairs[-1, b] + hidden)
            sums = [_total(own) for own in rest]
            self.hidden_above[c] = logsumexp(pairs[:, -1] + np.array([*sums, hidden]))

    def nothing(self, p: int) -> float:
        """The score where a part and all below it are invisible."""
        total = float(self.tail[p])
        for c in np.flatnonzero(self.tree.parents == p).tolist():
            total += float(self._pairs(c)[-1, -1]) + self.nothing(c)
        return total

    def visible(self, p: int | None = None) -> float:
        """The logarithm of the sum over all labels with a visible part, at p or below it.

        Of the root by default. Where p is invisible: over the first of its children that has a
        visible part, so that no large numbers are subtracted.
        """
        root = int(self.tree.order[0]) if p is None else p
        terms = [_total(self.below[t]) for t in self.templates(root)]
        if p is not None:
            terms = [pair + own for pair, own in zip(self._pairs(p)[-1], terms, strict=False)]
        children = np.flatnonzero(self.tree.parents == root).tolist()
        own = float(self.tail[root]) + (0.0 if p is None else float(self._pairs(p)[-1, -1]))
        none = 0.0
        for k, c in enumerate(children):
            later = sum(float(self.free[other]) for other in children[k + 1 :])
            terms.append(own + none + self.visible(c) + later)
            none += float(self._pairs(c)[-1, -1]) + self.nothing(c)
        return float(logsumexp(terms))


def _total(values: np.ndarray) -> float:
    """The logarithm of a sum; that of nothing is minus infinity."""
    return float(logsumexp(values)) if values.size else -math.inf
