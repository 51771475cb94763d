"""Filters use the values and names that ``-e`` shows, and import no large modules."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal

import pytest

from ecmproto.frames.dissect import FieldReader
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.filter.evaluation import values_of
from ecmproto.frames.filter.fields import FilterField, Value, find, known
from ecmproto.wire.formats.registry import FORMATS, catalogue
from tests.filter.captured import bundled

CAPTURES = (
    "mixed.pcap",
    "qcn_cp.pcapng",
    "qcn_pbb.pcap",
    "lldp_cn.pcap",
    "malformed.pcapng",
    "fecn_edge.pcap",
)


def _spelled(field: FilterField, value: Value, shown: str) -> bool:
    """Return whether a value equals the shown value."""
    match field.kind, value:
        case ("number", int()):
            return value == int(shown, 0)
        case ("cpid", int()):
            return value == int(shown, 16)
        case ("time", int()):
            return value == Decimal(shown) * 10**9
        case (("mac" | "octets"), bytes()):
            return value.hex() == shown.replace(":", "")
    return (
        compile_filter(f"{field.name} == {shown}").test is not None
        if field.kind != "text"
        else value == shown
    )


@pytest.mark.parametrize("capture", CAPTURES)
def test_values_equal_those_of_dissect(capture: str) -> None:
    names = [entry.name for entry in catalogue() if entry.name != "frame.error"]
    names += [f"encapsulated.{name}" for name in names if find(f"encapsulated.{name}")]
    reader = FieldReader(names)
    fields = [find(name) for name in names]
    readers = [values_of(field) for field in fields if field is not None]
    assert len(readers) == len(names)
    seen = 0
    for record in bundled(capture):
        for field, read, cell in zip(fields, readers, reader.row(record), strict=True):
            assert field is not None
            shown = cell.split(",") if cell else []
            got = read(record)
            assert len(got) == len(shown), (record.number, field.name)
            assert all(map(_spelled, [field] * len(got), got, shown)), (record.number, field.name, got, shown)
            seen += len(got)
    assert seen > 50


def test_every_name_is_a_filter() -> None:
    assert {entry.name for entry in catalogue()} <= set(known())
    assert {cls.prefix for cls in FORMATS} <= set(known())
    for name in known():
        assert compile_filter(name).fields == (name,)


def test_importing_does_not_import() -> None:
    absent = ("scapy", "numba", "hypothesis", "click", "ecmproto.frames.capture", "ecmproto.frames.dissect")
    code = f"import sys, ecmproto.frames.filter; print([name for name in {absent!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
