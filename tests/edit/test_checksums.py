"""Checksums of edited frames: correct checksums stay correct, and ``fix`` computes checksums as in the
RFCs.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest

from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.capture.batch import INFINIBAND, RAW_IP
from ecmproto.frames.columns import extract
from ecmproto.tools.craft import build
from ecmproto.tools.edit import Edit, Editor, Report, assignments_from
from ecmproto.wire.codec import (
    BTH,
    ICRC,
    TCP,
    UDP,
    VLAN,
    Data,
    Ethernet,
    IPv4,
    IPv6,
    ITag,
    Layer,
    decode,
    decode_lax,
    encode,
)
from ecmproto.wire.formats.infiniband import GRH, LRH
from ecmproto.wire.formats.ip import HopByHop, Routing

ETHERNET = (Interface(index=0, linktype=1),)
WITH_FCS = (Interface(index=0, linktype=1, fcs_octets=4),)
ADDRESSES4: Any = {"src": "192.0.2.1", "dst": "198.51.100.7"}
ADDRESSES6: Any = {"src": "2001:db8::1", "dst": "2001:db8::2"}


def ones(octets: bytes) -> int:
    """Return the ones' complement sum by the definition."""
    octets += bytes(len(octets) % 2)
    total: int = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def whole(*layers: Layer) -> bytes:
    """Return a frame with a correct transport checksum."""
    frame = decode(encode(*layers))
    octets = bytearray(encode(frame))
    index = next(i for i, layer in enumerate(frame.layers) if isinstance(layer, UDP | TCP))
    at = frame.starts[index]
    place = at + (6 if isinstance(frame.layers[index], UDP) else 16)
    end = frame.starts[-1]
    octets[place : place + 2] = bytes(2)
    network = next(layer for layer in frame.layers if isinstance(layer, IPv4 | IPv6))
    protocol = 17 if isinstance(frame.layers[index], UDP) else 6
    pseudo = network.src + network.dst + struct.pack(">HH", protocol, end - at)
    checksum = 0xFFFF - ones(pseudo + bytes(octets[at:end]))
    octets[place : place + 2] = struct.pack(">H", checksum or 0xFFFF)
    return bytes(octets)


def is_right(octets: bytes) -> bool:
    """Return whether all checksums of a frame are correct."""
    frame = decode(octets)
    for index, layer in enumerate(frame.layers):
        at, end = frame.starts[index], frame.starts[-1]
        if isinstance(layer, IPv4) and ones(layer.build()) != 0xFFFF:
            return False
        if isinstance(layer, UDP | TCP) and not (isinstance(layer, UDP) and layer.checksum == 0):
            network = next(each for each in frame.layers if isinstance(each, IPv4 | IPv6))
            pseudo = (
                network.src + network.dst + struct.pack(">HH", 17 if isinstance(layer, UDP) else 6, end - at)
            )
            if ones(pseudo + octets[at:end]) != 0xFFFF:
                return False
    return True


def packets() -> list[bytes]:
    random = np.random.default_rng(5)
    made = []
    for size in (1, 18, 19, 60, 501):
        data = Data(data=random.bytes(size))
        for network in (IPv4(**ADDRESSES4), IPv6(**ADDRESSES6)):
            for transport in (UDP(srcport=1, dstport=2), TCP(srcport=1, dstport=2, options=bytes(4))):
                made.append(whole(Ethernet(), network, transport, data))
                made.append(whole(Ethernet(), VLAN(id=5), network, transport, data))
        made.append(whole(Ethernet(), IPv4(**ADDRESSES4, options=b"\1" * 8), TCP(), data))
    return made


def edited(
    batch: Batch, *texts: str, interfaces: tuple[Interface, ...] = ETHERNET, **options: object
) -> tuple[Batch, Report]:
    edit = Edit(assignments=assignments_from(texts), **options)  # type: ignore[arg-type]
    editor = Editor(edit)
    return editor.batch(batch, interfaces), editor.report


