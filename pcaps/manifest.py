"""Reader of ``MANIFEST.toml``, which contains the name, the purpose and the command of each capture."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path

from ecmproto.frames.capture.source import zstd_module

FOLDER = Path(__file__).parent
PATH = FOLDER / "MANIFEST.toml"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A bundled capture.

    ``command`` creates the capture if it runs next to this folder, and ``{out}`` is the path of the capture.
    ``sha256`` is the hash of the uncompressed capture.
    """

    file: str
    what: str
    command: str
    frames: int
    sha256: str


def entries() -> list[Entry]:
    """Return the captures in the order of the manifest."""
    return [Entry(**table) for table in tomllib.loads(PATH.read_text(encoding="utf-8"))["capture"]]


def made(entry: Entry) -> bytes:
    """Run a capture's command and return the octets it wrote."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / entry.file
        words = [word.replace("{out}", str(out)) for word in shlex.split(entry.command)]
        # the interpreter and the command line of this environment, whatever the shell's PATH says
        binaries = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        environment = {**os.environ, "PATH": binaries}
        subprocess.run(words, check=True, cwd=FOLDER.parent, env=environment, capture_output=True)
        return out.read_bytes()


def written_down(facts: Mapping[str, bytes]) -> None:
    """Put the hash and frame count of the captures just made into the manifest."""
    text = PATH.read_text(encoding="utf-8")
    for file, octets in facts.items():
        digest = sha256(octets)
        start = text.index(f'file = "{file}"')
        end = text.find("[[capture]]", start)
        entry = text[start : end if end > 0 else None]
        changed = re.sub(r"sha256 = .*", f'sha256 = "{digest}"', entry)
        changed = re.sub(r"frames = .*", f"frames = {frame_count(FOLDER / file)}", changed)
        text = text.replace(entry, changed)
    PATH.write_text(text, encoding="utf-8")


def sha256(octets: bytes) -> str:
    """Return the hash of a capture; compressors may differ from release to release, captures may not."""
    if octets.startswith(b"\x1f\x8b"):
        octets = gzip.decompress(octets)
    elif octets.startswith(b"\x28\xb5\x2f\xfd"):
        octets = zstd_module().decompress(octets)
    return hashlib.sha256(octets).hexdigest()


def frame_count(path: Path) -> int:
    """Return the number of complete frames in a capture."""
    from ecmproto.frames.capture import open_capture

    with open_capture(str(path)) as reader:
        return sum(len(batch) for batch in reader)
