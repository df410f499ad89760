"""Models on disk: what of an estimator goes into a file, and how it comes back."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from taut import files
from taut.errors import InvalidFile, InvalidType
from taut.result import Certificate, History, Rounds
from taut.solvers import SOLVERS, Solver

KIND = "model"
_NOT_SAVED = ("callbacks", "checkpoint", "structure")


def save(model: Any, path: str | os.PathLike) -> None:
    """Write a fitted estimator to a file."""
    tensors: dict[str, np.ndarray] = {}
    meta = {
        "class": type(model).__name__,
        "parameters": {
            name: _encode(name, value, tensors)
            for name, value in model._plain_params().items()
            if name not in _NOT_SAVED
        },
        "fitted": {
            name: _encode(name, value, tensors)
            for name, value in vars(model).items()
            if name.endswith("_") and not name.startswith("_")
        },
    }
    files.write(path, KIND, tensors, meta)


def restored(
    cls: Any, tensors: dict[str, np.ndarray], meta: dict[str, Any], parameters: dict[str, Any]
) -> Any:
    """The estimator that `save` was given; `parameters` are those that shall differ."""
    saved = {name: _decode(value, tensors) for name, value in meta["parameters"].items()}
    model = cls(**saved | parameters)
    for name, value in meta["fitted"].items():
        setattr(model, name, _decode(value, tensors))
    return model


def _encode(name: str, value: Any, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
    """A parameter or fitted attribute as JSON; arrays of numbers go into `tensors`."""
    if _is_numeric_list(value) or (hasattr(value, "__array__") and not np.isscalar(value)):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.ndarray):
        labels = [files.encode_label(label) for label in value.tolist()]
        return {"labels": labels, "dtype": value.dtype.str}
    if isinstance(value, Certificate):
        return {"certificate": value.to_dict()}
    if isinstance(value, Rounds):
        return {"rounds": value.to_dict()}
    if isinstance(value, History):
        return {"history": value.to_dict()}
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


def _is_numeric_list(value: Any) -> bool:
    """Whether this is a list that is a vector or matrix of numbers, not a tree of labels."""
    if not isinstance(value, list):
        return False
    try:
        array = np.asarray(value)
    except ValueError:  # of lists of different lengths
        return False
    return array.dtype.kind in "biuf" and array.ndim <= 2


def _decode(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> Any:
    """The inverse of `_encode`."""
    for kind, decoder in _DECODERS.items():
        if kind in item:
            return decoder(item, tensors)
    raise InvalidFile(f"unknown item {sorted(item)}")


def _labels(item: dict[str, Any], tensors: dict[str, np.ndarray]) -> np.ndarray:
    # Not np.array, which would make a matrix of labels that are tuples.
    labels = np.fromiter(map(files.decode_label, item["labels"]), dtype=object)
    return labels.astype(item["dtype"])


_DECODERS: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Any]] = {
    "tensor": lambda item, tensors: tensors[item["tensor"]],
    "labels": _labels,
    "certificate": lambda item, _: Certificate.from_dict(item["certificate"]),
    "history": lambda item, _: History.from_dict(item["history"]),
    "rounds": lambda item, _: Rounds.from_dict(item["rounds"]),
    "solver": lambda item, _: SOLVERS[item["solver"]](**item["settings"]),
    "value": lambda item, _: files.decode_nested(item["value"]),
}
