"""Oracles bound to data: the only place where the two meet.

A structure is compiled or plain Python, and `bind` gives either a form that the rest of the library
works with: hinges of all blocks at some weights, predictions, latent parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeGuard

import numpy as np

from taut.binding.arena import Arena, Room
from taut.binding.compiled import CompiledData
from taut.binding.joint import JointData
from taut.binding.mined import MinedLabels, nothing_mined
from taut.binding.other_labels import Findings
from taut.binding.plain import PythonData, plain
from taut.binding.spot_check import spot_check
from taut.compiled.threads import in_threads
from taut.errors import InvalidData
from taut.spaces.features import Features
from taut.spaces.regularizer import Prior, Regularizer
from taut.structures._signatures import check_signatures
from taut.structures.abilities import ability
from taut.structures.base import CompiledStructure, Structure

Data = CompiledData | PythonData

__all__ = [
    "Arena",
    "CompiledData",
    "Data",
    "Findings",
    "MinedLabels",
    "PythonData",
    "Room",
    "bind",
    "complete",
    "completed",
    "has_oracle",
    "in_threads",
    "nothing_mined",
    "spot_check",
]


def bind(
    structure: Structure | CompiledStructure,
    X: Any,
    y: Any = None,
    regularizer: Regularizer | Prior | None = None,
    room: Room | None = None,
    space: Callable[[Features], Features] | None = None,
) -> Data:
    """Structure and data together; without y, for prediction only."""
    if isinstance(structure, CompiledStructure):
        blocks = structure.encode(X, y)
        if space is not None:
            blocks = replace(blocks, features=space(blocks.features))
        return CompiledData(structure, blocks, regularizer, room)
    if space is not None:
        raise InvalidData(
            f"{type(structure).__name__} is plain Python, whose features are vectors: a space of "
            "another kind needs a compiled structure"
        )
    check_signatures(structure)
    return _PLAIN[ability(structure, "points")](structure, X, y, regularizer)


#: Plain structures, by what their points are.
_PLAIN: dict[str, type[PythonData]] = {"weights": PythonData, "pairs": JointData}


def has_oracle(data: Data, name: str) -> TypeGuard[CompiledData]:
    """Whether data are those of a compiled structure that has this one of its optional oracles."""
    return getattr(data.operations, name) is not None


def complete(
    structure: Any,
    X: Any,
    y: Any,
    w: np.ndarray | None = None,
    n_jobs: int = 1,
    space: Callable[[Features], Features] | None = None,
) -> Sequence[Any]:
    """The truths y with their best latent parts under w; with a first guess without w."""
    if not isinstance(structure, CompiledStructure):
        return _completed_plainly(structure, X, y, *(() if w is None else (w,)))
    return y if w is None else completed(bind(structure, X, space=space), X, y, w, n_jobs)


def completed(data: Data, X: Any, y: Any, w: np.ndarray, n_jobs: int = 1) -> Sequence[Any]:
    """The same for X that is bound already, without truths."""
    if isinstance(data, CompiledData):
        return data.completed(data.structure.encode(X, y).truth, w, n_jobs)
    return _completed_plainly(data.structure, X, y, w)


def _completed_plainly(structure: Any, X: Any, y: Any, *guess: np.ndarray) -> Sequence[Any]:
    if len(y) != len(X):
        raise InvalidData(f"X has {len(X)} examples, y has {len(y)}: give one label to each")
    check_signatures(structure)
    pairs = zip(plain(X), plain(y), strict=True)
    return [structure.complete(x, truth, *guess) for x, truth in pairs]
