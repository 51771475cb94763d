"""Mirrored frames of switches are named and counted, in the document and in the notes."""

from __future__ import annotations

import pytest

from ecmproto.frames.capture import Batch
from ecmproto.frames.stats import Accumulator, Statistics, as_document
from ecmproto.tools.craft import build
from ecmproto.wire.codec import encode

GRE = encode(build("ip proto=47 data data=1000000088be"))
GRE_IN_IPV6 = encode(build("vlan id=5 ipv6 nxt=47 data data=000088be"))
CARDS = "etwork cards normally consume"


def stats_of(*frames: bytes) -> Statistics:
    counts = Accumulator()
    for part in (frames[:2], frames[2:]):
        later = Accumulator()
        later.add(Batch.from_frames(part))
        counts.merge(later)
    return counts.result()


def datagram(port: int, line: str = "ip") -> bytes:
    return encode(build(f"{line} udp dstport={port} data data=00"))


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        (GRE, "GRE or ERSPAN"), (GRE_IN_IPV6, "GRE or ERSPAN"), (datagram(4789), "VXLAN"),
        (datagram(4790), "VXLAN-GPE"), (datagram(6081, "ipv6"), "Geneve"), (datagram(6343), "sFlow"),
        (datagram(37008), "TZSP"),
    ],
)  # fmt: skip
def test_mirrored_frames_are_named_and_counted(frame: bytes, name: str) -> None:
    statistics = stats_of(frame, datagram(4000), frame, frame)
    assert as_document(statistics, "x.pcap")["mirrors"] == {name: 3}
    assert any(f"3 frames of {name} were not decoded" in note for note in statistics.notes)
    assert not any(CARDS in note for note in statistics.notes)


def test_network_cards_are_named_without_mirrors() -> None:
    statistics = stats_of(datagram(4788), encode(build("arp")))
    assert statistics.mirrors == {}
    assert any(CARDS in note for note in statistics.notes)
