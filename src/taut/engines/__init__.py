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
from taut.engines.paired import PairedSets
from taut.engines.part import Ascent
from taut.engines.serial import Serial
from taut.engines.working import WorkingSets
from taut.problem import Problem

__all__ = ["engine_of"]


def _working_sets(problem: Any, ascent: Ascent, rng: np.random.Generator) -> Engine:
    """Working sets of pair steps where blocks allow them, else of sweeps."""
    of_pairs = problem.data.signed_rows is not None
    return (PairedSets if of_pairs else WorkingSets)(problem, ascent, rng)


_ENGINES: dict[str, Callable[[Any, Ascent, np.random.Generator], Engine]] = {
    "whole": Serial,
    "chunks": Chunks,
    "rows": _working_sets,
}


def engine_of(problem: Problem, ascent: Ascent, rng: np.random.Generator) -> Engine:
    """The engine that has all dual variables of a problem, with a = 0."""
    return _ENGINES[problem.comes_as](problem, ascent, rng)
