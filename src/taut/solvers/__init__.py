"""How to optimise: each solver is one file here and one line below."""

from taut.solvers.base import DualState, PassReport, Solver
from taut.solvers.dual_coordinate import DualCoordinate

SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in (DualCoordinate,)}

__all__ = ["SOLVERS", "DualCoordinate", "DualState", "PassReport", "Solver"]