@pytest.mark.parametrize(
    "texts",
    [
        ("ip.ttl=7",), ("ip.src=10.0.0.9", "ipv6.dst=fe80::1:2:3"), ("udp.dstport=53", "tcp.srcport=99"),
        ("ip.dst=10.1.2.3", "tcp.flags=0x12", "udp.srcport=1", "ipv6.src=::1", "ip.dsfield.ecn=3"),
        ("ip.id=0xffff", "tcp.seq_raw=1234567890", "tcp.options=01020304"), ("vlan.id=9",),
    ],
)  # fmt: skip
def test_correct_checksums_stay_correct(texts: tuple[str, ...]) -> None:
    frames = packets()
    assert all(map(is_right, frames))
    after, report = edited(Batch.from_frames(frames), *texts)
    assert report.changed > 0
    assert all(map(is_right, after))
    assert bool(report.kept) == (texts != ("vlan.id=9",))


@pytest.mark.parametrize("text", ["ip.version=15", "ip.options=0001010101010101", "tcp.urgent_pointer=258"])
def test_octets_at_the_edges_of_a_header_count(text: str) -> None:
    frame = packets()[8]
    assert len(decode(frame)[IPv4].options) == 8
    after, _ = edited(Batch.from_frames([frame]), text)
    segment = after[0][42:]
    pseudo = after[0][26:34] + struct.pack(">HH", 6, len(segment))
    assert (ones(after[0][14:42]), ones(pseudo + segment)) == (0xFFFF, 0xFFFF)
    assert after[0] != frame


@pytest.mark.parametrize(
    "text", ["gre.key=77", "gre.sequence_number=0xfffe", "gre.proto=0x22eb", "erspan.spanid=44", "ip.ttl=3"]
)
def test_correct_gre_checksums_stay_correct(text: str) -> None:
    line = "ip gre gresum grekey greseq erspan vlan id=5 ip ttl=9 udp data data=010203"
    frame = encode(build(line))
    covered = slice(decode(frame).starts[2], 14 + decode(frame)[IPv4].len)
    assert ones(frame[covered]) == 0xFFFF
    after, report = edited(Batch.from_frames([frame]), text)
    assert ones(after[0][covered]) == 0xFFFF
    assert report.kept == {"ip.checksum" if text == "ip.ttl=3" else "gre.checksum": 1}


def test_other_frames_keep_checksums_if_ranges_change() -> None:
    right, other = packets()[0], encode(build("ip gre gresum ip udp data data=010203"))
    after, report = edited(Batch.from_frames([right, other]), "gre.flags.checksum=0", "udp.dstport=9")
    assert is_right(after[0])
    assert report.kept == {"udp.checksum": 1}


def test_wrong_or_absent_checksum_stays_so() -> None:
    right = packets()[0]
    wrong = right[:24] + b"\x12\x34" + right[26:40] + b"\x55\x55" + right[42:]
    none = right[:40] + bytes(2) + right[42:]
    after, report = edited(Batch.from_frames([wrong, none]), "ip.src=10.0.0.1")
    assert ones(after[0][14:34]) not in (0, 0xFFFF)
    assert decode(after[1])[UDP].checksum == 0
    assert report.kept == {"ip.checksum": 2, "udp.checksum": 1}


def test_cut_frames_keep_correct_checksums() -> None:
    frame = packets()[-1]
    cut = Batch.from_frames([frame[:70]], original=len(frame))
    after, _ = edited(cut, "ip.src=10.0.0.1", "tcp.dstport=8")
    assert is_right(after[0] + frame[70:])


def test_option_or_assignment_leaves_checksums_alone() -> None:
    batch = Batch.from_frames(packets())
    after, report = edited(batch, "ip.ttl=3", update_checksums=False)
    assert not report.kept
    assert not all(is_right(octets) for octets in after if IPv4 in decode(octets))
    after, report = edited(batch, "ip.ttl=3", "ip.checksum=0x1234")
    assert {decode(octets)[IPv4].checksum for octets in after if IPv4 in decode(octets)} == {0x1234}


