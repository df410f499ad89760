"""`taut demo`."""

from __future__ import annotations

import argparse

import numpy as np
from sklearn.datasets import load_digits

from taut.cli import options as shared
from taut.cli.commands.train import about_training
from taut.cli.exits import Exit
from taut.cli.output import print_facts
from taut.estimators import MulticlassSVM

EXAMPLE = "taut demo"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("--model", metavar="FILE", help="write the model here")
    shared.add_quiet(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Exit:
    """Train on two thirds, measure on the rest."""
    X, y = load_digits(return_X_y=True)
    test = np.random.default_rng(0).permutation(len(y)) < len(y) // 3
    model = MulticlassSVM(C=0.01, random_state=0, verbose=0 if options.quiet else 1)
    model.fit(X[~test] / 16.0, y[~test])
    facts = about_training(model) | {"test": {"accuracy": model.score(X[test] / 16.0, y[test])}}
    if options.model is not None:
        model.save(options.model)
        facts["model"] = options.model
    print_facts(facts, options.json)
    return Exit.DONE
