"""Texts from captures and command lines as pictures and pages can hold them."""

from __future__ import annotations

import unicodedata

_ELLIPSIS = "…"


def printable(text: str) -> str:
    """Return ``text`` with everything that is no visible character replaced.

    White space becomes a space; control characters, lone surrogates and marks that turn the direction of
    writing round become U+FFFD: XML has no place for the first, and the last falsify what stands beside.
    """
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character.isspace():
        return " "
    return "\N{REPLACEMENT CHARACTER}" if unicodedata.category(character) in _UNSEEN else character


_UNSEEN = frozenset(("Cc", "Cf", "Cs", "Cn", "Co"))


def shortened(text: str, most: int) -> str:
    """Return ``text`` printable and, if it is longer than ``most`` characters, cut in its middle."""
    text = printable(text).strip()
    if len(text) <= most:
        return text
    tail = (most - 1) // 2
    return f"{text[: most - 1 - tail]}{_ELLIPSIS}{text[len(text) - tail :]}"


def width_em(text: str) -> float:
    """Return about how wide ``text`` is in a sans-serif typeface, in units of its size."""
    return sum(1.0 if unicodedata.east_asian_width(character) in "WF" else 0.6 for character in text)