def test_correct_invariant_crc_is_updated() -> None:
    good = encode(build("bth", opcode=0x0A, vlan=3))
    bad = good[:-4] + b"\0\1\2\3"
    over_ip6 = encode(build("cnp", ip="2001:db8::5,2001:db8::6"))
    routed = encode(build("grh bth"))
    batch = Batch.from_frames([good, bad, over_ip6, routed])
    after, report = edited(batch, "infiniband.bth.destqp=0x77", "ip.src=10.0.0.1")
    states = extract(after, ["infiniband.invariant.crc.status"])["infiniband.invariant.crc.status"].lists()
    assert states == [["good"], ["bad"], ["good"], ["good"]]
    assert report.kept["infiniband.invariant.crc"] == 3
    after, report = edited(batch, "ip.ttl=9", "ip.dsfield.ecn=3")
    assert [decode(octets)[ICRC] for octets in after] == [decode(octets)[ICRC] for octets in batch]


def test_correct_fcs_is_updated() -> None:
    frame, texts = packets()[-1], ("eth.dst=02:00:00:00:00:77",)
    right = frame + zlib.crc32(frame).to_bytes(4, "little")
    wrong = frame + b"FCS!"
    after, report = edited(Batch.from_frames([right, wrong]), *texts, interfaces=WITH_FCS)
    assert zlib.crc32(after[0][:-4]).to_bytes(4, "little") == after[0][-4:]
    assert after[1][-4:] == b"FCS!"
    assert report.kept["eth.fcs"] == 1


def test_fix_makes_every_checksum_right() -> None:
    frames = packets()
    spoilt = []
    for octets in frames:
        frame = decode(octets)
        layers = [
            layer.replace(checksum=0x1111) if isinstance(layer, IPv4 | UDP | TCP) else layer
            for layer in frame.layers
        ]
        spoilt.append(b"".join(layer.build() for layer in layers) + frame.padding + frame.trailer)
    after, report = edited(Batch.from_frames(spoilt), fix=True)
    assert list(after) == frames
    assert report.changed == len(frames)
    again, report = edited(after, fix=True)
    assert (list(again), report.changed, report.fixed) == (frames, 0, {})


@pytest.mark.parametrize("off", [1, -1])
def test_fix_corrects_checksums_off_by_one(off: int) -> None:
    frames = packets()
    spoilt = []
    for octets in frames:
        frame = decode(octets)
        layers = [
            layer.replace(checksum=layer.checksum + off) if isinstance(layer, IPv4 | UDP | TCP) else layer
            for layer in frame.layers
        ]
        spoilt.append(b"".join(layer.build() for layer in layers) + frame.padding + frame.trailer)
    assert list(edited(Batch.from_frames(spoilt), fix=True)[0]) == frames


def test_fix_accepts_both_zeros_of_a_checksum() -> None:
    header = decode(whole(Ethernet(), IPv4(**ADDRESSES4), UDP(), Data()))[IPv4]
    octets = whole(Ethernet(), IPv4(**ADDRESSES4, id=header.checksum), UDP(), Data())
    frames = [octets[:24] + zero + octets[26:] for zero in (b"\0\0", b"\xff\xff")]
    after, report = edited(Batch.from_frames(frames), fix=True)
    assert (list(after), report.fixed) == (frames, {})


def test_fix_shortens_lengths_to_the_frame() -> None:
    octets = packets()[3]
    frame = decode(octets)
    long = [
        layer.replace(len=2000) if isinstance(layer, IPv4) else
        layer.replace(plen=2000) if isinstance(layer, IPv6) else
        layer.replace(length=1999) if isinstance(layer, UDP) else layer
        for layer in frame.layers
    ]  # fmt: skip
    spoilt = b"".join(layer.build() for layer in long) + frame.padding
    llc = encode(Ethernet(type=400), Data(data=bytes(80)), fix=False)
    short = octets[:16] + b"\0\x05" + octets[18:]
    right = encode(Ethernet(type=80), Data(data=bytes(80)), fix=False)
    tagged = encode(Ethernet(type=0x88E7), ITag(etype=400), Data(data=bytes(80)), fix=False)
    batch = Batch.from_frames([spoilt, llc, short, octets, right, tagged])
    after, report = edited(batch, fix=True)
    assert decode(after[1])[Ethernet].type == 80
    assert is_right(after[0])
    assert report.fixed["eth.len"] == 1
    assert after[3] == octets
    assert decode(after[5])[ITag].etype == 80


