"""The check of headers reports a kernel that reads another header than the codec."""

from __future__ import annotations

import numpy as np
import pytest

from ecmproto.frames.batch import packets
from ecmproto.tools.craft import build
from ecmproto.tools.fuzz.checks import headers
from ecmproto.wire.codec import Frame, encode

FRAMES = [
    encode(build(line)) for line in ("ip dsfield=3 udp dstport=4791 bth qp=7", "ipv6 udp", "pfc", "cnp")
]


def test_no_difference_over_bundled_frames() -> None:
    assert not list(headers.HeaderCheck().differences([*FRAMES, *(each[:40] for each in FRAMES), b"", b"\1"]))


def test_another_mask_of_ecn_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "CE", 1)
    (found, *_) = headers.HeaderCheck().differences(FRAMES)
    assert (found.what, found.row) == ("ECN field", 0)


def test_another_offset_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    found = headers.codec_packet

    def moved(frame: Frame) -> packets.Packet:
        packet = found(frame)
        return packet._replace(bth=packet.bth + 4) if packet.bth != packets.NOWHERE else packet

    monkeypatch.setattr(headers, "codec_packet", moved)
    assert {each.what for each in headers.HeaderCheck().differences(FRAMES)} == {"packet"}


def test_missing_queue_pair_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty:
        rows = np.empty(0, np.int32)

        def __iter__(self) -> object:
            return iter(())

    monkeypatch.setattr(headers, "extract", lambda *_, **__: {headers._QUEUE_PAIR: Empty()})
    assert "queue pair in columns" in {each.what for each in headers.HeaderCheck().differences(FRAMES)}
