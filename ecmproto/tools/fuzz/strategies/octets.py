"""Strategies for octets: complete, truncated or mutated frames, arbitrary octets, and capture files."""

from __future__ import annotations

import dataclasses
import io
import struct
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from ecmproto.frames.capture import Interface, PcapngWriter, PcapWriter
from ecmproto.frames.capture.batch import ETHERNET
from ecmproto.frames.capture.writer import Sink
from ecmproto.tools.fuzz.strategies.frames import frames
from ecmproto.tools.fuzz.strategies.surroundings import RESERVED_TYPES
from ecmproto.units import NS_PER_S, NS_PER_US
from ecmproto.wire.codec.frame import Frame, encode
from ecmproto.wire.formats.ethertypes import MAX_LENGTH

Source: TypeAlias = SearchStrategy[Frame] | SearchStrategy[bytes]
"""A strategy for frames or for the octets of frames."""


def octets_of(source: Source | None = None) -> SearchStrategy[bytes]:
    """Return the octets of frames from ``source``. The default is any valid frame."""
    given: SearchStrategy[Any] = frames() if source is None else source
    return given.map(lambda value: encode(value) if isinstance(value, Frame) else bytes(value))


@st.composite
def truncated(draw: DrawFn, source: Source | None = None) -> tuple[bytes, int]:
    """Return ``(octets, original_octets)`` of frames that are truncated by a snap length."""
    octets = draw(octets_of(source))
    length = draw(st.integers(0, len(octets)))
    return octets[:length], len(octets)


@st.composite
def mutated(draw: DrawFn, source: Source | None = None) -> bytes:
    """Return frames with one to four flipped bits, or set, inserted, removed or repeated octets."""
    octets = draw(octets_of(source))
    for _ in range(draw(st.integers(1, 4))):
        octets = draw(_spoilt(octets))
    return octets


@st.composite
def _spoilt(draw: DrawFn, octets: bytes) -> bytes:
    start = draw(st.integers(0, len(octets)))
    stop = draw(st.integers(start, min(len(octets), start + 16)))
    part = octets[start:stop]
    how = draw(st.sampled_from(("flip", "set", "put in", "take out", "double")))
    if how == "flip" and part:
        bit = draw(st.integers(0, 7))
        part = bytes([part[0] ^ 1 << bit]) + part[1:]
    elif how == "set":
        part = draw(st.sampled_from((bytes(len(part)), b"\xff" * len(part))))
    elif how == "put in":
        part += draw(st.binary(max_size=16))
    elif how == "take out":
        part = b""
    elif how == "double":
        part += part
    return octets[:start] + part + octets[stop:]


def arbitrary_octets(*, max_size: int = 160) -> SearchStrategy[bytes]:
    """Return arbitrary octets: random octets, mutated frames, or random octets after a known EtherType."""
    known = sorted(RESERVED_TYPES)
    following = st.builds(
        lambda header, ethertype, rest: header + ethertype.to_bytes(2, "big") + rest,
        st.binary(min_size=12, max_size=12),
        st.sampled_from(known) | st.integers(0, MAX_LENGTH),
        st.binary(max_size=max_size),
    )
    return st.binary(max_size=max_size) | following | mutated()


Format: TypeAlias = Literal["pcap", "pcapng"]
Order: TypeAlias = Literal["little", "big"]
Resolution: TypeAlias = Literal["ns", "us"]

