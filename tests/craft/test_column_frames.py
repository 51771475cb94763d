"""Frames from files of columns: a frame per row, and rebuilt captures."""

# ruff: noqa: E501  (error sentences stand whole, so that they can be searched for)

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from ecmproto.errors import MissingDependencyError, SpecError
from ecmproto.frames.capture import open_capture
from ecmproto.frames.columns.files import write_columns
from ecmproto.tools.craft import build, columns
from ecmproto.tools.craft.columns import column_batches, frames_of_template, rebuilt_frames
from ecmproto.tools.craft.recipe import CaptureInfo, chunks
from ecmproto.tools.craft.stack import stack_from_line
from ecmproto.wire.codec import encode
from tests.conftest import REPOSITORY

PCAPS = REPOSITORY / "pcaps"


def crafted(path: Path, line: str = "cnm", **options: Any) -> list[tuple[int, bytes]]:
    """Return the time and the octets of each frame."""
    stack = stack_from_line(line)
    stack.settle()
    made = chunks(frames_of_template(str(path), stack, **options), start_ns=100)
    return [pair for chunk in made for pair in zip(chunk.times().tolist(), chunk.octets(), strict=True)]


def csv(folder: Path, text: str) -> Path:
    path = folder / "frames.csv"
    path.write_bytes(text.encode())
    return path


TABLE: dict[str, list[Any]] = {
    "qntz_fb": [40, 16, 63],
    "cntag.flow_id": [7, 8, 9],
    "vlan.id": [5, 6, 7],
    "eth.src": ["02:00:00:00:00:c1", "02:00:00:00:00:c2", "02:00:00:00:00:c3"],
    "cnm.cpid": ["02:00:00:00:00:c1/1", "0200000000c20002", "0200000000c30003"],
    "cnm.msdu": ["0800", "080045", ""],
}
EXPECTED = [
    encode(build("cnm", qntz_fb=fb, flow_id=flow, vlan=vlan, src=src, cpid=cpid, msdu=msdu))
    for fb, flow, vlan, src, cpid, msdu in zip(*TABLE.values(), strict=True)
]


def as_csv(folder: Path) -> Path:
    rows = [",".join(map(str, row)) for row in zip(*TABLE.values(), strict=True)]
    return csv(folder, "\n".join([",".join(TABLE), *rows]) + "\n")


def as_crlf_csv(folder: Path) -> Path:
    path = as_csv(folder)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n\r\n"))
    return path


def typed() -> pa.Table:
    octets = [bytes.fromhex(text) for text in TABLE["cnm.msdu"]]
    macs = [bytes.fromhex(text.replace(":", "")) for text in TABLE["eth.src"]]
    return pa.table(
        {
            "qntz_fb": pa.array(TABLE["qntz_fb"], pa.uint8()),
            "cntag.flow_id": pa.array(TABLE["cntag.flow_id"], pa.int64()),
            "vlan.id": pa.array([[5], [6], [7]]),
            "eth.src": pa.array(macs, pa.binary(6)),
            "cnm.cpid": pa.array([0x0200000000C10001, 0x0200000000C20002, 0x0200000000C30003], pa.uint64()),
            "cnm.msdu": pa.array(octets, pa.binary()),
        }
    )


def as_parquet(folder: Path) -> Path:
    pyarrow.parquet.write_table(typed(), folder / "frames.parquet", row_group_size=2)
    return folder / "frames.parquet"


def as_arrow(folder: Path) -> Path:
    with pa.ipc.new_file(folder / "frames.arrow", typed().schema) as writer:
        writer.write_table(typed(), max_chunksize=2)
    return folder / "frames.arrow"


def as_stream(folder: Path) -> Path:
    with pa.ipc.new_stream(folder / "frames.ipc", pa.table(TABLE).schema) as writer:
        writer.write_table(pa.table(TABLE))
    return folder / "frames.ipc"


def as_feather(folder: Path) -> Path:
    pyarrow.feather.write_feather(pa.table(TABLE), folder / "frames.feather")
    return folder / "frames.feather"


FILES = [as_csv, as_crlf_csv, as_parquet, as_arrow, as_stream, as_feather]


