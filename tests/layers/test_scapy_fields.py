"""Schema and Scapy layer agree, field by field and byte by byte."""

from __future__ import annotations

import pydoc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.fields import BitField, ConditionalField, StrField
from scapy.packet import Packet, ls
from scapy.utils import mac2str, str2mac

from ecmproto.errors import SpecError
from ecmproto.tools.fuzz.strategies import layers_of
from ecmproto.wire import codec
from ecmproto.wire.codec import Field, Layer
from ecmproto.wire.layers import CNM
from ecmproto.wire.layers.bindings import LAYERS
from ecmproto.wire.layers.derived import RENAMED

FORMATS = [pytest.param(cls, layer, id=cls.__name__) for cls, layer in LAYERS.items()]
NAMES = {"TLV": "LLDPTLV", "CongestionNotificationTLV": "LLDPCongestionNotification"}
VALUES = st.sampled_from(list(LAYERS)).flatmap(layers_of)


def bits_of(field: Any) -> int | None:
    if isinstance(field, ConditionalField):
        field = field.fld
    if isinstance(field, BitField):
        return field.size
    return None if isinstance(field, StrField) else int(field.sz * 8)


def is_signed(field: Any) -> bool:
    return not isinstance(field, ConditionalField | BitField) and field.fmt[-1] in "bhiq"


def scapy_values(value: Layer) -> dict[str, Any]:
    """The arguments that give a Scapy layer the fields of a typed value."""
    return {RENAMED.get(field.key, field.key): _scapy_value(field, value) for field in value.layout}


def _scapy_value(field: Field, value: Layer) -> Any:
    got = getattr(value, field.key)
    return str2mac(got) if field.kind == "mac" else got


def wire_values(packet: Packet, cls: type[Layer]) -> dict[str, int | bytes]:
    """The fields of a Scapy layer as a typed value has them."""
    return {
        field.key: _wire_value(field, packet.getfieldval(RENAMED.get(field.key, field.key)))
        for field in cls.layout
    }


def _wire_value(field: Field, got: Any) -> int | bytes:
    if field.kind == "mac":
        return mac2str(got)
    return bytes(got) if field.kind == "octets" else int(got)


@pytest.mark.parametrize(("cls", "layer"), FORMATS)
def test_a_layer_has_the_fields_of_its_schema(cls: type[Layer], layer: type[Packet]) -> None:
    schema = [(RENAMED.get(f.key, f.key), f.bits, f.kind == "sint") for f in cls.layout]
    assert [(f.name, bits_of(f), is_signed(f)) for f in layer.fields_desc] == schema


@pytest.mark.parametrize(("cls", "layer"), FORMATS)
def test_layer_has_defaults_and_name_of_schema(cls: type[Layer], layer: type[Packet]) -> None:
    assert bytes(layer()) == cls().build()
    assert layer().name == cls.title
    assert layer.__name__ == NAMES.get(cls.__name__, cls.__name__)


@pytest.mark.parametrize(("cls", "layer"), FORMATS)
def test_only_types_and_lengths_are_computed(cls: type[Layer], layer: type[Packet]) -> None:
    counts = {field.count.key for field in cls.layout if field.count} - {""}
    computed = {field.name for field in layer.fields_desc if field.default is None}
    assert computed == counts | ({cls.next_key} - {""})


@pytest.mark.parametrize(("cls", "layer"), FORMATS)
def test_a_code_point_has_its_schemas_name(cls: type[Layer], layer: type[Packet]) -> None:
    packet = layer()
    for field in cls.layout:
        for code, name in field.meta.names.items():
            assert packet.get_field(field.key).i2repr(packet, code) == name


@given(value=VALUES)
def test_a_layer_builds_the_octets_of_the_schema(value: Layer) -> None:
    packet = LAYERS[type(value)](**scapy_values(value))
    assert bytes(packet) == value.build()
    assert bytes(packet) == value.build()  # a second time too


@given(value=VALUES, rest=st.binary(max_size=8))
def test_a_layer_dissects_the_octets_of_the_schema(value: Layer, rest: bytes) -> None:
    octets = value.build()
    packet = LAYERS[type(value)](octets + rest)
    parsed = type(value).parse(octets + rest, 0, len(octets + rest))
    assert parsed is not None
    read = parsed[0]
    assert wire_values(packet, type(value)) == {f.key: getattr(read, f.key) for f in value.layout}
    packet.clear_cache()
    assert bytes(packet) == octets + rest


@given(value=VALUES)
def test_built_packet_dissects_to_an_equal_one(value: Layer) -> None:
    layer = LAYERS[type(value)]
    packet = layer(value.build())
    again = layer(bytes(packet))
    assert again == packet == packet.copy()
    assert again.layers() == packet.layers()
    assert repr(again) == repr(packet)


@pytest.mark.parametrize(
    "given_cpid",
    [
        0x0200000000010001,
        "02:00:00:00:00:01/1",
        "02-00-00-00-00-01/1",
        "0200000000010001",
        "0x0200000000010001",
    ],
)
def test_cpid_is_number_shown_with_address(given_cpid: int | str) -> None:
    packet = CNM(cpid=given_cpid)
    assert packet.cpid == 0x0200000000010001
    assert packet.sprintf("%cpid%") == "02:00:00:00:00:01/1"
    assert bytes(packet)[2:10].hex() == "0200000000010001"


def test_list_of_cpids_makes_one_packet_each() -> None:
    packets = list(CNM(cpid=["02:00:00:00:00:01/1", 7]))
    assert [packet.cpid for packet in packets] == [0x0200000000010001, 7]


@pytest.mark.parametrize("text", ["02:00:00:00:00/1", "02:00:00:00:00:01/65536", "nonsense", ""])
def test_a_cpid_refuses_other_text(text: str) -> None:
    with pytest.raises(SpecError, match="cpid"):
        CNM(cpid=text)


def test_cpid_out_of_range_is_not_built() -> None:
    packet = CNM(cpid=1 << 64)
    assert "18446744073709551616" in repr(packet)
    with pytest.raises(ValueError, match="cpid"):
        bytes(packet)


def test_help_and_ls_print_meanings_and_units(capsys: pytest.CaptureFixture[str]) -> None:
    for shown in (pydoc.plain(pydoc.render_doc(codec.CNM)), ls(CNM) or capsys.readouterr().out):
        assert "Quantized Feedback, the magnitude of the negative feedback" in shown
        assert "cnmQDelta = Qlen − Qlen_old: positive when growing [64 octets]" in shown
