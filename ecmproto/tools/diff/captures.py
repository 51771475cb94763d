"""The two captures of a comparison, each read twice: first as digests, then only the differing frames.

Input that can be read only once (stdin or a pipe) is first copied to a temporary file.
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
from ecmproto.frames.batch.inner import open_unwrapped
from ecmproto.frames.capture import Batch, CaptureReader, Interface
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.filter import Filter
from ecmproto.tools.diff.digests import Digester, Digests, Gatherer
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes

Watch: TypeAlias = "Callable[[Iterable[Batch], CaptureReader], Iterable[Batch]]"
"""Function that yields the batches of a reader and observes them."""


class ReadTwice:
    """A capture that can be read repeatedly; errors contain the original name."""

    def __init__(
        self, path: str, stack: contextlib.ExitStack, *, outer: bool = False, ethertypes: EtherTypes = DEFAULT
    ) -> None:
        self.path = path
        self._outer = outer
        self._ethertypes = ethertypes
        self._stack = stack
        self._readable = path
        if path == "-" or not _is_regular(path):
            self._readable = self._copied()

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
        """Return a new reader at the start of the capture, which the caller must close.

        Raises CaptureError with the original name.
        """
        try:
            return open_unwrapped((self._readable,), outer=self._outer, ethertypes=self._ethertypes)
        except CaptureError as error:
            raise self.named(error) from error.__cause__

    def named(self, error: CaptureError) -> CaptureError:
        """Return an error with the original name of the capture."""
        if self._readable == self.path:
            return error
        return CaptureError(**error.as_dict() | {"path": self.path})


def _is_regular(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return True  # reported by the reader
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


class DigestReader:
    """Reader of a capture as digests, a window at a time.

    Frames that were given back are at the start of the next window.
    """

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
        self.interfaces: list[Interface] = self._reader.interfaces
        """Interfaces read from the capture so far."""
        self.warnings: Sequence[str] = ()
        """Warnings about the capture, set at its end."""
        self.problem: CaptureError | None = None
        """Error that ended reading early."""
        self.unwrapped: str = ""
        """Line about the unwrapped frames, set at the end of the capture; empty if no frame was unwrapped."""
        self._digester = digester
        self._filter = filter
        self._ethertypes = ethertypes
        self._pool = pool
        self._gathered = Gatherer()
        self.frames: int = 0
        """Number of frames read for the comparison."""

    @property
    def is_read(self) -> bool:
        """Whether all frames were read."""
        return self._reader is None

    def window(self, frames: int) -> Digests:
        """Return the next frames, starting with frames that were given back.

        The window has ``frames`` frames and the remaining frames of the last batch, or all remaining frames
        of the capture.
        """
        while self._gathered.frames < frames and self._reader is not None:
            batch = next(self._batches, None)
            if batch is None:
                self._end(self._reader)
                break
            self._add(batch)
        return self._gathered.pop_all()

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
        """Close the reader, and release the memory mapping of the file."""
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
        """Put frames back, so that the next window starts with these frames."""
        if len(digests):
            self._gathered.add(digests)


class FramePicker:
    """Reader of selected frames of a capture; it restarts for frames before the current position."""

    def __init__(self, capture: ReadTwice) -> None:
        self._capture = capture
        self._start()

    def _start(self) -> None:
        self.reader: CaptureReader = self._capture.reader()
        self._batches = iter(self.reader)
        self._batch: Batch | None = None

    def close(self) -> None:
        """Close the capture."""
        self.reader.close()

    @property
    def interfaces(self) -> Sequence[Interface]:
        """Interfaces read from the capture so far."""
        return self.reader.interfaces

    def take(self, numbers: NDArray[np.int64]) -> Batch:
        """Return the frames with the given 0-based numbers, which must ascend."""
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
                    needed="the same frames on the second reading", got="a capture that has become shorter",
                )  # fmt: skip
            batch = self._batch
            count = int(np.searchsorted(left, batch.first + len(batch)))
            if count:
                # Copied at once: the next batch may release the memory of this one.
                parts.append(_copied([batch.select(left[:count] - batch.first)], left[:count]))
                left = left[count:]
            if len(left):
                self._batch = None
        return parts[0] if len(parts) == 1 else _copied(parts, numbers)


def _copied(parts: Sequence[Batch], numbers: NDArray[np.int64]) -> Batch:
    """Return the frames of batches as one batch with copied octets."""
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
