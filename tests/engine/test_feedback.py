"""Feedback in a capture: recipients of messages for all batch sizes, and effects of forged frames."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.engine.arrivals import Intake
from ecmproto.control.engine.feedback import (
    CapturedFeedback,
    FeedbackCounters,
    feedback_counters,
    new_feedback_counters,
    read_feedback,
)
from ecmproto.control.mechanisms.api.machine import Machine, PortContext, SampledFrame
from ecmproto.control.mechanisms.api.protocol import (
    EVERY_STATION,
    NO_CAUSE,
    PAUSE_KIND,
    PFC_KIND,
    fields_of,
    messages_of,
)
from ecmproto.control.mechanisms.pause.congestion_point import Signal
from ecmproto.control.mechanisms.pause.messages import pause_frame, pfc_frame
from ecmproto.control.mechanisms.qcn.reaction_point import LAST_FLOW_ID
from ecmproto.frames.batch.flows import FlowTable
from ecmproto.frames.capture.batch import Batch, Interface
from ecmproto.kernels.record import columns
from ecmproto.wire.codec import E2CM, decode_lax
from ecmproto.wire.formats.ethertypes import DEFAULT
from tests.replay.loops import CP_MAC, HOST, START_NS, machine

A, B, FAR, OTHER = (HOST + bytes([number]) for number in (1, 2, 250, 251))
STRANGER = HOST + b"\x09"
PLACE = PortContext(rate_bps=10**10, link_rate_bps=10**10, cp_mac=CP_MAC, stations=4, flows=8)
PRIORITY = 3
TELLING = {
    ("qcn", 1): {"qntz_fb": 31},
    ("ecm", 1): {"q_off": 200, "q_delta": 300},
    ("ecm", 3): {},
    ("bcn", 1): {"e": -400, "capacity": 10**7},
    ("bcn", 2): {"capacity": 10**7},
    ("e2cm", 1): {"q_off": 200, "q_delta": 300},
    ("e2cm", 2): {"q_off": 375, "q_delta": 750},
    ("e2cm", 3): {},
    ("e2cm", 4): {"latency": 10**6, "throughput": 10**6},
    ("fecn", 1): {"rlq_id": 1, "rate_kbps": 10**6},
    ("dbp", 1): {"rate_kbps": 10**6},
}
"""Fields of messages that reduce a flow's rate, by mechanism and message type."""
NAMES = sorted({name for name, _ in TELLING})


def data(
    src: bytes = A, dst: bytes = FAR, *, vlan: int = 5, priority: int = PRIORITY, cn_flow: int | None = None
) -> bytes:
    tags = b"\x81\x00" + (priority << 13 | vlan).to_bytes(2)
    if cn_flow is not None:
        tags += b"\x22\xe9" + cn_flow.to_bytes(2)
    return dst + src + tags + b"\x08\x00" + b"\x45" * 80


def frame_of(said: Machine, about: bytes, kind: int = 1, **fields: int) -> bytes:
    """Return the frame of a message about the frame ``about``."""
    fields |= {"kind": kind, "sent": 1, "priority": PRIORITY}
    fields["cpid"] = int.from_bytes(CP_MAC) << 16 | PRIORITY + 1
    (message,) = messages_of([fields], said.payloads)
    at = 16 if about[16:18] == b"\x08\x00" else 20
    return said.frame(message, SampledFrame(about, len(about), at), PLACE)


class FeedbackReader:
    """Reads the feedback in captured frames as a closed loop does."""

    def __init__(self, of: Machine, *, interfaces: Sequence[Interface] = ()) -> None:
        self.machine = of
        self.flows = FlowTable(of.flow_key, max_stations=PLACE.stations, max_flows=PLACE.flows)
        self.counters: FeedbackCounters = new_feedback_counters(of)
        self._intake = Intake(of, cp_mac=CP_MAC, ethertypes=DEFAULT, interfaces=interfaces, flows=self.flows)
        self._taken = 0

    def read(self, *frames: bytes, original: Sequence[int] | None = None) -> CapturedFeedback:
        times_ns = [START_NS + 100 * (self._taken + number) for number in range(len(frames))]
        self._taken += len(frames)
        batch = Batch.from_frames(list(frames), time_ns=times_ns, original=original)
        taken = self._intake.take(batch)
        before = table(self.flows)
        found = read_feedback(taken, self.machine, PLACE, self.flows, self.counters)
        assert table(self.flows) == before
        return found

    def counted(self) -> dict[str, int]:
        """Return the nonzero counters."""
        return {name: count for name, count in feedback_counters(self.counters).items() if count}


