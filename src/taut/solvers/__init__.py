"""How to optimise: each solver is one file here and one line below."""

from taut.solvers.base import DualState, PassReport, Solver
from taut.solvers.dual_coordinate import DualCoordinate
from taut.solvers.online_cache import OnlineCache

SOLVERS: dict[str, type[Solver]] = {solver.name: solver for solver in (DualCoordinate, OnlineCache)}

__all__ = ["SOLVERS", "DualCoordinate", "DualState", "OnlineCache", "PassReport", "Solver"]
