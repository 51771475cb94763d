"""The position of each field: the walk over the schemas against tables written by hand from
wire-formats.md.
"""

from __future__ import annotations

import pytest

from ecmproto.wire.codec import Layer
from ecmproto.wire.formats.registry import BY_PREFIX, FORMATS

# For each format: total octets of the fixed part, then "key first-octet.bit bits kind" as in the document's
# tables. Offsets in tags and messages start after the EtherType, and "+" is the variable part.
WORD = """
    version 0.0 4 uint | q 0.4 1 uint | protocol 0.5 3 uint | type 1.0 4 uint | reserved 1.4 4 uint"""
STACK = (
    " | seq 2.0 32 uint | path 6.0 16 uint"
    + """
    | rate1 8.0 3 uint | time1 8.3 24 uint | sent1 11.3 20 uint | qlen1 13.7 17 uint
    | rate2 16.0 3 uint | time2 16.3 24 uint | sent2 19.3 20 uint | qlen2 21.7 17 uint
    | rate3 24.0 3 uint | time3 24.3 24 uint | sent3 27.3 20 uint | qlen3 29.7 17 uint
    | rate4 32.0 3 uint | time4 32.3 24 uint | sent4 35.3 20 uint | qlen4 37.7 17 uint
    | rate5 40.0 3 uint | time5 40.3 24 uint | sent5 43.3 20 uint | qlen5 45.7 17 uint | nhop 48.0 16 uint"""
)
ARP_START = """hw_type 0.0 16 uint | proto_type 2.0 16 uint | hw_size 4.0 8 uint | proto_size 5.0 8 uint
    | opcode 6.0 16 uint"""
TLV_START = "type 0.0 7 uint | length 0.7 9 uint"
ORGANIZATION_START = f"{TLV_START} | oui 2.0 24 uint | subtype 5.0 8 uint"
FEATURE_START = f"""{TLV_START} | version 2.0 8 uint | max_version 3.0 8 uint | enabled 4.0 1 uint
    | willing 4.1 1 uint | error 4.2 1 uint | reserved 4.3 5 uint | subtype 5.0 8 uint"""
