"""Where two views of the same octets differ, and what a check is that finds such places."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Protocol


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A place where views disagree, or one of them breaks its promise."""

    what: str
    """What it is, in the same words each time that the same thing is wrong."""
    detail: str
    """What there is on each side this time."""
    row: int = -1
    """Of which item of the batch; −1: of the batch as a whole."""


class Check(Protocol):
    """Compares views of each item of a batch."""

    @property
    def name(self) -> str:
        """What it is called in reports."""

    @property
    def every(self) -> int:
        """It looks at one batch in so many."""

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield what differs; an exception is a difference too."""
