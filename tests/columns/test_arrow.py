"""Whole captures as Arrow tables and files: equal values with types."""

from __future__ import annotations

import itertools
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ecmproto.errors import CaptureError, MissingDependencyError, OutputError, SpecError, pip_install
from ecmproto.frames.capture import open_capture
from ecmproto.frames.columns import every_name
from ecmproto.frames.columns.arrow import (
    WIDTH,
    AddressKind,
    address_dictionary,
    address_texts,
    as_text,
    schema_of,
)
from ecmproto.frames.columns.files import fields_present, read_table, record_batches, write_columns
from ecmproto.frames.dissect import records
from ecmproto.frames.filter import compile_filter
from ecmproto.wire.formats.registry import USUAL_FIELDS
from tests.columns.reference import expected

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: no tables to compare")

PCAPS = Path(__file__).parents[2] / "pcaps"
MIXED, MALFORMED, STACKS = PCAPS / "mixed.pcapng", PCAPS / "malformed.pcapng", PCAPS / "vlan_stacks.pcap"


def _told(path: Path) -> dict[str, list[list[Any]]]:
    with open_capture(path) as reader:
        (batch,) = reader
        return expected(batch, every_name(), reader.interfaces)


def _as_lists(column: Any) -> list[list[Any]]:
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int64())
    values = column.to_pylist()
    if pa.types.is_list(column.type):
        return [value or [] for value in values]
    return [[] if value is None else [value] for value in values]


@pytest.mark.parametrize("path", [MIXED, MALFORMED, STACKS], ids=lambda path: path.name)
def test_tables_hold_the_decoded_values(path: Path) -> None:
    table = read_table(path, all_fields=True, addresses="octets")
    told = _told(path)
    assert table.schema.names == list(every_name())
    for name in table.schema.names:
        assert _as_lists(table[name]) == told[name], name
    table.validate(full=True)


def test_tables_have_the_usual_columns() -> None:
    assert read_table(MIXED).column_names == list(USUAL_FIELDS)


def test_first_of_repeated() -> None:
    table = read_table(STACKS, ["vlan.id", "frame.number"], repeated="first")
    assert table.schema.types == [pa.uint16(), pa.uint64()]
    assert _as_lists(table["vlan.id"]) == [values[:1] for values in _told(STACKS)["vlan.id"]]


def test_types() -> None:
    schema = read_table(
        MIXED, ["eth.src", "cnm.cpid", "cnm.q_offset", "frame.protocols", "frame.time_epoch"]
    ).schema
    words = pa.dictionary(pa.int32(), pa.string())
    assert schema.types == [pa.string(), pa.string(), pa.int16(), words, pa.timestamp("ns")]
    assert schema_of(["eth.src", "cnm.cpid", "ip.src", "ipv6.src"], addresses="octets").types == [
        pa.binary(6), pa.uint64(), pa.binary(4), pa.binary(16)
    ]  # fmt: skip
    assert schema.field("cnm.q_offset").metadata[b"unit"] == b"64 octets"


def test_addresses_as_text() -> None:
    names = ["eth.src", "ip.src", "ipv6.src", "cnm.cpid"]
    raw, table = read_table(MIXED, names, addresses="octets"), read_table(MIXED, names)
    for name in names:
        assert as_text(raw[name]).to_pylist() == table[name].to_pylist() == as_text(table[name]).to_pylist()
        assert as_text(raw[name].slice(1, 20)).to_pylist() == table[name].to_pylist()[1:21]
    assert table["eth.src"].to_pylist() == [octets.hex(":") for octets in raw["eth.src"].to_pylist()]
    assert set(table["ip.src"].to_pylist()) == {None, "192.0.2.1"}
    assert set(table["ipv6.src"].to_pylist()) == {None, "2001:db8::1"}
    assert set(table["cnm.cpid"].to_pylist()) == {None, "0200000000c10001"}


TEXT_OF: dict[AddressKind, Callable[[bytes], str]] = {
    "mac": lambda octets: octets.hex(":"),
    "cpid": bytes.hex,
    "ipv4": lambda octets: socket.inet_ntop(socket.AF_INET, octets),
    "ipv6": lambda octets: socket.inet_ntop(socket.AF_INET6, octets),
}


