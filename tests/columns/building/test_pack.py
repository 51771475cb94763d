"""Conversion of many values to octets, compared with the formats' own conversion."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ecmproto.errors import EncodeError
from ecmproto.frames.columns.building.frames import Given, pack
from ecmproto.wire.codec import (
    BCN,
    CNM,
    E2CM,
    ECM,
    PFC,
    VLAN,
    CMTag,
    CNTag,
    Ethernet,
    FECNReturn,
    ITag,
    RDTag,
    RRTTag,
)
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.schema import Field

COUNTS = st.integers(0, 4)
KINDS = [kind for kind in FORMATS if any(field.bits for field in kind.layout)]


def values(field: Field) -> st.SearchStrategy[int | bytes]:
    if field.is_number:
        edges = st.sampled_from([field.minimum, field.maximum, 0])
        return st.one_of(edges, st.integers(field.minimum, field.maximum))
    assert field.bits is not None
    return st.binary(min_size=field.bits // 8, max_size=field.bits // 8)


def column(field: Field, drawn: list[Any]) -> NDArray[np.integer]:
    if not field.is_number:
        assert field.bits is not None
        return np.frombuffer(b"".join(drawn), np.uint8).reshape(-1, field.bits // 8)
    assert field.bits is not None
    widths = [width for width in (8, 16, 32, 64) if width >= field.bits]
    signed = field.kind == "sint"
    width = widths[len(drawn) % len(widths)]
    return np.array(drawn, f"{'i' if signed else 'u'}{width // 8}")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.prefix)
@settings(max_examples=25)
@given(data=st.data(), count=COUNTS)
def test_rows_equal_octets_built_by_format(kind: type[Layer], data: st.DataObject, count: int) -> None:
    columns: dict[str, Given] = {}
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for field in kind.layout:
        how = data.draw(st.sampled_from(["default", "one", "each"]), field.key)
        if field.bits is None or field.behind or how == "default":
            continue
        if how == "one":
            columns[field.key] = one = data.draw(values(field), field.key)
            drawn = [one] * count
        else:
            drawn = data.draw(st.lists(values(field), min_size=count, max_size=count), field.key)
            columns[field.key] = column(field, drawn)
        for row, value in zip(rows, drawn, strict=True):
            row[field.key] = value
    octets = pack(kind, count, **columns)
    assert octets.shape == (count, kind.fixed_octets)
    assert [row.tobytes() for row in octets] == [kind(**row).build()[: kind.fixed_octets] for row in rows]


def test_packed_formats_of_replay_have_their_lengths() -> None:
    lengths = {CNTag: 4, CMTag: 16, RRTTag: 12, RDTag: 10, FECNReturn: 8, ECM: 18, BCN: 18, E2CM: 24, CNM: 24}
    assert {kind: pack(kind, 2).shape for kind in lengths} == {k: (2, n) for k, n in lengths.items()}


def test_a_signed_cpid_is_viewed_as_unsigned() -> None:
    cpids = np.array([-1, 1], np.int64)
    assert pack(RRTTag, 2, cpid=cpids.view(np.uint64))[:, 2:10].tolist() == [[255] * 8, [0] * 7 + [1]]


def test_a_strided_or_single_value_array_will_do() -> None:
    ids = np.arange(8, dtype=np.uint16)[::4]
    assert pack(CNTag, 2, flow_id=ids)[:, :2].tolist() == [[0, 0], [0, 4]]
    assert pack(CNTag, 2, flow_id=np.array(7))[:, 1].tolist() == [7, 7]
    assert pack(CNTag, 2, flow_id=np.int64(7))[:, 1].tolist() == [7, 7]


@pytest.mark.parametrize(
    ("kind", "columns", "told"),
    [
        (CNTag, {"flow_id": np.array([1, 65_536, 3])},
         "cntag.flow_id: expected an integer in 0..65535, got 65536 in row 1"),
        (CNTag, {"flow_id": np.array([1, 2, -1])}, "0..65535, got -1 in row 2"),
        (VLAN, {"id": np.array([0, 0, 4096])}, "vlan.id: expected an integer in 0..4095, got 4096 in row 2"),
        (ECM, {"q_off": np.array([-32_769, 0, 0])}, "-32768..32767, got -32769 in row 0"),
        (ECM, {"q_off": np.array([0, 0, 2**64 - 1], np.uint64)}, f"got {2**64 - 1} in row 2"),
        (CMTag, {"cpid": np.array([0, -1, 0])}, f"0..{2**64 - 1}, got -1 in row 1"),
        (CNTag, {"flow_id": np.array([1, 2])}, "cntag.flow_id: expected 3 values or one, got 2"),
        (CNTag, {"flow_id": np.ones((3, 2), int)}, "0..65535, got int64 values of shape (3, 2)"),
        (CNTag, {"flow_id": np.ones(3)}, "0..65535, got float64 values"),
        (CNTag, {"flow_id": 65_536}, "cntag.flow_id: expected an integer in 0..65535, got 65536"),
        (CNTag, {"flow_id": np.array(1.5)}, "0..65535, got 1.5"),
        (CNTag, {"flow_id": b"12"}, "0..65535, got b'12'"),
        (CNTag, {"flows": 1}, "cntag.flows: expected one of flow_id, etype, got it"),
        (ECM, {"payload": b"12"}, "ecm.payload: expected one of version"),
        (Ethernet, {"dst": np.zeros((3, 5), np.uint8)}, "eth.dst: expected 6 octets, got 5 octets in row 0"),
        (Ethernet, {"dst": np.zeros(3, np.int64)}, "or text, got int64 values of shape (3,)"),
        (Ethernet, {"dst": bytes(5)}, "eth.dst: expected 6 octets, got 5 octets"),
    ],
)  # fmt: skip
def test_invalid_field_values_are_refused(kind: type[Layer], columns: dict[str, Given], told: str) -> None:
    with pytest.raises(EncodeError, match=re.escape(told)):
        pack(kind, 3, **columns)


def test_fields_sharing_octets_keep_their_bits() -> None:
    ones = np.full(1, 1)
    octets = pack(ITag, 1, isid=np.array([0xABCDEF]), priority=ones, res2=np.array([3]), nca=1)
    assert octets[0, :4].tolist() == [0b0010_1011, 0xAB, 0xCD, 0xEF]
    assert pack(PFC, 1, class_enable_vector=np.array([0x81])).tolist() == [[1, 1, 0, 0x81, *bytes(16)]]
