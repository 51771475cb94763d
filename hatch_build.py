"""What builds add to wheels: manual pages, completion scripts and the bundled captures, and machine code.

``ECMPROTO_PREBUILT`` names the folder that `make wheel` has the kernels compiled into; without it the wheel
is for any Python, and kernels are compiled when they are first used.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_RUN = "runpy.run_module('docs.manual', run_name='__main__', alter_sys=True)"
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

        if version != "editable" and os.environ.get("ECMPROTO_PREBUILT"):
            _add_machine_code(Path(os.environ["ECMPROTO_PREBUILT"]), build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made."""
        self._made.cleanup()


def _add_machine_code(folder: Path, build_data: dict[str, Any]) -> None:
    """Take the folder in, and what it is for into the wheel's name."""
    build_data["pure_python"] = False
    build_data["tag"] = json.loads((folder / "manifest.json").read_bytes())["tag"]
    build_data["force_include"][str(folder)] = "ecmproto/_prebuilt"
