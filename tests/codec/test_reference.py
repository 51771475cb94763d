"""Bit diagrams, the catalogue of field names, and the field reference."""

from __future__ import annotations

import json

import pytest

from docs.reference import PATH, text
from ecmproto import CNM, PFC, CNTag, Layer
from ecmproto.wire.codec.reference import as_dict, as_markdown, as_text, diagram
from ecmproto.wire.formats.ip import IPv4ARP
from ecmproto.wire.formats.registry import BY_PREFIX, FORMATS, catalogue

CNTAG = """\
 0                   1                   2                   3
 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
|            flow_id            |             etype             |
+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+"""


def test_a_diagram_is_drawn_as_the_rfcs_do() -> None:
    assert diagram(CNTag) == CNTAG


@pytest.mark.parametrize("cls", FORMATS, ids=lambda cls: cls.prefix)
def test_diagrams_are_rectangular_and_name_wide_fields(cls: type[Layer]) -> None:
    drawn = diagram(cls)
    assert max(map(len, drawn.splitlines())) <= 65
    for field in cls.layout:
        if field.bits is None or 2 * field.bits > len(field.key):
            assert field.key in drawn


def test_names_of_formats_are_unique() -> None:
    assert len(BY_PREFIX) == len(FORMATS)


def test_field_names_are_unique_except_shared_fields() -> None:
    shared = {entry.name: entry.formats for entry in catalogue() if len(entry.formats) > 1}
    arps = ("arp", "arp_mac", "arp_ipv4", "arp_other")
    cooked = ("pkttype", "hatype", "halen", "src.eth", "unused", "etype")
    bth = ("opcode", "se", "m", "padcnt", "tver", "p_key", "fecn", "becn", "reserved6", "destqp", "a")
    qaz = ("lldpets", "lldpetsrec", "lldppfc", "lldpapp")
    others = ("lldp8021", "lldp8023", "lldporg")
    tlvs = ("lldp", "lldpcn", *qaz, "lldpcee", *others)
    llc = ("llc", "llc_other", "llc_snap")
    shares = ("lldpets", "lldpetsrec", "lldpcee.pg")
    features = ("lldpcee.pg", "lldpcee.pfc", "lldpcee.app")
    priorities = [f"prio{n}" for n in range(8)]
    assert shared == {
        **{f"infiniband.bth.{key}": ("bth", "cnp") for key in (*bth, "reserved7", "psn")},
        **{f"infiniband.reth.{key}": ("reth", "atomiceth") for key in ("va", "r_key")},
        "macc.opcode": ("pause", "pfc", "macc"),
        **{f"lldp.tlv.{key}": tlvs for key in ("type", "len")},
        "lldp.orgtlv.oui": tlvs[1:],
        "lldp.ieee.802_1.subtype": ("lldpcn", *qaz, "lldp8021"),
        "lldp.tlv.value": ("lldp", *others),
        **{f"llc.{key}": llc for key in ("dsap", "ssap", "control")},
        "llc.oui": ("llc", "llc_snap"),
        "lldp.dcbx.ieee.willing": ("lldpets", "lldppfc"),
        **{f"lldp.dcbx.feature.pg.{key}{n}": shares for key in ("pgid_prio", "per") for n in range(8)},
        **{f"lldp.dcbx.ieee.ets.tsa{n}": shares[:2] for n in range(8)},
        **{f"lldp.dcbx.feature.pfc.{key}": ("lldppfc", "lldpcee.pfc") for key in ("enable", *priorities)},
        "lldp.dcbx.feature.app.proto": ("lldpapp.entry", "lldpcee.app.entry"),
        **{f"lldp.dcbx.{key}": ("lldpcee.control", *features, "lldpcee.tlv") for key in ("type", "len")},
        **{f"lldp.dcbx.{key}": ("lldpcee.control", *features) for key in ("version", "max_version")},
        **{f"lldp.dcbx.feature.{key}": features for key in ("enabled", "willing", "error", "subtype")},
        **{f"sll.{key}": ("sll", "sll2") for key in cooked},
        **{f"arp.{key}": arps for key in ("hw.type", "proto.type", "hw.size", "proto.size", "opcode")},
        **{f"arp.{end}.hw_mac": arps[:2] for end in ("src", "dst")},
        **{f"arp.{end}.hw": arps[2:] for end in ("src", "dst")},
        **{f"arp.{end}.proto": ("arp_mac", "arp_other") for end in ("src", "dst")},
        **{f"arp.{end}.proto_ipv4": ("arp", "arp_ipv4") for end in ("src", "dst")},
        **{
            f"erspan.{key}": ("erspan", "erspan3")
            for key in ("version", "vlan", "cos", "truncated", "spanid")
        },
        **{f"vxlan.{key}": ("vxlan", "gpe") for key in ("flags", "vni", "reserved8")},
        "tzsp.option_tag": ("tzsp.tag", "tzsp.mark"),
    }


