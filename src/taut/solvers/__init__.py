"""How to optimise: each solver is one file here and one line below."""

from taut.solvers.base import DualState, PassReport, Solver
from taut.solvers.dual_coordinate import DualCoordinate
from taut.solvers.frank_wolfe import FrankWolfe
from taut.solvers.n_slack import NSlack
from taut.solvers.one_slack import OneSlack
from taut.solvers.online_cache import OnlineCache
from taut.solvers.partial_linearization import ExponentiatedGradient, PartialLinearization

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        DualCoordinate,
        OnlineCache,
        PartialLinearization,
        FrankWolfe,
        ExponentiatedGradient,
        OneSlack,
        NSlack,
    )
}

__all__ = [
    "SOLVERS",
    "DualCoordinate",
    "DualState",
    "ExponentiatedGradient",
    "FrankWolfe",
    "NSlack",
    "OneSlack",
    "OnlineCache",
    "PartialLinearization",
    "PassReport",
    "Solver",
]
