"""`taut info`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from taut.cli import options as shared
from taut.cli.commands.train import about_training
from taut.cli.exits import Exit
from taut.cli.models import is_model
from taut.cli.output import print_facts
from taut.cli.tasks.tables import read_rows
from taut.estimators import load

EXAMPLE = "taut info model.taut"

_FEW = 20  # different targets that are counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    shared.add_data(parser, "file", "a model, or data")
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Exit:
    """Look at the file, print what it is."""
    path = Path(options.file)
    about = about_model(path) if is_model(path) else about_data(options)
    print_facts({"file": options.file} | about, options.json)
    return Exit.DONE


def about_model(path: Path) -> dict[str, Any]:
    """Facts of a model."""
    model = load(path)
    fitted = {name: value for name, value in vars(model).items() if name.endswith("_")}
    facts: dict[str, Any] = {"kind": f"model, {type(model).__name__}", "bytes": path.stat().st_size}
    facts |= about_training(model)
    for name in ("n_features_in_", "classes_"):
        if name in fitted:
            facts[name.rstrip("_")] = fitted[name]
    facts["parameters"] = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if not isinstance(value, np.ndarray) and value not in (None, ())
    }
    facts["arrays"] = {
        name: " x ".join(map(str, value.shape)) + f" {value.dtype}"
        for name, value in fitted.items()
        if (isinstance(value, np.ndarray) and value.dtype.kind in "fi") or sp.issparse(value)
    }
    return facts


def about_data(options: argparse.Namespace) -> dict[str, Any]:
    """Facts of data."""
    data = read_rows(options.file, shared.asked_of(options))
    facts: dict[str, Any] = {"kind": "data", "format": data.format.name}
    if isinstance(data.X, list):
        facts["examples"] = len(data.X)
    else:
        facts["rows"], facts["features"] = data.X.shape
        facts["storage"] = f"{'CSR' if sp.issparse(data.X) else 'dense'} {data.X.dtype}"
        if sp.issparse(data.X):
            facts["values"] = int(data.X.nnz)
    if data.lengths is not None:
        facts["sequences"] = len(data.lengths)
    if data.queries is not None:
        facts["queries"] = len(np.unique(data.queries))
    if data.y is not None and not isinstance(data.X, list):
        classes, counts = np.unique(np.asarray(data.y).astype(str), return_counts=True)
        facts["targets"] = len(classes)
        if len(classes) <= _FEW:
            facts["counts"] = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    return facts
