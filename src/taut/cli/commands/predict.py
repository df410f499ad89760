"""`taut predict`."""

from __future__ import annotations

import argparse

from taut.cli import options as shared
from taut.cli.exits import Exit
from taut.cli.output import to_json, write_lines
from taut.cli.tasks import task_of
from taut.estimators import load

EXAMPLE = "taut predict model.taut new.svm --output answers.txt"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("model", help="a file that `taut train` or `save` wrote")
    shared.add_data(parser, "data", "the data to answer for")
    parser.add_argument("-o", "--output", metavar="FILE", help="write here (default: - )")
    parser.add_argument("--scores", action="store_true", help="write scores in place of answers")
    parser.add_argument("--memory", metavar="SIZE", help="read the data part by part")
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Exit:
    """Read both, answer, write a line for each example."""
    model = load(options.model)
    task = task_of(model)
    data = task.read(options.data, shared.asked_of(options), model)
    found = task.scores(model, data) if options.scores else task.answers(model, data)
    write_lines(options.output, map(to_json if options.json else task.line, found))
    return Exit.DONE
