"""Parsers of all commands, and what becomes of errors."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import warnings
from collections.abc import Collection, Sequence
from importlib.metadata import version
from types import ModuleType

from taut.cli.exits import Exit
from taut.errors import TautError

#: The commands, each a module of `taut.cli.commands`, which is imported when it is used: its loops
#: are compiled code, and help should come at once.
COMMANDS = {
    "train": "train a model from a file and write it to another",
    "predict": "answer for new data with a trained model",
    "evaluate": "measure a trained model on data with labels",
    "certify": "compute how far a model is from its optimum, whoever trained it",
    "info": "say what is in a file: a model, or data",
    "convert": "turn data into shards, or a model into a file that other programs read",
    "path": "train for every C of a range with a proved gap, or choose one by cross-validation",
    "warmup": "compile what estimators need, so that first fits are quick: for images and CI",
    "demo": "train on handwritten digits that come with scikit-learn",
    "completion": "print what lets a shell complete commands and options",
}

_ABOUT = "Train structural SVMs to a certified duality gap, and use them."


def command(name: str) -> ModuleType:
    """The module of a command."""
    return importlib.import_module(f"taut.cli.commands.{name}")


def make_parser(wanted: Collection[str]) -> argparse.ArgumentParser:
    """The parser of the command line, with the options of the commands that are wanted."""
    codes = "\n".join(f"  {code.value:<4} {code.sentence}" for code in Exit)
    parser = argparse.ArgumentParser(
        prog="taut",
        description=_ABOUT,
        epilog=f"exit codes:\n{codes}\n\n`taut COMMAND --help` has an example of each command.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"taut {version('taut')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, about in COMMANDS.items():
        inner = commands.add_parser(
            name,
            help=about,
            description=about[0].upper() + about[1:] + ".",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in wanted:
            module = command(name)
            inner.epilog = f"example:\n  {module.EXAMPLE}"
            module.add_arguments(inner)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command `taut`.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the process.

    Returns
    -------
    int
        The exit code.

    Examples
    --------
    >>> from taut.cli.main import main
    >>> int(main(["info", "no-such-file.taut"]))
    1
    """
    try:
        given = sys.argv[1:] if arguments is None else arguments
        options = make_parser(given[:1]).parse_args(given)
    except SystemExit as ended:  # argparse has said why
        return Exit.DONE if ended.code in (0, None) else Exit.USAGE
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            return int(command(options.command).run(options))
        except (TautError, OSError, ImportError, MemoryError) as error:
            if isinstance(error, BrokenPipeError):
                return _close_quietly()
            _say(_sentence(error))
            return Exit.FAILED
        except KeyboardInterrupt:
            _say("interrupted")
            return Exit.INTERRUPTED


def _sentence(error: Exception) -> str:
    """What an error says; of the system, without its number."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
    return str(error) or type(error).__name__


def _say(message: str) -> None:
    print(f"taut: {message}", file=sys.stderr)


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """A warning is a sentence to whoever types the command, without a line of code."""
    _say(f"warning: {message}")


def _close_quietly() -> int:
    """Whoever read our output has had enough: the interpreter must not write any more of it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.DONE
