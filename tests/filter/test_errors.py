"""Errors in filters, compared with stored text.

`ECMPROTO_GOLDEN=1 pytest tests/filter/test_errors.py` updates the stored text.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ecmproto.errors import FilterError, MissingDependencyError
from ecmproto.frames.filter import compile_filter
from ecmproto.frames.filter.language import MAX_DEPTH

GOLDEN = Path(__file__).parent / "errors.txt"

WRONG = (
    # names
    "frame.lem > 100",
    "cnm.qntz_bf > 40 and vlan",
    "ETH.SRC == 02:00:00:00:00:01",
    "encapsulated.ip.scr == 192.0.2.1",
    "encapsulated.frame.number == 1",
    "nothing_like_it",
    "eth.type == vlan.etyp",
    # kinds
    "eth.src == 5",
    "eth.src == 02:00:00",
    'eth.src == "x"',
    "eth.src == frame.len",
    "vlan.id == 02:00:00:00:00:01",
    "vlan.id == vlan",
    "vlan.id == 1.5",
    "vlan.id == -1",
    "vlan.id == 08",
    "vlan.id == 18446744073709551616",
    "vlan.dei == yes",
    "cnm.q_delta == 9223372036854775808",
    "arp.opcode == requests",
    "ip.src == 192.0.2",
    "ip.src == 192.0.2.0/33",
    "ip.src == localhost",
    "ip.src == ipv6.src",
    "ipv6.src == 2001:db8::/129",
    "cnm.cpid == 02:00:00:00:00:01/65536",
    "cnm.cpid == x",
    "frame.time_epoch > 1e9",
    "frame.time_epoch > 99999999999",
    "frame.protocols == vlan_tag",
    "frame contains 200",
    "frame contains port1",
    'frame contains ""',
    "frame contains ip.src",
    "frame.len contains 6",
    'frame.len matches "6"',
    "frame == 02",
    "eth in {1}",
    "frame.time_epoch & 1",
    "vlan.id & x",
    "ip.src & 10.0.0.0/8",
    "vlan.id == 4 & 6",
    # slices
    "frame.len[0] == 1",
    "eth.src[] == 02",
    "eth.src[:] == 02",
    "eth.src[a] == 02",
    "eth.src[0:2,0:0] == 02",
    "eth.src[3-2] == 02",
    "eth.src[0 == 02",
    "eth.src == 02[0]",
    "encapsulated[0] == 02",
    "eth.src" + "[0:6]" * 11,
    "eth.src" + f"[{','.join(['0:6'] * 40)}]" * 2 + " == 02",
    # sets
    "vlan.id in {}",
    "vlan.id in {1 2}",
    "vlan.id in {5..1}",
    "vlan.id in {1..}",
    "vlan.id in {1, x}",
    "vlan.id in {1, frame.len}",
    "ip.src in {10.0.0.0/8..10.0.0.1}",
    "vlan.id in 5",
    # strings
    'frame contains "a',
    "frame contains 'a'",
    r'frame matches "\d"',
    r'frame contains "\777"',
    'frame matches "("',
    'frame matches "a{1001}"',
    'cnm and frame matches "a(?=b)c"',
    'frame matches "(?<!a)b"',
    r'frame matches r"(a)\1"',
    r'frame matches "(a)\\1"',
    'frame matches "a{2}+"',
    'frame matches "(?>a)"',
    r'frame matches r"a\Z"',
    'frame matches "a{1000}b{1000}c{1000}d{1000}"',
    "frame matches abc",
    r'frame.protocols == "\xff"',
    # syntax
    "== 5",
    "5 == vlan.id",
    "vlan.id = 5",
    "vlan.id ==",
    "vlan.id == 5 vlan.id == 6",
    "vlan.id == 5 AND vlan",
    "vlan.id == 5 xor vlan",
    "vlan and",
    "(vlan or arp",
    "vlan)",
    "vlan.id == (5)",
    "1 < vlan.id < 5",
    "len(eth.src) == 6",
    "frame.len + 1 == 61",
    "vlan.id#1 == 5",
    "${frame.len} == 1",
    "all vlan",
    "all vlan.id not in {1}",
    ".eth",
    "vlan | arp",
    # The shown part of the errors.
    "frame.len > 100 and\n\tvlan.idd",
    'frame contains "日本\x1b[31m" and vlan.idd',
    "vlan.id == 5 and " * 20 + "vlan.idd" + " and vlan.id == 5" * 20,
    "x" * 300,
    "vlan.id == " + "9" * 5000,
    "(" * 500 + "vlan" + ")" * 500 + "x",
    "frame.len" + " & 1" * 11,
)


def told(text: str) -> str:
    with pytest.raises(FilterError) as raised:
        compile_filter(text)
    return str(raised.value)


def test_error_messages_equal_the_golden_file() -> None:
    shown = "\n\n".join(map(told, WRONG)) + "\n"
    if os.environ.get("ECMPROTO_GOLDEN"):
        GOLDEN.write_text(shown, encoding="utf-8")
    assert shown == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["!" * 20_000 + "cnm", "(not " * 300 + "cnm" + ")" * 300])
def test_tests_within_tests_have_an_end(text: str) -> None:
    assert f"at most {MAX_DEPTH} tests within one another" in told(text)


def test_as_deep_as_allowed_is_evaluated() -> None:
    assert compile_filter("(frame or (" * (MAX_DEPTH // 2) + "cnm" + "))" * (MAX_DEPTH // 2)).fields
    assert compile_filter("cnm or " * 5000 + "cnm").fields == ("cnm",)


def test_expressions_without_their_engine_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(MissingDependencyError, match="expected google-re2, which is not installed"):
        compile_filter('frame matches "not in the cache"')
