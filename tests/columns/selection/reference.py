"""Reference implementation of selections, which evaluates the filter frame by frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import Batch, Interface, open_capture
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.dissect import Record, records
from ecmproto.frames.filter import Filter
from ecmproto.frames.filter.evaluation import predicate
from ecmproto.frames.filter.fields import Test
from ecmproto.frames.filter.literals import text_of
from ecmproto.tools.fuzz.checks.frames import ETHERNET_ONLY


class Sample:
    """Decoded frames of a capture."""

    def __init__(self, batch: Batch, interfaces: Sequence[Interface] = ETHERNET_ONLY) -> None:
        self.batch = batch
        self.interfaces = list(interfaces)
        self.records: list[Record] = list(records(batch, self.interfaces))

    def check(self, test: Test) -> int:
        """Return the number of frames that match a test.

        Fails if both evaluations of a test disagree on a frame.
        """
        holds = predicate(test)
        filter = Filter(text=text_of(test), test=test, fields=(), matches=holds)
        got = selected(self.batch, filter, interfaces=self.interfaces).tolist()
        wanted = [holds(record) for record in self.records]
        if got != wanted:
            row = next(i for i, (one, other) in enumerate(zip(got, wanted, strict=True)) if one != other)
            frame = self.batch.frame(row).hex()
            raise AssertionError(f"{filter.text}: {got[row]} for {wanted[row]} of frame {row}, {frame}")
        return sum(wanted)


def samples(paths: Sequence[Path], frames: int) -> Iterator[Sample]:
    """Yield up to ``frames`` frames of each capture. A damaged capture ends at the first error."""
    for path in paths:
        try:
            with open_capture(path, batch_frames=frames) as reader:
                batch = next(iter(reader), None)
                if batch is not None:
                    yield Sample(batch, reader.interfaces)
        except CaptureError:
            continue
