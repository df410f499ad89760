"""Models on disk: what of an estimator goes into a file, and how it comes back."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.errors import InvalidFile, InvalidType
from taut.estimators.learning_curve import LearningCurve
from taut.kernels import Function, Kernel
from taut.kernels import stored as kernels
from taut.result import Certificate, History, Rounds
from taut.solvers import SOLVERS, Solver
from taut.spaces.joint import Expansion
from taut.storage import files
from taut.storage.stored import LOOSE_TYPES, check_size, check_types, require

KIND = "model"
_NOT_SAVED = ("callbacks", "checkpoint", "structure")
_WIDEST = 2**20  # bytes of a label
_CSR = ("data", "indices", "indptr")


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
    """The estimator that `save` was given; `parameters` are those that shall differ.

    Raises
    ------
    InvalidData
        The fitted attributes are none that this class's `fit` makes, or do not agree.
    """
    saved = {name: _decode(value, tensors) for name, value in meta["parameters"].items()}
    forbidden = saved.keys() & set(_NOT_SAVED)
    require(not forbidden, f"{forbidden} are not stored")
    check_types(cls, saved, LOOSE_TYPES)
    model = cls(**saved | parameters)
    fitted = {name: _decode(value, tensors) for name, value in meta["fitted"].items()}
    _check_fitted(cls.__name__, fitted)
    vars(model).update(fitted)
    return model


Shape = tuple[int | str, ...]


class Weights(NamedTuple):
    """Finite numbers; lengths with the same name are equal in all attributes of a model."""

    shape: Shape

    def look_at(self, name: str, value: Any) -> tuple[tuple[int, ...], Shape]:
        """Refuse what is none; the shape that it has, and the one that it must have."""
        numbers = isinstance(value, np.ndarray) and value.dtype.kind in "fi"
        require(numbers, f"{name} are no numbers")
        check_size(name, value)
        return value.shape, self.shape


class Labels(NamedTuple):
    """Labels, none twice."""

    shape: Shape

    def look_at(self, name: str, value: Any) -> tuple[tuple[int, ...], Shape]:
        """As of `Weights`."""
        require(isinstance(value, np.ndarray), f"{name} are no labels")
        require(len(set(value.ravel().tolist())) == value.size, f"{name} has labels twice")
        return value.shape, self.shape


class Rows(NamedTuple):
    """Rows of finite numbers, dense or CSR."""

    shape: Shape

    def look_at(self, name: str, value: Any) -> tuple[tuple[int, ...], Shape]:
        """As of `Weights`."""
        numbers = value.data if sp.issparse(value) else value
        fits = isinstance(numbers, np.ndarray) and numbers.dtype in (np.float32, np.float64)
        require(fits, f"{name} are no rows of numbers")
        check_size(name, numbers)
        return value.shape, self.shape


class Places(NamedTuple):
    """Numbers of rows, each once and in rising order."""

    shape: Shape

    def look_at(self, name: str, value: Any) -> tuple[tuple[int, ...], Shape]:
        """As of `Weights`."""
        numbers = isinstance(value, np.ndarray) and value.dtype == np.int64
        require(numbers and value.ndim == 1, f"{name} are no numbers of rows")
        require((np.diff(value) > 0).all() and (value >= 0).all(), f"{name} do not rise")
        return value.shape, self.shape


class Value(NamedTuple):
    """An object of this type; a number is in the range, an integer may be a length by its name."""

    type: Any
    low: float = -math.inf
    length: Shape = ()

    def look_at(self, name: str, value: Any) -> tuple[tuple[int, ...], Shape]:
        """As of `Weights`."""
        fits = isinstance(value, self.type) and not isinstance(value, bool)
        require(fits, f"{name} is of type {type(value).__name__}")
        if self.type in (Real, Integral):
            require(self.low <= value < math.inf, f"{name} = {value!r:.50}")
        return (value,) * len(self.length), self.length


Form = Weights | Labels | Rows | Places | Value

_TRAINED: dict[str, Form] = {
    "certificate_": Value(Certificate),
    "history_": Value(History),
    "n_iter_": Value(Integral, 0),
}
_COLUMNS: dict[str, Form] = {"n_features_in_": Value(Integral, 1, ("features",))}
_SCORES: dict[str, Form] = {
    "coef_": Weights(("classes", "features")),
    "classes_": Labels(("classes",)),
}
_COSTS: dict[str, Form] = {"cost_": Weights(("classes", "classes"))}
_INTERCEPTS: dict[str, Form] = {"intercept_": Weights(("classes",))}
_LATENT: dict[str, Form] = {"rounds_": Value(Rounds)}
_TWO: dict[str, Form] = {
    "coef_": Weights((1, "features")),
    "intercept_": Weights((1,)),
    "classes_": Labels((2,)),
}
_PAIRS: dict[str, Form] = {"pairwise_": Weights(("edge features", "ties"))}

_BOXES: dict[str, Form] = {
    "coef_": Weights(("joint features",)),
    "classes_": Labels(("classes",)),
    "templates_": Weights(("templates", 3)),
    "scales_": Weights(("scales",)),
    "extraction_": Weights((5,)),
    "refinement_": Weights((4, "refined")),
}

_PARTS: dict[str, Form] = {
    "coef_": Weights(("joint features",)),
    "names_": Labels(("parts",)),
    "parents_": Weights(("parts",)),
    "counts_": Weights(("parts",)),
    "anchors_": Weights(("aspects", 2)),
    "layout_": Weights(("parts", 2)),
    "scales_": Weights(("scales",)),
    "extraction_": Weights((4,)),
}

#: The fitted attributes of each estimator, beside those that all have.
FITTED: dict[str, dict[str, Form]] = {
    "BinarySVM": _COLUMNS | _TWO,
    "MulticlassSVM": _COLUMNS | _SCORES | _INTERCEPTS | _COSTS,
    "RegressionSVM": _COLUMNS | {"coef_": Weights(("features",)), "intercept_": Weights((1,))},
    "ChainSVM": _COLUMNS
    | _SCORES
    | {
        "transition_": Weights(("classes", "classes")),
        "start_": Weights(("classes",)),
        "end_": Weights(("classes",)),
    },
    "TreeSVM": _COLUMNS | _SCORES | _PAIRS,
    "GraphSVM": _COLUMNS | _SCORES | _PAIRS,
    "RankSVM": _COLUMNS | {"coef_": Weights(("features",))},
    "StructuredSVM": {"coef_": Weights(("joint features",))},
    "LatentSVM": _COLUMNS | _TWO | _LATENT,
    "LatentStructuredSVM": {"coef_": Weights(("joint features",))} | _LATENT,
    "LatentMulticlassSVM": _COLUMNS | _SCORES | _INTERCEPTS | _COSTS | _LATENT,
    "BoxSVM": _BOXES,
    "LatentBoxSVM": _BOXES | _LATENT,
    "PoseSVM": {
        "coef_": Weights(("joint features",)),
        "template_": Weights((2,)),
        "scales_": Weights(("scales",)),
        "stretches_": Weights(("stretches",)),
        "angles_": Weights(("angles",)),
        "angle_values_": Weights(("compared angles", "angles")),
        "extraction_": Weights((8,)),
        "refinement_": Weights((4, "refined")),
    },
    "PartSVM": _PARTS,
    "LatentPartSVM": _PARTS | _LATENT | {"box_": Weights((4,)), "class_": Labels((1,))},
    "OnlineSVM": _COLUMNS
    | {
        "coef_": Weights(("scores", "features")),
        "intercept_": Weights(("scores",)),
        "classes_": Labels(("classes",)),
        "begun_bias_": Value(Real, 0.0),
    },
}
#: Of an `OnlineSVM` with a structure of the user's.
_ONLINE_STRUCTURED: dict[str, Form] = {
    "coef_": Weights(("joint features",)),
    "begun_structure_": Value(str),
}
#: Where an online model stands, in place of what a training that ended leaves.
_COURSE: dict[str, Form] = {
    "last_": Weights(("last",)),
    "learning_curve_": Value(LearningCurve),
    "n_steps_": Value(Integral, 0),
    "n_seen_": Value(Integral, 0),
    "n_calls_": Value(Integral, 0),
    "n_evaluations_": Value(Integral, 0),
}

#: The columns of scores where `coef_` has these lengths.
_COLUMNS_OF: dict[Shape, int | str] = {
    (1, "features"): 1,
    ("features",): 1,
    ("classes", "features"): "classes",
    ("joint features",): "columns",
    ("scores", "features"): "scores",
}
#: Lengths that may be 0: there are models without support, and structures without a tail.
_MAY_BE_EMPTY = ("support", "tail", "last")


def _through_kernel(forms: dict[str, Form]) -> dict[str, Form]:
    """What the same estimator has with a kernel."""
    coef: Any = forms["coef_"]
    columns = _COLUMNS_OF[coef.shape]
    others = {name: form for name, form in forms.items() if name != "coef_"}
    if columns == "columns":
        others["tail_"] = Weights(("tail",))
    return others | {
        "kernel_": Value(Kernel),
        "support_": Places(("support",)),
        "dual_coef_": Weights((columns, "support")),
        "intercept_": Weights((columns,)),
        "n_rows_": Value(Integral, 1, ("rows",)),
    }


#: Those that a fit may leave out, or that come later.
_OPTIONAL: dict[str, Form] = {
    "feature_names_in_": Labels(("features",)),
    "temperature_": Value(Real, 0.0),
    "latent_": Weights(("bags",)),
    "primal_": Value(Real, 0.0),
    "probability_": Weights((2,)),
}
_WITH_KERNEL: dict[str, Form] = {
    "support_vectors_": Rows(("support", "features")),
    "support_classes_": Weights(("support",)),
}


def _check_fitted(name: str, fitted: dict[str, Any]) -> None:
    """Refuse attributes that are not those of an estimator, and shapes that do not agree."""
    forms, optional = _TRAINED | FITTED[name], _OPTIONAL
    if name == "OnlineSVM":
        forms = (FITTED[name] if "classes_" in fitted else _ONLINE_STRUCTURED) | _COURSE
        optional = _OPTIONAL | _COLUMNS
    if "kernel_" in fitted:
        forms, optional = _through_kernel(forms), optional | _WITH_KERNEL
        if name == "OnlineSVM":
            forms["begun_kernel_"] = Value(Kernel)
        _check_support(fitted)
    missing = sorted(forms.keys() - fitted.keys())
    require(not missing, f"{missing} are missing")
    unknown = sorted(fitted.keys() - forms.keys() - optional.keys())
    require(not unknown, f"{unknown!r:.100} are no attributes of a fitted {name}")
    lengths: dict[str, int] = {}
    for attribute, value in fitted.items():
        form = (forms | optional)[attribute]
        shape, wanted = form.look_at(attribute, value)
        require(len(shape) == len(wanted), f"{attribute} has shape {shape}")
        for length, what in zip(shape, wanted):
            expected = lengths.setdefault(what, length) if isinstance(what, str) else what
            require(
                length == expected and length >= (what not in _MAY_BE_EMPTY),
                f"{attribute} has shape {shape}, expected {wanted} with {lengths}",
            )
    if "scores" in lengths:
        few = lengths["classes"] == 2
        require(lengths["scores"] == (1 if few else lengths["classes"]), "scores of other classes")


def _check_support(fitted: dict[str, Any]) -> None:
    """Refuse support rows that no training rows can have been."""
    kernel: Any
    support: Any
    n_rows: Any
    kernel, support, n_rows = (fitted.get(name) for name in ("kernel_", "support_", "n_rows_"))
    require(isinstance(kernel, Kernel), "kernel_ is no kernel")
    require(isinstance(n_rows, Integral) and isinstance(support, np.ndarray), "no support")
    require((support < n_rows).all(), f"support_ has rows beyond {n_rows}")
    classes = fitted.get("support_classes_", np.empty(0, dtype=np.int64))
    known = isinstance(classes, np.ndarray) and classes.dtype == np.int64
    require(known, "support_classes_ are no codes")
    inside = (classes >= 0) & (classes < np.size(fitted.get("classes_", ())))
    require(inside.all(), "support_classes_ has codes of no class")
    kept = "support_vectors_" in fitted
    require(kept != kernel.of_matrix, "support_vectors_ and kernel_ do not agree")
    if kernel.of_matrix:
        require(fitted.get("n_features_in_", n_rows) == n_rows, "the kernel matrix is not square")


def _encode(name: str, value: Any, tensors: dict[str, np.ndarray]) -> dict[str, Any]:
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
        tensors[name] = value
        return {"tensor": name}
    if isinstance(value, np.ndarray):
        labels = [files.encode_label(label) for label in value.tolist()]
        return {"labels": labels, "dtype": value.dtype.str}
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
    if name == "schedule" and callable(value):
        raise InvalidType(
            f"schedule = {value!r} is a function, which no file can hold: call "
            "set_params(schedule='constant') before saving, and give it again after loading"
        )
    if sp.issparse(value):
        parts = {part: f"{name}.{part}" for part in _CSR}
        tensors.update({tensor: getattr(value, part) for part, tensor in parts.items()})
        return {"csr": parts, "shape": list(map(int, value.shape))}
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
    rows = sp.csr_array((data, indices, indptr), shape=(n, width))
    require(rows.has_canonical_format, "columns of CSR rows that do not rise")
    return rows


_DECODERS: dict[str, Callable[[dict[str, Any], dict[str, np.ndarray]], Any]] = {
    "tensor": lambda item, tensors: tensors[item["tensor"]],
    "labels": _labels,
    "kernel": lambda item, _: kernels.from_dict(item["kernel"]),
    "csr": _csr,
    "certificate": lambda item, _: Certificate.from_dict(item["certificate"]),
    "history": lambda item, _: History.from_dict(item["history"]),
    "curve": lambda item, _: LearningCurve.from_dict(item["curve"]),
    "rounds": lambda item, _: Rounds.from_dict(item["rounds"]),
    "solver": _solver,
    "value": lambda item, _: files.decode_nested(item["value"]),
}
