"""Values of an estimator as JSON and tensors, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.duals.support import DualSupport
from taut.errors import InvalidFile, InvalidType
from taut.estimators.learning_curve import LearningCurve
from taut.estimators.packing import WHOLE, Packing, unpacked, widened
from taut.features import Extractor
from taut.features import stored as extractors
from taut.kernels import Function, Kernel
from taut.kernels import stored as kernels
from taut.readers import Format
from taut.readers import stored as readings
from taut.result import Certificate, History, Rounds
from taut.solvers import SOLVERS, Solver
from taut.spaces.joint import Expansion
from taut.storage import files
from taut.storage.stored import LOOSE_TYPES, check_types, require

_WIDEST = 2**20  # bytes of a label
_CSR = ("data", "indices", "indptr")


def encode(
    name: str, value: Any, tensors: dict[str, np.ndarray], packing: Packing = WHOLE
) -> dict[str, Any]:
    """A parameter or fitted attribute as JSON; arrays of numbers go into `tensors`."""
    if isinstance(value, Expansion):
        raise InvalidType(
            f"{name} is of pairs of an example and a label, which may be any objects, and cannot "
            "be stored: pickle the model, or give explicit=True where the kernel has finitely many "
            "features"
        )
    if _is_numeric_list(value) or (hasattr(value, "__array__") and not np.isscalar(value)):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return packing.item(name, value, tensors)
    if isinstance(value, np.ndarray):
        labels = [files.encode_label(label) for label in value.tolist()]
        return {"labels": labels, "dtype": value.dtype.str}
    if isinstance(value, Extractor):
        settings, arrays = extractors.to_dict(value)
        places = {part: f"{name}.{part}" for part in arrays}
        tensors.update({tensor: arrays[part] for part, tensor in places.items()})
        return {"extractor": settings, "arrays": places}
    if isinstance(value, Kernel):
        return {"kernel": kernels.to_dict(value)}
    if isinstance(value, os.PathLike):
        return {"value": os.fspath(value)}
    if name == "kernel" and callable(value):
        return {"kernel": kernels.to_dict(Function(value))}
    if name == "angle_kernel" and callable(value):
        raise InvalidType(
            f"angle_kernel = {value!r} is a function, which no file can hold: call "
            "set_params(angle_kernel='von_mises') before saving, and give the function to taut.load"
        )
    if name in ("features", "features_") and hasattr(value, "fit_transform"):
        raise InvalidType(
            f"{name} = {value!r} is not one of taut's extractors and cannot be stored: use one of "
            "taut.features, or transform the data before fit"
        )
    if name == "schedule" and callable(value):
        raise InvalidType(
            f"schedule = {value!r} is a function, which no file can hold: call "
            "set_params(schedule='constant') before saving, and give it again after loading"
        )
    if sp.issparse(value):
        parts = {part: f"{name}.{part}" for part in _CSR}
        tensors.update({tensor: getattr(value, part) for part, tensor in parts.items()})
        item = {"csr": parts, "shape": list(map(int, value.shape))}
        numbers = packing.item(parts["data"], value.data, tensors)
        return item | {key: kind for key, kind in numbers.items() if key == "dtype"}
    if isinstance(value, Format):
        return {"reading": readings.to_dict(value)}
    if isinstance(value, DualSupport):
        parts = {part: f"{name}.{part}" for part in value.arrays()}
        tensors.update({parts[part]: _narrowed(array) for part, array in value.arrays().items()})
        return {"support": parts, "blocks": value.n_blocks}
    if isinstance(value, Certificate):
        return {"certificate": value.to_dict()}
    if isinstance(value, Rounds):
        return {"rounds": value.to_dict()}
    if isinstance(value, History):
        return {"history": value.to_dict()}
    if isinstance(value, LearningCurve):
        return {"curve": value.to_dict()}
    if isinstance(value, Solver):
        if SOLVERS.get(value.name) is not type(value):
            raise InvalidType(
                f"solver = {value!r} is not one of taut's and cannot be stored; "
                "call set_params(solver='auto') before saving"
            )
        for setting, given in vars(value).items():
            if not isinstance(given, int | float | str | None):
                raise InvalidType(
                    f"solver = {value!r}: {setting} is a {type(given).__name__} and cannot be "
                    "stored; call set_params(solver='auto') before saving"
                )
        return {"solver": value.name, "settings": dict(vars(value))}
    if isinstance(value, np.random.RandomState):
        return {"value": None}  # its state belongs to the run, not to the model
    return {"value": files.encode_nested(value)}


def _narrowed(array: np.ndarray) -> np.ndarray:
    """Whole numbers from 0 on in as few bytes as the largest one needs."""
    if array.dtype.kind != "i" or len(array) == 0:
        return array
    return array.astype(np.min_scalar_type(int(array.max())))


def _widened(part: str, array: np.ndarray) -> np.ndarray:
    """The inverse of `_narrowed` for a part of dual variables."""
    if array.dtype.kind not in "iu":
        return array
    return array.astype(np.int32 if part == "labels" else np.int64)


def _is_numeric_list(value: Any) -> bool:
    """Whether this is a list that is a vector or matrix of numbers, not a tree of labels."""
    if not isinstance(value, list):
        return False
    try:
        array = np.asarray(value)
    except ValueError:  # of lists of different lengths
        return False
    return array.dtype.kind in "biuf" and array.ndim <= 2


def decode(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> Any:
    """The inverse of `encode`."""
    for kind, decoder in _DECODERS.items():
        if kind in item:
            return decoder(item, tensors)
    raise InvalidFile(f"unknown item {sorted(item)}")


def _labels(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> np.ndarray:
    # Not np.array, which would make a matrix of labels that are tuples.
    labels = np.fromiter(map(files.decode_label, item["labels"]), dtype=object)
    dtype = np.dtype(item["dtype"])
    text = dtype.kind == "U" and all(isinstance(label, str) for label in labels)
    require(dtype.kind == "O" or (text and dtype.itemsize <= _WIDEST), f"labels of dtype {dtype}")
    return labels.astype(dtype)


def _solver(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> Solver:
    cls, settings = SOLVERS[item["solver"]], item["settings"]
    check_types(cls, settings, LOOSE_TYPES)
    return cls(**settings)


def _csr(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> sp.csr_array:
    """Rows whose indices are checked: compiled code has no bounds checks."""
    data, indices, indptr = (tensors[item["csr"][part]] for part in _CSR)
    n, width = item["shape"]
    require(isinstance(n, int) and isinstance(width, int), "no shape of CSR rows")
    require(indices.dtype.kind == indptr.dtype.kind == "i", "indices of CSR rows")
    require(0 <= n < 2**62 and 0 < width < 2**31 and indptr.shape == (n + 1,), "shape of CSR rows")
    require(indptr[0] == 0 and indptr[-1] == len(data) == len(indices), "ends of CSR rows")
    require((np.diff(indptr) >= 0).all(), "CSR rows that end before they begin")
    inside = (indices >= 0) & (indices < width)
    require(inside.all() and data.ndim == indices.ndim == 1, "columns of CSR rows")
    data = widened(item, data)
    rows = sp.csr_array((data, indices, indptr), shape=(n, width))
    require(rows.has_canonical_format, "columns of CSR rows that do not rise")
    return rows


def _extractor(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> Extractor:
    arrays = {part: tensors[place] for part, place in item["arrays"].items()}
    return extractors.from_dict(item["extractor"], arrays)


_DECODERS: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Any]] = {
    "tensor": lambda item, tensors: widened(item, tensors[item["tensor"]]),
    "sparse": unpacked,
    "labels": _labels,
    "kernel": lambda item, _: kernels.from_dict(item["kernel"]),
    "csr": _csr,
    "extractor": _extractor,
    "reading": lambda item, _: readings.from_dict(item["reading"]),
    "support": lambda item, tensors: DualSupport.of_arrays(
        item["blocks"],
        {part: _widened(part, tensors[tensor]) for part, tensor in item["support"].items()},
    ),
    "certificate": lambda item, _: Certificate.from_dict(item["certificate"]),
    "history": lambda item, _: History.from_dict(item["history"]),
    "curve": lambda item, _: LearningCurve.from_dict(item["curve"]),
    "rounds": lambda item, _: Rounds.from_dict(item["rounds"]),
    "solver": _solver,
    "value": lambda item, _: files.decode_nested(item["value"]),
}
