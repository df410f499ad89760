"""`taut path`."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from taut.cli import options as shared
from taut.cli.commands.train import read
from taut.cli.exits import Exit
from taut.cli.output import check_writable, print_facts
from taut.cli.tasks import Task
from taut.data.source import Source
from taut.errors import InvalidData
from taut.paths.path import path
from taut.paths.validation import path_cv
from taut.readers import Table
from taut.readers.graphs import GraphFile

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
    check_writable(options.model)
    task, data = read(options.task, options.data, shared.asked_of(options))
    model = shared.make_estimator(task, data, options)
    limits = (options.lowest, options.highest)
    shown = {"gap": options.gap, "verbose": 0 if options.quiet else 1}
    if options.cv:
        search = path_cv(
            model, C_min=options.lowest, C_max=options.highest, cv=options.cv,
            n_points=options.points, **shown, **split_of(task, data),
        )  # fmt: skip
        columns = {"C": search.Cs, "score": search.mean, "standard_error": search.standard_error}
        facts = {"best_C": search.best_C_, "best_score": search.best_score_}
        chosen = search.best_estimator_
    else:
        walked = path(model, *examples_of(task, data), *limits, **shown)
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


def examples_of(task: Task, data: Any) -> tuple[Any, Any]:
    """X and y of training data; tables and sources bring their own y."""
    match data:
        case Table() | Source():
            return data, None
        case GraphFile():
            return data.X, data.y
    raise InvalidData(f"there is no path for --task {task.name}: train at each C instead")


def split_of(task: Task, data: Any) -> dict[str, Any]:
    """What `path_cv` takes, of data that folds can be made of."""
    if isinstance(data, Source):
        raise InvalidData("--cv needs data in memory: leave --memory or --cv out")
    if not isinstance(data, Table):
        X, y = examples_of(task, data)
        return {"X": X, "y": y}
    if data.lengths is not None or data.queries is not None:
        raise InvalidData(
            f"--cv splits rows, and those of {data.name} belong together in sequences or queries: "
            "leave --cv out"
        )
    return {"X": data.X, "y": data.y, "sample_weight": data.sample_weight}
