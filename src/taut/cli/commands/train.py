"""`taut train`."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from taut.cli import options as shared
from taut.cli.exits import Exit
from taut.cli.guess import guessed
from taut.cli.output import check_writable, print_facts
from taut.cli.tasks import TASKS, Asked, Task
from taut.result import Status

EXAMPLE = "taut train train.svm model.taut --C 0.1 --test test.svm"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    shared.add_data(parser, "data", "the training data")
    parser.add_argument("model", help="where the model is written to; an existing file is replaced")
    tasks = "; ".join(f"{task.name}: {task.about}" for task in TASKS.values())
    parser.add_argument(
        "--task",
        choices=sorted(TASKS),
        help=f"what is learned; by default told by the labels. {tasks}",
    )
    parser.add_argument("--test", metavar="FILE", help="data to measure the model on")
    shared.add_model_settings(parser)
    parser.add_argument("--checkpoint", metavar="FILE", help="save the run here every 30 seconds")
    parser.add_argument(
        "--resume", action="store_true", help="go on from the checkpoint if it is there"
    )
    parser.add_argument("--report", metavar="FILE", help="write a page about the model: HTML")
    shared.add_quiet(parser)
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Exit:
    """Read, train, write, measure."""
    for path in (options.model, options.report):
        check_writable(path)
    asked = shared.asked_of(options)
    task, data = read(options.task, options.data, asked)
    model = shared.make_estimator(task, data, options)
    task.fit(model, data)
    model.save(options.model)
    facts = {"task": task.name, "model": options.model} | about_training(model)
    if options.test is not None:
        facts["test"] = task.measures(model, task.read(options.test, asked, model))
    if options.report is not None:
        from taut.report import write_report

        write_report(options.report, model, facts.get("test", {}), title=options.model)
        facts["report"] = options.report
    print_facts(facts, options.json)
    return exit_of(model)


def read(name: str | None, path: str, asked: Asked) -> tuple[Task, Any]:
    """The task and its data; one that is not named is told by the data."""
    if name is not None:
        return TASKS[name], TASKS[name].read(path, asked)
    task, data = guessed(path, asked)
    print(f"taut: the task is {task.name}; --task gives another", file=sys.stderr)
    return task, data


def about_training(model: Any) -> dict[str, Any]:
    """How a fit ended."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None:
        return {}
    return {
        "objective": certificate.primal,
        "lower_bound": certificate.dual,
        "relative_gap": certificate.relative_gap,
        "status": certificate.status.name,
        "message": certificate.message,
        "passes": certificate.passes,
        "seconds": certificate.seconds,
        "compile_seconds": certificate.compile_seconds,
    }


def exit_of(model: Any) -> Exit:
    """Whether training reached its tolerance."""
    certificate = getattr(model, "certificate_", None)
    if certificate is None or certificate.relative_gap <= model.tol:
        return Exit.DONE
    interrupted = certificate.status is Status.INTERRUPTED
    return Exit.INTERRUPTED if interrupted else Exit.NOT_CONVERGED