TABLES: dict[str, tuple[int, str]] = {
    "eth": (14, "dst 0.0 48 mac | src 6.0 48 mac | type 12.0 16 uint"),
    "vlan": (4, "priority 0.0 3 uint | dei 0.3 1 uint | id 0.4 12 uint | etype 2.0 16 uint"),
    "ieee8021ad": (4, "priority 0.0 3 uint | dei 0.3 1 uint | id 0.4 12 uint | etype 2.0 16 uint"),
    "ieee8021ah": (18, """priority 0.0 3 uint | drop 0.3 1 uint | nca 0.4 1 uint | res1 0.5 1 uint
        | res2 0.6 2 uint
        | isid 1.0 24 uint | cdst 4.0 48 mac | csrc 10.0 48 mac | etype 16.0 16 uint"""),
    "cntag": (4, "flow_id 0.0 16 uint | etype 2.0 16 uint"),
    "cnm": (24, """version 0.0 4 uint | reserved 0.4 6 uint | qntz_fb 1.2 6 uint | cpid 2.0 64 cpid
        | q_offset 10.0 16 sint | q_delta 12.0 16 sint | encap_prio 14.0 3 uint | encap_reserved 14.3 13 uint
        | encap_dst 16.0 48 mac | msdu_length 22.0 16 uint | msdu 24.0 + octets"""),
    "ecm": (18, WORD + """ | cpid 2.0 64 cpid | q_off 10.0 16 sint | q_delta 12.0 16 sint
        | timestamp 14.0 16 uint
        | unit 16.0 4 uint | reserved2 16.4 12 uint | payload 18.0 + octets"""),
    "cmtag": (16, WORD + """ | cpid 2.0 64 cpid | timestamp 10.0 16 uint | unit 12.0 4 uint
        | reserved2 12.4 12 uint | etype 14.0 16 uint"""),
    "bcn": (18, WORD + """ | cpid 2.0 64 cpid | e 10.0 32 sint | capacity 14.0 32 uint
        | payload 18.0 + octets"""),
    "rrttag": (12, WORD + " | cpid 2.0 64 cpid | etype 10.0 16 uint"),
    "e2cm": (24, WORD + """ | cpid 2.0 64 cpid | q_off 10.0 16 sint | q_delta 12.0 16 sint
        | latency 14.0 32 uint
        | flow_id 18.0 16 uint | throughput 20.0 32 uint | payload 24.0 + octets"""),
    "rdtag": (10, WORD + " | rlq_id 2.0 16 uint | rate 4.0 32 uint | etype 8.0 16 uint"),
    "fecn": (8, WORD + " | rlq_id 2.0 16 uint | rate 4.0 32 uint"),
    "dbp": (8, WORD + " | rlq_id 2.0 16 uint | rate 4.0 32 uint"),
    "inttag": (52, WORD + STACK + " | etype 50.0 16 uint"),
    "hpcc": (50, WORD + STACK),
    "cim": (
        12,
        WORD + """ | cpid 2.0 64 cpid | priority 10.0 3 uint | queue 10.3 3 uint
    | reserved2 10.6 10 uint | payload 12.0 + octets""",
    ),
    "expmsg": (2, WORD + " | body 2.0 + octets"),
    "exptag": (2, WORD + " | body 2.0 + octets"),
    "pause": (4, "opcode 0.0 16 uint | pause_time 2.0 16 uint"),
    "pfc": (20, """opcode 0.0 16 uint | class_enable_vector 2.0 16 uint
        | time0 4.0 16 uint | time1 6.0 16 uint | time2 8.0 16 uint | time3 10.0 16 uint
        | time4 12.0 16 uint | time5 14.0 16 uint | time6 16.0 16 uint | time7 18.0 16 uint"""),
    "macc": (2, "opcode 0.0 16 uint | body 2.0 + octets"),
    "lldp": (2, "type 0.0 7 uint | length 0.7 9 uint | value 2.0 + octets"),
    "lldpcn": (8, """type 0.0 7 uint | length 0.7 9 uint | oui 2.0 24 uint | subtype 5.0 8 uint
        | cnpv 6.0 8 uint
        | ready 7.0 8 uint"""),
    "arp": (28, ARP_START + """ | src_hw 8.0 48 mac | src_proto 14.0 32 ipv4 | dst_hw 18.0 48 mac
        | dst_proto 24.0 32 ipv4"""),
    "arp_mac": (14, ARP_START + """ | src_hw 8.0 48 mac | src_proto 14.0 + octets | dst_hw 14.0 48 mac
        | dst_proto 20.0 + octets"""),
    "arp_ipv4": (8, ARP_START + """ | src_hw 8.0 + octets | src_proto 8.0 32 ipv4 | dst_hw 12.0 + octets
        | dst_proto 12.0 32 ipv4"""),
    "arp_other": (8, ARP_START + """ | src_hw 8.0 + octets | src_proto 8.0 + octets | dst_hw 8.0 + octets
        | dst_proto 8.0 + octets"""),
    "ip": (20, """version 0.0 4 uint | ihl 0.4 4 uint | dsfield 1.0 8 uint | len 2.0 16 uint | id 4.0 16 uint
        | flags 6.0 3 uint | frag_offset 6.3 13 uint | ttl 8.0 8 uint | proto 9.0 8 uint
        | checksum 10.0 16 uint
        | src 12.0 32 ipv4 | dst 16.0 32 ipv4 | options 20.0 + octets"""),
    "ipv6": (40, """version 0.0 4 uint | tclass 0.4 8 uint | flow 1.4 20 uint | plen 4.0 16 uint
        | nxt 6.0 8 uint
        | hlim 7.0 8 uint | src 8.0 128 ipv6 | dst 24.0 128 ipv6"""),
    "llc_other": (3, "dsap 0.0 8 uint | ssap 1.0 8 uint | control 2.0 8 uint"),
    "llc_snap": (8, """dsap 0.0 8 uint | ssap 1.0 8 uint | control 2.0 8 uint | oui 3.0 24 uint
        | pid 6.0 16 uint"""),
    **dict.fromkeys(("lldp8021", "lldp8023", "lldporg"), (6, """type 0.0 7 uint | length 0.7 9 uint
        | oui 2.0 24 uint | subtype 5.0 8 uint | value 6.0 + octets""")),
    "llc": (8, """dsap 0.0 8 uint | ssap 1.0 8 uint | control 2.0 8 uint | oui 3.0 24 uint
        | etype 6.0 16 uint"""),
    "ipv6.hopopts": (2, "nxt 0.0 8 uint | len 1.0 8 uint | options 2.0 + octets"),
    "ipv6.routing": (4, """nxt 0.0 8 uint | len 1.0 8 uint | type 2.0 8 uint | segleft 3.0 8 uint
        | data 4.0 + octets"""),
    "ipv6.fraghdr": (8, """nxt 0.0 8 uint | reserved_octet 1.0 8 uint | offset 2.0 13 uint
        | reserved_bits 3.5 2 uint | more 3.7 1 uint | ident 4.0 32 uint"""),
    "ipv6.dstopts": (2, "nxt 0.0 8 uint | len 1.0 8 uint | options 2.0 + octets"),
    "ah": (12, """nxt 0.0 8 uint | length 1.0 8 uint | reserved 2.0 16 uint | spi 4.0 32 uint
        | sequence 8.0 32 uint | icv 12.0 + octets"""),
    "tcp": (20, """srcport 0.0 16 uint | dstport 2.0 16 uint | seq_raw 4.0 32 uint | ack_raw 8.0 32 uint
        | data_offset 12.0 4 uint | flags 12.4 12 uint | window_size_value 14.0 16 uint
        | checksum 16.0 16 uint
        | urgent_pointer 18.0 16 uint | options 20.0 + octets"""),
    "udp": (8, "srcport 0.0 16 uint | dstport 2.0 16 uint | length 4.0 16 uint | checksum 6.0 16 uint"),
    "keyframe": (
        46, "asic 0.0 64 uint | utc 8.0 64 uint | last_sync 16.0 64 uint | time 24.0 64 uint"
        " | drops 32.0 64 uint | device 40.0 16 uint | port 42.0 16 uint | fcs 44.0 8 uint"
        " | reserved 45.0 8 uint",
    ),
    "csig": (4, "t 0.0 3 uint | r 0.3 1 uint | s 0.4 5 uint | lm 1.1 7 uint | etype 2.0 16 uint"),
    "bth": (12, """opcode 0.0 8 uint | se 1.0 1 uint | m 1.1 1 uint | padcnt 1.2 2 uint | tver 1.4 4 uint
        | p_key 2.0 16 uint | fecn 4.0 1 uint | becn 4.1 1 uint | reserved6 4.2 6 uint | qp 5.0 24 uint
        | a 8.0 1 uint | reserved7 8.1 7 uint | psn 9.0 24 uint"""),
    "cnp": (12, """opcode 0.0 8 uint | se 1.0 1 uint | m 1.1 1 uint | padcnt 1.2 2 uint | tver 1.4 4 uint
        | p_key 2.0 16 uint | fecn 4.0 1 uint | becn 4.1 1 uint | reserved6 4.2 6 uint | qp 5.0 24 uint
        | a 8.0 1 uint | reserved7 8.1 7 uint | psn 9.0 24 uint | reserved 12.0 + octets"""),
    "rdeth": (4, "reserved 0.0 8 uint | eecnxt 1.0 24 uint"),
    "deth": (8, "q_key 0.0 32 uint | reserved 4.0 8 uint | srcqp 5.0 24 uint"),
    "reth": (16, "va 0.0 64 uint | r_key 8.0 32 uint | dmalen 12.0 32 uint"),
    "atomiceth": (28, "va 0.0 64 uint | r_key 8.0 32 uint | swapdt 12.0 64 uint | cmpdt 20.0 64 uint"),
    "aeth": (4, "syndrome 0.0 8 uint | msn 1.0 24 uint"),
    "atomicacketh": (8, "origremdt 0.0 64 uint"),
    "immdt": (4, "immdt 0.0 32 uint"),
    "ieth": (4, "r_key 0.0 32 uint"),
    "icrc": (4, "crc 0.0 32 uint"),
    "grh": (40, """ipver 0.0 4 uint | tclass 0.4 8 uint | flowlabel 1.4 20 uint | paylen 4.0 16 uint
        | nxthdr 6.0 8 uint | hoplmt 7.0 8 uint | sgid 8.0 128 ipv6 | dgid 24.0 128 ipv6"""),
    "lrh": (8, """vl 0.0 4 uint | lver 0.4 4 uint | sl 1.0 4 uint | reserved2 1.4 2 uint | lnh 1.6 2 uint
        | dlid 2.0 16 uint | reserved5 4.0 5 uint | pktlen 4.5 11 uint | slid 6.0 16 uint"""),
    "msdu": (2, "type 0.0 16 uint"),
    "sll": (16, """pkttype 0.0 16 uint | hatype 2.0 16 uint | halen 4.0 16 uint | src 6.0 48 mac
        | unused 12.0 16 uint | etype 14.0 16 uint"""),
    "sll2": (20, """etype 0.0 16 uint | reserved 2.0 16 uint | ifindex 4.0 32 uint | hatype 8.0 16 uint
        | pkttype 10.0 8 uint | halen 11.0 8 uint | src 12.0 48 mac | unused 18.0 16 uint"""),
    "data": (0, "data 0.0 + octets"),
}  # fmt: skip


