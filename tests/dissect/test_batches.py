"""Whole batches as text equal the text of single frames, octet for octet."""

from __future__ import annotations

import dataclasses
import json
import os
import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import Batch, Interface, open_capture
from ecmproto.frames.capture.batch import Displayed, timeline_of
from ecmproto.frames.columns.text import renderer
from ecmproto.frames.dissect import Csv, Json, Lines, NdJson, Tabs, Trees, records
from ecmproto.frames.dissect.form import Listing, commented
from ecmproto.tools.craft import build
from ecmproto.tools.fuzz.strategies import arbitrary_octets, frames, mutated, octets_of, truncated
from ecmproto.wire.codec import encode
from ecmproto.wire.codec.frame import frame_check_sequence
from ecmproto.wire.formats.ethernet import Data, Ethernet
from ecmproto.wire.formats.ethertypes import DEFAULT, EtherTypes
from ecmproto.wire.formats.infiniband import BTH, ICRC, RETH, ROCE_PORT
from ecmproto.wire.formats.ip import UDP, IPv4
from ecmproto.wire.formats.registry import catalogue
from tests.batch.test_inner import WRAPPERS
from tests.capture.octets import description, enhanced, option, section, simple
from tests.columns.spoilt import INTERFACES, spoilt_batch
from tests.conftest import SHARED_CAPTURES
from tests.dissect.sample import FRAMES, SINK, SOURCE, octets

BUNDLED = sorted(
    path for path in (Path(__file__).parents[2] / "pcaps").iterdir() if ".pcap" in "".join(path.suffixes)
)
SPOILT_FRAMES = int(os.environ.get("ECMPROTO_SPOILT_FRAMES", "2000"))
SHARED_FRAMES = int(os.environ.get("ECMPROTO_SHARED_FRAMES", "60"))
"""The numbers of spoilt frames, and of frames of each shared capture; a long run sets them high."""
_BATCH_FRAMES = 500

_NAMES = [entry.name for entry in catalogue()]
_WELL = [name for name in _NAMES if name != "frame.error"]
_SHOWN = [
    f"encapsulated.{name}" for name in _NAMES if name != "frame.error" and not name.startswith("frame.")
]
FORMS: dict[str, Callable[[], Listing]] = {
    "ndjson": NdJson,
    "json": Json,
    "every field": lambda: Tabs(_NAMES),
    "every field but errors": lambda: Csv([*_WELL, *_SHOWN, "encapsulated.frame.protocols"]),
    "errors of frames shown": lambda: Tabs(["frame.number", "encapsulated.frame.error"]),
    "one field": lambda: Csv(["vlan.id"]),
    "tree": Trees,
    "painted tree": lambda: Trees(lambda text, style: f"<{style}>{text}</>"),
}


@pytest.fixture(autouse=True)
def _programs_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "WORTH_FRAMES", 1)


def one_by_one(
    form: Listing, batch: Batch, interfaces: Sequence[Interface], ethertypes: EtherTypes = DEFAULT
) -> bytes:
    displayed = batch.timeline.displayed if batch.timeline is not None else Displayed()
    text = ""
    for record in records(
        batch, interfaces, ethertypes=ethertypes, commented=form.commented, displayed=displayed
    ):
        text += form.record(record)
        displayed.last_ns = displayed.last_ns if record.time_ns is None else record.time_ns
    return text.encode()


def at_once(
    form: Listing, batch: Batch, interfaces: Sequence[Interface], ethertypes: EtherTypes = DEFAULT
) -> bytes:
    return b"".join(bytes(text) for text in form.batch(batch, interfaces, ethertypes=ethertypes))


def _afresh(batch: Batch) -> Batch:
    """Return a batch before which no frame was displayed."""
    if batch.timeline is None:
        return batch
    return dataclasses.replace(batch, timeline=dataclasses.replace(batch.timeline, displayed=Displayed()))


def assert_same(
    batch: Batch,
    interfaces: Sequence[Interface],
    name: str,
    ethertypes: EtherTypes = DEFAULT,
    form: Listing | None = None,
) -> None:
    expected = one_by_one(FORMS[name](), _afresh(batch), interfaces, ethertypes).split(b"\n")
    got = at_once(form or FORMS[name](), _afresh(batch), interfaces, ethertypes).split(b"\n")
    for index, (line, wanted) in enumerate(zip(got, expected, strict=False)):
        assert line == wanted, f"frame {index}"
    assert len(got) == len(expected)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_bundled_captures(path: Path, name: str) -> None:
    with open_capture(path, batch_frames=1000) as reader:
        assert_same(next(iter(reader)), reader.interfaces, name)


