"""Examples in the one form in which `check_structure` tests them.

Plain or compiled, an example knows its labels, their features and losses, and how to ask the
oracle.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np
import scipy.sparse as sp

from taut.errors import InvalidStructure
from taut.structures.base import CompiledStructure, Structure

_GUARD = 64  # entries on either side of an array that must stay as they are
PRECISION = 1e-6  # relative to the terms of a sum: a user's oracle may work in single precision

Candidates = Callable[[Any], Iterable[Any]] | np.ndarray


class Guarded:
    """An array whose surroundings tell when compiled code has written past its ends."""

    def __init__(self, size: int, dtype: type = np.float64, around: float = 77) -> None:
        self._around = around
        self._whole: np.ndarray = np.full(size + 2 * _GUARD, around, dtype=dtype)
        self.array = self._whole[_GUARD : _GUARD + size]

    @property
    def broken(self) -> bool:
        """Whether anything was written outside."""
        outside = np.concatenate([self._whole[:_GUARD], self._whole[-_GUARD:]])
        return bool((outside != self._around).any())


class Example(ABC):
    """One example with its labels, the truth first."""

    features_name: str
    labels: list[Any]

    def __init__(
        self,
        structure: Structure | CompiledStructure,
        i: int,
        truth: Any,
        candidates: Candidates | None,
    ) -> None:
        self.structure = structure
        self.i = i
        self.truth = truth
        self.candidates = candidates

    def fail(self, method: str, fault: str, remedy: str) -> NoReturn:
        """Raise a broken law."""
        raise InvalidStructure(
            f"{type(self.structure).__name__}.{method} on example {self.i}: {fault}; {remedy}"
        )

    def name(self, label: Any) -> str:
        """A label as the user would write it."""
        return repr(label)

    @abstractmethod
    def enumerate_labels(self, n_features: int, rng: np.random.Generator) -> None:
        """Set `labels`."""

    @abstractmethod
    def features(self, label: Any) -> np.ndarray:
        """phi(x, label)."""

    @abstractmethod
    def loss(self, label: Any) -> float:
        """The loss of `label`."""

    @abstractmethod
    def argmax(self, w: np.ndarray, with_loss: bool) -> tuple[Any, float | None, float]:
        """The oracle's label, the value that it returns for it, if it does, and its error."""

    @abstractmethod
    def complete(self, w: np.ndarray) -> Any:
        """The truth with its best latent part; None where nothing is latent."""

    def completed_features(self, label: Any) -> np.ndarray:
        """phi(x, label) where latent parts are open."""
        return self.features(label)

    @abstractmethod
    def check_untouched(self) -> None:
        """The data is as it was."""

    def check_features(
        self, weights: np.ndarray, scores: np.ndarray, sizes: np.ndarray, rng: np.random.Generator
    ) -> None:
        """Laws of what features are made of, before an argmax is blamed for it."""

    def check_more(
        self, weights: np.ndarray, scores: np.ndarray, sizes: np.ndarray, rng: np.random.Generator
    ) -> None:
        """Laws of one kind of structure only; scores and sizes are those of `labels`."""

    #: All labels of all blocks, where a compiled structure lists them.
    listed: Any = None
    #: Random weights under which the oracle is asked for candidates, when nobody enumerates them.
    searches: int = 50
    #: Labels that are listed, beyond which it is not tested whether all are.
    most_listed: int = sys.maxsize
    #: What weights are not below, as the oracles see them.
    lower: np.ndarray | float = -np.inf

    def admissible(self, weights: np.ndarray) -> np.ndarray:
        """Weights that training may come to: those below their bounds are reflected there."""
        return np.maximum(weights, 2.0 * self.lower - weights)

    def found(self, n_features: int, rng: np.random.Generator) -> Iterator[Any]:
        """What the oracle itself finds: the candidates when nobody enumerates them."""
        for scale in np.geomspace(0.01, 100.0, self.searches):
            w = self.admissible(scale * rng.normal(size=n_features))
            for with_loss in (True, False):
                yield self.argmax(w, with_loss)[0]


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal, such as a deep copy and its original, or two labels."""
    if isinstance(a, np.ndarray):
        return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
    if sp.issparse(a):
        return sp.issparse(b) and a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return isinstance(b, list | tuple) and len(a) == len(b) and all(map(same, a, b))
    if getattr(type(a), "__eq__", None) is object.__eq__:
        return type(a) is type(b) and (not hasattr(a, "__dict__") or same(vars(a), vars(b)))
    return bool(np.all(a == b))
