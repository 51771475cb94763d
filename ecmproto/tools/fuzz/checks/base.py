"""The interface of a check, which compares two views of a batch of octet strings."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Protocol, overload

from ecmproto.wire import codec
from ecmproto.wire.codec.frame import Frame


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A disagreement between two views, or a violated invariant of a single view."""

    what: str
    """Description of the defect, without values that change from case to case."""
    detail: str
    """The values in both views."""
    row: int = -1
    """Index of the item in the batch; −1 for the whole batch."""


class BatchCheck(Protocol):
    """A check that compares two views of each item of a batch."""

    @property
    def name(self) -> str:
        """The name of the check in reports and options."""

    @property
    def every(self) -> int:
        """The interval in batches between runs of the check."""

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield the differences. An exception also counts as a difference."""


class Items(Sequence[bytes]):
    """The octet strings of a batch, with the frames that are decoded on request.

    If decoding fails, every request for the frames raises the error. Therefore, no check sees incomplete
    frames.
    """

    def __init__(self, octets: Sequence[bytes]) -> None:
        self._octets = tuple(octets)
        self._decoded: tuple[Frame, ...] | None = None

    def frames(self) -> tuple[Frame, ...]:
        """Return every item as a frame from the lax decoder."""
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
    """Return ``items`` as frames from the lax decoder. `Items` cache the frames."""
    return (items if isinstance(items, Items) else Items(items)).frames()
