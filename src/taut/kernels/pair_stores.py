"""Pairs that others are compared with over and over, in the form in which that is fastest.

What is stored of a comparison is a *base* value: the whole kernel in general, the kernel on
features alone where the joint kernel is a product. So one base value serves all labels that share
features, and the kernel on labels is multiplied in when scores are asked for.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.errors import InvalidData
from taut.kernels.base import EVERY, KernelRows

_AD_HOC = 64  # features that are prepared when they are asked for, at most,
_AD_HOC_SHARE = 0.25  # or so many of those that are ready


class Pair:
    """An example and a label, with what a kernel has computed of them.

    `phi` are the features that the pair is compared by; pairs that share an example and a part of
    the label share one array.
    """

    __slots__ = ("label", "phi", "x")

    def __init__(self, x: Any, label: Any, phi: Any) -> None:
        self.x = x
        self.label = label
        self.phi = phi


def key_of(label: Any) -> Any:
    """What tells labels apart: the label itself, where it has a hash."""
    try:
        hash(label)
    except TypeError:
        return pickle.dumps(label)
    return label


def check_widths(phi: Sequence[Any], like: Any) -> None:
    """Refuse features of different lengths."""
    wanted = _width(like)
    for row in phi:
        if _width(row) != wanted:
            raise InvalidData(
                f"features of two pairs have {wanted} and {_width(row)} numbers: a kernel compares "
                "rows of one length"
            )


def _width(row: Any) -> int:
    return int(row.shape[-1]) if sp.issparse(row) else int(np.size(row))


class PairStore:
    """Numbered pairs, and the values of others with them.

    Parameters
    ----------
    kernel : PairKernel
    """

    #: Whether a base value is the value of the kernel.
    whole = True

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.pairs: list[Pair] = []

    def put(self, number: int, pair: Pair) -> None:
        """Have a pair under a number, which is the next one or has been in use."""
        if number == len(self.pairs):
            self.pairs.append(pair)
        else:
            self.pairs[number] = pair

    def shared(self, label: Any) -> Any:
        """What of a label its base values depend on."""
        return label

    def base(self, pairs: Sequence[Pair], numbers: np.ndarray) -> np.ndarray:
        """Base values of pairs with those of some numbers."""
        return self.kernel.block(pairs, [self.pairs[e] for e in numbers.tolist()])

    def values(self, base: np.ndarray, labels: Sequence[Any], numbers: np.ndarray) -> np.ndarray:
        """The kernel of labels, whose base values are given, with pairs of these numbers."""
        return base

    def scores(
        self, base: np.ndarray, which: np.ndarray, labels: Sequence[Any], numbers: np.ndarray,
        coefficients: np.ndarray,
    ) -> np.ndarray:  # fmt: skip
        """Sums of coefficients times values of labels, whose base values are rows `which`."""
        return (base @ coefficients)[which]

    def feature_sums(
        self, numbers: np.ndarray, coefficients: np.ndarray
    ) -> tuple[list[Any], np.ndarray]:
        """Sums of coefficients times features of pairs, for each different aspect.

        Where the kernel on features is their inner product, w is known by these: a label scores the
        inner products of its features with the sums, times the kernel on labels.
        """
        raise InvalidData(f"{self.kernel!r} is no product, and has no features that add up")


class ProductStore(PairStore):
    """The same for a product: base values are those of the kernel on features.

    Each different Phi is prepared once, and each different aspect compared once in a call.
    """

    whole = False

    def __init__(self, kernel: Any) -> None:
        super().__init__(kernel)
        self._phi: list[Any] = []
        self._phi_numbers: dict[int, int] = {}
        self._aspects: list[Any] = []
        self._aspect_numbers: dict[Any, int] = {}
        self._places = np.zeros((0, 2), dtype=np.int64)  # of the features and aspect of each pair
        self._ready: KernelRows | None = None

    def put(self, number, pair):
        """With the numbers of its features and of its aspect."""
        super().put(number, pair)
        if number >= len(self._places):
            longer = np.zeros((2 * number + 8, 2), dtype=np.int64)
            longer[: len(self._places)] = self._places
            self._places = longer
        phi = self._phi_numbers.setdefault(id(pair.phi), len(self._phi))
        if phi == len(self._phi):
            self._phi.append(pair.phi)
        (aspect,) = self.kernel.aspects([pair.label])
        own = self._aspect_numbers.setdefault(key_of(aspect), len(self._aspects))
        if own == len(self._aspects):
            self._aspects.append(aspect)
        self._places[number] = phi, own

    def shared(self, label):
        """The part that features depend on."""
        return self.kernel.part(label)

    def base(self, pairs, numbers):
        """Blocks of the kernel on features."""
        check_widths([pair.phi for pair in pairs], self._phi[0])
        some, places = np.unique(self._places[numbers, 0], return_inverse=True)
        ready = self._prepared(some)
        own = self.kernel.rows_of([pair.phi for pair in pairs], ready)
        n = int(np.searchsorted(some, ready.n))
        values = np.empty((own.n, len(some)))
        own.block(EVERY, ready, some[:n], values[:, :n])
        if n < len(some):
            late = self.kernel.rows_of([self._phi[k] for k in some[n:].tolist()], ready)
            rest = np.empty((own.n, late.n))
            own.block(EVERY, late, EVERY, rest)
            values[:, n:] = rest
        return values[:, places]

    def _prepared(self, some: np.ndarray) -> KernelRows:
        """Features as the kernel reads them; anew for all where many have come since."""
        n = 0 if self._ready is None else self._ready.n
        late = len(self._phi) - n
        if self._ready is None or (some[-1] >= n and late > max(_AD_HOC, _AD_HOC_SHARE * n)):
            self._ready = self.kernel.rows_of(self._phi, None)
        return self._ready

    def values(self, base, labels, numbers):
        """Times the kernel on labels."""
        return base * self._factors(labels)[:, self._places[numbers, 1]]

    def _factors(self, labels: Sequence[Any]) -> np.ndarray:
        """The kernel of labels with all aspects that there are."""
        return self.kernel.labels.between(self.kernel.aspects(labels), self._aspects)

    def scores(self, base, which, labels, numbers, coefficients):
        """Base values summed up for each aspect, times the kernel of the labels with it."""
        own, n = self._places[numbers, 1], len(self._aspects)
        sums = np.array([np.bincount(own, row, n) for row in base * coefficients])
        return np.einsum("ka,ka->k", sums[which], self._factors(labels))

    def feature_sums(self, numbers, coefficients):
        """Row by row."""
        size = np.size(self._phi[0]) if self._phi else 0
        sums = np.zeros((len(self._aspects), size))
        places = self._places[numbers].tolist()
        for (phi, aspect), coefficient in zip(places, coefficients.tolist(), strict=True):
            sums[aspect] += coefficient * self._phi[phi]
        return self._aspects, sums