@pytest.mark.parametrize("name", ["ndjson", "every field", "tree"])
def test_shared_captures(name: str) -> None:
    if not SHARED_CAPTURES.is_dir():
        pytest.skip(f"{SHARED_CAPTURES} is not there: no shared captures to compare with")
    compared, form = 0, FORMS[name]()
    for path in sorted(SHARED_CAPTURES.rglob("*")):
        if path.suffix not in (".pcap", ".pcapng", ".cap"):
            continue
        try:
            with open_capture(path, batch_frames=max(1, SHARED_FRAMES)) as reader:
                form.origin_ns = None
                for batch in reader:
                    assert_same(batch, reader.interfaces, name, form=form)
                    compared += len(batch)
                    break
        except CaptureError:
            continue  # no capture, or a broken one
    assert compared


_WHOLE = st.one_of(octets_of(frames()), mutated(), arbitrary_octets())


@given(
    st.lists(st.one_of(_WHOLE.map(lambda octets: (octets, len(octets))), truncated()), max_size=8), st.data()
)
def test_drawn_frames(drawn: list[tuple[bytes, int]], data: st.DataObject) -> None:
    batch = Batch.from_frames(
        [octets for octets, _ in drawn],
        time_ns=[data.draw(st.integers(-(2**63), 2**63 - 1)) for _ in drawn],
        original=[original for _, original in drawn],
        interface=[data.draw(st.integers(0, len(INTERFACES) - 1)) for _ in drawn],
    )
    for name in FORMS:
        assert_same(batch, INTERFACES, name)


@pytest.mark.parametrize("name", ["ndjson", "every field but errors", "tree"])
def test_spoilt_frames(name: str) -> None:
    generator = random.Random(7)
    form = FORMS[name]()
    for _ in range(0, SPOILT_FRAMES, _BATCH_FRAMES):
        batch = spoilt_batch(generator, _BATCH_FRAMES)
        expected = one_by_one(FORMS[name](), batch, INTERFACES)
        # All batches have the same form, so programs and dictionaries of earlier batches are used again.
        assert at_once(form, batch, INTERFACES) == expected


def test_messages_with_any_sampled_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "_DENSE_PAIRS", 0)
    batch = spoilt_batch(random.Random(3), _BATCH_FRAMES)
    assert_same(batch, INTERFACES, "ndjson")


def test_message_nested_in_a_message() -> None:
    inner = FRAMES["ecm"]
    start = inner.index(bytes.fromhex("88b5"))
    nested = inner[: start + 20] + inner[:80]
    assert_same(Batch.from_frames([nested] * 3), [Interface(index=0, linktype=1)], "ndjson")
    assert one_by_one(NdJson(), Batch.from_frames([nested]), INTERFACES).count(b"encapsulated") == 2


@pytest.mark.parametrize("name", FORMS)
def test_fields_of_64_bits_in_batches(name: str) -> None:
    headers = Ethernet(dst=SINK, src=SOURCE), IPv4(), UDP(dstport=ROCE_PORT), BTH(opcode=0x0A)
    frame = octets(*headers, RETH(va=0xFEDC_BA98_7654_3210, dmalen=4), Data(data=b"data"), ICRC())
    assert_same(Batch.from_frames([frame] * 3), [Interface(index=0, linktype=1)], name)


def test_changed_ethertypes_apply_to_batches() -> None:
    types = EtherTypes(message=0x9999, tag=0x88B5, cn_tag=0x22EA)
    batch = Batch.from_frames(list(FRAMES.values()))
    for name in FORMS:
        assert_same(batch, [Interface(index=0, linktype=1)], name, types)


def test_comments_and_missing_times(tmp_path: Path) -> None:
    path = tmp_path / "in.pcapng"
    frame = FRAMES["cnm"]
    first = option(1, "naïve “quotes”, a\ttab".encode())
    flags = option(2, bytes(4))
    told_of = (b"", first, flags, flags + option(1, b"second"))
    blocks = [section(), description(), *(enhanced(frame, options=each) for each in told_of), simple(frame)]
    path.write_bytes(b"".join(blocks))
    with open_capture(path) as reader:
        (batch,) = reader
        assert commented(batch).tolist() == [False, True, False, True, False]
        for name in FORMS:
            assert_same(batch, reader.interfaces, name)
        told = [json.loads(line) for line in at_once(NdJson(), batch, reader.interfaces).splitlines()]
    assert [line.get("comments") for line in told] == [
        None, ["naïve “quotes”, a\ttab"], None, ["second"], None
    ]  # fmt: skip
    assert [line["time_ns"] is None for line in told] == [False, False, False, False, True]


