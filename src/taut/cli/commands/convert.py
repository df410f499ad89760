"""`taut convert`."""

from __future__ import annotations

import argparse
from pathlib import Path

from taut.cli import options as shared
from taut.cli.exits import Exit
from taut.cli.models import is_model
from taut.cli.tasks.tables import Rows
from taut.data import write_shards
from taut.estimators import load
from taut.exports import EXPORTS

EXAMPLE = "taut convert train.svm.gz shards        # a folder that is read part by part"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    shared.add_data(parser, "source", "a model of taut, or data")
    parser.add_argument("target", help="where to write")
    parser.add_argument(
        "--to",
        choices=["shards", "taut", *sorted(EXPORTS)],
        help="what to write; by default shards of data, and of a model what the name suggests",
    )
    parser.add_argument("--dtype", choices=["float32", "float64"], help="of the weights of a model")
    shared.add_quiet(parser)


def run(options: argparse.Namespace) -> Exit:
    """Read, write."""
    path = Path(options.source)
    if is_model(path):
        model = load(path)
        if options.to in (None, "taut") and Path(options.target).suffix == ".taut":
            model.save(options.target, dtype=options.dtype, sparse="auto")
        else:
            model.export(options.target, options.to)
        return Exit.DONE
    asked = shared.asked_of(options)
    source = Rows().read(options.source, shared.streaming(asked))
    write_shards(options.target, source, verbose=0 if options.quiet else 1)
    return Exit.DONE
