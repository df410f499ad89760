"""With what an online model began: it can go on with nothing else, in this process or another."""

from __future__ import annotations

from typing import Any

from taut.errors import InvalidData, InvalidType
from taut.estimators.forms import KERNEL, form_of
from taut.kernels import Kernel, as_kernel
from taut.kernels.stored import to_dict
from taut.spaces.features import RowFeatures
from taut.storage.digest import LEAVE_OUT, Digest

#: The attribute that has the structure itself; no file holds it.
STRUCTURE = "_begun_with"
_SAME = ": go on with the same, or begin anew with fit"


def beginning_of(model: Any) -> dict[str, Any]:
    """What a model remembers of its settings at the first call, as fitted attributes."""
    begun: dict[str, Any] = {}
    if model.structure is None:
        begun["begun_bias_"] = model._bias
    else:
        begun["begun_structure_"] = _of_structure(model.structure).digest().hex()
        begun[STRUCTURE] = model.structure
    if form_of(model.kernel) is KERNEL:
        begun["begun_kernel_"] = _asked_for(model)
    return begun


def known_beginning(model: Any) -> dict[str, Any]:
    """What a model that has learned remembers."""
    names = ("begun_bias_", "begun_structure_", "begun_kernel_", STRUCTURE)
    return {name: value for name, value in vars(model).items() if name in names}


def check_beginning(model: Any) -> None:
    """Refuse settings that a model which has learned did not begin with."""
    check_structure_known(model)
    if model.structure is None and model._bias != model.begun_bias_:
        raise InvalidData(
            f"fit_intercept = {model.fit_intercept} and intercept_scaling = "
            f"{model.intercept_scaling} make a constant feature of {model._bias:g}, and the model "
            f"so far has one of {model.begun_bias_:g}{_SAME}"
        )
    through_kernel = form_of(model.kernel) is KERNEL
    if through_kernel != hasattr(model, "kernel_"):
        before = model.kernel_ if hasattr(model, "kernel_") else "'linear'"
        raise InvalidData(f"kernel = {model.kernel!r}, and the model so far has {before}{_SAME}")
    if not through_kernel:
        return
    given, known = _asked_for(model), model.kernel_
    if known.of_matrix:
        raise InvalidData(
            "the matrix of a kernel is of the rows of one call: partial_fit needs the rows "
            "themselves, give another kernel"
        )
    # The same words, or the numbers that they stood for.
    if not (_are_same(given, model.begun_kernel_) or _are_same(given, known)):
        raise InvalidData(f"kernel = {given!r}, and the model so far has {known!r}{_SAME}")


def check_structure_known(model: Any) -> None:
    """Refuse another structure than the one that the weights were learned for."""
    known = getattr(model, "begun_structure_", None)
    if (model.structure is None) != (known is None):
        before = "classes of rows" if known is None else "a structure"
        raise InvalidData(
            f"structure = {model.structure!r}, and the model has learned {before}: give structure= "
            "as it was, or begin anew with fit"
        )
    if known is None:
        return
    digest = _of_structure(model.structure)
    # What a user's own object keeps for itself may grow while it is used.
    itself = digest.of_users and getattr(model, STRUCTURE, None) is model.structure
    if not itself and digest.digest().hex() != known:
        raise InvalidData(
            f"structure = {type(model.structure).__name__}(...) is not the one that the model was "
            "fitted with: give one of the same class with the same parameters, such as cost, or "
            "begin anew with fit" + (LEAVE_OUT if digest.of_users else "")
        )


def columns_of_rows(data: Any) -> dict[str, int]:
    """How many columns bound data have, where they are rows of features; as a fitted attribute."""
    features = getattr(getattr(data, "blocks", None), "features", None)
    if not isinstance(features, RowFeatures):
        return {}
    return {"n_features_in_": features.n_rows - (features.bias != 0.0)}


def check_columns_of_rows(model: Any, data: Any) -> None:
    """Refuse rows of a structure with other columns than those that were learned from."""
    found, known = columns_of_rows(data), vars(model).get("n_features_in_")
    if found and known is not None and found["n_features_in_"] != known:
        raise InvalidData(
            f"X has {found['n_features_in_']} features, and the model has learned from {known}: "
            "give X with the same features"
        )


def _asked_for(model: Any) -> Kernel:
    return as_kernel(model.kernel, model.gamma, model.degree, model.coef0)


def _of_structure(structure: Any) -> Digest:
    # Without the code of classes, which differs between versions of Python and of this library: a
    # file is to outlive them.
    digest = Digest()
    digest.add(structure)
    return digest


def _are_same(one: Kernel, other: Kernel) -> bool:
    """Whether two kernels are; functions of the user's by their code, also of the same name."""
    try:
        return to_dict(one) == to_dict(other)
    except InvalidType:
        return _token(one) == _token(other)


def _token(kernel: Kernel) -> bytes:
    digest = Digest(code=True)
    digest.add(kernel)
    return digest.digest()