def _eight(key: str, octet: int, bits: int) -> str:
    """Return eight consecutive fields of equal width."""
    places = ((n, *divmod(8 * octet + n * bits, 8)) for n in range(8))
    return " | ".join(f"{key}{n} {at}.{bit} {bits} uint" for n, at, bit in places)


_SHARES = " | ".join((_eight("prio", 7, 4), _eight("per", 11, 8), _eight("tsa", 19, 8)))
_GROUPS = " | ".join((_eight("prio", 6, 4), _eight("per", 10, 8)))
TABLES |= {
    "lldpets": (27, f"""{ORGANIZATION_START} | willing 6.0 1 uint | cbs 6.1 1 uint | reserved 6.2 3 uint
        | maxtcs 6.5 3 uint | {_SHARES}"""),
    "lldpetsrec": (27, f"{ORGANIZATION_START} | reserved 6.0 8 uint | {_SHARES}"),
    "lldppfc": (8, f"""{ORGANIZATION_START} | willing 6.0 1 uint | mbc 6.1 1 uint | reserved 6.2 2 uint
        | capability 6.4 4 uint | enable 7.0 8 uint"""),
    "lldpapp": (7, f"{ORGANIZATION_START} | reserved 6.0 8 uint"),
    "lldpapp.entry": (3, """priority 0.0 3 uint | reserved 0.3 2 uint | selector 0.5 3 uint
        | protocol 1.0 16 uint"""),
    "lldpcee": (6, f"{TLV_START} | oui 2.0 24 uint | proto 5.0 8 uint | value 6.0 + octets"),
    "lldpcee.tlv": (2, f"{TLV_START} | value 2.0 + octets"),
    "lldpcee.control": (12, f"""{TLV_START} | version 2.0 8 uint | max_version 3.0 8 uint | seq 4.0 32 uint
        | ack 8.0 32 uint"""),
    "lldpcee.pg": (19, f"{FEATURE_START} | {_GROUPS} | numtcs 18.0 8 uint"),
    "lldpcee.pfc": (8, f"{FEATURE_START} | enable 6.0 8 uint | numtcs 7.0 8 uint"),
    "lldpcee.app": (6, FEATURE_START),
    "lldpcee.app.entry": (6, """protocol 0.0 16 uint | oui_upper 2.0 6 uint | selector 2.6 2 uint
        | oui 3.0 16 uint | priorities 5.0 8 uint"""),
    "gre": (4, "flags 0.0 16 uint | protocol 2.0 16 uint"),
    "gresum": (4, "checksum 0.0 16 uint | offset 2.0 16 uint"),
    "grekey": (4, "key 0.0 32 uint"),
    "greseq": (4, "sequence 0.0 32 uint"),
    "erspan": (8, """version 0.0 4 uint | vlan 0.4 12 uint | cos 2.0 3 uint | encapsulation 2.3 2 uint
        | truncated 2.5 1 uint | session 2.6 10 uint | reserved 4.0 12 uint | index 5.4 20 uint"""),
    "erspan3": (12, """version 0.0 4 uint | vlan 0.4 12 uint | cos 2.0 3 uint | bso 2.3 2 uint
        | truncated 2.5 1 uint | session 2.6 10 uint | timestamp 4.0 32 uint | sgt 8.0 16 uint | p 10.0 1 uint
        | ft 10.1 5 uint | hardware 10.6 6 uint | direction 11.4 1 uint | granularity 11.5 2 uint
        | o 11.7 1 uint"""),
    "erspan3.platform": (8, "platform 0.0 6 uint | info 0.6 26 uint | number 4.0 32 uint"),
    "vxlan": (8, "flags 0.0 16 uint | gbp 2.0 16 uint | vni 4.0 24 uint | reserved2 7.0 8 uint"),
    "gpe": (8, """flags 0.0 8 uint | reserved 1.0 16 uint | next 3.0 8 uint | vni 4.0 24 uint
        | reserved2 7.0 8 uint"""),
    "geneve": (8, """version 0.0 2 uint | optlen 0.2 6 uint | flags 1.0 8 uint | protocol 2.0 16 uint
        | vni 4.0 24 uint | reserved 7.0 8 uint | options 8.0 + octets"""),
    "mpls": (4, "label 0.0 20 uint | exp 2.4 3 uint | bottom 2.7 1 uint | ttl 3.0 8 uint"),
    "pwethcw": (4, "zero 0.0 4 uint | reserved 0.4 12 uint | sequence 2.0 16 uint"),
    "tzsp": (4, "version 0.0 8 uint | type 1.0 8 uint | encapsulated 2.0 16 uint"),
    "tzsp.tag": (2, "type 0.0 8 uint | length 1.0 8 uint | value 2.0 + octets"),
    "tzsp.mark": (1, "type 0.0 8 uint"),
}  # fmt: skip


