"""Readers that derive their frames from another reader, for example without encapsulation or with other
times.

Such a reader represents a pcapng capture with one section (`ecmproto.frames.capture.several.Joining`). The
section has the interfaces of the original reader and a bounded number of additional interfaces.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np

from ecmproto.errors import CaptureError
from ecmproto.frames.capture.batch import INTERFACE_DESCRIPTION, Batch, Block, Interface
from ecmproto.frames.capture.reader import CaptureReader, ParsedReader
from ecmproto.frames.capture.several import JoinedFile, Joining
from ecmproto.frames.capture.source import Shortage, Source
from ecmproto.frames.capture.writer import interface_block

_MAX_INTERFACES = 1024
"""Maximum number of interfaces with own descriptions. Further interfaces of the same type name are merged."""


class Deriving(Joining):
    """The parser of a `DerivedReader`."""

    def __init__(self, reader: CaptureReader, *, records: bool = False) -> None:
        super().__init__()
        self.reader = reader
        self.file: JoinedFile | None = JoinedFile(reader, self) if records else None
        """Source of frames with records, or ``None`` if records are not needed."""
        self._batches = self._all()
        self._numbers: list[int] = []
        """Number in this reader for each interface of the original reader."""
        self._further: dict[tuple[int | str, ...], int] = {}
        self._ready: Batch | None = None

    @property
    def batch_frames(self) -> int:
        """Maximum number of frames in a batch."""
        return self.reader.batch_frames

    @batch_frames.setter
    def batch_frames(self, frames: int) -> None:
        self.reader.batch_frames = frames

    @property
    def summary(self) -> str:
        """One line about the changes to frames, or an empty string without changes."""
        raise NotImplementedError

    def derived(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the frames that are derived from ``batches``.

        The interface numbers are already numbers of this reader.
        """
        raise NotImplementedError

    def take(self, source: Source) -> Batch | Block | Shortage:
        """Return the next block or batch, or a shortage at the end."""
        if self._ready is None and not self._pending:
            self._ready = next(self._batches, None)
        if self._pending:
            return self._pending.popleft()
        ready, self._ready = self._ready, None
        return Shortage(octets=1, what="a frame") if ready is None else ready

    def _all(self) -> Iterator[Batch]:
        """Yield all batches."""
        if self.file is not None:
            yield from self.derived(self._with_records(self.file))
            return
        for batch in self.derived(self._numbered_here()):
            self.frames += len(batch)
            yield batch

    def _with_records(self, file: JoinedFile) -> Iterator[Batch]:
        """Yield the batches of the original reader with their records, numbered from the first frame on."""
        while True:
            file.fill()
            part = file.take_until(file.last_ns, before=False) if file.left else None
            if part is None:
                return
            yield self._numbered([part])

    def _numbered_here(self) -> Iterator[Batch]:
        """Yield the batches of the original reader with the interface numbers of this reader."""
        for batch in self.reader:
            self._describe()
            yield dataclasses.replace(
                batch, interface=np.array(self._numbers, np.int64)[batch.interface], records=None
            )
        self._describe()

    def _describe(self) -> None:
        """Describe the new interfaces of the original reader."""
        for interface in self.reader.interfaces[len(self._numbers) :]:
            self._numbers.append(self.describe(interface, None))

    def further_interface(
        self, outside: int, key: tuple[int | str, ...], kind: str, what: str, **fields: Any
    ) -> int:
        """Return the number of the additional interface for ``key``, and describe the interface on first use.

        The description is a copy of interface ``outside`` with other ``fields``, and the name also contains
        ``what``. If there are many interfaces, all further interfaces of a ``kind`` share a number.
        """
        key = outside, *key
        if key not in self._further and len(self.interfaces) >= _MAX_INTERFACES:
            key, what = (outside, kind, fields.get("linktype", 0)), f"{kind} (further sessions)"
            if "sampling" in fields:
                fields["sampling"] = 0
        if key not in self._further:
            known = self.interfaces[outside]
            name = f"{known.name} {what}".strip()
            inside = dataclasses.replace(known, name=name, snaplen=0, options=(), **fields)
            self._further[key] = self.describe(inside, self._description(inside))
        return self._further[key]

    def _description(self, interface: Interface) -> Block | None:
        """Return the description block of an additional interface, or ``None`` without records.

        The interface uses the same clock as the original interface.
        """
        if self.file is None:
            return None
        return Block(
            kind=INTERFACE_DESCRIPTION, octets=interface_block(interface, self.byte_order),
            byte_order=self.byte_order, section=0, offset=0, frame=self.frames,
        )  # fmt: skip


class DerivedReader(ParsedReader):
    """A capture whose frames are derived from another reader."""

    def __init__(self, deriving: Deriving) -> None:
        self._deriving = deriving
        super().__init__(deriving, deriving.reader.path)

    @property
    def octets_read(self) -> int:
        """Number of octets read from the files so far."""
        return self._deriving.reader.octets_read

    @property
    def size_octets(self) -> int | None:
        """Size of the files in octets, or ``None`` for a pipe."""
        return self._deriving.reader.size_octets

    @property
    def warnings(self) -> list[str]:
        """Unusual findings so far that did not prevent reading."""
        return self._deriving.reader.warnings

    @property
    def summary(self) -> str:
        """One line about the changes to frames, or an empty string without changes."""
        below = self._deriving.reader
        lines = (below.summary if isinstance(below, DerivedReader) else "", self._deriving.summary)
        return "; ".join(filter(None, lines))

    def items(self) -> Iterator[Batch | Block]:
        """Yield a section header, interface descriptions as soon as interfaces are found, and batches."""
        yield from super().items()
        self.problem: CaptureError | None = self._deriving.reader.problem

    def close(self) -> None:
        """Close the file. Batches that were already returned remain valid."""
        super().close()
        self._deriving.reader.close()
