"""Captures as lazy polars frames: only the fields that a query needs are decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ecmproto
from ecmproto.frames.columns import scan

pl = pytest.importorskip("polars")
MIXED = str(Path(__file__).parents[2] / "pcaps" / "mixed.pcap")


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the lists of columns that were decoded."""
    seen: list[list[str]] = []
    whole = ecmproto.record_batches

    def record_batches(path: Any, fields: Any = None, **given: Any) -> Any:
        seen.append(sorted(fields))
        return whole(path, fields, **given)

    monkeypatch.setattr(scan, "record_batches", record_batches)
    return seen


def test_a_scan_equals_the_table() -> None:
    table = pl.from_arrow(ecmproto.read_table(MIXED, all_fields=True))
    assert ecmproto.scan_capture(MIXED).collect().equals(table)
    assert ecmproto.scan_capture(MIXED).collect_schema() == table.schema


def test_only_needed_columns_are_decoded(decoded: list[list[str]]) -> None:
    query = ecmproto.scan_capture(MIXED).filter(pl.col("frame.len") > 100).select("frame.number")
    numbers = query.collect()["frame.number"].to_list()
    table = pl.from_arrow(ecmproto.read_table(MIXED, ["frame.number", "frame.len"]))
    assert numbers == table.filter(pl.col("frame.len") > 100)["frame.number"].to_list()
    assert 0 < len(numbers) < 26
    assert decoded == [["frame.len", "frame.number"]]


def test_rows_and_display_filters(decoded: list[list[str]]) -> None:
    assert ecmproto.scan_capture(MIXED, ["frame.number"]).head(3).collect()["frame.number"].to_list() == [
        1,
        2,
        3,
    ]
    assert len(ecmproto.scan_capture(MIXED, ["frame.number"], filter="cnm").collect()) == 1
    assert decoded == [["frame.number"]] * 2


def test_unreadable_captures_and_fields_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "no.pcap"
    path.write_bytes(b"nothing")
    with pytest.raises((ecmproto.EcmprotoError, pl.exceptions.ComputeError), match="pcap"):
        ecmproto.scan_capture(str(path), ["frame.len"]).collect()
    with pytest.raises(ecmproto.EcmprotoError):
        ecmproto.scan_capture(MIXED, ["no.such"])