def rows(table: str) -> list[tuple[str, int, int | None, str]]:
    read = []
    for row in table.split("|"):
        key, place, bits, kind = row.split()
        octet, bit = place.split(".")
        read.append((key, 8 * int(octet) + int(bit), None if bits == "+" else int(bits), kind))
    return read


def test_every_format_has_a_table() -> None:
    assert sorted(TABLES) == sorted(BY_PREFIX), "write the new format's table, from its document, into TABLES"


@pytest.mark.parametrize("prefix", TABLES)
def test_field_offsets_match_the_document(prefix: str) -> None:
    cls = BY_PREFIX[prefix]
    octets, table = TABLES[prefix]
    assert [(field.key, field.bit_offset, field.bits, field.kind) for field in cls.layout] == rows(table)
    assert cls.fixed_octets == octets


@pytest.mark.parametrize("prefix", TABLES)
def test_each_fixed_bit_belongs_to_one_field(prefix: str) -> None:
    cls = BY_PREFIX[prefix]
    end = 0
    for field in cls.layout:
        assert field.bit_offset == end
        end += field.bits or 0
    behind = sum(field.bits or 0 for field in cls.moving)
    assert end == 8 * cls.fixed_octets + behind


def test_moving_fields_name_preceding_variable_ones() -> None:
    behind = {field.key: field.behind for field in BY_PREFIX["arp_ipv4"].layout if field.behind}
    assert behind == {
        "src_proto": ("src_hw",), "dst_hw": ("src_hw",), "dst_proto": ("src_hw", "dst_hw")
    }  # fmt: skip
    assert [field.key for field in BY_PREFIX["arp_ipv4"].moving] == [
        "src_hw", "src_proto", "dst_hw", "dst_proto"
    ]  # fmt: skip
    assert not any(field.behind for cls in FORMATS if not cls.moving for field in cls.layout)


