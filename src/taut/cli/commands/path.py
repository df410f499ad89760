"""`taut path`."""

from __future__ import annotations

import argparse

import numpy as np

from taut.cli import options as shared
from taut.cli.commands.train import read
from taut.cli.exits import Exit
from taut.cli.output import print_facts
from taut.paths.path import path
from taut.paths.validation import path_cv

EXAMPLE = "taut path train.svm model.taut --from 0.001 --to 10 --cv 5"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    shared.add_data(parser, "data", "the training data")
    parser.add_argument(
        "model",
        nargs="?",
        help="where to write the model of the best C of --cv, or of the largest C",
    )
    parser.add_argument("--task", help="what is learned; by default told by the labels")
    parser.add_argument(
        "--from", type=float, dest="lowest", default=1e-3, help="smallest C (0.001)"
    )
    parser.add_argument("--to", type=float, dest="highest", default=10.0, help="largest C (10)")
    parser.add_argument("--gap", type=float, default=0.01, help="relative gap for every C (0.01)")
    parser.add_argument("--cv", type=int, default=0, help="folds; 0 (the default) chooses none")
    parser.add_argument("--points", type=int, default=20, help="how many C to print (20)")
    shared.add_model_settings(parser)
    shared.add_quiet(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Exit:
    """Walk, print bounds for some C, write the model of the best one."""
    task, data = read(options.task, options.data, shared.asked_of(options))
    model = shared.make_estimator(task, data, options)
    limits = (options.lowest, options.highest)
    shown = {"gap": options.gap, "verbose": 0 if options.quiet else 1}
    if options.cv:
        search = path_cv(
            model, data.X, data.y, *limits, cv=options.cv, n_points=options.points, **shown
        )
        columns = {"C": search.Cs, "score": search.mean, "standard_error": search.standard_error}
        facts = {"best_C": search.best_C_, "best_score": search.best_score_}
        chosen = search.best_estimator_
    else:
        walked = path(model, data, None, *limits, **shown)
        Cs = np.geomspace(*limits, options.points)
        upper, lower = walked.bounds_at(Cs)
        columns = {"C": Cs, "lower_bound": lower, "objective": upper, "gap": walked.gap_at(Cs)}
        facts = {"gap": walked.gap, "solves": len(walked.points)}
        chosen = walked.at(options.highest)
    if options.model is not None:
        chosen.save(options.model)
        facts["model"] = options.model
    if options.json:
        print_facts({"task": task.name} | facts | {"points": columns}, True)
        return Exit.DONE
    print("".join(f"{name:>15}" for name in columns))
    for row in zip(*columns.values(), strict=True):
        print("".join(f"{value:>15.6g}" for value in row))
    print_facts(facts, False)
    return Exit.DONE
