"""numba's compiler with one pass more, which changes what the lowering after it makes."""

from __future__ import annotations

from typing import Any, ClassVar

from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import AnalysisPass
from numba.core.typed_passes import NativeLowering


class PassBeforeLowering(AnalysisPass):
    """A pass over a typed function; ``run_pass`` returns whether it changed the function's own text."""

    def __init__(self) -> None:
        AnalysisPass.__init__(self)  # type: ignore[no-untyped-call]


class CompilerWithPass(CompilerBase):
    """numba's compiler, running ``added`` right before it lowers a function."""

    added: ClassVar[type[PassBeforeLowering]]

    def define_pipelines(self) -> list[Any]:
        """Return numba's own passes and the one that is added."""
        make: Any = DefaultPassBuilder.define_nopython_pipeline
        pipeline = make(self.state)
        passes = [each for each, _ in pipeline.passes]
        pipeline.add_pass_after(self.added, passes[passes.index(NativeLowering) - 1])
        pipeline.finalize()
        return [pipeline]
