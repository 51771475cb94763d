"""What of a capture can be sent."""

from __future__ import annotations

import io

from ecmproto.capture import Interface, PcapngWriter, open_capture
from ecmproto.capture.linux.sendable import Sendable
from ecmproto.capture.sink import Sink


def capture() -> io.BytesIO:
    memory = io.BytesIO()
    interfaces = [
        Interface(index=0, linktype=1),
        Interface(index=1, linktype=101),
        Interface(index=2, linktype=1, fcs_octets=4),
    ]
    writer = PcapngWriter(Sink("", memory), interfaces=interfaces)
    writer.write_frame(b"whole" * 10, 1)
    writer.write_frame(b"bare IP", 2, interface=1)
    writer.write_frame(b"frame" * 10 + b"FCS!", 3, interface=2)
    writer.write_frame(b"frame" * 10 + b"FC", 4, interface=2, original=54)
    writer.write_frame(b"cut", 5, interface=2, original=54)
    memory.seek(0)
    return memory


def test_ethernet_frames_are_sent_without_their_fcs() -> None:
    sendable = Sendable()
    with open_capture(capture()) as reader:
        frames = [each for batch in sendable.of(reader) for each in batch.frames()]
    assert frames == [b"whole" * 10, b"frame" * 10, b"frame" * 10, b"cut"]
    assert sendable.foreign == 1


def test_frames_that_lack_more_than_their_fcs_are_cut() -> None:
    sendable = Sendable()
    with open_capture(capture()) as reader:
        list(sendable.of(reader))
    assert sendable.cut == 1
