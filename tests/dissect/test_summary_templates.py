"""Summaries name clauses and styles that there are, and a line is bounded whatever a frame claims to show."""

from __future__ import annotations

from string import Formatter

from ecmproto.codec import ECM, Ethernet, Frame, decode_lax
from ecmproto.dissect import describe
from ecmproto.dissect.lines import CLAUSES, STYLES
from ecmproto.formats.registry import FORMATS
from tests.dissect.sample import CP1, SINK, SOURCE, octets


def test_a_style_is_no_clause() -> None:
    for cls in FORMATS:
        assert not STYLES.keys() & (CLAUSES.keys() | cls.summary.clauses.keys())


def test_summaries_name_styles_and_clauses_that_there_are() -> None:
    for cls in FORMATS:
        summary = cls.summary
        for text in (summary.detail, summary.tag, summary.name):
            named = {style for _, _, style, _ in Formatter().parse(text) if style}
            assert named <= STYLES.keys() | CLAUSES.keys() | summary.clauses.keys()


def test_messages_in_messages_are_told_of_up_to_a_depth() -> None:
    message = octets(Ethernet(dst=SINK, src=SOURCE), ECM(cpid=CP1))
    for _ in range(2000):
        message = octets(Ethernet(dst=SINK, src=SOURCE), ECM(cpid=CP1, payload=message))
    name, told = describe(decode_lax(message))
    assert (name, told.count(" of ")) == ("ECM", 7)


def test_a_frame_of_no_layers_is_data() -> None:
    assert describe(Frame(layers=())) == ("data", "")
