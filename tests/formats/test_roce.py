"""RoCE: known octets, every opcode, frames that are not RoCE, truncated packets, and invariant CRCs."""

import dataclasses
import json
import zlib

import numpy as np
import pytest
from hypothesis import given

from ecmproto.errors import EncodeError, SpecError
from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.columns import extract
from ecmproto.frames.dissect.fields import FieldReader
from ecmproto.frames.dissect.form import records
from ecmproto.frames.dissect.lines import describe
from ecmproto.frames.dissect.tree import tree_text
from ecmproto.frames.filter import compile_filter
from ecmproto.tools.craft import build
from ecmproto.tools.fuzz.cases import Cases
from ecmproto.tools.fuzz.checks.frames import ColumnCheck, DocumentCheck, SchemaCheck, TextCheck
from ecmproto.tools.fuzz.checks.scapy import ScapyCheck
from ecmproto.tools.fuzz.strategies import roce_frames
from ecmproto.wire.codec import UDP, Data, Frame, IPv4, IPv6, decode, decode_lax, encode
from ecmproto.wire.codec.document import from_document, to_document
from ecmproto.wire.formats.infiniband import (
    AETH,
    BTH,
    CNP,
    CNP_OPCODE,
    CRC_STATUS,
    GRH,
    ICRC,
    OPCODES,
    coverage,
    crc_status,
    syndrome_text,
)
from tests.dissect.test_forms import record
from tests.formats.roce import CNP_OCTETS, NETWORKS, frame_lines, frames

BEHIND = {  # IBTA table 38, by operation: reliable connections'
    0x03: "immdt", 0x05: "immdt", 0x06: "reth", 0x09: "immdt", 0x0A: "reth", 0x0B: "reth immdt",
    0x0C: "reth", 0x0D: "aeth", 0x0F: "aeth", 0x10: "aeth", 0x11: "aeth", 0x12: "aeth atomicacketh",
    0x13: "atomiceth", 0x14: "atomiceth", 0x16: "ieth", 0x17: "ieth",
}  # fmt: skip
CNP_HEADERS = 54


def test_captured_cnp_is_read_and_written_exactly() -> None:
    frame = decode(CNP_OCTETS)
    cnp = frame[CNP]
    assert cnp == CNP(qp=0x118)
    assert (cnp.opcode, cnp.becn, cnp.fecn, cnp.p_key, cnp.psn, cnp.reserved) == (
        0x81, 1, 0, 0xFFFF, 0, bytes(16)
    )  # fmt: skip
    assert (frame[IPv4].dsfield, frame[UDP].dstport, frame[ICRC].crc) == (0xC2, 4791, 0x82FD002A)
    assert [layer.prefix for layer in frame.layers] == ["eth", "ip", "udp", "cnp", "icrc"]
    assert encode(frame) == CNP_OCTETS
    assert encode(dataclasses.replace(frame, layers=(*frame.layers[:-1], ICRC())), fix=True) == CNP_OCTETS
    assert describe(frame) == ("CNP", "→ QP 0x118 | 10.0.17.1 → 10.0.18.1")


def masked_crc(octets: bytes, ones: str) -> bytes:
    """Return the CRC of a packet in which the bits of ``ones`` (hexadecimal, as long as the packet) are
    set.
    """
    mask = bytes.fromhex(ones)
    octets = bytes(one | other for one, other in zip(octets, mask, strict=True))
    return zlib.crc32(b"\xff" * 8 + octets).to_bytes(4, "little")


def test_invariant_crc_excludes_mutable_fields() -> None:
    ip4 = "00ff0000000000 00ff00ffff".replace(" ", "") + 8 * "00" + 6 * "00" + "ffff"
    ip6 = "0fffffff000000ff" + 32 * "00" + 6 * "00" + "ffff"
    grh = "0fffffff000000ff" + 32 * "00"
    for line, ones in (("", ip4), ("ipv6 ", ip6), ("grh ", grh)):
        octets = encode(build(f"{line}cnp qp=5 fecn=1 psn=77"))
        packet = octets[14:-4]
        assert octets[-4:] == masked_crc(packet, ones + "00000000ff" + 23 * "00"), line


