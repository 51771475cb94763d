"""Open-loop replay with the congestion points of all mechanisms: messages and tags."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ecmproto import BCN, CNM, ECM, CNTag, Ethernet, EtherTypes, decode
from ecmproto.control.engine.config import PortConfig
from ecmproto.control.engine.frames import GeneratedFrame
from ecmproto.control.engine.port import DROPPED, ENQUEUED
from ecmproto.control.mechanisms.aimd.congestion_point import ECMPayload
from ecmproto.control.mechanisms.api.protocol import PAUSE_KIND, PFC_KIND, FlowControlPayload, payload_columns
from ecmproto.control.replay.open_loop import OpenLoopReplay, ReplayedBatch, merged
from ecmproto.frames.capture.batch import Batch
from tests.replay.loops import BUSY, CP_MAC, HOST, machine
from tests.replay.many_kinds import TAGS

START_NS = 1_650_000_000_000_000_000
SLOT_NS = 1_000
FACTS = PortConfig(rate_bps=10**10, buffer_octets=120_000, cp_mac=CP_MAC)
OWN_CPID = CP_MAC + b"\x00\x01"
"""The CPID of the congestion point of priority 0."""


def frame(station: int, tags: str = "") -> bytes:
    header = HOST + b"\xfa" + HOST + bytes([station]) + bytes.fromhex(tags)
    return (header + b"\x99\x99").ljust(128, bytes([station]))


def batch_of(
    frames: Sequence[bytes], times_ns: Sequence[int], *, first: int = 0, octets: int = 1_500
) -> Batch:
    times = [START_NS + time_ns for time_ns in times_ns]
    return Batch.from_frames(frames, time_ns=times, original=octets, first=first)


def wave(count: int = 2_000) -> list[int]:
    """Return times at which the queue fills for a while and empties for a while, again and again."""
    gaps = np.where(np.arange(count) // 150 % 2 == 0, 900, 1_700)
    return [int(t) for t in np.cumsum(gaps) - gaps[0]]


def replayed(name: str, *batches: Batch, **options: Any) -> tuple[OpenLoopReplay, list[ReplayedBatch]]:
    run = OpenLoopReplay(batches, machine=machine(name, *BUSY[name]), port=FACTS, seed=1, **options)
    return run, list(run)


def generated(parts: list[ReplayedBatch]) -> list[GeneratedFrame]:
    return [piece for piece in merged(parts) if isinstance(piece, GeneratedFrame)]


def octets_out(parts: list[ReplayedBatch]) -> list[bytes]:
    return [octets for piece in merged(parts) if isinstance(piece, Batch) for octets in piece.frames()]


SAYING = ["qcn", "ecm", "bcn", "e2cm", "pause", "pfc"]


@pytest.mark.parametrize("name", SAYING)
def test_messages_of_every_congestion_point_decode(name: str) -> None:
    frames = [frame(n % 3 + 1) for n in range(2_000)]
    run, parts = replayed(name, batch_of(frames, wave()))
    made = generated(parts)
    assert len(made) == sum(run.summary().ports[0].messages.values()) > 10
    for one in made:
        message = decode(one.octets)
        assert message[Ethernet].src == CP_MAC
        if name in ("pause", "pfc"):
            assert message[Ethernet].dst == bytes.fromhex("0180c2000001")
        else:
            assert message[Ethernet].dst == frames[one.cause][6:12]
            assert one.time_ns == START_NS + wave()[one.cause]
    assert [one.time_ns for one in made] == sorted(one.time_ns for one in made)


@pytest.mark.parametrize("name", ["none", "fecn", "dbp"])
def test_mechanisms_without_messages_send_none(name: str) -> None:
    run, parts = replayed(name, batch_of([frame(1)] * 500, wave(500)))
    assert run.summary().ports[0].messages == {}
    assert generated(parts) == []
    assert octets_out(parts) == [frame(1)] * 500


@pytest.mark.parametrize("name", sorted(BUSY.keys() - {"isolation"}))
def test_the_outcome_does_not_depend_on_the_batches(name: str) -> None:
    frames = [frame(n % 3 + 1, TAGS[name] if name in TAGS and n % 2 else "") for n in range(1_000)]
    times = wave(1_000)
    run, (whole,) = replayed(name, batch_of(frames, times), with_flows=True)
    cuts = [0, 1, 1, *range(40, 1_000, 37), 1_000]
    split, parts = replayed(
        name,
        *(batch_of(frames[a:b], times[a:b], first=a) for a, b in pairwise(cuts)),
        with_flows=True,
    )
    assert np.concatenate([part.disposition for part in parts]).tolist() == whole.disposition.tolist()
    assert np.concatenate([part.tag for part in parts]).tolist() == whole.tag.tolist()
    assert [(m.time_ns, m.octets, m.comment) for m in generated([whole])] == [
        (m.time_ns, m.octets, m.comment) for m in generated(parts)
    ]
    one, many = run.summary().as_dict(), split.summary().as_dict()
    assert one == many


def test_ecm_sends_positive_feedback_to_its_flows() -> None:
    """Algorithms 1: positive feedback goes only to flows that this congestion point limits."""
    own, foreign = "88b6 0000 " + OWN_CPID.hex() + " 1234 3000", "88b6 0000 0200000000ee0001 1234 3000"
    frames = [frame(n % 3 + 1, ["", own, foreign][n % 3]) for n in range(2_000)]
    run, (part,) = replayed("ecm", batch_of(frames, wave()))
    messages = part.messages[part.messages["qlen_octets"] <= 40_000]  # above Qsc, ECM(0,0) goes to all
    assert set(payload_columns(messages, ECMPayload)["cpid"].tolist()) == {
        int.from_bytes(OWN_CPID, signed=True)
    }
    sent = messages[messages["sent"] == 1]
    above = sent["qoff_octets"] > 0
    assert set((sent["cause"][above] % 3).tolist()) == {0, 1, 2}
    assert set((sent["cause"][~above] % 3).tolist()) == {1}
    # Messages that other flows would have received are silent samples.
    silent = messages[messages["sent"] == 0]
    assert set((silent["cause"][silent["qoff_octets"] < 0] % 3).tolist()) == {0, 2}
    for one in generated([part]):
        assert decode(one.octets)[ECM].cpid == int.from_bytes(OWN_CPID)
        # The message contains the sampled frame with its tag.
        shown = {0: "9999", 1: own, 2: foreign}[one.cause % 3]
        assert bytes.fromhex(shown) in one.octets
    assert run.summary().ports[0].unanswered == 0


def test_bcn_sends_positive_feedback_to_its_flows() -> None:
    own, foreign = "88b6 0100 " + OWN_CPID.hex(), "88b6 0100 0200000000ee0001"
    frames = [frame(n % 3 + 1, ["", own, foreign][n % 3]) for n in range(2_000)]
    _, (part,) = replayed("bcn", batch_of(frames, wave()))
    sent = part.messages[part.messages["sent"] == 1]
    above = sent["qoff_octets"] > 0
    assert set((sent["cause"][above] % 3).tolist()) == {0, 1, 2}
    assert set((sent["cause"][~above] % 3).tolist()) == {1}
    assert all(decode(one.octets)[BCN].cpid == int.from_bytes(OWN_CPID) for one in generated([part]))


def test_fecn_changes_only_rates_of_rd_tags() -> None:
    tags = {"low": "88b6 0300 0001 000000ff", "any": "88b6 0300 0002 ffffffff"}
    frames = [frame(n % 3 + 1, ["", *tags.values()][n % 3]) for n in range(2_000)]
    _, parts = replayed("fecn", batch_of(frames[:700], wave()[:700]), batch_of(frames[700:], wave()[700:]))
    dispositions = np.concatenate([part.disposition for part in parts])
    rates = []
    for number, (octets, before) in enumerate(zip(octets_out(parts), frames, strict=True)):
        if number % 3 != 2 or dispositions[number] != ENQUEUED:
            assert octets == before
            continue
        at = before.index(bytes.fromhex(tags["any"]))
        assert (octets[: at + 6], octets[at + 10 :]) == (before[: at + 6], before[at + 10 :])
        rates.append(int.from_bytes(octets[at + 6 : at + 10]))
    # In kb/s, from C/N0 on, never above the port's own.
    assert rates[0] == 2_500_000
    assert max(rates) <= 10_000_000
    assert len(set(rates)) > 5
    assert (dispositions[2::3] == DROPPED).any() or (dispositions == ENQUEUED).all()


def test_cnm_echoes_flow_id_of_sampled_frame() -> None:
    frames = [frame(n % 3 + 1, "22e9" + f"{n % 3 + 77:04x}" if n % 3 else "") for n in range(2_000)]
    _, (part,) = replayed("qcn", batch_of(frames, wave()))
    for one in generated([part]):
        message = decode(one.octets)
        assert message[CNTag].flow_id == (one.cause % 3 + 77 if one.cause % 3 else 0)
        assert message[CNM].cpid == int.from_bytes(OWN_CPID)
        assert message[CNM].msdu == frames[one.cause][16 if one.cause % 3 else 12 :][:64]
    assert {one.cause % 3 for one in generated([part])} == {0, 1, 2}


def test_pause_by_input_stops_the_filling_station() -> None:
    frames = [frame(2 if n % 10 == 9 else 1) for n in range(600)]
    for name, kind in (("pause", PAUSE_KIND), ("pfc", PFC_KIND)):
        made = machine(name, "cp.pause_on=input", "cp.high=30kB", "cp.low=10kB")
        run = OpenLoopReplay([batch_of(frames, wave(600))], machine=made, port=FACTS, seed=1)
        (part,) = run
        assert set(part.messages["kind"].tolist()) == {kind}
        assert set(part.messages["station"].tolist()) == {0}
        assert {0, 65_535} == set(payload_columns(part.messages, FlowControlPayload)["quanta"].tolist())


def test_other_ethertypes_distinguish_flows() -> None:
    frames = [frame(1, f"9abc 000{vlan}") for vlan in (1, 2)]
    counts = []
    for ethertypes in (EtherTypes(), EtherTypes(c_tag=0x9ABC)):
        run, _ = replayed("qcn", batch_of(frames, [0, 1]), with_flows=True, ethertypes=ethertypes)
        counts.append(len(run.summary().flows))
    assert counts == [1, 2]