def test_fix_counts_unverifiable_checksums() -> None:
    frame = packets()[-1]
    fragment = encode(Ethernet(), IPv4(flags=1, **ADDRESSES4), UDP(checksum=7), Data(data=bytes(40)))
    routing = whole(Ethernet(), IPv6(**ADDRESSES6), UDP(), Data(data=bytes(40)))
    routed = encode(Ethernet(), IPv6(**ADDRESSES6), Routing(segleft=1), UDP(checksum=9), Data(data=bytes(9)))
    frames = [frame, fragment, routing, routed]
    batch = Batch.from_frames([frame[:70], *frames[1:]], original=[len(octets) for octets in frames])
    after, report = edited(batch, fix=True)
    assert report.unknown == {"tcp.checksum": 1, "udp.checksum": 2}
    assert (list(after), report.changed) == (list(batch), 0)


def test_fix_computes_the_invariant_crc() -> None:
    good = encode(build("bth", opcode=0x0A))
    bad = good[:-4] + bytes(4)
    after, report = edited(Batch.from_frames([bad, good]), fix=True)
    assert list(after) == [good, good]
    assert report.fixed == {"infiniband.invariant.crc": 1}
    assert BTH in decode(good)


def test_extension_headers_do_not_affect_udp_checksum() -> None:
    octets = whole(Ethernet(), IPv6(**ADDRESSES6), HopByHop(), UDP(srcport=5), Data(data=bytes(20)))
    after, _ = edited(Batch.from_frames([octets]), "ipv6.hopopts.options=010400000000", "udp.srcport=9")
    assert is_right(after[0])
    assert decode_lax(after[0]).error is None


CUT_HEADER = bytes.fromhex(
    "0200000000020200000000010800458c002c1e504000401107e30a0000010a000002"
    "e56112b7001800000345ffff803f51348034c96cee794049"
)
"""A SEND last with immediate data that is truncated before the immediate data, with a correct invariant
CRC.
"""


def crc_holds(octets: bytes) -> bool:
    """Return whether the invariant CRC of a frame without options holds, by the book."""
    packet = bytearray(octets[14 : 14 + int.from_bytes(octets[16:18])])
    for place in (1, 8, 10, 11, 26, 27, 32):
        packet[place] = 0xFF
    return zlib.crc32(b"\xff" * 8 + packet[:-4]).to_bytes(4, "little") == packet[-4:]


@pytest.mark.parametrize("padding", [b"", bytes(8)])
def test_invariant_crc_after_cut_header_stays_right(padding: bytes) -> None:
    wrong = CUT_HEADER[:-1] + b"\0"
    after, report = edited(
        Batch.from_frames([CUT_HEADER + padding, wrong + padding]), "infiniband.bth.psn=77"
    )
    assert [crc_holds(octets) for octets in after] == [True, False]
    assert report.kept == {"infiniband.invariant.crc": 1}
    after, report = edited(Batch.from_frames([wrong + padding]), fix=True)
    assert list(after) == [CUT_HEADER + padding]


def test_checksums_of_packets_without_ethernet() -> None:
    raw, infiniband = (Interface(index=0, linktype=each) for each in (RAW_IP, INFINIBAND))
    after, report = edited(Batch.from_frames([CUT_HEADER[14:]]), "infiniband.bth.psn=77", interfaces=(raw,))
    assert crc_holds(CUT_HEADER[:14] + after[0])
    assert report.kept == {"infiniband.invariant.crc": 1}
    octets = packets()[8]
    after, _ = edited(Batch.from_frames([octets[14:-1] + b"\xa5"]), fix=True, interfaces=(raw,))
    assert is_right(octets[:14] + after[0])
    # with a link header of InfiniBand the CRC covers that too, and is left
    routed = encode(LRH(lnh=3), GRH(), BTH(opcode=4), Data(data=bytes(4)), ICRC())
    assert {LRH, GRH, BTH, ICRC} <= {type(layer) for layer in decode(routed, first=LRH).layers}
    after, report = edited(Batch.from_frames([routed]), fix=True, interfaces=(infiniband,))
    assert (list(after), report.fixed) == ([routed], {})


