"""Much text on stdout, written in few pieces, of which an interrupt loses none."""

from __future__ import annotations

import select
import sys

_PIECE_CHARACTERS = 1 << 16


class Stdout:
    """Collects text and writes it when there is enough of it, or when told to.

    ``encoding`` is the terminal's unless given; characters it does not have become ``?``.
    """

    def __init__(self, encoding: str = "") -> None:
        self._encoding = encoding or sys.stdout.encoding
        self._parts: list[str] = []
        self._characters = 0
        self._left = memoryview(b"")

    def write(self, text: str) -> None:
        """Write ``text`` now or later."""
        self._parts.append(text)
        self._characters += len(text)
        if self._characters >= _PIECE_CHARACTERS:
            self.flush()

    def flush(self) -> None:
        """Write what was collected; after an interrupt, called again, what is left of it."""
        self._write_left()
        self._left = memoryview("".join(self._parts).encode(self._encoding, errors="replace"))
        self._parts.clear()
        self._characters = 0
        self._write_left()

    def _write_left(self) -> None:
        # A buffered writer that an interrupt ends in the middle forgets what it had not written yet.
        sys.stdout.flush()
        raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        while self._left:
            written = raw.write(self._left)
            if written is None:  # a descriptor that does not wait
                select.select([], [raw], [])
            else:
                self._left = self._left[written:]