@pytest.mark.parametrize("first", [5, (1 << 64) - 7])
def test_times_beyond_64_bits_are_shown_exactly(first: int, tmp_path: Path) -> None:
    path = tmp_path / "far.pcapng"
    ticks = (first, 1 << 63, 5)
    blocks = [section(), description(), *(enhanced(FRAMES["cnm"], ticks=each) for each in ticks)]
    path.write_bytes(b"".join(blocks))
    with open_capture(path) as reader:
        (batch,) = reader
        for name in FORMS:
            assert_same(batch, reader.interfaces, name)
        told = [json.loads(line) for line in at_once(NdJson(), batch, reader.interfaces).splitlines()]
        lines = at_once(Lines(), batch, reader.interfaces).decode().splitlines()
    assert [line["time_ns"] for line in told] == [1000 * each for each in ticks]
    since_us = [each - first for each in ticks]
    assert [line.split()[1] for line in lines] == [
        f"{'-' * (us < 0)}{abs(us) // 10**6}.{abs(us) % 10**6:06}000" for us in since_us
    ]


def _parts(batch: Batch, count: int) -> Iterator[Batch]:
    for begin in range(0, len(batch), count):
        yield batch.select(range(begin, min(begin + count, len(batch))))


@pytest.mark.parametrize("name", FORMS)
def test_single_and_batch_output_may_alternate(name: str) -> None:
    batch = Batch.from_frames(list(FRAMES.values()), time_ns=np.arange(len(FRAMES)))
    interfaces = [Interface(index=0, linktype=1)]
    expected = one_by_one(FORMS[name](), batch, interfaces)
    for offset in (0, 1):
        form = FORMS[name]()
        ways = (one_by_one, at_once)
        batch = dataclasses.replace(batch, timeline=timeline_of(batch.time_ns))
        parts = [ways[(i + offset) % 2](form, part, interfaces) for i, part in enumerate(_parts(batch, 3))]
        assert b"".join(parts) == expected


@pytest.mark.parametrize("name", FORMS)
def test_only_selected_frames_are_printed(name: str) -> None:
    batch = Batch.from_frames(list(FRAMES.values()), time_ns=np.arange(len(FRAMES)))
    interfaces = [Interface(index=0, linktype=1)]
    for shown in (np.arange(len(batch)) % 3 == 1, np.zeros(len(batch), np.bool_)):
        expected, form, displayed = "", FORMS[name](), Displayed()
        for record, wanted in zip(records(batch, interfaces, displayed=displayed), shown, strict=True):
            if wanted:
                expected += form.record(record)
                displayed.last_ns = record.time_ns
            else:
                form.passed(record)
        form = FORMS[name]()
        assert (
            b"".join(bytes(text) for text in form.batch(batch, interfaces, shown=shown)) == expected.encode()
        )