def table(flows: FlowTable) -> tuple[object, ...]:
    names: Any = flows.counts
    return names.tolist(), flows.flows()


def told(of: Machine, found: CapturedFeedback, *names: str) -> list[tuple[Any, ...]]:
    said = [fields_of(message, of.payloads) for message in found.messages]
    return [tuple(fields[name] for name in names) for fields in said]


def places(found: CapturedFeedback) -> list[tuple[int, int]]:
    stations = columns(found.messages)
    return list(zip(stations["station"].tolist(), stations["flow"].tolist(), strict=True))


@pytest.mark.parametrize(("of", "fields"), TELLING.items(), ids=str)
def test_message_reaches_its_station_and_flow(of: tuple[str, int], fields: dict[str, int]) -> None:
    name, kind = of
    reader = FeedbackReader(machine(name))
    frames = [data(B), data(A, OTHER), data(A, FAR)]
    found = reader.read(*frames, frame_of(reader.machine, data(A, FAR), kind, **fields), data(B))
    assert found.message.tolist() == [-1, -1, -1, 0, -1]
    assert found.until.tolist() == [-1, -1, -1, 1, -1]
    assert found.message.dtype == found.until.dtype == np.int32
    # FECN's returning frames have a separate priority, and identify a queue instead of a flow.
    assert places(found) == [(1, -1 if name == "fecn" else 1)]
    wanted = {"kind": kind, "sent": 1, "cause": NO_CAUSE, "time_ns": 300, **fields}
    assert told(reader.machine, found, *wanted) == [tuple(wanted.values())]
    counted = reader.counted()
    assert (counted.pop("feedback_frames"), counted.pop("heard_messages")) == (1, 1)
    assert counted == ({"taken_cnms": 1} if name == "qcn" else {})


def test_fecn_feedback_reaches_an_untagged_flow() -> None:
    reader, bare = FeedbackReader(machine("fecn")), A + b"\x08\x00" + b"\x45" * 80
    found = reader.read(OTHER + bare, FAR + bare, frame_of(reader.machine, FAR + bare, rlq_id=1, rate_kbps=5))
    assert places(found) == [(0, 1)]


# Congestion notification messages and Flow IDs

SENT = [data(), data(A, OTHER), data(A, OTHER, cn_flow=7), data(A, FAR, priority=2), data(A, FAR, vlan=6)]


@pytest.mark.parametrize(
    ("about", "flow"),
    [
        (data(cn_flow=LAST_FLOW_ID), 0),
        (data(A, OTHER, cn_flow=LAST_FLOW_ID - 1), 1),
        (data(A, OTHER, cn_flow=7), 2),
        # The CN-TAG identifies a frame's flow for any destination.
        (data(A, FAR, cn_flow=7), 2),
        # Frames that were sampled without a CN-TAG are identified by addresses and tags.
        (data(), 0),
        (data(cn_flow=0), 0),
        (data(A, OTHER), 1),
        (data(A, FAR, vlan=6), 4),
        # Flow IDs without a flow, or with a flow to another destination or with other tags.
        (data(cn_flow=8), -1),
        (data(cn_flow=LAST_FLOW_ID - 1), -1),
        (data(A, FAR, vlan=6, cn_flow=LAST_FLOW_ID), -1),
        (data(cn_flow=LAST_FLOW_ID - 2), -1),
        (data(cn_flow=LAST_FLOW_ID - 100), -1),
        (data(A, STRANGER), -1),
        (data(A, FAR, vlan=7), -1),
    ],
)
def test_cnm_is_mapped_by_its_flow_id(about: bytes, flow: int) -> None:
    reader = FeedbackReader(machine("qcn"))
    assert places(reader.read(*SENT, frame_of(reader.machine, about, qntz_fb=1))) == [(0, flow)]


def test_a_flow_id_counts_within_its_priority() -> None:
    reader = FeedbackReader(machine("qcn"))
    found = reader.read(*SENT, data(A, FAR, priority=2, cn_flow=7), frame_of(reader.machine, data(cn_flow=7)))
    assert places(found) == [(0, 2)]


# When a frame comes

