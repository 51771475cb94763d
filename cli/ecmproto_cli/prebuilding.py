"""The library of kernels, built: ``python -m ecmproto_cli.prebuilding [PATH] [STEP]...``.

Compiles what commands need, for any processor of this architecture, and links it into PATH, which is in the
package unless given (`ecmproto.kernels.building`).  The same sources, numba, llvmlite and linker give the
same octets wherever it runs: hashes are not random, and sources are named as they are inside a wheel.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType

_PROCESSOR = {"x86_64": "x86-64-v2"}.get(platform.machine(), "generic")
"""The oldest processor that the library is for; all since 2009."""
_BY_WAY_OF = "--by-way-of"
"""Before the folder of object files, in the process that builds."""


def main(arguments: Sequence[str]) -> None:
    """Build it, in a process whose environment gives the same code on every machine."""
    if arguments[:1] != [_BY_WAY_OF]:
        with tempfile.TemporaryDirectory(prefix="ecmproto-") as folder:
            others = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
            compiling = {
                "PYTHONHASHSEED": "0", "NUMBA_CPU_NAME": _PROCESSOR, "NUMBA_CPU_FEATURES": "",
                "NUMBA_CACHE_DIR": folder,
            }  # fmt: skip
            command = [sys.executable, "-m", "ecmproto_cli.prebuilding", _BY_WAY_OF, folder, *arguments]
            sys.exit(os.spawnve(os.P_WAIT, sys.executable, command, others | compiling))
    _, folder, *rest = arguments
    path = Path(rest[0]).resolve() if rest else None
    _name_sources_by_package()
    build(Path(folder), path, rest[1:])


class _Loader(SourceFileLoader):
    """Loads modules whose code has paths in the current folder."""

    def get_code(self, fullname: str) -> CodeType | None:
        """Return a module's code."""
        if not fullname.startswith("ecmproto."):
            return super().get_code(fullname)
        path = self.get_filename(fullname)
        code: CodeType = self.source_to_code(self.get_data(path), os.path.relpath(path))
        return code


def _name_sources_by_package() -> None:
    import ecmproto

    os.chdir(Path(ecmproto.__file__).parent.parent)
    for name in [name for name in sys.modules if name.startswith("ecmproto.")]:
        del sys.modules[name]
    kinds = (ExtensionFileLoader, EXTENSION_SUFFIXES), (_Loader, SOURCE_SUFFIXES)
    sys.path_hooks.insert(0, FileFinder.path_hook(*kinds))
    sys.path_importer_cache.clear()


def build(folder: Path, path: Path | None, what: Sequence[str] = ()) -> None:
    """Build the library of what some steps need, or all, by way of ``folder``."""
    from ecmproto.kernels import building, compiler, library
    from ecmproto_cli.kernel_steps import run, steps

    def begin() -> dict[str, str]:
        compiler.emitters[:] = [building.Emitter(folder)]
        return compiler.emitters[0].left_out  # type: ignore[no-any-return]

    chosen = [step for step in steps() if not what or step.name in what]
    left_out: dict[str, str] = {}
    for number, (name, found) in enumerate(run(chosen, begin=begin)):
        left_out |= found
        print(f"{number} of {len(chosen)} steps done: {name}", file=sys.stderr)
    path = path or library.PATH
    building.link(folder, path)
    print(f"{len(list(folder.glob('*.o')))} kernels, {path.stat().st_size / 1e6:.1f} MB, in {path}")
    for name, why in sorted(left_out.items()):
        print(f"not in it: {name}: {why}")


if __name__ == "__main__":
    main(sys.argv[1:])
