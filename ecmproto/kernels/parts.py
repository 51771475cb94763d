"""Parts: functions that kernels take in when they call them, and that are not compiled for themselves.

numba optimises each function with all that it calls, makes machine code of that, and does so again for the
caller, who takes it all in: the innermost of five is optimised five times and only the outermost is ever
run.  A part is typed and lowered as ever, and then waits in its library for the kernel at whose end all is
optimised at once.  Closed loops compile in less than half the time, and run a little faster.
"""

from __future__ import annotations

import copy
from typing import Any

from numba import _dynfunc  # type: ignore[attr-defined]
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_machinery import register_pass

from ecmproto.kernels.passes import CompilerWithPass, PassBeforeLowering


class _Waiting(JITCodeLibrary):
    """A library that others link, of which nothing is optimised and no machine code made."""

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()  # type: ignore[no-untyped-call]
        self._finalized = True


def _nothing_to_call(library: JITCodeLibrary, described: Any, environment: Any) -> Any:
    """Return numba's description of a compiled function that Python cannot call."""
    name = described.qualname.split(".")[-1]
    return _dynfunc.make_function(described.lookup_module(), name, "", 0, environment, (library,))


@register_pass(mutates_CFG=False, analysis_only=True)  # type: ignore[no-untyped-call]
class _IntoWaiting(PassBeforeLowering):
    """Make the passes that follow lower into such a library."""

    _name = "into_waiting"

    def run_pass(self, state: Any) -> bool:
        state.library = state.targetctx.codegen().create_library(state.func_id.func_qualname)
        state.library.__class__ = _Waiting
        state.targetctx = copy.copy(state.targetctx)
        state.targetctx.get_executable = _nothing_to_call
        return False


class _PartCompiler(CompilerWithPass):
    """numba's compiler, ending before machine code."""

    added = _IntoWaiting


AS_PART: dict[str, Any] = {"no_cpython_wrapper": True, "pipeline_class": _PartCompiler}
"""The options of numba's decorator that make one."""