@pytest.mark.parametrize("network", NETWORKS)
def test_every_opcode_has_headers_payload_and_crc(network: str) -> None:
    for opcode in OPCODES:
        if opcode == CNP_OPCODE:
            continue
        transport, operation = opcode & 0xE0, opcode & 0x1F
        headers = BEHIND.get(operation, "").split()
        if transport == 0x40:
            headers = ["rdeth", *([] if 0x0D <= operation <= 0x12 else ["deth"]), *headers]
        elif transport == 0x60:
            headers = ["deth", *headers]
        for data in ("", " data data=01020304"):
            octets = encode(build(f"{network} bth opcode={opcode} qp=9{data}".strip()))
            frame = decode(octets)
            found = [layer.prefix for layer in frame.layers]
            payload = ["data"] if data else []
            assert found[found.index("bth") :] == ["bth", *headers, *payload, "icrc"], f"{opcode:#x}"
            assert encode(frame) == octets
            covered = coverage(frame.layers[:-1], frame.starts[:-1])
            assert covered is not None
            assert covered.crc(octets) == frame[ICRC].crc
    assert decode(encode(build("bth opcode=0xff data data=01020304")))[Data].data == bytes((1, 2, 3, 4))


def test_non_roce_octets_after_port_4791_are_data() -> None:
    for payload, last in (
        ("00" * 64, Data),
        ("01" * 15, Data),
        ("01" * 16, ICRC),
        ("00000001" + "00" * 12, ICRC),
    ):
        frame = decode(encode(build(f"udp dstport=4791 data data={payload}")))
        assert type(frame.layers[-1]) is last, payload
    assert type(decode(encode(build("udp dstport=4792 data data=" + "01" * 16))).layers[-1]) is Data


def test_cut_packet_is_decoded_up_to_cut() -> None:
    for octets in range(CNP_HEADERS, len(CNP_OCTETS)):
        frame = decode(CNP_OCTETS[:octets], original_octets=len(CNP_OCTETS))
        assert frame[CNP].qp == 0x118
        assert ICRC not in frame
        assert encode(frame) == CNP_OCTETS[:octets]
    error = decode_lax(CNP_OCTETS[:16] + (60 - 3).to_bytes(2, "big") + CNP_OCTETS[18:]).error
    assert error is not None
    assert (error.layer, error.offset, error.needed) == ("icrc", 70, "4 octets")


def test_every_crafted_frame_decodes_to_itself() -> None:
    for line in frame_lines():
        frame = build(line)
        assert decode(encode(frame)) == frame, line


def test_extended_headers_imply_their_base_header() -> None:
    assert build("aeth")[BTH].opcode == 0x11
    assert build("reth va=0x1000")[BTH].opcode == 0x0C
    assert [layer.prefix for layer in build("grh cnp").layers] == ["eth", "grh", "cnp", "icrc"]
    assert build("grh cnp")[GRH].paylen == 32
    given = build("cnp icrc crc=1")
    assert given[ICRC].crc == 1


def test_summary_names_the_acknowledge_syndrome() -> None:
    told = {0x1F: "ACK", 0x2E: "receiver not ready, timer 14", 0x60: "NAK PSN sequence error"}
    told |= {0x64: "NAK invalid RD request", 0x7F: "NAK code 31", 0x40: "syndrome 0x40"}
    for syndrome, text in told.items():
        assert syndrome_text(syndrome) == text
        frame = build(f"aeth syndrome={syndrome} msn=3")
        assert describe(frame) == ("RoCE", f"192.0.2.1 → 192.0.2.2 RC acknowledge QP 0x0 PSN 0 {text} MSN 3")
    assert frame[AETH].msn == 3
    marked = describe(build("ipv6 ecn=3 bth qp=0x118 psn=7"))[1]
    assert marked == "2001:db8::1 → 2001:db8::2 RC SEND only QP 0x118 PSN 7 CE"


