"""How to optimise: each solver is one file here, or in `baselines`, and three lines below."""

from taut.engines.base import DualState
from taut.solvers._descent_state import DescentStep
from taut.solvers.base import Candidate, PassEvent, PassReport, Solver
from taut.solvers.baselines.hard_negatives import HardNegatives
from taut.solvers.baselines.la_svm import LaSVM
from taut.solvers.baselines.mini_batch_pegasos import MiniBatchPegasos
from taut.solvers.baselines.n_slack import NSlack
from taut.solvers.baselines.one_slack import OneSlack
from taut.solvers.baselines.passive_aggressive import PassiveAggressive
from taut.solvers.baselines.perceptron import Perceptron
from taut.solvers.baselines.sampled_cuts import SampledCuts
from taut.solvers.baselines.subgradient import Subgradient
from taut.solvers.dual_coordinate import DualCoordinate
from taut.solvers.frank_wolfe import FrankWolfe
from taut.solvers.functional_descent import FunctionalDescent
from taut.solvers.multi_sample import MultiSample
from taut.solvers.multi_sample_online import OnlineMultiSample
from taut.solvers.online_cache import OnlineCache
from taut.solvers.partial_linearization import ExponentiatedGradient, PartialLinearization
from taut.solvers.working_set import WorkingSet

SOLVERS: dict[str, type[Solver]] = {
    solver.name: solver
    for solver in (
        DualCoordinate,
        OnlineCache,
        PartialLinearization,
        FrankWolfe,
        MultiSample,
        OnlineMultiSample,
        WorkingSet,
        FunctionalDescent,
        ExponentiatedGradient,
        OneSlack,
        NSlack,
        Subgradient,
        PassiveAggressive,
        Perceptron,
        MiniBatchPegasos,
        SampledCuts,
        LaSVM,
        HardNegatives,
    )
}

__all__ = [
    "SOLVERS",
    "Candidate",
    "DescentStep",
    "DualCoordinate",
    "DualState",
    "ExponentiatedGradient",
    "FrankWolfe",
    "FunctionalDescent",
    "HardNegatives",
    "LaSVM",
    "MiniBatchPegasos",
    "MultiSample",
    "NSlack",
    "OneSlack",
    "OnlineCache",
    "OnlineMultiSample",
    "PartialLinearization",
    "PassEvent",
    "PassReport",
    "PassiveAggressive",
    "Perceptron",
    "SampledCuts",
    "Solver",
    "Subgradient",
    "WorkingSet",
]
