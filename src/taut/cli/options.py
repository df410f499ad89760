"""Options that commands share, and the settings that they stand for."""

from __future__ import annotations

import argparse
import ast
import difflib
from pathlib import Path
from typing import Any, NamedTuple

from taut.cli.tasks.base import Asked, Task
from taut.errors import InvalidData
from taut.estimators import ESTIMATORS
from taut.solvers import OnlineCache
from taut.training.checkpoint import Checkpoint

#: Options of `train` and `path` that are parameters of estimators, under the same name.
_PARAMETERS = (
    "C", "kernel", "gamma", "degree", "tol", "max_iter", "time_limit", "n_jobs", "random_state",
)  # fmt: skip


class Setting(NamedTuple):
    """A name and its value, as ``NAME=VALUE`` gives them."""

    name: str
    value: Any


def setting(text: str) -> Setting:
    """Read ``NAME=VALUE``; values are Python literals, and text where they are none.

    Parameters
    ----------
    text : str

    Returns
    -------
    Setting

    Examples
    --------
    >>> from taut.cli.options import setting
    >>> setting("nonneg=True"), setting("loss=hamming")
    (Setting(name='nonneg', value=True), Setting(name='loss', value='hamming'))
    """
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    try:
        return Setting(name.replace("-", "_"), ast.literal_eval(value))
    except (ValueError, SyntaxError):
        return Setting(name.replace("-", "_"), value)


def number_or_text(text: str) -> float | str:
    """A number if it is one: `gamma` is 0.5 or "scale"."""
    try:
        return float(text)
    except ValueError:
        return text


def add_data(parser: argparse.ArgumentParser, name: str, what: str) -> None:
    """The file of data, and how it is read."""
    parser.add_argument(name, help=f"{what}: a file, a folder, or - for standard input")
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """How files of data are read."""
    group = parser.add_argument_group("reading")
    group.add_argument("--format", help="format of the data; by default told by name and content")
    group.add_argument(
        "--target", help="column of a table that is to be predicted: its name or number"
    )
    group.add_argument(
        "--read",
        metavar="NAME=VALUE",
        type=setting,
        action="append",
        default=[],
        help="any other option of the format, as of taut.read; may be repeated",
    )
    group.add_argument("--images", help="folder of the images that a file of boxes or joints names")
    group.add_argument("--split", help="use only images of this split of a file of boxes")


def reading_of(options: argparse.Namespace) -> dict[str, Any]:
    """Options of `taut.read` that were given."""
    given: dict[str, Any] = {found.name: found.value for found in options.read}
    if options.format is not None:
        given["format"] = options.format
    if options.target is not None:
        given["target"] = int(options.target) if options.target.isdigit() else options.target
    return given


def asked_of(options: argparse.Namespace) -> Asked:
    """How the command line wants data to be read."""
    return Asked(
        reading_of(options), options.images, options.split, getattr(options, "memory", None)
    )