def test_traffic_classes_are_shown_and_given_in_parts() -> None:
    frame = build("ip dscp=46 ecn=3 bth")
    assert frame[IPv4].dsfield == 46 << 2 | 3
    assert build("ip ecn=1 cnp")[IPv4].dsfield == 48 << 2 | 1, "the DSCP of CNPs stays"
    assert build("ipv6 ipv6.tclass.dscp=8 cnp")[IPv6].tclass == 8 << 2
    with pytest.raises(EncodeError, match=r"ecn.*expected an integer in 0\.\.3, got 4"):
        build("ip ecn=4 udp")
    with pytest.raises(SpecError, match="the same field twice"):
        build("ip dsfield=3 ecn=1 udp")
    columns = extract(
        Batch.from_frames([encode(build(f"ip ecn={ecn} bth qp={ecn}")) for ecn in range(4)]),
        ["ip.dsfield.ecn", "ip.dsfield.dscp", "infiniband.bth.destqp"],
    )
    values = [np.asarray(columns[name].values).tolist() for name in columns]
    assert values == [[0, 1, 2, 3], [26] * 4, [0, 1, 2, 3]]
    test = compile_filter("ip.dsfield.ecn == CE and infiniband.bth.destqp == 0x118 and not cnp")
    kept = [
        encode(build(line)) for line in ("ip ecn=3 bth qp=0x118", "ip ecn=3 cnp qp=0x118", "ip bth qp=0x118")
    ]
    assert [test.matches(record(each)) for each in kept] == [True, False, False]


def test_the_invariant_crc_is_checked() -> None:
    bad = bytearray(CNP_OCTETS)
    bad[60] ^= 1  # of the reserved octets
    changed = bytearray(CNP_OCTETS)
    changed[15] |= 3  # as a switch may do: CE, with the old checksum
    fragment = encode(build("ip flags=1 cnp"))
    octets = [CNP_OCTETS, bytes(bad), bytes(changed), fragment, CNP_OCTETS[:64], encode(build("udp"))]
    lengths = [len(each) for each in octets]
    lengths[4] = len(CNP_OCTETS)
    batch = Batch.from_frames(octets, original=lengths)
    told = ["good", "bad", "good", "unverified", "unverified", ""]
    column = extract(batch, [CRC_STATUS])[CRC_STATUS]
    assert dict(zip(column.rows.tolist(), column.values, strict=True)) == dict(enumerate(told[:-1]))
    rows = [FieldReader([CRC_STATUS]).row(each) for each in records(batch, [Interface(index=0, linktype=1)])]
    assert rows == [[text] for text in told]
    wrong = compile_filter(f'{CRC_STATUS} == "bad"')
    assert [wrong.matches(each) for each in records(batch, [Interface(index=0, linktype=1)])] == [
        text == "bad" for text in told
    ]
    assert tree_text(record(CNP_OCTETS)).endswith("infiniband.invariant.crc  0x82fd002a  good\n")
    assert tree_text(record(bytes(bad))).endswith("infiniband.invariant.crc  0x82fd002a  bad\n")


def test_ip_option_gives_both_addresses() -> None:
    frame = build("cnp", qp=0x118, ip="10.0.17.1,10.0.18.1")
    assert (frame[IPv4].src, frame[IPv4].dst) == (bytes((10, 0, 17, 1)), bytes((10, 0, 18, 1)))
    assert frame[IPv4].dsfield >> 2 == 48
    assert build("aeth", ip="2001:db8::5,2001:db8::6")[IPv6].dst[-1] == 6
    assert build("vlan id=5 ip ecn=1 udp", ip="10.0.0.1,10.0.0.2")[IPv4].dst[-1] == 2
    for line, ends, needed in (
        ("cnm", "10.0.0.1,10.0.0.2", "expected a frame with IPv4"),
        ("cnp", "10.0.0.1,2001:db8::1", "two addresses of one version"),
        ("cnp", "10.0.0.1", "two addresses such as"),
    ):
        with pytest.raises(SpecError, match=needed):
            build(line, ip=ends)


@given(roce_frames(fcs_octets=0))
def test_any_packet_survives_encoding(frame: Frame) -> None:
    octets = encode(frame)
    assert decode(octets) == frame
    assert crc_status(frame) == "good"
    document = json.loads(json.dumps(to_document(frame)))
    assert encode(from_document(document)[0]) == octets


def test_spoilt_packets_are_the_same_to_all_decoders() -> None:
    cases = Cases(frames(), seed=7)
    items = [cases[number].octets for number in range(1024)]
    for check in (SchemaCheck(), ColumnCheck()):
        assert not list(check.differences(items)), check.name
    for slow in (DocumentCheck(), TextCheck(), ScapyCheck()):
        assert not list(slow.differences(items[:128])), slow.name
