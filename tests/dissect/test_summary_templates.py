"""Summaries use existing clauses and styles, and the length of a line is limited."""

from __future__ import annotations

from string import Formatter

from ecmproto.frames.dissect import describe
from ecmproto.frames.dissect.lines import CLAUSES
from ecmproto.wire.codec import ECM, UDP, Ethernet, Frame, IPv4, decode_lax
from ecmproto.wire.formats.registry import FORMATS
from ecmproto.wire.formats.summary import STYLES
from tests.dissect.sample import CP1, SINK, SOURCE, octets


def test_styles_and_clauses_have_different_names() -> None:
    for cls in FORMATS:
        assert not STYLES & (CLAUSES.keys() | cls.summary.clauses.keys())


def test_summaries_use_only_existing_styles_and_clauses() -> None:
    for cls in FORMATS:
        summary = cls.summary
        for text in (summary.detail, summary.tag, summary.name):
            named = {style for _, _, style, _ in Formatter().parse(text) if style}
            assert named <= STYLES | CLAUSES.keys() | summary.clauses.keys() | summary.styles.keys()


def test_nested_messages_are_summarised_to_a_depth() -> None:
    message = octets(Ethernet(dst=SINK, src=SOURCE), ECM(cpid=CP1))
    for _ in range(2000):
        message = octets(Ethernet(dst=SINK, src=SOURCE), ECM(cpid=CP1, payload=message))
    name, told = describe(decode_lax(message))
    assert (name, told.count(" of ")) == ("ECM", 7)


def test_ports_have_the_innermost_addresses() -> None:
    outer, inner = IPv4(src="192.0.2.1", dst="192.0.2.2"), IPv4(src="10.0.0.1", dst="10.0.0.2")
    frame = Frame(layers=(Ethernet(dst=SINK, src=SOURCE), outer, inner, UDP(srcport=5, dstport=6)))
    assert describe(frame)[1].startswith("10.0.0.1:5 → 10.0.0.2:6")


def test_a_frame_of_no_layers_is_data() -> None:
    assert describe(Frame(layers=())) == ("data", "")
