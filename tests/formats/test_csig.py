"""CSIG's compact tag is ignored until an EtherType is set, and then is a tag like other tags."""

import numpy as np

from ecmproto.frames.batch.tags import spliced_batch, tag_splice
from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.frames.columns.building.frames import pack
from ecmproto.frames.dissect.lines import describe
from ecmproto.tools.craft import build
from ecmproto.wire.codec import VLAN, Data, EtherTypes, IPv4, decode, encode
from ecmproto.wire.codec.tags import TagFormat, is_tag
from ecmproto.wire.formats.csig import CSIG
from ecmproto.wire.layers import from_scapy, to_scapy

ON = EtherTypes(csig=0x9900)
OCTETS = bytes.fromhex("020000000002 020000000001 8100 6005 9900 6a85 0800".replace(" ", ""))


def test_tag_precedes_ip() -> None:
    octets = encode(build("vlan id=5 priority=3 csig t=3 s=21 lm=5 ip udp", ethertypes=ON))
    assert octets[: len(OCTETS)] == OCTETS
    frame = decode(octets, ethertypes=ON)
    assert frame[CSIG] == CSIG(t=3, s=21, lm=5, etype=0x0800)
    assert [layer.prefix for layer in frame.layers] == ["eth", "vlan", "csig", "ip", "udp"]
    assert "CSIG queue depth 21 at 5" in describe(frame)[1]
    assert encode(frame) == octets


def test_csig_is_decoded_only_on_request() -> None:
    octets = encode(build("csig ip udp", ethertypes=ON))
    frame = decode(octets)
    assert CSIG not in frame
    assert isinstance(frame.layers[1], Data)
    batch = Batch.from_frames([octets])
    assert not len(extract(batch, ["csig.s"])["csig.s"].rows)
    assert len(extract(batch, ["csig.s"], ethertypes=ON)["csig.s"].rows) == 1
    assert not to_scapy(octets).haslayer("CSIG compact tag")


def test_batches_and_scapy_handle_the_tag() -> None:
    assert is_tag(CSIG)
    plain = encode(build("vlan id=5 ip udp", ethertypes=ON))
    batch = Batch.from_frames([plain, plain])
    tags = pack(CSIG, 2, t=2, s=np.array([3, 31]), lm=np.array([1, 127]))
    made = spliced_batch(batch, tag_splice(batch, tags, TagFormat(format=CSIG), ethertypes=ON))
    for row, (s, lm) in enumerate(((3, 1), (31, 127))):
        frame = decode(made.frame(row), ethertypes=ON)
        assert (frame[CSIG].s, frame[CSIG].lm, frame[VLAN].id) == (s, lm, 5)
        assert frame[IPv4] == decode(plain)[IPv4]
    packet = to_scapy(made.frame(1), ethertypes=ON)
    assert packet["CSIG compact tag"].s == 31
    assert from_scapy(packet, ethertypes=ON) == frame
