"""Parameters: accepted values of each type, redeclared parameters, and their reference in the
documentation.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import pytest

from docs.parameter_reference import PATH, text
from ecmproto.control.mechanisms.api.parameters import (
    Parameter,
    Parameters,
    choice,
    count,
    duration,
    flag,
    octets,
    priority_set,
    rate,
    ratio,
    redeclared,
)
from ecmproto.control.mechanisms.qcn.parameters import QCNReactionPointParameters
from ecmproto.errors import ParameterError


@dataclass(frozen=True, slots=True, kw_only=True)
class Base(Parameters):
    """One parameter of each type."""

    length_octets: int = octets("length", 1_000, (0, 2_000), source="A", doc="a")
    rate_bps: int = rate("rate", 10**6, (10**6, 10**9), step=10**6, source="B", doc="b")
    time_ns: int = duration("time", 5_000, (1_000, 9_000), step=1_000, source="C", doc="c")
    number: int = count("n", 3, (-1, 7), source="D", doc="d")
    gain: float = ratio("g", 0.5, (0, 1), step=0.125, source="E", doc="e")
    switch: bool = flag("switch", False, source="F", doc="f")
    word: str = choice("word", "one", ("one", "two"), source="G", doc="g")
    chosen: frozenset[int] = priority_set("chosen", frozenset({3}), source="H", doc="h")


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived(Base):
    """Some of them again."""

    length_octets: int = redeclared(Base, "length_octets", 1_500, (64, 1_500), source="I")
    gain: float = redeclared(Base, "gain", doc="other")
    again: bool = redeclared(Base, "switch")


def test_every_kind_reads_its_unit() -> None:
    texts = {
        "length": "2 kB", "rate": "1 Gb/s", "time": "9 µs", "n": "-1", "g": "0.625", "switch": "yes",
        "word": "two", "chosen": "0,7",
    }  # fmt: skip
    assert Base.parse(texts).as_text() == texts
    assert Base.parse([]) == Base()


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("length=2001B", "length: expected 0 B to 2 kB, got 2.001 kB"),
        ("rate=1500k", "rate: expected 1 Mb/s to 1 Gb/s in steps of 1 Mb/s, got 1.5 Mb/s"),
        ("time=1500ns", "time: expected 1 µs to 9 µs in steps of 1 µs, got 1.5 µs"),
        ("n=8", "n: expected -1 to 7, got 8"),
        ("g=0.3", "g: expected 0 to 1 in steps of 0.125, got 0.3"),
        ("switch=maybe", "switch: expected yes or no, got 'maybe'"),
        ("word=three", "word: expected one of one, two, got 'three'"),
        ("chosen=8", "chosen: expected priorities 0 to 7 such as 3,5-7, all or none, got 8"),
    ],
)
def test_values_outside_their_range_are_refused(assignment: str, message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        Base.parse([assignment])
    assert str(caught.value) == message


def test_redeclared_parameter_overrides_only_given_attributes() -> None:
    base = {parameter.attribute: parameter for parameter in Base.describe()}
    derived = {parameter.attribute: parameter for parameter in Derived.describe()}
    assert derived == base | {
        "length_octets": replace(base["length_octets"], default=1_500, minimum=64, maximum=1_500, source="I"),
        "gain": replace(base["gain"], doc="other"),
        "again": replace(base["switch"], attribute="again"),
    }
    assert base["length_octets"] == Parameter(
        name="length", attribute="length_octets", default=1_000, unit="octets", minimum=0, maximum=2_000,
        source="A", doc="a",
    )  # fmt: skip
    assert [one.name for one in fields(Derived)] == [*base, "again"]


def test_a_choice_is_read_checked_and_written_back() -> None:
    chosen = QCNReactionPointParameters.parse(["variant= Standard "])
    assert chosen.variant == "standard"
    assert QCNReactionPointParameters.parse(chosen.as_text()) == chosen


@pytest.mark.parametrize("value", ["", "slide", 1, None, True])
def test_unknown_choice_is_refused_with_all_choices(value: object) -> None:
    with pytest.raises(ParameterError, match=r"variant: expected one of pseudocode, standard, got "):
        QCNReactionPointParameters(variant=value)  # type: ignore[arg-type]


def test_the_parameter_reference_is_up_to_date() -> None:
    assert PATH.read_text(encoding="utf-8") == text(), "run `make references`"
