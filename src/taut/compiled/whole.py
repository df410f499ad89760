"""How much of the compiler runs when: code is optimised once, as a part of what Python calls.

Numba optimises each function by itself and makes machine code of it, and then does so again for
each function that calls it, with all that it calls. What only compiled code calls never runs by
itself: it is handed on as it was written, and optimised where it is linked to.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from typing import Any

from numba import _dynfunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_machinery import LoweringPass, register_pass
from numba.core.typed_passes import NativeLowering


class _Whole(JITCodeLibrary):
    """Code of a function that Python calls, optimised together with all that it calls."""

    def _optimize_functions(self, ll_module: Any) -> None:
        # Passes over the whole do what those over single functions would do before.
        ll_module.data_layout = self._codegen._data_layout


class _Inside(_Whole):
    """Code that is linked into that of its callers, and is neither optimised nor run before."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalized = True


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Let no garbage be looked for: compilers make many objects, and nearly all of them stay."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


class WholeCompiler(Compiler):
    """Compile a function that Python calls."""

    library = _Whole

    def compile_extra(self, func: Callable) -> Any:
        """Compile the function, with all that it calls."""
        with _uncollected():
            return super().compile_extra(func)

    def define_pipelines(self) -> list[Any]:
        """The usual passes, for code of this kind."""
        state = self.state
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return super().define_pipelines()


@register_pass(mutates_CFG=False, analysis_only=True)
class _Registration(LoweringPass):
    """Let compiled functions find one that has no machine code."""

    _name = "registration"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        lowered = state.cr
        module, name = lowered.fndesc.lookup_module(), lowered.fndesc.qualname
        nowhere = 0
        entry = _dynfunc.make_function(module, name, "", nowhere, lowered.env, (state.library,))
        state.targetctx.insert_user_function(entry, lowered.fndesc, [state.library])
        state.cr = lowered._replace(cfunc=entry)
        return True


class InsideCompiler(WholeCompiler):
    """Compile a function that compiled code alone calls."""

    library = _Inside

    def define_pipelines(self) -> list[Any]:
        """The usual passes but for the last: there is no machine code."""
        self.state.flags.no_compile = True
        (passes,) = super().define_pipelines()
        passes.add_pass_after(_Registration, NativeLowering)
        passes.finalize()
        return [passes]
