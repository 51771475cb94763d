"""Packets found in batches beside the one-frame decoder: places, fields, ECN marks, CRCs, CNPs."""

import random

import numpy as np

from ecmproto.batch.headers import roles_of
from ecmproto.batch.roce import BAD, GOOD, NOWHERE, UNVERIFIED, cnp_frame, mark_ce, packet_at, packets_of
from ecmproto.capture import Batch
from ecmproto.codec import IPv4, IPv6, decode, decode_lax, encode
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.formats.infiniband import BTH, CNP, GRH, ICRC, coverage
from tests.formats.roce import CNP_OCTETS, frames

ROLES = roles_of(DEFAULT)


def test_packets_of_a_batch_are_those_of_the_decoder() -> None:
    dice = random.Random(7)
    octets = frames()
    spoilt = [bytearray(each) for each in octets]
    for copy in spoilt:
        copy[dice.randrange(14, len(copy))] ^= 1 << dice.randrange(8)
    octets += map(bytes, spoilt)
    batch = Batch.from_frames(octets)
    found = packets_of(batch, crc=True)
    for row, each in enumerate(octets):
        frame = decode_lax(each)
        bth = next((layer for layer in frame.layers if isinstance(layer, BTH)), None)
        if frame.error is not None:
            continue
        if bth is None:
            assert found.bth[row] == NOWHERE, each.hex()
            continue
        place = frame.starts[frame.layers.index(bth)]
        values = found.bth[row], found.opcode[row], found.queue_pair[row], found.psn[row]
        assert values == (place, bth.opcode, bth.qp, bth.psn), each.hex()
        network = next(layer for layer in frame.layers if isinstance(layer, IPv4 | IPv6 | GRH))
        traffic = network.dsfield if isinstance(network, IPv4) else network.tclass
        assert found.ecn[row] == traffic & 3
        if ICRC in frame and not (isinstance(network, IPv4) and network.flags & 1):
            covered = coverage(frame.layers[:-1], frame.starts[:-1])
            assert covered is not None
            assert found.crc[row] == (GOOD if covered.crc(each) == frame[ICRC].crc else BAD), each.hex()
    assert list(found.crc[: len(octets) // 2]) == [GOOD] * (len(octets) // 2)
    assert BAD in found.crc
    cut = packets_of(Batch.from_frames([CNP_OCTETS[:64]], original=[74]), crc=True)
    assert (cut.queue_pair[0], cut.crc[0]) == (0x118, UNVERIFIED)


def test_marks_are_what_the_encoder_writes() -> None:
    for line, ecn in (("0800", 1), ("0800", 2), ("0800", 0)):
        frame = decode(CNP_OCTETS)
        layers = list(frame.layers)
        layers[1] = layers[1].replace(dsfield=0xC0 | ecn)
        octets = np.frombuffer(encode(*layers), np.uint8).copy()
        before = octets.tobytes()
        assert before[12:14].hex() == line
        marked = mark_ce(octets, packet_at(octets, 0, len(octets), len(octets), ROLES))
        assert marked == (ecn > 0)
        if marked:
            layers[1] = layers[1].replace(dsfield=0xC3)
            assert octets.tobytes() == encode(*layers)
        else:
            assert octets.tobytes() == before


def test_a_cnp_is_built_as_a_network_card_builds_it() -> None:
    frame = cnp_frame(
        0x118,
        dst="e4:1d:2d:ab:2b:c2",
        src="7c:fe:90:64:3b:32",
        dst_ip="10.0.18.1",
        src_ip="10.0.17.1",
        source_port=0,
    )
    card = decode(CNP_OCTETS)
    # the invariant CRC covers IPv4's identification
    layers = (frame.layers[0], frame.layers[1].replace(id=card[IPv4].id, dsfield=0xC2), *frame.layers[2:])
    assert encode(*layers) == CNP_OCTETS
    tagged = cnp_frame(9, dst=bytes(6), src=bytes(6), dst_ip="2001:db8::1", src_ip="2001:db8::2", vlan=5)
    assert [layer.prefix for layer in tagged.layers] == ["eth", "vlan", "ipv6", "udp", "cnp", "icrc"]
    assert (tagged[CNP].qp, tagged[IPv6].tclass >> 2) == (9, 48)
    assert packets_of(Batch.from_frames([encode(tagged)]), crc=True).crc[0] == GOOD
