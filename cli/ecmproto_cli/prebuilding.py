"""The library of kernels, built: ``python -m ecmproto_cli.prebuilding [PATH] [STEP]...``.

Compiles what commands need, for any processor of this architecture, and links it into PATH, which is in the
package unless given (`ecmproto.kernels.building`).  The same sources, numba, llvmlite and linker give the
same octets wherever it runs.  ``NUMBA_DEBUGINFO=1`` adds line tables, ``NUMBA_BOUNDSCHECK=1`` bounds checks.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

_PROCESSOR = {"x86_64": "x86-64-v2"}.get(platform.machine(), "generic")
"""The oldest processor that the library is for; all since 2009."""
_ENVIRONMENT = {"PYTHONHASHSEED": "0", "NUMBA_CPU_NAME": _PROCESSOR, "NUMBA_CPU_FEATURES": ""}
_DEBUG = "NUMBA_DEBUGINFO", "NUMBA_BOUNDSCHECK"


def main(arguments: Sequence[str]) -> None:
    """Build it, in a process whose environment gives the same code on every machine."""
    others = {name: value for name, value in os.environ.items() if name in _DEBUG or name[:6] != "NUMBA_"}
    wanted = others | _ENVIRONMENT
    if os.environ != wanted:
        command = [sys.executable, "-m", "ecmproto_cli.prebuilding", *arguments]
        sys.exit(os.spawnve(os.P_WAIT, sys.executable, command, wanted))
    build(Path(arguments[0]) if arguments else None, arguments[1:])


def build(path: Path | None = None, names: Sequence[str] = ()) -> None:
    """Build the library of what some steps need, or all."""
    from ecmproto.kernels import building, compiler, library
    from ecmproto_cli.kernel_steps import run, steps

    chosen = [step for step in steps() if not names or step.name in names]
    with tempfile.TemporaryDirectory(prefix="ecmproto-") as name:
        emitter = building.Emitter(Path(name))
        compiler.emitters.append(emitter)
        for number, done in enumerate(run(chosen)):
            print(f"{number} of {len(chosen)} steps done: {done}", file=sys.stderr)
        path = path or library.PATH
        emitter.link(path)
        print(f"{len(list(Path(name).glob('*.o')))} kernels, {path.stat().st_size / 1e6:.1f} MB, in {path}")
    for kernel, why in sorted(emitter.left_out.items()):
        print(f"not in it: {kernel}: {why}")


if __name__ == "__main__":
    main(sys.argv[1:])
