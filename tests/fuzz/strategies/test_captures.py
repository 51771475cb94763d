"""Capture strategies: readers return the drawn data, all features occur, and failures shrink."""

from __future__ import annotations

import io
import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from ecmproto.frames.capture import open_capture
from ecmproto.tools.fuzz.strategies import DrawnCapture, DrawnFrame, captures, pause_frames
from ecmproto.wire.codec import encode
from tests.fuzz.strategies.drawing import collected, smallest


@settings(deadline=None)
@given(captures())
def test_reader_returns_the_drawn_frames(drawn: DrawnCapture) -> None:
    read = []
    with open_capture(io.BytesIO(drawn.octets)) as reader:
        for batch in reader:
            read += list(
                zip(
                    batch.frames(), batch.original.tolist(), batch.time_ns.tolist(), batch.interface.tolist(),
                    strict=True,
                )
            )  # fmt: skip
        assert reader.problem is None
        assert len(reader.interfaces) == drawn.interfaces
    assert read == [
        (frame.octets, frame.original_octets, frame.time_ns, frame.interface) for frame in drawn.frames
    ]


@given(captures(formats=["pcap"]))
def test_a_pcap_by_hand(drawn: DrawnCapture) -> None:
    sign = "<" if drawn.byte_order == "little" else ">"
    magic = 0xA1B23C4D if drawn.resolution == "ns" else 0xA1B2C3D4
    assert struct.unpack_from(f"{sign}I", drawn.octets) == (magic,)
    at = 24
    for frame in drawn.frames:
        seconds, ticks, kept, original = struct.unpack_from(f"{sign}IIII", drawn.octets, at)
        assert drawn.octets[at + 16 : at + 16 + kept] == frame.octets
        assert original == frame.original_octets
        unit = 1 if drawn.resolution == "ns" else 1_000
        assert seconds * 10**9 + ticks * unit == frame.time_ns
        at += 16 + kept
    assert at == len(drawn.octets)


def test_every_capture_feature_is_drawn() -> None:
    drawn = collected(captures(frames=pause_frames()), 400)
    frames = [frame for capture in drawn for frame in capture.frames]
    assert {(c.format, c.byte_order, c.resolution) for c in drawn} == {
        (format, order, resolution)
        for format in ("pcap", "pcapng") for order in ("little", "big") for resolution in ("ns", "us")
    }  # fmt: skip
    assert {len(capture.frames) for capture in drawn} >= {0, 1, 2, 3}
    assert {capture.interfaces for capture in drawn} == {1, 2, 3}
    assert {frame.interface for frame in frames} == {0, 1, 2}
    assert any(frame.comment for frame in frames)
    assert any(len(frame.octets) < frame.original_octets for frame in frames)
    assert {0, 1_000, (1 << 32) * 10**9 - 1_000} <= {frame.time_ns for frame in frames}
    assert any(struct.pack("<I", 0x4711) in capture.octets for capture in drawn)


@given(captures(frames=pause_frames(), min_size=1, max_size=2, cut=False))
def test_frames_and_their_number_are_the_callers(drawn: DrawnCapture) -> None:
    assert 1 <= len(drawn.frames) <= 2
    for frame in drawn.frames:
        assert len(frame.octets) == frame.original_octets == 60
        assert frame.octets[12:16] == bytes.fromhex("88080001")


def test_capture_shrinks_to_the_failing_frame() -> None:
    one = captures(frames=st.sampled_from([b"", b"abc", bytes(60)]))
    least = smallest(one, lambda drawn: any(frame.octets for frame in drawn.frames))
    assert least.format == "pcap"
    assert (least.byte_order, least.resolution) == ("little", "ns")
    assert least.frames == (DrawnFrame(octets=b"abc", original_octets=3, time_ns=0),)


def test_a_capture_shrinks_to_the_default_frame() -> None:
    least = smallest(captures(frames=pause_frames()), lambda drawn: len(drawn.frames) == 2)
    (simplest,) = {frame.octets for frame in least.frames}
    assert simplest == encode(smallest(pause_frames(), lambda frame: True))