def test_cut_invariant_crc_is_counted() -> None:
    batch = Batch.from_frames([CUT_HEADER[:-1], CUT_HEADER[:-4]], original=len(CUT_HEADER))
    _, report = edited(batch, "infiniband.bth.psn=77")
    assert (report.kept, report.unknown) == ({}, {"infiniband.invariant.crc": 1})


def test_only_checksums_that_change_are_counted() -> None:
    bth = encode(build("bth", opcode=0x0A))
    _, report = edited(Batch.from_frames([bth]), "ip.dsfield.ecn=3", "infiniband.bth.becn=1")
    assert report.kept == {"ip.checksum": 1}
    # In ones' complement arithmetic, these values are equal.
    octets = whole(Ethernet(), IPv4(**ADDRESSES4), TCP(seq_raw=1), Data(data=b"1234"))
    _, report = edited(Batch.from_frames([octets]), "tcp.seq_raw=0x10000")
    assert (report.changed, report.kept) == (1, {})


def test_a_checksum_in_a_cut_header_stays_right() -> None:
    frames = [
        whole(Ethernet(), network, TCP(), Data(data=b"1"))
        for network in (IPv4(**ADDRESSES4), IPv6(**ADDRESSES6))
    ]
    cut = [decode(octets).starts[2] + 18 for octets in frames]
    batch = Batch.from_frames(
        [octets[:end] for octets, end in zip(frames, cut, strict=True)],
        original=[len(octets) for octets in frames],
    )
    after, report = edited(batch, "ip.src=10.0.0.1", "ipv6.dst=fe80::1")
    assert all(is_right(a + octets[end:]) for a, octets, end in zip(after, frames, cut, strict=True))
    assert report.kept["tcp.checksum"] == 2


def test_cut_checksum_is_counted() -> None:
    udp = whole(Ethernet(), IPv6(**ADDRESSES6), HopByHop(), UDP(), Data(data=b"1"))
    tcp = whole(Ethernet(), IPv6(**ADDRESSES6), TCP(), Data(data=b"1"))
    behind = decode(udp).starts[3]
    later = encode(Ethernet(), IPv4(frag_offset=9, proto=17, **ADDRESSES4), Data(data=bytes(7)))
    batch = Batch.from_frames(
        [udp[: behind + 7], udp[: behind + 6], tcp[: behind - 8 + 17], later], original=[len(udp)] * 4
    )
    _, report = edited(batch, "ipv6.src=::9", "ip.src=10.0.0.1")
    assert report.unknown == {"udp.checksum": 1, "tcp.checksum": 1}


@pytest.mark.parametrize(("name", "checksum"), [("udp", 0xFFFF), ("tcp", 0)])
def test_zero_checksum_is_written_per_transport(name: str, checksum: int) -> None:
    transport = UDP(srcport=0x1234) if name == "udp" else TCP(srcport=0x1234)
    octets = whole(Ethernet(), IPv4(**ADDRESSES4), transport, Data(data=b"1234"))
    at = decode(octets).starts[2] + (6 if name == "udp" else 16)
    # The increase of the port is subtracted from the checksum.
    port = 0x1234 + int.from_bytes(octets[at : at + 2])
    port = (port & 0xFFFF) + (port >> 16)
    after, report = edited(Batch.from_frames([octets]), f"{name}.srcport={port}")
    assert (int.from_bytes(after[0][at : at + 2]), is_right(after[0])) == (checksum, True)
    assert report.kept == {f"{name}.checksum": 1}
    spoilt = after[0][:at] + b"\x12\x34" + after[0][at + 2 :]
    fixed, _ = edited(Batch.from_frames([spoilt]), fix=True)
    assert list(fixed) == list(after)
