"""Wireshark's folders for files of the user, as listed by ``tshark -G folders``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["plugin", "extcap"]
"""The type of a file for Wireshark: a Lua plugin, which Wireshark reads at its start, or a capture source."""

_NAMED: Mapping[Kind, tuple[str, ...]] = {
    "plugin": ("Personal Lua Plugins", "Personal Plugins"),
    "extcap": ("Personal Extcap path", "Personal configuration"),
}
"""The names of the folders in the output of ``tshark -G folders``. The names in newer versions are first."""

_WAIT_S = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledFile:
    """A file of this package that is installed in a Wireshark folder."""

    kind: Kind
    name: str
    text: str

    @property
    def executable(self) -> bool:
        """Whether Wireshark runs the file as a program."""
        return self.kind == "extcap"


def folders(tshark: str | None = None) -> dict[Kind, Path]:
    """Return the user's folder for each file type, as listed by tshark, or the default folder."""
    named = _named_by(tshark or shutil.which("tshark") or "")
    paths = _defaults()
    for kind, names in _NAMED.items():
        name = next((name for name in names if name in named), None)
        if name is not None:
            paths[kind] = named[name] / "extcap" if name == "Personal configuration" else named[name]
    return paths


def _named_by(tshark: str) -> dict[str, Path]:
    if not tshark:
        return {}
    try:
        # Warnings on stderr about running as root are dropped.
        output = subprocess.run(
            [tshark, "-G", "folders"], capture_output=True, text=True, timeout=_WAIT_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    pairs = (line.partition(":") for line in output.splitlines())
    return {name.strip(): Path(path.strip()) for name, _, path in pairs if path.strip()}


def _defaults() -> dict[Kind, Path]:
    home = Path.home()
    if os.name == "nt":
        personal = Path(os.environ.get("APPDATA", home)) / "Wireshark"
        return {"plugin": personal / "plugins", "extcap": personal / "extcap"}
    config = Path(os.environ.get("XDG_CONFIG_HOME", home / ".config")) / "wireshark"
    return {"plugin": home / ".local" / "lib" / "wireshark" / "plugins", "extcap": config / "extcap"}