@pytest.mark.parametrize("cls", FORMATS, ids=lambda cls: cls.prefix)
def test_every_field_has_meaning_and_source(cls: type[Layer]) -> None:
    assert cls.title
    assert cls.source
    for field in cls.layout:
        assert field.meta.doc, field.name
        assert field.source, field.name


def test_ranges_follow_from_width_and_sign() -> None:
    ranges = {
        field.key: (field.minimum, field.maximum)
        for field in BY_PREFIX["cnm"].layout
        if field.key in ("version", "qntz_fb", "cpid", "q_offset", "encap_prio")
    }
    assert ranges == {
        "version": (0, 15), "qntz_fb": (0, 63), "cpid": (0, (1 << 64) - 1), "q_offset": (-32768, 32767),
        "encap_prio": (0, 7),
    }  # fmt: skip


def test_ethertype_up_to_1500_is_named_length() -> None:
    field = BY_PREFIX["eth"].layout[2]
    assert [field.name_for(value) for value in (0, 1500, 1501, 0x0800)] == [
        "eth.len",
        "eth.len",
        "eth.type",
        "eth.type",
    ]


@pytest.mark.parametrize(
    "role_value",
    [
        "cnm",
        "cntag",
        "ecm",
        "bcn",
        "e2cm",
        "fecn",
        "dbp",
        "cmtag",
        "rrttag",
        "rdtag",
        "hpcc",
        "inttag",
        "cim",
    ],
)
def test_names_start_with_the_formats_prefix(role_value: str) -> None:
    cls = BY_PREFIX[role_value]
    assert [field.name for field in cls.layout] == [f"{role_value}.{field.key}" for field in cls.layout]
