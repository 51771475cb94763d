"""Readers whose frames come from another reader: unwrapped, or with other times.

They are a pcapng capture of one section (`ecmproto.frames.capture.several.Joining`) with the interfaces of
the other reader and a bounded number of further ones.
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
"""Interfaces up to which further ones are described; what comes later shares one for each name."""


class Deriving(Joining):
    """The parser of a `DerivedReader`."""

    def __init__(self, reader: CaptureReader, *, records: bool = False) -> None:
        super().__init__()
        self.reader = reader
        self.file: JoinedFile | None = JoinedFile(reader, self) if records else None
        """The source of frames with their records; None where frames come without."""
        self._batches = self._all()
        self._numbers: list[int] = []
        """The number of each of the reader's interfaces here."""
        self._further: dict[tuple[int | str, ...], int] = {}
        self._ready: Batch | None = None

    @property
    def batch_frames(self) -> int:
        """The maximum number of frames in a batch."""
        return self.reader.batch_frames

    @batch_frames.setter
    def batch_frames(self, frames: int) -> None:
        self.reader.batch_frames = frames

    @property
    def summary(self) -> str:
        """One line on what was done to frames; empty where it was nothing."""
        raise NotImplementedError

    def derived(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield the frames derived from batches, whose interfaces have numbers of this reader."""
        raise NotImplementedError

    def take(self, source: Source) -> Batch | Block | Shortage:
        """Return the next block or batch; a shortage at the end."""
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
        """Yield the reader's batches with their records, numbered from the first frame on."""
        while True:
            file.fill()
            part = file.take_until(file.last_ns, before=False) if file.left else None
            if part is None:
                return
            yield self._numbered([part])

    def _numbered_here(self) -> Iterator[Batch]:
        """Yield the reader's batches on interfaces that are described here."""
        for batch in self.reader:
            self._describe()
            yield dataclasses.replace(
                batch, interface=np.array(self._numbers, np.int64)[batch.interface], records=None
            )
        self._describe()

    def _describe(self) -> None:
        """Describe the reader's interfaces that have come since the last time."""
        for interface in self.reader.interfaces[len(self._numbers) :]:
            self._numbers.append(self.describe(interface, None))

    def further_interface(
        self, outside: int, key: tuple[int | str, ...], kind: str, what: str, **fields: Any
    ) -> int:
        """Return the number of the interface with a key, which is described when it is first seen.

        It is interface ``outside``, named after ``what`` too, with other ``fields``.  Where there are many
        interfaces, all further ones of a ``kind`` are one.
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
        """Return the block of a further interface, on the clock of the reader's; None without records."""
        if self.file is None:
            return None
        return Block(
            kind=INTERFACE_DESCRIPTION, octets=interface_block(interface, self.byte_order),
            byte_order=self.byte_order, section=0, offset=0, frame=self.frames,
        )  # fmt: skip


class DerivedReader(ParsedReader):
    """A capture whose frames come from another reader."""

    def __init__(self, deriving: Deriving) -> None:
        self._deriving = deriving
        super().__init__(deriving, deriving.reader.path)

    @property
    def octets_read(self) -> int:
        """Octets of the files read so far."""
        return self._deriving.reader.octets_read

    @property
    def size_octets(self) -> int | None:
        """The files' size; None for a pipe."""
        return self._deriving.reader.size_octets

    @property
    def warnings(self) -> list[str]:
        """Unusual things so far that did not keep anything from being read."""
        return self._deriving.reader.warnings

    @property
    def summary(self) -> str:
        """One line on what was done to frames; empty where it was nothing."""
        below = self._deriving.reader
        lines = (below.summary if isinstance(below, DerivedReader) else "", self._deriving.summary)
        return "; ".join(filter(None, lines))

    def items(self) -> Iterator[Batch | Block]:
        """Yield a section header, interface descriptions as they are found, and batches."""
        yield from super().items()
        self.problem: CaptureError | None = self._deriving.reader.problem

    def close(self) -> None:
        """Close the file; batches already given stay valid."""
        super().close()
        self._deriving.reader.close()
