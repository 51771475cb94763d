"""CSIG's congestion point: values compared and replaced, in single tags, open loops and a live port."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ecmproto.control.engine.config import PortConfig
from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import Arrival, CongestionPoint, new_outbox
from ecmproto.control.replay.open_loop import OpenLoopReplay
from ecmproto.frames.capture.batch import Batch
from ecmproto.wire.codec import EtherTypes, decode
from ecmproto.wire.formats.csig import AVAILABLE, CSIG, DELAY, DEPTH, SHARE
from tests.live.virtual import Clock, switch_port
from tests.replay.loops import CP_MAC, machine

TPID = EtherTypes(csig=0x9900)
GBPS = 10**9
OUTBOX = new_outbox(4)
PLACE = PortContext(
    rate_bps=10 * GBPS, link_rate_bps=10 * GBPS, cp_mac=CP_MAC, stations=1, flows=1, ethertypes=TPID
)
LOCATOR = CP_MAC[-1] & 0x7F


def number(signal: int, value: int, locator: int) -> int:
    return signal << 12 | value << 7 | locator


def point_at(
    *assignments: str, qlen: int = 0, port: int = 0, sent: int = 0, now_ns: int = 100_000
) -> CongestionPoint:
    """Return a port after an interval in which ``sent`` octets were sent, with a frame that was just
    enqueued.
    """
    point = machine("csig", *assignments).congestion_point(PLACE, np.random.default_rng(1))
    point.on_dequeue(50_000, 0, 0, sent, 0, OUTBOX)
    came = Arrival(now_ns, 0, 0, 3, 1500, True, True, True, True, 0, 0, qlen, port)
    point.on_arrival(came, OUTBOX)
    return point


def own(point: CongestionPoint, signal: int) -> int:
    """Return the port's own value of a signal."""
    worst = 31 if signal in (AVAILABLE, SHARE) else 0
    return point.rewrite_tag(3, number(signal, worst, 99)) >> 7 & 31


# In an interval of 100 µs, 10 Gb/s are 125,000 octets.
@pytest.mark.parametrize(
    ("sent", "available"), [(0, 31), (125_000, 0), (62_500, 15), (124_999, 0), (4_000, 30), (200_000, 0)]
)
def test_available_bandwidth_describes_the_previous_interval(sent: int, available: int) -> None:
    point = point_at(sent=sent)
    assert own(point, AVAILABLE) == own(point, SHARE) == available
    assert own(point_at(sent=sent, now_ns=99_999), AVAILABLE) == 31
    # In the interval after that nothing was sent.
    assert own(point_at(sent=sent, now_ns=200_000), SHARE) == 31


def test_buckets_are_as_wide_as_parameters_say() -> None:
    assert own(point_at("cp.rate_step=1G", sent=62_500), AVAILABLE) == 5
    assert own(point_at("cp.rate_step=1G", sent=62_500), SHARE) == 15
    # 12,500 octets take 10 µs.
    assert own(point_at(port=12_500), DELAY) == 10
    assert own(point_at("cp.delay_step=3us", port=12_500), DELAY) == 3
    assert own(point_at(port=10**6), DELAY) == 31
    assert own(point_at(qlen=47_999, port=10**6), DEPTH) == 2
    assert own(point_at("cp.depth_step=1kB", qlen=30_999), DEPTH) == 30


@given(
    st.integers(0, 7), st.integers(0, 31), st.integers(0, 127), st.integers(0, 10**6), st.integers(0, 10**5)
)
def test_value_is_replaced_where_ports_says_more(
    signal: int, value: int, locator: int, queue: int, sent: int
) -> None:
    point = point_at(qlen=queue, port=queue, sent=sent)
    free = max(0.0, 1 - sent / 125_000)
    values = [int(31 * free), int(31 * free), min(31, queue * 8 // 10_000), min(31, queue // 16_000)]
    after = point.rewrite_tag(3, number(signal, value, locator))
    if signal > DEPTH:
        expected = value, locator
    elif signal in (AVAILABLE, SHARE):
        expected = min((value, locator), (values[signal], LOCATOR), key=lambda pair: pair[0])
    else:
        expected = max((value, locator), (values[signal], LOCATOR), key=lambda pair: pair[0])
    assert (after >> 12, after >> 7 & 31, after & 127) == (signal, *expected)


def tagged(signal: int, value: int, *, reserved: int = 1, priority: int = 3) -> bytes:
    word = signal << 13 | reserved << 12 | value << 7 | 99
    head = bytes.fromhex("0200000000fa 020000000001 8100") + (priority << 13 | 5).to_bytes(2)
    return head + bytes.fromhex("9900") + word.to_bytes(2) + b"\x99\x98" + bytes(1000)


def signals(octets: bytes) -> tuple[int, int, int, int]:
    tag = decode(octets, ethertypes=TPID)[CSIG]
    return tag.t, tag.r, tag.s, tag.lm


def test_open_loop_rewrites_existing_tags_only() -> None:
    frames = [tagged(DEPTH, 0), bytes(tagged(DEPTH, 0)[:12]) + b"\x99\x98" + bytes(1000)] * 40
    batch = Batch.from_frames(frames, time_ns=[100 * n for n in range(len(frames))])
    port = PortConfig(rate_bps=GBPS, buffer_octets=10**6, cp_mac=CP_MAC)
    replay = OpenLoopReplay([batch], machine=machine("csig"), port=port, seed=1, ethertypes=TPID)
    (replayed,) = replay
    went = list(replayed.forwarded().frames())
    depths = [signals(octets) for octets in went[::2]]
    assert depths[0] == (DEPTH, 1, 0, 99)
    assert depths[-1] == (DEPTH, 1, 40 * 1022 // 16_000, LOCATOR)
    assert went[1::2] == frames[1::2]
    # The tag's two octets are behind the addresses, the VLAN tag and its EtherType.
    assert all(a[:18] + a[20:] == b[:18] + b[20:] for a, b in zip(went[::2], frames[::2], strict=True))
    summary = replay.summary().ports[0]
    assert summary.counters["tagged_frames"] == 40
    assert summary.remarks == ()


def test_missing_ethertype_writes_nothing_and_is_reported() -> None:
    batch = Batch.from_frames([tagged(DEPTH, 0)] * 9, time_ns=list(range(9)))
    port = PortConfig(rate_bps=GBPS, buffer_octets=10**6, cp_mac=CP_MAC)
    replay = OpenLoopReplay([batch], machine=machine("csig"), port=port, seed=1)
    (replayed,) = replay
    assert list(replayed.forwarded().frames()) == list(batch.frames())
    (remark,) = replay.summary().ports[0].remarks
    assert remark.startswith("CSIG wrote nothing: ")


def test_a_live_port_writes_signals() -> None:
    clock = Clock()
    port = switch_port(clock, machine("csig", "cp.locator=7"), ethertypes=TPID, rate_bps=10**8)
    for _ in range(40):
        port.take(Batch.from_frames([tagged(DELAY, 3)]), 0, clock.now_ns)
    clock.pass_until(port, clock.now_ns + GBPS)
    found = [signals(octets) for octets in clock.out_of(2)]
    # A frame of 1022 octets takes 84 µs, including its overhead.
    assert found == [(DELAY, 1, 31, 7)] * 40
