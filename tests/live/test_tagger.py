"""Tags put into single frames are those that whole batches get."""

from __future__ import annotations

import numpy as np
import pytest

from ecmproto.capture.batch import Batch
from ecmproto.codec import EtherTypes
from ecmproto.formats.ethertypes import DEFAULT
from ecmproto.live.tagging import Tagger, without_tags
from tests.live.virtual import frame, machine_for
from tests.replay.many_kinds import TAGS, TWO_VLANS, VLAN

MARKS = {"qcn": (0x42, 0), "ecm": (0x0200000000CC0004, 0x31234), "bcn": (0x0200000000CC0004, 0)}
MARKS |= {"e2cm": MARKS["ecm"], "fecn": (255, 1)}


@pytest.mark.parametrize("name", sorted(TAGS))
@pytest.mark.parametrize("head", ["", VLAN, TWO_VLANS])
def test_a_tag_goes_behind_the_vlan_stack_and_comes_off_again(name: str, head: str) -> None:
    bare = frame(1, 2, 200, head=head)
    tagger, machine = Tagger(machine_for(name), DEFAULT), machine_for(name)
    for _ in range(2):
        tagged = tagger.tagged(bare, *MARKS[name])
        assert tagged == frame(1, 2, 200 + len(bytes.fromhex(TAGS[name])), head=f"{head} {TAGS[name]}")
    assert without_tags(Batch.from_frames([tagged or b""]), machine, DEFAULT)[0].frame(0) == bare


@pytest.mark.parametrize("head", [*TAGS.values(), f"{VLAN} {TAGS['qcn']}"])
def test_frames_with_tags_are_left_to_others(head: str) -> None:
    assert Tagger(machine_for("qcn"), DEFAULT).tagged(frame(1, 2, head=head), 1, 0) is None


@pytest.mark.parametrize("octets", range(14))
def test_frames_without_a_header_are_left_alone(octets: int) -> None:
    assert Tagger(machine_for("qcn"), DEFAULT).tagged(frame(1, 2)[:octets], 1, 0) is None


def test_other_ethertypes_are_used_and_memory_is_bounded() -> None:
    tagger = Tagger(machine_for("ecm"), EtherTypes(tag=0x9876))
    for mark in range(10_000):
        assert (tagger.tagged(frame(1, 2), 1, mark & 0xFFFF) or b"")[12:14] == b"\x98\x76"
    assert len(tagger._built) <= 4096


def test_a_cpid_with_the_highest_bit_is_kept() -> None:
    cpid = int(np.array([0xF200000000CC0004], np.uint64).astype(np.int64)[0])
    tagged = Tagger(machine_for("bcn"), DEFAULT).tagged(frame(1, 2), cpid, 0)
    assert tagged is not None
    assert tagged[16:24] == bytes.fromhex("f200000000cc0004")
