"""Turns at compiling: of processes that need the same kernel, one compiles it and the others load it.

Contexts need neither numba nor a compiled function, unless something has to be compiled.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_LOOK_S = 0.05
PATIENCE_S = 120.0
"""The maximum wait for another process to compile a kernel, before this one compiles it too."""


class Turns:
    """Turns at compiling into a cache folder, held by a lock on the folder.

    The lock ends with the process that has it.  One that is held for longer than ``patience_s`` is waited
    for no more: anyone who may read the folder can take it.
    """

    def __init__(self, tell: Callable[[], None], patience_s: float) -> None:
        self._tell = tell
        self._patience_s = patience_s
        self._told = self._given_up = False
        self._depth = 0
        self._descriptor: int | None = None

    def begin(self, folder: str | None) -> None:
        """Wait for the turn, if something is to be kept; one kernel may be compiled within another."""
        self._depth += 1
        if folder is None or self._depth > 1 or self._given_up:
            return
        with suppress(OSError):  # a file system without locks, or folders that cannot be locked
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(folder, flags)
            self._wait(self._descriptor)

    def _wait(self, descriptor: int) -> None:
        import fcntl  # where there is a folder, there is this too

        end_s = time.monotonic() + self._patience_s
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                pass
            if not self._told:
                self._told = True
                self._tell()
            if time.monotonic() >= end_s:
                self._given_up = True
                return
            time.sleep(_LOOK_S)

    def end(self) -> None:
        """Give the turn to others."""
        self._depth = max(0, self._depth - 1)
        if self._depth == 0 and self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


TURNS: list[Turns] = []
"""The contexts of this process, the innermost last."""


@contextmanager
def taking_turns(tell: Callable[[], None], *, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Compile nothing that another process in such a context compiles just now: wait for it, and load it.

    ``tell`` is called when there is something to wait for.
    """
    turns = Turns(tell, patience_s)
    TURNS.append(turns)
    try:
        yield
    finally:
        TURNS.remove(turns)
        while turns._descriptor is not None:  # what could not be compiled is not saved
            turns.end()
