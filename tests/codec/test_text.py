"""Conversion of field values to text and JSON, and back."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import SpecError
from ecmproto.tools.fuzz.strategies import layers_of
from ecmproto.wire.codec import CNM, E2CM, ECM, PFC, CMTag, Ethernet, Field, IPv4, IPv6, Layer, RDTag
from ecmproto.wire.codec.document import scaled, scaled_key
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.text import cpid, cpid_text, json_of, mac_of, meaning_of, text_of, value_of


@pytest.mark.parametrize("cls", FORMATS, ids=lambda cls: cls.prefix)
@given(data=st.data())
def test_text_and_json_read_back(cls: type[Layer], data: st.DataObject) -> None:
    value = data.draw(layers_of(cls))
    for field in cls.layout:
        got = getattr(value, field.key)
        assert value_of(field, text_of(field, got)) == got
        assert value_of(field, json.loads(json.dumps(json_of(field, got)))) == got
        assert value_of(field, got) == got


def field_of(cls: type[Layer], key: str) -> Field:
    return next(field for field in cls.layout if field.key == key)


@pytest.mark.parametrize(
    ("cls", "key", "value", "text", "plain"),
    [
        (Ethernet, "dst", b"\x02" * 6, "02:02:02:02:02:02", "02:02:02:02:02:02"),
        (Ethernet, "type", 0x0800, "0x0800", 0x0800),
        (Ethernet, "type", 46, "46", 46),
        (CNM, "cpid", 0x020000000001_0007, "0200000000010007", "0200000000010007"),
        (CNM, "q_offset", -100, "-100", -100),
        (CNM, "msdu", b"\x08\x00", "0800", "0800"),
        (PFC, "class_enable_vector", 0x88, "0x0088", 0x88),
        (IPv4, "src", bytes((10, 0, 0, 1)), "10.0.0.1", "10.0.0.1"),
        (IPv6, "src", b"\xfd" + bytes(14) + b"\x01", "fd00::1", "fd00::1"),
        (IPv6, "flow", 0x12345, "0x12345", 0x12345),
        (IPv4, "flags", 2, "0x2", 2),
    ],
)
def test_how_values_are_written(
    cls: type[Layer], key: str, value: int | bytes, text: str, plain: object
) -> None:
    field = field_of(cls, key)
    assert (text_of(field, value), json_of(field, value)) == (text, plain)


@pytest.mark.parametrize(
    ("key", "written", "value"),
    [
        ("qntz_fb", "40", 40),
        ("qntz_fb", "0x28", 40),
        ("qntz_fb", "0b101000", 40),
        ("q_offset", "-0x64", -100),
        ("cpid", "02:00:00:00:00:01/7", 0x020000000001_0007),
        ("cpid", "02-00-00-00-00-01#7", 0x020000000001_0007),
        ("cpid", "0x0200000000010007", 0x020000000001_0007),
        ("cpid", "5", 5),
        ("encap_dst", "020000000001", b"\x02\0\0\0\0\x01"),
        ("encap_dst", "02-00-00-00-00-01", b"\x02\0\0\0\0\x01"),
        ("msdu", "0x0800", b"\x08\0"),
        ("msdu", "08 00", b"\x08\0"),
        ("msdu", "", b""),
    ],
)
def test_accepted_spellings_of_values(key: str, written: str, value: int | bytes) -> None:
    assert value_of(field_of(CNM, key), written) == value


@pytest.mark.parametrize(("written", "value"), [("PFC", 0x0101), ("pause", 1)])
def test_code_points_go_by_their_names(written: str, value: int) -> None:
    assert value_of(field_of(PFC, "opcode"), written) == value


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("qntz_fb", ""),
        ("qntz_fb", "4O"),
        ("qntz_fb", "1.5"),
        ("qntz_fb", 1.0),
        ("qntz_fb", True),
        ("qntz_fb", b"1"),
        ("cpid", "02:00:00:00:00:01/65536"),
        ("cpid", "02:00:00:00:00:01/"),
        ("cpid", "02:00:00:00:00/1"),
        ("encap_dst", "02:00:00:00:00"),
        ("encap_dst", "02:00:00:00:00:01:00"),
        ("encap_dst", 5),
        ("encap_dst", "02:00:00:00:00:01\n"),
        ("msdu", "080"),
        ("msdu", "zz"),
        ("msdu", 8),
        ("msdu", None),
        ("qntz_fb", "9" * 5000),
    ],
)
def test_malformed_values_are_refused(key: str, written: object) -> None:
    with pytest.raises(SpecError, match=rf"cnm\.{key}: expected .*, got "):
        value_of(field_of(CNM, key), written)


@given(st.text(max_size=20) | st.integers() | st.none() | st.floats() | st.binary(max_size=8))
def test_anything_is_a_value_or_a_spec_error(written: object) -> None:
    for cls in (CNM, IPv4, IPv6, Ethernet, PFC):
        for field in cls.layout:
            with contextlib.suppress(SpecError):
                value = value_of(field, written)
                assert isinstance(value, int) == field.is_number


def test_malformed_mac_address_is_refused() -> None:
    with pytest.raises(
        SpecError, match="MAC address: expected six octets such as 02:00:00:00:00:01, got 'x'"
    ):
        mac_of("x")


def test_cpid_of_octets_and_of_text() -> None:
    assert cpid_text(cpid("02:00:00:00:00:c1", 0x102)) == "02:00:00:00:00:c1/258"
    assert cpid(b"\x02\0\0\0\0\x01", 7) == cpid("02:00:00:00:00:01", 7) == 0x020000000001_0007


def test_meanings() -> None:
    assert meaning_of(field_of(CNM, "cpid"), 0x020000000001_0007) == "02:00:00:00:00:01/7"
    assert meaning_of(field_of(RDTag, "rate"), 0xFFFFFFFF) == "infinity"
    assert meaning_of(field_of(RDTag, "rate"), 5) == "kb/s"
    assert meaning_of(field_of(ECM, "protocol"), 0) == "ECM"
    assert meaning_of(field_of(ECM, "protocol"), 7) == "unassigned"
    assert meaning_of(field_of(CNM, "msdu"), b"") == ""


@pytest.mark.parametrize(
    ("value", "key", "twin"),
    [
        (CNM(q_offset=-100), "q_offset", ("q_offset_octets", -6400)),
        (ECM(q_delta=3), "q_delta", ("q_delta_octets", 192)),
        (RDTag(rate=10_000_000), "rate", ("rate_bps", 10_000_000_000)),
        (RDTag(), "rate", ("rate_bps", None)),
        (E2CM(throughput=0xFFFFFFFF), "throughput", ("throughput_bps", 0xFFFFFFFF * 1000)),
        (E2CM(latency=50), "latency", ("latency_ns", 50)),
        (CMTag(timestamp=255, unit=3), "timestamp", ("timestamp_ns", 2_040_000)),
        (CNM(), "qntz_fb", None),
        (CNM(), "msdu", None),
    ],
)
def test_scaled_twins(value: Layer, key: str, twin: tuple[str, int | None] | None) -> None:
    field = field_of(type(value), key)
    name = scaled_key(type(value), field)
    assert ((name, scaled(value, field)) if name else None) == twin
