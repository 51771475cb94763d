"""Two congestion points on one port behind the interface of one: flow control beneath a mechanism, say."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ecmproto.mechanisms.protocol import Arrival, CongestionPoint, Outbox
from ecmproto.structs import Struct


class Both(Struct):
    """Two congestion points that know nothing of one another; ``first`` always comes first.

    Each sees every frame as it came to the port.  Where one may post so many messages, both may post twice
    as many.  Either may be two again.
    """

    first: CongestionPoint
    second: CongestionPoint

    def arrived(self, arrival: Arrival, outbox: Outbox) -> None:
        """Let both count, sample and answer the frame."""
        self.first.arrived(arrival, outbox)
        self.second.arrived(arrival, outbox)

    def forwarded(self, priority: int, tag: int) -> int:
        """Return what the second makes of what the first makes of the tag."""
        return self.second.forwarded(priority, self.first.forwarded(priority, tag))

    def left(
        self, now_ns: int, station: int, priority: int, octets: int, port_octets: int, outbox: Outbox
    ) -> None:
        """Let both take note."""
        self.first.left(now_ns, station, priority, octets, port_octets, outbox)
        self.second.left(now_ns, station, priority, octets, port_octets, outbox)

    def tick_ns(self) -> int:
        """Return when the earlier of both needs `tick`."""
        return min(self.first.tick_ns(), self.second.tick_ns())

    def tick(self, now_ns: int, qlens_octets: NDArray[np.int64], outbox: Outbox) -> None:
        """Let those do what is due whose time has come."""
        if self.first.tick_ns() <= now_ns:
            self.first.tick(now_ns, qlens_octets, outbox)
        if self.second.tick_ns() <= now_ns:
            self.second.tick(now_ns, qlens_octets, outbox)
