"""The machine code for a wheel: ``python -m ecmproto_cli.prebuilding FOLDER [WHAT]...``.

Compiles the kernels of commands, for any processor of this architecture, into FOLDER, with a manifest
(`ecmproto.kernels.prebuilt`).  The same sources, Python, numba and llvmlite give the same octets on any
machine and with any number of processors:

- hashes are not random, and code is not specific to this machine's processor
- source paths are relative, as inside a wheel
- each step starts from the result of the stages before it; of duplicates the first step's is used
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from importlib import metadata
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
)
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING

from ecmproto.kernels.prebuilt import CPU

if TYPE_CHECKING:
    from ecmproto_cli.warming import Outcome, Step

_ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "NUMBA_CPU_NAME": CPU[0],
    "NUMBA_CPU_FEATURES": CPU[1],
    "NUMBA_DISABLE_JIT": "0",
}


def main(arguments: Sequence[str]) -> None:
    """Build the machine code."""
    others = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    if os.environ != others | _ENVIRONMENT:
        command = [sys.executable, "-m", "ecmproto_cli.prebuilding", *arguments]
        os.execve(sys.executable, command, others | _ENVIRONMENT)
    folder = Path(arguments[0]).resolve()
    _name_sources_by_package()
    build(folder, arguments[1:])


class _Loader(SourceFileLoader):
    """Loads modules with code whose file paths are relative to the current folder."""

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


def build(folder: Path, what: Sequence[str] = ()) -> None:
    """Compile the kernels of some commands and mechanisms, or all, into ``folder``, which is made anew."""
    import numba  # noqa: F401  # once, not in each of the processes

    from ecmproto.kernels import prebuilt
    from ecmproto_cli.commands.warm import Progress
    from ecmproto_cli.warming import chosen, processors, run

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    steps = chosen(what)
    progress = Progress(steps, processors(), enabled=True)
    with tempfile.TemporaryDirectory(prefix="ecmproto-") as name:

        def begin(step: Step) -> None:
            prebuilt.use(prebuilt.Workshop(folder, Path(name, step.name)))

        def end(stage: Sequence[Step]) -> None:
            for step in stage:
                _take(Path(name, step.name), folder)

        def tell(done: Sequence[Outcome], running: Sequence[Step]) -> None:
            for outcome in done:
                if outcome.problem or outcome.lacking:
                    sys.exit(f"prebuilding: {outcome.step.name}: {outcome.problem or outcome.lacking}")
            progress.tell(done, running)

        run(steps, tell=tell, begin=begin, end=end)
    progress.end()
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.n?c"))
    digests = {path: hashlib.sha256((folder / path).read_bytes()).hexdigest() for path in files}
    manifest = {"tag": tag(), "for": prebuilt.here(), "by": prebuilt.compilers(), "files": digests}
    (folder / prebuilt.MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
    octets = sum((folder / path).stat().st_size for path in files)
    print(f"{len(files)} kernels, {octets / 1e6:.1f} MB, in {folder}")


def tag() -> str:
    """Return the tag of the wheel: its code has the same system requirements as numba."""
    told = metadata.distribution("numba").read_text("WHEEL") or ""
    platforms = [line.rsplit("-", 1)[1] for line in told.splitlines() if line.startswith("Tag: ")]
    platform = next(iter(platforms), sysconfig.get_platform().replace("-", "_").replace(".", "_"))
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}{sys.abiflags}"
    return f"{python}-{python}-{platform}"


def _take(made: Path, folder: Path) -> None:
    """Move the files of a step, except those that another step made too."""
    for path in sorted(made.rglob("*.n?c")):
        taken = folder / path.relative_to(made)
        if not taken.exists():
            taken.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(path, taken)


if __name__ == "__main__":
    main(sys.argv[1:])
