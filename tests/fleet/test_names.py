"""Names of captures: patterns, days, partition folders, and names of results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import ParameterError
from ecmproto.tools.fleet.names import (
    UNKNOWN,
    NamePattern,
    common_folder,
    day_of,
    partition_folder,
    result_name,
)


@pytest.mark.parametrize(
    ("pattern", "path", "values"),
    [
        ("{host}-{date}.pcap", "/c/sw-1-2026-03-01.pcap", {"host": "sw-1", "date": "2026-03-01"}),
        ("{host}-{date}.pcap", "/c/sw1-20260301.pcap.zst", {"host": "sw1", "date": "2026-03-01"}),
        ("{host}_{date}_*.pcapng", "sw1_2026_03_01_0007.pcapng", {"host": "sw1", "date": "2026-03-01"}),
        ("{rack}/{host}.pcap", "/c/r7/sw1.pcap", {"rack": "r7", "host": "sw1"}),
        ("{host}.pcap", "s3://bucket/r7/sw1.pcap", {"host": "sw1"}),
        ("{host}.p(c)ap", "sw1.p(c)ap", {"host": "sw1"}),
    ],
)
def test_pattern_extracts_values_from_a_name(pattern: str, path: str, values: dict[str, str]) -> None:
    assert NamePattern(pattern).values(path) == values


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("{host}-{date}.pcap", "sw1.pcap"),
        ("{host}-{date}.pcap", "sw1-2026-13-01.pcap"),  # no such month
        ("{host}-{date}.pcap", "sw1-2026-03-01.pcap.bak"),
        ("{rack}/{host}.pcap", "sw1.pcap"),
    ],
)
def test_unmatched_name_has_no_values(pattern: str, path: str) -> None:
    values = NamePattern(pattern).values(path)
    assert values is None or "rack" in values  # the folder that the test runs in has a name too


@pytest.mark.parametrize(
    "text", ["", "capture.pcap", "{}", "{Host}", "{a}{a}", "{host", "host}", "{ho st}.pcap"]
)
def test_invalid_pattern_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="name pattern"):
        NamePattern(text)


def test_days_are_in_utc() -> None:
    assert day_of(0) == "1970-01-01"
    assert day_of(-1) == "1969-12-31"
    assert day_of(1_767_225_599_999_999_999) == "2025-12-31"
    assert day_of(1 << 63) == "2262-04-11"


def test_partition_folders_escape_their_values() -> None:
    assert partition_folder({"date": "2026-03-01", "host": "sw1"}) == "date=2026-03-01/host=sw1"
    assert partition_folder({"date": None, "host": "../x=1"}) == f"date={UNKNOWN}/host=..%2Fx%3D1"


@given(st.lists(st.text("ab.", min_size=1, max_size=3), min_size=1, max_size=4))
def test_result_names_stay_within_the_folder(words: list[str]) -> None:
    for path in ("/".join(words), "/" + "/".join(words), "s3://" + "/".join(words)):
        base = common_folder([path, "/c/other.pcap"])
        name = result_name(path, base)
        assert not name.startswith("/")
        assert ".." not in name.split("/")


def test_results_are_named_relative_to_common_folder() -> None:
    paths = ["/c/r1/a.pcap", "/c/r2/a.pcap", "/c/b.pcap"]
    base = common_folder(paths)
    assert [result_name(path, base) for path in paths] == ["r1/a.pcap", "r2/a.pcap", "b.pcap"]
    assert common_folder(["/c/r1/a.pcap"]) == "/c/r1"
    # Later captures may be in another folder.
    assert result_name("/d/e.pcap", base) == "d/e.pcap"
