"""The lines of batches equal the lines of single frames, for all frames."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import CaptureError
from ecmproto.frames.capture import Batch, Interface, open_capture
from ecmproto.frames.columns.text import renderer
from ecmproto.frames.dissect import Lines, Record, plain, records
from ecmproto.frames.dissect.form import Paint
from ecmproto.tools.fuzz.strategies import arbitrary_octets, frames, mutated, octets_of, truncated
from ecmproto.wire.codec import BCN, CNM, E2CM, ECM, Ethernet, EtherTypes, Layer
from ecmproto.wire.codec.frame import frame_check_sequence
from ecmproto.wire.formats.ethertypes import DEFAULT
from ecmproto.wire.formats.text import cpid
from tests.columns.spoilt import INTERFACES, spoilt_batch
from tests.conftest import SHARED_CAPTURES
from tests.dissect.sample import CP1, DATA, FRAMES, SINK, SOURCE, TOO_LONG, octets

BUNDLED = sorted(
    path for path in (Path(__file__).parents[2] / "pcaps").iterdir() if ".pcap" in "".join(path.suffixes)
)
SHARED_FRAMES = 200


@pytest.fixture(autouse=True)
def _programs_for_all_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "WORTH_FRAMES", 1)


def tagged(text: str, style: str) -> str:
    """A paint that can be read."""
    return f"<{style}>{text}</>"


class Watched(Lines):
    """Lines that record the frames which were made singly."""

    def __init__(self, paint: Paint = plain) -> None:
        super().__init__(paint)
        self.alone: list[int] = []

    def record(self, record: Record) -> str:
        self.alone.append(record.number)
        return super().record(record)


def assert_same(
    batches: Sequence[Batch],
    interfaces: Sequence[Interface] = (Interface(index=0, linktype=1),),
    *,
    paint: Paint = plain,
    ethertypes: EtherTypes = DEFAULT,
) -> list[int]:
    """Compare both ways; return the numbers of the frames that have no program."""
    one_by_one, together = Lines(paint), Watched(paint)
    for batch in batches:
        each = records(batch, interfaces, ethertypes=ethertypes)
        expected = "".join(one_by_one.record(record) for record in each).encode(errors="replace")
        got = b"".join(map(bytes, together.batch(batch, interfaces, ethertypes=ethertypes)))
        assert got.split(b"\n") == expected.split(b"\n")
    return together.alone


@pytest.mark.parametrize("paint", [plain, tagged])
@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_bundled_captures(path: Path, paint: Paint) -> None:
    with open_capture(path, batch_frames=500) as reader:
        assert_same(list(first_frames(reader, 2000)), reader.interfaces, paint=paint)


def test_shared_captures() -> None:
    if not SHARED_CAPTURES.is_dir():
        pytest.skip(f"{SHARED_CAPTURES} is not there: no shared captures to compare with")
    compared = 0
    for path in sorted(SHARED_CAPTURES.rglob("*")):
        if path.suffix not in (".pcap", ".pcapng", ".cap"):
            continue
        try:
            with open_capture(path, batch_frames=SHARED_FRAMES) as reader:
                batches = list(first_frames(reader, SHARED_FRAMES))
                assert_same(batches, reader.interfaces)
        except CaptureError:
            continue  # no capture, or a broken one
        compared += sum(map(len, batches))
    assert compared


def first_frames(reader: object, count: int) -> Iterator[Batch]:
    for batch in reader:  # type: ignore[attr-defined]
        yield batch
        if batch.first + len(batch) >= count:
            return


_WHOLE = st.one_of(octets_of(frames()), mutated(), arbitrary_octets())


@given(
    st.lists(st.one_of(_WHOLE.map(lambda octets: (octets, len(octets))), truncated()), max_size=8), st.data()
)
def test_drawn_frames(drawn: list[tuple[bytes, int]], data: st.DataObject) -> None:
    batch = Batch.from_frames(
        [octets for octets, _ in drawn],
        original=[original for _, original in drawn],
        interface=[data.draw(st.integers(0, len(INTERFACES) - 1)) for _ in drawn],
        time_ns=[data.draw(st.integers(-(10**12), 2 * 10**18)) for _ in drawn],
        first=data.draw(st.sampled_from((0, 99_998))),
    )
    timed = np.array([data.draw(st.booleans()) for _ in drawn], np.bool_)
    assert_same([batch, dataclasses.replace(batch, timed=timed)], INTERFACES, paint=tagged)


def test_spoilt_frames() -> None:
    generator = random.Random(802_1)
    batches = [spoilt_batch(generator, 500) for _ in range(4)]
    alone = assert_same(batches, INTERFACES)
    assert len(alone) < sum(map(len, batches)) / 2


def test_other_ethertypes() -> None:
    ethertypes = EtherTypes(
        c_tag=0x9999, cn_tag=0x8100, cnm=0x88B5, message=0x22E7, lldp=0x8808, mac_control=0x88CC
    )
    assert_same([Batch.from_frames(list(FRAMES.values()))], ethertypes=ethertypes)


def test_nearly_every_frame_has_a_program() -> None:
    original = [len(DATA) if name == "cut" else len(frame) for name, frame in FRAMES.items()]
    alone = assert_same([Batch.from_frames(list(FRAMES.values()), original=original)])
    assert {list(FRAMES)[number - 1] for number in alone} == {
        "lldp", "only addresses", "arp over infiniband", "arp of another protocol", "arp of other addresses",
        "arp cut", "dcbx", "cee", "other organizations",
    }  # fmt: skip


def test_malformed_frames_have_programs() -> None:
    # a different error each, more of them than a batch has other texts
    cut = [FRAMES["tcp"][:size] for size in range(15, 54)] + [TOO_LONG]
    batch = Batch.from_frames([FRAMES["lldp"], *cut, FRAMES["lldp"]])
    assert assert_same([batch, batch], paint=tagged) == [1, len(batch)] * 2


_OTHER = bytes.fromhex("0200000000aa")
_BACK, _ELSEWHERE = Ethernet(dst=SOURCE, src=SINK), Ethernet(dst=_OTHER, src=SINK)
_SAMPLE = DATA[:60]
MESSAGES: dict[str, list[Layer]] = {
    "from another address": [_BACK, CNM(cpid=CP1, encap_dst=SINK, msdu=DATA[12:60])],
    "from its own": [_BACK, CNM(cpid=cpid(SINK, 7), q_offset=-1, q_delta=1, encap_dst=SINK)],
    "to another address": [_ELSEWHERE, ECM(cpid=CP1, q_off=3, q_delta=6, payload=_SAMPLE)],
    "stop": [_BACK, ECM(cpid=CP1, payload=_SAMPLE)],
    "nearly stop": [_BACK, ECM(cpid=CP1, q_delta=-1, payload=_SAMPLE)],
    "negative twice": [_BACK, ECM(cpid=CP1, q_off=-3, q_delta=-6, timestamp=65535, unit=15, payload=_SAMPLE)],
    "bcn": [_BACK, BCN(type=1, cpid=CP1, e=-(1 << 31), capacity=0xFFFFFFFF, payload=_SAMPLE)],
    "forth": [_BACK, E2CM(type=3, cpid=CP1, latency=0xFFFFFFFF)],
    "back": [_BACK, E2CM(type=4, cpid=CP1, latency=999_950, throughput=12_345)],
}


@pytest.mark.parametrize("name", MESSAGES)
def test_messages_have_programs(name: str) -> None:
    assert assert_same([Batch.from_frames([octets(*MESSAGES[name])] * 2)], paint=tagged) == []


def test_nested_message_is_printed_singly() -> None:
    inner = octets(*MESSAGES["stop"])
    assert assert_same([Batch.from_frames([octets(_BACK, ECM(cpid=CP1, q_off=1, payload=inner))])]) == [1]


def test_only_frame_with_bad_fcs_is_printed_singly() -> None:
    good = [octets + frame_check_sequence(octets) for octets in FRAMES.values() if len(octets) >= 60]
    bad = [octets[:-1] + bytes([octets[-1] ^ 1]) for octets in good]
    batch = Batch.from_frames([*good, *bad], original=[len(octets) for octets in [*good, *bad]])
    alone = set(assert_same([batch], [Interface(index=0, linktype=1, fcs_octets=4)]))
    assert set(range(len(good) + 1, len(batch) + 1)) <= alone
    assert len(alone) < len(batch)


def test_times_count_from_first_frame_shown_or_not() -> None:
    lines = Lines()
    batch = Batch.from_frames(list(FRAMES.values()), time_ns=np.arange(len(FRAMES)) * 1_000_000_000 + 7)
    shown = np.arange(len(FRAMES)) == 5
    ((text),) = lines.batch(batch, [Interface(index=0, linktype=1)], shown=shown)
    assert bytes(text)[:19] == b"    6  5.000000000 "
