"""How the process that atheris drives is started."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from ecmproto.errors import MissingDependencyError
from ecmproto.fuzz.guided import harness
from ecmproto.fuzz.guided.finding import PLAIN
from ecmproto.fuzz.guided.targets import find_target


def require_atheris() -> None:
    """Raise MissingDependencyError where atheris is not installed."""
    if find_spec("atheris") is None:
        raise MissingDependencyError(
            package="atheris", extra="guided", purpose="fuzzing that coverage guides"
        )


def start(name: str, folder: Path, *, seed: int, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start it for the target ``name`` and the campaign in ``folder``, with arguments of libFuzzer's.

    What it prints, on both streams, is to be read from its ``stdout``.  The folder gets a script that starts
    it, for people and for atheris, which starts itself again to merge corpora.
    """
    packages = ",".join(find_target(name).instrumented)
    script = (folder / harness.SCRIPT).absolute()
    words = [sys.executable, "-P", harness.__file__, name, str(script.parent), str(seed), packages]
    script.write_text(f'#!/bin/sh\n{PLAIN} exec {shlex.join(words)} "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return subprocess.Popen(
        [script, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
