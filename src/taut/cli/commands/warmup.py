"""`taut warmup`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.cli import options as shared
from taut.cli.exits import Exit
from taut.cli.output import print_facts
from taut.estimators import BinarySVM, ChainSVM, MulticlassSVM, RankSVM, RegressionSVM

EXAMPLE = "taut warmup BinarySVM ChainSVM --precision float32 float64 --storage dense sparse"

_STORAGES: dict[str, Callable[[np.ndarray], Any]] = {"dense": np.asarray, "sparse": sp.csr_array}


def _rows(n_classes: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(24, 3)).astype(dtype), np.arange(24) % n_classes


def _warm_binary(dtype: str, stored: Callable) -> None:
    X, y = _rows(2, dtype)
    BinarySVM(random_state=0).fit(stored(X), y).predict(stored(X))


def _warm_multiclass(dtype: str, stored: Callable) -> None:
    X, y = _rows(3, dtype)
    MulticlassSVM(random_state=0).fit(stored(X), y).predict(stored(X))


def _warm_regression(dtype: str, stored: Callable) -> None:
    X, y = _rows(3, dtype)
    RegressionSVM(random_state=0).fit(stored(X), y.astype(dtype)).predict(stored(X))


def _warm_ranking(dtype: str, stored: Callable) -> None:
    X, y = _rows(3, dtype)
    RankSVM(random_state=0).fit(stored(X), y, lengths=[12, 12]).predict(stored(X))


def _warm_chain(dtype: str, stored: Callable) -> None:
    X, y = _rows(3, dtype)
    lengths = [5, 7, 12]
    ChainSVM(random_state=0).fit(stored(X), y, lengths=lengths).predict(stored(X), lengths=lengths)


#: What compiles an estimator's loops, by its name.
WARMUPS: dict[str, Callable[[str, Callable], None]] = {
    "BinarySVM": _warm_binary,
    "MulticlassSVM": _warm_multiclass,
    "RegressionSVM": _warm_regression,
    "RankSVM": _warm_ranking,
    "ChainSVM": _warm_chain,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument(
        "estimators", nargs="*", metavar="ESTIMATOR", choices=[[], *WARMUPS],
        help=f"of {', '.join(WARMUPS)} (default: all)",
    )  # fmt: skip
    parser.add_argument(
        "--precision", nargs="+", choices=["float32", "float64"], default=["float64"],
        help="of the features (default: float64)",
    )  # fmt: skip
    parser.add_argument(
        "--storage", nargs="+", choices=list(_STORAGES), default=["dense"],
        help="of the features (default: dense)",
    )  # fmt: skip
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Exit:
    """Fit each estimator to a few rows: what that compiles stays on disk."""
    spent = {}
    for name in options.estimators or WARMUPS:
        for dtype in options.precision:
            for storage in options.storage:
                began = time.perf_counter()
                WARMUPS[name](dtype, _STORAGES[storage])
                spent[f"{name} {dtype} {storage}"] = round(time.perf_counter() - began, 2)
    print_facts({"seconds": spent}, options.json)
    return Exit.DONE
