"""Much text on stdout, or in a file, written in few pieces."""

from __future__ import annotations

import codecs
import select
import sys
from typing import TYPE_CHECKING

from ecmproto_cli.progress import work

if TYPE_CHECKING:
    from ecmproto.capture import Sink

_PIECE_CHARACTERS = 1 << 16


class Stdout:
    """Collects text and writes it when there is enough of it, or when told to.

    ``encoding`` is the terminal's unless given; characters it does not have become ``?``.  With a ``sink`` it
    goes there instead.
    """

    def __init__(self, encoding: str = "", sink: Sink | None = None) -> None:
        self._sink = sink
        self._is_seen = sink is None and sys.stdout.isatty()
        self._encoding = encoding or sys.stdout.encoding
        self._is_utf8 = codecs.lookup(self._encoding).name == "utf-8"
        self._parts: list[str] = []
        self._characters = 0

    def write(self, text: str) -> None:
        """Write ``text`` now or later."""
        self._parts.append(text)
        self._characters += len(text)
        if self._characters >= _PIECE_CHARACTERS:
            self.flush()

    def write_octets(self, octets: bytes | memoryview) -> None:
        """Write text that is UTF-8 already, now."""
        if self._is_utf8:
            self.flush()
            self._put(memoryview(octets))
        else:
            self.write(str(octets, "utf-8"))

    def flush(self) -> None:
        """Write what was collected."""
        text = "".join(self._parts).encode(self._encoding, errors="replace")
        self._parts.clear()
        self._characters = 0
        self._put(memoryview(text))

    def _put(self, octets: memoryview) -> None:
        if self._sink is None:
            if octets and self._is_seen:
                work.end()
            _write(octets)
        else:
            self._sink.write(octets)


def _write(left: memoryview) -> None:
    sys.stdout.flush()
    # The buffered writer of Python 3.11 loses octets when a signal comes in the middle of its write.
    raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
    while left:
        written = raw.write(left)
        if written is None:  # a descriptor that does not wait
            select.select([], [raw], [])
        else:
            left = left[written:]
