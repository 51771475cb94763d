"""What a coverage-guided target is: checks, the inputs to start from, and how inputs are changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ecmproto.fuzz.dice import Dice
from ecmproto.fuzz.difference import Check


def alone(octets: bytes) -> list[bytes]:
    """Return an input as the only item of a batch."""
    return [octets]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One target; the module of each says first what must hold."""

    subject: str
    """What ``fuzz decode --what`` calls its cases."""
    checks: Callable[[], list[Check]]
    instrumented: tuple[str, ...]
    """The packages whose lines guide: those that the checks are about."""
    starts: Callable[[], list[bytes]]
    """Inputs to start from, besides the committed ones."""
    mutate: Callable[[bytes, Dice], bytes]
    """Changes an input as its structure suggests; atheris changes the others."""
    items: Callable[[bytes], list[bytes]] = alone
    """The batch that an input stands for."""
    longest_octets: int = 1024
    """Of an input."""
