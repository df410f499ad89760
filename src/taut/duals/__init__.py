"""Dual variables of all blocks, in the forms that structures allow, with their visits.

- `EnumeratedDual`: few labels and an exact block step; one weight per label.
- `LabelledDual`: a compiled oracle; the planes found so far, kept as labels.
- `PythonDual`: a plain-Python oracle; the planes found so far, kept as sparse psi.
- `KeptDual`: no features, and no oracle; the planes found before, kept as labels and psi.
- `MergedDual`: a sampler of labels; the mean statistics of all that were found, as one plane.
- `MarginalDual`: an expectation oracle; the mean statistics of a distribution over labels, moved
  block by block, or all blocks at once in `BatchMarginalDual`.

A visit of block i improves its dual variables at the current w and moves w accordingly.
"""

from taut.duals.base import BlockDual
from taut.duals.enumerated import EnumeratedDual
from taut.duals.kept import KEPT_FORMS, KeptDual
from taut.duals.labelled import LabelledDual
from taut.duals.marginal import BatchMarginalDual, MarginalDual
from taut.duals.merged import MergedDual
from taut.duals.python import PythonDual

__all__ = [
    "KEPT_FORMS",
    "BatchMarginalDual",
    "BlockDual",
    "EnumeratedDual",
    "KeptDual",
    "LabelledDual",
    "MarginalDual",
    "MergedDual",
    "PythonDual",
]
