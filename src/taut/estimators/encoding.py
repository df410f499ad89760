"""Values of an estimator as JSON and tensors, and back."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NamedTuple

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


Tensors = dict[str, np.ndarray]
Item = dict[str, Any]
Decoder = Callable[[Item, Tensors], Any]


def encode(name: str, value: Any, tensors: Tensors, packing: Packing = WHOLE) -> Item:
    """A parameter or fitted attribute as JSON; arrays of numbers go into `tensors`."""
    is_foreign = hasattr(value, "__array__") and not isinstance(value, np.ndarray)
    if _is_numeric_list(value) or (is_foreign and not np.isscalar(value)):
        value = np.asarray(value)
    kind = next(kind for kind in _KINDS if isinstance(value, kind.type))
    return kind.encode(name, value, tensors, packing)


def decode(item: Item, tensors: Tensors) -> Any:
    """The inverse of `encode`."""
    for key, decoder in _DECODERS.items():
        if key in item:
            return decoder(item, tensors)
    raise InvalidFile(f"unknown item {sorted(item)}")


class Kind(NamedTuple):
    """How values of a type are stored.

    Attributes
    ----------
    type : type or tuple of types
    encode : function of a name, a value, tensors and a packing
    decoders : dict
        Functions of an item and tensors; each is for the items that have its key.
    """

    type: Any
    encode: Callable[[str, Any, Tensors, Packing], Item]
    decoders: dict[str, Decoder]


def _by_dict(
    key: str, type: Any, to_dict: Callable[[Any], Any], from_dict: Callable[[Any], Any]
) -> Kind:
    """The kind of values that are JSON values in another form."""
    return Kind(
        type,
        lambda name, value, tensors, packing: {key: to_dict(value)},
        {key: lambda item, tensors: from_dict(item[key])},
    )


def _encode_array(name: str, value: np.ndarray, tensors: Tensors, packing: Packing) -> Item:
    if value.dtype.kind in "biuf":
        return packing.item(name, value, tensors)
    labels = [files.encode_label(label) for label in value.tolist()]
    return {"labels": labels, "dtype": value.dtype.str}


def _encode_csr(name: str, value: Any, tensors: Tensors, packing: Packing) -> Item:
    parts = {part: f"{name}.{part}" for part in _CSR}
    tensors.update({tensor: getattr(value, part) for part, tensor in parts.items()})
    item = {"csr": parts, "shape": list(map(int, value.shape))}
    numbers = packing.item(parts["data"], value.data, tensors)
    return item | {key: kind for key, kind in numbers.items() if key == "dtype"}


def _encode_extractor(name: str, value: Extractor, tensors: Tensors, packing: Packing) -> Item:
    settings, arrays = extractors.to_dict(value)
    places = {part: f"{name}.{part}" for part in arrays}
    tensors.update({tensor: arrays[part] for part, tensor in places.items()})
    return {"extractor": settings, "arrays": places}


def _encode_support(name: str, value: DualSupport, tensors: Tensors, packing: Packing) -> Item:
    parts = {part: f"{name}.{part}" for part in value.arrays()}
    tensors.update({parts[part]: _narrowed(array) for part, array in value.arrays().items()})
    return {"support": parts, "blocks": value.n_blocks}


def _encode_solver(name: str, value: Solver, tensors: Tensors, packing: Packing) -> Item:
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


def _refuse_expansion(name: str, value: Any, tensors: Tensors, packing: Packing) -> Item:
    raise InvalidType(
        f"{name} is of pairs of an example and a label, which may be any objects, and cannot "
        "be stored: pickle the model, or give explicit=True where the kernel has finitely many "
        "features"
    )


#: What to do about parameters whose values may be objects that no file can hold.
_ADVICE = {
    "angle_kernel": "is a function, which no file can hold: call "
    "set_params(angle_kernel='von_mises') before saving, and give the function to taut.load",
    "schedule": "is a function, which no file can hold: call set_params(schedule='constant') "
    "before saving, and give it again after loading",
    "features": "is not one of taut's extractors and cannot be stored: use one of taut.features, "
    "or transform the data before fit",
}


def _encode_plain(name: str, value: Any, tensors: Tensors, packing: Packing) -> Item:
    """Text, numbers, labels, and lists and dictionaries of them."""
    if name == "kernel" and callable(value):
        return {"kernel": kernels.to_dict(Function(value))}
    advice = _ADVICE.get(name.removesuffix("_"))
    if advice is not None and (callable(value) or hasattr(value, "fit_transform")):
        raise InvalidType(f"{name} = {value!r} {advice}")
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


def _labels(item: Item, tensors: Tensors) -> np.ndarray:
    # Not np.array, which would make a matrix of labels that are tuples.
    labels = np.fromiter(map(files.decode_label, item["labels"]), dtype=object)
    dtype = np.dtype(item["dtype"])
    text = dtype.kind == "U" and all(isinstance(label, str) for label in labels)
    require(dtype.kind == "O" or (text and dtype.itemsize <= _WIDEST), f"labels of dtype {dtype}")
    return labels.astype(dtype)


def _solver(item: Item, tensors: Tensors) -> Solver:
    cls, settings = SOLVERS[item["solver"]], item["settings"]
    check_types(cls, settings, LOOSE_TYPES)
    return cls(**settings)


def _csr(item: Item, tensors: Tensors) -> sp.csr_array:
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


def _extractor(item: Item, tensors: Tensors) -> Extractor:
    arrays = {part: tensors[place] for part, place in item["arrays"].items()}
    return extractors.from_dict(item["extractor"], arrays)


def _support(item: Item, tensors: Tensors) -> DualSupport:
    parts = {part: _widened(part, tensors[tensor]) for part, tensor in item["support"].items()}
    return DualSupport.of_arrays(item["blocks"], parts)


_ARRAYS: dict[str, Decoder] = {
    "tensor": lambda item, tensors: widened(item, tensors[item["tensor"]]),
    "sparse": unpacked,
    "labels": _labels,
}
#: All kinds; a value is of the first one whose type it has.
_KINDS: tuple[Kind, ...] = (
    Kind(Expansion, _refuse_expansion, {}),
    Kind(np.ndarray, _encode_array, _ARRAYS),
    Kind((sp.sparray, sp.spmatrix), _encode_csr, {"csr": _csr}),
    Kind(Extractor, _encode_extractor, {"extractor": _extractor}),
    Kind(DualSupport, _encode_support, {"support": _support}),
    Kind(Solver, _encode_solver, {"solver": _solver}),
    _by_dict("kernel", Kernel, kernels.to_dict, kernels.from_dict),
    _by_dict("reading", Format, readings.to_dict, readings.from_dict),
    _by_dict("certificate", Certificate, Certificate.to_dict, Certificate.from_dict),
    _by_dict("rounds", Rounds, Rounds.to_dict, Rounds.from_dict),  # which are a kind of history
    _by_dict("history", History, History.to_dict, History.from_dict),
    _by_dict("curve", LearningCurve, LearningCurve.to_dict, LearningCurve.from_dict),
    _by_dict("value", os.PathLike, os.fspath, files.decode_nested),
    # Its state belongs to the run, not to the model.
    _by_dict("value", np.random.RandomState, lambda _: None, files.decode_nested),
    Kind(object, _encode_plain, {"value": lambda item, _: files.decode_nested(item["value"])}),
)
_DECODERS = {key: decoder for kind in _KINDS for key, decoder in kind.decoders.items()}
