"""The Swift mechanism. Frames have HPCC's telemetry tag, and HPCC's destinations acknowledge each frame.

Of the tag, Swift uses three fields: the sender writes the number of octets and the time of the first record.
Each port counts the hop, as a router decrements the TTL of a packet.
"""

from __future__ import annotations

from types import MappingProxyType

import numpy as np

from ecmproto.control.mechanisms.api.frames import MessageFormat
from ecmproto.control.mechanisms.api.machine import PortContext
from ecmproto.control.mechanisms.api.protocol import (
    CongestionPoint,
    NullCongestionPoint,
    Senders,
)
from ecmproto.control.mechanisms.hpcc.machine import ACK_KIND, HPCCMachine, HPCCReceivers
from ecmproto.control.mechanisms.hpcc.reaction_point import AckPayload
from ecmproto.control.mechanisms.swift.reaction_point import (
    HOPS,
    SwiftStations,
    new_stations,
)
from ecmproto.kernels.record import new_record
from ecmproto.wire.codec.tags import TagFormat
from ecmproto.wire.formats.hpcc import HPCCAck, INTTag

_ECHO = ("time1", "nhop")


class SwiftPortState:
    """Record of a port's counter (``kernels.record``)."""

    tagged_frames: int


class SwiftPort(NullCongestionPoint):
    """A port, which only counts the hop of each tagged frame."""

    state: SwiftPortState

    def rewrite_tag(self, priority: int, tag: int) -> int:
        """Return the tag with one more hop, up to the maximum of the field."""
        self.state.tagged_frames += 1
        return tag + int(tag & HOPS < HOPS)


class SwiftMachine(HPCCMachine):
    """Swift with parameters."""

    tag = TagFormat(format=INTTag, tag=_ECHO, mark=("seq",), constants={"protocol": 5, "type": 0})
    messages = MappingProxyType(
        {
            ACK_KIND: MessageFormat(
                format=HPCCAck,
                name="Swift acknowledgement",
                payload=AckPayload,
                packed={"tag": _ECHO, "mark": ("seq",)},
                is_answer=True,
            )
        }
    )

    counted = MappingProxyType(
        {
            SwiftPort: ("state", "tagged_frames"),
            SwiftStations: (
                "points", "acks", "unknown_flow", "stale", "increases", "decreases", "losses", "timeouts",
            ),
            HPCCReceivers: ("counts", "acknowledged"),
        }
    )  # fmt: skip

    def congestion_point(self, context: PortContext, generator: np.random.Generator) -> CongestionPoint:
        """Return the congestion point of a port."""
        return SwiftPort(new_record(SwiftPortState))

    def senders(self, context: PortContext, generator: np.random.Generator) -> Senders:
        """Return reaction points before the first frames."""
        return new_stations(self._rp, context)

    def remarks(self, point: CongestionPoint) -> tuple[str, ...]:
        """Return a remark if no frame had a tag."""
        if not isinstance(point, SwiftPort) or point.state.tagged_frames:
            return ()
        return ("Swift ports only count the hops of tagged frames: senders add the tags (--rp swift)",)
