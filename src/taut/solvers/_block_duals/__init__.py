"""Dual variables of all blocks, in the three forms that structures allow, with their visits.

- `EnumeratedDual`: few labels and an exact block step; one weight per label.
- `LabelledDual`: a compiled oracle; the planes found so far, kept as labels.
- `PythonDual`: a plain-Python oracle; the planes found so far, kept as sparse psi.

A visit of block i improves its dual variables at the current w and moves w accordingly.
"""

from taut.solvers._block_duals.base import BlockDual
from taut.solvers._block_duals.enumerated import EnumeratedDual
from taut.solvers._block_duals.labelled import LabelledDual
from taut.solvers._block_duals.python import PythonDual

__all__ = ["BlockDual", "EnumeratedDual", "LabelledDual", "PythonDual"]
