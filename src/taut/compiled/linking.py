"""Which compilers are used: taut's, which take less time, where Numba is one that they suit."""

from __future__ import annotations

import numba
from numba.core.compiler import Compiler

_FIRST_TRIED, _LAST_TRIED = (0, 61), (0, 68)


def compilers(version: str) -> tuple[type[Compiler], type[Compiler]]:
    """What compiles functions that Python calls, and those that compiled code alone calls.

    Both change inner parts of Numba (`taut.compiled.whole`). A version that they were not tried
    with compiles by its own means, which takes longer and comes to the same.
    """
    release = tuple(int(number) for number in version.split(".")[:2])
    if not _FIRST_TRIED <= release <= _LAST_TRIED:
        return Compiler, Compiler
    from taut.compiled.whole import InsideCompiler, WholeCompiler

    return WholeCompiler, InsideCompiler


FROM_PYTHON, INSIDE = compilers(numba.__version__)

#: Options of functions that compiled code chooses by types (`numba.extending.overload`).
CHOSEN = {"fastmath": True, "error_model": "numpy", "pipeline_class": INSIDE}