_LAST_NS = (1 << 32) * NS_PER_S - NS_PER_US
"""The last microsecond that pcap can store, in nanoseconds."""
_EDGES_NS = [0, NS_PER_US, NS_PER_S - NS_PER_US, NS_PER_S, (1 << 31) * NS_PER_S, _LAST_NS]
_UNKNOWN_TYPES = (0x8000_0001, 0x4711)
"""Unknown block types: a type for local use, and an unassigned type."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrawnFrame:
    """A frame in a generated capture."""

    octets: bytes
    """Captured octets."""
    original_octets: int
    """Length of the frame on the wire in octets."""
    time_ns: int
    interface: int = 0
    comment: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DrawnCapture:
    """A generated capture file and its contents."""

    octets: bytes
    """Octets of the file."""
    format: Format
    byte_order: Order
    resolution: Resolution
    """Time resolution: ns or µs."""
    interfaces: int
    """Number of interfaces, which is 1 for pcap. All interfaces are Ethernet."""
    frames: tuple[DrawnFrame, ...]


def captures(
    *,
    frames: Source | None = None,
    formats: Sequence[Format] = ("pcap", "pcapng"),
    min_size: int = 0,
    max_size: int = 6,
    cut: bool = True,
) -> SearchStrategy[DrawnCapture]:
    """Return pcap and pcapng files of ``min_size`` to ``max_size`` frames from ``frames``.

    The files have both byte orders and both resolutions, with extreme times and times out of order. With
    ``cut``, some frames are truncated by a snap length. Pcapng files also contain several interfaces,
    comments, and blocks of unknown types.
    """
    return _capture_file(octets_of(frames), tuple(formats), min_size, max_size, cut)


@st.composite
def _capture_file(
    draw: DrawFn,
    octets: SearchStrategy[bytes],
    formats: Sequence[Format],
    min_size: int,
    max_size: int,
    cut: bool,
) -> DrawnCapture:
    format = draw(st.sampled_from(formats))
    order: Order = draw(st.sampled_from(("little", "big")))
    resolution: Resolution = draw(st.sampled_from(("ns", "us")))
    in_blocks = format == "pcapng"
    interfaces = draw(st.integers(1, 3)) if in_blocks else 1
    one = _captured_frame(octets, resolution, interfaces if in_blocks else 0, cut)
    frames = draw(st.lists(one, min_size=min_size, max_size=max_size))
    file = io.BytesIO()
    if in_blocks:
        described = [Interface(index=index, linktype=ETHERNET) for index in range(interfaces)]
        _write_pcapng(
            PcapngWriter(Sink("drawn", file), interfaces=described, byte_order=order, resolution=resolution),
            [(draw(_skipped(order)), frame) for frame in frames],
        )
    else:
        writer = PcapWriter(Sink("drawn", file), byte_order=order, resolution=resolution)
        for frame in frames:
            writer.write_frame(frame.octets, frame.time_ns, original=frame.original_octets)
    return DrawnCapture(
        octets=file.getvalue(),
        format=format,
        byte_order=order,
        resolution=resolution,
        interfaces=interfaces,
        frames=tuple(frames),
    )


@st.composite
def _captured_frame(
    draw: DrawFn, source: SearchStrategy[bytes], resolution: Resolution, interfaces: int, cut: bool
) -> DrawnFrame:
    """Return a frame of one of ``interfaces``. If ``interfaces`` is 0, the frame has no comment."""
    octets = draw(source)
    length = len(octets)
    if cut and draw(st.booleans()):
        length = draw(st.integers(0, len(octets)))
    step = NS_PER_US if resolution == "us" else 1
    ticks = draw(st.sampled_from(_EDGES_NS) | st.integers(0, _LAST_NS))
    return DrawnFrame(
        octets=octets[:length],
        original_octets=len(octets),
        time_ns=ticks // step * step,
        interface=draw(st.integers(0, interfaces - 1)) if interfaces else 0,
        comment=draw(st.none() | st.text("aé\n", max_size=5)) if interfaces else None,
    )


def _skipped(order: Order) -> SearchStrategy[bytes]:
    """Return no octets, or a block of an unknown type."""
    block = st.builds(_block, st.sampled_from(_UNKNOWN_TYPES), st.binary(max_size=12), st.just(order))
    return st.just(b"") | block


def _block(kind: int, body: bytes, order: Order) -> bytes:
    sign = "<" if order == "little" else ">"
    padded = body + bytes(-len(body) % 4)
    length = len(padded) + 12
    return struct.pack(f"{sign}II", kind, length) + padded + struct.pack(f"{sign}I", length)


def _write_pcapng(writer: PcapngWriter, frames: Sequence[tuple[bytes, DrawnFrame]]) -> None:
    for skipped, frame in frames:
        writer.write_block(skipped)
        writer.write_frame(
            frame.octets,
            frame.time_ns,
            original=frame.original_octets,
            interface=frame.interface,
            comment=frame.comment,
        )
