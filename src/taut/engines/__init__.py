"""Where sweeps over blocks happen: each engine is one file here.

A solver says what a sweep does (`Ascent`). A `Part` is some blocks with their dual variables. An
engine has parts: one of all blocks, one for each chunk that is read, or segments in a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from taut.engines.base import Engine
from taut.engines.chunks import Chunks
from taut.engines.part import Ascent
from taut.engines.serial import Serial
from taut.engines.working import WorkingSets
from taut.problem import Problem

__all__ = ["engine_of"]

_ENGINES: dict[str, Callable[[Any, Ascent, np.random.Generator], Engine]] = {
    "whole": Serial,
    "chunks": Chunks,
    "rows": WorkingSets,
}


def engine_of(problem: Problem, ascent: Ascent, rng: np.random.Generator) -> Engine:
    """The engine that has all dual variables of a problem, with a = 0."""
    return _ENGINES[problem.comes_as](problem, ascent, rng)
