"""What solves at some C prove for every C between them.

    v(C) = min_w g(w) + C H(w),        H(w) = sum_i weight_i hinge_i(w),   g the regulariser

is a minimum of lines in C, hence concave. Some weights bound it from above by their own line, for
every C. Lower bounds D_a <= v(a) and D_b <= v(b) bound it from below by their chord, for every C
between a and b. So a few numbers for each solve enclose v, whatever g is: with priors, bounds on
weights and all.

Between two solves there are more nodes for free, by mixing them. For 0 <= s <= 1

    w = (1 - s) w_a + s w_b              g(w) is computed,     H(w) <= (1 - s) H_a + s H_b,
    (1 - s) a_a + s a_b                  is feasible at        C = (1 - s) a + s b,

and its dual value is (1 - s) L_a + s L_b - g*((1 - s) U_a + s U_b). With g = 1/2 |w|^2 and optimal
ends the gap of such a node is at most s (1 - s) [(b - a) (H_a - H_b) - |w_a - w_b|^2], zero as long
as dual variables move linearly in C, which they do piece by piece. One solve alone, its dual
variables scaled by C / a, leaves g(w_a) (C / a - 1)^2: on usps two to seven times as much.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from taut.result import relative


class Node(NamedTuple):
    """Weights and a dual bound at one C.

    `penalty` is g(w) and `losses` an upper bound of H(w): no optimum lies above penalty + C losses,
    for any C, and none at this C below `dual`. `left` is the number of a solve, and `share` how
    much of the next one is mixed into it; 0 for a solve itself.
    """

    C: float
    penalty: float
    losses: float
    dual: float
    left: int
    share: float = 0.0

    @property
    def gap(self) -> float:
        """The relative gap at this C."""
        return relative(self.penalty + self.C * self.losses, self.dual)


def mix(a: Any, b: Any, share: float) -> Any:
    """(1 - share) a + share b."""
    return (1.0 - share) * a + share * b


def worst_between(a: Node, b: Node) -> tuple[float, float]:
    """The largest relative gap from a to b as these two prove it, and the C where it is.

    Where the upper bound is one line, the ratio of the two bounds is one of linear functions, and
    monotone: it is largest at one of the nodes, or where their lines cross.
    """
    fall = a.losses - b.losses
    crossing = (b.penalty - a.penalty) / fall if fall != 0.0 else a.C
    candidates = np.array([a.C, min(max(crossing, a.C), b.C), b.C])
    gaps = Enclosure([a, b]).gap(candidates)
    worst = int(np.argmax(gaps))
    return float(candidates[worst]), float(gaps[worst])


class Enclosure:
    """Bounds of the optimum at every C between the first and the last of nodes by rising C.

    Examples
    --------
    >>> from taut.paths.enclosure import Enclosure, Node
    >>> enclosure = Enclosure([Node(1.0, 1.0, 2.0, 3.0, 0), Node(3.0, 3.0, 1.0, 6.0, 1)])
    >>> enclosure.upper(2.0), enclosure.lower(2.0), enclosure.gap(2.0)
    (array(5.), array(4.5), array(0.1))
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.nodes = list(nodes)
        table = np.array([node[:4] for node in self.nodes])
        self.C, self.penalty, self.losses, self.dual = table.T

    def upper(self, C: np.ndarray | float) -> np.ndarray:
        """What the best weights for each C cost at most."""
        return np.asarray(self._lines(C).min(axis=-1))

    def lower(self, C: np.ndarray | float) -> np.ndarray:
        """What no weights can do better than."""
        return np.asarray(np.interp(C, self.C, self.dual))

    def gap(self, C: np.ndarray | float) -> np.ndarray:
        """(upper - lower) / upper."""
        upper = self.upper(C)
        excess = np.maximum(upper - self.lower(C), 0.0)
        return np.divide(excess, upper, out=np.zeros_like(upper), where=upper > 0.0)

    def best(self, C: float) -> Node:
        """The node whose weights are best at C."""
        return self.nodes[int(self._lines(C).argmin())]

    def worst(self) -> float:
        """The largest relative gap of all C."""
        pairs = zip(self.nodes, self.nodes[1:], strict=False)
        return max([self.nodes[0].gap, *(worst_between(a, b)[1] for a, b in pairs)])

    def _lines(self, C: np.ndarray | float) -> np.ndarray:
        return self.penalty + np.multiply.outer(C, self.losses)
