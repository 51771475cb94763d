"""Text on stdout: pieces, encodings, and unchanged octets."""

from __future__ import annotations

import pytest

from ecmproto_cli.output import Stdout


def test_text_and_octets_keep_their_order(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    out = Stdout("utf-8")
    out.write("one → ")
    out.write_octets(memoryview("two → ".encode()))
    out.write("three\n")
    out.flush()
    assert capsysbinary.readouterr().out.decode() == "one → two → three\n"


def test_unencodable_characters_are_replaced(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    out = Stdout("ascii")
    out.write("one → ")
    out.write_octets(memoryview("two → E²CM\n".encode()))
    out.flush()
    assert capsysbinary.readouterr().out == b"one ? two ? E?CM\n"


def test_long_text_is_written_in_pieces(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    out = Stdout("utf-8")
    for _ in range(100):
        out.write("x" * 1000)
    assert len(capsysbinary.readouterr().out) > 50_000
    out.flush()
    assert capsysbinary.readouterr().out


@pytest.mark.parametrize("name", ["UTF-8", "utf8", "U8"])
def test_all_names_of_utf_8_are_recognised(name: str, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    Stdout(name).write_octets(b"\xe2\x86\x92")
    assert capsysbinary.readouterr().out == b"\xe2\x86\x92"