PROMISED = """
    frame.number frame.time_epoch frame.len frame.cap_len frame.interface_id eth.dst eth.src
    eth.type vlan.id vlan.priority vlan.dei ip.src ip.dst udp.srcport cntag.flow_id cnm.version
    cnm.reserved cnm.qntz_fb cnm.cpid cnm.q_offset cnm.q_delta cnm.encap_prio cnm.encap_reserved
    cnm.encap_dst cnm.msdu_length cnm.msdu ecm.version ecm.q ecm.cpid ecm.q_off ecm.q_delta
    ecm.timestamp ecm.unit ecm.payload cmtag.version cmtag.protocol cmtag.cpid cmtag.timestamp
    cmtag.unit bcn.type bcn.cpid bcn.e bcn.capacity bcn.payload rrttag.cpid e2cm.type e2cm.q
    e2cm.cpid e2cm.q_off e2cm.q_delta e2cm.latency e2cm.flow_id e2cm.throughput e2cm.payload
    rdtag.rlq_id rdtag.rate fecn.rlq_id fecn.rate dbp.rate eth.padding eth.trailer eth.fcs
    macc.opcode macc.pause_time macc.cbfc.enbv.c7 macc.cbfc.pause_time.c0
    lldp.ieee.802_1qau.cnpv.prio3 lldp.ieee.802_1qau.ready.prio0
"""


def test_documented_field_names_exist() -> None:
    """The field tables of the interface document."""
    names = {entry.name for entry in catalogue()}
    experimental = ("ecm", "cmtag", "bcn", "rrttag", "e2cm", "rdtag", "fecn", "dbp")
    word = [
        f"{layer}.{key}" for layer in experimental for key in ("version", "q", "protocol", "type", "reserved")
    ]
    assert {*PROMISED.split(), *word} <= names


def test_a_format_as_data_is_json() -> None:
    document = json.loads(json.dumps(as_dict(CNM)))
    assert document["fixed_octets"] == 24
    assert document["ethertype"] == "0x22e7"
    assert document["fields"][2] | {"doc": ""} == {
        "name": "cnm.qntz_fb", "key": "qntz_fb", "type": "uint6", "bit_offset": 10, "bits": 6, "length": None,
        "default": 0, "unit": "", "values": {}, "doc": "", "source": "S001; 802.1Q 33.4",
    }  # fmt: skip


def test_text_and_markdown_show_field_offsets() -> None:
    assert "      1.2  cnm.qntz_fb" in as_text(CNM)
    assert "| 4–5 | `macc.cbfc.pause_time.c0` | uint16 |" in as_markdown(PFC)


def test_field_without_fixed_offset_follows_its_predecessor() -> None:
    (place,) = (field for field in as_dict(IPv4ARP)["fields"] if field["key"] == "src_proto")  # type: ignore[attr-defined]
    assert (place["bit_offset"], place["bits"]) == (None, 32)
    assert "     then  arp.src.proto_ipv4  ipv4" in as_text(IPv4ARP)
    assert "| then | `arp.dst.hw` | octets |" in as_markdown(IPv4ARP)
    assert [line.strip("/ ") for line in as_text(IPv4ARP).splitlines() if line.startswith("/")] == [
        "src_hw: hw_size octets", "src_proto: 32 bits", "dst_hw: hw_size octets", "dst_proto: 32 bits"
    ]  # fmt: skip


def test_the_field_reference_is_up_to_date() -> None:
    assert PATH.read_text(encoding="utf-8") == text(), "run `make references`"
