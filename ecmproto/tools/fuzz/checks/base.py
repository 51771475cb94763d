"""The interface of a check: from a batch of octet strings to the differences between two views of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Protocol, overload

from ecmproto.wire import codec
from ecmproto.wire.codec.frame import Frame


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A disagreement of two views, or a violated invariant of one."""

    what: str
    """The defect, in constant words."""
    detail: str
    """Both values."""
    row: int = -1
    """The index of the item in the batch; −1: the batch as a whole."""


class BatchCheck(Protocol):
    """Compares views of each item of a batch."""

    @property
    def name(self) -> str:
        """The name in reports and options."""

    @property
    def every(self) -> int:
        """It runs on one batch in ``every``."""

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the differences; an exception is one too."""


class Items(Sequence[bytes]):
    """The items of a batch for checks: octet strings, and frames on request.

    Decoding raises at the first request, and at each after it: no check continues with a part.
    """

    def __init__(self, octets: Sequence[bytes]) -> None:
        self._octets = tuple(octets)
        self._decoded: tuple[Frame, ...] | None = None

    def frames(self) -> tuple[Frame, ...]:
        """Return every item as a frame, decoded laxly."""
        if self._decoded is None:
            self._decoded = tuple(map(codec.decode_lax, self._octets))
        return self._decoded

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[bytes, ...]: ...

    def __getitem__(self, index: int | slice) -> bytes | tuple[bytes, ...]:
        return self._octets[index]

    def __len__(self) -> int:
        return len(self._octets)


def frames_of(items: Sequence[bytes]) -> tuple[Frame, ...]:
    """Return ``items`` as frames, decoded laxly; `Items` have them already."""
    return (items if isinstance(items, Items) else Items(items)).frames()
