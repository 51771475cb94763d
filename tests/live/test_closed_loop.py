"""Reaction points, a port and an edge in a closed loop in virtual time."""

from __future__ import annotations

import numpy as np
import pytest

from ecmproto.units import jain_index
from tests.live.network import Network

DURATION_NS = 160_000_000
PARAMETERS = {
    "qcn": [],
    "ecm": ["rp.ru=1M", "rp.gi=0.0068", "rp.floor=1M", "rp.td=10ms", "cp.sf=30kB", "cp.sr=9kB"],
    "bcn": ["rp.rd=0", "cp.sf=30kB", "cp.sr=9kB"],
    "e2cm": [],
    "fecn": [],
    "dbp": [],
}
"""Parameters for 100 Mb/s where the defaults are for 10 Gb/s."""
ANSWERED = {"e2cm": "BCN_PROBE_REV", "fecn": "FECN return", "dbp": "DBP rate report"}


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", sorted(PARAMETERS))
def test_three_senders_share_a_port_without_drops(mechanism: str) -> None:
    network = Network(mechanism, PARAMETERS[mechanism])
    network.run(DURATION_NS)
    counts = network.port.counts
    # They offer 1.8 times the port's rate: without control 1.6 MB would be waiting by now.
    assert counts.dropped_frames == 0
    assert network.port.snapshot(network.now_ns).gauges["queue_octets"] < 200_000
    shares = network.shares(DURATION_NS // 2)
    assert sum(shares) * 8e9 / (DURATION_NS / 2) > 0.5 * 10**8
    assert jain_index(np.array(shares, float)) > 0.9
    for point in network.points:
        assert point.snapshot(0).mechanism["heard_messages"] > 0
    # The receiver gets the frames of each sender in order, and no frame of the mechanism.
    for sender in range(3):
        got = [each.octets for each in network.received if each.octets[11] == sender + 1]
        assert {(len(octets), octets[12:14]) for octets in got} == {(1500, b"\x99\x99")}
        numbers = [int.from_bytes(octets[14:18]) for octets in got]
        assert numbers == sorted(set(numbers))
    assert not network.to_hosts or {octets[:6] for octets in network.to_hosts} == {b"\xff" * 6}
    if mechanism in ANSWERED:
        assert network.edge.messages[ANSWERED[mechanism]] > 0
    else:
        assert sum(network.port.messages.values()) > 0


def test_without_control_the_buffer_fills() -> None:
    network = Network("none")
    network.run(60_000_000, load=5.0)
    assert network.port.counts.dropped_frames > 100
    assert network.port.snapshot(network.now_ns).gauges["queue_frames"] == 1000