PARTS = ("qcn", "ecm", "e2cm", "dbp")
STEPS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=1, max_size=20)


@given(st.sampled_from(PARTS), STEPS, st.lists(st.integers(0, 20), max_size=5))
def test_feedback_does_not_depend_on_batches(
    name: str, steps: list[tuple[int, int, bool]], cuts: list[int]
) -> None:
    of, frames, known, wanted = machine(name), [], [], []
    for source, destination, says in steps:
        about = data(HOST + bytes([source]), HOST + bytes([200 + destination]))
        if not says:
            frames.append(about)
            known.append((source, destination))
            continue
        frames.append(frame_of(of, about, **TELLING[name, 1]))
        flows = list(dict.fromkeys(known))
        stations = list(dict.fromkeys(station for station, _ in flows))
        if source in stations:
            own = [flow for station, flow in flows if station == source]
            flow = own.index(destination) if destination in own else -1
            wanted.append((stations.index(source), flow))
    # The congestion point and destinations speak too, and are stations: they come first, by name.
    senders = [data(mac, STRANGER) for mac in (CP_MAC, *(HOST + bytes([200 + n]) for n in range(3)))]
    reader = FeedbackReader(of)
    reader.flows = FlowTable(of.flow_key, max_stations=16, max_flows=16)
    reader._intake.flows = reader.flows
    reader.read(*senders)
    found = []
    for start, stop in pairwise([0, *sorted(min(cut, len(frames)) for cut in cuts), len(frames)]):
        found += places(reader.read(*frames[start:stop]))
    assert found == [(station + len(senders), flow) for station, flow in wanted]


def test_without_feedback_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = FeedbackReader(machine("qcn"))
    monkeypatch.setattr(type(reader.machine), "parse_feedback", lambda *given, **named: pytest.fail("read"))
    monkeypatch.setattr(Batch, "frame", lambda *arguments: pytest.fail("read"))
    lldp = bytes.fromhex("0180c200000e") + A + b"\x88\xcc" + bytes(46)
    found = reader.read(data(), lldp, data()[:13], b"", data()[:17], bytes(60))
    assert found.message.tolist() == found.until.tolist() == [-1] * 6
    assert len(found.messages) == 0
    assert columns(found.messages).dtype == columns(FeedbackReader(machine("qcn")).read().messages).dtype
    assert reader.counted() == {}


def test_fcs_is_stripped_and_truncated_cnm_is_valid() -> None:
    of = machine("qcn")
    cnm = frame_of(of, data(cn_flow=7), qntz_fb=9)
    reader = FeedbackReader(of, interfaces=[Interface(index=0, linktype=1, fcs_octets=4)])
    # The last four octets of the first message belong to its MSDU, whose length field is too large.
    found = reader.read(data(cn_flow=7), cnm, cnm + b"FCS!", cnm[:70], original=[104, 110, 110 + 4, 114])
    assert len(cnm) == 110
    assert found.message.tolist() == [-1, -1, 0, 1]
    assert reader.counted()["lying_msdu_cnms"] == 1


def sampled_frames(name: str) -> list[bytes]:
    """Return a frame of each kind of message that shows a sampled frame."""
    of = machine(name)
    kinds = [kind for mechanism, kind in TELLING if mechanism == name and kind != 4]
    return [frame_of(of, data(), kind, **TELLING[name, kind]) for kind in kinds]


@pytest.mark.parametrize("name", ["ecm", "bcn", "e2cm"])
def test_cut_messages_are_read_while_flow_is_visible(name: str) -> None:
    whole = sampled_frames(name)
    shown = whole[0].index(data()[:18])
    # Addresses and VLAN tag control information of the sampled frame tell its flow.
    for snap, parsed_frames in ((len(whole[0]), len(whole)), (shown + 16, len(whole)), (shown + 15, 0)):
        reader = FeedbackReader(machine(name))
        cut = [octets[:snap] for octets in whole]
        originals = [len(data()), *(len(octets) for octets in whole)]
        found = reader.read(data(), *cut, original=originals)
        assert places(found) == [(0, 0)] * parsed_frames
        assert reader.counted().get("malformed", 0) == len(whole) - parsed_frames