@pytest.fixture(params=[False, True], ids=["by csv", "by pyarrow"])
def both_readers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read small CSV files with each of the two readers."""
    if request.param:
        monkeypatch.setattr(columns, "LARGE_OCTETS", 1)


@pytest.mark.usefixtures("both_readers")
@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_each_row_equals_the_crafted_line(make: Callable[[Path], Path], tmp_path: Path) -> None:
    assert [octets for _, octets in crafted(make(tmp_path))] == EXPECTED


@pytest.mark.parametrize("make", FILES, ids=lambda make: make.__name__)
def test_files_are_read_in_pieces(
    make: Callable[[Path], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "BATCH_ROWS", 1)
    path = make(tmp_path)
    assert [count for count, _ in column_batches(str(path)) if count] == [1, 1, 1]
    assert [octets for _, octets in crafted(path)] == EXPECTED


@pytest.mark.usefixtures("both_readers")
def test_times_come_from_file_or_craft_not_both(tmp_path: Path) -> None:
    path = csv(tmp_path, "frame.time_epoch,qntz_fb\n1.000000001,1\n0,2\n9223372036.854775807,3\n")
    assert [time for time, _ in crafted(path)] == [1_000_000_001, 0, 2**63 - 1]
    with pytest.raises(SpecError, match=r"column frame\.time_epoch: expected times from one source"):
        crafted(path, timed=True)
    assert [time for time, _ in crafted(csv(tmp_path, "qntz_fb\n1\n2\n"))] == [100, 100]


@pytest.mark.parametrize(
    "times",
    [
        pa.array([5, 6], pa.timestamp("ns")),
        pa.array([5, 6], pa.int64()),
        pa.array(["0.000000005", "0.000000006"]),
    ],
)
def test_times_of_arrow_are_ns(times: pa.Array, tmp_path: Path) -> None:
    path = tmp_path / "times.parquet"
    pyarrow.parquet.write_table(pa.table({"frame.time_epoch": times, "qntz_fb": [1, 2]}), path)
    assert [time for time, _ in crafted(path)] == [5, 6]


def test_layers_are_implied_and_named_as_in_sweeps(tmp_path: Path) -> None:
    path = csv(tmp_path, "flow_id,prio,ip.ttl,data.data\n7,3,9,0102\n8,4,10,03\n")
    line = "cntag ip udp data"
    assert [octets for _, octets in crafted(path, line)] == [
        encode(build("vlan priority=3 cntag flow_id=7 ip ttl=9 udp data data=0102")),
        encode(build("vlan priority=4 cntag flow_id=8 ip ttl=10 udp data data=03")),
    ]
    path = csv(tmp_path, "vlan.id[1],eth.trailer,macc.cbfc.enbv.c0\n7,0102,1\n")
    with pytest.raises(SpecError, match=r"got 'macc\.cbfc\.enbv\.c0'"):
        crafted(path, "vlan id=1 vlan ip")
    path = csv(tmp_path, "vlan.id[1],eth.trailer\n7,0102\n")
    two = encode(build("vlan id=1 vlan id=7 ip"))
    assert [octets for _, octets in crafted(path, "vlan id=1 vlan ip")] == [two + b"\1\2"]


def test_given_values_are_kept_though_wrong(tmp_path: Path) -> None:
    path = csv(tmp_path, "udp.length,ip.checksum\n1,0x1234\n")
    wrong = encode(build("ip checksum=0x1234 udp length=1"))
    assert [octets for _, octets in crafted(path, "ip udp")] == [wrong]
    raw = encode(build("ip udp length=1", raw=True))
    assert [octets for _, octets in crafted(csv(tmp_path, "udp.length\n1\n"), "ip udp", raw=True)] == [raw]


def test_transport_checksums_follow_their_rows(tmp_path: Path) -> None:
    path = csv(tmp_path, "ip.src,tcp.srcport,data.data\n10.0.0.1,7,00\n10.0.0.2,8,010203\n")
    assert [octets for _, octets in crafted(path, "ip tcp data")] == [
        encode(build("ip src=10.0.0.1 tcp srcport=7 data data=00")),
        encode(build("ip src=10.0.0.2 tcp srcport=8 data data=010203")),
    ]


@pytest.mark.usefixtures("both_readers")
@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("qntz_fb\n1\n64\n", "row 2, column qntz_fb: expected an integer in 0..63, got 64"),
        ("qntz_fb\n1\n-1\n", "row 2, column qntz_fb: expected an integer in 0..63, got -1"),
        ("cnm.qntz_fb\n1\nnan\n", "row 2, column cnm.qntz_fb: expected an integer in 0..63, got 'nan'"),
        ("cnm.qntz_fb,prio\n1,1\n,2\n", "row 2, column cnm.qntz_fb: expected an integer in 0..63, got ''"),
        ("qntz_fb\n007\n", "row 1, column qntz_fb: expected an integer in 0..63, got '007'"),
        ("qntz_fb,prio\n1,1\n2\n", "row 2: expected 2 cells, got 1"),
        ("qntz_fb,prio\n1,1\n\n2,3,4\n", "row 2: expected 2 cells, got 3"),
        ("eth.src\n02:00:00:00:00:01\n02:00\n", "row 2, column eth.src: expected a MAC address such as 02:00:00:00:00:01, got '02:00'"),
        ("qntz_bf\n1\n", "column qntz_bf: expected a field of cnm or of a layer it implies, got 'qntz_bf' (did you mean 'qntz_fb'?)"),
        ("vlan.id[1]\n1\n", "column vlan.id[1]: expected 2 layers with vlan.id, got 0 of them"),
        ("qntz_fb,cnm.qntz_fb\n1,1\n", "column cnm.qntz_fb: expected each field once, got the same field twice"),
        ("cnm.msdu,encapsulated.data.data\n00,11\n", "column encapsulated.data.data: expected each field once, got cnm.msdu too, which contains it"),
        ("qntz_fb,qntz_fb\n1,1\n", "names: expected each column once, got 'qntz_fb' twice"),
        ("qntz_fb,\n1,1\n", "names: expected a name for each column, got an empty one"),
        ("frame.time_epoch\n1e3\n", "row 1, column frame.time_epoch: expected seconds since 1970 such as 1.000000001, got '1e3'"),
        ("frame.time_epoch\n9223372036.854775808\n", "row 1, column frame.time_epoch: expected seconds"),
        ("frame.len\n1\n", "column frame.len: expected a field of cnm or of a layer it implies, got 'frame.len'"),
        ("cnm.msdu\n" + "00" * 65536 + "\n", "cnm.msdu_length: expected an integer in 0..65535, got 65536"),
    ],
)  # fmt: skip
def test_invalid_cell_is_reported_with_its_row(text: str, told: str, tmp_path: Path) -> None:
    path = csv(tmp_path, text)
    with pytest.raises(SpecError, match="^" + re.escape(f"{path}: {told}")):
        crafted(path)


@pytest.mark.usefixtures("both_readers")
def test_rows_are_counted_over_the_whole_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "BATCH_ROWS", 3)
    path = csv(tmp_path, "qntz_fb\n" + "1\n" * 7 + "99\n")
    with pytest.raises(SpecError, match=r"row 8, column qntz_fb: expected an integer in 0\.\.63, got 99"):
        crafted(path)


@pytest.mark.usefixtures("both_readers")
def test_empty_table_is_checked_and_makes_no_frames(tmp_path: Path) -> None:
    assert crafted(csv(tmp_path, "qntz_fb,cnm.msdu\n")) == []
    with pytest.raises(SpecError, match="got 'qntz_bf'"):
        crafted(csv(tmp_path, "qntz_bf\n"))
    path = tmp_path / "none.parquet"
    pyarrow.parquet.write_table(typed().slice(0, 0), path)
    assert crafted(path) == []


@pytest.mark.parametrize(
    ("name", "octets", "told"),
    [
        ("x.csv", b"", "expected a line with the names of the columns, got an empty file"),
        ("x.csv", b"qntz_fb\n\xff\n", "expected text in UTF-8, got octet 0xff"),
        ("x.csv", b'qntz_fb\n"1\n', "expected CSV, got unexpected end of data"),
        ("x.parquet", b"no", "expected a Parquet file, got"),
        ("x.parquet", b"PAR1" + bytes(40) + b"PAR1", "expected a Parquet file, got"),
        ("x.arrow", b"no", "expected an Arrow IPC file or stream, got"),
        ("x.arrow", b"ARROW1" + bytes(40), "expected an Arrow IPC file or stream, got"),
        ("x.xlsx", b"", "expected a name that ends in .parquet, .arrow, .feather, .ipc, .csv, got another"),
    ],
)
def test_files_of_another_format_are_refused(name: str, octets: bytes, told: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(octets)
    with pytest.raises(SpecError, match=re.escape(told)):
        crafted(path)


def test_octets_outside_their_file_are_not_followed(tmp_path: Path) -> None:
    bounds = np.array([0, 1 << 20, 2], np.int32)
    wild = pa.Array.from_buffers(pa.binary(), 2, [None, pa.py_buffer(bounds), pa.py_buffer(b"12")])
    path = tmp_path / "wild.arrow"
    with pa.ipc.new_file(path, pa.schema([("cnm.msdu", pa.binary())])) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([wild], ["cnm.msdu"]))
    with pytest.raises(SpecError, match="expected an Arrow IPC file or stream, got"):
        crafted(path)


def repeated(path: Path, value: bytes, rows: int) -> None:
    """Write one value that stands for many rows into a few hundred octets."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), pa.array([value]))
    pyarrow.parquet.write_table(
        pa.table({"data.data": column}), path, compression="brotli", store_schema=False
    )
    assert path.stat().st_size < 1000


