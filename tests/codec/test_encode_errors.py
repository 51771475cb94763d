"""Values that a format cannot represent raise EncodeError with layer, field, expected and actual value."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ecmproto.errors import EncodeError
from ecmproto.wire.codec import (
    CNM,
    VLAN,
    CongestionNotificationTLV,
    Data,
    Ethernet,
    Field,
    Frame,
    ITag,
    Layer,
    encode,
)
from ecmproto.wire.formats.registry import FORMATS


def _fields(number: bool | None = None, variable: bool = False) -> list[Any]:
    return [
        pytest.param(
            cls, field, id=field.name if field.name.startswith(cls.prefix) else f"{cls.prefix} {field.name}"
        )
        for cls in FORMATS
        for field in cls.layout
        if (field.bits is None) == variable and (number is None or field.is_number == number)
    ]


def error_of(cls: type[Layer], field: Field, value: object) -> EncodeError:
    with pytest.raises(EncodeError) as raised:
        encode(Frame(layers=(Ethernet(), cls(**{field.key: value}))))
    assert (raised.value.layer, raised.value.field) == (cls.prefix, field.key)
    assert (
        str(raised.value)
        == f"{cls.prefix}.{field.key}: expected {raised.value.needed}, got {raised.value.got}"
    )
    return raised.value


@pytest.mark.parametrize(("cls", "field"), _fields(number=True))
def test_numbers_just_outside_their_range_are_refused(cls: type[Layer], field: Field) -> None:
    for value in (field.minimum - 1, field.maximum + 1, -(1 << 200), 1 << 200):
        error = error_of(cls, field, value)
        assert (error.needed, error.got) == (f"an integer in {field.minimum}..{field.maximum}", str(value))


@pytest.mark.parametrize(("cls", "field"), _fields(number=True))
def test_numbers_at_ends_of_range_are_accepted(cls: type[Layer], field: Field) -> None:
    for value in (field.minimum, field.maximum):
        # The frame contains the counted elements.
        octets = cls(**{field.key: value}).build() + bytes(600)
        parsed = cls.parse(octets, 0, len(octets))
        assert parsed is not None
        assert getattr(parsed[0], field.key) == value


WRONG_NUMBERS = (None, 1.0, 1.5, float("nan"), "1", b"\x01", [1], np.float64(1), np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize(("cls", "field"), _fields(number=True))
def test_non_integers_are_refused(cls: type[Layer], field: Field) -> None:
    for value in WRONG_NUMBERS:
        if field.kind == "cpid" and isinstance(value, str):
            continue  # read as text: tests/test_api.py
        error = error_of(cls, field, value)
        assert (error.needed, error.got) == (f"an integer in {field.minimum}..{field.maximum}", repr(value))


@pytest.mark.parametrize(("cls", "field"), _fields(number=False))
def test_addresses_of_wrong_length_are_refused(cls: type[Layer], field: Field) -> None:
    assert field.bits is not None
    octets = field.bits // 8
    for wrong in (0, octets - 1, octets + 1, 100):
        error = error_of(cls, field, bytes(wrong))
        assert (error.needed, error.got) == (f"{octets} octets", f"{wrong} octets")


@pytest.mark.parametrize(("cls", "field"), _fields(number=False))
def test_addresses_of_other_types_are_refused(cls: type[Layer], field: Field) -> None:
    assert field.bits is not None
    for wrong in (None, 0, [0] * (field.bits // 8)):
        error = error_of(cls, field, wrong)
        assert (error.needed, error.got) == (f"{field.bits // 8} octets", repr(wrong))
    error = error_of(cls, field, "x" * (field.bits // 8))
    assert error.needed in ("a MAC address such as 02:00:00:00:00:01", "an IPv4 address", "an IPv6 address")


@pytest.mark.parametrize(("cls", "field"), _fields(variable=True))
def test_variable_fields_need_octets(cls: type[Layer], field: Field) -> None:
    for wrong in (None, 5, "text", [1, 2]):
        error = error_of(cls, field, wrong)
        assert (error.needed, error.got) == ("octets", repr(wrong))


def test_first_wrong_field_in_wire_order_is_named() -> None:
    assert error_of(VLAN, VLAN.layout[0], 8).field == "priority"
    with pytest.raises(EncodeError, match=r"vlan\.priority: expected an integer in 0\.\.7, got 8"):
        VLAN(priority=8, id=4096).build()
    with pytest.raises(EncodeError, match=r"cnm\.cpid: "):
        CNM(cpid=-1, q_offset=1 << 20, encap_dst=b"").build()


def test_numbers_of_numpy_are_integers_of_full_width() -> None:
    """A shift of a numpy integer by its own width would lose the upper bits."""
    value = VLAN(priority=np.uint8(7), dei=np.uint8(1), id=np.uint16(4095))  # type: ignore[arg-type]  # what is tried
    assert value.build() == VLAN(priority=7, dei=1, id=4095).build()
    tag = ITag(isid=np.uint32(0xABCDEF))  # type: ignore[arg-type]  # what is tried
    assert tag.build() == ITag(isid=0xABCDEF).build()


def test_any_bytes_type_is_accepted() -> None:
    for kind in (bytes, bytearray, memoryview):
        assert Data(data=kind(b"abc")).build() == b"abc"  # type: ignore[arg-type]  # what is tried
    assert Ethernet(dst=bytearray(b"abcdef")).build()[:6] == b"abcdef"  # type: ignore[arg-type]  # tried


def test_wrong_length_is_written_unchanged() -> None:
    """Inconsistent lengths and tails are written unchanged."""
    assert CNM(msdu_length=64, msdu=b"ab").build()[22:] == b"\x00\x40ab"
    assert CongestionNotificationTLV(length=511, type=0).build()[:2] == b"\x01\xff"