@pytest.mark.parametrize("name", ["ecm", "bcn", "e2cm"])
def test_64_octet_snap_length_changes_no_message(name: str) -> None:
    whole = sampled_frames(name)
    said = []
    for snap in (64, 2000):
        reader = FeedbackReader(machine(name))
        originals = [len(data()), *(len(octets) for octets in whole)]
        found = reader.read(data(), *(octets[:snap] for octets in whole), original=originals)
        said.append([message.tobytes() for message in found.messages])  # type: ignore[attr-defined]
    assert said[0] == said[1]
    assert len(said[0]) == len(whole)


# Forged and foreign feedback


def forged(of: Machine, kind: int, fields: dict[str, int]) -> dict[str, bytes]:
    """Return frames that no reaction point of A obeys; B is a station too."""
    good = frame_of(of, data(), kind, **fields)
    frames = {
        "to a stranger": STRANGER + good[6:],
        "to a group": b"\x03" + good[1:],
        "to all": b"\xff" * 6 + good[6:],
        "cut off": good[:22],
        "about a flow that A has not": frame_of(of, data(A, STRANGER), kind, **fields | {"rlq_id": 8}),
    }
    shown = good.find(data()[:12])
    if shown >= 0:
        frames["about a frame of B"] = good[: shown + 6] + B + good[shown + 12 :]
    if of.name == "qcn":
        frames |= {
            "without feedback": frame_of(of, data(), kind, qntz_fb=0),
            "another flow's id": frame_of(of, data(cn_flow=99), kind, **fields),
            "MSDU too long": good.replace(b"\x00\x40\x08\x00", b"\x00\x41\x08\x00"),
            "MSDU length lies": good[:-4],
        }
    if kind == 4:
        flow_id = decode_lax(good)[E2CM].flow_id.to_bytes(2)
        frames["with another flow's id"] = good[:30] + good[30:].replace(flow_id, b"\x12\x34")
    if of.name == "fecn":
        frames["queue 0"] = frame_of(of, data(), kind, rlq_id=0, rate_kbps=5)
        frames["from a group"] = good[:6] + b"\x03" + good[7:]
        frames["from where the queue sends nothing"] = frame_of(of, data(A, OTHER), kind, **fields)
    return frames


def limits(senders: Any) -> list[tuple[float, int]]:
    """Return the rates of all limiters, and the limiter of each flow."""
    rates = [
        (float(senders.limit_bps(station, n)), n) for station in range(3) for n in range(senders.limiters())
    ]
    routes = [
        (-1.0, int(senders.route(station, flow, PRIORITY, 0))) for station in range(3) for flow in range(8)
    ]
    return rates + routes


@pytest.mark.parametrize(("of", "fields"), TELLING.items(), ids=str)
def test_forged_feedback_changes_no_rate_and_is_counted(of: tuple[str, int], fields: dict[str, int]) -> None:
    name, kind = of
    made = machine(name)
    senders: Any = made.senders(PLACE, np.random.default_rng(1))
    for limiter in (senders.route(1, 0, PRIORITY, 0), senders.route(0, 0, PRIORITY, 0)):
        if limiter >= 0:
            senders.on_enqueue(0, limiter)
    before = limits(senders)
    for what, octets in forged(made, kind, fields).items():
        reader = FeedbackReader(made)
        found = reader.read(data(A), data(B, FAR), octets)
        counted = made.counters(senders)
        for message in found.messages:
            senders.on_message(message, 1)
        assert limits(senders) == before, what
        reacted = {n: c for n, c in made.counters(senders).items() if c != counted[n]}
        refused = {
            n: c for n, c in reader.counted().items() if n not in ("feedback_frames", "heard_messages")
        }
        assert reader.counted()["feedback_frames"] == 1, what
        # Messages are discarded on arrival, or ignored by the reaction point; both are counted.
        if len(found.messages):
            ignored = {"unknown_flow", "without_feedback", "unknown_returns", "unknown_replies"}
            assert ignored & set(reacted), (what, reacted)
        else:
            assert list(refused.values()) == [1], (what, refused)
    # The true one does.
    reader = FeedbackReader(made)
    for message in reader.read(data(A), frame_of(made, data(), kind, **fields)).messages:
        senders.on_message(message, 1)
    if kind != 4:  # a reply is about a flow that is probed
        assert limits(senders) != before


