"""Rare contents of frames: long sets, extreme numbers, and frames with thousands of values."""

from __future__ import annotations

import ipaddress
import random

import numpy as np
import pytest

from ecmproto.frames.capture import Batch
from ecmproto.frames.columns import selection
from ecmproto.frames.columns.column import Texts, Values
from ecmproto.frames.columns.relations import compared, matched, octet_strings, related
from ecmproto.frames.columns.selection import integers_anded, portions, selected
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.filter.evaluation import RELATIONS
from ecmproto.frames.filter.fields import Constant, Relation
from ecmproto.wire.codec import Ethernet, Frame, IPv4, IPv6, encode
from tests.columns.selection.reference import Sample
from tests.columns.spoilt import INTERFACES, spoilt_batch

SPOILT = Sample(spoilt_batch(random.Random(7), 500), INTERFACES)
_MACS = ", ".join(f"02:00:00:00:00:{octet:02x}" for octet in range(40))
_SLICES = ", ".join(f"{octet:02x}:00" for octet in range(30))


@pytest.mark.parametrize(
    "text",
    [
        "vlan.id in {1, 3, 5, 7, 9, 11, 13, 15, 17, 2000..4000, 18446744073709551615}",
        "cnm.q_offset in {-400, -1, 0, 1, 2, 3, 4, 5, 6, 7, 32768, -32769, 8..40}",
        f"eth.addr in {{{_MACS}}}",
        f"all eth.src in {{{_MACS}, 02:00:00:00:01:00..ff:ff:ff:ff:ff:ff}}",
        f"eth.src[0:2] in {{{_SLICES}, 05, 010203, ff..01:00:00, 00..05:10, 05:00..00:00:00, 03:00..03:1f}}",
        f"ip.addr in {{{', '.join(f'192.0.2.{octet}' for octet in range(12))}, 10.0.0.0/8, 198.51.100.0/24}}",
        f"ipv6.addr in {{{', '.join(f'2001:db8::{octet:x}' for octet in range(12))}, 2001:db8::/120}}",
        f"frame[12:2] in {{{_SLICES}, 08:00, 81:00..88:b6}}",
        f"data.data[0:2] in {{{_SLICES}, 00..ff}}",
        'frame.protocols in {"eth:arp", "eth:vlan".."eth:vlan:z"}',
    ],
)
def test_sets(text: str) -> None:
    assert SPOILT.check(compile_filter(text).test) < len(SPOILT.batch)


_NUMBERS = (-(1 << 63), -32769, -1, 0, 1, 255, 256, 65535, (1 << 63) - 1, 1 << 63, (1 << 64) - 1)
_TYPES = (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64)
_ORDER: tuple[Relation, ...] = ("==", "!=", "<", "<=", ">", ">=")


@pytest.mark.parametrize("relation", _ORDER)
@pytest.mark.parametrize("kind", _TYPES)
def test_numbers_of_all_widths_compare_as_numbers(kind: type[np.integer], relation: Relation) -> None:
    ends = np.iinfo(kind)
    values = [number for number in (*_NUMBERS, ends.min, ends.max) if ends.min <= number <= ends.max]
    numbers = np.array(values, kind)
    for other in _NUMBERS:
        mask = compared(numbers, relation, Constant(kind="number", value=other))
        assert mask.tolist() == [RELATIONS[relation](value, other) for value in values]
    for other_kind in _TYPES:
        other_ends = np.iinfo(other_kind)
        for other in (other_ends.min, other_ends.max, 0):
            beside = np.full(len(values), other, other_kind)
            mask = related(numbers, relation, beside)
            assert mask.tolist() == [RELATIONS[relation](value, int(other)) for value in values]


@pytest.mark.parametrize("relation", [*_ORDER, "contains"])
def test_octets_compare_in_both_representations(relation: Relation) -> None:
    rows = np.frombuffer(b"\x00\x01\x02\x80\x00\x02\x80\x00\x01\xff\xff\xff", np.uint8).reshape(-1, 3)
    held: tuple[Values, ...] = (rows, octet_strings(rows))
    for other in (b"\x80", b"\x80\x00\x01", b"\x00\x02", b"\x00\x00\x00\x00"):
        wanted = _beside(rows, relation, [other] * 4)
        for values in held:
            assert compared(values, relation, Constant(kind="octets", value=other)).tolist() == wanted
    for left in held:
        for right in (rows[::-1], octet_strings(rows[::-1])):
            assert related(left, relation, right).tolist() == _beside(
                rows, relation, [row.tobytes() for row in rows[::-1]]
            )


