"""What builds add to every wheel: manual pages, completion scripts and the bundled captures."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

CAPTURES = ("*.pcap", "*.pcapng", "*.pcap.gz", "MANIFEST.toml")


class BuildHook(BuildHookInterface):
    """hatchling's hook for wheels; it reads the commands, so that a build needs click and construct."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make what the wheel takes in beside the packages."""
        self._made = tempfile.TemporaryDirectory()
        root, made = Path(self.root), Path(self._made.name)
        known = [str(root), str(root / "cli"), *filter(None, [os.environ.get("PYTHONPATH")])]
        subprocess.run(
            [sys.executable, "-B", "-m", "docs.manual", str(made)], cwd=root, check=True,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(known), "PYTHONUTF8": "1"},
        )  # fmt: skip
        for path in sorted(made.rglob("*")):
            if path.is_file():
                build_data["shared_data"][str(path)] = path.relative_to(made).as_posix()
        for pattern in CAPTURES:
            for path in sorted((root / "pcaps").glob(pattern)):
                build_data["force_include"][str(path)] = f"ecmproto_cli/captures/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made."""
        self._made.cleanup()
