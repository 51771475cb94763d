"""ECM as a sequence of frames between two ends. Each end receives exactly the octets that the other end
sent.
"""

from __future__ import annotations

import numpy as np

from ecmproto.control.mechanisms.aimd.congestion_point import count, start
from ecmproto.control.mechanisms.aimd.reaction_point import TIMED_OUT, route
from ecmproto.control.mechanisms.api.protocol import NO_LIMITER
from ecmproto.control.mechanisms.ecm import congestion_point, reaction_point
from ecmproto.control.mechanisms.ecm.congestion_point import REGULAR, SEVERE, SILENT, ECMPointState
from ecmproto.control.mechanisms.ecm.parameters import (
    ECMCongestionPointParameters,
    ECMReactionPointParameters,
)
from ecmproto.wire.codec import ECM, CMTag, decode
from tests.mechanisms.aimd.station import Station, new_reaction_point, new_state
from tests.mechanisms.ecm.frames import ecm_frame, read, tag_cpid, tagged, untagged

SOURCE = bytes.fromhex("020000000002")
FRAME = bytes.fromhex("020000000001") + SOURCE + bytes.fromhex("810060059000") + bytes(1484)
LINK = 10_000_000_000


class Bridge:
    """A congestion point that samples every frame."""

    def __init__(self, number: int) -> None:
        self.mac = bytes([2, 0, 0, 0, 0xCC, number])
        self.parameters = ECMCongestionPointParameters(fixed_octets=0)
        self.settings = congestion_point.settings_record(self.parameters)
        self.state = new_state(ECMPointState, int.from_bytes(self.mac) << 16 | 1)
        self.generator = np.random.default_rng(1)
        start(self.state, self.settings, self.generator)
        self.said = SILENT

    def forward(self, frame: bytes, qlen: int) -> bytes | None:
        assert count(self.state, self.settings, len(frame), qlen, True)
        feedback = congestion_point.sample(self.state, self.settings, self.generator, qlen, tag_cpid(frame))
        self.said = feedback.kind
        if feedback.kind == SILENT:
            return None
        return ecm_frame(frame, feedback, state=self.state, cp_mac=self.mac, parameters=self.parameters)


class Sender:
    def __init__(self) -> None:
        self.parameters = ECMReactionPointParameters()
        settings = reaction_point.settings_record(self.parameters, LINK)
        limiters = new_reaction_point(self.parameters, settings, 0)
        self.station = Station(limiters, settings, reaction_point.receive)

    def sends(self) -> bytes:
        """Return a frame of the flow, tagged if a limiter released the frame."""
        index = route(self.station.limiters, 1, 3)
        if index == NO_LIMITER:
            return FRAME
        stamp = reaction_point.ticks(self.station.now_ns, 0)
        return tagged(FRAME, self.station.slots[index], point=self.station.point, timestamp=stamp, unit=0)

    def hears(self, frame: bytes | None) -> None:
        assert frame is not None
        found = read(frame, stations=(SOURCE,), point=self.station.point, parameters=self.parameters)
        assert found is not None
        message, flow = found
        self.station.receive(message, 1, flow.priority)

    @property
    def rate(self) -> float | None:
        return self.station.rate(1, 3)


def test_slow_down_then_speed_up() -> None:
    """S000 2 and Figure 2: congestion begins and ends."""
    bridge, sender = Bridge(1), Sender()
    # A short queue and no tag: nothing to say.
    assert bridge.forward(sender.sends(), 1500) is None
    # The queue passes its equilibrium: the flow gets a limiter at C/2.
    sender.hears(bridge.forward(sender.sends(), 30_000))
    assert sender.rate == LINK / 2
    # From now on frames carry the bridge's CPID.
    frame = sender.sends()
    assert decode(frame)[CMTag].cpid == int.from_bytes(bridge.mac) << 16 | 1
    sender.hears(bridge.forward(frame, 45_000))
    slower = sender.rate
    assert slower is not None
    assert slower < LINK / 2
    # The queue drains below the equilibrium: tagged frames are answered with an increase.
    sender.hears(bridge.forward(sender.sends(), 10_000))
    faster = sender.rate
    assert faster is not None
    assert faster > slower
    # Untagged frames of others are not.
    assert bridge.forward(FRAME, 5_000) is None
    # At its destination, the frame equals the original frame.
    assert untagged(sender.sends()) == FRAME


def test_severe_congestion_silences_and_restarts() -> None:
    """S000 3.3.2 and Figure 8."""
    bridge, sender = Bridge(1), Sender()
    sender.hears(bridge.forward(sender.sends(), 130_000))
    assert bridge.said == SEVERE
    assert sender.rate == 0
    assert sender.station.limiter(1, 3).status == TIMED_OUT
    # Messages during this time are ignored.
    sender.hears(bridge.forward(FRAME, 30_000))
    assert sender.rate == 0
    sender.station.advance(10_000)
    assert sender.rate == 100e6
    # The reply to the first frame afterwards requests an increase, which resets Rmin and Tmax.
    assert sender.station.limiter(1, 3).restart_bps == 50e6
    sender.hears(bridge.forward(sender.sends(), 3_000))
    assert sender.station.limiter(1, 3).restart_bps == 100e6


def test_association_moves_to_bridge_that_slows_down() -> None:
    """S000 3.3: two congestion points on one path."""
    first, second, sender = Bridge(1), Bridge(2), Sender()
    sender.hears(first.forward(sender.sends(), 30_000))
    assert second.forward(sender.sends(), 10_000) is None
    sender.hears(second.forward(sender.sends(), 40_000))
    assert tag_cpid(sender.sends()) == second.state.cpid
    # The first may no longer speed the flow up, and does not try.
    assert first.forward(sender.sends(), 10_000) is None
    sender.hears(second.forward(sender.sends(), 10_000))
    assert sender.station.point.increased == 1


def test_round_trip_time_is_measured_by_tags_timestamp() -> None:
    bridge, sender = Bridge(1), Sender()
    sender.station.now_ns = 5_000_000
    sender.hears(bridge.forward(sender.sends(), 30_000))
    message = bridge.forward(sender.sends(), 40_000)
    assert bridge.said == REGULAR
    assert message is not None
    assert decode(message)[ECM].timestamp == 5_000
    sender.station.now_ns += 25_000
    sender.hears(message)
    assert sender.station.limiter(1, 3).rtt_average_ns == 25_000