def test_compressed_columns_are_read_in_bounded_batches(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    repeated(path, bytes(60_000), 10_000)
    batches = [(count, rows["data.data"].nbytes) for count, rows in column_batches(str(path))]
    assert sum(count for count, _ in batches) == 10_000
    assert max(octets for _, octets in batches) < 3 * columns.BATCH_OCTETS


def test_values_longer_than_frames_are_refused_early(tmp_path: Path) -> None:
    path = tmp_path / "long.parquet"
    repeated(path, bytes(2 << 20), 1)
    with pytest.raises(SpecError, match=r"column data\.data: expected values of at most 1048576 octets"):
        crafted(path, "data")
    repeated(path, bytes(2 << 20), 65)  # fewer than one octet each, according to the file
    with pytest.raises(SpecError, match=r"expected values of at most 1048576 octets, .*, got one of 2097152"):
        crafted(path, "data")
    listed = pa.table({"vlan.id": pa.array([[1] * 1_000_000])})
    pyarrow.parquet.write_table(listed, path, compression="brotli")
    with pytest.raises(SpecError, match="expected lists of at most 131072 values, got 1000000 in 1 rows"):
        crafted(path)


def test_names_are_shown_without_control_characters(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        crafted(csv(tmp_path, "\x1b[31mred\n1\n"))
    assert str(caught.value).isprintable()
    path = as_arrow(tmp_path)
    path.write_bytes(path.read_bytes().replace(b"cntag.flow_id", b"cntag.flow_i\xff"))
    with pytest.raises(SpecError, match="expected an Arrow IPC file or stream, got"):
        crafted(path)


def test_only_csv_is_read_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text, parquet = as_csv(tmp_path), as_parquet(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    assert [octets for _, octets in crafted(text)] == EXPECTED
    with pytest.raises(MissingDependencyError, match="expected pyarrow, which is not installed"):
        crafted(parquet)


@pytest.mark.parametrize(
    "name", ["mixed.pcap", "lldp_cn.pcap", "dcbx.pcap", "malformed.pcapng", "qcn_cp.pcapng"]
)
def test_capture_is_rebuilt_from_columns(name: str, tmp_path: Path) -> None:
    out = tmp_path / "columns.parquet"
    write_columns(str(PCAPS / name), str(out))
    info = CaptureInfo()
    made = list(chunks(rebuilt_frames(str(out), capture=info)))
    with open_capture(str(PCAPS / name)) as reader:
        batches = list(reader)
        linktype = reader.interfaces[0].linktype
    expected = [octets for batch in batches for octets in batch.frames()]
    assert [octets for chunk in made for octets in chunk.octets()] == expected
    times = np.concatenate([batch.time_ns for batch in batches])
    assert np.concatenate([chunk.times() for chunk in made]).tolist() == times.tolist()
    assert {chunk.linktype for chunk in made} == {linktype} == {info.interfaces[0].linktype}


def test_rebuilding_refuses_csv_and_wrong_lengths(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="expected a LAYER, or Parquet or Arrow with all columns of frames"):
        list(rebuilt_frames(str(as_csv(tmp_path)), capture=CaptureInfo()))
    path = tmp_path / "two.parquet"
    table = pa.table({"frame.protocols": ["", "data"], "frame.cap_len": [0, 2], "data.data": [None, b"12"]})
    pyarrow.parquet.write_table(table, path)
    made = list(rebuilt_frames(str(path), capture=CaptureInfo()))
    assert [octets for chunk in made for octets in chunk.octets()] == [b"", b"12"]
    assert made[0].time_ns is None
    pyarrow.parquet.write_table(table.set_column(1, "frame.cap_len", pa.array([0, 3])), path)
    with pytest.raises(
        SpecError, match=r"row 2, column frame\.cap_len: expected 2, the octets of the columns"
    ):
        list(rebuilt_frames(str(path), capture=CaptureInfo()))
