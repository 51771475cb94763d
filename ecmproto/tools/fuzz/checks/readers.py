"""Checks of the readers of captures, filters and specifications with arbitrary octets.

Readers may raise only documented errors, and may not return invented data. A capture that is read in small
pieces must have the same contents. A filter must select the same frames by columns and frame by frame. The
reader of specifications may raise only specification errors, and each error needs a message.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from random import Random

from ecmproto.control.engine.config import LoopConfig, PortConfig
from ecmproto.control.mechanisms.api.machine import machine_of
from ecmproto.control.mechanisms.registry import find_mechanism
from ecmproto.control.replay.session import Plan, replay_capture
from ecmproto.errors import CaptureError, EncodeError, FilterError, ParameterError, SpecError
from ecmproto.frames.capture import Batch, CaptureReader, open_capture
from ecmproto.frames.capture.source import CHUNK_OCTETS
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.dissect.form import records
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.stats import capture_stats
from ecmproto.tools.check import check_capture
from ecmproto.tools.craft.recipe import chunks
from ecmproto.tools.craft.spec import Reading, read_json, read_toml
from ecmproto.tools.fuzz.checks.base import Difference
from ecmproto.tools.fuzz.checks.frames import ETHERNET_ONLY

_PIECE_OCTETS = 1 << 12

_FEW_FRAMES = 2
"""Number of frames per batch. Small batches test the effect of a batch on the next batch."""
_PORT = PortConfig(rate_bps=10**9, buffer_octets=150_000)

Read = tuple[list[tuple[int, int, int, bytes]], str]
"""Frames with their times, lengths and interfaces, and the error message of the reader."""


class CaptureCheck:
    """Check that a capture has the same contents if it is read in large or small pieces."""

    name = "captures"
    every = 1

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield invented or misplaced frames, and captures that differ if they are read in small pieces."""
        for row, octets in enumerate(items):
            whole, wrong = _read(octets, CHUNK_OCTETS)
            pieces, _ = _read(octets, _PIECE_OCTETS)
            for what in wrong:
                yield Difference(what=what, detail=f"{whole[1]} in {octets[:256].hex()}", row=row)
            if whole != pieces:
                detail = f"{len(whole[0])} frames, {whole[1]}; in pieces {len(pieces[0])}, {pieces[1]}"
                yield Difference(what="a capture in pieces differs", detail=detail, row=row)


def _read(octets: bytes, chunk_octets: int) -> tuple[Read, list[str]]:
    frames: list[tuple[int, int, int, bytes]] = []
    record_octets, wrong = 0, []
    try:
        reader = open_capture(io.BytesIO(octets), chunk_octets=chunk_octets)
    except CaptureError as error:
        return ([], str(error)), []
    with reader:
        for batch in reader:
            rows = (batch.time_ns.tolist(), batch.original.tolist(), batch.interface.tolist(), batch.frames())
            frames += zip(*rows, strict=True)
            record_octets += int(batch.record_length.sum())
            if (batch.captured > batch.record_length).any():
                wrong.append("a frame longer than its record")
            if (batch.interface >= len(reader.interfaces)).any():
                wrong.append("a frame of an interface that is not described")
    if record_octets > len(octets):
        wrong.append("more octets of records than of the file")
    wrong += _misplaced(reader, len(octets), len(frames))
    return (frames, str(reader.problem)), wrong


def _misplaced(reader: CaptureReader, octets: int, frames: int) -> Iterator[str]:
    if reader.problem is not None:
        if not 0 <= reader.problem.offset <= octets:
            yield "a problem outside the capture"
        if reader.problem.frame != frames:
            yield "a problem with a wrong number of frames"


class CaptureUseCheck:
    """Check that no capture causes an unexpected error in statistics, rule checks, dissection or replay."""

    name = "uses"
    every = 16

    def __init__(self) -> None:
        machine = machine_of(find_mechanism("qcn"), {})
        self._plan = Plan(machine=machine, port=_PORT, loop=LoopConfig(link_rate_bps=_PORT.rate_bps), seed=0)

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield nothing, because a defect is an exception."""
        for octets in items:
            with contextlib.suppress(CaptureError):
                self._use(octets)
        yield from ()

    def _use(self, octets: bytes) -> None:
        with open_capture(io.BytesIO(octets), batch_frames=_FEW_FRAMES) as reader:
            for batch in reader:
                for record in records(batch, reader.interfaces, displayed=reader.displayed):
                    reader.displayed.show(record.time_ns)
        capture_stats(io.BytesIO(octets), threads=1)
        check_capture(io.BytesIO(octets), threads=1)
        with open_capture(io.BytesIO(octets)) as reader:
            replay_capture(reader, self._plan)


class FilterCheck:
    """Check of display filters, which select from ``frames`` by columns and frame by frame."""

    name = "filters"
    every = 1

    def __init__(self, frames: Sequence[bytes]) -> None:
        self._frames = tuple(frames)
        self._batch = Batch.from_frames(frames)
        self._records = list(records(self._batch, ETHERNET_ONLY))

    def __reduce__(self) -> tuple[object, ...]:
        return FilterCheck, (self._frames,)

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield filters that select different frames, and filter errors without a message or position."""
        for row, octets in enumerate(items):
            text = octets.decode("utf-8", errors="surrogateescape")
            try:
                filter = compile_filter(text)
            except FilterError as error:
                # the position of a missing end is one character after the text
                if not 0 <= error.start <= error.stop <= len(text) + 1 or not str(error):
                    detail = f"{error.start} to {error.stop} of {text!r}"
                    yield Difference(what="an error outside the filter", detail=detail, row=row)
                continue
            one_by_one = [bool(filter.matches(record)) for record in self._records]
            by_columns = selected(self._batch, filter, interfaces=ETHERNET_ONLY).tolist()
            if one_by_one != by_columns:
                pairs = enumerate(zip(by_columns, one_by_one, strict=True))
                frame = next(frame for frame, (got, expected) in pairs if got != expected)
                detail = f"{text!r}: frame {frame + 1} {by_columns[frame]}, not {one_by_one[frame]}"
                yield Difference(what="columns select other frames", detail=detail, row=row)


_MAX_CHUNKS = 4


class SpecCheck:
    """Check that reads each item as a specification and builds the first frames."""

    name = "specs"
    every = 1

    def differences(self, items: Sequence[bytes]) -> Iterator[Difference]:
        """Yield specification errors without a message. Other errors are raised."""
        for row, octets in enumerate(items):
            try:
                _build(octets)
            except (SpecError, EncodeError, ParameterError) as error:
                if not str(error).strip():
                    yield Difference(what="an error without a text", detail=repr(error), row=row)


def _build(octets: bytes) -> None:
    reading = Reading(random=Random(0))
    if octets.lstrip()[:1] == b"{":
        stream = io.TextIOWrapper(io.BytesIO(octets), encoding="utf-8", errors="replace")
        recipes = read_json(stream, "spec", reading)
    else:
        recipes = read_toml(io.BytesIO(octets), "spec", reading)
    for chunk in islice(chunks(recipes), _MAX_CHUNKS):
        chunk.batch()
