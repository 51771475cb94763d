"""What a program prints, of any length: the last of it, and what follows the first sign of a failure."""

from __future__ import annotations

from ecmproto.fuzz.symptoms import SIGNS

TAIL_OCTETS = 1 << 16
SIGN_OCTETS = 1 << 14
_LONGEST_LINE = 1 << 10
"""So far before a sign the line is looked for that it stands in."""
_LEFT_OUT = b"\n[...]\n"


class Printed:
    """Takes what is printed piece by piece, and keeps a bounded part of it."""

    def __init__(self) -> None:
        self._tail = b""
        self._sign = b""
        self._octets = 0
        self._since = 0
        """How much was printed before the line of the sign."""

    def add(self, piece: bytes) -> None:
        """Take what was printed next."""
        if not self._sign:
            self._look(self._tail[-_LONGEST_LINE:], piece)
        elif len(self._sign) < SIGN_OCTETS:
            self._sign += piece
        self._octets += len(piece)
        self._tail = (self._tail + piece)[-TAIL_OCTETS:]

    def _look(self, before: bytes, piece: bytes) -> None:
        """Keep what follows the first sign, which may stand across two pieces."""
        window = before + piece
        found = [place for place in map(window.find, SIGNS) if place >= 0]
        if found:
            start = window.rfind(b"\n", 0, min(found)) + 1
            self._sign = window[start:]
            self._since = self._octets - len(before) + start

    @property
    def text(self) -> str:
        """What was kept, in order; where some was left out between, that is said."""
        head, lost = self._sign[:SIGN_OCTETS], self._octets - len(self._tail)
        kept = self._tail
        if head and self._since < lost:
            met = self._since + len(head) - lost
            kept = head + (kept[met:] if met >= 0 else _LEFT_OUT + kept)
        return kept.decode("utf-8", errors="replace")
