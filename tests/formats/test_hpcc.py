"""HPCC's INT tag and acknowledgement: fields in filters, columns, JSON, Scapy and the editor's tags."""

import json

import numpy as np
from hypothesis import given

from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import extract
from ecmproto.frames.columns.selection import selected
from ecmproto.frames.dissect.lines import describe
from ecmproto.frames.filter import compile_filter
from ecmproto.tools.craft import build
from ecmproto.tools.fuzz.strategies import layers_of
from ecmproto.wire.codec import Ethernet, Frame, IPv4, decode, encode
from ecmproto.wire.codec.document import to_document
from ecmproto.wire.codec.tags import TagFormat, is_tag, joined_word, split_word, without_tags
from ecmproto.wire.formats.hpcc import RECORD_FIELDS, HPCCAck, INTTag
from ecmproto.wire.layers import from_scapy, to_scapy

TAGGED = encode(
    build("vlan id=5 priority=3 inttag seq=1500 nhop=2 rate1=2 sent1=100 qlen1=10 qlen2=7 ip udp")
)


@given(layers_of(INTTag, etype=0x88F7), layers_of(HPCCAck))
def test_tags_and_acknowledgements_round_trip(tag: INTTag, answer: HPCCAck) -> None:
    tagged = encode(Frame(layers=(Ethernet(type=0x88B6), tag))) + bytes(9)
    answered = encode(Frame(layers=(Ethernet(type=0x88B5), answer)))
    assert decode(tagged)[INTTag] == tag
    assert decode(answered)[HPCCAck] == answer
    for octets in (tagged, answered):
        assert from_scapy(to_scapy(octets)) == decode(octets)
        assert encode(decode(octets)) == octets


@given(layers_of(INTTag))
def test_words_are_the_octets_of_records(tag: INTTag) -> None:
    octets = tag.build()
    for hop, names in enumerate(RECORD_FIELDS):
        word = joined_word(tag, names)
        assert word == int.from_bytes(octets[8 + 8 * hop : 16 + 8 * hop])
        assert split_word(INTTag, names, word) == {name: getattr(tag, name) for name in names}


def test_stack_is_a_tag_before_ip() -> None:
    assert is_tag(INTTag)
    assert [layer.prefix for layer in decode(TAGGED).layers] == ["eth", "vlan", "inttag", "ip", "udp"]
    assert "INT-TAG seq 1500 hops 2" in describe(decode(TAGGED))[1]
    bare, removed = without_tags(TAGGED, TagFormat(format=INTTag, constants={"protocol": 5, "type": 0}))
    assert removed == 1
    assert len(TAGGED) - len(bare) == INTTag.fixed_octets == 52
    assert decode(bare)[IPv4] == decode(TAGGED)[IPv4]


def test_records_are_filtered_and_extracted() -> None:
    batch = Batch.from_frames([TAGGED, encode(build("ip udp")), TAGGED])
    columns = extract(batch, ["inttag.qlen1", "inttag.qlen2", "inttag.rate1"])
    assert columns["inttag.qlen1"].rows.tolist() == [0, 2]
    assert np.asarray(columns["inttag.qlen2"].values).tolist() == [7, 7]
    chosen = compile_filter("inttag.nhop == 2 and inttag.qlen1 > 9 and inttag.rate1 == 2")
    assert selected(batch, chosen).tolist() == [True, False, True]


def test_documents_contain_octets_of_queues() -> None:
    (*_, tag, _, _) = json.loads(json.dumps(to_document(decode(TAGGED))["layers"]))
    assert (tag["inttag.qlen1"], tag["inttag.qlen1_octets"], tag["inttag.sent1_octets"]) == (10, 800, 12_800)
