"""Parquet files contain the columns of Arrow's record batches, for all encoders and readers."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ecmproto.frames.capture import open_capture, open_sink
from ecmproto.frames.columns import Column, Columns, extract, parquet
from ecmproto.frames.columns.arrow import dictionary_schema, record_batch_of, schema_of
from ecmproto.frames.columns.column import Texts, Values, every_row, fields_named
from ecmproto.frames.columns.files import batch_tasks, write_batches
from ecmproto.frames.columns.parquet import write_parquet
from ecmproto.wire.formats.registry import USUAL_FIELDS

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed: no Parquet files")


@pytest.fixture(autouse=True)
def _small_row_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_FRAMES", 1)


def written(*batches: Columns, **options: Any) -> io.BytesIO:
    """Return a Parquet file with a row group for each batch."""
    file = io.BytesIO()
    schema = schema_of(batches[0], **options)
    words = dictionary_schema(schema)
    write_parquet((record_batch_of(batch, words) for batch in batches), schema, words, file)
    return file


def table_of(*batches: Columns, **options: Any) -> Any:
    """Return the batches as Arrow has them, words as text."""
    schema = schema_of(batches[0], **options)
    table = pa.Table.from_batches([record_batch_of(batch, schema) for batch in batches])
    words = [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in schema
    ]
    return table.unify_dictionaries().cast(pa.schema(words))


def read(file: io.BytesIO) -> Any:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(file)
    table.validate(full=True)
    words = [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(words))


@pytest.mark.parametrize("options", [{}, {"repeated": "first"}, {"addresses": "octets"}])
@pytest.mark.parametrize("name", ["mixed.pcap", "malformed.pcapng", "vlan_stacks.pcap"])
def test_all_fields_are_those_of_record_batches(name: str, options: Any, repository: Path) -> None:
    with open_capture(str(repository / "pcaps" / name)) as reader:
        batches = [extract(batch.displayed(), interfaces=reader.interfaces) for batch in reader]
    file = written(*batches, *batches, **options)
    expected = table_of(*batches, *batches, **options)
    assert read(file).equals(expected)
    polars: Any = pytest.importorskip("polars", reason="polars is not installed: nothing to read with")
    assert polars.read_parquet(io.BytesIO(file.getvalue())).equals(polars.from_arrow(expected))


def column(name: str, values: Values, *, frames: int | None = None, rows: Any = None) -> Columns:
    """Return one column."""
    (field,) = fields_named((name,))
    there = every_row(len(values)) if rows is None else np.asarray(rows, np.int32)
    made = Column(name=name, kind=field.kind, frames=frames or len(values), rows=there, values=values)
    return Columns(made.frames, {name: field}, [made])


@pytest.mark.parametrize("words", [1, 2, 3, 5, 16, 17, 256, 257, 4096, 4097])
def test_numbers_of_any_variety_read_back(words: int) -> None:
    numbers = np.random.default_rng(words).integers(0, words, 3 * words + 5).astype(np.uint16)
    numbers[:words] = np.arange(words)
    every = column("macc.pause_time", numbers)
    some = column("macc.pause_time", numbers, frames=2 * len(numbers), rows=2 * np.arange(len(numbers)) + 1)
    file = written(every, some)
    assert read(file).equals(table_of(every, some))
    import pyarrow.parquet

    for group in range(2):
        told = pyarrow.parquet.read_metadata(file).row_group(group).column(0).statistics
        assert (told.min, told.max, told.null_count) == (0, words - 1, len(numbers) * group)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cnm.q_offset", np.array([-32768, 32767] * 9, np.int16)),
        ("cnm.q_delta", np.arange(-3, 4, dtype=np.int16).repeat(3)),
        ("bcn.e", np.array([-(1 << 31), (1 << 31) - 1, 0], np.int32)),
        ("fecn.rate", np.array([0, (1 << 32) - 1], np.uint32)),
        ("frame.len", np.array([60, 1 << 31, 60], np.int64)),
        ("cnm.qntz_fb", np.full(9, 63, np.uint8)),
    ],
)
def test_extreme_values_read_back(name: str, values: NDArray[Any]) -> None:
    batch = column(name, values)
    assert read(written(batch)).equals(table_of(batch))


def test_lists_of_any_length_read_back() -> None:
    values = np.arange(9, dtype=np.uint16)
    rows = [1, 1, 1, 2, 5, 5, 8, 9, 9]
    batch = column("vlan.id", values, frames=11, rows=rows)
    expected = [None, [0, 1, 2], [3], None, None, [4, 5], None, None, [6], [7, 8], None]
    assert read(written(batch))["vlan.id"].to_pylist() == expected
    lonely = column("vlan.id", values, frames=20, rows=2 * np.arange(9))
    assert read(written(lonely)).equals(table_of(lonely))


def test_dictionaries_beyond_16_bit_codes_read_back() -> None:
    count = (1 << 16) + 9
    words = Texts(codes=np.arange(count, dtype=np.int32), words=[f"{number:x}" for number in range(count)])
    batch = column("frame.error", words)
    assert read(written(batch))["frame.error"].to_pylist() == words.words


@pytest.mark.parametrize("wanted", [None, "vlan", "cnm"])
def test_threads_write_the_same_file(
    wanted: str | None, repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_FRAMES", 8)
    written = []
    for threads in (1, 2):
        out = tmp_path / f"{threads}.parquet"
        with (
            open_capture(str(repository / "pcaps" / "mixed.pcap"), batch_frames=3) as reader,
            open_sink(str(out)) as sink,
        ):
            works = batch_tasks(reader, lambda: USUAL_FIELDS, filter=wanted)
            frames = write_batches(works, schema_of(USUAL_FIELDS), sink, "parquet", threads=threads)
        written.append(out.read_bytes())
    assert written[0] == written[1]
    with open_capture(str(repository / "pcaps" / "mixed.pcap")) as reader:
        columns = [work() for work in batch_tasks(reader, lambda: USUAL_FIELDS, filter=wanted)]
    assert frames == sum(each.frames for each in columns) >= 1
    assert read(io.BytesIO(written[0])).equals(table_of(*columns))


def test_empty_file_and_many_row_groups_are_readable(repository: Path) -> None:
    batch = column("vlan.priority", np.arange(3, dtype=np.uint8))
    assert read(written(*[batch] * 40)).num_rows == 120
    file, schema = io.BytesIO(), schema_of(("vlan.priority",))
    write_parquet([], schema, schema, file)
    assert read(file).num_rows == 0


def test_pandas_is_not_imported(repository: Path, tmp_path: Path) -> None:
    program = """
import sys
from ecmproto.frames.columns.files import write_columns
for form in ("parquet", "arrow"):
    write_columns(sys.argv[1], f"{sys.argv[2]}/out.{form}", form)
print([name for name in ("pandas", "numba") if name in sys.modules])
"""
    arguments = [str(repository / "pcaps" / "mixed.pcap"), str(tmp_path)]
    told = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True, text=True, check=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert told.stdout == "[]\n"
