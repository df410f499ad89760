"""Dual variables of all blocks, in the forms that structures allow, with their visits.

- `EnumeratedDual`: few labels and an exact block step; one weight per label.
- `LabelledDual`: a compiled oracle; the planes found so far, kept as labels. With a sampler it does
  without the Gram matrix of these.
- `PythonDual`: a plain-Python oracle; the planes found so far, kept as sparse psi.
- `KeptDual`: no features, and no oracle; the planes found before, kept as labels and psi.
- `MergedDual`, `MergedPythonDual`: a sampler of labels; all that were found as one plane, by its
  mean statistics or as sparse psi.
- `MarginalDual`: an expectation oracle; the mean statistics of a distribution over labels, moved
  block by block, or all blocks at once in `BatchMarginalDual`.

A visit of block i improves its dual variables at the current w and moves w accordingly.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from taut.binding import Data, PythonData
from taut.duals.base import BlockDual, PlaneDual
from taut.duals.enumerated import EnumeratedDual
from taut.duals.kept import KEPT_FORMS, KeptDual
from taut.duals.labelled import LabelledDual
from taut.duals.marginal import BatchMarginalDual, MarginalDual
from taut.duals.merged import MergedDual
from taut.duals.python import MergedPythonDual, PythonDual

__all__ = [
    "KEPT_FORMS",
    "BatchMarginalDual",
    "BlockDual",
    "EnumeratedDual",
    "KeptDual",
    "LabelledDual",
    "MarginalDual",
    "MergedDual",
    "MergedPythonDual",
    "PythonDual",
    "planes_of",
]


def planes_of(
    data: Data,
    weight: np.ndarray,
    n_jobs: int,
    step: Callable,
    max_steps: int = 1,
    **settings: Any,
) -> PlaneDual:
    """The planes that an oracle finds, as labels where it is compiled, else as sparse psi."""
    if isinstance(data, PythonData):
        return PythonDual(data, weight, n_jobs, step, max_steps, **settings)
    return LabelledDual(data, weight, n_jobs, step, max_steps, **settings)