def sizes(text: str) -> tuple[int, int]:
    """Least and largest size of runs, as ``1,2``."""
    try:
        least, most = (int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give two numbers, such as 1,2") from None
    return least, most


def add_extraction(parser: argparse.ArgumentParser) -> None:
    """How features are made of texts and tokens."""
    group = parser.add_argument_group("features of texts and tokens")
    group.add_argument(
        "--template",
        metavar="FILE",
        help="template file as of CRF++; default (by the data), or none if tokens list features",
    )
    group.add_argument("--words", type=sizes, metavar="A,B", help="runs of A to B words (1,1)")
    group.add_argument("--characters", type=sizes, metavar="A,B", help="runs of A to B letters")
    group.add_argument("--min-count", type=int, help="leave out features that are rarer (1)")
    group.add_argument("--hashing", type=int, metavar="N", help="hash features to N columns")


def add_model_settings(parser: argparse.ArgumentParser) -> None:
    """What is trained, and how long."""
    add_extraction(parser)
    group = parser.add_argument_group("model")
    group.add_argument("--C", type=float, help="weight of the losses against the regulariser")
    group.add_argument("--kernel", help="linear (the default), rbf, polynomial, laplacian, ...")
    group.add_argument("--gamma", type=number_or_text, help="of the kernel: a number, scale, auto")
    group.add_argument("--degree", type=float, help="of the polynomial kernel")
    group.add_argument("--cost", metavar="FILE", help="tree or matrix of costs: JSON or a table")
    group.add_argument(
        "--set",
        metavar="NAME=VALUE",
        type=setting,
        action="append",
        default=[],
        help="any other parameter of the estimator; may be repeated",
    )
    group = parser.add_argument_group("training")
    group.add_argument("--solver", help="name of a solver; by default the one that suits the data")
    group.add_argument("--tol", type=float, help="relative duality gap to reach (default: 0.001)")
    group.add_argument("--max-iter", type=int, help="largest number of passes over the data")
    group.add_argument("--time-limit", type=float, metavar="SECONDS", help="end training after")
    group.add_argument("--jobs", type=int, dest="n_jobs", help="threads; -1 for all processors")
    group.add_argument(
        "--seed", type=int, dest="random_state", default=0, help="of all chance (default: 0)"
    )
    group.add_argument(
        "--memory",
        metavar="SIZE",
        help="train within this memory, such as 500MB, from data read part by part",
    )


def add_quiet(parser: argparse.ArgumentParser) -> None:
    """Progress or none."""
    parser.add_argument("-q", "--quiet", action="store_true", help="show no progress")


def add_json(parser: argparse.ArgumentParser) -> None:
    """For programs."""
    parser.add_argument("--json", action="store_true", help="write results as JSON")


def make_estimator(task: Task, data: Any, options: argparse.Namespace) -> Any:
    """The estimator of a task with the settings of the command line."""
    name = task.estimators[0]
    kind = ESTIMATORS[name]
    known = set(kind().get_params(deep=False))
    given: dict[str, Any] = task.parameters(data, options) | {
        parameter: value
        for parameter in _PARAMETERS
        if (value := getattr(options, parameter, None)) is not None
    }
    if options.cost is not None:
        given["cost"] = read_cost(options.cost)
    if options.solver is not None or options.memory is not None:
        given["solver"] = _solver(options.solver, options.memory)
    given |= {found.name: found.value for found in options.set}
    if not options.quiet:
        given["verbose"] = 1
    if getattr(options, "checkpoint", None) is not None:
        given["checkpoint"] = checkpoint_of(options)
    for parameter in given.keys() - known:
        if parameter in ("verbose", "random_state"):  # which nobody asked for
            del given[parameter]
            continue
        close = difflib.get_close_matches(parameter, known, 1)
        hint = f"; do you mean {close[0]}?" if close else f"; it has {', '.join(sorted(known))}"
        raise InvalidData(f"{name} has no parameter {parameter!r}{hint}")
    return kind(**given)


def _solver(name: str | None, memory: str | None) -> Any:
    if memory is None:
        return name
    if name not in (None, "online_cache"):
        raise InvalidData(
            f"--memory goes with the solver online_cache, not with {name!r}: leave one of both out"
        )
    return OnlineCache(memory=memory)


def checkpoint_of(options: argparse.Namespace) -> Checkpoint:
    """The checkpoint to write; one that is there is gone on from only where that is wanted."""
    path = Path(options.checkpoint)
    if path.exists() and not options.resume:
        raise InvalidData(
            f"{path} is there already: give --resume to go on from it, or delete it to start anew"
        )
    return Checkpoint(path)


def read_cost(path: str) -> Any:
    """A tree of classes in JSON, or a table of costs, which estimators read themselves."""
    import json

    if Path(path).suffix.lower() != ".json":
        return path
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidData(f"{path} is no JSON ({error}): give nested groups of classes") from error
