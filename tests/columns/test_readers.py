"""pandas, DuckDB and polars read Parquet files without loss of digits, and find text values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ecmproto_cli.main import run

pytest.importorskip("pyarrow", reason="pyarrow is not installed: no Parquet files")

CPID = 0x0222000000C10001
ADDRESSES = {"eth.src": "02:00:00:00:00:c1", "ip.src": "10.0.0.3", "ipv6.src": "2001:db8::3"}


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    """Write a capture with a CNM, IPv4, IPv6, and frames with one tag and two tags."""
    lines = (f"cnm cpid={CPID:016x} qntz_fb=40' \nvlan = '5", "vlan id=7 vlan id=5 ip src=10.0.0.3 udp")
    told = [f"[[frames]]\nframe = '{line}'\n" for line in (*lines, "ipv6 src=2001:db8::3")]
    (tmp_path / "in.toml").write_text("".join(told), encoding="utf-8")
    path = tmp_path / "in.pcap"
    assert run(["craft", "--spec", str(tmp_path / "in.toml"), "-w", str(path)]) == 0
    return path


def parquet(frames: Path, *options: str) -> str:
    out = frames.with_suffix(".parquet")
    assert run(["dissect", str(frames), "-w", str(out), "--force", *options]) == 0
    return str(out)


def test_pandas_keeps_every_digit_of_sparse_cpids(frames: Path) -> None:
    pandas: Any = pytest.importorskip("pandas", reason="pandas is not installed: nothing to read with")
    table = pandas.read_parquet(parquet(frames))
    assert table["cnm.cpid"].dropna().tolist() == [f"{CPID:016x}"]
    assert len(table[table["ip.src"] == "10.0.0.3"]) == 1
    assert table["frame.number"].tolist() == [1, 2, 3]
    assert table.groupby("cnm.cpid")["cnm.qntz_fb"].max().to_dict() == {f"{CPID:016x}": 40}


def test_duckdb_finds_addresses_as_text(frames: Path) -> None:
    duckdb: Any = pytest.importorskip("duckdb", reason="DuckDB is not installed: nothing to read with")
    out = parquet(frames)

    def rows(where: str) -> list[int]:
        found = duckdb.sql(f"""select "frame.number" from '{out}' where {where}""").fetchall()
        return [number for (number,) in found]

    assert rows(""" "ip.src" = '10.0.0.3' """) == [2]
    assert rows(""" "ipv6.src" = '2001:db8::3' """) == [3]
    assert rows(f""" "cnm.cpid" = '{CPID:016x}' """) == [1]
    assert rows(""" list_contains("vlan.id", 5) """) == [1, 2]
    parquet(frames, "-E", "occurrence=f")
    assert rows(""" "vlan.id" = 5 """) == [1]
    assert rows(""" "vlan.id" = 7 """) == [2]


def test_polars_finds_addresses_as_text(frames: Path) -> None:
    polars: Any = pytest.importorskip("polars", reason="polars is not installed: nothing to read with")
    table = polars.read_parquet(parquet(frames))
    for name, text in ADDRESSES.items():
        assert len(table.filter(polars.col(name) == text)) == 1, name
    assert table["cnm.cpid"].drop_nulls().to_list() == [f"{CPID:016x}"]


def test_dictionary_encoded_text_reads_as_plain_strings(frames: Path) -> None:
    import pyarrow.parquet

    from ecmproto.frames.columns.arrow import schema_of

    file = pyarrow.parquet.ParquetFile(parquet(frames))
    schema = file.schema_arrow
    told = [(field.name, str(field.type).replace("element:", "item:"), field.metadata) for field in schema]
    assert told == [(field.name, str(field.type), field.metadata) for field in schema_of(schema.names)]
    assert all(schema.field(name).type == pyarrow.string() for name in ADDRESSES)
    chunks = [file.metadata.row_group(0).column(index) for index in range(file.metadata.num_columns)]
    encodings = {chunk.path_in_schema: chunk.encodings for chunk in chunks}
    assert all("RLE_DICTIONARY" in encodings[name] for name in ADDRESSES)


def test_row_group_has_one_dictionary_per_column(tmp_path: Path) -> None:
    import pyarrow.parquet

    from ecmproto import Ethernet, Frame, encode
    from ecmproto.frames.capture import Batch, open_sink
    from ecmproto.frames.columns import extract
    from ecmproto.frames.columns.arrow import schema_of
    from ecmproto.frames.columns.files import write_batches

    def columns(*numbers: int) -> Any:
        addresses = [b"\2\0\0\0\0" + bytes([number]) for number in numbers]
        octets = [encode(Frame(layers=(Ethernet(src=src),)), fix=True) for src in addresses]
        return extract(Batch.from_frames(octets), ("eth.src",))

    out = tmp_path / "x.parquet"
    with open_sink(str(out)) as sink:
        write_batches([columns(1, 2), columns(3, 1)], schema_of(("eth.src",)), sink, "parquet")
    file = pyarrow.parquet.ParquetFile(out)
    assert file.read()["eth.src"].to_pylist() == [f"02:00:00:00:00:0{number}" for number in (1, 2, 3, 1)]
    assert file.num_row_groups == 1
    # the values themselves are in a dictionary's page only
    pages = file.metadata.row_group(0).column(0)
    assert pages.has_dictionary_page
    assert pages.total_uncompressed_size < 150


def test_raw_option_writes_octets(frames: Path) -> None:
    polars: Any = pytest.importorskip("polars", reason="polars is not installed: nothing to read with")
    table = polars.read_parquet(parquet(frames, "--raw"))
    assert table["cnm.cpid"].drop_nulls().to_list() == [CPID]
    assert table["ip.src"].drop_nulls().to_list() == [bytes([10, 0, 0, 3])]


@pytest.mark.parametrize("options", [[], ["--text"], ["--raw"], ["--list"]])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
@pytest.mark.parametrize("name", ["mixed.pcap", "malformed.pcapng", "vlan_stacks.pcap"])
def test_text_and_octets_make_the_same_capture_again(
    name: str, form: str, options: list[str], tmp_path: Path, repository: Path
) -> None:
    source, out, again = repository / "pcaps" / name, tmp_path / f"x.{form}", tmp_path / "again.pcap"
    if name.endswith("ng"):
        assert run(["dissect", str(source), "-w", str(tmp_path / "source.pcap")]) == 0
        source = tmp_path / "source.pcap"
    assert run(["dissect", str(source), "-w", str(out), "--all-fields", *options]) == 0
    assert run(["craft", "--from-columns", str(out), "-w", str(again)]) == 0
    assert again.read_bytes()[24:] == source.read_bytes()[24:]


@pytest.mark.parametrize("option", ["values=text", "values=raw", "occurrence=f", "occurrence=a"])
def test_column_options_need_a_column_format(
    option: str, frames: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["dissect", str(frames), "-E", option]) == 2
    assert "need -T parquet or arrow, not -T line" in capsys.readouterr().err
