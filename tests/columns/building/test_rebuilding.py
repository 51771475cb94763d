"""Captures converted to columns and rebuilt have the same octets, or cause an error with the reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from ecmproto.errors import ColumnError, SpecError
from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.columns import every_name, extract
from ecmproto.frames.columns.arrow import record_batch_of, schema_of
from ecmproto.frames.columns.building.rebuilding import NO_VALUE, batch_from, tlv_formats
from ecmproto.frames.columns.files import read_table, write_columns
from ecmproto.tools.craft import build
from ecmproto.tools.fuzz.strategies import arbitrary_octets, frames, layers_of, mutated, octets_of, truncated
from ecmproto.wire.codec import (
    TLV,
    CongestionNotificationTLV,
    Data,
    Ethernet,
    Frame,
    IPv4,
    IPv6,
    decode,
    encode,
)
from ecmproto.wire.codec.frame import decode_lax
from ecmproto.wire.formats.base import Layer
from ecmproto.wire.formats.ip import AH, DestinationOptions, HopByHop, Routing
from ecmproto_cli.main import run
from tests.batch.test_inner import WRAPPERS, written
from tests.conftest import REPOSITORY, SHARED_CAPTURES

PCAPS = sorted((REPOSITORY / "pcaps").glob("*.pcap*"))
OCTETS = st.one_of(octets_of(), octets_of(frames(fcs_octets=4)), mutated(), arbitrary_octets())


def frames_of(batch: Batch) -> list[bytes]:
    return list(batch.frames())


def rebuilt(octets: Sequence[bytes]) -> list[bytes]:
    """Return frames that are converted to columns and back, with both types of columns."""
    columns = extract(Batch.from_frames(octets))
    from_columns = frames_of(batch_from(columns))
    table = record_batch_of(columns, schema_of())
    assert frames_of(batch_from(table)) == from_columns
    return from_columns


def right(*layers: Layer) -> Frame:
    return decode(encode(Frame(layers=(Ethernet(), *layers)), fix=True))


TWO_OF_A_KIND = [
    right(IPv6(), HopByHop(), HopByHop(options=bytes(5) + b"\x01")),
    right(IPv6(), Routing(), Routing(data=b"\x02" * 12)),
    right(IPv6(), DestinationOptions(), HopByHop(), DestinationOptions(options=b"\x03" * 14)),
    # an AH without a check value has none among the column's
    *(right(IPv4(), AH(icv=one), AH(icv=two), AH(icv=b"\7" * 4), Data(data=b"data"))
      for one, two in ((b"", b"\5" * 8), (b"\6" * 8, b""), (b"", b""), (b"\x08" * 8, b"\x09" * 8))),
]  # fmt: skip


AMBIGUOUS_TLVS = bytes.fromhex("00000000000000000000000088cc0200fe060080c2080000fe000006000000000000")


@given(st.lists(OCTETS, max_size=8))
@example([encode(frame) for frame in TWO_OF_A_KIND])
@example([AMBIGUOUS_TLVS])
def test_any_frames_are_rebuilt_exactly(octets: list[bytes]) -> None:
    # columns of a table have the outermost of several headers
    assume(not any(decode_lax(each).inner_frames() for each in octets))
    assert rebuilt(octets) == octets


@given(st.lists(frames(), min_size=1, max_size=6))
@example(TWO_OF_A_KIND)
def test_fix_equals_the_encoders(valid: list[Frame]) -> None:
    columns = extract(Batch.from_frames([encode(frame) for frame in valid]))
    expected = [encode(decode(encode(frame)), fix=True) for frame in valid]
    assert frames_of(batch_from(columns, fix=True)) == expected


@given(st.lists(truncated(), min_size=1, max_size=4))
def test_cut_frames_stay_cut(cut: list[tuple[bytes, int]]) -> None:
    octets, original = [each for each, _ in cut], [length for _, length in cut]
    batch = batch_from(extract(Batch.from_frames(octets, original=original)))
    assert frames_of(batch) == octets
    assert batch.original.tolist() == original


@pytest.mark.parametrize("path", PCAPS, ids=lambda path: path.name)
def test_bundled_captures_are_rebuilt_with_their_records(path: Path) -> None:
    with open_capture(str(path)) as reader:
        batch = next(iter(reader))
        batch = batch.select(np.arange(min(len(batch), 2000)))
        columns = extract(batch, interfaces=reader.interfaces)
    again = batch_from(columns)
    assert frames_of(again) == frames_of(batch)
    for key in ("time_ns", "original", "numbers", "interface"):
        assert getattr(again, key).tolist() == getattr(batch, key).tolist(), key


def test_captures_of_other_projects_are_rebuilt() -> None:
    if not SHARED_CAPTURES.is_dir():
        pytest.skip("the collected captures are not there")
    paths = sorted(SHARED_CAPTURES.glob("the-tcpdump-group-tcpdump/*.pcap"))[::4]
    assert paths
    for path in paths:
        with open_capture(str(path)) as reader:
            for batch in reader:
                again = batch_from(extract(batch, interfaces=reader.interfaces))
                assert frames_of(again) == frames_of(batch), path


def test_a_table_read_back_from_parquet_is_rebuilt(tmp_path: Path) -> None:
    out = str(tmp_path / "columns.parquet")
    write_columns(str(REPOSITORY / "pcaps" / "mixed.pcap"), out)
    with open_capture(str(REPOSITORY / "pcaps" / "mixed.pcap")) as reader:
        whole = [octets for batch in reader for octets in batch.frames()]
    assert frames_of(batch_from(pyarrow.parquet.read_table(out))) == whole


def test_frames_without_time_stay_untimed() -> None:
    table = read_table(str(REPOSITORY / "pcaps" / "pause.pcap"), all_fields=True).slice(0, 1)
    assert batch_from(table).timed is None
    times = table.column_names.index("frame.time_epoch")
    none = table.set_column(times, "frame.time_epoch", pa.nulls(1, pa.timestamp("ns")))
    again = batch_from(none)
    assert again.timed is not None
    assert (again.timed.tolist(), again.time_ns.tolist()) == ([False], [0])


def test_empty_table_rebuilds_as_empty_batch() -> None:
    assert len(batch_from(extract(Batch.from_frames([])))) == 0
    assert len(batch_from(extract(Batch.from_frames([]), []))) == 0


CNMS = [encode(build("cnm", qntz_fb=i, flow_id=i, vlan=5)) for i in range(3)]
MIXED = [*CNMS, encode(build("pause")), encode(build("ip udp data data=0102")), encode(build("lldpcn"))]


def without(*names: str, octets: Sequence[bytes] = MIXED) -> pa.Table:
    table = pa.Table.from_batches([record_batch_of(extract(Batch.from_frames(octets)), schema_of())])
    return table.drop_columns(list(names))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["frame.protocols"],
         "columns: expected 'frame.protocols', the layers of each frame, got none of that name"),
        (["vlan.dei"],
         "columns: expected 'vlan.dei' for frames of eth:vlan:cntag:cnm, got none of that name"),
        (["eth.type", "eth.len"], "columns: expected 'eth.type' or 'eth.len' for frames of eth:"),
        (["cnm.msdu"],
         "frame.cap_len: expected 46, the octets of the columns without cnm.msdu, got 110 in row 0"),
        (["cnm.msdu", "frame.cap_len"],
         "columns: expected 'cnm.msdu' for frames of eth:vlan:cntag:cnm, got none"),
        (["data.data", "frame.cap_len"],
         "columns: expected 'data.data' for frames of eth:ip:udp:data, got none"),
        (["eth.fcs", "frame.cap_len"],
         "columns: expected 'eth.fcs', or 'frame.cap_len' to show that no frame has it, got none of that "
         "name"),
        (["lldp.tlv.value", "frame.cap_len"],
         "columns: expected 'lldp.tlv.value' for frames of eth:lldp:lldpcn:lldp, got none"),
        (["macc.opcode"], "columns: expected 'macc.opcode' for frames of eth:pause, got none of that name"),
    ],
)  # fmt: skip
def test_a_column_that_is_missing_is_named(names: list[str], told: str) -> None:
    with pytest.raises((SpecError, ColumnError), match=re.escape(told)):
        batch_from(without(*names))


def test_empty_and_computable_columns_may_be_missing() -> None:
    table = without()
    names: list[str] = [name for name in every_name() if table.column(name).null_count == len(MIXED)]
    assert "ip.options" in names
    assert frames_of(batch_from(without(*names))) == MIXED
    fixed_names = [
        "frame.cap_len",
        "eth.padding",
        "eth.trailer",
        "eth.fcs",
        "ip.checksum",
        "udp.length",
        "ip.len",
    ]
    fixed_names += ["vlan.etype", "vlan.len", "cntag.etype", "cntag.len", "cnm.msdu_length", "ip.options"]
    assert frames_of(batch_from(without(*fixed_names), fix=True)) == MIXED


def test_columns_fix_cannot_compute_are_needed() -> None:
    with pytest.raises(SpecError, match=re.escape("expected 'ip.proto' for frames of eth:ip:data")):
        batch_from(without("ip.proto", octets=[encode(build("ip proto=200 data data=00"))]), fix=True)
    with pytest.raises(SpecError, match=re.escape("expected 'data.data' for frames of eth:ip:udp:data")):
        batch_from(without("data.data"), fix=True)


def test_check_values_of_several_ah_need_their_lengths() -> None:
    octets = [encode(TWO_OF_A_KIND[3])]
    with pytest.raises(SpecError, match=re.escape("expected 'ah.length' for frames of eth:ip:ah:ah:ah:data")):
        batch_from(without("ah.length", octets=octets), fix=True)
    options = [encode(TWO_OF_A_KIND[0])]
    assert frames_of(batch_from(without("ipv6.hopopts.len", octets=options), fix=True)) == options


def changed(name: str, values: object) -> pa.Table:
    table = without()
    array = values if isinstance(values, pa.Array) else pa.array(values)
    return table.set_column(table.column_names.index(name), name, array)


SIX = list(range(6))


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("vlan.id", [[1], [2], None, None, None, None],
         "vlan.id: expected 1, one for each layer of eth:vlan:cntag:cnm that has it, got 0 of vlan.id"),
        ("vlan.id", [[1], [2, 3], [4], None, None, None], "that has it, got 2 of vlan.id in row 1"),
        ("vlan.id", [[1], [2], [4096], None, None, None],
         "vlan.id: expected an integer in 0..4095, got 4096 in row 2"),
        ("vlan.id", [[1], [2], [-3], None, None, None],
         "vlan.id: expected an integer in 0..4095, got -3 in row 2"),
        ("vlan.id", [[1], [2], [3], None, [9], None],
         "vlan.id: expected none in a frame of eth:ip:udp:data, got a value in row 4"),
        ("cnm.qntz_fb", [1.0, 2.5, 3.0, None, None, None],
         "cnm.qntz_fb: expected an integer in 0..63, got 2.5 in row 1"),
        ("cnm.cpid", ["x", "y", "z", None, None, None], "cnm.cpid: expected 16 hex digits, or MAC/number"),
        ("frame.protocols", ["eth:vlan:cntag:cnm"] * 3 + ["eth:nothing", "eth:ip:udp:data", "eth:lldp"],
         "frame.protocols: expected names of formats, got 'nothing' in row 3"),
        ("frame.protocols", [*(["eth:vlan:cntag:cnm"] * 3), None, "eth:ip:udp:data", "eth:lldp"],
         "frame.protocols: expected one value, got 0 values in row 3"),
        ("frame.protocols", SIX, "frame.protocols: expected text, got numbers or octets"),
        ("eth.src", [b"123456"] * 5 + [b"12345"], "eth.src: expected 6 octets, got 5 octets in row 5"),
        ("frame.cap_len", [110, 110, 110, 60, 60, 61],
         "frame.cap_len: expected 60, the octets of the columns, got 61 in row 5"),
        ("frame.len", [-1] * 6, "frame.len: expected a number from 0 to 2^63 − 1, got -1 in row 0"),
        ("frame.time_epoch", [-1] * 6, "frame.time_epoch: expected ns since 1970, got -1 in row 0"),
        ("frame.interface_id", ["a"] * 6, "frame.interface_id: expected integers, got text or octets"),
        ("lldp.tlv.len", [None] * 5 + [[1, 2, 3, 4, 5]],
         "match eth:lldp:lldpcn:lldp, got [1, 2, 3, 127, 0] in row 5"),
        ("eth.padding", [[b"1"]] * 6,
         "frame.cap_len: expected 111, the octets of the columns, got 110 in row 0"),
    ],
)  # fmt: skip
def test_inconsistent_values_are_refused(name: str, values: list[object], told: str) -> None:
    with pytest.raises((SpecError, ColumnError), match=re.escape(told)):
        batch_from(changed(name, values))


def test_unknown_and_repeated_columns_are_refused() -> None:
    with pytest.raises(SpecError, match=re.escape("got 'cnm.qntz' (did you mean 'cnm.qntz_fb'?)")):
        batch_from(without().append_column("cnm.qntz", pa.array(SIX)))
    with pytest.raises(SpecError, match=re.escape("columns: expected each column once, got 'vlan.id' twice")):
        batch_from(without().append_column("vlan.id", pa.array(SIX)))


def test_two_tags_need_more_than_outermost_values() -> None:
    octets = [encode(build("cnm", vlan="7,5"))]
    two = [encode(build("vlan id=1 vlan id=2 ip"))]
    first = record_batch_of(extract(Batch.from_frames(octets)), schema_of(repeated="first"))
    assert frames_of(batch_from(first)) == octets
    lacking = record_batch_of(extract(Batch.from_frames(two)), schema_of(repeated="first"))
    with pytest.raises(ColumnError, match="expected 2, one for each layer of eth:vlan:vlan:ip"):
        batch_from(lacking)


TLVS = st.lists(layers_of(TLV) | layers_of(CongestionNotificationTLV), min_size=1, max_size=6)


@given(TLVS)
def test_tlvs_are_distinguished_or_reported_unclear(tlvs: list[TLV | CongestionNotificationTLV]) -> None:
    names: list[str] = []
    for tlv in tlvs:
        if tlv.prefix != "lldp" or names[-1:] != ["lldp"]:
            names.append(tlv.prefix)
    values = [len(tlv.value) for tlv in tlvs if isinstance(tlv, TLV) and tlv.value]
    apart = tlv_formats(names, [tlv.type for tlv in tlvs], [tlv.length for tlv in tlvs], values)
    others = [tlv for tlv in tlvs if isinstance(tlv, TLV) and tlv.type == 127]
    if apart is None:
        assert others
        assert len(others) < len(tlvs)
        return
    layers, numbers = apart
    assert layers == tuple(type(tlv) for tlv in tlvs)
    having = iter(range(len(values)))
    expected = [next(having) if isinstance(tlv, TLV) and tlv.value else NO_VALUE for tlv in tlvs]
    assert list(numbers) == expected


def test_ambiguous_tlvs_are_reported_unclear() -> None:
    # which of the two is the Congestion Notification TLV, and which has the six octets?
    assert tlv_formats(["lldp", "lldpcn", "lldp"], [1, 127, 127, 127], [1, 6, 6, 6], [1, 6, 6]) is None
    assert tlv_formats(["lldpcn", "lldp"], [127, 127], [6, 6], [6]) is not None


def test_data_alone_is_a_path() -> None:
    assert rebuilt([b"\1\2\3", b""]) == [b"\1\2\3", b""]
    assert Data in decode(encode(build("udp data data=00")))


@pytest.mark.parametrize("name", WRAPPERS)
def test_wrapped_frames_return_from_tables(name: str, tmp_path: Path) -> None:
    bare = [encode(build(text)) for text in ("vlan id=5 ip udp dstport=9", "pfc prio3=9", "vlan id=3 cnm")]
    wrapped = [WRAPPERS[name](frame, number) for number, frame in enumerate(bare)]
    octets = [*wrapped, *(WRAPPERS["ERSPAN II session 12"](frame, 0) for frame in wrapped)]
    path = str(written(tmp_path / "wrapped.pcap", octets))
    for form in ("parquet", "arrow"):
        table = tmp_path / f"wrapped.{form}"
        assert run(["dissect", path, "-w", str(table), "--all-fields", "-E", "occurrence=a"]) == 0
        assert run(["craft", "--from-columns", str(table), "-w", str(tmp_path / f"{form}.pcap")]) == 0
        with open_capture(tmp_path / f"{form}.pcap") as reader:
            assert [frame for batch in reader for frame in batch] == octets
