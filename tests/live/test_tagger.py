"""Tags added to and removed from single frames in place equal the tags of whole batches."""

from __future__ import annotations

import numpy as np
import pytest

from ecmproto.control.engine.frames import tag_rows
from ecmproto.control.live.tagging import (
    NO_OFFSET,
    VLAN_OCTETS,
    new_tagging,
    put_tag_on,
    put_vlan_on,
    take_tags_off,
    take_vlan_off,
)
from ecmproto.frames.batch.tags import spliced_batch, tag_splice
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.codec import EtherTypes
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.live.virtual import frame, machine_for
from tests.replay.many_kinds import TAGS, TWO_VLANS, VLAN

MARKS = {"qcn": (0x42, 0), "ecm": (0x0200000000CC0004, 0x31234), "bcn": (0x0200000000CC0004, 0)}
MARKS |= {"e2cm": MARKS["ecm"], "fecn": (255, 1)}
ROOM = 64


def tagged(name: str, octets: bytes, tag: int, mark: int, ethertypes: EtherTypes = DEFAULT) -> bytes | None:
    """Return a frame with a tag, None where it gets none."""
    tagging = new_tagging(machine_for(name), None, ethertypes)
    buffer = np.frombuffer(bytes(ROOM) + octets, np.uint8).copy()
    put_tag_on(tagging, buffer, ROOM, len(octets), 77, 3)  # another tag before: it is removed completely
    buffer[:] = np.frombuffer(bytes(ROOM) + octets, np.uint8)
    longer = put_tag_on(tagging, buffer, ROOM, len(octets), tag, mark)
    return None if longer == NO_OFFSET else buffer[ROOM - longer :].tobytes()


def in_batch(name: str, octets: bytes, tag: int, mark: int) -> bytes:
    """Return a frame with a tag as batches get it."""
    kind, batch = machine_for(name).tag, Batch.from_frames([octets])
    assert isinstance(kind, TagFormat)
    rows = tag_rows(kind, np.array([tag]), np.array([mark]))
    return spliced_batch(batch, tag_splice(batch, rows, kind)).frame(0)


@pytest.mark.parametrize("name", sorted(TAGS))
@pytest.mark.parametrize("head", ["", VLAN, TWO_VLANS])
def test_tags_follow_the_vlan_tags_and_are_removable(name: str, head: str) -> None:
    bare = frame(1, 2, 200, head=head)
    octets = tagged(name, bare, *MARKS[name])
    assert octets == frame(1, 2, 200 + len(bytes.fromhex(TAGS[name])), head=f"{head} {TAGS[name]}")
    assert octets is not None
    buffer = np.frombuffer(octets, np.uint8).copy()
    removed = take_tags_off(new_tagging(machine_for(name), None, DEFAULT), buffer, 0, len(octets))
    assert buffer[removed:].tobytes() == bare


@pytest.mark.parametrize("name", sorted(TAGS))
def test_tagging_single_frames_equals_tagging_batches(name: str) -> None:
    own = TAGS[name]
    for head in (own, f"{VLAN} {own}", f"{own} {VLAN} {own}", f"{TAGS['qcn']} {VLAN}", *TAGS.values()):
        for octets in (frame(1, 2, 90, head=head), frame(1, 2, 90, head=head)[:15]):
            expected = in_batch(name, octets, *MARKS[name])
            assert (tagged(name, octets, *MARKS[name]) or octets) == expected


@pytest.mark.parametrize("octets", range(14))
def test_frames_without_a_header_are_unchanged(octets: int) -> None:
    assert tagged("qcn", frame(1, 2)[:octets], 1, 0) is None


def test_configured_ethertypes_are_used() -> None:
    for mark in (0, 1, 0xFFFF, 0x1234):
        octets = tagged("ecm", frame(1, 2), 1, mark, EtherTypes(tag=0x9876))
        assert octets is not None
        assert octets[12:14] == b"\x98\x76"


def test_a_cpid_with_the_highest_bit_is_kept() -> None:
    cpid = int(np.array([0xF200000000CC0004], np.uint64).astype(np.int64)[0])
    octets = tagged("bcn", frame(1, 2), cpid, 0)
    assert octets is not None
    assert octets[16:24] == bytes.fromhex("f200000000cc0004")


@pytest.mark.parametrize("octets", [9, 13, 14, 17, 18, 60])
@pytest.mark.parametrize("head", ["", "8100 6005", "8100 6006", "88a8 6005", "9100 6005"])
def test_vlan_tag_is_added_to_untagged_frames(octets: int, head: str) -> None:
    tagging = new_tagging(machine_for("none"), 3 << 13 | 5, DEFAULT)
    bare = frame(1, 2, 60, head=head)[:octets]
    buffer = np.frombuffer(bytes(ROOM) + bare, np.uint8).copy()
    longer = put_vlan_on(tagging, buffer, ROOM, octets)
    assert longer == (VLAN_OCTETS if not head and octets >= 14 else 0)
    expected = bare[:12] + bytes.fromhex("81006005") + bare[12:] if longer else bare
    assert buffer[ROOM - longer :].tobytes() == expected
    start, length = ROOM - longer, octets + longer
    shorter = take_vlan_off(tagging, buffer, start, length)
    ours = expected[12:16] == bytes.fromhex("81006005") and length >= 18
    assert shorter == VLAN_OCTETS * ours
    assert buffer[start + shorter :].tobytes() == (expected[:12] + expected[16:] if ours else expected)
