"""Prefixes and texts of values."""

from __future__ import annotations

import math

import pytest

from ecmproto.tools.report.run import (
    ABSENT,
    Unit,
    greatest,
    labelled_scale,
    octet_scale,
    rate_scale,
    time_scale,
    value_text,
)


def test_axes_take_the_prefix_of_their_greatest_value() -> None:
    assert (octet_scale(500_000).unit, octet_scale(500_000).factor) == ("kB", 1e3)
    assert octet_scale(0).unit == "B"
    assert rate_scale(1e10).unit == "Gb/s"
    assert [time_scale(ns).unit for ns in (0, 999, 1000, 10**6, 10**9)] == ["ns", "ns", "µs", "ms", "s"]
    minutes = (9, 10, 119, 120, 48 * 60 - 1, 48 * 60, 60 * 24 * 365, 60 * 24 * 1461)
    assert [time_scale(each * 60e9).unit for each in minutes] == [
        "s", "min", "min", "h", "h", "d", "d", "years"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("label", "name", "unit"),
    [
        ("Fb (octets)", "Fb", "kB"),
        ("advertised rate (bit/s)", "advertised rate", "kb/s"),
        ("latency (ns)", "latency", "µs"),
        ("weight (ratio)", "weight", "ratio"),
        ("feedback", "feedback", ""),
        ("odd ) (", "odd ) (", ""),
    ],
)
def test_labels_with_a_known_unit_are_scaled(label: str, name: str, unit: str) -> None:
    found, scale = labelled_scale(label, 20_000)
    assert (found, scale.unit) == (name, unit)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (26_000, "octets", "26 kB"),
        (15_662, "frames", "15,662"),
        (9.4e9, "bit/s", "9.4 Gb/s"),
        (1_200_000, "ns", "1.2 ms"),
        (0.953, "share", "95.3 %"),
        (0.00134, "share", "0.13 %"),
        (1, "share", "100.0 %"),
        (0.558, "index", "0.5580"),
        (2.5, "count", "2.5"),
        (3.0, "count", "3"),
        (math.nan, "octets", ABSENT),
        (math.inf, "count", ABSENT),
        (10**400, "frames", ABSENT),
    ],
)
def test_values_are_printed_with_units(value: float, unit: Unit, text: str) -> None:
    assert value_text(value, unit) == text


def test_the_greatest_is_a_number() -> None:
    assert greatest([math.nan, 3, math.inf, 10**400]) == 3
    assert greatest([]) == 0
