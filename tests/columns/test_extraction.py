"""Columns equal the fields of the decoder for single frames, for all frames."""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.errors import CaptureError, SpecError
from ecmproto.frames.batch.parse_tables import NUMBER_OF, UNKNOWN, parse_tables
from ecmproto.frames.capture import Batch, open_capture
from ecmproto.frames.columns import extract, walk
from ecmproto.frames.columns.extraction import SHARED_FRAMES as SHARED_WORK
from ecmproto.tools.fuzz.strategies import arbitrary_octets, frames, mutated, octets_of, truncated
from ecmproto.wire.codec import CNM, TLV, VLAN, EtherTypes, IPv4, IPv4ARP, Layer, OtherARP
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.columns.reference import assert_equal
from tests.columns.spoilt import INTERFACES, spoilt_batch
from tests.conftest import SHARED_CAPTURES
from tests.dissect.sample import FRAMES

BUNDLED = sorted(
    path for path in (Path(__file__).parents[2] / "pcaps").iterdir() if ".pcap" in "".join(path.suffixes)
)
SPOILT_FRAMES = int(os.environ.get("ECMPROTO_SPOILT_FRAMES", "4000"))
SHARED_FRAMES = int(os.environ.get("ECMPROTO_SHARED_FRAMES", "200"))
"""The numbers of spoilt frames, and of frames of each shared capture; a long run sets them high."""
_BATCH_FRAMES = 1000


@pytest.mark.parametrize("path", BUNDLED, ids=lambda path: path.name)
def test_bundled_captures(path: Path) -> None:
    with open_capture(path, batch_frames=2000) as reader:
        for batch in reader:
            assert_equal(batch, interfaces=reader.interfaces)
            if batch.first + len(batch) >= 2000:
                break


def test_shared_captures() -> None:
    if not SHARED_CAPTURES.is_dir():
        pytest.skip(f"{SHARED_CAPTURES} is not there: no shared captures to compare with")
    compared = 0
    for path in sorted(SHARED_CAPTURES.rglob("*")):
        if path.suffix not in (".pcap", ".pcapng", ".cap"):
            continue
        try:
            with open_capture(path, batch_frames=max(1, SHARED_FRAMES)) as reader:
                for batch in reader:
                    assert_equal(batch, interfaces=reader.interfaces)
                    compared += len(batch)
                    if batch.first + len(batch) >= SHARED_FRAMES:
                        break
        except CaptureError:
            continue  # an invalid or damaged capture: only readable frames were compared
    assert compared


_WHOLE = st.one_of(octets_of(frames()), mutated(), arbitrary_octets())


@given(
    st.lists(st.one_of(_WHOLE.map(lambda octets: (octets, len(octets))), truncated()), max_size=8), st.data()
)
def test_drawn_frames(drawn: list[tuple[bytes, int]], data: st.DataObject) -> None:
    batch = Batch.from_frames(
        [octets for octets, _ in drawn],
        original=[original for _, original in drawn],
        interface=[data.draw(st.integers(0, len(INTERFACES) - 1)) for _ in drawn],
    )
    assert_equal(batch, interfaces=INTERFACES)


def test_spoilt_frames() -> None:
    generator = random.Random(20020)
    for _ in range(max(1, SPOILT_FRAMES // _BATCH_FRAMES)):
        assert_equal(spoilt_batch(generator, _BATCH_FRAMES), interfaces=INTERFACES)


def test_inner_length_up_to_where_capture_was_cut() -> None:
    # TCP headers longer than their IP packet, in frames with different numbers of missing octets.
    octets = bytes.fromhex(
        "80711f84efc580711f84efcc8100003208004500004000000000000600000a0000100a000011"
        "fa5405f201537f0100000000ff02ffff3ede0000" + 24 * "01"
    )
    assert_equal(Batch.from_frames([octets] * 4, original=[len(octets) + more for more in (0, 1, 16, 40)]))


@pytest.mark.parametrize(
    "text",
    [
        "88cc fe03 0080c2 01 fe04 0080c2 01",  # one octet too short for a subtype, and long enough
        "0800 4500001c 00000000 40000000 c0000201 c0000202 1100 000000000000",  # 0 is an IPv6 header only
    ],
)
def test_boundaries_of_formats(text: str) -> None:
    assert_equal(Batch.from_frames([bytes.fromhex("020000000002 020000000001" + text)]))


def test_other_ethertypes() -> None:
    ethertypes = EtherTypes(
        c_tag=0x9999, cn_tag=0x8100, cnm=0x88B5, message=0x22E7, lldp=0x8808, mac_control=0x88CC
    )
    batch = Batch.from_frames(list(FRAMES.values()))
    assert_equal(batch, ethertypes=ethertypes)


@pytest.mark.parametrize("cls", [VLAN, CNM, IPv4, TLV, IPv4ARP, OtherARP], ids=lambda cls: cls.prefix)
def test_formats_unknown_to_the_walk_are_decoded(cls: type[Layer], monkeypatch: pytest.MonkeyPatch) -> None:
    changed = parse_tables.__wrapped__(DEFAULT)
    changed.follows[NUMBER_OF[cls]] = UNKNOWN
    monkeypatch.setattr(walk, "parse_tables", lambda ethertypes: changed)
    assert_equal(spoilt_batch(random.Random(cls.prefix), 500), interfaces=INTERFACES)


def test_thousands_of_layers_are_extracted() -> None:
    stack = bytes(12) + bytes.fromhex("81000005") * 9000 + bytes(2)
    assert_equal(Batch.from_frames([stack, *FRAMES.values(), stack]), ("vlan.id", "frame.protocols"))


def test_no_frames() -> None:
    assert_equal(Batch.from_frames([]))


def test_two_threads_give_equal_columns() -> None:
    batch = Batch.from_frames([*FRAMES.values()] * (2 * SHARED_WORK // len(FRAMES)))
    with ThreadPoolExecutor(1) as pool:
        columns, alone = extract(batch, pool=pool), extract(batch)
    for name, column in alone.items():
        assert columns[name].rows.tolist() == column.rows.tolist(), name
        assert list(columns[name].python_values()) == list(column.python_values()), name


def test_a_part_of_the_fields() -> None:
    batch = Batch.from_frames(list(FRAMES.values()))
    assert_equal(batch, ("cnm.cpid", "eth.addr", "encapsulated.ip.src", "lldp.tlv.type", "frame.len"))


def test_other_fields_where_any_frame_has_a_layer() -> None:
    batch = Batch.from_frames(list(FRAMES.values()))
    instead = ("frame.len", "eth.type", "encapsulated.eth.dst")
    with_cnms = extract(batch, ["frame.time_epoch"], where_any=("cnm.qntz_fb", instead))
    assert {name: len(column) for name, column in with_cnms.items()} == {
        name: len(column) for name, column in extract(batch, instead).items()
    }
    others = batch.select(with_cnms["eth.type"].rows[with_cnms["eth.type"].values == 0x8808])
    assert len(others)
    without = extract(others, ["frame.time_epoch"], where_any=("cnm.qntz_fb", instead))
    assert list(without) == ["frame.time_epoch"]


def test_unknown_field_is_refused() -> None:
    with pytest.raises(SpecError, match="did you mean"):
        extract(Batch.from_frames([]), ["vlan.idd"])
