"""How the weights of a model are stored: as they are, in single precision, or without zeros."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from taut.errors import InvalidData
from taut.result import Certificate
from taut.storage.stored import require

#: What scores are computed from, and nothing else: only this is packed.
_WEIGHTS = (
    "coef_", "intercept_", "transition_", "start_", "end_", "pairwise_", "tail_", "dual_coef_",
    "support_vectors_",
)  # fmt: skip
#: What a fit has computed from the weights of before, which a file of others leaves out.
_OF_EXACT_WEIGHTS = ("primal_",)
_OF_CSR = ".data"
_WIDE, _NARROW = np.dtype(np.float64), np.dtype(np.float32)


class Packing(NamedTuple):
    """What `save` was asked for."""

    narrow: bool = False
    sparse: bool | str = False

    @classmethod
    def of(cls, dtype: Any, sparse: Any) -> Self:
        """That of the parameters of `save`, checked."""
        try:
            given = None if dtype is None else np.dtype(dtype)
        except TypeError:
            given = np.dtype(object)
        if given not in (None, _WIDE, _NARROW):
            raise InvalidData(
                f"dtype = {dtype!r}: give 'float32' to store weights in half as many bytes, or "
                "None to store them as they are"
            )
        if not (
            isinstance(sparse, bool | np.bool_) or (isinstance(sparse, str) and sparse == "auto")
        ):
            raise InvalidData(f"sparse = {sparse!r}: give True, False or 'auto'")
        return cls(given == _NARROW, sparse if isinstance(sparse, str) else bool(sparse))

    def certified(self, fitted: dict[str, Any]) -> dict[str, Any]:
        """Fitted attributes without what is no longer true of the weights that a file will have."""
        weights = [_numbers_of(fitted[name]) for name in _WEIGHTS if name in fitted]
        moved = rounding_of([values for values in weights if self._narrows(values)])
        if moved is None:
            return fitted
        kept = {name: value for name, value in fitted.items() if name not in _OF_EXACT_WEIGHTS}
        if "certificate_" not in fitted:
            return kept
        certificate: Certificate = fitted["certificate_"]
        return kept | {"certificate_": certificate.of_rounded(_NARROW.name, moved)}

    def item(self, name: str, values: np.ndarray, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
        """An array as JSON, and the tensors that it is in."""
        if name.removesuffix(_OF_CSR) not in _WEIGHTS:
            tensors[name] = values
            return {"tensor": name}
        kind = {"dtype": values.dtype.name} if self._narrows(values) else {}
        values = values.astype(_NARROW) if kind else values
        packed = _without_zeros(name, values)
        smaller = sum(part.nbytes for part in packed.values()) < values.nbytes
        # The numbers of a CSR matrix are by themselves those that are not zero.
        if self.sparse and not name.endswith(_OF_CSR) and (smaller or self.sparse != "auto"):
            tensors.update(packed)
            parts = dict(zip(("indices", "values"), packed, strict=True))
            return kind | {"sparse": parts, "shape": list(values.shape)}
        tensors[name] = values
        return kind | {"tensor": name}

    def _narrows(self, values: np.ndarray) -> bool:
        return self.narrow and values.dtype == _WIDE


#: Everything as it is.
WHOLE = Packing()


def unpacked(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> np.ndarray:
    """The array of an item with its zeros."""
    indices, values = (tensors[item["sparse"][part]] for part in ("indices", "values"))
    shape = item["shape"]
    require(all(type(length) is int and length >= 0 for length in shape), "no shape of weights")
    size = math.prod(shape)
    require(indices.ndim == values.ndim == 1 and len(indices) == len(values), "sparse weights")
    require(indices.dtype in (np.uint32, np.uint64) and size < 2**62, "places of sparse weights")
    require((indices < size).all(), "places of sparse weights")
    require((indices[1:] > indices[:-1]).all(), "places of sparse weights that do not rise")
    whole = np.zeros(size, dtype=values.dtype)
    whole[indices.astype(np.int64)] = values
    return widened(item, whole.reshape(shape))


def widened(item: dict[str, Any], values: np.ndarray) -> np.ndarray:
    """Numbers in the type that they had before they were packed."""
    if "dtype" not in item:
        return values
    require(item["dtype"] == _WIDE.name and values.dtype == _NARROW, "the type of packed weights")
    return values.astype(_WIDE)


def rounding_of(weights: Sequence[np.ndarray]) -> float | None:
    """How far single precision moves weights, as a share of their length; None for not at all."""
    largest = max((float(np.abs(values).max(initial=0.0)) for values in weights), default=0.0)
    if largest > float(np.finfo(_NARROW).max):
        raise InvalidData(
            f"weights of up to {largest:.2g} do not fit into float32: leave dtype out, or scale "
            "the features"
        )
    moves = [values.astype(_NARROW).astype(_WIDE) - values for values in weights]
    if not any(move.any() for move in moves):
        return None
    # In units of the largest number, whose square is finite and not 0.
    return _length(moves, largest) / _length(weights, largest)


def _length(vectors: Sequence[np.ndarray], unit: float) -> float:
    return math.hypot(*(float(np.linalg.norm(vector / unit)) for vector in vectors))


def _numbers_of(value: Any) -> np.ndarray:
    return value.data if sp.issparse(value) else np.asarray(value)


def _without_zeros(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Where the numbers are that are not zero, in the order of rows, and what they are."""
    flat = values.ravel()
    places = np.flatnonzero(flat)
    kind = np.uint32 if flat.size <= 2**32 else np.uint64
    return {f"{name}.indices": places.astype(kind), f"{name}.values": flat[places]}
