"""Build the library of kernels: ``python -m ecmproto_cli.prebuilding [PATH] [STEP]...``.

The program compiles the kernels that commands need for any processor of this architecture. It links the
kernels into PATH, by default the library in the package (`ecmproto.kernels.building`). The same sources and
the same versions of numba, llvmlite and linker give identical octets on every machine. ``NUMBA_DEBUGINFO=1``
adds line tables. ``NUMBA_BOUNDSCHECK=1`` adds bounds checks.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_PROCESSOR = {"x86_64": "x86-64-v2"}.get(platform.machine(), "generic")
"""The oldest processor type that the library supports; all processors since 2009 support its code."""
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "NUMBA_CPU_NAME": _PROCESSOR, "NUMBA_CPU_FEATURES": ""}
_DEBUG = "NUMBA_DEBUGINFO", "NUMBA_BOUNDSCHECK"


def main(arguments: Sequence[str]) -> None:
    """Build the library in a process whose environment makes the code independent of the machine."""
    others = {name: value for name, value in os.environ.items() if name in _DEBUG or name[:6] != "NUMBA_"}
    names = others | _ENVIRONMENT
    if os.environ != names:
        command = [sys.executable, "-m", "ecmproto_cli.prebuilding", *arguments]
        sys.exit(os.spawnve(os.P_WAIT, sys.executable, command, names))
    build(Path(arguments[0]) if arguments else None, arguments[1:])


def build(path: Path | None = None, names: Sequence[str] = ()) -> None:
    """Build the library with the kernels of the named steps, or of all steps."""
    from ecmproto.kernels import building, compiler, library
    from ecmproto_cli.kernel_steps import run, steps

    chosen = [step for step in steps() if not names or step.name in names]
    with tempfile.TemporaryDirectory(prefix="ecmproto-") as name:
        emitter = building.Emitter(Path(name))
        compiler.emitters.append(emitter)
        for number, done in enumerate(run(chosen)):
            print(f"{number} of {len(chosen)} steps done: {done}", file=sys.stderr)
        path = path or Path(library.PATH)
        emitter.link(path)
        print(f"{len(list(Path(name).glob('*.o')))} kernels, {path.stat().st_size / 1e6:.1f} MB, in {path}")
    for kernel, why in sorted(emitter.left_out.items()):
        print(f"not in it: {kernel}: {why}")


if __name__ == "__main__":
    main(sys.argv[1:])
