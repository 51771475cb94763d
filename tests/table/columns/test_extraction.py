"""Columns are what the one-frame decoder says, field by field, of whatever frames."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.capture import Batch, open_capture
from ecmproto.errors import CaptureError
from ecmproto.fuzz.strategies import arbitrary_octets, frames, mutated, octets_of, truncated
from ecmproto.wire import EtherTypes
from tests.conftest import SHARED_CAPTURES
from tests.dissect.sample import FRAMES
from tests.table.columns.reference import assert_equal
from tests.table.columns.spoilt import INTERFACES, spoilt_batch

BUNDLED = sorted(
    path for path in (Path(__file__).parents[3] / "pcaps").iterdir() if ".pcap" in "".join(path.suffixes)
)
SPOILT_FRAMES = int(os.environ.get("ECMPROTO_SPOILT_FRAMES", "4000"))
SHARED_FRAMES = int(os.environ.get("ECMPROTO_SHARED_FRAMES", "200"))
"""How many spoilt frames, and how many frames of each shared capture; a long run sets them high."""
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
            continue  # no capture, or a broken one: what there is to read was compared
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


def test_other_ethertypes() -> None:
    ethertypes = EtherTypes(
        c_tag=0x9999, cn_tag=0x8100, cnm=0x88B5, message=0x22E7, lldp=0x8808, mac_control=0x88CC
    )
    batch = Batch.from_frames(list(FRAMES.values()))
    assert_equal(batch, ethertypes=ethertypes)
