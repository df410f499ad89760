"""Kernels as JSON values: names and numbers, nothing that is executed."""

from __future__ import annotations

from typing import Any

import numpy as np

from taut.errors import InvalidType
from taut.kernels.base import Kernel
from taut.kernels.columns import Chi2, Intersection, Laplacian
from taut.kernels.combined import Multiple, Product, Sum
from taut.kernels.given import Precomputed
from taut.kernels.products import RBF, Linear, Polynomial, VonMises
from taut.storage.stored import require

_DEEPEST = 20  # kernels within kernels

#: Those that can be stored, by name.
KERNELS: dict[str, type[Kernel]] = {
    kernel.__name__: kernel
    for kernel in (
        RBF, Chi2, Intersection, Laplacian, Linear, Multiple, Polynomial, Precomputed, Product, Sum,
        VonMises,
    )
}  # fmt: skip


def to_dict(kernel: Kernel) -> dict[str, Any]:
    """A kernel as JSON values.

    Examples
    --------
    >>> from taut.kernels import RBF
    >>> from taut.kernels.stored import to_dict
    >>> to_dict(2.0 * RBF(0.5))["settings"]
    {'kernel': {'name': 'RBF', 'settings': {'gamma': 0.5}}, 'factor': 2.0}
    """
    name = type(kernel).__name__
    if KERNELS.get(name) is not type(kernel):
        raise InvalidType(
            f"{kernel!r} is a function of yours and cannot be stored: fit with "
            "kernel='precomputed' and the matrix of its values, or pickle the model"
        )
    return {"name": name, "settings": {key: _plain(v) for key, v in kernel.settings().items()}}


def _plain(value: Any) -> Any:
    if isinstance(value, Kernel):
        return to_dict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.item() if isinstance(value, np.generic) else value


def from_dict(values: Any, depth: int = 0) -> Kernel:
    """The inverse of `to_dict`; refuses what it cannot have made."""
    require(isinstance(values, dict) and values.keys() == {"name", "settings"}, "no kernel")
    name, settings = values["name"], values["settings"]
    require(isinstance(name, str) and name in KERNELS, f"unknown kernel {name!r:.50}")
    require(isinstance(settings, dict) and depth < _DEEPEST, f"settings of {name} are none")
    read = {key: _read(value, depth + 1) for key, value in settings.items()}
    kernel = KERNELS[name].of_settings(read)
    require(kernel.settings().keys() == settings.keys(), f"{name} has other settings")
    return kernel


def _read(value: Any, depth: int) -> Any:
    if isinstance(value, list):
        require(0 < len(value) < 1000, "kernels without end")
        return tuple(from_dict(item, depth) for item in value)
    return from_dict(value, depth) if isinstance(value, dict) else value
