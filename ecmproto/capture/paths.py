"""Which captures are named: files, folders with all that is below, and patterns."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable

from ecmproto.errors import CaptureError

SUFFIXES = (".pcap", ".pcapng", ".cap", ".ntar")
_PACKED = ("", ".gz", ".zst")


def capture_paths(paths: Iterable[str]) -> list[str]:
    """Return the captures that ``paths`` name, each once."""
    found: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            below = [
                os.path.join(folder, name)
                for folder, _, names in os.walk(path)
                for name in names
                if name.lower().endswith(tuple(s + p for s in SUFFIXES for p in _PACKED))
            ]
        elif glob.has_magic(path) and not os.path.exists(path):
            below = [each for each in glob.glob(path, recursive=True) if os.path.isfile(each)]
        else:
            below = [path]
        if not below:
            raise CaptureError(path=path, offset=0, frame=0, needed="captures", got="none")
        found |= dict.fromkeys(sorted(below))
    return list(found)
