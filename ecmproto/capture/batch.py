"""Batch: frames as one buffer and arrays, the form in which they travel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ecmproto.capture.container import Interface, RecordFormat

Octets = NDArray[np.uint8]
Int64 = NDArray[np.int64]


_FEW_INTERFACES = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """Frames of a capture: one buffer and, per frame, where it lies and what its record says.

    ``buffer`` is read-only; it may be the mapped file itself, so a batch copies nothing.  The arrays have
    one entry a frame: ``offset`` of its first octet in ``buffer``, ``captured`` octets there, ``original``
    octets on the wire, ``time_ns`` since 1970, the global ``interface`` index, and ``record_offset`` and
    ``record_length`` of the whole record or block in the same buffer.  ``first`` is the 0-based number of
    the frame the batch began with; a selection keeps it, with ``picked`` the distances from it.
    ``timed`` is False where the record holds no time (simple packet blocks; ``time_ns`` is 0 there);
    None means that all have one.  ``records`` is None where the frames come from no file.
    """

    buffer: Octets
    offset: Int64
    captured: Int64
    original: Int64
    time_ns: Int64
    interface: Int64
    record_offset: Int64
    record_length: Int64
    first: int = 0
    picked: Int64 | None = None
    timed: NDArray[np.bool_] | None = None
    records: RecordFormat | None = None

    def __len__(self) -> int:
        return len(self.offset)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice | ArrayLike) -> Batch: ...
    def __getitem__(self, index: Any) -> bytes | Batch:
        """Return the octets of one frame, or a batch of some: a slice, positions or a mask."""
        if isinstance(index, int | np.integer):
            position = int(index) + (len(self) if index < 0 else 0)
            if not 0 <= position < len(self):
                raise IndexError(f"frame {index} of a batch of {len(self)}")
            return self.frame(position)
        return self.select(np.arange(len(self))[index] if isinstance(index, slice) else index)

    def __iter__(self) -> Iterator[bytes]:
        return self.frames()

    @property
    def numbers(self) -> Int64:
        """The frames' 0-based numbers in the capture; they survive a selection."""
        distances = np.arange(len(self), dtype=np.int64) if self.picked is None else self.picked
        return distances + self.first

    def frame(self, i: int) -> bytes:
        """Return the captured octets of frame ``i`` of the batch; IndexError outside ``len()``."""
        start = int(self.offset[i])
        return self.buffer[start : start + int(self.captured[i])].tobytes()

    def record(self, i: int) -> bytes:
        """Return the whole record or block of frame ``i``."""
        start = int(self.record_offset[i])
        return self.buffer[start : start + int(self.record_length[i])].tobytes()

    def links(self, interfaces: Sequence[Interface]) -> tuple[Sequence[Interface], Int64]:
        """Return the interfaces of a capture that matter here, and which of these each frame came from.

        They are all of a few, and of many those that frames came from.
        """
        if len(interfaces) <= _FEW_INTERFACES:
            return interfaces, self.interface
        used, which = np.unique(self.interface, return_inverse=True)
        return [interfaces[index] for index in used.tolist()], which.reshape(-1)

    def frames(self) -> Iterator[bytes]:
        """Yield the captured octets of each frame in order."""
        view = self.buffer.data
        ends = (self.offset + self.captured).tolist()
        for start, end in zip(self.offset.tolist(), ends, strict=True):
            yield bytes(view[start:end])

    def select(self, mask: ArrayLike) -> Batch:
        """Return the frames that ``mask`` picks: booleans, one a frame, or positions in the batch."""
        picks = np.asarray(mask)
        picks = np.flatnonzero(picks) if picks.dtype == np.bool_ else picks.astype(np.int64)
        return Batch(
            buffer=self.buffer,
            offset=self.offset[picks],
            captured=self.captured[picks],
            original=self.original[picks],
            time_ns=self.time_ns[picks],
            interface=self.interface[picks],
            record_offset=self.record_offset[picks],
            record_length=self.record_length[picks],
            first=self.first,
            picked=picks if self.picked is None else self.picked[picks],
            timed=None if self.timed is None else self.timed[picks],
            records=self.records,
        )

    @classmethod
    def from_frames(
        cls,
        frames: Sequence[bytes],
        *,
        time_ns: ArrayLike = 0,
        original: ArrayLike | None = None,
        interface: ArrayLike = 0,
        first: int = 0,
    ) -> Batch:
        """Return a batch of ``frames``; the other arguments are one value for all or one each."""
        captured = np.fromiter(map(len, frames), dtype=np.int64, count=len(frames))
        buffer = np.frombuffer(b"".join(frames), dtype=np.uint8)
        return cls._crafted(buffer, captured, time_ns, original, interface, first)

    @classmethod
    def from_matrix(
        cls,
        matrix: Octets,
        *,
        time_ns: ArrayLike = 0,
        original: ArrayLike | None = None,
        interface: ArrayLike = 0,
        first: int = 0,
    ) -> Batch:
        """Return a batch of the rows of ``matrix`` (n × length), no copy of it where it is contiguous."""
        count, length = matrix.shape
        buffer = np.ascontiguousarray(matrix, dtype=np.uint8).reshape(-1).view()
        buffer.flags.writeable = False
        return cls._crafted(
            buffer, np.full(count, length, dtype=np.int64), time_ns, original, interface, first
        )

    @classmethod
    def _crafted(
        cls,
        buffer: Octets,
        captured: Int64,
        time_ns: ArrayLike,
        original: ArrayLike | None,
        interface: ArrayLike,
        first: int,
    ) -> Batch:
        offset = np.cumsum(captured) - captured
        return cls(
            buffer=buffer,
            offset=offset,
            captured=captured,
            original=captured if original is None else _each(original, len(captured)),
            time_ns=_each(time_ns, len(captured)),
            interface=_each(interface, len(captured)),
            record_offset=offset,
            record_length=captured,
            first=first,
        )


def _each(values: ArrayLike, count: int) -> Int64:
    array = np.asarray(values, dtype=np.int64)
    return np.full(count, array) if array.ndim == 0 else array.reshape(count)
