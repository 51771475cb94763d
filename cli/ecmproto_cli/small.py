"""Small captures without compiled code: the kernels run as plain Python.

That takes less time than loading compiled code, and a first use never waits for the compiler.  It is decided
before the modules with kernels are imported, for the whole process, as NUMBA_DISABLE_JIT is: only in a
process that ends with the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

MAX_OCTETS = 64 << 10
"""The maximum size of a small capture, and of its frames together: some hundred frames."""
COMMANDS = ("stats", "check")
"""Commands whose frames all go through kernels; `dissect` handles few frames without them."""
_SWITCH = "NUMBA_DISABLE_JIT"
_RECORD_OCTETS = 16

_alone: list[str] = []


def begin(command: str) -> None:
    """Mark this process as one that runs one command, and ends with it."""
    _alone[:] = [command] if command in COMMANDS else []


def without_compiler(paths: Sequence[str]) -> None:
    """Run kernels as plain Python in this process if these captures are small."""
    undecided = _SWITCH not in os.environ and not {"numba", "ecmproto.kernels.kernel"} & sys.modules.keys()
    if _alone and undecided and not _has_library() and _are_small(paths):
        os.environ[_SWITCH] = "1"


def _has_library() -> bool:
    from ecmproto.kernels import library

    return library.is_loaded()


def _are_small(paths: Sequence[str]) -> bool:
    """Return whether captures are files, and small, compressed or not."""
    if not paths or not all(map(os.path.isfile, paths)) or sum(map(os.path.getsize, paths)) > MAX_OCTETS:
        return False
    from ecmproto.errors import CaptureError
    from ecmproto.frames.capture import open_captures

    octets = 0
    try:
        with open_captures(paths, batch_frames=MAX_OCTETS // _RECORD_OCTETS) as reader:
            for batch in reader:
                octets += int(batch.captured.sum()) + _RECORD_OCTETS * len(batch)
                if octets > MAX_OCTETS:
                    return False
    except CaptureError:
        pass  # the command reports it
    return True
