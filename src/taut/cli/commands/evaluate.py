"""`taut evaluate`."""

from __future__ import annotations

import argparse

from taut.cli import options as shared
from taut.cli.exits import Exit
from taut.cli.output import print_facts
from taut.cli.tasks import task_of
from taut.estimators import load

EXAMPLE = "taut evaluate model.taut test.svm --json"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("model", help="a file that `taut train` or `save` wrote")
    shared.add_data(parser, "data", "the data to measure on")
    parser.add_argument("--memory", metavar="SIZE", help="read the data part by part")
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Exit:
    """Read both, measure, print."""
    model = load(options.model)
    task = task_of(model)
    data = task.read(options.data, shared.asked_of(options), model)
    print_facts({"task": task.name} | task.measures(model, data), options.json)
    return Exit.DONE
