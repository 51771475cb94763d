"""Captures of interfaces in threads of their own, while something else is sent."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ecmproto.frames.capture import Batch
from ecmproto.frames.capture.linux.bpf import MAX_CUT_OCTETS
from ecmproto.frames.capture.linux.reader import InterfaceReader, open_interface

_RETIRE_MS = 300
"""The time after which an incomplete block of a ring is delivered: long, as frames are judged later."""
_STAMPS_S = 0.1
"""The delay after which the kernel stamps frames on arrival."""


class Capturing:
    """Captures an interface until `end`; ``take`` gets each batch, which is kept in ``batches`` else."""

    def __init__(
        self,
        interface: str,
        *,
        take: Callable[[Batch], None] | None = None,
        outgoing: bool = True,
        snap_octets: int = MAX_CUT_OCTETS,
    ) -> None:
        self.reader: InterfaceReader = open_interface(
            interface, idle_batches=True, outgoing=outgoing, snap_octets=snap_octets, retire_ms=_RETIRE_MS
        )
        self.batches: list[Batch] = []
        self.dropped = 0
        """Frames that the kernel had no room for."""
        self._take = take or self.batches.append
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for batch in self.reader:
                if len(batch):
                    self._take(batch)
        except BaseException as error:  # raised where the thread is joined
            self._error = error

    def end(self, warn: Callable[[str], None] = lambda _: None) -> None:
        """End once what has arrived is taken; raise what went wrong."""
        self.reader.stop()
        self._thread.join()
        self.dropped = self.reader.counts().dropped
        self.reader.close()
        if self._error is not None:
            raise self._error
        for warning in self.reader.warnings:
            warn(warning)
        if self.reader.problem is not None:
            raise self.reader.problem


def settle() -> None:
    """Wait until frames are stamped as they come."""
    time.sleep(_STAMPS_S)
