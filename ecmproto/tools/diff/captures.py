"""The two captures of a comparison, each read twice: all frames as digests, then those that differ as frames.

What can be read only once, stdin or a pipe, is first copied to a temporary file.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import Batch, CaptureReader, Interface, open_capture
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.filter import Filter
from ecmproto.tools.diff.digests import Digester, Digests, Gatherer
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

Watch: TypeAlias = "Callable[[Iterable[Batch], CaptureReader], Iterable[Batch]]"
"""Passes on the batches of a reader, and looks on."""


class ReadTwice:
    """A capture that can be read as often as one likes, under the name that it was given."""

    def __init__(
        self, path: str, stack: contextlib.ExitStack, *, inner: bool = False, ethertypes: EtherTypes = DEFAULT
    ) -> None:
        self.path = path
        self._inner = inner
        self._ethertypes = ethertypes
        self._stack = stack
        self._place = path
        if path == "-" or not _is_regular(path):
            self._place = self._copied()

    def _copied(self) -> str:
        made = tempfile.NamedTemporaryFile(prefix="ecmproto-diff-")  # noqa: SIM115  # closed by the stack
        copy = self._stack.enter_context(made)
        try:
            if self.path == "-":
                shutil.copyfileobj(sys.stdin.buffer, copy)
            else:
                with open(self.path, "rb") as file:
                    shutil.copyfileobj(file, copy)
        except OSError as error:
            got = error.strerror or str(error)
            raise CaptureError(
                path=self.path, offset=0, frame=0, needed="a capture that can be copied", got=got
            ) from error
        copy.flush()
        return copy.name

    def reader(self) -> CaptureReader:
        """Return a reader at the start, to be closed; CaptureError with the name that was given."""
        try:
            if not self._inner:
                return open_capture(self._place)
            # loads what unwraps frames
            from ecmproto.frames.batch.inner import open_innermost

            return open_innermost((self._place,), ethertypes=self._ethertypes)
        except CaptureError as error:
            raise self.named(error) from error.__cause__

    def named(self, error: CaptureError) -> CaptureError:
        """Return an error with the name that the capture was given."""
        if self._place == self.path:
            return error
        return CaptureError(
            path=self.path, offset=error.offset, frame=error.frame, needed=error.needed, got=error.got
        )


def _is_regular(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return True  # which the reader tells of
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


class DigestReader:
    """Reads a capture as digests, some frames at a time; those that were not used are there the next time."""

    def __init__(
        self,
        capture: ReadTwice,
        digester: Digester,
        *,
        filter: Filter | None,
        ethertypes: EtherTypes,
        pool: ThreadPoolExecutor | None,
        watch: Watch,
    ) -> None:
        self._capture = capture
        self._reader: CaptureReader | None = capture.reader()
        self._batches = iter(watch(self._reader, self._reader))
        self.interfaces = self._reader.interfaces
        """The interfaces of the capture as far as it was read."""
        self.warnings: Sequence[str] = ()
        """Unusual things in it, once it is read."""
        self.problem: CaptureError | None = None
        """What kept the rest of it from being read."""
        self.unwrapped = ""
        """One line on the frames that were unwrapped, once it is read; empty without any."""
        self._digester = digester
        self._filter = filter
        self._ethertypes = ethertypes
        self._pool = pool
        self._gathered = Gatherer()
        self.frames = 0
        """How many frames were read that are compared."""

    @property
    def is_read(self) -> bool:
        """Whether all were read."""
        return self._reader is None

    def window(self, frames: int) -> Digests:
        """Return the next frames, those given back first: so many and the rest of a batch, or all."""
        while self._gathered.frames < frames and self._reader is not None:
            batch = next(self._batches, None)
            if batch is None:
                self._end(self._reader)
                break
            self._add(batch)
        return self._gathered.taken()

    def _add(self, batch: Batch) -> None:
        batch = self._digester.cut(batch)
        if self._filter is not None:
            mask = selected(
                batch, self._filter, interfaces=self.interfaces, ethertypes=self._ethertypes, pool=self._pool
            )
            batch = batch.select(mask)
        self.frames += len(batch)
        if len(batch):
            self._gathered.add(self._digester.digests(batch, self.interfaces, self._pool))

    def _end(self, reader: CaptureReader) -> None:
        """Let go of the reader, and of the memory that the file is mapped to with it."""
        self.warnings = reader.warnings
        self.unwrapped = getattr(reader, "summary", "")
        if reader.problem is not None:
            self.problem = self._capture.named(reader.problem)
        self._reader, self._batches = None, iter(())
        reader.close()

    def close(self) -> None:
        """Close the capture."""
        if self._reader is not None:
            self._reader.close()

    def give_back(self, digests: Digests) -> None:
        """Have some frames come first the next time."""
        if len(digests):
            self._gathered.add(digests)


class FramePicker:
    """Reads some frames of a capture; for those in front of what was read, from the start again."""

    def __init__(self, capture: ReadTwice) -> None:
        self._capture = capture
        self._start()

    def _start(self) -> None:
        self.reader = self._capture.reader()
        self._batches = iter(self.reader)
        self._batch: Batch | None = None

    def close(self) -> None:
        """Close the capture."""
        self.reader.close()

    @property
    def interfaces(self) -> Sequence[Interface]:
        """The interfaces of the capture as far as it was read."""
        return self.reader.interfaces

    def take(self, numbers: NDArray[np.int64]) -> Batch:
        """Return the frames with these 0-based numbers, which ascend."""
        if self._batch is not None and len(numbers) and numbers[0] < self._batch.first:
            self.reader.close()
            self._start()
        parts: list[Batch] = []
        left = numbers
        while len(left):
            if self._batch is None:
                self._batch = next(self._batches, None)
            if self._batch is None:
                raise CaptureError(
                    path=self._capture.path, offset=0, frame=self.reader.frames,
                    needed="the same frames when read again", got="a capture that has become shorter",
                )  # fmt: skip
            batch = self._batch
            count = int(np.searchsorted(left, batch.first + len(batch)))
            if count:
                # copied at once: what was read may be given back to the kernel with the next batch
                parts.append(_copied([batch.select(left[:count] - batch.first)], left[:count]))
                left = left[count:]
            if len(left):
                self._batch = None
        return parts[0] if len(parts) == 1 else _copied(parts, numbers)


def _copied(parts: Sequence[Batch], numbers: NDArray[np.int64]) -> Batch:
    """Return the frames of batches as one, with octets of its own."""
    none = np.empty(0, np.int64)
    made = Batch.from_frames(
        [frame for part in parts for frame in part.frames()],
        time_ns=np.concatenate([none, *(part.time_ns for part in parts)]),
        original=np.concatenate([none, *(part.original for part in parts)]),
        interface=np.concatenate([none, *(part.interface for part in parts)]),
    )
    timed = [np.ones(len(part), np.bool_) if part.timed is None else part.timed for part in parts]
    every = all(each.all() for each in timed)
    return dataclasses.replace(made, picked=numbers, timed=None if every else np.concatenate(timed))
