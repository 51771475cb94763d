"""RoCE in Scapy: Scapy's layers and ecmproto's additional layers, compared with the codec."""

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from ecmproto.tools.fuzz.checks.scapy import roce_differences
from ecmproto.wire.codec import decode, decode_lax
from ecmproto.wire.formats.infiniband import CNP, ICRC, OPCODES, coverage
from ecmproto.wire.layers import RETH, ImmDt, bound, from_scapy, to_scapy
from ecmproto.wire.layers.infiniband import contrib
from tests.formats.roce import CNP_OCTETS, frames

UNDER = (
    Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    / IP(src="10.0.17.1", dst="10.0.18.1")
    / UDP(sport=49152, dport=4791)
)


def test_a_cnp_is_scapys_and_back() -> None:
    packet = to_scapy(CNP_OCTETS)
    roce = contrib()
    header = packet[roce.BTH]
    assert (header.opcode, header.dqpn, header.becn, header.icrc) == (0x81, 0x118, 1, 0x82FD002A)
    assert header.haslayer(roce.CNPPadding)
    assert bytes(packet) == CNP_OCTETS
    made = (
        Ether(src="02:00:00:00:00:01")
        / IP(src="10.0.17.1", dst="10.0.18.1")
        / UDP(dport=4791)
        / roce.cnp(0x118)
    )
    frame = from_scapy(made)
    assert frame[CNP].qp == 0x118
    covered = coverage(frame.layers[:-1], frame.starts[:-1])
    assert covered is not None
    assert covered.crc(bytes(made)) == frame[ICRC].crc


def test_every_opcode_is_the_same_in_both() -> None:
    told = 0
    for octets in frames():
        packet = to_scapy(octets)
        assert bytes(packet) == octets
        assert list(roce_differences(decode_lax(octets), packet)) == [], octets.hex()
        told += packet.haslayer(contrib().BTH)
    assert told > 2 * len(OPCODES)


def test_headers_missing_in_scapy_are_built_and_dissected() -> None:
    roce = contrib()
    made = (
        Ether(src="02:00:00:00:00:01") / IP(dst="10.0.0.1") / UDP(dport=4791) / roce.BTH(opcode=0x0B, dqpn=7)
    )
    made = made / RETH(va=0x1000, r_key=5, dmalen=64) / ImmDt(immdt=9) / b"payload."
    frame = decode(bytes(made))
    assert [layer.prefix for layer in frame.layers][-5:] == ["bth", "reth", "immdt", "data", "icrc"]
    assert (frame["reth.va"], frame["immdt.immdt"]) == (0x1000, 9)
    with bound():
        again = Ether(bytes(made))
    assert (again[RETH].dmalen, again[ImmDt].immdt) == (64, 9)
    with pytest.raises(KeyError):
        frame["aeth"]