def _beside(rows: np.ndarray, relation: Relation, others: list[bytes]) -> list[bool]:
    pairs = [(row.tobytes(), other) for row, other in zip(rows, others, strict=True)]
    if relation == "contains":
        return [other in one for one, other in pairs]
    return [RELATIONS[relation]((len(one), one), (len(other), other)) for one, other in pairs]


@pytest.mark.parametrize("kind", _TYPES)
def test_integers_are_anded_without_overflow(kind: type[np.integer]) -> None:
    ends = np.iinfo(kind)
    values = [number for number in (*_NUMBERS, ends.min, ends.max) if ends.min <= number <= ends.max]
    for other_kind in _TYPES:
        other_ends = np.iinfo(other_kind)
        for other in (other_ends.min, other_ends.max, 85):
            common = integers_anded(np.array(values, kind), np.full(len(values), other, other_kind))
            assert common.tolist() == [value & int(other) for value in values]


@pytest.mark.parametrize("relation", _ORDER)
@pytest.mark.parametrize(
    ("name", "network", "addresses"),
    [
        ("ip.src", "192.0.2.9/24", ("192.0.1.255", "192.0.2.0", "192.0.2.7", "192.0.2.255", "192.0.3.0")),
        ("ipv6.src", "2001:db8::5/120", ("2001:db7::1", "2001:db8::", "2001:db8::ff", "2001:db8::100")),
    ],
)
def test_networks_compare_by_masked_address(
    name: str, network: str, addresses: tuple[str, ...], relation: Relation
) -> None:
    sources = [ipaddress.ip_address(address).packed for address in addresses]
    frames = [
        encode(Frame(layers=(Ethernet(), IPv4(src=src) if len(src) == 4 else IPv6(src=src))), fix=True)
        for src in sources
    ]
    sample = Sample(Batch.from_frames(frames))
    assert 0 < sample.check(compile_filter(f"{name} {relation} {network}").test) < len(frames)


def test_texts_with_different_dictionaries_compare_by_word() -> None:
    left = Texts(codes=np.array([0, 1, 1], np.int32), words=("a", "b"))
    right = Texts(codes=np.array([1, 1, 0], np.int32), words=("b", "a"))
    assert related(left, "==", right).tolist() == [True, False, True]
    assert related(left, ">", right).tolist() == [False, True, False]


def test_anchors_of_pattern_are_ends_of_each_value() -> None:
    rows = np.frombuffer(b"abcabcxbc", np.uint8).reshape(-1, 3)
    for values in (rows, octet_strings(rows)):
        assert matched(values, b"^A").tolist() == [True, True, False]
        assert matched(values, rb"c\z").tolist() == [True, True, True]
        assert matched(values, b"ca").tolist() == [False, False, False]


def _many_values(count: int) -> Batch:
    """Return LLDP frames: of TLVs of two formats, of ``count`` that differ, of one and of none."""
    tlvs = b"".join(
        ((1 + index % 126) << 9 | index % 3).to_bytes(2) + bytes(index % 3) for index in range(count)
    )
    header = bytes.fromhex("0180c200000e 020000000001 88cc")
    congestion = bytes.fromhex("fe06 0080c2 08 0102")
    return Batch.from_frames([header + congestion + tlvs[:40], header + tlvs, header + tlvs[:2], header])


@pytest.mark.parametrize(
    "text",
    [
        "lldp.tlv.type == lldp.tlv.len",
        "lldp.tlv.type > lldp.tlv.len",
        "all lldp.tlv.type > lldp.tlv.len",
        "lldp.tlv.type & lldp.tlv.len == 2",
        "lldp.tlv.type & lldp.tlv.len > lldp.tlv.len",
        "lldp contains lldp.tlv.value",
        "lldp[0:1,0:1] == lldp[1:1,1:1]",
        "lldp[0:1] == lldp[0:1]",
        "all lldp[0:1] != lldp[1:1]",
    ],
)
def test_frames_of_many_values(text: str) -> None:
    Sample(_many_values(300)).check(compile_filter(text).test)


def test_products_of_values_take_little_memory() -> None:
    import tracemalloc

    batch = _many_values(8000)
    filter = compile_filter("lldp.tlv.type == lldp.tlv.len and lldp.tlv.type & lldp.tlv.len === 0")
    tracemalloc.start()
    try:
        assert selected(batch, filter).tolist() == [False] * 4
        assert tracemalloc.get_traced_memory()[1] < 256 << 20
    finally:
        tracemalloc.stop()


def test_portions_stay_within_limit_or_single_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "AT_ONCE", 2)
    sizes = np.array([1, 1, 5, 0, 0, 2, 1, 9])
    assert [sizes[part].tolist() for part in portions(sizes)] == [[1, 1], [5], [0, 0, 2], [1], [9]]
    assert [*portions(sizes[:0])] == []
