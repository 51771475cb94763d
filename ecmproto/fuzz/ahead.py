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
_FIRST = 1000
"""So many are there before the first is used."""
_PIPE_OCTETS = 1 << 20
"""What the pipe holds: some thousand cases, against times in which the other process is not let run."""
_END_SECONDS = 5.0


class MakingAhead:
    """The octets of ``cases``, made by another process; close it at the end."""

    def __init__(self, cases: Cases) -> None:
        self._cases = cases
        self._process: BaseProcess | None = None

    def starting_at(self, index: int) -> Iterator[bytes]:
        """Yield the octets of every case from ``index`` on, without end; an earlier call yields no more."""
        self.close()
        context = multiprocessing.get_context("spawn")
        receiving, sending = context.Pipe(duplex=False)
        with contextlib.suppress(OSError):
            fcntl.fcntl(sending.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_OCTETS)
        self._process = context.Process(target=_make, args=(self._cases, index, sending), daemon=True)
        self._process.start()
        sending.close()
        with receiving, contextlib.suppress(EOFError, OSError):
            while True:
                made = receiving.recv()
                yield from made
                index += len(made)
        # it was ended by someone else
        yield from _octets(self._cases, index)

    def close(self) -> None:
        """End the other process."""
        if self._process is not None:
            self._process.terminate()
            self._process.join(_END_SECONDS)
            self._process = None


def _octets(cases: Cases, index: int) -> Iterator[bytes]:
    return (case.octets for case in cases.starting_at(index))


def _make(cases: Cases, index: int, sending: Connection) -> None:
    """Send the octets of cases until nobody takes them any more."""
    # an interrupt is for who uses them
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    made = _octets(cases, index)
    with contextlib.suppress(BrokenPipeError):
        sending.send(list(islice(made, _FIRST)))
        while True:
            sending.send(list(islice(made, _TOGETHER)))
