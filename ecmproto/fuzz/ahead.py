"""Cases made ahead of their use by another process, so that whoever sends them need not wait for them."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from ecmproto.fuzz.cases import Cases

_TOGETHER = 32
"""So many cases go through the pipe at once; it holds some hundred."""
_END_SECONDS = 5.0


class MakingAhead:
    """The octets of ``cases``, made by another process; close it at the end."""

    def __init__(self, cases: Cases) -> None:
        self._cases = cases
        self._process: BaseProcess | None = None

    def starting_at(self, index: int) -> Iterator[bytes]:
        """Yield the octets of every case from ``index`` on, without end; what was yielded before is over."""
        self.close()
        context = multiprocessing.get_context("spawn")
        receiving, sending = context.Pipe(duplex=False)
        self._process = context.Process(target=_make, args=(self._cases, index, sending), daemon=True)
        self._process.start()
        sending.close()
        with receiving:
            while True:
                yield from receiving.recv()

    def close(self) -> None:
        """End the other process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(_END_SECONDS)
            self._process = None


def _make(cases: Cases, index: int, sending: Connection) -> None:
    """Send the octets of cases until nobody takes them any more."""
    # an interrupt is for who uses them
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    made = (case.octets for case in cases.starting_at(index))
    with contextlib.suppress(BrokenPipeError):
        while True:
            sending.send(list(islice(made, _TOGETHER)))
