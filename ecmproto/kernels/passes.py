"""numba's compiler with an additional pass before the lowering."""

from __future__ import annotations

from typing import Any, ClassVar

from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass
from numba.core.typed_passes import NativeLowering


class PassBeforeLowering(AnalysisPass):
    """Pass over a typed function. ``run_pass`` returns whether the pass changed the function's code."""

    def __init__(self) -> None:
        AnalysisPass.__init__(self)  # type: ignore[no-untyped-call]


class CompilerWithPass(CompilerBase):
    """numba's compiler, which runs the pass ``added`` before the lowering of a function."""

    added: ClassVar[type[PassBeforeLowering]]

    def define_pipelines(self) -> list[Any]:
        """Return numba's passes and the additional pass."""
        make: Any = DefaultPassBuilder.define_nopython_pipeline
        pipeline = make(self.state)
        passes = [each for each, _ in pipeline.passes]
        pipeline.add_pass_after(self.added, passes[passes.index(NativeLowering) - 1])
        pipeline.finalize()
        return [pipeline]
