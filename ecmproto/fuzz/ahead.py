"""Cases made ahead of their use by another process, so that whoever sends them need not wait for them."""

from __future__ import annotations

import contextlib
import fcntl
import multiprocessing
import signal
from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from ecmproto.fuzz.cases import Cases

_TOGETHER = 32
"""So many cases go through the pipe at once."""
_PIPE_OCTETS = 1 << 20
"""What the pipe holds: some thousand cases, against times in which the other process is not let run."""
_END_SECONDS = 5.0


class MakingAhead:
    """The octets of ``cases``, made by another process; close it at the end."""

    def __init__(self, cases: Cases) -> None:
        self._cases = cases
        self._process: BaseProcess | None = None

    def starting_at(self, index: int) -> Iterator[bytes]:
        """Yield the octets of every case from ``index`` on, without end, once the first are there.

        What an earlier call yields is over.
        """
        self.close()
        context = multiprocessing.get_context("spawn")
        receiving, sending = context.Pipe(duplex=False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(sending.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_OCTETS)
        self._process = context.Process(target=_make, args=(self._cases, index, sending), daemon=True)
        self._process.start()
        sending.close()
        return _received(receiving, receiving.recv())

    def close(self) -> None:
        """End the other process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(_END_SECONDS)
            self._process = None


def _received(receiving: Connection, first: list[bytes]) -> Iterator[bytes]:
    with receiving:
        yield from first
        while True:
            yield from receiving.recv()


def _make(cases: Cases, index: int, sending: Connection) -> None:
    """Send the octets of cases until nobody takes them any more."""
    # an interrupt is for who uses them
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    made = (case.octets for case in cases.starting_at(index))
    with contextlib.suppress(BrokenPipeError):
        while True:
            sending.send(list(islice(made, _TOGETHER)))