@pytest.mark.parametrize("kind", TEXT_OF)
@pytest.mark.parametrize("different", [1, 3, 5000])
def test_address_text_is_right_with_and_without_repeats(kind: AddressKind, different: int) -> None:
    rng = np.random.default_rng(different)
    values = rng.integers(0, 256, (different, WIDTH[kind]), dtype=np.uint8)
    values[::2] *= rng.integers(0, 2, values[::2].shape, dtype=np.uint8)  # with runs of zeros
    rows = values[rng.integers(0, different, 2 * different)]
    text, bounds = address_texts(kind, rows.view(">u8").reshape(-1) if kind == "cpid" else rows)
    octets = text.tobytes()
    told = [octets[start:end].decode() for start, end in itertools.pairwise(bounds.tolist())]
    assert told == [TEXT_OF[kind](row.tobytes()) for row in rows]


@pytest.mark.parametrize("kind", TEXT_OF)
@pytest.mark.parametrize("different", [0, 1, 3, 5000])
def test_repeated_addresses_share_one_dictionary_entry(kind: AddressKind, different: int) -> None:
    rng = np.random.default_rng(different)
    values = rng.integers(0, 256, (different, WIDTH[kind]), dtype=np.uint8)
    values[::2, 2:] = 0  # values that differ only in their first octets
    rows = values[rng.integers(0, different, 2 * different)] if different else values
    codes, text, bounds = address_dictionary(kind, rows.view(">u8").reshape(-1) if kind == "cpid" else rows)
    octets = text.tobytes()
    words = [octets[start:end].decode() for start, end in itertools.pairwise(bounds.tolist())]
    wanted = [TEXT_OF[kind](row.tobytes()) for row in rows]
    assert [words[code] for code in codes.tolist()] == wanted
    assert words == list(dict.fromkeys(wanted))


def test_lists_of_addresses_as_text() -> None:
    addresses = [[b"\2\0\0\0\0\1", b"\2\0\0\0\0\2"], None, [], [b"\2\0\0\0\0\1"]]
    column = pa.chunked_array([addresses, addresses[::-1], []], pa.list_(pa.binary(6)))
    wanted = [
        each if each is None else [octets.hex(":") for octets in each]
        for each in (*addresses, *addresses[::-1])
    ]
    assert as_text(column).to_pylist() == wanted
    assert as_text(column.slice(1, 5)).to_pylist() == wanted[1:6]


def test_filter_selects() -> None:
    filter = compile_filter("cnm.qntz_fb > 10 or vlan.priority == 7")
    with open_capture(MIXED) as reader:
        numbers = [
            record.number
            for batch in reader
            for record in records(batch, reader.interfaces)
            if filter.matches(record)
        ]
    assert 0 < len(numbers) < 26
    for given in (filter, filter.text):
        assert read_table(MIXED, ["frame.number"], given)["frame.number"].to_pylist() == numbers


def test_invalid_field_names_are_refused() -> None:
    with pytest.raises(SpecError, match=r"cnm\.qntz_fb"):
        read_table(MIXED, ["cnm.qntz_fbb"])
    with pytest.raises(SpecError, match="layer"):
        read_table(MIXED, ["cnm"])


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_written_files_read_back(tmp_path: Path, form: Any) -> None:
    out = tmp_path / "out"
    assert write_columns(MIXED, str(out), form) == 26
    if form == "parquet":
        table = pytest.importorskip("pyarrow.parquet").read_table(out)
    else:
        table = pytest.importorskip("pyarrow.feather").read_table(out)
    whole = read_table(MIXED, all_fields=True)
    for name in whole.schema.names:
        if name in table.schema.names:
            assert _as_lists(table[name]) == _as_lists(whole[name]), name
            assert table[name].null_count < 26, name
        else:
            assert whole[name].null_count == 26, name


def test_files_with_empty_columns(tmp_path: Path) -> None:
    out = tmp_path / "out.parquet"
    write_columns(STACKS, str(out), empty=True)
    assert pytest.importorskip("pyarrow.parquet").read_schema(out).names == list(every_name())


def test_failed_writing_leaves_no_output_file(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(STACKS.read_bytes()[:-1])
    out = tmp_path / "out.parquet"
    with pytest.raises(CaptureError):
        write_columns(cut, str(out))
    assert not out.exists()
    out.write_bytes(b"")
    with pytest.raises(OutputError):
        write_columns(STACKS, str(out))


def test_readable_rows_precede_the_error(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(STACKS.read_bytes()[:-1])
    batches = record_batches(cut, ["frame.number"])
    assert next(batches).num_rows == 7
    with pytest.raises(CaptureError):
        next(batches)


def test_survey() -> None:
    with open_capture(PCAPS / "pause.pcap") as reader:
        present = fields_present(reader)
    assert "macc.pause_time" in present
    assert not [name for name in present if name.startswith(("cnm.", "vlan.", "ip."))]


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError) as caught:
        read_table(MIXED)
    assert caught.value.remedy == pip_install("arrow")
