"""`taut convert`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taut.cli import options as shared
from taut.cli.exits import Exit
from taut.cli.models import is_model
from taut.data import write_shards
from taut.errors import InvalidData
from taut.estimators import load
from taut.exports import to_crfsuite, to_liblinear, to_onnx
from taut.readers import open_file

#: What writes a model for other programs, by the name of their format.
_EXPORTS: dict[str, Callable[[Any, str], None]] = {
    "crfsuite": to_crfsuite,
    "liblinear": to_liblinear,
    "onnx": to_onnx,
}
_SUFFIXES = {".taut": "taut", ".onnx": "onnx"}

EXAMPLE = "taut convert train.svm.gz shards        # a folder that is read part by part"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes."""
    shared.add_data(parser, "source", "a model of taut, or data")
    parser.add_argument("destination", help="where to write")
    parser.add_argument(
        "--to",
        choices=["shards", "taut", *_EXPORTS],
        help="what to write; by default shards of data, and of a model what the suffix says",
    )
    parser.add_argument(
        "--dtype", choices=["float32"], help="of the weights of a model that is written as taut"
    )
    shared.add_quiet(parser)


def run(options: argparse.Namespace) -> Exit:
    """Read, write."""
    if is_model(options.source):
        write_model(load(options.source), options)
    else:
        write_data(options)
    return Exit.DONE


def write_model(model: Any, options: argparse.Namespace) -> None:
    """For taut, smaller, or for other programs."""
    wanted = options.to or _SUFFIXES.get(Path(options.destination).suffix.lower())
    if wanted is None or wanted == "shards":
        raise InvalidData(
            f"{options.source} is a model: give --to, one of taut, {', '.join(_EXPORTS)}"
        )
    if wanted == "taut":
        model.save(options.destination, dtype=options.dtype, sparse="auto")
        return
    if options.dtype is not None:
        raise InvalidData("--dtype is for models that are written as taut; leave it out")
    _EXPORTS[wanted](model, options.destination)


def write_data(options: argparse.Namespace) -> None:
    """As shards, part by part where the file can be read so."""
    if options.to not in (None, "shards"):
        raise InvalidData(
            f"{options.source} holds data, which are written as shards, not --to {options.to}"
        )
    reading = shared.reading_of(options)
    source = open_file(options.source, **reading)
    write_shards(options.destination, source, verbose=0 if options.quiet else 1)
