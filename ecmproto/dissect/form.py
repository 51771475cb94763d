"""What every form of output has in common: text before the frames, for each frame, and after them.

A form gives the text of one frame after the other, and that of whole batches, which is the same text.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ecmproto.capture import Batch, CaptureReader, Interface
from ecmproto.dissect.record import Record, records
from ecmproto.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.units import NS_PER_S

if TYPE_CHECKING:
    from ecmproto.columns.text.renderer import Renderer

Paint = Callable[[str, str], str]
"""Puts text into a named style: title, name, dim, congestion, pause, tag, error."""


def plain(text: str, style: str) -> str:
    """Return ``text`` as it is: the `Paint` that paints nothing."""
    return text


class Form(Protocol):
    """A way of writing frames out; the three texts, joined, are the whole output."""

    def begin(self, reader: CaptureReader) -> str:
        """Return what stands before the first frame; called once ``reader`` has read up to it."""

    def passed(self, record: Record) -> None:
        """Take note of a frame in front of the next one that is not to be shown."""

    def record(self, record: Record) -> str:
        """Return one frame, with its line ends."""

    def end(self, reader: CaptureReader) -> str:
        """Return what stands behind the last frame."""


class Listing(ABC):
    """A form that has frames only, with times that count from the capture's first frame, shown or not."""

    origin_ns: int | None = None
    """The time that times count from."""
    commented = False
    """Whether it shows the comments of records."""
    _renderer: Renderer | None = None

    def begin(self, reader: CaptureReader) -> str:
        """Return nothing."""
        return ""

    def passed(self, record: Record) -> None:
        """Count times from it if it is the first."""
        if self.origin_ns is None:
            self.origin_ns = record.time_ns

    @abstractmethod
    def record(self, record: Record) -> str:
        """Return one frame, with its line ends."""

    def end(self, reader: CaptureReader) -> str:
        """Return nothing."""
        return ""

    def batch(
        self,
        batch: Batch,
        interfaces: Sequence[Interface],
        *,
        ethertypes: EtherTypes = DEFAULT,
        shown: NDArray[np.bool_] | None = None,
        pool: ThreadPoolExecutor | None = None,
    ) -> Iterator[bytes | memoryview]:
        """Yield the text of a batch's frames in pieces of UTF-8, each valid until the next.

        Joined they are what `record` gives of the frames that ``shown`` (None: all) picks, with `passed` for
        the others.  ``pool`` shares the work.  Where `renderer` gives one, this compiles and loads kernels:
        it is for captures of many frames.
        """
        if self.origin_ns is None:
            times = batch.time_ns if batch.timed is None else batch.time_ns[batch.timed]
            self.origin_ns = int(times[0]) if len(times) else None
        if shown is not None:
            batch = batch.select(shown)

        def single(part: Batch) -> Iterator[str]:
            each = records(part, interfaces, ethertypes=ethertypes, commented=self.commented)
            return (self.record(record) for record in each)

        self._renderer = self._renderer or self.renderer()
        if self._renderer is None:
            yield from (text.encode("utf-8", errors="replace") for text in single(batch))
            return
        yield from self._renderer.batch(
            batch,
            single,
            interfaces=interfaces,
            ethertypes=ethertypes,
            odd=self.odd(batch, interfaces),
            origin_ns=self.origin_ns or 0,
            pool=pool,
        )

    @property
    def columnar(self) -> bool:
        """Whether batches are more than their frames one by one."""
        return type(self).renderer is not Listing.renderer

    def renderer(self) -> Renderer | None:
        """Return what renders batches; None where frames are told one by one."""
        return None

    def odd(self, batch: Batch, interfaces: Sequence[Interface]) -> NDArray[np.bool_] | None:
        """Return which frames of a batch `record` has to tell, whatever their layers; None for none."""
        return None


def printable(text: str) -> str:
    """Return ``text`` from a capture without what a terminal would obey or a line could not hold."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def seconds_text(time_ns: int) -> str:
    """Return a time in decimal seconds with nine places, exactly."""
    seconds, ns = divmod(abs(time_ns), NS_PER_S)
    text = f"{seconds}.{ns:09d}"
    return text if time_ns >= 0 else f"-{text}"
