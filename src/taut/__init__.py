"""taut trains structural SVMs, and every model comes with its duality gap.

Names are loaded when they are first used, so that `import taut` is quick and compiles nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from taut.certification.certify import certify
    from taut.certification.report import Certification, MachineBounds
    from taut.estimators import (
        BinarySVM,
        BoxSVM,
        ChainSVM,
        GraphSVM,
        LatentBoxSVM,
        LatentMulticlassSVM,
        LatentPartSVM,
        LatentStructuredSVM,
        LatentSVM,
        MulticlassSVM,
        OnlineSVM,
        PartSVM,
        PoseSVM,
        RankSVM,
        RegressionSVM,
        StructuredSVM,
        TreeSVM,
        load,
    )
    from taut.paths.path import Path, path
    from taut.paths.validation import PathCV, path_cv
    from taut.paths.walk import Point
    from taut.problem import Problem
    from taut.readers import open_file, read
    from taut.result import Certificate, History, Record, Result, Round, Rounds, Status
    from taut.solving import solve
    from taut.spaces.regularizer import Regularizer
    from taut.streamed import StreamedProblem
    from taut.structures import CompiledStructure, LatentStructure, Structure, check_structure
    from taut.training.checkpoint import Checkpoint

__version__ = "0.1.0"

_HOME = {
    "BinarySVM": "estimators",
    "BoxSVM": "estimators",
    "Certificate": "result",
    "Certification": "certification.report",
    "ChainSVM": "estimators",
    "Checkpoint": "training.checkpoint",
    "CompiledStructure": "structures",
    "GraphSVM": "estimators",
    "History": "result",
    "LatentBoxSVM": "estimators",
    "LatentMulticlassSVM": "estimators",
    "LatentPartSVM": "estimators",
    "LatentSVM": "estimators",
    "LatentStructure": "structures",
    "LatentStructuredSVM": "estimators",
    "MachineBounds": "certification.report",
    "MulticlassSVM": "estimators",
    "OnlineSVM": "estimators",
    "PartSVM": "estimators",
    "Path": "paths.path",
    "PathCV": "paths.validation",
    "Point": "paths.walk",
    "PoseSVM": "estimators",
    "Problem": "problem",
    "RankSVM": "estimators",
    "Record": "result",
    "RegressionSVM": "estimators",
    "Regularizer": "spaces.regularizer",
    "Result": "result",
    "Round": "result",
    "Rounds": "result",
    "Status": "result",
    "StreamedProblem": "streamed",
    "Structure": "structures",
    "StructuredSVM": "estimators",
    "TreeSVM": "estimators",
    "certify": "certification.certify",
    "check_structure": "structures",
    "load": "estimators",
    "open_file": "readers.reading",
    "path": "paths.path",
    "path_cv": "paths.validation",
    "read": "readers.reading",
    "solve": "solving",
}

__all__ = [
    "BinarySVM",
    "BoxSVM",
    "Certificate",
    "Certification",
    "ChainSVM",
    "Checkpoint",
    "CompiledStructure",
    "GraphSVM",
    "History",
    "LatentBoxSVM",
    "LatentMulticlassSVM",
    "LatentPartSVM",
    "LatentSVM",
    "LatentStructure",
    "LatentStructuredSVM",
    "MachineBounds",
    "MulticlassSVM",
    "OnlineSVM",
    "PartSVM",
    "Path",
    "PathCV",
    "Point",
    "PoseSVM",
    "Problem",
    "RankSVM",
    "Record",
    "RegressionSVM",
    "Regularizer",
    "Result",
    "Round",
    "Rounds",
    "Status",
    "StreamedProblem",
    "Structure",
    "StructuredSVM",
    "TreeSVM",
    "certify",
    "check_structure",
    "load",
    "open_file",
    "path",
    "path_cv",
    "read",
    "solve",
]


_SUBMODULES = (
    "data", "errors", "exports", "features", "kernels", "metrics", "readers", "sampling",
    "solvers", "structures", "vision",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f"taut.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'taut' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"taut.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES, "__version__"])
