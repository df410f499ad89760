"""`taut certify`."""

from __future__ import annotations

import argparse
from typing import Any

from taut.certification.certify import certify
from taut.certification.text_models import is_text_model
from taut.cli import options as shared
from taut.cli.exits import Exit
from taut.cli.output import print_facts
from taut.cli.tasks import TASKS, task_of
from taut.errors import InvalidData
from taut.estimators import load

EXAMPLE = "taut certify model.taut train.svm"

_SAME = 1e-6  # relative difference of two sums of the same losses that rounding may explain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    parser.add_argument("model", help="a file of taut, or a model file of LIBSVM or LIBLINEAR")
    shared.add_data(parser, "data", "the data that the model was trained on")
    parser.add_argument("--memory", metavar="SIZE", help="read the data part by part")
    group = parser.add_argument_group("certificate")
    group.add_argument("--tol", type=float, default=1e-3, help="largest relative gap (0.001)")
    group.add_argument("--max-iter", type=int, default=1000, help="passes to find a bound")
    group.add_argument("--time-limit", type=float, metavar="SECONDS", help="of each machine")
    group = parser.add_argument_group("of model files of LIBSVM and LIBLINEAR, which lack them")
    group.add_argument("--C", type=float, help="weight of the losses in training")
    group.add_argument("--epsilon", type=float, help="width of the insensitive loss")
    shared.add_json(parser)


def run(options: argparse.Namespace) -> Exit:
    """Read both, bound, compare with what the file says of itself."""
    asked = shared.asked_of(options)
    given = {"tol": options.tol, "max_iter": options.max_iter, "time_limit": options.time_limit}
    if is_text_model(options.model):
        data = TASKS["multiclass"].read(options.data, asked)
        model: Any = options.model
        given |= {"C": options.C, "epsilon": options.epsilon}
    else:
        if options.C is not None or options.epsilon is not None:
            raise InvalidData("--C and --epsilon: a file of taut has its own; leave them out")
        model = load(options.model)
        data = task_of(model).read(options.data, asked, model)
    report = certify(model, data, **given)
    facts = {
        "model": report.model,
        "objective": report.objective,
        "primal": report.primal,
        "lower_bound": report.dual,
        "relative_gap": report.relative_gap,
    }
    fault = fault_of(model, report, options.tol)
    if fault:
        facts["fault"] = fault
    if options.json:
        print_facts(facts, True)
    else:
        print(report)
        if fault:
            print(fault)
    return Exit.REFUTED if fault else Exit.DONE


def fault_of(model: Any, report: Any, tol: float) -> str:
    """What speaks against a model; "" if nothing does."""
    if report.reason:
        return f"There is no bound: {report.reason}"
    claimed = getattr(model, "certificate_", None)
    if claimed is not None and claimed.exact:
        slack = _SAME * claimed.primal + claimed.rounding + report.rounding
        if abs(claimed.primal - report.primal) > slack:
            return (
                f"The file says that the objective is {claimed.primal:.9g}, and on these data it "
                f"is {report.primal:.9g}: the data are not those of the training, or the weights "
                "were changed."
            )
        if claimed.dual > report.primal + slack:
            return "The lower bound in the file is above the objective: the file was changed."
    if not report.relative_gap <= tol:
        return f"The relative gap {report.relative_gap:.2g} is larger than --tol {tol:g}."
    return ""
