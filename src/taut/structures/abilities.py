"""What a structure can do beyond what all of them do, asked in one place.

Plain structures need not inherit from anything: they have three methods, and perhaps more.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from taut.result import THE_OBJECTIVE
from taut.structures.base import Structure

#: What a structure may leave out, and what counts then.
_LEFT_OUT: dict[str, Any] = {
    "bounded_argmax": None,
    "certifies": THE_OBJECTIVE,
    "complete": None,
    "labels": None,
    "m_best": None,
    "oracles": None,
    "points": "weights",
    "sample": None,
    "scores_predict": True,
    "searches": False,  # by a function of the user's, in a structure of the library's
    "signed_losses": False,
    "structure": None,  # of a wrapper, such as `SlackRescaled`
    "takes_checked": True,
    "takes_examples": True,
}


def ability(structure: Any, name: str) -> Any:
    """What a structure says of itself or can do beyond its three methods; None where it cannot."""
    return getattr(structure, name, _LEFT_OUT[name])


def bounded_argmax(structure: Any, x: Any, w: np.ndarray, *truth: Any) -> tuple[Any, float]:
    """`Structure.bounded_argmax`, also of what has the three methods and inherits nothing."""
    oracle = ability(structure, "bounded_argmax")
    return (structure.argmax(x, w, *truth), 0.0) if oracle is None else oracle(x, w, *truth)


def loss_of(structure: Any) -> Callable[[Any, Any, Any], float]:
    """`Structure.loss` as a function of x, truth and label, whether it asks for x or not."""
    loss = structure.loss
    if "x" in inspect.signature(loss).parameters:
        return lambda x, truth, label: loss(truth, label, x=x)
    return lambda x, truth, label: loss(truth, label)


def is_exact(structure: Any) -> bool:
    """Whether a plain structure's argmax has no error to state."""
    oracle = ability(type(structure), "bounded_argmax")
    return oracle is None or oracle is Structure.bounded_argmax


def is_users(structure: Any) -> bool:
    """Whether a structure, or the one that a wrapper of this library holds, is a user's own."""
    if type(structure).__module__.partition(".")[0] != "taut":
        return True
    inner = ability(structure, "structure")
    return inner is not None and is_users(inner)
