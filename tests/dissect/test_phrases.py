"""Every format has its phrase, and a sentence is bounded whatever a frame claims to show."""

from __future__ import annotations

from string import Formatter

from ecmproto.codec import ECM, Ethernet, Frame, decode_lax
from ecmproto.dissect import describe
from ecmproto.dissect.phrases import CLAUSES, PHRASES, STYLES
from ecmproto.formats.registry import FORMATS
from tests.dissect.sample import CP1, SINK, SOURCE, octets


def test_every_format_has_a_phrase() -> None:
    assert set(PHRASES) == set(FORMATS)


def test_a_style_is_no_clause() -> None:
    assert not STYLES.keys() & CLAUSES.keys()


def test_phrases_name_styles_and_clauses_that_there_are() -> None:
    for phrase in PHRASES.values():
        for text in (phrase.detail, phrase.tag, phrase.name):
            named = {style for _, _, style, _ in Formatter().parse(text) if style}
            assert named <= STYLES.keys() | CLAUSES.keys()


def test_messages_in_messages_are_told_of_up_to_a_depth() -> None:
    message = octets(Ethernet(dst=SINK, src=SOURCE), ECM(cpid=CP1))
    for _ in range(2000):
        message = octets(Ethernet(dst=SINK, src=SOURCE), ECM(cpid=CP1, payload=message))
    name, told = describe(decode_lax(message))
    assert (name, told.count(" of ")) == ("ECM", 7)


def test_a_frame_of_no_layers_is_data() -> None:
    assert describe(Frame(layers=())) == ("data", "")
