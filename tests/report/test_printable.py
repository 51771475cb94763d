"""Texts that pictures and pages can contain."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import printable
from ecmproto.tools.report.sheet import fitting, shortened

ANY = st.text(st.characters(codec=None, exclude_categories=()))


@given(ANY)
def test_any_text_becomes_valid_xml(text: str) -> None:
    element = ElementTree.Element("text")
    element.text = printable(text)
    read = ElementTree.fromstring(ElementTree.tostring(element, encoding="utf-8"))
    assert (read.text or "") == printable(text)


def test_bidirectional_controls_and_line_breaks_are_replaced() -> None:
    assert printable("a\u202eb\x1b\n\ud800") == "a\ufffdb\ufffd \ufffd"
    assert printable("Größe E²CM 日本") == "Größe E²CM 日本"


@given(ANY, st.integers(1, 30))
def test_shortened_texts_keep_their_ends(text: str, most: int) -> None:
    whole = printable(text).strip()
    short = shortened(text, most)
    assert len(short) <= most
    if len(whole) <= most:
        assert short == whole
    elif most >= 3:
        assert (short[0], short[-1]) == (whole[0], whole[-1])


def test_fitting_cuts_by_width() -> None:
    assert fitting("02:00:00:00:00:01", 300, 12) == "02:00:00:00:00:01"
    narrow = fitting("02:00:00:00:00:01", 60, 12)
    assert len(narrow) == 8
    assert "…" in narrow
    assert len(fitting("日" * 20, 60, 12)) == 5
    assert len(fitting("x" * 100_000, 10_000, 12)) == 200
