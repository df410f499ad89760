"""Models on disk: what of an estimator goes into a file, and how it comes back."""

from __future__ import annotations

import math
import os
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from taut.duals.support import DualSupport
from taut.estimators.encoding import decode, encode
from taut.estimators.learning_curve import LearningCurve
from taut.estimators.packing import Packing
from taut.features import Extractor
from taut.kernels import Kernel
from taut.readers import Format
from taut.result import Certificate, History, Rounds
from taut.storage import files
from taut.storage.stored import LOOSE_TYPES, check_size, check_types, require
from taut.storage.versions import versions

KIND = "model"
_NOT_SAVED = ("callbacks", "checkpoint", "structure")


def save(model: Any, path: str | os.PathLike, packing: Packing) -> None:
    """Write a fitted estimator to a file."""
    tensors: dict[str, np.ndarray] = {}
    fitted = {
        name: value
        for name, value in vars(model).items()
        if name.endswith("_") and not name.startswith("_")
    }
    meta = {
        "class": type(model).__name__,
        "parameters": {
            name: encode(name, value, tensors)
            for name, value in model._plain_params().items()
            if name not in _NOT_SAVED
        },
        "fitted": {
            name: encode(name, value, tensors, packing)
            for name, value in packing.certified(fitted).items()
        },
        "versions": versions(),
    }
    files.write(path, KIND, tensors, meta)


def writers_of(meta: dict[str, Any]) -> str:
    """In words, which versions wrote a file; files of before they were noted say nothing."""
    versions = meta.get("versions")
    if not isinstance(versions, dict):
        return ""
    return (
        f" (written by {', '.join(f'{name} {version}'[:50] for name, version in versions.items())})"
    )


def restored(
    cls: Any, tensors: dict[str, np.ndarray], meta: dict[str, Any], parameters: dict[str, Any]
) -> Any:
    """The estimator that `save` was given; `parameters` are those that shall differ.

    Raises
    ------
    InvalidData
        The fitted attributes are none that this class's `fit` makes, or do not agree.
    """
    saved = {name: decode(value, tensors) for name, value in meta["parameters"].items()}
    forbidden = saved.keys() & set(_NOT_SAVED)
    require(not forbidden, f"{forbidden} are not stored")
    check_types(cls, saved, LOOSE_TYPES)
    model = cls(**saved | parameters)
    fitted = {name: decode(value, tensors) for name, value in meta["fitted"].items()}
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


class Extraction(NamedTuple):
    """A fitted extractor, with as many columns as others have features."""

    shape: Shape

    def look_at(self, name: str, value: Any) -> tuple[tuple[int, ...], Shape]:
        """As of `Weights`."""
        require(isinstance(value, Extractor) and hasattr(value, "columns_"), f"{name} is unfitted")
        return (value.n_features_out_,), self.shape


class Reading(NamedTuple):
    """How a file was read; columns with names are as many as others have features."""

    shape: Shape

    def look_at(self, name: str, value: Any) -> tuple[tuple[int, ...], Shape]:
        """As of `Weights`."""
        require(isinstance(value, Format), f"{name} is no format of files")
        names = value.feature_names
        return ((), ()) if names is None else ((len(names),), self.shape)


Form = Weights | Labels | Rows | Places | Value | Extraction | Reading

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
    "dual_support_": Value(DualSupport),
    "reading_": Reading(("features",)),
}
#: Of the estimators that make features themselves.
_EXTRACTED: dict[str, Form] = {"features_": Extraction(("features",))}
_EXTRACTING = ("BinarySVM", "MulticlassSVM", "ChainSVM")
_WITH_KERNEL: dict[str, Form] = {
    "support_vectors_": Rows(("support", "features")),
    "support_classes_": Weights(("support",)),
}


def _check_fitted(name: str, fitted: dict[str, Any]) -> None:
    """Refuse attributes that are not those of an estimator, and shapes that do not agree."""
    forms, optional = _TRAINED | FITTED[name], _OPTIONAL
    if name in _EXTRACTING:
        optional = optional | _EXTRACTED
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
