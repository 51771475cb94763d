"""Captures, and edited copies with known differences."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from ecmproto.frames.capture import Batch, PcapWriter
from ecmproto.tools.diff import Comparison, Difference, Rules, rules_of
from ecmproto.wire.codec import VLAN, CNTag, Data, Ethernet, Frame, Layer, encode
from ecmproto.wire.formats.ip import UDP, IPv4

START_NS = 1_700_000_000 * 10**9
GAP_NS = 10_000


@dataclasses.dataclass(frozen=True)
class Captured:
    """A captured frame with its time, its captured octets and its original length."""

    time_ns: int
    octets: bytes
    original: int


def data(number: int, *, payload: int = 60) -> Frame:
    """Return a data frame that ``number`` makes unique; the numbers 0 to 4 are used for repeated frames."""
    layers = (
        Ethernet(dst=bytes.fromhex("020000000002"), src=bytes.fromhex("020000000001")),
        VLAN(id=5, priority=3),
        CNTag(flow_id=7),
        IPv4(src="192.0.2.1", dst="192.0.2.2", id=number & 0xFFFF),
        UDP(srcport=4000, dstport=9),
        Data(data=number.to_bytes(8) + bytes(payload - 8)),
    )
    return Frame(layers=layers)


def octets_of(frame: Frame, changes: dict[type[Layer], dict[str, Any]] | None = None) -> bytes:
    """Return a frame's octets, put right, and then with some fields changed and nothing else."""
    whole = encode(frame, fix=True)
    if not changes:
        return whole
    from ecmproto.wire.codec import decode

    read = decode(whole)
    layers = tuple(value.replace(**changes.get(type(value), {})) for value in read.layers)
    return encode(dataclasses.replace(read, layers=layers))


def captured(numbers: Sequence[int]) -> list[Captured]:
    """Return frames with numbers of `data`, one every `GAP_NS`."""
    made = []
    for place, number in enumerate(numbers):
        octets = octets_of(data(number))
        made.append(Captured(START_NS + place * GAP_NS, octets, len(octets)))
    return made


def write(path: Path, frames: Iterable[Captured], *, resolution: str = "ns") -> str:
    """Write a pcap of frames, and return its name."""
    frames = list(frames)
    with PcapWriter(path, resolution=resolution, force=True) as writer:  # type: ignore[arg-type]
        if frames:
            batch = Batch.from_frames(
                [frame.octets for frame in frames], time_ns=[frame.time_ns for frame in frames],
                original=[frame.original for frame in frames],
            )  # fmt: skip
            writer.write_batch(batch)
    return str(path)


def compared(a: str, b: str, rules: Rules | None = None, **options: Any) -> list[Difference]:
    """Return all differences between two captures."""
    with Comparison(a, b, rules or rules_of(), **options) as comparison:
        found = list(comparison)
        summary = comparison.summary
        if options.get("list_times"):
            assert len(found) == summary.differences
        assert comparison.problem is None
    return found


def told(differences: Iterable[Difference]) -> set[tuple[str, int, int, tuple[str, ...]]]:
    """Return the type, the frame numbers (0 for none) and the fields of each difference."""
    return {
        (
            each.kind,
            each.a.number if each.a is not None else 0,
            each.b.number if each.b is not None else 0,
            tuple(change.name for change in each.fields),
        )
        for each in differences
    }
