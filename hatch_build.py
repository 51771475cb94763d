"""Additions of builds to wheels: manual pages, completion scripts, the bundled captures, the library of
kernels.

``ECMPROTO_LIBRARY`` names the library that `make wheel` builds; without it the wheel is for any platform, and
kernels run compiled by numba, or as plain Python.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_RUN = "runpy.run_module('docs.manual', run_name='__main__', alter_sys=True)"
_OLDEST = 2, 17
"""The oldest C library that anything is built for."""
CAPTURES = ("*.pcap", "*.pcapng", "*.pcap.gz", "MANIFEST.toml")


class BuildHook(BuildHookInterface):
    """hatchling's hook for wheels; it reads the commands, so that a build needs click."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make what the wheel takes in beside the packages."""
        self._made = tempfile.TemporaryDirectory()
        root, made = Path(self.root), Path(self._made.name)
        # pip takes what an editable install put on the path off that of a build, PYTHONPATH or not
        code = f"import runpy, sys; sys.path[:0] = {[str(root), str(root / 'cli')]}; {_RUN}"
        subprocess.run(
            [sys.executable, "-B", "-c", code, str(made)], cwd=root, check=True,
            env=os.environ | {"PYTHONUTF8": "1"},
        )  # fmt: skip
        for path in sorted(made.rglob("*")):
            if path.is_file():
                build_data["shared_data"][str(path)] = path.relative_to(made).as_posix()
        for pattern in CAPTURES:
            for path in sorted((root / "pcaps").glob(pattern)):
                build_data["force_include"][str(path)] = f"ecmproto_cli/captures/{path.name}"

        library = os.environ.get("ECMPROTO_LIBRARY")
        if version != "editable" and library:
            build_data["force_include"][library] = "ecmproto/kernels/ecmproto-kernels.so"
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{_platform(Path(library).read_bytes())}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made."""
        self._made.cleanup()


def _platform(library: bytes) -> str:
    """Return the tag of the systems that have the required symbols of the C library."""
    versions = re.findall(rb"GLIBC_(\d+)\.(\d+)", library)
    major, minor = max([_OLDEST, *((int(major), int(minor)) for major, minor in versions)])
    return f"manylinux_{major}_{minor}_{platform.machine()}"
