"""Open-loop replay of all types of captures: times, lengths, settings and summaries."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

from ecmproto.control.engine.config import PortConfig
from ecmproto.control.engine.port import DROPPED, ENQUEUED, PASSED_BY
from ecmproto.control.mechanisms.qcn.parameters import QCNCongestionPointParameters
from ecmproto.errors import ParameterError
from ecmproto.frames.capture.batch import Batch, Interface
from tests.replay.captures import batch_of, overload, replay
from tests.replay.slow_port import Arriving


def test_queue_lengths_exclude_the_fcs() -> None:
    with_fcs = Batch.from_frames([bytes(64)] * 3, time_ns=0)
    (part,) = replay(with_fcs, interfaces=[Interface(index=0, linktype=1, fcs_octets=4)])
    assert part.qlen_octets.tolist() == [60, 120, 180]


def test_decreasing_times_are_clamped_and_counted() -> None:
    frames = [Arriving(1_000, 1_000, 0), Arriving(0, 1_000, 0), Arriving(999, 60, 0), Arriving(1_001, 60, 0)]
    run = replay(batch_of(frames))
    (part,) = run
    assert part.qlen_octets.tolist() == [1_000, 2_000, 2_060, 2_120]
    assert run.summary().backwards == 2
    assert run.summary().duration_ns == 1


def test_frames_without_time_arrive_at_latest_time_seen() -> None:
    batch = batch_of([Arriving(0, 60, 0), Arriving(0, 60, 0), Arriving(5, 60, 0), Arriving(0, 60, 0)])
    timed = dataclasses.replace(
        batch, timed=np.array([False, True, True, False]), time_ns=batch.time_ns * np.array([0, 1, 1, 0])
    )
    run = replay(timed)
    list(run)
    summary = run.summary()
    assert (summary.untimed, summary.backwards) == (2, 0)
    assert (summary.first_time_ns, summary.duration_ns) == (batch.time_ns[1], 5)


def test_extreme_times_and_lengths_are_handled() -> None:
    extremes = [0, -(2**63), 2**63 - 1, 5, 2**63 - 1, -(2**63)]
    batch = Batch.from_frames([bytes(60)] * 6, time_ns=extremes, original=[60, 2**32 - 1, 0, 1, 60, 60])
    run = replay(batch)
    (part,) = run
    assert part.engine_batch.arrivals.octets.tolist() == [60, 2**32 - 1, 60, 60, 60, 60]
    summary = run.summary()
    assert summary.ports[0].dropped_frames == 1
    assert summary.backwards == 3
    assert summary.duration_ns == 2**61


def test_empty_frames_pass_by() -> None:
    (part,) = replay(Batch.from_frames([b"", b"\0" * 14]))
    assert part.disposition.tolist() == [PASSED_BY, ENQUEUED]


def test_only_the_cn_priorities_have_a_congestion_point() -> None:
    run = replay(batch_of(overload(3_000)), parameters=QCNCongestionPointParameters.parse(["cnpv=3"]))
    (part,) = run
    assert set(part.messages["priority"].tolist()) == {3}


def test_summary_counters_are_consistent() -> None:
    frames = overload(5_000, load=2.0)
    run = replay(batch_of(frames[:2_000]), batch_of(frames[2_000:], first=2_000), seed=9)
    parts = list(run)
    summary = run.summary()
    assert summary.frames == 5_000
    assert summary.octets == 5_000 * 1_514
    (port,) = summary.ports
    assert port.dropped_frames == sum(int((part.disposition == DROPPED).sum()) for part in parts) > 0
    assert port.dropped_octets == port.dropped_frames * 1_514 == 1_514 * sum(port.drops.frames)
    assert port.samples == sum(port.fb_histogram) > 0
    assert port.messages == {"CNM": sum(port.fb_histogram[1:])}
    assert (port.unanswered, summary.seed) == (0, 9)
    assert 0.99 < port.utilisation < 1
    assert summary.first_time_ns == 1_600_000_000_000_000_000
    assert json.loads(json.dumps(summary.as_dict())) == summary.as_dict()


def test_the_trace_agrees_with_the_statistics() -> None:
    run = replay(batch_of(overload(4_000)))
    list(run)
    summary = run.summary()
    (port,) = summary.ports
    trace = port.trace
    spans = len(trace.mean_octets)
    assert 256 <= spans <= 512
    last_ns = summary.duration_ns - (spans - 1) * trace.span_ns
    integral = sum(trace.mean_octets[:-1]) * trace.span_ns + trace.mean_octets[-1] * last_ns
    assert integral / summary.duration_ns == pytest.approx(port.queue.mean_octets)
    # The level after the last arrival stands for no time at all.
    assert max(trace.peak_octets) in (port.queue.peak_octets, port.queue.peak_octets - 1_514)


def test_a_replay_without_frames_has_zeros() -> None:
    summary = replay().summary()
    (port,) = summary.ports
    assert (summary.frames, summary.duration_ns, port.utilisation) == (0, 0, 0.0)
    assert (port.queue.mean_octets, port.queue.p99_octets) == (0.0, 0)
    assert port.queue_by_priority == {}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rate_bps": 999}, "rate: expected 1000 to 10000000000000 bit/s, got 999"),
        ({"buffer_octets": 0}, "buffer: expected 1 to 1000000000 octets, got 0"),
        ({"overhead_octets": -1}, "overhead: expected 0 to 1000 octets, got -1"),
        ({"seed": -1}, "seed: expected a whole number from 0 on, got -1"),
    ],
)
def test_settings_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError) as caught:
        replay(**options).summary()
    assert str(caught.value) == message


@pytest.mark.parametrize("cp_mac", [b"", bytes(5), bytes.fromhex("0180c2000001")])
def test_a_group_cp_mac_is_refused(cp_mac: bytes) -> None:
    with pytest.raises(ParameterError, match="cp_mac"):
        PortConfig(rate_bps=1000, buffer_octets=1, cp_mac=cp_mac)
