"""Why a user's oracle cannot be compiled: the method, the line and one sentence.

Numba's own text tells in many lines how it came from taut's loops to the oracle, the innermost
function first.
"""

from __future__ import annotations

import dis
import inspect
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
from numba.core import types
from numba.core.compiler import run_frontend

from taut.errors import InvalidStructure

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_NUMBA = str(Path(numba.__file__).parent) + os.sep
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')
_CALL = re.compile(r"Cannot bind 'args=\((.*)\) kws={}' to signature '(\(.*?\))'", re.DOTALL)
_UNDEFINED = re.compile(r"NameError: name '(\w+)' is not defined")
_UNTYPED = re.compile(r"Untyped global name '(\w+)'.*<class 'function'>")
_PART = re.compile(r"<function part at \w+>\) found for signature:\s*>>> part\((.*)\)")
_ARGUMENT = re.compile(r"- argument \d+: (.*)")
#: Oracles that return a number; the others write into their arguments, or return several.
_NUMBERS = {"argmax", "loss", "parts", "sample", "expect", "mean_loss"}


def invalid_structure(text: str, kernel: Callable) -> InvalidStructure | None:
    """The error to raise where Numba says so of a loop; None if no user's structure is to blame.

    The loop that was being compiled has the compiled oracles in its closure.
    """
    own = [oracle for oracle in _inside(kernel) if _is_users(oracle.py_func)]
    places = {text.find(f"<function {oracle.py_func.__qualname__} at "): oracle for oracle in own}
    places.pop(-1, None)
    if places:
        first = min(places)
        return _explained(places[first].py_func, text[:first])
    for oracle in own:
        returned = _wrong_return(oracle)
        if returned is not None:
            return _error(oracle.py_func, f"it returns {returned}, and must return a number")
    for oracle in own:
        # Some statements are refused before Numba knows where it is.
        if not _is_readable(oracle.py_func):
            return _error(oracle.py_func, _sentence(text))
    data = _ARGUMENT.search(text)
    if own and data is not None:
        owner = _name(own[0].py_func).rpartition(".")[0]
        return InvalidStructure(
            f"{owner}: compiled code cannot read the data of its Blocks ({data[1]}): let encode "
            "return a tuple of arrays, numbers and tuples of them"
        )
    return None


def _inside(function: Callable) -> Iterator[Any]:
    """The compiled functions that are enclosed in a function, and those in them."""
    for cell in function.__closure__ or ():
        if hasattr(cell.cell_contents, "py_func"):
            yield cell.cell_contents
            yield from _inside(cell.cell_contents.py_func)


def _is_users(function: Callable) -> bool:
    return not function.__code__.co_filename.startswith(_PACKAGE)


def _name(function: Callable) -> str:
    """The name without the digest that tells functions of one name apart."""
    return function.__qualname__.rpartition("_")[0].rpartition("<locals>.")[2]


def _wrong_return(oracle: Any) -> str | None:
    """What an oracle returns instead of a number."""
    if _name(oracle.py_func).rpartition(".")[2] not in _NUMBERS:
        return None
    for signature in oracle.nopython_signatures:
        kind = signature.return_type
        if isinstance(kind, types.NoneType):
            return "nothing"
        if not isinstance(kind, types.Number | types.Boolean):
            return f"a value of type {kind}"
    return None


def _is_readable(function: Callable) -> bool:
    try:
        run_frontend(function)
    except Exception:
        return False
    return True


def _explained(function: Callable, text: str) -> InvalidStructure:
    """What the text says about a function, or about one that it calls."""
    call, undefined, untyped = _CALL.search(text), _UNDEFINED.search(text), _UNTYPED.search(text)
    if call is not None:
        return _error(function, _wrong_call(function, call[1]))
    if undefined is not None:
        line = _line_that_names(undefined[1], function)
        return _error(function, f"the name {undefined[1]} is not defined", line)
    sentence, place, walked = _sentence(text), _place(text), _PART.search(text)
    if untyped is not None:
        sentence = f"{untyped[1]} is a Python function: decorate it with numba.njit"
    elif walked is not None:
        sentence = (
            f"part is called with {_n_types(walked[1])} arguments ({walked[1]}), and takes three: "
            "each, an integer, which is the number of a potential, and how often it counts"
        )
    return _error(function, sentence, int(place[2]) if place else None, place and place[1])


def _place(text: str) -> re.Match | None:
    """The first place in the text that the user has written."""
    own = (_PACKAGE, _NUMBA)
    for place in _PLACE.finditer(text):
        if not os.path.abspath(place[1]).startswith(own):
            return place
    return None


def _error(
    function: Callable, sentence: str, line: int | None = None, file: str | None = None
) -> InvalidStructure:
    own_file = function.__code__.co_filename
    if file is None or os.path.basename(file) == os.path.basename(own_file):
        file = own_file  # Numba's is relative to the folder that is the present one
    place = f"{file}, line {line or function.__code__.co_firstlineno}"
    return InvalidStructure(
        f"{_name(function)} cannot be compiled ({place}): {sentence}. Oracles are written in the "
        "part of Python that Numba compiles, see taut.CompiledStructure"
    )


def _sentence(text: str) -> str:
    """The first sentence that says something."""
    lines = [line.strip() for line in text.splitlines()]
    lines = [line for line in lines if line and not line.startswith("Failed in nopython mode")]
    # What follows a colon is on the next line: a call that Numba has no implementation for.
    sentence = " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
    return re.sub(r"\.*( Raised from None)?$", "", sentence)


def _wrong_call(function: Callable, arguments: str) -> str:
    """What is wrong with the parameters of an oracle, whose arguments' types are listed."""
    parameters = inspect.signature(function).parameters
    if "self" in parameters:
        return "it has a parameter self: make it a static method"
    return (
        f"it has {len(parameters)} parameters ({', '.join(parameters)}), and is called with "
        f"{_n_types(arguments)} arguments"
    )


def _n_types(arguments: str) -> int:
    """How many types are listed: they are separated by commas that are in no brackets."""
    while "(" in arguments:
        arguments = re.sub(r"\([^()]*\)", "", arguments)
    return len([item for item in arguments.split(",") if item.strip()])


def _line_that_names(name: str, function: Callable) -> int | None:
    """The line of a function in which a global name is used."""
    line = None
    for instruction in dis.get_instructions(function):
        line = instruction.starts_line or line
        if instruction.argval == name:
            return line
    return None
