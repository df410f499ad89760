"""Whether the methods of a plain structure can be called in the way in which they will be."""

from __future__ import annotations

import inspect
from typing import Any

from taut.errors import InvalidStructure
from taut.structures.abilities import ability
from taut.structures.base import Structure

#: How each method is written, and the arguments of its calls.
_CALLS: dict[str, tuple[str, list[tuple[str, ...]]]] = {
    "features": ("features(self, x, label)", [("x", "label")]),
    "loss": ("loss(self, truth, label), or loss(self, truth, label, x)", [("truth", "label")]),
    "argmax": ("argmax(self, x, w, truth=None)", [("x", "w", "truth"), ("x", "w")]),
    "bounded_argmax": ("bounded_argmax(self, x, w, truth=None)", [("x", "w", "truth"), ("x", "w")]),
    "complete": ("complete(self, x, truth, w=None)", [("x", "truth"), ("x", "truth", "w")]),
    "labels": ("labels(self, x)", [("x",)]),
    "sample": ("sample(self, x, w, truth, count)", [("x", "w", "truth", "count")]),
    "m_best": ("m_best(self, x, w, truth, count)", [("x", "w", "truth", "count")]),
}


def check_signatures(structure: Any) -> None:
    """Refuse methods that do not take the arguments that they will get.

    Else a `TypeError` would come out of the library's own code, and say nothing of what to write.
    """
    inner = ability(structure, "structure")
    if isinstance(inner, Structure):
        check_signatures(inner)
    predicts = ability(structure, "scores_predict")
    for name, (wanted, calls) in _CALLS.items():
        method = getattr(structure, name, None)
        if not callable(method):
            continue
        try:
            signature = inspect.signature(method)
        except (TypeError, ValueError):  # of compiled extensions, which do not tell
            continue
        for arguments in calls:
            if name.endswith("argmax") and "truth" not in arguments and not predicts:
                continue  # nobody asks for a prediction by score
            more = {"x": "x"} if name == "loss" and "x" in signature.parameters else {}
            try:
                signature.bind(*arguments, **more)
            except TypeError as error:
                raise InvalidStructure(
                    f"{type(structure).__name__}.{name} takes {signature}, and cannot be called as "
                    f"{name}({', '.join(arguments)}) ({error}): write {wanted}"
                ) from None