@pytest.mark.parametrize("name", NAMES)
def test_floods_allocate_nothing_and_change_no_rate(name: str) -> None:
    of = machine(name)
    reader = FeedbackReader(of)
    # The number of stations has reached the maximum.
    reader.read(*(data(HOST + bytes([source])) for source in range(PLACE.stations)))
    senders: Any = of.senders(PLACE, np.random.default_rng(1))
    sizes = [len(part) for part in senders if hasattr(part, "__len__")]
    generator = np.random.default_rng(2)
    flood = []
    for number in range(600):
        drawn = generator.bytes(24)
        # Messages differ in destination, source, flow and congestion point. Half of them are random octets.
        about = b"\x02" + drawn[:5] + HOST + bytes([number % 6]) + data(vlan=number, cn_flow=number)[12:]
        octets = frame_of(of, about, **TELLING[name, 1] | {"cpid": number, "rlq_id": number})
        source = b"\x02" + drawn[5:10]
        flood.append(octets[:6] + source + octets[12 : 60 if number % 2 else 40] + drawn[10:])
    tables = table(reader.flows)[1]
    entries = reader.flows._entries.source.size, reader.flows._flows.number.size
    for start in range(0, len(flood), 100):
        for message in reader.read(*flood[start : start + 100]).messages:
            senders.on_message(message, start)
    assert table(reader.flows)[1] == tables
    assert (reader.flows._entries.source.size, reader.flows._flows.number.size) == entries
    assert [len(part) for part in senders if hasattr(part, "__len__")] == sizes
    assert reader.counted()["feedback_frames"] == len(flood)
    assert limits(senders) == limits(of.senders(PLACE, np.random.default_rng(1)))


# PAUSE and PFC


def test_pause_and_pfc_are_for_all_stations() -> None:
    reader = FeedbackReader(machine("none"))
    times = b"".join(time.to_bytes(2) for time in (9, 9, 5, 0, 5, 9, 0, 0))
    mixed = pfc_frame(Signal(0x35, 0), src=CP_MAC)[:18] + times
    found = reader.read(
        data(), pause_frame(Signal(0xFF, 7), src=CP_MAC), mixed.ljust(60, b"\0"), data(),
        pfc_frame(Signal(0x08, 3), src=STRANGER), pfc_frame(Signal(0x00, 3), src=STRANGER),
    )  # fmt: skip
    assert found.message.tolist() == [-1, 0, 1, -1, 3, 4]
    assert found.until.tolist() == [-1, 1, 3, -1, 4, 5]
    assert told(reader.machine, found, "kind", "station", "flow", "enable_vector", "quanta", "time_ns") == [
        (PAUSE_KIND, EVERY_STATION, -1, 0xFF, 7, 100),
        (PFC_KIND, EVERY_STATION, -1, 0x21, 9, 200),
        (PFC_KIND, EVERY_STATION, -1, 0x14, 5, 200),
        (PFC_KIND, EVERY_STATION, -1, 0x08, 3, 400),
        (PFC_KIND, EVERY_STATION, -1, 0x00, 0, 500),
    ]
    assert reader.counted() == {"feedback_frames": 4, "heard_messages": 5}


def test_pauses_of_stations_stop_no_station() -> None:
    reader = FeedbackReader(machine("qcn"))
    pause = pause_frame(Signal(0xFF, 7), src=A)
    # A station is unknown before its first frame.
    assert reader.read(pause, data(), pause).message.tolist() == [0, -1, -1]
    assert reader.read(pause).message.tolist() == [-1]
    assert reader.counted() == {"feedback_frames": 3, "heard_messages": 1, "own_pauses": 2}


@pytest.mark.parametrize(
    "octets",
    [
        A + CP_MAC + b"\x88\x08\x00\x01\xff\xff" + bytes(42),
        pause_frame(Signal(0xFF, 7), src=CP_MAC)[:17],
        bytes.fromhex("0180c2000001") + CP_MAC + b"\x88\x08\x00\x02\xff\xff" + bytes(42),
        bytes.fromhex("0180c2000001") + CP_MAC + b"\x81\x00\x00\x05\x88\x08\x00\x01\xff\xff" + bytes(38),
    ],
    ids=["to one address", "cut off", "unknown opcode", "tagged"],
)
def test_forged_pauses_are_only_counted(octets: bytes) -> None:
    reader = FeedbackReader(machine("qcn"))
    found = reader.read(data(), octets)
    assert len(found.messages) == 0
    assert reader.counted() == {"feedback_frames": 1, "refused_frames": 1}
