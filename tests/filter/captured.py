"""Captured frames for filters: frames with all data that a capture records, and bundled captures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from pathlib import Path

from ecmproto.frames.capture import open_capture
from ecmproto.frames.dissect import Record, records
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.filter.evaluation import Captured
from ecmproto.wire.codec import Frame, Layer, decode_lax, encode
from tests.conftest import REPOSITORY


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The minimum interface of a frame for filters."""

    frame: Frame
    octets: bytes
    number: int = 1
    time_ns: int | None = 0
    original_octets: int = 0
    interface_id: int = 0
    since_first_ns: int | None = 0
    since_previous_ns: int | None = 0
    since_displayed_ns: int | None = 0


def seen(*layers: Layer, number: int = 1, time_ns: int | None = 0, interface_id: int = 0) -> Seen:
    """Return a captured frame with these layers; lengths and types are computed."""
    octets = encode(Frame(layers=layers), fix=True)
    return Seen(
        frame=decode_lax(octets),
        octets=octets,
        number=number,
        time_ns=time_ns,
        original_octets=len(octets),
        interface_id=interface_id,
    )


def selected(text: str, frames: Iterable[Captured]) -> list[int]:
    """Return the numbers of the frames that a filter selects."""
    matches = compile_filter(text).matches
    return [frame.number for frame in frames if matches(frame)]


def of_capture(path: Path) -> list[Record]:
    """Return the frames of a capture."""
    with open_capture(path) as reader:
        return [record for batch in reader for record in records(batch, reader.interfaces)]


def bundled(name: str = "mixed.pcap") -> list[Record]:
    """Return the frames of a bundled capture."""
    return of_capture(REPOSITORY / "pcaps" / name)
