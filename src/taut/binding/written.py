"""What plain structures and solvers ask of features that are vectors, written down."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from taut.spaces.regularizer import Prior


class Pool(NamedTuple):
    """Different labels of a block, their violations, and what computes the Gram matrix of psi."""

    labels: list[Any]
    violations: np.ndarray
    gram: Callable[[], np.ndarray]


class WrittenFeatures:
    """Points are weights, psi are vectors, and inner products are taken number by number."""

    prior: Prior
    planes: Callable[[int, Iterable[Any]], Iterator[tuple[np.ndarray, float]]]

    def point(self, v: np.ndarray) -> np.ndarray:
        """What psi are multiplied with: v within its bounds."""
        return v if self.prior.trivial else np.maximum(v, self.prior.bounds())

    def covector(self, psi: np.ndarray) -> np.ndarray:
        """What other psi are multiplied with for their inner products with this one."""
        return psi

    def local(self, part: Any, w: np.ndarray) -> np.ndarray:
        """A point as some of the blocks see it: the same weights."""
        return w.copy()

    def absorb(self, part: Any, U: np.ndarray, w: np.ndarray) -> None:
        """Add to a point what dual variables of some of the blocks sum up to."""
        w += U

    def assign(self, w: np.ndarray, given: np.ndarray) -> None:
        """Let a point that is 0 be the one of these weights."""
        w[:] = given

    #: Values of a kernel that were computed so far.
    evaluations = 0

    def n_support(self, w: np.ndarray) -> int:
        """None: points have no coefficients."""
        return 0

    def length(self, phi: np.ndarray) -> float:
        """|phi|."""
        return float(np.linalg.norm(phi))

    def weights(self, i: int, v: np.ndarray) -> Any:
        """W as oracles of block i see it."""
        return self.prior.weights(v)

    def as_weights(self, i: int, w: np.ndarray) -> Any:
        """The same of the user's weights."""
        return w

    def user_weights(self, v: np.ndarray) -> np.ndarray:
        """W as users get it."""
        return self.prior.weights(v)

    def pool(self, i: int, labels: Iterable[Any], w: Any) -> Pool:
        """Labels of block i, at weights as its oracles see them."""
        found = list(self.distinct(i, labels))
        psi = np.array([psi for _label, psi, _loss in found])
        losses = np.array([loss for _label, _psi, loss in found])
        violations = losses - psi @ self.prior.scaled(w)
        return Pool([label for label, _psi, _loss in found], violations, lambda: psi @ psi.T)

    def distinct(self, i: int, labels: Iterable[Any]) -> Iterator[tuple[Any, np.ndarray, float]]:
        """Labels with psi and loss, without those that have been seen; the truth's only if first.

        They are told apart by their planes: labels may be any Python objects.
        """
        seen = set()
        again, labels = itertools.tee(labels)
        for label, (psi, loss) in zip(again, self.planes(i, labels), strict=True):
            key = (loss, (psi + 0.0).tobytes())  # -0.0 is 0.0
            if key not in seen:
                yield label, psi, loss
            seen |= {key, (0.0, np.zeros_like(psi).tobytes())}

    def hold(self, holder: Any) -> None:
        """Nothing: psi belong to whoever has them."""

    def release(self, psi: Iterable[np.ndarray]) -> None:
        """Nothing, for the same reason: from now on those count that a holder refers to."""

    def values(self, i: int, labels: Iterable[Any], v: np.ndarray) -> Iterator[tuple[float, float]]:
        """The violation of each label of block i at v, and the summed size of its terms."""
        point = self.point(v)
        for psi, loss in self.planes(i, labels):
            yield loss - float(psi @ point), float(np.abs(psi) @ np.abs(point))
