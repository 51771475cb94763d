"""Requirements for all output formats: text for any octets, frame by frame, without terminal controls."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.frames.capture import Batch, Interface
from ecmproto.frames.dissect import Lines, NdJson, Record, Tabs, hex_text, record_document, records, tree_text
from ecmproto.frames.dissect.hexdump import segments
from ecmproto.frames.dissect.lines import fcs_holds
from ecmproto.tools.fuzz.checks.frames import TextCheck
from ecmproto.wire.codec import ARP, BCN, CNM, E2CM, ECM, PFC, VLAN, CMTag, Ethernet, Frame, Layer, encode
from ecmproto.wire.codec.document import from_document
from ecmproto.wire.codec.frame import frame_check_sequence
from ecmproto.wire.formats.registry import catalogue
from tests.dissect.sample import FRAMES

ALL_FIELDS = [entry.name for entry in catalogue()]


def record(
    octets: bytes, *, original: int | None = None, linktype: int = 1, fcs_octets: int = 0, time_ns: int = 0
) -> Record:
    batch = Batch.from_frames([octets], time_ns=time_ns, original=original)
    (only,) = records(batch, [Interface(index=0, linktype=linktype, fcs_octets=fcs_octets)])
    return only


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """Return a frame of the sample with changed octets, or truncated."""
    octets = bytearray(draw(st.sampled_from(sorted(FRAMES.values()))))
    for _ in range(draw(st.integers(0, 4))):
        octets[draw(st.integers(0, len(octets) - 1))] = draw(st.integers(0, 255))
    return bytes(octets[: draw(st.integers(0, len(octets)))])


ANY_OCTETS = st.one_of(mangled(), st.binary(max_size=80))
LINKTYPES = st.sampled_from((1, 101, 113, 276, 228, 229, 189, 65000))


@given(ANY_OCTETS, LINKTYPES, st.sampled_from((0, 4)), st.integers(0, 40))
def test_any_octets_have_every_form(octets: bytes, linktype: int, fcs_octets: int, missing: int) -> None:
    got = record(octets, linktype=linktype, fcs_octets=fcs_octets, original=len(octets) + missing)
    line = Lines().record(got)
    assert line.endswith("\n")
    assert line[:-1].isprintable()
    assert all(row.isprintable() for row in tree_text(got).split("\n"))
    assert Tabs(ALL_FIELDS).record(got).count("\t") == len(ALL_FIELDS) - 1
    assert json.loads(NdJson().record(got), object_pairs_hook=without_duplicates)["number"] == 1


def without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    assert len(dict(pairs)) == len(pairs)
    return dict(pairs)


@given(ANY_OCTETS, LINKTYPES, st.sampled_from((0, 4)))
def test_a_document_gives_the_octets_back(octets: bytes, linktype: int, fcs_octets: int) -> None:
    document = json.loads(
        json.dumps(record_document(record(octets, linktype=linktype, fcs_octets=fcs_octets)))
    )
    frame, _ = from_document(document)
    assert encode(frame) == octets


@given(ANY_OCTETS, LINKTYPES)
def test_every_octet_belongs_to_one_segment(octets: bytes, linktype: int) -> None:
    got = record(octets, linktype=linktype)
    at = 0
    for start, stop, _ in segments(got.frame):
        assert (start, stop > start) == (at, True)
        at = stop
    assert at == len(octets)


@given(ANY_OCTETS)
def test_hex_shows_every_octet_once(octets: bytes) -> None:
    shown = [row[5:53] for row in hex_text(record(octets)).splitlines()]
    assert bytes.fromhex("".join(shown).replace("|", " ")) == octets


@pytest.mark.parametrize("name", FRAMES)
def test_hex_marks_where_each_layer_begins(name: str) -> None:
    got = record(FRAMES[name])
    marked = [
        16 * at + column // 3
        for at, row in enumerate(hex_text(got).splitlines())
        for column in range(0, 48, 3)
        if row[5 + column : 6 + column] == "|"
    ]
    assert marked == [start for start, _, _ in segments(got.frame)]


@pytest.mark.parametrize(("flip", "verdict", "line"), [(0, "good", ""), (1, "bad", "[FCS bad]")])
def test_fcs_is_checked(flip: int, verdict: str, line: str) -> None:
    octets = FRAMES["data"]
    fcs = bytearray(frame_check_sequence(octets))
    fcs[3] ^= flip
    got = record(octets + fcs, fcs_octets=4)
    assert fcs_holds(got) == (not flip)
    assert f"{fcs.hex()}  (4 octets)  {verdict}\n" in tree_text(got)
    assert Lines().record(got).endswith(f"len 96{' ' if line else ''}{line}\n")


def test_a_cut_frame_has_no_bad_fcs() -> None:
    octets = FRAMES["data"]
    got = record(octets + b"\0\0", original=len(octets) + 4, fcs_octets=4)
    assert "FCS" not in Lines().record(got)
    assert "[cut: 148 of 150 octets were captured]" in tree_text(got)


def test_times_are_relative_and_may_go_back() -> None:
    lines = Lines()
    assert lines.record(record(FRAMES["arp"], time_ns=5_000_000_000))[6:18] == " 0.000000000"
    assert lines.record(record(FRAMES["arp"], time_ns=4_999_999_999))[6:18] == "-0.000000001"


def test_missing_time_is_shown_as_missing() -> None:
    batch = Batch.from_frames([FRAMES["arp"]])
    batch = dataclasses.replace(batch, timed=np.zeros(1, dtype=np.bool_))
    (got,) = records(batch, [Interface(index=0, linktype=1)])
    assert record_document(got)["time_ns"] is None
    assert "none in the capture" in tree_text(got)
    assert Lines().record(got)[:19] == f"    1 {'-':>12} "


@pytest.mark.parametrize("behind", ["", "8100 e005", "88e7 e0000001 02000000cc01 02000000cc02"])
def test_a_sampled_frame_of_another_station_is_suspicious(behind: str) -> None:
    """A message goes to the source of the sampled frame. Inside a backbone, a message goes to the
    customer.
    """
    told = "02:00:00:00:00:09 [suspicious: the message is for {}] → 02:00:00:00:00:02"
    addressee = "02:00:00:00:cc:01" if behind.startswith("88e7") else "02:00:00:00:00:01"
    items = []
    for source in ("020000000009", addressee.replace(":", "")):
        sampled = bytes.fromhex("020000000002" + source + "88f7") + bytes(40)
        outer = bytes.fromhex("020000000001 0200000000c1" + behind + "88b5")
        items += [outer + cls(payload=sampled).build() for cls in (ECM, BCN, E2CM)]
    lines, documents = [], []
    for octets in items:
        captured = record(octets)
        lines.append(Lines().record(captured))
        documents.append(json.loads(NdJson().record(captured))["encapsulated"])
        assert ("[suspicious: its source is not the message's destination]" in tree_text(captured)) == (
            "suspicious" in documents[-1]
        )
    assert ["suspicious" in one for one in documents] == [True] * 3 + [False] * 3
    assert all(told.format(addressee) in line for line in lines[:3])
    assert all("suspicious" not in line for line in lines[3:])
    assert not list(TextCheck().differences(items * 20))


def test_messages_within_messages_may_be_a_thousand_deep() -> None:
    octets = bytes.fromhex("0800")
    for _ in range(1100):
        octets = bytes.fromhex("22e7") + CNM(msdu_length=len(octets), msdu=octets).build()
    captured = record(bytes(12) + octets)
    assert NdJson().record(captured).count('"encapsulated": {') == 1100
    assert tree_text(captured).count("Sampled frame") == 1100


def test_field_meaning_is_not_reused_between_frames() -> None:
    def told(*layers: Layer) -> str:
        return tree_text(
            record(encode(Frame(layers=(Ethernet(dst=bytes(6), src=bytes(6)), *layers)), fix=True))
        )

    assert "quanta, not enabled" in told(PFC(class_enable_vector=0, time3=9))
    assert "quanta = 461 ns at 10 Gb/s" in told(PFC(class_enable_vector=8, time3=9))
    tags = [told(CMTag(cpid=0x0200000000C10001, timestamp=7, unit=unit), ARP()) for unit in (0, 1)]
    assert ["ticks of 2^0 µs = 7 µs" in tags[0], "ticks of 2^1 µs = 14 µs" in tags[1]] == [True, True]
    assert told(VLAN(id=5), ARP()) == told(VLAN(id=5), ARP())