def test_threads_keep_the_order() -> None:
    frames_there = list(FRAMES.values()) * (3 * renderer.SHARE_FRAMES // len(FRAMES))
    batch = Batch.from_frames(frames_there, time_ns=np.arange(len(frames_there)))
    interfaces = [Interface(index=0, linktype=1)]
    form = NdJson()
    alone = at_once(form, batch, interfaces)
    with ThreadPoolExecutor(2) as pool:
        shared = b"".join(bytes(text) for text in form.batch(batch, interfaces, pool=pool))
    assert shared == alone
    assert [json.loads(line)["number"] for line in shared.splitlines()] == [*range(1, len(batch) + 1)]


def test_no_frames() -> None:
    for make in FORMS.values():
        assert list(make().batch(Batch.from_frames([]), [Interface(index=0, linktype=1)])) == []


def test_common_frames_are_not_printed_singly(monkeypatch: pytest.MonkeyPatch) -> None:
    frames_there = [FRAMES[name] for name in ("cnm", "data", "ecm", "pfc", "lldp", "arp")]
    packet = b"\x45\0\0\x14" + bytes(16)
    batch = Batch.from_frames([*frames_there, packet, packet], interface=[*6 * [0], 1, 2])
    interfaces = [Interface(index=index, linktype=linktype) for index, linktype in enumerate((1, 101, 147))]
    for make in (NdJson, lambda: Csv(_NAMES), Trees):
        form = make()
        if isinstance(form, Trees):  # a TLV's text is of any length
            batch = batch.select(np.arange(len(batch)) != frames_there.index(FRAMES["lldp"]))
        expected = one_by_one(form, batch, interfaces)
        monkeypatch.setattr(type(form), "record", lambda self, record: pytest.fail("printed one by one"))
        assert at_once(form, batch, interfaces) == expected


@pytest.mark.parametrize("name", WRAPPERS)
def test_mirrored_frames_are_not_printed_singly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packet = encode(
        build("vlan ip udp dstport=4791 bth opcode=10 reth va=0xfedcba9876543210 data data=00112233 icrc"),
        fix=True,
    )
    once = [WRAPPERS[name](frame, number) for number, frame in enumerate((FRAMES["cnm"], packet))]
    batch = Batch.from_frames([*once, *(WRAPPERS["ERSPAN II session 12"](frame, 0) for frame in once)])
    interfaces = [Interface(index=0, linktype=1)]
    for make in (Lines, NdJson, lambda: Csv(["eth.dst", "inner.ip.src"]), Trees):
        form = make()
        expected = one_by_one(form, batch, interfaces)
        monkeypatch.setattr(type(form), "record", lambda self, record: pytest.fail("printed one by one"))
        assert at_once(form, batch, interfaces) == expected


def test_invisible_characters_are_escaped_in_json(tmp_path: Path) -> None:
    path, text = tmp_path / "in.pcapng", "a\x7fb\x9bc\u202ed\u2066eµ"
    comment = option(1, text.encode())
    blocks = [section(), description(), enhanced(FRAMES["arp"], options=comment), enhanced(FRAMES["arp"])]
    path.write_bytes(b"".join(blocks))
    with open_capture(path) as reader:
        (batch,) = reader
        for name in FORMS:
            assert_same(batch, reader.interfaces, name)
        told = at_once(NdJson(), batch, reader.interfaces)
    assert r'"comments": ["a\u007fb\u009bc\u202ed\u2066eµ"]' in told.decode()
    assert json.loads(told.splitlines()[0])["comments"] == [text]


_HOLED = [FRAMES[name] for name in ("data", "cnm", "pfc", "tcp", "udp", "arp", "ecm") if name in FRAMES]


def test_trees_of_frames_with_an_fcs() -> None:
    good = [octets + frame_check_sequence(octets) for octets in _HOLED]
    bad = [octets[:-1] + bytes([octets[-1] ^ 1]) for octets in good]
    original = [len(octets) for octets in [*good, *bad]]
    batch = Batch.from_frames([*good, *bad], original=[*original[:-1], original[-1] + 1])
    interfaces = [Interface(index=0, linktype=1, fcs_octets=4)]
    assert_same(batch, interfaces, "tree")
    told = at_once(Trees(), batch, interfaces)
    assert (told.count(b"  good\n"), told.count(b"  bad\n")) == (len(good), len(bad) - 1)


def test_trees_follow_changing_ethertypes_between_batches() -> None:
    form, interfaces = Trees(), [Interface(index=0, linktype=1)]
    batch = Batch.from_frames(list(FRAMES.values()), time_ns=np.arange(len(FRAMES)))
    for types in (DEFAULT, EtherTypes(message=0x9999, tag=0x88B5, cn_tag=0x22EA), DEFAULT):
        assert at_once(form, batch, interfaces, types) == one_by_one(Trees(), batch, interfaces, types)


def test_deep_tree_is_printed_frame_by_frame() -> None:
    interfaces = [Interface(index=0, linktype=1)]
    batch = Batch.from_frames(list(FRAMES.values()), time_ns=np.arange(len(FRAMES)))
    forms = [Trees(deep=lambda octets: octets.hex()) for _ in range(2)]
    assert not forms[0].columnar
    assert at_once(forms[0], batch, interfaces) == one_by_one(forms[1], batch, interfaces)


@pytest.mark.parametrize("octets", [0, 1, 2, 5, 6, 7, 31, 32, 33, 64])
def test_tree_columns_fit_their_widest_octets(octets: int) -> None:
    # addresses and numbers of every width beside options and payloads of few octets
    generator = random.Random(octets)
    before = bytes(12) + bytes.fromhex("0800 46000040 00000000 0006 0000")
    frames_there = []
    for size in range(9):
        addresses = generator.randbytes(size).ljust(8, b"\1")
        segment = generator.randbytes(12) + b"\x60" + generator.randbytes(7) + bytes(4)
        frames_there.append(before + addresses + bytes(4) + segment + generator.randbytes(octets))
    batch = Batch.from_frames(frames_there)
    assert_same(batch, [Interface(index=0, linktype=1)], "tree")
