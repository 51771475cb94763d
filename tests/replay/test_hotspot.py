"""A small hotspot in a closed loop: four sources of 10 Gb/s each share 10 Gb/s and 500 kB."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from ecmproto.control.engine.config import LoopConfig, PortConfig
from ecmproto.control.replay.closed_loop import ClosedLoopReplay
from ecmproto.control.replay.summary import ReplaySummary
from ecmproto.frames.capture.batch import Batch
from tests.replay.loops import START_NS, TEN_G, Sent, machine, octets_of

SOURCES = 4
SLOT_NS = 1_220
"""1500 octets and 24 of overhead at 10 Gb/s."""
BUFFER_OCTETS = 500_000


@cache
def capture(milliseconds: int) -> Batch:
    """Return the frames of all sources back to back, each a quarter of a slot after the one before."""
    slots = np.arange(0, milliseconds * 10**6, SLOT_NS)
    times_ns = (slots[:, np.newaxis] + np.arange(SOURCES) * SLOT_NS // SOURCES).reshape(-1)
    frames = [
        np.frombuffer(octets_of(Sent(0, source + 1, priority=3)), np.uint8) for source in range(SOURCES)
    ]
    matrix = np.tile(np.stack(frames), (len(slots), 1))
    return Batch.from_matrix(matrix, time_ns=START_NS + times_ns, original=1_500)


def hot_spot(name: str, *assignments: str, seed: int = 1, milliseconds: int = 80) -> ReplaySummary:
    run = ClosedLoopReplay(
        [capture(milliseconds)],
        machine=machine(name, *assignments),
        port=PortConfig(rate_bps=TEN_G, buffer_octets=BUFFER_OCTETS),
        loop=LoopConfig(link_rate_bps=TEN_G),
        seed=seed,
    )
    for _ in run:
        pass
    return run.summary()


@pytest.mark.parametrize("seed", range(1, 7))
def test_qcn_keeps_the_queue_without_drops(seed: int) -> None:
    (port,) = hot_spot("qcn", seed=seed).ports
    assert port.dropped_frames == 0
    assert 20_000 <= port.second_half_mean_octets <= 32_000
    assert port.utilisation > 0.95
    assert port.messages["CNM"] > 100


def test_without_control_the_buffer_fills_and_overflows() -> None:
    summary = hot_spot("none")
    (port,) = summary.ports
    # Three of four frames find it full.
    assert 0.70 < port.dropped_frames / port.frames < 0.76
    assert port.queue.peak_octets > BUFFER_OCTETS - 1_500
    assert port.second_half_mean_octets > BUFFER_OCTETS - 6_000
    assert summary.stations is not None
    assert summary.stations.held_out_frames == 0


@pytest.mark.parametrize("seed", [1, 2])
def test_fecn_shares_equally_without_drops(seed: int) -> None:
    summary = hot_spot("fecn", seed=seed)
    assert summary.stations is not None
    assert summary.stations.fairness >= 0.999
    assert summary.ports[0].dropped_frames == 0
    assert summary.ports[0].second_half_mean_octets < 60_000
    shares = [flow.second_half_bps for flow in summary.flows]
    assert len(shares) == SOURCES
    assert max(shares) / min(shares) < 1.02
    assert 8e9 < sum(shares) < TEN_G


@pytest.mark.parametrize("name", ["pause", "pfc"])
def test_flow_control_keeps_utilisation_without_drops(name: str) -> None:
    thresholds = ("cp.pause_on=output", f"cp.high={2 * BUFFER_OCTETS // 3}B", f"cp.low={BUFFER_OCTETS // 3}B")
    summary = hot_spot(name, *thresholds, milliseconds=20)
    assert summary.ports[0].dropped_frames == 0
    assert summary.ports[0].utilisation > 0.99
    assert summary.stations is not None
    assert summary.stations.paused_ns > 0


def test_flows_are_labelled_by_source_address() -> None:
    assert [flow.label for flow in hot_spot("none", milliseconds=1).flows] == [
        f"02:00:00:00:00:0{source}" for source in range(1, SOURCES + 1)
    ]
